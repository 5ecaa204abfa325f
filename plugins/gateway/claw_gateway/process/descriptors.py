"""The limit of open files of a gateway, the number of turns that it allows at once, and the warning when it is low."""

import os
import resource
from collections.abc import Mapping
from contextlib import suppress

from claw import Finding, t

MOST_FILES = 8192
ENOUGH_FILES = 1024
"""The limit from which on each default number of turns and calls fits."""
_CROWDED = 0.9
_FILES_OF_TURN = 8
"""The share of a turn: transcript, lock and the connection to its model; the rest is for callers, tools and the log."""


def raise_file_limit() -> None:
    """Raise the soft limit of open files to ``MOST_FILES``, or to the hard limit below it (macOS begins with 256)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a system with a limit of its own (sysctl kern.maxfilesperproc)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_turns() -> int:
    """Return the number of concurrent turns for which this process has descriptors."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(1, (MOST_FILES if soft == resource.RLIM_INFINITY else soft) // _FILES_OF_TURN)


def open_files() -> dict[str, int]:
    """Return the number of descriptors that this process has open (0 = unknown), and its limit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    used = 0
    with suppress(OSError):
        used = len(os.listdir("/dev/fd"))
    return {"open": used, "limit": MOST_FILES if soft == resource.RLIM_INFINITY else soft}


def file_shortage(files: Mapping[str, int]) -> Finding | None:
    """Return the warning about a gateway with few descriptors; None when it has enough.

    :param files: as :func:`open_files` returns them; empty for a gateway of an older version.
    """
    used, limit = files.get("open", 0), files.get("limit", ENOUGH_FILES)
    fix = t(
        "raise the limit: ulimit -n {count}, or LimitNOFILE in the unit, then restart it", count=MOST_FILES
    )
    if used > limit * _CROWDED:
        why = t(
            "{used} of its {limit} file descriptors are in use: messages may fail", used=used, limit=limit
        )
        return Finding("gateway", "files", why, fix)
    if limit < ENOUGH_FILES:
        why = t(
            "it may open only {limit} files, so at most {count:turn runs|turns run} at once",
            limit=limit,
            count=max(1, limit // _FILES_OF_TURN),
        )
        return Finding("gateway", "files", why, fix, grave=False)
    return None
