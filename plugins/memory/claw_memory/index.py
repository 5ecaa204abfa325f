"""The index of one agent's notes: a SQLite file that can be deleted and rebuilt from the notes.

It holds chunks of files (``entries``), their words in FTS5, and a vector for each embedded text. Several
processes may use it at once; a process that finds it damaged recreates it.
"""

import hashlib
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claw.runtime import make_folder

from claw_memory.entries import indexed, pieces_of
from claw_memory.notes import Notes, Stamp
from claw_memory.question import spaced
from claw_memory.tables import DamagedIndexError, connected, is_damage, prepare, writing

_SETTLED_NS = (
    # file systems have millisecond timestamps: a file changed just now may change again with the same stamp
    50_000_000
)
_MOMENT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class IndexedChunk:
    """An indexed chunk.

    :param origin: provenance of the words; empty for a person's own.
    :param changed_ns: when its file was last changed, nanoseconds since 1970.
    """

    path: str
    first: int
    last: int
    heading: str
    text: str
    origin: str
    changed_ns: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of the content of an index. ``waiting``: chunks without a vector."""

    files: int
    pieces: int
    waiting: int
    embedder: str


class Index:
    """:param path: of the file; its folder is created.
    :param chunk_tokens: chunk size; ``overlap_tokens``: overlap of chunks. Other values rebuild the index.

    :raises DamagedIndexError: from every method.
    """

    def __init__(self, path: Path, chunk_tokens: int, overlap_tokens: int) -> None:
        self.path = path
        self._cutting = chunk_tokens, overlap_tokens
        self._connection: sqlite3.Connection | None = None
        self._inode = self._connections = 0
        self._lock = threading.RLock()

    # Notes

    def sync(
        self,
        notes: Notes,
        seconds: float | None = None,
        goes_on: Callable[[int, int], bool] = lambda done, all_: True,
        rests_ns: int = 0,
    ) -> frozenset[str]:
        """Index the files that changed on disk.

        :param seconds: stop after this time; None = no limit.
        :param goes_on: called with the number of files done and of all changed ones; False stops.
        :param rests_ns: skip files that changed within this time.
        :returns: the paths whose index is still out of date.
        """
        there = notes.look()
        differing = self.differing(there)
        changed = [path for path in differing if path in there]
        rested = time.time_ns() - rests_ns
        ready = [path for path in changed if there[path][0] <= rested] if rests_ns else changed
        self._delete_files([path for path in differing if path not in there])
        until = math.inf if seconds is None else time.monotonic() + seconds
        done = 0
        while done < len(ready) and time.monotonic() < until and goes_on(done, len(ready)):
            done += self._index_batch(notes, [(path, there[path]) for path in ready[done:]], until)
        if ready:
            goes_on(done, len(ready))
        return frozenset(changed) - frozenset(ready[:done])

    def differing(self, there: Mapping[str, Stamp]) -> list[str]:
        """Return the paths whose index is out of date, in the given order; then those of deleted files."""
        with self._open() as db:
            rows = db.execute("SELECT path, mtime_ns, size, inode FROM file").fetchall()
        known = {path: (mtime, size, inode) for path, mtime, size, inode in rows}
        changed = [path for path, stamp in there.items() if known.get(path) != stamp]
        return [*changed, *(path for path in known if path not in there)]

    def _delete_files(self, paths: Sequence[str]) -> None:
        if paths:
            with self._open() as db, writing(db):
                for path in paths:
                    _delete_file(db, path)

    def _index_batch(self, notes: Notes, files: Sequence[tuple[str, Stamp]], until: float) -> int:
        """Index some files in one short transaction, so that other processes get their turn; return their
        number.
        """
        until = min(until, time.monotonic() + _MOMENT_SECONDS)
        done = 0
        with self._open() as db, writing(db):
            for path, stamp in files:
                self._index_file(db, notes, path, stamp)
                done += 1
                if time.monotonic() > until:
                    break
        return done

    def _index_file(self, db: sqlite3.Connection, notes: Notes, path: str, stamp: Stamp) -> None:
        text = notes.read(path)
        if text is None:
            _delete_file(db, path)
            return
        if time.time_ns() - stamp[0] < _SETTLED_NS:
            stamp = (-stamp[0], *stamp[1:])  # no time of a file: it is read again
        digest = _digest(text)
        row = db.execute("SELECT id, digest FROM file WHERE path = ?", (path,)).fetchone()
        if row and row[1] == digest:
            db.execute("UPDATE file SET mtime_ns = ?, size = ?, inode = ? WHERE id = ?", (*stamp, row[0]))
            return
        old = _delete_file(db, path, keep_vectors=True)
        cursor = db.execute(
            "INSERT INTO file (path, mtime_ns, size, inode, digest) VALUES (?, ?, ?, ?, ?)",
            (path, *stamp, digest),
        )
        for piece in pieces_of(text, *self._cutting):
            mark = _digest(piece.indexed)
            at = db.execute(
                "INSERT INTO piece (file, first, last, digest, script)"
                " VALUES (?, ?, ?, ?, (SELECT script FROM vector WHERE digest = ?))",
                (cursor.lastrowid, piece.first, piece.last, mark, mark),
            ).lastrowid
            db.execute("INSERT INTO body VALUES (?, ?, ?, ?)", (at, piece.heading, piece.text, piece.origin))
            db.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (at, spaced(piece.indexed)))
        _drop_vectors(db, old)

    # Words

    def match(self, query: str, most: int, within: str = "") -> list[tuple[int, float]]:
        """Return the chunks that match an FTS5 query with their rank (``bm25()``: negative, lower is better),
        best first.

        :param within: prefix of the paths of their files.
        """
        where = f" AND rowid IN ({_PIECES_WITHIN})" if within else ""
        with self._open() as db:
            sql = f"SELECT rowid, rank FROM words WHERE words MATCH :query{where} ORDER BY rank LIMIT :most"
            return list(db.execute(sql, {"query": query, "within": within, "most": most}))

    def holders(self, query: str, most: int) -> int:
        """Count the chunks that match a query; stop counting at ``most``."""
        with self._open() as db:
            sql = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
            return int(db.execute(sql, (query, most)).fetchone()[0])

    def pieces_within(self, within: str) -> frozenset[int]:
        """Return the chunks of the files whose paths have this prefix."""
        with self._open() as db:
            return frozenset(at for (at,) in db.execute(_PIECES_WITHIN, {"within": within}))

    def found(self, pieces: Iterable[int]) -> dict[int, IndexedChunk]:
        """Return the text and place of the chunks."""
        sql = (
            "SELECT path, first, last, heading, text, origin, abs(mtime_ns) FROM piece"
            " JOIN body USING (id) JOIN file ON file.id = piece.file WHERE piece.id = ?"
        )
        with self._open() as db:
            rows = {at: db.execute(sql, (at,)).fetchone() for at in pieces}
        return {at: IndexedChunk(*row) for at, row in rows.items() if row}

    # Vectors

    def use_embedder(self, name: str) -> None:
        """Select the embedder whose vectors are kept; delete the vectors of another one."""
        with self._open() as db:
            row = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
            if row is None or row[0] != name:
                with writing(db):
                    db.execute("DELETE FROM vector")
                    db.execute("DELETE FROM centre")
                    db.execute("UPDATE piece SET script = NULL")
                    db.execute("REPLACE INTO meta VALUES ('embedder', ?)", (name,))

    def without_vector(self, most: int) -> list[tuple[bytes, str]]:
        """Return texts that have no vector yet, the newest first: digest and text."""
        sql = (
            "SELECT digest, heading, text FROM piece JOIN body USING (id)"
            " WHERE script IS NULL ORDER BY id DESC LIMIT ?"
        )
        with self._open() as db:
            return list({mark: indexed(*said) for mark, *said in db.execute(sql, (most,))}.items())

    def keep_vectors(self, embedder: str, vectors: Sequence[tuple[bytes, str, bytes]]) -> bool:
        """Store vectors: digest of the text, its script, the vector. Return false if the embedder has
        changed meanwhile.
        """
        with self._open() as db, writing(db):
            row = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
            if row is None or row[0] != embedder:
                return False
            db.executemany("REPLACE INTO vector VALUES (?, ?, ?)", vectors)
            db.executemany("UPDATE piece SET script = ?2 WHERE digest = ?1", [row[:2] for row in vectors])
            return True

    def centres(self) -> list[tuple[str, bytes]]:
        """Return for each script the mean vector of arbitrary texts."""
        with self._open() as db:
            return list(db.execute("SELECT script, data FROM centre"))

    def keep_centres(self, centres: Sequence[tuple[str, bytes]]) -> None:
        """Store the mean vectors."""
        with self._open() as db, writing(db):
            db.executemany("REPLACE INTO centre VALUES (?, ?)", centres)

    def state(self) -> tuple[int, ...]:
        """Return a value that differs after any change by any process."""
        with self._open() as db:
            return self._connections, int(db.execute("PRAGMA data_version").fetchone()[0]), db.total_changes

    def with_vector(self) -> list[tuple[int, str]]:
        """Return the chunks that have a vector, in order, with the script of their text."""
        with self._open() as db:
            sql = "SELECT id, script FROM piece WHERE script IS NOT NULL ORDER BY id"
            return list(db.execute(sql))

    def vectors(self, pieces: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        """Yield the vectors of the chunks."""
        for begin in range(0, len(pieces), 500):
            some = pieces[begin : begin + 500]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT id, data FROM piece JOIN vector USING (digest) WHERE id IN ({marks})"
            with self._open() as db:
                rows = db.execute(sql, some).fetchall()
            yield from rows

    # Whole index

    def counts(self) -> Counts:
        """Count files, chunks and vectors."""
        with self._open() as db:
            row = db.execute(
                "SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM piece),"
                " (SELECT count(*) FROM piece WHERE script IS NULL)"
            ).fetchone()
            name = db.execute("SELECT value FROM meta WHERE key = 'embedder'").fetchone()
            return Counts(row[0], row[1], row[2], name[0] if name else "")

    def clear(self) -> None:
        """Delete everything and start with an empty index."""
        with self._lock:
            self.close()
            for tail in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    os.unlink(f"{self.path}{tail}")

    def close(self) -> None:
        """Close the file; the next query opens it again."""
        with self._lock:
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()
            self._connection = None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            try:
                yield self._ready()
            except (sqlite3.DatabaseError, MemoryError, UnicodeDecodeError) as why:
                if not is_damage(why):
                    raise
                self.clear()
                raise DamagedIndexError(str(why)) from why

    def _ready(self) -> sqlite3.Connection:
        """Return the connection; reconnect when another process has recreated the file."""
        try:
            inode = self.path.stat().st_ino
        except FileNotFoundError:
            inode = -1
        if self._connection is None or inode != self._inode:
            self.close()
            make_folder(self.path.parent)
            self._connection = connected(self.path)
            self._inode, self._connections = self.path.stat().st_ino, self._connections + 1
            prepare(self._connection, self._cutting)
        return self._connection


_PIECES_WITHIN = (
    "SELECT piece.id FROM piece JOIN file ON file.id = piece.file"
    " WHERE substr(path, 1, length(:within)) = :within"
)


def _delete_file(db: sqlite3.Connection, path: str, keep_vectors: bool = False) -> list[tuple[Any]]:
    """Remove a file; return the digests of its chunks."""
    row = db.execute("SELECT id FROM file WHERE path = ?", (path,)).fetchone()
    if row is None:
        return []
    sql = "SELECT id, heading, text, digest FROM piece JOIN body USING (id) WHERE file = ?"
    pieces = db.execute(sql, row).fetchall()
    for at, heading, text, _ in pieces:
        db.execute(
            "INSERT INTO words (words, rowid, body) VALUES ('delete', ?, ?)",
            (at, spaced(indexed(heading, text))),
        )
        db.execute("DELETE FROM body WHERE id = ?", (at,))
    db.execute("DELETE FROM piece WHERE file = ?", row)
    db.execute("DELETE FROM file WHERE id = ?", row)
    marks = [(mark,) for *_, mark in pieces]
    if not keep_vectors:
        _drop_vectors(db, marks)
    return marks


def _drop_vectors(db: sqlite3.Connection, marks: Sequence[tuple[Any]]) -> None:
    """Delete the vectors whose text is in no chunk any more."""
    db.executemany(
        "DELETE FROM vector WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM piece WHERE digest = ?1)", marks
    )


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()
