"""One gateway per home: a kernel lock held for life, so that a dead one is out of the way at once."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

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
    try:
        fd = os.open(home / GATEWAY_LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: those who look are not in each other's way
    except BlockingIOError:
        words = os.pread(fd, 20, 0).split()
        return int(words[0]) if words and words[0].isdigit() else 0
    except OSError:
        return None
    else:
        with suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_UN)
        return None
    finally:
        os.close(fd)
