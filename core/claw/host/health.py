"""Plugin health: the last failure of each plugin to load, in ``state.db``, for every process of a home.

A process that loads a plugin records a failure here, and removes the record after a success; commands that load nothing
read it. A record holds while the files of the plugin are those that failed; that of a setting, while the config file is
that too. A plugin that hung, or that ended the process twice, is not loaded again until its files change, a day has
passed, or the operator asks (``claw plugins retry``). Every other failure is tried again by the next process. A plugin
that loads, and of which a part cannot be used, has a record too (NOTED): of a part that fails in turns, until it works
in one. So has one of a third party that loaded (SOUND): until then nobody knows that it does.

A plugin can end the process (``os._exit``, a crash in C), and no host in that process can record it. So a note names the
plugin while it is being loaded, and the end itself adds its cause to the note: ``os._exit`` is wrapped meanwhile, and
faulthandler writes there. A note with a cause that a dead process left is a crash. One without is none: a process that
was killed, stopped or that lost power while it loaded a plugin says nothing about the plugin.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.machinery import PathFinder
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, NoReturn

import msgspec

from claw.config.source import find_config
from claw.contracts.errors import ClawError
from claw.i18n import t

if TYPE_CHECKING:
    from claw.host.manifest import InstalledPlugin
    from claw.storage.database import Database

FAILED, HUNG, CRASHED, NOTED, SOUND, GRADED = "failed", "hung", "crashed", "noted", "sound", "graded"
MAX_CRASHES = 2
WINDOW_SECONDS = 24 * 3600.0
_CODE = frozenset({".py", ".so", ".pyd", ".dylib", ".json"})  # a plugin may write others beside its own
_NOTE = ".starting-"
_open_notes: set[Path] = set()  # those of this process
_fault_files: list[IO[bytes]] = []  # faulthandler writes to the last one
_unreadable: set[Path] = set()  # states that this process could not read: it waits for none of them again
_LOCK_SECONDS = 1.0
_REPEAT_SECONDS = 60.0
_NO_DATABASE = 26  # SQLITE_NOTADB: sqlite.org, "Result Codes"
_TABLE = "CREATE TABLE IF NOT EXISTS plugin_failures (plugin TEXT, failure TEXT)"


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A failure of a plugin; or its success (SOUND) or its grade (GRADED), with the digest of its files.

    :param kind: FAILED, HUNG, CRASHED, NOTED, SOUND or GRADED.
    :param stage: import, register, config or run; the grade of one that is GRADED.
    :param cause: English template of the problem, or a text that is shown as it is.
    :param fix: template of the instruction of the error; empty = none of its own.
    :param digest: of the plugin's files then (:func:`files_digest`).
    :param run: process id.
    :param at: seconds since the epoch.
    :param times: crashes in a row; 1 for other kinds.
    :param place: file, line and key of the problem, if it has any.
    :param values: of the placeholders of both templates.
    :param config: digest of the config file then, of a failure that another file may not have.
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
    place: str = ""
    values: Mapping[str, str | int | float] = field(default_factory=dict)
    config: str = ""

    @property
    def why(self) -> str:
        """The place and the cause, in the language in use."""
        if not self.cause:
            return t("claw crashed {count:time|times} while loading it", count=self.times)
        return ": ".join(filter(None, (self.place, t(self.cause, **self.values))))

    @property
    def advice(self) -> str:
        """The instruction, in the language in use; empty when the error had none."""
        return t(self.fix, **self.values) if self.fix else ""

    @property
    def part(self) -> tuple[str, str]:
        """The part of the plugin that failed in a turn, as template and name (:class:`PartHealth`); empty for others."""
        is_part = self.kind == NOTED and self.stage == "run"
        return (self.cause, str(self.values["name"])) if is_part else ("", "")

    @property
    def of_other_process(self) -> bool:
        """True if the process in which the plugin failed goes on without it, and is not this one."""
        return self.kind not in (NOTED, SOUND, GRADED) and self.run != os.getpid() and _is_running(self.run)

    def holds_for(self, found: "InstalledPlugin") -> bool:
        """Return true if the files are those that failed; of a failure at run, if its process lives too."""
        # A note of a dead process has no digest.
        holds = self.stage != "run" or self.kind == NOTED or _is_running(self.run)
        return holds and self.digest in ("", files_digest(found))

    def outlasts(self, later: "LoadFailure") -> bool:
        """Return true if this record stays when a later one of its plugin is written.

        That of another process that runs without the plugin always does. A part that fails in turns does not work
        because the plugin loads; a failure at run is no reason to doubt the load before it.
        """
        if self.of_other_process or (self.kind == GRADED != later.kind):
            return True
        if later.kind in (NOTED, SOUND):
            return any(self.part)
        return later.stage == "run" and self.stage != "run"

    def prevents_loading(self, now: float) -> bool:
        """Return true if no process should load the plugin by itself: it hung, or crashed twice, in the last day."""
        often = self.kind == HUNG or (self.kind == CRASHED and self.times >= MAX_CRASHES)
        return often and now - self.at < WINDOW_SECONDS


class PluginHealth:
    """The failures of one home, and the note of this process.

    :param folder: ``CLAW_HOME/plugins``; ``state.db`` is beside it.
    :param database: ``state.db``, if it is open. What cannot be written is not recorded: it must not stop a start.
    :param only_looks: create no ``state.db`` to record a success.
    """

    def __init__(
        self, folder: Path, database: "Database | None" = None, now: Callable[[], float] = time.time,
        only_looks: bool = False,
    ) -> None:  # fmt: skip
        self._folder, self._database, self._now, self._only_looks = folder, database, now, only_looks
        self._path = database.path if database else folder.parent / "state.db"
        self.sound: dict[str, str] = {}  # plugin → digest of its loaded files, as of the last question
        self.grades: dict[str, tuple[str, str]] = {}  # plugin → its grade, and the digest of the graded files

    @cached_property
    def _recorded(self) -> set[str]:
        """The plugins with a record at the first question, and those that this process wrote about."""
        return {one.plugin for one in self._read()}

    def failures(self) -> dict[str, tuple[LoadFailure, ...]]:
        """Return plugin id → its failures: of the whole plugin first, then of its parts; the last one first.

        Nothing is written: notes of dead processes are only counted.
        """
        found, rows = dict[str, tuple[LoadFailure, ...]](), self._read()
        self.sound = {one.plugin: one.digest for one in rows if one.kind == SOUND}
        self.grades = {one.plugin: (one.stage, one.digest) for one in rows if one.kind == GRADED}
        for row in sorted(rows, key=lambda one: (one.kind == NOTED, -one.at)):
            if row.kind not in (SOUND, GRADED) and (not row.config or row.config == self.config_digest()):
                is_over = row.plugin in self.sound and row.stage != "run" and row.kind != NOTED
                kept = replace(row, digest="-") if is_over else row  # loaded since: it holds for no files
                found[row.plugin] = (*found.get(row.plugin, ()), kept)
        for _, plugin, cause in self._notes_of_dead_processes():
            if cause:
                found[plugin] = (self._crash(plugin, found.get(plugin, ())),)
        return found

    @contextmanager
    def guard(self, plugin: str) -> Iterator[None]:
        """Keep a note that ``plugin`` is being loaded, until it is."""
        from claw.storage.files import SYSTEM_DISK  # most commands load no plugin

        note = self._folder / f"{_NOTE}{os.getpid()}"
        # A command that changes nothing leaves no folder behind.
        missing = list(takewhile(lambda place: not place.is_dir(), (self._folder, *self._folder.parents)))
        _open_notes.add(note)
        try:
            with ExitStack() as recorder:
                with suppress(OSError, ClawError):
                    SYSTEM_DISK.make_folder(self._folder)
                    SYSTEM_DISK.write_note(note, f"{plugin}\n".encode())
                    recorder.enter_context(records_own_end(note))
                yield
        finally:
            _open_notes.discard(note)
            with suppress(OSError):  # the folder cannot be made, or another process uses it by now
                note.unlink(missing_ok=True)
                for folder in missing:
                    folder.rmdir()

    def count_crashes(self, installed: "Mapping[str, InstalledPlugin]") -> None:
        """Record a crash for each note with a cause that a dead process left."""
        for note, plugin, cause in tuple(self._notes_of_dead_processes()):
            if cause and plugin in installed:
                digest = files_digest(installed[plugin])
                before = [one for one in self._of(plugin) if one.digest == digest]
                self.record(replace(self._crash(plugin, before), digest=digest))
            with suppress(OSError):
                note.unlink(missing_ok=True)

    def record(self, *failures: LoadFailure) -> None:
        """Record the failure of a plugin, or all its parts that cannot be used (NOTED), in place of those of earlier
        loads; one at run is added to them."""
        first, now = failures[0], self._now()
        config = self.config_digest() if first.stage == "config" or first.kind == NOTED else ""
        rows = [replace(one, run=one.run or os.getpid(), at=one.at or now, config=config) for one in failures]
        if first.kind == NOTED:
            rows.append(LoadFailure(first.plugin, SOUND, "", "", digest=first.digest))
        self._store(first.plugin, [*(one for one in self._of(first.plugin) if one.outlasts(first)), *rows])

    def clear(self, plugin: str, *, parts: bool = False, digest: str = "") -> None:
        """Remove the records of a plugin that was loaded. That of another process that runs without it stays.

        :param parts: also the records of parts that failed in turns.
        :param digest: of its files; they are recorded as sound. Empty for a plugin of claw's own, which its tests load.
        """
        if (digest or plugin in self._recorded) and (self._path.exists() or not self._only_looks):
            sound = LoadFailure(plugin, SOUND, "", "", digest=digest)
            kept = (one for one in self._of(plugin) if one.outlasts(sound))
            self._store(plugin, [*(one for one in kept if not (parts and any(one.part))), sound])

    def replace_part(self, plugin: str, part: tuple[str, str], *failures: LoadFailure) -> None:
        """Record that a part of a loaded plugin failed in a turn, in place of its earlier failure, or that it works."""
        kept, now, run = [one for one in self._of(plugin) if one.part != part], self._now(), os.getpid()
        self._store(plugin, [*kept, *(replace(one, at=now, run=run) for one in failures)])

    def failed_parts(self) -> Iterator[tuple[str, str, str]]:
        """Yield plugin, template and name of each failure in turns that is recorded."""
        return ((one.plugin, *one.part) for one in self._read() if any(one.part))

    def reset(self, plugin: str) -> None:
        """Remove the failures of a plugin, because the operator says so."""
        self._store(plugin, [one for one in self._of(plugin) if one.kind in (SOUND, GRADED)])

    def record_grade(self, found: "InstalledPlugin", grade: str) -> None:
        """Record the grade of a plugin's present files, in place of an earlier one."""
        graded = LoadFailure(found.id, GRADED, grade, "", digest=files_digest(found))
        self._store(found.id, [*(one for one in self._of(found.id) if one.kind != GRADED), graded])

    def _store(self, plugin: str, rows: list[LoadFailure]) -> None:
        if [replace(one, at=0.0) for one in rows] == [replace(one, at=0.0) for one in self._of(plugin)]:
            return
        from claw.contracts.text import to_json  # most commands only read
        from claw.storage.database import Database

        delete = "DELETE FROM plugin_failures WHERE plugin = ?", (plugin,)
        insert = "INSERT INTO plugin_failures VALUES (?, ?)"
        database = self._database or Database(self._path)
        with suppress(OSError, ClawError):
            database.tables("health", _TABLE)
            database.write_all(delete, *((insert, (plugin, to_json(one)[1])) for one in rows))
        if database is not self._database:
            database.close()
        self._recorded.add(plugin)

    def _crash(self, plugin: str, before: Sequence[LoadFailure]) -> LoadFailure:
        now = self._now()
        recent = (one.times for one in before if one.kind == CRASHED and now - one.at < WINDOW_SECONDS)
        return LoadFailure(plugin, CRASHED, "import", "", at=now, times=max(recent, default=0) + 1)

    def _of(self, plugin: str) -> list[LoadFailure]:
        return [one for one in self._read() if one.plugin == plugin]

    def _read(self) -> list[LoadFailure]:
        if not self._path.is_file():
            return []
        import sqlite3  # a home without state needs none

        from claw.storage.database import database_error, print_once, read_only_address

        place, seconds = read_only_address(self._path), 0 if self._path in _unreadable else _LOCK_SECONDS
        try:
            with closing(sqlite3.connect(place, uri=True, timeout=seconds)) as connection:
                rows = connection.execute("SELECT failure FROM plugin_failures").fetchall()
                return [msgspec.json.decode(row, type=LoadFailure) for (row,) in rows]
        except (sqlite3.Error, ValueError) as refused:
            # A file that is no database holds no record; who opens it for writing moves it, and says so.
            is_none = getattr(refused, "sqlite_errorcode", 0) == _NO_DATABASE
            if not is_none and "no such table" not in str(refused):
                _unreadable.add(self._path)
                print_once(str(database_error(self._path, refused)))
            return []

    def config_digest(self) -> str:
        """Return a digest of the config file."""
        import hashlib  # a home without failures needs none

        text = b""
        with suppress(OSError, ClawError):
            file = find_config(self._path.parent)
            text = file.read_bytes() if file else b""
        return hashlib.sha256(text).hexdigest()[:16]

    def _notes_of_dead_processes(self) -> Iterator[tuple[Path, str, str]]:
        """Yield each note of a dead process, its plugin, and the cause of the end; empty when it did not end by itself.

        A note with our own pid was left by another process with that pid, as in a container, where a restart gets the
        pid of the process that died.
        """
        for note in self._folder.glob(f"{_NOTE}*"):
            pid = note.name.removeprefix(_NOTE)
            is_dead = pid == str(os.getpid()) or not (pid.isdecimal() and _is_running(int(pid)))
            if note not in _open_notes and is_dead:
                with suppress(OSError):
                    plugin, _, cause = note.read_text(encoding="utf-8", errors="replace").partition("\n")
                    yield note, plugin.strip(), cause.strip()


