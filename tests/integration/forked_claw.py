"""The command line in forks of a process that has imported claw: a command costs its work, and no imports.

``python forked_claw.py`` reads a JSON line for each command from stdin, runs it in a fork, and answers with a JSON line.
Its second argument, a ``Confinement`` as JSON, restricts what the commands can write; ``confinement.py`` does that.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from integration.confinement import Confinement, confine

SECONDS = 60.0


@dataclass
class ForkServer:
    """The process from which commands are forked."""

    process: "subprocess.Popen[str] | None" = None
    confined: "Confinement | None" = None

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run one command (``args``, ``cwd``, ``env`` as for ``subprocess``) and return code, stdout and stderr."""
        if self.process is None:
            words = [json.dumps(asdict(self.confined))] if self.confined else []
            self.process = subprocess.Popen(
                [sys.executable, __file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        """End the process."""
        if self.process:
            self.process.communicate()


def main() -> None:
    """Serve commands until stdin ends."""
    import claw.app
    import claw.cli.main
    import pydantic
    import typer

    assert claw.app, (claw.cli.main, pydantic, typer)
    if sys.argv[1:]:
        confine(Confinement(**json.loads(sys.argv[1])))
    for line in sys.stdin:
        order = json.loads(line)
        pipes = [os.pipe(), os.pipe()]
        pid = os.fork()
        if pid == 0:
            _child(order, [written for _, written in pipes])
        for _, written in pipes:
            os.close(written)
        code, texts = _ended(pid, [read for read, _ in pipes])
        out, err = (text.decode(errors="replace") for text in texts)
        print(json.dumps({"code": code, "out": out, "err": err}), flush=True)


def _ended(pid: int, pipes: list[int]) -> tuple[int, list[bytes]]:
    """Wait for the end of a process; return its exit code, and what is in the pipes by then: one that it started may
    hold them open."""
    until, texts = time.monotonic() + SECONDS, [b""] * len(pipes)
    for pipe in pipes:
        os.set_blocking(pipe, False)
    ended = status = 0
    while not ended:
        if time.monotonic() > until:
            os.kill(pid, 9)
        ended, status = os.waitpid(pid, os.WNOHANG)
        for number, pipe in enumerate(pipes):
            with suppress(BlockingIOError):
                while part := os.read(pipe, 65536):
                    texts[number] += part
        if not ended:
            time.sleep(0.002)
    for pipe in pipes:
        os.close(pipe)
    return os.waitstatus_to_exitcode(status), texts


def _child(order: dict[str, Any], pipes: list[int]) -> None:
    code = 99
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((null, *pipes)):
            os.dup2(file, number)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as a new process has it
        os.environ.clear()
        os.environ.update(order["env"])
        sys.path[:] = [*filter(None, order["env"]["PYTHONPATH"].split(os.pathsep)), *sys.path[1:]]
        if (site := Path(sys.path[0], "sitecustomize.py")).is_file():
            exec(site.read_text(), {})  # as a new process does
        os.chdir(order["cwd"])
        sys.argv = ["claw", *order["words"]]
        from claw.__main__ import main as claw_main

        claw_main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as why:
        print(repr(why), file=sys.stderr)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
