"""A process that has imported everything and forks gateways that run ``claw gateway run``.

A life so begun is the real one but for its imports, which cost most of a start: a hundred lives take a minute. Lives can
be begun from the command line too. Run as a program, it takes orders from stdin, one JSON document a line.
"""

import asyncio
import json
import os
import pkgutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn, Self

_GROUP = "claw.plugins"
_VENDORS = (
    "openai", "openai.resources.chat", "discord", "aiohttp", "httpx2", "websockets.asyncio.client", "uvicorn",
    "uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on", "starlette.applications", "starlette.routing",
    "cryptography.hazmat.primitives.ciphers", "jsonschema", "anyio._backends._asyncio", "markdown_it", "markdown_it.tree",
    "claw_http_sdk.pooled_transport", "claw_http_sdk.guarded_transport",
)  # fmt: skip
_ARGV = ("gateway", "run")


class Life:
    """A gateway process.

    :ivar over: set when it has ended.
    """

    def __init__(self, pid: int, process: "asyncio.subprocess.Process | None", nursery: "Nursery") -> None:
        self.pid, self._process, self._nursery = pid, process, nursery
        self.over = asyncio.Event()
        self._fd = os.pidfd_open(pid)  # readable once the process is gone
        asyncio.get_running_loop().add_reader(self._fd, self._gone)

    def _gone(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self.over.set()

    def signal(self, number: int) -> None:
        """Send it a signal, if it lives."""
        if not self.over.is_set():
            os.kill(self.pid, number)

    async def lives(self, seconds: float) -> bool:
        """Wait so long for its end; whether it lives still."""
        try:
            await asyncio.wait_for(self.over.wait(), seconds)
        except TimeoutError:
            return True
        return False

    async def ended(self, seconds: float | None = 20) -> int:
        """Wait for its end; the exit code, negative = the signal that killed it."""
        await asyncio.wait_for(self.over.wait(), seconds)
        if self._process is not None:
            return await self._process.wait()
        return await self._nursery.order(wait=self.pid)


class Nursery:
    """Begins lives in one folder; ``async with`` ends them all.

    :param environ: what every life has.
    :param said: the file that takes what lives say on stdout and stderr.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str], said: Path) -> None:
        self._folder, self._environ, self._said = folder, dict(environ), said
        self._process: asyncio.subprocess.Process | None = None
        self._lives: list[Life] = []
        self._order = asyncio.Lock()

    async def __aenter__(self) -> Self:
        environ = {**self._environ, "PYDANTIC_DISABLE_PLUGINS": "__all__"}
        with self._said.open("ab") as said:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, str(Path(__file__)), cwd=self._folder, env=environ, stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE, stderr=said,
            )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        for life in self._lives:
            if not life.over.is_set():
                life.signal(signal.SIGKILL)
                await life.ended()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def begin_in(self, folder: Path, environ: Mapping[str, str], said: Path) -> Life:
        """Start a gateway, forked, in a folder and with an environment of its own."""
        life = Life(await self.order(start=dict(environ), said=str(said), folder=str(folder)), None, self)
        self._lives = [one for one in self._lives if not one.over.is_set()] + [life]
        return life

    async def begin(self, *, plain: bool = False, **environ: str) -> Life:
        """Start a gateway.

        :param plain: from the command line, imports and all.
        """
        if plain:
            with self._said.open("ab") as said:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "claw", *_ARGV, cwd=self._folder, env={**self._environ, **environ},
                    stdin=asyncio.subprocess.DEVNULL, stdout=said, stderr=said,
                )  # fmt: skip
            life = Life(process.pid, process, self)
        else:
            life = Life(await self.order(start=environ, said=str(self._said)), None, self)
        self._lives = [one for one in self._lives if not one.over.is_set()] + [life]
        return life

    def last_words(self) -> str:
        """The end of what lives said."""
        return self._said.read_text(errors="replace")[-500:]

    async def order(self, **what: Any) -> int:
        """Tell the process; its answer."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._order:
            self._process.stdin.write(json.dumps(what).encode() + b"\n")
            answer = await self._process.stdout.readline()
        assert answer, "the nursery has died"
        return int(answer)


def _obey() -> None:
    """The process's own loop. Nothing in it may start a thread: lives are forked from it."""
    for name in _VENDORS:
        import_module(name)
    for name in ("claw", *sorted({one.module.partition(".")[0] for one in entry_points(group=_GROUP)})):
        if not name.startswith("claw"):
            continue  # a third party's plugin is imported by each life
        package = import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if ".fake" not in found.name and not found.name.startswith(("claw.testing", "claw.__main__")):
                with suppress(Exception):  # a life says it better
                    import_module(found.name)
    for line in sys.stdin.buffer:
        order = json.loads(line)
        if "wait" in order:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["wait"], 0)[1])
        elif not (answer := os.fork()):
            _live(order)
        os.write(1, b"%d\n" % answer)


def _live(order: Mapping[str, Any]) -> NoReturn:
    from claw import __main__
    from claw_gateway.process import failpoint

    said = os.open(order["said"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for fd in (1, 2):
        os.dup2(said, fd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(order["start"])
    if "folder" in order:
        os.chdir(order["folder"])
        sys.path[1:1] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    failpoint.arm(os.environ.get("CLAW_FAILPOINT", ""))
    sys.argv = ["claw", *_ARGV]
    code = 1
    try:
        __main__.main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        os._exit(code)


if __name__ == "__main__":
    _obey()
