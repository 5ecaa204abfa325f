"""Rule files: files that a prompt includes as the agent's own instructions. Only an owner can allow a change.

No tool can write one through the fence: the requested change is held (``RuleFileRequest``) until an owner has
seen the diff. A
change that bypasses the fence, as a command can, is reverted (``Watch``), and then held in the same way.
"""

import difflib
import os
import stat
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from claw.contracts.errors import FenceError
from claw.contracts.text import digest_of, format_arguments
from claw.i18n import t
from claw.security.path_walk import PathTarget, open_folder, printable_path, replace_at

RULE_FILES_ANYWHERE = ("AGENTS.md", "CLAUDE.md")
"""Read from any folder that a chat uses, so a file of this name is a rule file everywhere."""
RULE_FILES_OF_AGENT = ("SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "HEARTBEAT.md")
"""Read from an agent's own folder and its workspace."""

# Clocks of file systems tick in milliseconds: a file that changed just now may change again with the same time stamps.
_SETTLED_NS = 50_000_000
_ANYWHERE, _OF_AN_AGENT = (
    {name.casefold() for name in names} for names in (RULE_FILES_ANYWHERE, RULE_FILES_OF_AGENT)
)


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """The rule files of one agent.

    :param folders: where the files of :data:`RULE_FILES_OF_AGENT` are rule files, without links in the path:
    the agent's own
        folder and its workspace.
    """

    folders: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every path that a prompt may read, and some that none reads."""
        return tuple(
            folder / name for folder in self.folders for name in (*RULE_FILES_ANYWHERE, *RULE_FILES_OF_AGENT)
        )

    def contains(self, spot: PathTarget) -> bool:
        """Return true if this is a rule file: by name, as the target of a link, or as a hard link to one."""
        name = spot.path.name.casefold()
        if name in _ANYWHERE or (name in _OF_AN_AGENT and spot.path.parent in self.folders):
            return True
        there = spot.lstat()
        more_names = there is not None and there.st_nlink > 1
        return any(_is_same(place, spot.path, there if more_names else None) for place in self.paths)


def _is_same(place: Path, path: Path, there: os.stat_result | None) -> bool:
    try:
        if stat.S_ISLNK(os.lstat(place).st_mode):
            return os.path.realpath(place) == str(path)
        return there is not None and os.path.samestat(os.stat(place), there)
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class RuleFileChange:
    """A requested change of a rule file: its content before and after; None = there is no such file.

    :param path: without links in it.
    """

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def is_current(self) -> bool:
        """True if the file still has the content that the change is based on."""
        return _content(self.path) == self.before

    def apply(self) -> None:
        """Write the change to disk.

        :raises OSError: the write failed.
        """
        write_or_remove(self.path, self.after)


class RuleFileRequest:
    """The changes of rule files that one tool call requests, and the provenance of the notes it writes. Thread-safe.

    :param origin: text of a provenance mark (``claw.storage.provenance``).
    :param takes: an owner may be asked; else each change is refused at once.
    """

    def __init__(self, origin: str, takes: bool = True) -> None:
        self.provenance, self.can_ask = origin, takes
        self._changes: dict[Path, RuleFileChange] = {}
        self._lock, self._is_over = threading.Lock(), False

    def request(self, spot: PathTarget, after: bytes | None) -> None:
        """Record the requested content of a file.

        :raises FenceError: the call has ended.
        """
        with self._lock:
            if self._is_over:
                raise FenceError(
                    "{path} is a rule file: it can only be changed by the approved call",
                    path=printable_path(str(spot.path)),
                )
            first = self._changes.get(spot.path)
            before = first.before if first else read_at(spot)
            self._changes[spot.path] = RuleFileChange(spot.path, before, after)

    def requested(self, path: Path) -> RuleFileChange | None:
        """Return the change of this file that the call has requested so far."""
        return self._changes.get(path)

    def close(self) -> tuple[RuleFileChange, ...]:
        """Return the changes that differ from the present content, and refuse further ones."""
        with self._lock:
            self._is_over = True
        return tuple(change for change in self._changes.values() if change.before != change.after)


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a path: the target of a link, and the content; None = absent."""

    link: str | None
    data: bytes | None


class Watch:
    """The content of rule files while calls run, so that a change behind the fence is reverted. One per process.

    Overlapping calls share one state to revert to: the state when the first of them began, plus the changes that an
    owner has allowed since.
    """

    def __init__(self) -> None:
        self._active: dict[Path, tuple[int, _State]] = {}
        self._cache: dict[Path, tuple[object, _State]] = {}

    def begin(self, places: Iterable[Path]) -> None:
        """Record the state of the files when a call begins."""
        for place in places:
            count, state = self._active.get(place) or (0, self._read_state(place))
            self._active[place] = count + 1, state

    def end(self, places: Iterable[Path], log: Callable[[str], None]) -> tuple[RuleFileChange, ...]:
        """Revert the files that changed during a call that ends, and return the reverted changes.

        :param log: called with a message for each file that cannot be reverted.
        """
        changes = []
        for place in places:
            count, was = self._active.pop(place)
            if count > 1:
                self._active[place] = count - 1, was
            now = self._read_state(place)
            if now != was:
                try:
                    changes.append(_revert(place, was, now))
                except OSError as why:
                    log(t("{path} was changed and could not be restored: {why}", path=place, why=why))
        return tuple(changes)

    def allowed(self, change: RuleFileChange) -> None:
        """Record a change that an owner has allowed: running calls keep it from now on."""
        for place, (count, state) in self._active.items():
            if os.path.realpath(place) == str(change.path):
                self._active[place] = count, _State(state.link, change.after)

    def _read_state(self, place: Path) -> _State:
        stamp = _fingerprint(place)
        known = self._cache.get(place)
        if known and known[0] == stamp:
            return known[1]
        link = None
        with suppress(OSError):
            link = os.readlink(place)
        state = _State(link, _content(place))
        if stamp is not None and time.time_ns() - max(stamp[0][1], stamp[1][1]) > _SETTLED_NS:
            self._cache[place] = stamp, state
        return state


class RuleFileFence(Protocol):
    """The workspace files of a turn, as far as a guard of rule files needs them."""

    @property
    def rule_file_paths(self) -> tuple[Path, ...]: ...

    def display_path(self, path: str) -> str: ...


AskOwner = Callable[[str, str, str], Awaitable[str]]
"""Put a text before an owner: the text, a title, and a digest of what the answer binds besides. The answer is the reason
why it may not be done; empty when it may."""


class RuleFileGuard:
    """The changes of one tool call to rule files. Without the word of an owner they are not made.

    :param mode: ``agents.*.ruleFiles``: with ``ask`` an owner is asked, with ``deny`` no one is.
    :param provenance: the mark of the notes that the call writes.
    """

    def __init__(
        self, fence: RuleFileFence, watch: Watch, mode: str, provenance: str, log: Callable[[str], None]
    ) -> None:
        self._fence, self._watch, self._log = fence, watch, log
        self._may_ask = mode == "ask"
        self.request = RuleFileRequest(provenance, takes=self._may_ask)
        self._changes: list[RuleFileChange] = []

    async def check_before(
        self, leaves_running: Sequence[str], arguments: Mapping[str, Any], ask_owner: AskOwner
    ) -> str:
        """Ask an owner about a background call that names a rule file, because its changes would be unseen.

        :param leaves_running: of the tool: the arguments with which a call goes on behind its end; ``*`` = every call.
        :returns: the reason why the call may not begin; empty when it may.
        """
        if not self._fence.rule_file_paths or not runs_on_with_rule_files(leaves_running, arguments):
            return ""
        if not self._may_ask:
            return _denial()
        title = t("it continues in the background and mentions a rule file")
        return await ask_owner(format_arguments(arguments), title, digest_of(dict(arguments)))

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Watch rule files while the call runs, and revert at its end what bypassed the fence."""
        places, watch = self._fence.rule_file_paths, self._watch
        watch.begin(places)
        try:
            yield
        finally:
            held = self.request.close()
            bypassed = watch.end(places, self._log)
            for change in bypassed:
                self._log(t("{path} was changed without permission and has been restored", path=change.path))
            self._changes = [change for change in (*bypassed, *held) if change.before != change.after]

    async def apply_changes(self, ask_owner: AskOwner) -> tuple[str, bool]:
        """Make the changes that an owner allows; return a line about the outcome, and false if they were refused.

        The line is empty when the call changed no rule file.
        """
        if not self._changes:
            return "", True
        refused = await self._apply(self._changes, ask_owner)
        names = ", ".join(
            dict.fromkeys(self._fence.display_path(str(change.path)) for change in self._changes)
        )
        if refused:
            return t(
                "{names}: change rejected, the file was not modified: {why}", names=names, why=refused
            ), False
        return t("{names}: an owner approved the change", names=names), True

    async def _apply(self, changes: Sequence[RuleFileChange], ask_owner: AskOwner) -> str:
        """Make the changes if an owner allows them; return the reason if they were not made, else an empty text."""
        if not self._may_ask:
            return _denial()
        title = t("rules for every later conversation")
        binding = digest_of([[str(each.path), repr(each.before), repr(each.after)] for each in changes])
        if why := await ask_owner(rule_file_diff(changes), title, binding):
            return why
        if not all(change.is_current for change in changes):
            return t("it was changed in the meantime; read it again")
        done: list[RuleFileChange] = []
        try:
            for change in changes:
                change.apply()
                done.append(change)
                self._watch.allowed(change)
        except OSError as error:
            for change in done:
                reverted = replace(change, before=change.after, after=change.before)
                reverted.apply()
                self._watch.allowed(reverted)
            return t("the file system failed: {why}", why=error)
        return ""


def runs_on_with_rule_files(leaves_running: Sequence[str], arguments: Mapping[str, Any]) -> bool:
    """Return true if a call leaves a program running, or writes to one, and names a rule file."""
    if not any(name == "*" or arguments.get(name) for name in leaves_running):
        return False
    words = format_arguments(arguments).casefold()
    return any(name.casefold() in words for name in (*RULE_FILES_ANYWHERE, *RULE_FILES_OF_AGENT))


def _denial() -> str:
    return t("agents may not change rule files here (agents.defaults.ruleFiles: deny)")


def read_at(spot: PathTarget) -> bytes | None:
    """Read a regular file; None when it is missing, or a link."""
    return _content(spot.name, spot.folder, os.O_NOFOLLOW)


def _content(path: str | Path, folder: int | None = None, more: int = 0) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | more, dir_fd=folder)
    except OSError:
        return None
    with open(handle, "rb") as file:
        return file.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None


def write_or_remove(path: Path, data: bytes | None) -> None:
    """Replace the content of a file, or remove it if ``data`` is None.

    :param path: without links in it; a part that has become a link is refused.
    :raises OSError: the write failed.
    """
    folder = open_folder(path.parent)
    try:
        spot = PathTarget(folder, path.name, path)
        old = spot.lstat()
        if data is not None:
            replace_at(spot, data, None if old is None else stat.S_IMODE(old.st_mode))
        elif old is not None:
            os.unlink(spot.name, dir_fd=folder)
    finally:
        os.close(folder)


def rule_file_diff(changes: Iterable[RuleFileChange]) -> str:
    """Return the changes as one unified diff, for a person to read."""
    return "\n".join(line for change in changes for line in _difference(change))


def _difference(change: RuleFileChange) -> Iterable[str]:
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


def _revert(place: Path, was: _State, now: _State) -> RuleFileChange:
    path = Path(os.path.realpath(place.parent)) / place.name
    if was.link != now.link:
        with suppress(FileNotFoundError):
            os.unlink(path)
        if was.link is not None:
            os.symlink(was.link, path)
    target = Path(os.path.realpath(path))
    if _content(target) != was.data:
        write_or_remove(target, was.data)
    return RuleFileChange(target, was.data, now.data)


def _fingerprint(place: Path) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return values that identify a version of a file. They include the ctime of the inode, which no program can set."""
    try:
        one = os.lstat(place)
        other = os.stat(place) if stat.S_ISLNK(one.st_mode) else one
    except OSError:
        return None
    return _stat_key(one), _stat_key(other)


def _stat_key(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_dev
