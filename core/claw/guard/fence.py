"""The fence: which files an agent may touch, and everything that a file tool can do with them.

Held by directory descriptors instead of by comparing strings: see ``way``.
"""

import contextlib
import copy
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from claw.errors import FenceError
from claw.guard.rules import Hold, Rules, content_at
from claw.guard.way import FOLDER, Access, Root, Spot, Way, closed_at, led_out, replace_at, shown, wall_of
from claw.origin import added, kept

Kind = Literal["file", "dir", "link", "other"]

# Non-blocking: a pipe must not hold us until it is recognised.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_CAUSES = {
    errno.ENOENT: (
        "there is no {path}",
        "list its folder; names are taken letter by letter, ~ and $ mean themselves",
    ),
    errno.ENOTDIR: ("{path} uses a file as if it were a folder", ""),
    errno.EISDIR: ("{path} is a folder, not a file", ""),
    errno.ELOOP: ("{path} goes round in links", ""),
    errno.ENAMETOOLONG: ("{path} has a name that is too long", ""),
    errno.EACCES: ("the system does not let this user open {path}", ""),
    errno.EPERM: ("the system does not let this user open {path}", ""),
    errno.ENXIO: ("{path} is not a regular file", ""),
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a folder.

    :param name: as on disk; bytes that are no UTF-8 are lone surrogates (``os.fsdecode``).
    """

    name: str
    kind: Kind
    size_bytes: int


class Fence:
    """Everything a file tool can do, within ``roots``. May be used from several threads.

    Paths are as the model wrote them: relative ones start in the workspace, absolute ones in the root that contains
    them. Nothing is decoded, folded, expanded or stripped. Roots add up: what one allows, another does not take away.

    :param roots: what may be touched. A root that lies in the workspace by name and leads out of it by a link is dropped.
    :param workspace: the folder where relative paths start; read and write unless ``roots`` has it with other rights.
    :param closed: folders of which only the roots inside them may be touched, also when another root contains them
        (``CLAW_HOME``, for a person who chats in the home folder).
    :param rules: folders with files that an agent never writes itself: only :meth:`holding` takes what it wants of them.
    :raises FenceError: from every method, with a text the model can act on and nothing of what lies outside.
    """

    def __init__(
        self, roots: Iterable[Root], workspace: Path, closed: Iterable[Path] = (), rules: Iterable[Path] = ()
    ) -> None:
        self.workspace = Path(os.path.abspath(workspace))
        given = list(roots)
        if not any(os.path.abspath(root.path) == str(self.workspace) for root in given):
            given.insert(0, Root(self.workspace, write=True))
        home = Path(os.path.realpath(self.workspace))
        self._walls = tuple(wall for wall in map(wall_of, given) if not led_out(wall, self.workspace, home))
        self._closed = tuple(folder for folder in map(closed_at, closed) if folder is not None)
        folders = tuple(dict.fromkeys(Path(os.path.realpath(folder)) for folder in rules))
        self._rules = Rules(folders) if folders else None
        self._notes = tuple(wall.path for wall in self._walls if wall.root.notes)
        self._hold: Hold | None = None

    @property
    def rule_places(self) -> tuple[Path, ...]:
        """Where the files are that an agent never writes itself."""
        return self._rules.places if self._rules else ()

    def holding(self, hold: Hold) -> "Fence":
        """This fence for one call: what the call wants of rule files is held back, its notes are marked."""
        held = copy.copy(self)
        held._hold = hold
        return held

    # what a tool asks

    def read(self, path: str, limit_bytes: int | None = None) -> bytes:
        """The bytes of a regular file, at most the first ``limit_bytes``."""
        with self._spot(path, "read") as spot:
            if self._hold and (wanted := self._hold.now(spot.path)):
                if wanted.after is None:
                    raise _error(errno.ENOENT, path)
                return wanted.after[:limit_bytes]
            _regular(spot.lstat(), path)  # before opening: to open a device may already do something
            handle = spot.open(os.O_RDONLY | _FILE)
            with open(handle, "rb") as file:
                _regular(os.fstat(handle), path)
                return file.read(-1 if limit_bytes is None else limit_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Make the file hold exactly ``data``, at once or not at all; folders on the way are made, its mode is kept."""
        with self._spot(path, "write") as spot:
            old = spot.lstat()
            if old is not None:
                _regular(old, path)
                if not old.st_mode & 0o222:
                    raise FenceError("{path} is write-protected", path=shown(path))
            if not self._is_held(spot, data):
                if origin := self._origin(spot):
                    data = _bytes(kept(_text(content_at(spot)), _text(data), origin))
                replace_at(spot, data, None if old is None else stat.S_IMODE(old.st_mode))

    def append(self, path: str, data: bytes) -> None:
        """Add ``data`` at the end; a missing file is made."""
        with self._spot(path, "append") as spot:
            if (old := spot.lstat()) is not None:
                _regular(old, path)
            wanted = self._hold.now(spot.path) if self._hold else None
            if self._is_held(spot, ((wanted.after if wanted else content_at(spot)) or b"") + data):
                return
            if origin := self._origin(spot):
                data = _bytes(added(_text(content_at(spot)), _text(data), origin))
            handle = spot.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE)
            with open(handle, "ab") as file:
                _regular(os.fstat(handle), path)
                file.write(data)

    def remove(self, path: str) -> None:
        """Take away a file; of a link, the link and not its target. Folders stay."""
        with self._spot(path, "write", last_link=False) as spot:
            status = spot.lstat()
            if status is None or stat.S_ISDIR(status.st_mode):
                raise _error(errno.ENOENT if status is None else errno.EISDIR, path)
            if self._is_held(spot, None):
                return
            os.unlink(spot.name, dir_fd=spot.folder)

    def stat(self, path: str) -> Entry:
        """What ``path`` is, links followed."""
        with self._spot(path, "read") as spot:
            status, wanted = spot.lstat(), self._hold.now(spot.path) if self._hold else None
            if wanted and wanted.after is not None:
                return Entry(spot.path.name, "file", len(wanted.after))
            if status is None or wanted:
                raise _error(errno.ENOENT, path)
            return _entry(spot.path.name, status)

    def entries(self, path: str) -> tuple[Entry, ...]:
        """What lies directly in a folder, by name; links are not followed."""
        with self._opened(path) as folder, os.scandir(folder) as found:
            rows = []
            for item in found:
                with contextlib.suppress(FileNotFoundError):  # gone since it was listed
                    rows.append(_entry(item.name, item.stat(follow_symlinks=False)))
        return tuple(sorted(rows, key=lambda entry: entry.name))

    def folder(self, path: str) -> Path:
        """The true path of a folder inside, for a child process to start in."""
        with self._spot(path, "read") as spot:
            status = spot.lstat()
            if status is None or not stat.S_ISDIR(status.st_mode):
                raise _error(errno.ENOENT if status is None else errno.ENOTDIR, path)
            return spot.path

    def show(self, path: str) -> str:
        """``path`` as people read it: relative to the workspace when inside. Asks no disk, refuses nothing."""
        full = os.path.normpath(self.workspace / path)
        for base in (str(self.workspace), os.path.realpath(self.workspace)):
            if full == base or full.startswith(base.rstrip("/") + "/"):
                full = os.path.relpath(full, base)
                break
        return shown(full)

    # what a call may not do itself

    def _is_held(self, spot: Spot, after: bytes | None) -> bool:
        """Whether this is a rule file; then nothing is written, and what it is to become is held."""
        if self._rules is None or not self._rules.has(spot):
            return False
        if self._hold is None or not self._hold.takes:
            raise FenceError(
                "{path} is a rule file, and this agent does not change those",
                where="agents.defaults.ruleFiles",
                path=shown(str(spot.path)),
            )
        if spot.is_link:
            raise FenceError(
                "{path} is a rule file, and a link: a person has to change it", path=shown(str(spot.path))
            )
        self._hold.want(spot, after)
        return True

    def _origin(self, spot: Spot) -> str:
        """Where the words come from that are written there; empty when that is no note, or nobody knows."""
        inside = any(note == spot.path or note in spot.path.parents for note in self._notes)
        return self._hold.origin if self._hold and inside and spot.path.suffix.lower() == ".md" else ""

    # the walk

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """A folder, open for listing."""
        with self._spot(path, "read") as spot:
            handle = spot.open(os.O_RDONLY | FOLDER)
            try:
                yield handle
            finally:
                os.close(handle)

    @contextlib.contextmanager
    def _spot(self, path: str, access: Access, *, last_link: bool = True) -> Iterator[Spot]:
        """Walk to where ``path`` ends, and hold the folder open while the caller works there."""
        _check_text(path)
        names = path.split("/")
        if access != "read" and names[-1] in ("", ".", ".."):
            raise _error(errno.EISDIR, path)
        with contextlib.closing(Way(self._walls, self._closed, path, access, last_link)) as way:
            try:
                yield way.end(names if path.startswith("/") else [*self.workspace.parts[1:], *names])
            except OSError as broken:
                raise _error(broken.errno or 0, path) from None


