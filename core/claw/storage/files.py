"""Durable writes: all files and ``state.db`` go through this module, so that a test can make the disk fail.

``Disk`` holds the system calls that make data durable; each is a field, so a test passes one that fails.
``append``, ``replace``, ``make_folder`` and ``set_aside`` below are those of the real disk.
"""

import errno
import hashlib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from claw.contracts.errors import ClawError
from claw.storage.clock import SYSTEM_CLOCK, Clock

LEAST_FREE_MB = 16
UNKNOWN_CAUSE = "Free some space or correct the permissions of this folder, then try again"
_PERMISSIONS = "Correct the permissions of this folder, or set CLAW_HOME to one that you can write"
_FEW_FILES = "Raise the limit of open files (ulimit -n 8192), then start claw again"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FIXES = (
    dict.fromkeys(_NO_SPACE, "Free some space, then try again")
    | dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR), _PERMISSIONS)
    | dict.fromkeys((errno.EMFILE, errno.ENFILE), _FEW_FILES)
)
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has fsync alone


@dataclass(frozen=True)
class Disk:
    """The system calls of a durable write, each replaceable by one that fails.

    :param write: like ``os.write``; it may write less than it was given.
    :param sync: data of a descriptor onto the medium (``fdatasync``).
    :param sync_all: data and metadata (``fsync``); also used on folders.
    """

    write: Callable[[int, bytes], int] = os.write
    sync: Callable[[int], None] = _sync_data
    sync_all: Callable[[int], None] = os.fsync
    truncate: Callable[[int, int], None] = os.ftruncate
    rename: Callable[[str, str], None] = os.rename

    def append(self, fd: int, data: bytes) -> None:
        """Write all of ``data`` at the end of ``fd`` (opened with O_APPEND, one writer), or nothing.

        One system call in the usual case. The data survives a killed process, not a power cut: for that,
        ``sync``.

        :raises OSError: the disk refused; a part already written is cut off again.
        """
        written = self.write(fd, data)
        while written < len(data):
            try:
                written += self.write(fd, data[written:])
            except OSError:
                self.truncate(fd, os.fstat(fd).st_size - written)
                raise

    def write_note(self, path: Path, data: bytes) -> None:
        """Write a short note that must survive the process, not the machine: nothing is synced."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self.write(fd, data)
        finally:
            os.close(fd)

    def replace(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Replace the content of ``path`` by ``data`` atomically: a reader sees the old or the new content.

        A link is followed, so that a config file kept elsewhere stays there.

        :raises OSError: the disk refused; the old content stays.
        """
        target = Path(os.path.realpath(path))
        temporary = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            try:
                self.append(fd, data)
                self.sync_all(fd)
            finally:
                os.close(fd)
            self.rename(str(temporary), str(target))
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        self.sync_folder(target.parent)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in ``folder`` durable: without it, a new or renamed file can be missing after a
        power cut.
        """
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync_all(fd)
        finally:
            os.close(fd)

    def make_folder(self, path: Path) -> None:
        """Create ``path`` and its missing parents, readable by us only (0700); existing folders keep their
        mode.

        :raises ClawError: a file is in the way, or we may not write there.
        """
        missing = [*takewhile(lambda place: not place.is_dir(), (path, *path.parents))]
        for folder in reversed(missing):
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except FileExistsError as in_the_way:
                raise ClawError(
                    "a file is in the place of a folder", where=str(folder), fix="Move that file elsewhere"
                ) from in_the_way
            except OSError as refused:
                raise cannot_write(folder, refused) from refused

    def set_aside(self, path: Path, tag: str, clock: Clock = SYSTEM_CLOCK) -> Path:
        """Rename ``path`` to ``path.TAG.TIMESTAMP``, which keeps its content.

        :param tag: ``bad``, ``bak``, ``reset`` or ``deleted``.
        :returns: the new path.
        """
        place = dated_name(path, tag, clock)
        self.rename(str(path), str(place))
        return place


def dated_name(path: Path, tag: str, clock: Clock = SYSTEM_CLOCK) -> Path:
    """Return a free name ``path.TAG.TIMESTAMP`` (UTC, to the millisecond; a number follows if it is taken)."""
    moment = datetime.fromtimestamp(clock.now(), UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    place = path.with_name(f"{path.name}.{tag}.{moment}")
    number = 1
    while place.exists():
        number += 1
        place = path.with_name(f"{path.name}.{tag}.{moment}-{number}")
    return place


def home_problem(home: Path, disk: os.statvfs_result | None = None) -> ClawError | None:
    """Return the reason why nothing, or little more, can be saved in ``home``.

    :param disk: the figures of the disk, 0 of 0 where its file system does not count; None = read them.
    :raises OSError: there is no such folder.
    """
    disk = disk or os.statvfs(home)
    left, problem, fix = disk.f_bavail * disk.f_frsize / 2**20, "", "free some space"
    if not os.access(home, os.W_OK):
        problem, fix = "it is read-only", "correct its permissions or how it is mounted"
    elif disk.f_blocks and left < LEAST_FREE_MB:
        problem = "the disk is almost full: {mb} MB free"
    elif disk.f_files and not disk.f_favail:
        problem = "the disk has no space for another file"
    return ClawError(problem, where=str(home), fix=fix, mb=f"{left:.1f}") if problem else None


def cannot_write(path: Path, refused: OSError) -> ClawError:
    """Return an error for people that says why the disk refused."""
    fix = _FIXES.get(refused.errno or 0, UNKNOWN_CAUSE)
    return ClawError("cannot write: {reason}", where=str(path), fix=fix, reason=refused.strerror or refused)


SYSTEM_DISK = Disk()
append, replace_file = SYSTEM_DISK.append, SYSTEM_DISK.replace
make_folder, set_aside = SYSTEM_DISK.make_folder, SYSTEM_DISK.set_aside


# --- names

# Lower case only: two ids that differ in case must be two files on a case-insensitive file system.
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_UNSAFE = re.compile(r"[^a-z0-9_-]+")


def safe_file_name(text: str) -> str:
    """Return a file name for ``text``: stable, unique, without slash or dot-dot.

    A plain text (``[a-z0-9_-]``, up to 80 characters) is its own name; any other becomes a readable part, a dot and 32
    hex digits of its SHA-256. A plain name contains no dot, so the two kinds cannot collide.
    """
    if _PLAIN.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    readable = _UNSAFE.sub("-", text.lower())[:40].strip("-")
    return f"{readable or 'x'}.{digest}"


def results_folder(agent_dir: Path, session_key: str) -> Path:
    """Return the folder of the tool results of one session that are too long for a model; it may not exist. Other
    sessions of the agent cannot read it.
    """
    return agent_dir / "results" / hashlib.sha256(session_key.encode()).hexdigest()[:16]
