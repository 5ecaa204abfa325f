"""The limit of open files of a gateway: each conversation that is kept open takes two descriptors."""

import resource
from contextlib import suppress

MOST_FILES = 8192


def raise_file_limit() -> None:
    """Raise the soft limit of open files to ``MOST_FILES``, or to the hard limit below it (macOS begins with 256)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a system with a limit of its own (sysctl kern.maxfilesperproc)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