class PartHealth:
    """The parts of plugins that fail in turns: a prompt section, a reviewer, an observer ...

    A failure is recorded, at most once in ``_REPEAT_SECONDS`` as turns may be many, and removed when the part works. One
    that fails again soon after it worked stays recorded for ``_REPEAT_SECONDS``: it would cost two writes a turn.
    """

    def __init__(
        self, health: PluginHealth | None = None, installed: "Sequence[InstalledPlugin]" = ()
    ) -> None:
        self._health, self._installed = health, {one.id: one for one in installed if not one.rival}
        self._stays_until = dict[tuple[str, str, str], float]()  # of a part that was removed

    @cached_property
    def _known(self) -> dict[tuple[str, str, str], float]:
        """The parts that failed in turns, each with the time from which it is recorded again."""
        return dict.fromkeys(self._health.failed_parts() if self._health else (), 0.0)

    def failed(self, plugin: str, template: str, *, name: str, why: str) -> None:
        """Record a failure.

        :param template: of the problem, in English; the part is known by it and by ``name``.
        :param name: of the section, the method or the event that failed.
        """
        known, now, key = self._known, time.monotonic(), (plugin, template, name)
        if self._health and plugin in self._installed and now >= known.get(key, 0.0):
            known[key] = now + _REPEAT_SECONDS
            digest, cause = files_digest(self._installed[plugin]), " ".join(why.split())  # a row has one line
            values = {"name": name, "why": cause}
            failure = LoadFailure(plugin, NOTED, "run", template, digest=digest, values=values)
            self._health.replace_part(plugin, failure.part, failure)

    def worked(self, plugin: str, template: str, *, name: str = "") -> None:
        """Remove the failure of a part, if one is recorded."""
        key, now = (plugin, template, name), time.monotonic()
        if self._health and key in self._known and now >= self._stays_until.get(key, 0.0):
            del self._known[key]
            self._stays_until[key] = now + _REPEAT_SECONDS
            self._health.replace_part(plugin, (template, name))


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
                line = f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\n"
                digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


