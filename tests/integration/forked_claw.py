"""The command line in forks of a process that has imported claw: a command costs its work, and no imports.

``python forked_claw.py`` reads a JSON line for each command from stdin, runs it in a fork, and answers with a JSON line.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 60.0


@dataclass
class ForkServer:
    """The process from which commands are forked."""

    process: "subprocess.Popen[str] | None" = None

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Run one command (``args``, ``cwd``, ``env`` as for ``subprocess``) and return code, stdout and stderr."""
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
    for line in sys.stdin:
        order = json.loads(line)
        out, err = Path(order["cwd"], ".out"), Path(order["cwd"], ".err")
        pid = os.fork()
        if pid == 0:
            _child(order, out, err)
        code = _ended(pid)
        texts = {"out": out.read_text(errors="replace"), "err": err.read_text(errors="replace")}
        print(json.dumps({"code": code, **texts}), flush=True)


def _ended(pid: int) -> int:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return -9


def _child(order: dict[str, Any], out: Path, err: Path) -> None:
    code = 99
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for path in (out, err)]
        for number, file in enumerate((null, *files)):
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
