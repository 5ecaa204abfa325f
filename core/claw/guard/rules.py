"""Rule files: what a prompt takes from disk as the agent's own words. They change by an owner's word alone.

No tool can write one through the fence: what it wants is held (``Hold``) until an owner has seen the difference. What
changes one past the fence, as a command can, is put back (``Watch``), and held in the same way.
"""

import difflib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from claw.errors import FenceError
from claw.guard.way import Spot, open_folder, replace_at, shown
from claw.words import say

ANYWHERE = ("AGENTS.md", "CLAUDE.md")
"""Read from whichever folder a chat stands in, so that each of them is a rule file."""
OF_AN_AGENT = ("SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "HEARTBEAT.md")
"""Read from an agent's own folder and its workspace."""

_SETTLED_NS = (
    50_000_000  # a file system's clock ticks in milliseconds: what changed just now may change unseen
)
_ANYWHERE, _OF_AN_AGENT = ({name.casefold() for name in names} for names in (ANYWHERE, OF_AN_AGENT))


@dataclass(frozen=True, slots=True)
class Rules:
    """:param folders: where the files of :data:`OF_AN_AGENT` count, with no link in them: an agent's own folder, and
    its workspace."""

    folders: tuple[Path, ...]

    @property
    def places(self) -> tuple[Path, ...]:
        """Every path that a prompt may read, and some that none does."""
        return tuple(folder / name for folder in self.folders for name in (*ANYWHERE, *OF_AN_AGENT))

    def has(self, spot: Spot) -> bool:
        """Whether a rule file is there, by its name, or as the target of a link or another name of the same file."""
        name = spot.path.name.casefold()
        if name in _ANYWHERE or (name in _OF_AN_AGENT and spot.path.parent in self.folders):
            return True
        there = spot.lstat()
        more_names = there is not None and there.st_nlink > 1
        return any(_is_same(place, spot.path, there if more_names else None) for place in self.places)


def _is_same(place: Path, path: Path, there: os.stat_result | None) -> bool:
    try:
        if stat.S_ISLNK(os.lstat(place).st_mode):
            return os.path.realpath(place) == str(path)
        return there is not None and os.path.samestat(os.stat(place), there)
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Change:
    """What a rule file would become; None = there is no such file.

    :param path: with no link in it.
    """

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def stands(self) -> bool:
        """Whether the file is still what the change was made from."""
        return _content(self.path) == self.before

    def make(self) -> None:
        """Write it.

        :raises OSError: the disk refused.
        """
        put(self.path, self.after)


class Hold:
    """What one call wants of rule files, and where the notes come from that it writes. For several threads.

    :param origin: words of a mark (``claw.origin``).
    :param takes: whether an owner may be asked; else what it would hold is refused at once.
    """

    def __init__(self, origin: str, takes: bool = True) -> None:
        self.origin, self.takes = origin, takes
        self._wanted: dict[Path, Change] = {}
        self._lock, self._over = threading.Lock(), False

    def want(self, spot: Spot, after: bytes | None) -> None:
        """Note what a file is to become.

        :raises FenceError: the call is over.
        """
        with self._lock:
            if self._over:
                raise FenceError(
                    "{path} is a rule file: it changes only while its call runs", path=shown(str(spot.path))
                )
            first = self._wanted.get(spot.path)
            before = first.before if first else content_at(spot)
            self._wanted[spot.path] = Change(spot.path, before, after)

    def now(self, path: Path) -> Change | None:
        """What the call wants of this file so far."""
        return self._wanted.get(path)

    def end(self) -> tuple[Change, ...]:
        """Everything that would be another one afterwards; from now on nothing more is taken."""
        with self._lock:
            self._over = True
        return tuple(change for change in self._wanted.values() if change.before != change.after)


@dataclass(frozen=True, slots=True)
class _State:
    """What stands at a path: where a link leads, and the bytes there; None = nothing."""

    link: str | None
    data: bytes | None


class Watch:
    """What rule files say while calls run, so that one that changes meanwhile is put back. One for the house.

    Calls that overlap have the same state to go back to: what the first of them found, and what an owner allowed since.
    """

    def __init__(self) -> None:
        self._held: dict[Path, tuple[int, _State]] = {}
        self._read: dict[Path, tuple[object, _State]] = {}

    def begin(self, places: Iterable[Path]) -> None:
        """A call begins."""
        for place in places:
            count, state = self._held.get(place) or (0, self._look(place))
            self._held[place] = count + 1, state

    def end(self, places: Iterable[Path], complain: Callable[[str], None]) -> tuple[Change, ...]:
        """A call is over: what changed in the meantime, and is as before again.

        :param complain: told what the disk does not let us put back.
        """
        changes = []
        for place in places:
            count, was = self._held.pop(place)
            if count > 1:
                self._held[place] = count - 1, was
            now = self._look(place)
            if now != was:
                try:
                    changes.append(_put_back(place, was, now))
                except OSError as why:
                    complain(say("{path} was changed, and cannot be put back: {why}", path=place, why=why))
        return tuple(changes)

    def allowed(self, change: Change) -> None:
        """An owner allowed this: calls that run go back to it from now on."""
        for place, (count, state) in self._held.items():
            if os.path.realpath(place) == str(change.path):
                self._held[place] = count, _State(state.link, change.after)

    def _look(self, place: Path) -> _State:
        stamp = _stamp(place)
        known = self._read.get(place)
        if known and known[0] == stamp:
            return known[1]
        link = None
        with suppress(OSError):
            link = os.readlink(place)
        state = _State(link, _content(place))
        if stamp is not None and time.time_ns() - max(stamp[0][1], stamp[1][1]) > _SETTLED_NS:
            self._read[place] = stamp, state
        return state


def content_at(spot: Spot) -> bytes | None:
    """The bytes of a regular file; None when there is none, or a link."""
    return _content(spot.name, spot.folder, os.O_NOFOLLOW)


def _content(path: str | Path, folder: int | None = None, more: int = 0) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | more, dir_fd=folder)
    except OSError:
        return None
    with open(handle, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None


def put(path: Path, data: bytes | None) -> None:
    """Make a file hold exactly ``data``, or take it away.

    :param path: with no link in it; one that has become a link is refused.
    :raises OSError: the disk refused.
    """
    folder = open_folder(path.parent)
    try:
        spot = Spot(folder, path.name, path)
        old = spot.lstat()
        if data is not None:
            replace_at(spot, data, None if old is None else stat.S_IMODE(old.st_mode))
        elif old is not None:
            os.unlink(spot.name, dir_fd=folder)
    finally:
        os.close(folder)


def difference(changes: Iterable[Change]) -> str:
    """The changes as a person reads them: one unified difference."""
    return "\n".join(line for change in changes for line in _difference(change))


def _difference(change: Change) -> Iterable[str]:
    before, after = (_lines(data) for data in (change.before, change.after))
    old, new = (
        str(change.path) if data is not None else "/dev/null" for data in (change.before, change.after)
    )
    yield from difflib.unified_diff(before, after, old, new, lineterm="")
    for sign, data in (("-", change.before), ("+", change.after)):
        if data and not data.endswith(b"\n"):
            yield f"\\ no line end at the end of {sign}"


def _lines(data: bytes | None) -> list[str]:
    lines = (data or b"").decode("utf-8", "backslashreplace").split("\n")
    return lines[:-1] if not lines[-1] else lines


def _put_back(place: Path, was: _State, now: _State) -> Change:
    path = Path(os.path.realpath(place.parent)) / place.name
    if was.link != now.link:
        with suppress(FileNotFoundError):
            os.unlink(path)
        if was.link is not None:
            os.symlink(was.link, path)
    target = Path(os.path.realpath(path))
    if _content(target) != was.data:
        put(target, was.data)
    return Change(target, was.data, now.data)


def _stamp(place: Path) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """What tells one version of a file from another; a program cannot set the time of the last change of an inode."""
    try:
        one = os.lstat(place)
        other = os.stat(place) if stat.S_ISLNK(one.st_mode) else one
    except OSError:
        return None
    return _version(one), _version(other)


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_dev
