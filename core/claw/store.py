"""The store: every durable write of claw goes through here, and here a test makes the disk fail.

``Disk`` holds the system calls that make things durable; each is a field, so a test hands in one that refuses.
``append`` / ``replace`` / ``make_folder`` / ``set_aside`` below are those of the real disk.
"""

import errno
import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw.clock import SYSTEM as SYSTEM_CLOCK, Clock
from claw.errors import BusyError, ClawError
from claw.words import say

if TYPE_CHECKING:
    import sqlite3

_NO_DATABASE = (
    "{path} is no database: it was set aside as {place}. Sessions are found again, the rest begins anew"
)
_ROOM = "Free some space or mend the permissions of this folder, then try again"
_MOVE = "Move the file away: sessions are found again, the rest begins anew"
# BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN: sqlite.org, "Result Codes"
_NOT_OF_THE_FILE = (5, 6, 8, 10, 13, 14)
_LATELY_SECONDS, _MOST_LATELY = 1.0, 1000  # of what was read, and how many answers
_TRIES, _PAUSE_SECONDS = 3, 0.005  # of a lock
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)  # macOS has fsync alone


@dataclass(frozen=True)
class Disk:
    """The system calls behind a durable write, each replaceable by one that fails.

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

        One system call when all goes well. It survives a killed process, not a power cut: for that, ``sync``.

        :raises OSError: the disk refused; what had gone out already is cut off again.
        """
        written = self.write(fd, data)
        while written < len(data):
            try:
                written += self.write(fd, data[written:])
            except OSError:
                self.truncate(fd, os.fstat(fd).st_size - written)
                raise

    def jot(self, path: Path, data: bytes) -> None:
        """Write a short note that must outlive the process, not the machine: nothing is synced."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self.write(fd, data)
        finally:
            os.close(fd)

    def replace(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Put ``data`` in the place of ``path``'s content: a reader sees the old or the new, never half of it.

        A link is followed, so that a config file kept elsewhere stays there.

        :raises OSError: the disk refused; the old content stands.
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
        """Make the names in ``folder`` durable: a new or renamed file is not there after a power cut without it."""
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self.sync_all(fd)
        finally:
            os.close(fd)

    def make_folder(self, path: Path) -> None:
        """Make ``path`` and what leads to it, for our eyes only (0700); folders that exist keep their mode.

        :raises ClawError: something that is no folder is in the way, or we may not write there.
        """
        missing = []
        place = path
        while not place.is_dir():
            missing.append(place)
            if place == place.parent:
                break
            place = place.parent
        for folder in reversed(missing):
            try:
                folder.mkdir(mode=0o700, exist_ok=True)
            except FileExistsError as in_the_way:
                raise ClawError(
                    "a file stands where a folder is wanted", where=str(folder), fix="Move that file away"
                ) from in_the_way
            except OSError as refused:
                raise cannot_write(folder, refused) from refused

    def set_aside(self, path: Path, tag: str, clock: Clock = SYSTEM_CLOCK) -> Path:
        """Rename ``path`` to ``path.TAG.TIMESTAMP``: out of the way, and nothing of it lost.

        :param tag: ``bad``, ``bak``, ``reset`` or ``deleted``.
        :returns: the new place.
        """
        place = aside(path, tag, clock)
        self.rename(str(path), str(place))
        return place


def aside(path: Path, tag: str, clock: Clock = SYSTEM_CLOCK) -> Path:
    """A free name ``path.TAG.TIMESTAMP`` (UTC, to the millisecond; a number follows when that one is taken)."""
    moment = datetime.fromtimestamp(clock.now(), UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    place = path.with_name(f"{path.name}.{tag}.{moment}")
    number = 1
    while place.exists():
        number += 1
        place = path.with_name(f"{path.name}.{tag}.{moment}-{number}")
    return place


def cannot_write(path: Path, refused: OSError) -> ClawError:
    """A refusal of the disk, as an error for people."""
    reason = refused.strerror or str(refused)
    return ClawError("cannot write: {reason}", where=str(path), fix=_ROOM, reason=reason)


SYSTEM = Disk()
append, replace, make_folder, set_aside = SYSTEM.append, SYSTEM.replace, SYSTEM.make_folder, SYSTEM.set_aside


class Lock:
    """A kernel lock (flock) on a file of its own: freed when its process dies, however it dies.

    The file stays when the lock is freed, so an old one changes nothing. It holds the pid of the last holder.
    The descriptor is kept between turns: taking and freeing open no file.

    :param problem: template of BusyError, with ``{pid}`` for the holder's number; ``fix`` likewise.
    :param where: what people call the thing that is locked; the lock's own path when empty.
    """

    def __init__(
        self, path: Path, problem: str = "process {pid} holds it", fix: str = "", where: str = ""
    ) -> None:
        self.path = path
        self.held = False
        self._problem, self._fix, self._where = problem, fix, where or str(path)
        self._fd = -1

    def take(self) -> None:
        """Take it at once or not at all.

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
        # Of fixed width: one write, and no longer number of an earlier holder shines through.
        os.pwrite(self._fd, f"{os.getpid():<19}\n".encode(), 0)

    def _flock(self) -> None:
        """Tried more than once: who only looks (``holder``) has the lock for a moment."""
        for _ in range(_TRIES - 1):
            with suppress(BlockingIOError):
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(_PAUSE_SECONDS)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def free(self) -> None:
        """Let others have it; the file stays open for the next turn."""
        if self.held:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self.held = False

    def close(self) -> None:
        """Free it, and the descriptor too."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.held = -1, False

    def _busy(self) -> BusyError:
        said = os.pread(self._fd, 20, 0).split()
        pid = int(said[0]) if said and said[0].isdigit() else None
        self.close()
        return BusyError(self._problem, pid=pid, where=self._where, fix=self._fix)


def holder(path: Path) -> int | None:
    """The process that holds the :class:`Lock` of ``path``; None when nobody does, 0 when it has not left its number."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
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


