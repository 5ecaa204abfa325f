"""Rule files: files that a prompt includes as the agent's own instructions. Only an owner can allow a change.

No tool can write one through the fence: the requested change is held (``RuleFileGuard``) until an owner has seen the
diff. A change that bypasses the fence, as a command can, is reverted (``RuleFileWatch``), and then held in the same way.
"""

import difflib
import os
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claw.contracts.text import digest_of, format_arguments
from claw.contracts.tool import FileAccess
from claw.i18n import t
from claw.security.path_walk import PathTarget, open_folder, path_error, replace_at

RULE_FILES_ANYWHERE = ("AGENTS.md", "CLAUDE.md", "SKILL.md")
"""Read from any folder that a chat uses, or from a skill in it, so a file of this name is a rule file everywhere."""
RULE_FILES_OF_AGENT = ("SOUL.md", "TOOLS.md", "IDENTITY.md", "USER.md", "BOOTSTRAP.md", "HEARTBEAT.md")
"""Read from an agent's own folder and its workspace."""

_ALL = RULE_FILES_ANYWHERE + RULE_FILES_OF_AGENT
_ANYWHERE, _NAMES = ({name.casefold() for name in names} for names in (RULE_FILES_ANYWHERE, _ALL))


@dataclass(frozen=True, slots=True)
class RuleFiles:
    """The rule files of one agent.

    :param folders: where the files of :data:`RULE_FILES_OF_AGENT` are rule files, without links in the path: the agent's
        own folder and its workspace.
    """

    folders: tuple[Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every path that a prompt may read, and some that none reads."""
        return tuple(folder / name for folder in self.folders for name in _ALL)

    def contains(self, spot: PathTarget) -> bool:
        """Return true if this is a rule file: by name, as the target of a link, or as a hard link to one."""
        name = spot.path.name.casefold()
        if name in _ANYWHERE or (name in _NAMES and spot.path.parent in self.folders):
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
    """A change of a rule file: its content before and after; None = there is no such file.

    :param path: without links in it.
    """

    path: Path
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a path: the target of a link, and the content; None = absent."""

    link: str | None
    data: bytes | None

    @classmethod
    def of(cls, place: Path) -> "_State":
        link = None
        with suppress(OSError):
            link = os.readlink(place)
        return cls(link, _content(place))


class RuleFileWatch:
    """The content of rule files while calls run, so that a change behind the fence is reverted. One per process.

    Overlapping calls share one state to revert to: the state when the first of them began, plus the changes that an
    owner has allowed since.
    """

    def __init__(self) -> None:
        self._active: dict[Path, tuple[int, _State]] = {}

    def begin(self, places: Iterable[Path]) -> None:
        """Record the state of the files when a call begins."""
        for place in places:
            count, state = self._active.get(place) or (0, _State.of(place))
            self._active[place] = count + 1, state

    def end(self, places: Iterable[Path], log: Callable[[str], None]) -> list[RuleFileChange]:
        """Revert the files that changed during a call that ends, and return the reverted changes.

        :param log: called with a message for each of them.
        """
        changes = []
        for place in places:
            count, was = self._active.pop(place)
            if count > 1:
                self._active[place] = count - 1, was
            now = _State.of(place)
            if now != was:
                try:
                    change = _revert(place, was, now)
                except OSError as why:
                    log(t("{path} was changed and could not be restored: {why}", path=place, why=why))
                else:
                    changes.append(change)
                    log(t("{path} was changed without permission and has been restored", path=change.path))
        return changes

    def write(self, path: Path, data: bytes | None) -> None:
        """Write what an owner has allowed; running calls keep it from now on.

        :raises OSError: the write failed.
        """
        write_or_remove(path, data)
        for place, (count, state) in self._active.items():
            if os.path.realpath(place) == str(path):
                self._active[place] = count, _State(state.link, data)


AskOwner = Callable[[str, str, str], Awaitable[str]]
"""Put a text before an owner: the text, a title, and a digest of what the answer binds besides. The answer is the reason
why it may not be done; empty when it may."""


class RuleFileGuard:
    """The changes of one tool call to rule files. Without the word of an owner they are not made. Thread-safe.

    :param mode: ``agents.*.ruleFiles``: with ``ask`` an owner is asked, with ``deny`` each change is refused at once.
    :param provenance: the mark of the notes that the call writes (``claw.storage.provenance``).
    :ivar requested: the change of each file that the call has requested so far.
    """

    def __init__(
        self, files: FileAccess, watch: RuleFileWatch, mode: str, provenance: str, log: Callable[[str], None]
    ) -> None:
        self.can_ask, self.provenance = mode == "ask", provenance
        self._files, self._watch, self._log = files, watch, log
        self._lock, self._is_over = threading.Lock(), False
        self.requested: dict[Path, RuleFileChange] = {}
        self._changes: list[RuleFileChange] = []

    def request(self, spot: PathTarget, after: bytes | None) -> None:
        """Record the content that the call wants a file to have.

        :raises FenceError: the call has ended.
        """
        with self._lock:
            if self._is_over:
                raise path_error(
                    "{path} is a rule file: it can only be changed by the approved call", spot.path
                )
            first = self.requested.get(spot.path)
            before = first.before if first else read_at(spot)
            self.requested[spot.path] = RuleFileChange(spot.path, before, after)

    async def check_before(
        self, leaves_running: Sequence[str], arguments: Mapping[str, Any], ask_owner: AskOwner
    ) -> str:
        """Ask an owner about a background call that names a rule file, because its changes would be unseen.

        :param leaves_running: of the tool: the arguments with which a call goes on behind its end; ``*`` = every call.
        :returns: the reason why the call may not begin; empty when it may.
        """
        words = format_arguments(arguments).casefold()
        goes_on = any(name == "*" or arguments.get(name) for name in leaves_running)
        if not (self._files.rule_file_paths and goes_on and any(name in words for name in _NAMES)):
            return ""
        if not self.can_ask:
            return _denial()
        title = t("it continues in the background and mentions a rule file")
        return await ask_owner(format_arguments(arguments), title, digest_of(dict(arguments)))

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Watch rule files while the call runs, and revert at its end what bypassed the fence."""
        places = self._files.rule_file_paths
        self._watch.begin(places)
        try:
            yield
        finally:
            with self._lock:
                self._is_over = True
            changes = [*self._watch.end(places, self._log), *self.requested.values()]
            self._changes = [change for change in changes if change.before != change.after]

    async def apply_changes(self, ask_owner: AskOwner) -> tuple[str, bool]:
        """Make the changes that an owner allows; return a line about the outcome, and false if they were refused.

        The line is empty when the call changed no rule file.
        """
        if not self._changes:
            return "", True
        paths = [self._files.display_path(str(change.path)) for change in self._changes]
        names = [*dict.fromkeys(paths)]
        if why := await self._ask(ask_owner) or self._write():
            rejected = "{names}: change rejected, the file was not modified: {why}"
            return t(rejected, names=names, why=why), False
        return t("{names}: an owner approved the change", names=names), True

    async def _ask(self, ask_owner: AskOwner) -> str:
        """Return the reason why an owner does not allow the changes; empty when one does."""
        if not self.can_ask:
            return _denial()
        binding = digest_of([[str(one.path), repr(one.before), repr(one.after)] for one in self._changes])
        title = t("rules for every later conversation")
        return await ask_owner(rule_file_diff(self._changes), title, binding)

    def _write(self) -> str:
        """Make all changes or none; return the reason why they were not made, else an empty text."""
        if any(_content(change.path) != change.before for change in self._changes):
            return t("it was changed in the meantime; read it again")
        with ExitStack() as undo:
            try:
                for change in self._changes:
                    self._watch.write(change.path, change.after)
                    undo.callback(self._watch.write, change.path, change.before)
            except OSError as error:
                return t("the file system failed: {why}", why=error)
            undo.pop_all()
        return ""


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
    lines: list[str] = []
    for change in changes:
        sides = {"-": change.before, "+": change.after}
        old, new = (str(change.path) if data is not None else "/dev/null" for data in sides.values())
        lines += difflib.unified_diff(_lines(change.before), _lines(change.after), old, new, lineterm="")
        open_ended = (sign for sign, data in sides.items() if data and not data.endswith(b"\n"))
        lines += (f"\\ no line end at the end of {sign}" for sign in open_ended)
    return "\n".join(lines)


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
