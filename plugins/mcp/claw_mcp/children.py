"""Processes that a server started and left behind: they are found by a variable that they inherit (Linux: ``/proc``)."""

import contextlib
import os
import signal
import uuid
from pathlib import Path

VARIABLE = "CLAW_MCP_SESSION"


def new_mark() -> str:
    """Return a value of the variable that no other session has."""
    return uuid.uuid4().hex


def end_children(mark: str) -> None:
    """Kill every process with this mark; there is none where the system has no ``/proc``."""
    wanted = f"{VARIABLE}={mark}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