def fence_round(roots: Iterable[Root], workspace: Path, closed: Path, rules: Iterable[Path] = ()) -> Fence:
    """The fence of these roots: the one made before, while every root leads to where it led."""
    given = tuple(roots)
    return _fence(given, workspace, closed, tuple(rules), tuple(_led_to(root.path) for root in given))


@lru_cache(maxsize=64)
def _fence(
    roots: tuple[Root, ...],
    workspace: Path,
    closed: Path,
    rules: tuple[Path, ...],
    led_to: tuple[tuple[int, int] | None, ...],
) -> Fence:
    return Fence(roots, workspace, (closed,), rules)


def _led_to(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _entry(name: str, status: os.stat_result) -> Entry:
    kinds: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}
    return Entry(name, kinds.get(stat.S_IFMT(status.st_mode), "other"), status.st_size)


def _regular(status: os.stat_result | None, path: str) -> None:
    if status is None:
        raise _error(errno.ENOENT, path)
    if stat.S_ISDIR(status.st_mode):
        raise _error(errno.EISDIR, path)
    if not stat.S_ISREG(status.st_mode):
        raise _error(errno.ENXIO, path)


def _check_text(path: object) -> None:
    if not isinstance(path, str) or not path:
        raise FenceError("a path must be a text that is not empty")
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        raise FenceError("{path} holds a character that no file name can hold", path=shown(path)) from None
    if b"\0" in raw:
        raise FenceError("{path} holds a NUL character; no file name does", path=shown(path))


def _error(code: int, path: str) -> FenceError:
    problem, fix = _CAUSES.get(code, ("{path} cannot be used: {cause}", ""))
    return FenceError(problem, fix=fix, path=shown(path), cause=os.strerror(code))
