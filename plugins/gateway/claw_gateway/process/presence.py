"""The lock of the gateway: one gateway per home. A kernel lock is held for life, so that a dead process frees
it at once."""

import time
from pathlib import Path

from claw.runtime import GATEWAY_LOCK, SYSTEM_DISK, BusyError
from claw_config_sdk import Lock, lock_holder

_TRIES, _PAUSE_SECONDS = 10, 0.03
"""Other processes hold the lock for a moment: a command that looks up the holder, one that activates staged
plugins. A new holder also writes its process id a moment after it has taken the lock."""


def take_gateway_lock(home: Path) -> Lock:
    """Take the lock of ``home`` for this process.

    :raises BusyError: another process has it; ``pid`` is its process id.
    """
    SYSTEM_DISK.make_folder(home)
    lock = Lock(
        home / GATEWAY_LOCK,
        "a gateway is already running in this home: process {pid}",
        "claw gateway status shows its state, claw gateway stop stops it",
        where=str(home),
    )
    for left in reversed(range(_TRIES)):
        try:
            lock.take()
            break
        except BusyError:
            if not left:
                raise
            time.sleep(_PAUSE_SECONDS)
    return lock


def gateway_pid(home: Path) -> int | None:
    """Return the process id that holds the lock of ``home``; None when it is free, 0 when the holder has not
    written its id."""
    return lock_holder(home / GATEWAY_LOCK)
