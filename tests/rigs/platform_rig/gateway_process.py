"""One ``claw gateway run`` process: start, kill, stop. It is started as a supervisor starts it."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

STOP_SECONDS = 40.0


class GatewayProcess:
    """A process that serves.

    :ivar pid: of the process.
    :ivar killed: the rig has sent a signal to it.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process, self.pid, self.killed = process, process.pid, False

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
                python, "-m", "claw", "gateway", "run", "--no-safe", cwd=folder, env=dict(environ),
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, preexec_fn=preexec,
            )  # fmt: skip
        return cls(process)

    def kill(self) -> None:
        """Kill the process, as a machine does that runs out of memory."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the process to end."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            self.killed = True
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    async def wait(self, seconds: float) -> bool:
        """Wait so long for the end of the process; return true if it has ended."""
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            return False
        return True

    @property
    def code(self) -> int | None:
        """Exit code; negative = the signal that killed it; None = it runs."""
        return self._process.returncode
