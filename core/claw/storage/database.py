"""``state.db``: one SQLite connection, one writer, group commit."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw.contracts.errors import ClawError
from claw.i18n import t
from claw.storage.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    import sqlite3


from claw.storage.files import SYSTEM_DISK, UNKNOWN_CAUSE, Disk, home_problem

_NO_DATABASE = (
    "{path} is not a database and was moved to {place}. Sessions are found again, everything "
    "else starts empty"
)


_MOVE = "Move the file elsewhere: sessions are found again, everything else starts empty"
# ERROR (such as a missing column), PERM, BUSY, LOCKED, READONLY, IOERR, FULL, CANTOPEN: sqlite.org, "Result Codes"
_READONLY = 8
_FIXES = {
    1: "It is not as this version of claw needs it: use the version that wrote it, or move it elsewhere",
    **dict.fromkeys((3, _READONLY, 14), "Correct the permissions of this file and its folder"),
    **dict.fromkeys((5, 6), "Wait until the program that locks it is done, or stop it"),
    **dict.fromkeys((10, 13), UNKNOWN_CAUSE),
}


PRINTED: set[str] = set()
"""The lines on stderr about ``state.db``, in this process."""


def print_once(line: str) -> None:
    """Print on stderr what this process has not said yet."""
    if line not in PRINTED:
        PRINTED.add(line)
        sys.stderr.write(f"claw: {line}\n")


class Database:
    """``state.db``: SQLite in WAL mode, opened at first use, one connection, one writer.

    A module declares its tables (``tables``) before it uses them. A commit survives a killed process; with
    synchronous NORMAL a power cut can lose the newest commits, never corrupt the file. A file that is not a
    database is renamed and replaced.

    :param path: its folder is made when it is missing.
    :param log: called when a file was renamed so; by default that is written to stderr.
    :param disk: for those who sync the files of this state; SQLite's own writes bypass it.
    """

    def __init__(
        self,
        path: Path,
        clock: Clock = SYSTEM_CLOCK,
        log: Callable[[str], object] = print_once,
        disk: Disk = SYSTEM_DISK,
    ) -> None:
        self.path = path
        self._clock, self._log, self.disk = clock, log, disk
        self._guard = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._is_reading = False
        self._tables: dict[str, tuple[str, ...]] = {}
        self._created: set[str] = set()

    def tables(self, owner: str, *ddl: str) -> None:
        """Declare the tables of a module: statements that may run again (``CREATE TABLE IF NOT EXISTS …``)."""
        self._tables[owner] = ddl

    def read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self._using() as connection:
            return connection.execute(sql, values).fetchall()

    def write(self, sql: str, *values: Any) -> int:
        """Run and commit one statement; return the number of rows that it changed."""
        with self._using() as connection:
            return connection.execute(sql, values).rowcount

    def write_all(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Run several statements and commit them together, or none."""
        with self.transaction() as ask:
            for sql, values in statements:
                ask(sql, values)

    @contextmanager
    def transaction(self) -> Iterator[Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]]:
        """Open a transaction that excludes other writers; committed at the end, rolled back on an error."""
        with self._using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda sql, values: connection.execute(sql, values).fetchall()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite itself rolls back when the disk is full
                    connection.execute("ROLLBACK")
                raise

    def insert(self, sql: str, *values: Any) -> int | None:
        """Run and commit one ``INSERT OR IGNORE``; return the number of the new row, None without one."""
        with self._using() as connection:
            cursor = connection.execute(sql, values)
            return cursor.lastrowid if cursor.rowcount == 1 else None

    def open(self) -> object:
        """Open the file, unless it is open; return its connection, which is another one after each ``close``."""
        with self._using() as connection:
            return connection

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._guard:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._created.clear()

    @contextmanager
    def _using(self) -> Iterator["sqlite3.Connection"]:
        import sqlite3

        with self._guard:
            try:
                yield self._open()
            except sqlite3.DatabaseError as refused:
                why = database_error(self.path, refused)
                if self._is_reading and getattr(refused, "sqlite_errorcode", 0) & 0xFF == _READONLY:
                    self.close()  # there may be space now: the next use opens it for writing
                raise why from refused

    def _open(self) -> "sqlite3.Connection":
        if self._connection is None:
            self._connection = self._connect()
        for owner in self._tables.keys() - self._created:
            for statement in self._tables[owner]:
                self._connection.execute(statement)
            self._created.add(owner)
        return self._connection

    def _connect(self) -> "sqlite3.Connection":
        import sqlite3  # 9 ms of CPU that `--version` and `plugins list` need not pay

        SYSTEM_DISK.make_folder(self.path.parent)
        self._is_reading = self.path.exists() and not os.access(self.path.parent, os.W_OK)
        if self._is_reading:
            self._log(str(home_problem(self.path.parent)))
            return sqlite3.connect(read_only_address(self.path), uri=True, check_same_thread=False)
        try:
            return self._configured(sqlite3.connect(self.path, isolation_level=None, check_same_thread=False))
        except sqlite3.OperationalError as refused:
            why = database_error(self.path, refused)
            if why.where == str(self.path) or not self.path.exists() or has_log(self.path):
                raise why from refused
            self._log(str(why))
            self._is_reading = True
            return sqlite3.connect(read_only_address(self.path), uri=True, check_same_thread=False)
        except sqlite3.DatabaseError:
            place = SYSTEM_DISK.set_aside(self.path, "bad", self._clock)
            for tail in ("-wal", "-shm"):
                with suppress(FileNotFoundError):
                    SYSTEM_DISK.set_aside(self.path.with_name(self.path.name + tail), "bad", self._clock)
            self._log(t(_NO_DATABASE, path=self.path, place=place))
            return self._configured(sqlite3.connect(self.path, isolation_level=None, check_same_thread=False))

    def _configured(self, connection: "sqlite3.Connection") -> "sqlite3.Connection":
        try:
            self.path.chmod(0o600)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection


def database_error(path: Path, refused: Exception) -> ClawError:
    """Return an error for people that says why SQLite refused: the disk, another program, permissions, or damage."""
    code = getattr(refused, "sqlite_errorcode", 0) & 0xFF
    closed = path.exists() and not os.access(path, os.R_OK)
    if code in (_READONLY, 10, 13, 14) and not closed and (problem := home_problem(path.parent)):
        return problem
    fix = _FIXES.get(code, _MOVE)
    return ClawError("the state cannot be used: {reason}", where=str(path), fix=fix, reason=refused)


def read_only_address(path: Path) -> str:
    """Return the URI with which SQLite reads a database and writes nothing (sqlite.org, "Read-Only Databases")."""
    is_frozen = home_problem(path.parent) and not has_log(path)
    return f"{path.as_uri()}?mode=ro{'&immutable=1' if is_frozen else ''}"


def has_log(path: Path) -> bool:
    """Return true if commits are in the write-ahead log: another process has the database open, or did not close it."""
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0
