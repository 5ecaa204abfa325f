"""One gateway per home: a kernel lock held for life, so that a dead one is out of the way at once."""

import time
from pathlib import Path

from claw import store
from claw.errors import BusyError
from claw.lifecycle.layer import GATEWAY_LOCK
from claw.store import SYSTEM as DISK, Lock

_TRIES, _PAUSE_SECONDS = 10, 0.03
"""Others hold the lock for a moment: a command that looks who has it, one that brings in what was staged. Also the
number of a new holder is written a moment after it has the lock."""


def hold(home: Path) -> Lock:
    """Take the lock of ``home`` for this process.

    :raises BusyError: another process has it; ``pid`` is its number.
    """
    DISK.make_folder(home)
    lock = Lock(
        home / GATEWAY_LOCK,
        "a gateway already runs in this home: process {pid}",
        "claw gateway status says how it is doing, claw gateway stop ends it",
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


def holder(home: Path) -> int | None:
    """The process that holds the lock of ``home``; None when nobody does. 0 = one that has not left its number."""
    return store.holder(home / GATEWAY_LOCK)
