"""The SQLite file of an index: its tables, and when they must be recreated."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

_FORM = "2"
_WAIT_SECONDS = 10.0
_DAMAGED = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
)  # https://www.sqlite.org/rescode.html
# A chunk gets its script together with its vector.
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE file (
    id INTEGER PRIMARY KEY, path TEXT UNIQUE, mtime_ns INTEGER, size INTEGER, inode INTEGER, digest BLOB
);
CREATE TABLE piece (
    id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER, first INTEGER, last INTEGER, digest BLOB, script TEXT
);
CREATE INDEX piece_of_file ON piece (file);
CREATE INDEX piece_of_text ON piece (digest);
CREATE INDEX piece_without_vector ON piece (id) WHERE script IS NULL;
CREATE TABLE body (id INTEGER PRIMARY KEY, heading TEXT, text TEXT, origin TEXT);
CREATE TABLE vector (digest BLOB PRIMARY KEY, script TEXT, data BLOB);
CREATE TABLE centre (script TEXT PRIMARY KEY, data BLOB);
CREATE VIRTUAL TABLE words USING fts5 (body, content='', tokenize='porter unicode61 remove_diacritics 2');
"""


# Messages of damage that has a generic error code: a missing table, undecodable text, an unknown page format.
_DAMAGE_SAID = ("no such ", "Could not decode ", "unsupported file format")


class DamagedIndexError(Exception):
    """The file was not a valid index; it was deleted and replaced by an empty one."""


def is_damage(error: Exception) -> bool:
    """Return true if the file itself is damaged; false if it is only busy or the disk is full."""
    if isinstance(error, MemoryError | UnicodeDecodeError):  # an absurd length or name in a damaged file
        return True
    code = getattr(error, "sqlite_errorcode", None) or 0
    return code & 0xFF in _DAMAGED or str(error).startswith(_DAMAGE_SAID)


def connected(path: Path) -> sqlite3.Connection:
    """Open the file; create it if it is missing."""
    fresh = not path.exists()
    connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
    if fresh:
        path.chmod(0o600)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")  # content lost in a power cut is rebuilt from the notes
    return connection


def _form(db: sqlite3.Connection) -> str | None:
    """Return the chunk parameters of its tables; None when it has no tables."""
    if db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return None
    row = db.execute("SELECT value FROM meta WHERE key = 'form'").fetchone()
    return str(row[0]) if row else ""


def _empty(db: sqlite3.Connection) -> None:
    for name in ("meta", "file", "piece", "body", "vector", "centre", "words"):
        db.execute(f"DROP TABLE IF EXISTS {name}")


def prepare(db: sqlite3.Connection, cutting: tuple[int, int]) -> None:
    """Create the tables, unless they exist for these chunk parameters; delete others."""
    form = ":".join(map(str, (_FORM, *cutting)))
    if _form(db) == form:
        return
    with writing(db):  # one process at a time; the second finds it done
        if (old := _form(db)) == form:
            return
        if old is not None:
            _empty(db)
        for statement in _TABLES.split(";"):
            db.execute(statement)
        db.execute("INSERT INTO meta VALUES ('form', ?)", (form,))


@contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """Run a write transaction: commit all or nothing."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        with closing(db.cursor()), suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")
