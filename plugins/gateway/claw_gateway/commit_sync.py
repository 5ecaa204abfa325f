"""Commits of ``state.db`` synced to the medium: one sync for all commits made meanwhile."""

import errno
import os

from claw.runtime import Database, cannot_write


class CommitSync:
    """Syncs the write-ahead log of a database through a descriptor of its own; SQLite would sync at each commit."""

    def __init__(self, database: Database) -> None:
        self._database, self._log_fd = database, -1
        self._connection: object = None  # that of the open log
        self._log = database.path.with_name(f"{database.path.name}-wal")
        self._failed = False  # a sync failed: unknown how much of the log is on the medium

    def sync(self) -> None:
        """Sync all commits to the medium, so that they survive a power cut. Takes as long as the disk does.

        :raises ClawError: the disk refused.
        """
        disk = self._database.disk
        try:
            is_new = self._open_log() or self._failed
            if self._failed:
                self._rewrite_log()
            disk.sync(self._log_fd)
            if is_new:  # its directory entry too: SQLite syncs that only at its first checkpoint
                disk.sync_folder(self._log.parent)
        except OSError as refused:
            self._failed = True
            raise cannot_write(self._database.path, refused) from refused

    def _open_log(self) -> bool:
        """Open the log, unless it is open; return true if it is another file than before."""
        connection = self._database.open()
        if self._log_fd >= 0 and connection is self._connection:
            return False
        self.close()
        self._connection, self._log_fd = connection, os.open(self._log, os.O_RDONLY | os.O_CLOEXEC)
        return True

    def _rewrite_log(self) -> None:
        """Move the content of the log to the main file, and start the log again.

        Linux reports a failed write of a page once, and drops the page: the sync after a failed one reports
        success, over a log with a hole. So nothing counts until it was written again (PostgreSQL's lesson of
        2018); SQLite syncs the main file itself.
        """
        ((is_busy, *_),) = self._database.read("PRAGMA wal_checkpoint(TRUNCATE)")
        if is_busy:  # another connection is reading
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        self._failed = False

    def close(self) -> None:
        """Close the descriptor; the next sync opens it again."""
        if self._log_fd >= 0:
            os.close(self._log_fd)
            self._log_fd = -1