_NOT_OF_PLUGINS = sys.stdlib_module_names | {"claw", "pluggy"}


def package_of(frame: FrameType) -> str:
    """Return the package of a running function; empty for claw, pluggy and Python."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return "" if package in _NOT_OF_PLUGINS else package


def location_of(why: BaseException, caller: str = "") -> str:
    """Return the line of a plugin's own code that raised, as ``package/file.py:7``; empty when there is none.

    The plugin is the first package of the traceback that is not claw, pluggy, Python or ``caller``: the package of
    a plugin that calls others.
    """
    own, place, step = "", "", (why.__cause__ or why).__traceback__
    while step:
        if (package := package_of(step.tb_frame)) not in ("", caller) and package == (own or package):
            own, place = package, "/".join(Path(step.tb_frame.f_code.co_filename).parts[-2:])
            place += f":{step.tb_lineno}"
        step = step.tb_next
    return place


@contextmanager
def records_own_end(note: Path) -> Iterator[None]:
    """Add a line to the note if the process ends itself meanwhile: by ``os._exit``, or by a fault in C code, which the
    innermost note gets. claw's own exits call ``posix._exit``, and a child that plugin code forks is not this process.
    """
    import faulthandler  # most commands load no plugin

    process, leave = os.getpid(), os._exit

    def recorded(status: int) -> NoReturn:
        if not file.closed and os.getpid() == process:
            os.write(file.fileno(), b"os._exit\n")
        leave(status)

    with note.open("ab", buffering=0) as file:
        # else the operator or a test reads its output elsewhere
        watches_faults = bool(_fault_files) or not faulthandler.is_enabled()
        os._exit = recorded
        if watches_faults:
            _fault_files.append(file)
            faulthandler.enable(file, all_threads=False)
        try:
            yield
        finally:
            if watches_faults:
                _fault_files.remove(file)
                faulthandler.disable()
                if _fault_files:
                    faulthandler.enable(_fault_files[-1], all_threads=False)
            if os._exit is recorded:
                os._exit = leave


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process belongs to another user
        return True
    try:  # one that ended and that no parent has waited for, as in a container (proc(5), "stat")
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # not Linux
        return True
