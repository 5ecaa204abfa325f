"""The limit of open files of a gateway, and the number of turns that it allows at once."""

import resource
from contextlib import suppress

MOST_FILES = 8192
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