class Database:
    """``state.db``: SQLite in WAL mode, opened at first use, one connection, one writer.

    A room declares its tables (``tables``) before it asks; a commit survives a killed process (synchronous NORMAL: a
    power cut may take back the newest ones, never break the file). A file that is no database is set aside.

    :param path: its folder is made when it is missing.
    :param complain: told when a file was set aside.
    :param disk: what ``sync`` asks; SQLite's own writes go past it.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock = SYSTEM_CLOCK,
        complain: Callable[[str], None] = lambda line: None,
        disk: Disk = SYSTEM,
    ) -> None:
        self.path = path
        self._clock, self._complain, self._disk = clock, complain, disk
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._log_fd = -1
        self._in_doubt = False  # a sync failed: what of the log is on the medium?
        self._wanted: dict[str, tuple[str, ...]] = {}
        self._made: set[str] = set()
        self._lately: dict[tuple[str, tuple[Any, ...]], tuple[float, list[tuple[Any, ...]]]] = {}

    def tables(self, room: str, *ddl: str) -> None:
        """Declare what ``room`` stores: statements that may run again (``CREATE TABLE IF NOT EXISTS …``)."""
        self._wanted[room] = ddl

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._asked() as connection:
            return connection.execute(sql, values).fetchall()

    def read_lately(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """As ``read``; what was read within the last second still counts. For what seldom changes and is asked for in
        every turn: another process's change is seen a second later, one of ours at once (``forget_lately``).
        """
        now, key = self._clock.monotonic(), (sql, values)
        at, rows = self._lately.get(key, (-_LATELY_SECONDS, []))
        if now - at >= _LATELY_SECONDS:
            if len(self._lately) >= _MOST_LATELY:
                self._lately.clear()
            rows = self.read(sql, *values)
            self._lately[key] = now, rows
        return rows

    def forget_lately(self) -> None:
        """What ``read_lately`` remembers has changed."""
        self._lately.clear()

    def write(self, sql: str, *values: Any) -> int:
        """One statement, committed; answers with the number of rows that it changed."""
        with self._asked() as connection:
            return connection.execute(sql, values).rowcount

    def write_all(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Several statements, committed together or not at all."""
        with self.transaction() as ask:
            for sql, values in statements:
                ask(sql, values)

    @contextmanager
    def transaction(self) -> Iterator[Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]]:
        """Questions and statements that nobody else's come between; committed at the end, or not at all."""
        with self._asked() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda sql, values: connection.execute(sql, values).fetchall()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite itself takes back what finds no room
                    connection.execute("ROLLBACK")
                raise

    def insert(self, sql: str, *values: Any) -> int | None:
        """One ``INSERT OR IGNORE``, committed; answers with the number of the new row, None when there was none."""
        with self._asked() as connection:
            cursor = connection.execute(sql, values)
            return cursor.lastrowid if cursor.rowcount == 1 else None

    def sync(self) -> None:
        """Bring what was committed onto the medium, so that it survives a power cut too. Takes as long as the disk does.

        The write-ahead log is synced through a descriptor of its own: SQLite would do so at each commit, this once for
        all that were made meanwhile.

        :raises ClawError: the disk refused.
        """
        try:
            with self._guard:
                self._open()
                is_new = self._log_fd < 0 or self._in_doubt
                if self._in_doubt:
                    self._write_anew()
                if self._log_fd < 0:
                    self._log_fd = os.open(f"{self.path}-wal", os.O_RDONLY | os.O_CLOEXEC)
                fd = self._log_fd
            self._disk.sync(fd)
            if is_new:  # its name too: SQLite sees to that at its first checkpoint
                self._disk.sync_folder(self.path.parent)
        except OSError as refused:
            self._in_doubt = True
            raise cannot_write(self.path, refused) from refused

    def _write_anew(self) -> None:
        """Put what the log holds into the main file, and begin the log anew.

        Linux tells of a page that it could not write once, and forgets the page: the sync after a failed one says that
        all is well, over a log with a hole in it. So nothing counts until it was written again (PostgreSQL's lesson of
        2018); SQLite syncs the main file itself.
        """
        with self._asked() as connection:
            ((is_busy, *_),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if is_busy:  # somebody else is reading
            raise cannot_write(self.path, OSError(errno.EBUSY, os.strerror(errno.EBUSY)))
        self._in_doubt = False

    def close(self) -> None:
        """Let go of the file; the next use opens it again."""
        with self._guard:
            if self._log_fd >= 0:
                os.close(self._log_fd)
                self._log_fd = -1
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._made.clear()
            self._lately.clear()

    @contextmanager
    def _asked(self) -> Iterator["sqlite3.Connection"]:
        with self._guard:
            connection = self._open()
            try:
                yield connection
            except connection.DatabaseError as refused:
                code = getattr(refused, "sqlite_errorcode", 0) & 0xFF
                fix = _ROOM if code in _NOT_OF_THE_FILE else _MOVE
                raise ClawError(
                    "the state cannot be used: {reason}", where=str(self.path), fix=fix, reason=refused
                ) from refused

    def _open(self) -> "sqlite3.Connection":
        if self._connection is None:
            self._connection = self._connect()
        for room in self._wanted.keys() - self._made:
            for statement in self._wanted[room]:
                self._connection.execute(statement)
            self._made.add(room)
        return self._connection

    def _connect(self) -> "sqlite3.Connection":
        import sqlite3  # 9 ms of CPU that `--version` and `plugins list` need not pay

        SYSTEM.make_folder(self.path.parent)
        try:
            return self._connected(sqlite3.connect(self.path, isolation_level=None, check_same_thread=False))
        except sqlite3.OperationalError as refused:
            raise ClawError(
                "cannot open the state: {reason}",
                where=str(self.path),
                fix="Mend the permissions of this file and its folder, or stop the process that keeps it locked",
                reason=refused,
            ) from refused
        except sqlite3.DatabaseError:
            place = SYSTEM.set_aside(self.path, "bad", self._clock)
            for tail in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    SYSTEM.set_aside(self.path.with_name(self.path.name + tail), "bad", self._clock)
            self._complain(say(_NO_DATABASE, path=self.path, place=place))
            return self._connected(sqlite3.connect(self.path, isolation_level=None, check_same_thread=False))

    def _connected(self, connection: "sqlite3.Connection") -> "sqlite3.Connection":
        try:
            self.path.chmod(0o600)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA busy_timeout = 5000")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection
