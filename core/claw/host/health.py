"""Plugin health: the last failure of each plugin to load, in ``state.db``, for every process of a home.

A process that loads a plugin records a failure here, and removes the record after a success; commands that load nothing
read it. A record holds while the files of the plugin are those that failed. A plugin that hung, or that ended the process
twice, is not loaded again until its files change, a day has passed, or the operator asks (``claw plugins retry``). Every
other failure is tried again by the next process.

A plugin can end the process (``os._exit``, a crash in C), and no host in that process can record it. So a note names the
plugin while it is being loaded; a note that a dead process left is a crash (DESIGN section 5).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from claw.contracts.errors import ClawError

if TYPE_CHECKING:
    from claw.host.manifest import InstalledPlugin
    from claw.storage.database import Database

FAILED, HUNG, CRASHED = "failed", "hung", "crashed"
MAX_CRASHES = 2
WINDOW_SECONDS = 24 * 3600.0
_CODE = frozenset({".py", ".so", ".pyd", ".dylib", ".json"})  # a plugin may write others beside its own
_NOTE = ".starting-"
_open_notes: set[Path] = set()  # those of this process
_COLUMNS = "plugin, kind, stage, cause, fix, digest, run, at, times"
_TABLE = (
    "CREATE TABLE IF NOT EXISTS plugin_health (plugin TEXT PRIMARY KEY, kind TEXT, stage TEXT, cause TEXT, fix TEXT, "
    "digest TEXT, run INTEGER, at REAL, times INTEGER)"
)


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """The last failure of a plugin.

    :param kind: FAILED, HUNG or CRASHED.
    :param stage: import, register or run.
    :param fix: the instruction of the error; empty = none of its own.
    :param digest: of the plugin's files then (:func:`files_digest`).
    :param run: process id.
    :param at: seconds since the epoch.
    :param times: crashes in a row; 1 for other kinds.
    """

    plugin: str
    kind: str
    stage: str
    cause: str
    fix: str = ""
    digest: str = ""
    run: int = 0
    at: float = 0.0
    times: int = 1

    def holds_for(self, found: "InstalledPlugin") -> bool:
        """Return true if the files are those that failed; of a failure at run, if its process lives too."""
        # A note of a dead process has no digest.
        same = self.digest in ("", files_digest(found))
        return same and (self.stage != "run" or _is_running(self.run))

    def prevents_loading(self, now: float) -> bool:
        """Return true if no process should load the plugin by itself: it hung, or crashed twice, in the last day."""
        often = self.kind == HUNG or (self.kind == CRASHED and self.times >= MAX_CRASHES)
        return often and now - self.at < WINDOW_SECONDS


class PluginHealth:
    """The failures of one home, and the note of this process.

    :param folder: ``CLAW_HOME/plugins``; ``state.db`` is beside it.
    :param database: ``state.db``, if it is open. What cannot be written is not recorded: it must not stop a start.
    """

    def __init__(
        self,
        folder: Path,
        database: "Database | None" = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._database, self._now = folder, database, now
        self._path = database.path if database else folder.parent / "state.db"
        self._recorded: set[str] | None = None  # the plugins with a row, read at the first question

    def failures(self) -> dict[str, LoadFailure]:
        """Return plugin id → its last failure. Nothing is written: notes of dead processes are only counted."""
        found = self._read()
        for plugin in map(_read_note, self._notes_of_dead_processes()):
            if plugin:
                found[plugin] = self._crash(plugin, found.get(plugin))
        self._recorded = set(found)
        return found

    @contextmanager
    def guard(self, plugin: str) -> Iterator[None]:
        """Keep a note that ``plugin`` is being loaded, until it is."""
        from claw.storage.files import SYSTEM_DISK  # most commands load no plugin

        note = self._folder / f"{_NOTE}{os.getpid()}"
        with suppress(OSError, ClawError):
            SYSTEM_DISK.make_folder(self._folder)
            SYSTEM_DISK.write_note(note, plugin.encode())
        _open_notes.add(note)
        try:
            yield
        finally:
            _open_notes.discard(note)
            note.unlink(missing_ok=True)

    def count_crashes(self, installed: "Mapping[str, InstalledPlugin]") -> None:
        """Record a crash for each note that a dead process left."""
        for note in self._notes_of_dead_processes():
            if (plugin := _read_note(note)) in installed:
                digest, before = files_digest(installed[plugin]), self._read().get(plugin)
                failure = self._crash(plugin, before if before and before.digest == digest else None)
                self.record(replace(failure, digest=digest))
            with suppress(OSError):
                note.unlink(missing_ok=True)

    def record(self, failure: LoadFailure) -> None:
        """Record the failure of a plugin, in place of an earlier one."""
        row = replace(failure, run=failure.run or os.getpid(), at=failure.at or self._now())
        values = tuple(getattr(row, name) for name in _COLUMNS.split(", "))
        if self._write(
            f"INSERT OR REPLACE INTO plugin_health ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", *values
        ):
            self._recorded = (self._recorded or set()) | {failure.plugin}

    def clear(self, plugin: str) -> None:
        """Remove the record of a plugin that was loaded. A failure at run of another living process stays."""
        if self._recorded is None:
            self.failures()
        if plugin in (self._recorded or ()):
            failure = self._read().get(plugin)
            if failure is None or failure.stage != "run" or not _is_running(failure.run):
                self.reset(plugin)

    def reset(self, plugin: str) -> None:
        """Remove the record of a plugin, because the operator says so."""
        if plugin in self._read():
            self._write("DELETE FROM plugin_health WHERE plugin = ?", plugin)

    def _crash(self, plugin: str, before: LoadFailure | None) -> LoadFailure:
        again = before is not None and before.kind == CRASHED
        recent = before is not None and self._now() - before.at < WINDOW_SECONDS
        times = before.times + 1 if before and again and recent else 1
        return LoadFailure(plugin, CRASHED, "import", "", at=self._now(), times=times)

    def _read(self) -> dict[str, LoadFailure]:
        if not self._path.is_file():
            return {}
        import sqlite3  # a home without state needs none

        try:
            with closing(sqlite3.connect(f"{self._path.as_uri()}?mode=ro", uri=True)) as connection:
                rows = connection.execute(f"SELECT {_COLUMNS} FROM plugin_health").fetchall()
        except (sqlite3.Error, ValueError):  # no table yet; or a file that its next writer replaces
            return {}
        return {row[0]: LoadFailure(*row) for row in rows}

    def _write(self, sql: str, *values: object) -> bool:
        from claw.storage.database import Database  # most commands only read

        database = self._database or Database(self._path)
        try:
            database.tables("health", _TABLE)
            database.write(sql, *values)
        except (OSError, ClawError):
            return False
        finally:
            if database is not self._database:
                database.close()
        return True

    def _notes_of_dead_processes(self) -> list[Path]:
        """Return the notes of dead processes.

        A note with our own pid was left by another process with that pid, as in a container, where a restart gets the
        pid of the process that died.
        """
        notes = [(note, note.name.removeprefix(_NOTE)) for note in self._folder.glob(f"{_NOTE}*")]
        return [
            note
            for note, pid in notes
            if note not in _open_notes
            if pid == str(os.getpid()) or not (pid.isdecimal() and _is_running(int(pid)))
        ]


def files_digest(found: "InstalledPlugin") -> str:
    """Return a digest of the names, sizes and times of a plugin's files of code; nothing is imported."""
    import hashlib  # a home without failures needs none

    paths: list[Path] = []
    if found.folder:
        paths = [path for path in found.folder.rglob("*") if path.suffix in _CODE]
    elif (spec := PathFinder.find_spec(found.package.partition(".")[0])) and spec.origin:
        paths = [Path(spec.origin)]
    digest = hashlib.sha256(found.version.encode())
    for path in sorted(paths):
        with suppress(OSError):
            stat = path.stat()
            if not path.is_dir():
                digest.update(
                    f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode(errors="surrogateescape")
                )
    return digest.hexdigest()[:16]


def _read_note(note: Path) -> str:
    try:
        return note.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process belongs to another user
        return True
    return True
