"""One ``claw gateway run`` process: start, kill, stop. It is started as a supervisor starts it, or forked.

A forked process is the same one but for its imports, which cost most of the processor time of a short life.
"""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from rigs.nursery import Nursery

STOP_SECONDS = 40.0


class GatewayProcess:
    """A process that serves.

    :ivar pid: of the process.
    :ivar killed: the rig has sent a signal to it.
    """

    def __init__(self, pid: int, end: Coroutine[Any, Any, int]) -> None:
        self.pid, self.killed, self._end = pid, False, asyncio.ensure_future(end)

    @classmethod
    async def fork(
        cls, nursery: Nursery, folder: Path, environ: Mapping[str, str], said: Path
    ) -> "GatewayProcess":
        """Fork a gateway from a process that has imported everything."""
        life = await nursery.begin_in(folder, environ, said)
        return cls(life.pid, life.ended(None))

    @classmethod
    async def start(
        cls, folder: Path, environ: Mapping[str, str], said: Path, descriptors: int = 0
    ) -> "GatewayProcess":
        """Start a gateway in a folder; its output is appended to ``said``.

        :param descriptors: hard and soft limit of open files; 0 = as they are.
        """
        python = environ.get("RIG_PYTHON") or sys.executable
        limit = (descriptors, descriptors)
        preexec = (lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)) if descriptors else None
        with said.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                python, "-m", "claw", "gateway", "run", cwd=folder, env=dict(environ),
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=preexec,
            )  # fmt: skip
        return cls(process.pid, process.wait())

    def kill(self) -> None:
        """Kill the process, as a machine does that runs out of memory."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to end."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self.code is None:
            self.killed = True
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    async def wait(self, seconds: float) -> bool:
        """Wait so long for the end of the process; return true if it has ended.

        When the time is over, the system is asked: on a busy machine the loop of the rig, which serves many storms, may
        be late by more than that, and the news of an end passes through several of its turns.
        """
        try:
            await asyncio.wait_for(asyncio.shield(self._end), seconds)
        except TimeoutError:
            if not _has_ended(self.pid):
                return False
            await asyncio.wait({self._end}, timeout=seconds)
        return True

    @property
    def code(self) -> int | None:
        """Exit code; negative = the signal that killed it; None = it runs."""
        return self._end.result() if self._end.done() else None


def _has_ended(pid: int) -> bool:
    """Return true if a process has ended, also while nobody has asked for its exit code (Linux, proc(5))."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return Path("/proc/self").exists() and not Path(f"/proc/{pid}").exists()


def where_it_is(pid: int) -> str:
    """Return state and kernel function of each thread of a process (Linux, proc(5)); empty elsewhere."""
    found = []
    for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
        try:
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            found.append(f"{task.name} {state} {(task / 'wchan').read_text()}")
        except OSError:
            continue
    return ", ".join(found)
