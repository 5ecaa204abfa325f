"""Locks between the processes of one home: commands, and a gateway beside them, change the same files in turn."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from claw import ClawError
from claw.runtime import BusyError, cannot_write

_TRIES, _PAUSE_SECONDS = 3, 0.005  # to take a lock


class Lock:
    """A kernel lock (flock) on a file of its own: it is freed when its process dies, in any way.

    The file stays when the lock is freed, and holds the pid of the last holder. The descriptor is kept
    between turns: taking and freeing open no file.

    :param problem: template of BusyError, with ``{pid}`` for the holder's number; ``fix`` likewise.
    :param where: name of the locked thing for people; the lock's own path when empty.
    """

    def __init__(
        self, path: Path, problem: str = "process {pid} holds it", fix: str = "", where: str = ""
    ) -> None:
        self.path = path
        self.held = False
        self._problem, self._fix, self._where = problem, fix, where or str(path)
        self._fd = -1

    def take(self) -> None:
        """Take the lock without waiting.

        :raises BusyError: another holder has it, in this process or another.
        :raises ClawError: this file system cannot lock.
        """
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            except OSError as refused:
                raise cannot_write(self.path, refused) from refused
        try:
            self._flock()
        except BlockingIOError:
            raise self._busy() from None
        except OSError as refused:
            raise ClawError(
                "this file system cannot lock files: {reason}",
                where=str(self.path),
                fix="Move CLAW_HOME to a disk of this machine",
                reason=refused.strerror or str(refused),
            ) from refused
        self.held = True
        # Of fixed width: one write that fully covers the number of an earlier holder.
        os.pwrite(self._fd, f"{os.getpid():<19}\n".encode(), 0)

    def _flock(self) -> None:
        """Try several times: ``lock_holder`` takes the lock for a moment when it looks."""
        for _ in range(_TRIES - 1):
            with suppress(BlockingIOError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_PAUSE_SECONDS)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def free(self) -> None:
        """Free the lock; the file stays open for the next turn."""
        if self.held:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self.held = False

    def close(self) -> None:
        """Free the lock and close its file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.held = -1, False

    def _busy(self) -> BusyError:
        pid = _pid_in(self._fd)
        self.close()
        return BusyError(self._problem, pid=pid, where=self._where, fix=self._fix)


def _pid_in(fd: int) -> int | None:
    """Return the pid that a holder wrote into its lock file; None when there is none."""
    words = os.pread(fd, 20, 0).split()
    return int(words[0]) if words and words[0].isdigit() else None


def lock_holder(path: Path) -> int | None:
    """Return the pid of the holder of the :class:`Lock` at ``path``; None when free, 0 when the pid is
    unknown.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: several readers do not block each other
    except BlockingIOError:
        return _pid_in(fd) or 0
    except OSError:
        return None
    finally:
        os.close(fd)  # frees the lock
    return None
