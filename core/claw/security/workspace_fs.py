"""Workspace file access: the files that an agent may touch, and all operations of file tools on them.

Enforced by directory descriptors instead of by comparing paths as strings: see ``way``.
"""

import contextlib
import copy
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from claw.contracts.errors import FenceError
from claw.contracts.tool import EntryKind, FolderEntry
from claw.security.path_walk import (
    FOLDER,
    Access,
    Inode,
    PathTarget,
    PathWalk,
    Root,
    escapes_workspace,
    inode_of,
    path_error,
    printable_path,
    replace_at,
    resolve_root,
)
from claw.security.rule_files import RuleFileChange, RuleFileGuard, RuleFiles, read_at
from claw.storage.provenance import append_marked, keep_marks

# Non-blocking: opening a pipe must not block before its type is checked.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_CAUSES = {
    errno.ENOENT: ("{path} does not exist", "list its folder with ls (~ and $ are not expanded)"),
    errno.ENOTDIR: ("{path} uses a file as if it were a folder", ""),
    errno.EISDIR: ("{path} is a folder, not a file", ""),
    errno.ELOOP: ("{path} is a circular link", ""),
    errno.ENAMETOOLONG: ("{path} has a name that is too long", ""),
    errno.EACCES: ("permission denied: {path}", ""),
    errno.EPERM: ("permission denied: {path}", ""),
    errno.ENXIO: ("{path} is not a regular file", ""),
}


class WorkspaceFiles:
    """All operations of file tools, limited to ``roots``. Thread-safe.

    Paths are used as the model wrote them: relative ones start in the workspace, absolute ones in the root that contains
    them. Nothing is decoded, folded, expanded or stripped. Rights of roots add up: no root revokes those of another.

    :param roots: files and folders that may be touched. A root whose name is in the workspace but that a link leads out
        of it is dropped.
    :param workspace: the folder where relative paths start; read and write unless ``roots`` has it with other rights.
    :param closed: folders in which only the roots inside them may be touched, also when another root contains them
        (``CLAW_HOME``, for a person who chats in the home folder).
    :param rules: folders with rule files, which an agent never writes directly: see :meth:`for_call`.
    :raises FenceError: from every method, with a text the model can act on that reveals nothing outside of the roots.
    """

    def __init__(
        self, roots: Iterable[Root], workspace: Path, closed: Iterable[Path] = (), rules: Iterable[Path] = ()
    ) -> None:
        self.workspace = Path(os.path.abspath(workspace))
        given = list(roots)
        if not any(os.path.abspath(root.path) == str(self.workspace) for root in given):
            given.insert(0, Root(self.workspace, write=True))
        home = Path(os.path.realpath(self.workspace))
        self._roots = tuple(
            top for top in map(resolve_root, given) if not escapes_workspace(top, self.workspace, home)
        )
        self._closed = {
            inode: Path(os.path.realpath(folder)) for folder in closed if (inode := inode_of(folder))
        }
        folders = tuple(dict.fromkeys(Path(os.path.realpath(folder)) for folder in rules))
        self._rules = RuleFiles(folders) if folders else None
        self._notes = tuple(top.path for top in self._roots if top.root.marks_provenance)
        self._hold: RuleFileGuard | None = None

    @property
    def rule_file_paths(self) -> tuple[Path, ...]:
        """Paths of the rule files, which an agent never writes directly."""
        return self._rules.paths if self._rules else ()

    def for_call(self, hold: RuleFileGuard) -> "WorkspaceFiles":
        """Return a copy for one tool call: ``hold`` collects its changes of rule files and gives the provenance of its
        notes.
        """
        held = copy.copy(self)
        held._hold = hold
        return held

    # operations of tools

    def read(self, path: str, limit_bytes: int | None = None) -> bytes:
        """Read a regular file, at most its first ``limit_bytes``."""
        with self._walk(path, "read") as spot:
            if wanted := self._requested(spot):
                if wanted.after is None:
                    raise _error(errno.ENOENT, path)
                return wanted.after[:limit_bytes]
            _require_regular(spot.lstat(), path)  # before opening, as opening a device can have side effects
            handle = spot.open(os.O_RDONLY | _FILE)
            with open(handle, "rb") as file:
                _require_regular(os.fstat(handle), path)
                return file.read(-1 if limit_bytes is None else limit_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Replace the content of a file atomically; missing parent folders are created, the file mode is kept."""
        with self._walk(path, "write") as spot:
            old = spot.lstat()
            if old is not None:
                _require_regular(old, path)
                if not old.st_mode & 0o222:
                    raise path_error("{path} is write-protected", path)
            if not self._hold_if_rule_file(spot, data):
                if origin := self._provenance(spot):
                    data = _bytes(keep_marks(_text(read_at(spot)), _text(data), origin))
                replace_at(spot, data, None if old is None else stat.S_IMODE(old.st_mode))

    def append(self, path: str, data: bytes) -> None:
        """Append ``data``; a missing file is created."""
        with self._walk(path, "append") as spot:
            if (old := spot.lstat()) is not None:
                _require_regular(old, path)
            wanted = self._requested(spot)
            if self._hold_if_rule_file(spot, ((wanted.after if wanted else read_at(spot)) or b"") + data):
                return
            if origin := self._provenance(spot):
                data = _bytes(append_marked(_text(read_at(spot)), _text(data), origin))
            handle = spot.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT | _FILE)
            with open(handle, "ab") as file:
                _require_regular(os.fstat(handle), path)
                file.write(data)

    def remove(self, path: str) -> None:
        """Remove a file, or a link but not its target. Folders are refused."""
        with self._walk(path, "write", last_link=False) as spot:
            status = spot.lstat()
            if status is None or stat.S_ISDIR(status.st_mode):
                raise _error(errno.ENOENT if status is None else errno.EISDIR, path)
            if self._hold_if_rule_file(spot, None):
                return
            os.unlink(spot.name, dir_fd=spot.folder)

    def stat(self, path: str) -> FolderEntry:
        """Return the entry at ``path``, with links followed."""
        with self._walk(path, "read") as spot:
            status, wanted = spot.lstat(), self._requested(spot)
            if wanted and wanted.after is not None:
                return FolderEntry(spot.path.name, "file", len(wanted.after))
            if status is None or wanted:
                raise _error(errno.ENOENT, path)
            return _entry(spot.path.name, status)

    def entries(self, path: str) -> tuple[FolderEntry, ...]:
        """List a folder, sorted by name; links are not followed."""
        rows = []
        with self._walk(path, "read") as spot:
            folder = spot.open(os.O_RDONLY | FOLDER)
            try:
                for name in sorted(os.listdir(folder)):
                    with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                        rows.append(_entry(name, os.stat(name, dir_fd=folder, follow_symlinks=False)))
            finally:
                os.close(folder)
        return tuple(rows)

    def folder(self, path: str) -> Path:
        """Return the real path of a folder, as the working directory of a child process."""
        with self._walk(path, "read") as spot:
            status = spot.lstat()
            if status is None or not stat.S_ISDIR(status.st_mode):
                raise _error(errno.ENOENT if status is None else errno.ENOTDIR, path)
            return spot.path

    def display_path(self, path: str) -> str:
        """Format ``path`` for people: relative to the workspace when inside. Pure text handling, without any check."""
        full = Path(os.path.normpath(self.workspace / path))
        bases = (self.workspace, Path(os.path.realpath(self.workspace)))
        inside = next((base for base in bases if full.is_relative_to(base)), None)
        return printable_path(str(full.relative_to(inside) if inside else full))

    # rule files and provenance

    def _requested(self, spot: PathTarget) -> RuleFileChange | None:
        """Return the change of this file that the call has requested so far."""
        return self._hold.requested.get(spot.path) if self._hold else None

    def _hold_if_rule_file(self, spot: PathTarget, after: bytes | None) -> bool:
        """Return true for a rule file: it is not written, its new content is handed to ``hold``.

        :raises FenceError: this call may not request changes of rule files.
        """
        if self._rules is None or not self._rules.contains(spot):
            return False
        if self._hold is None or not self._hold.can_ask:
            raise path_error(
                "{path} is a rule file, which this agent may not change",
                spot.path,
                where="agents.defaults.ruleFiles",
            )
        if (status := spot.lstat()) and stat.S_ISLNK(status.st_mode):
            raise path_error("{path} is a rule file and a link: it can only be changed by hand", spot.path)
        self._hold.request(spot, after)
        return True

    def _provenance(self, spot: PathTarget) -> str:
        """Return the provenance to write into this file; empty when it is not a note, or when it is unknown."""
        inside = any(note == spot.path or note in spot.path.parents for note in self._notes)
        return self._hold.provenance if self._hold and inside and spot.path.suffix.lower() == ".md" else ""

    # the walk

    @contextlib.contextmanager
    def _walk(self, path: str, access: Access, *, last_link: bool = True) -> Iterator[PathTarget]:
        """Walk to the end of ``path``, and keep its folder open while the caller works there."""
        _check_text(path)
        names = path.split("/")
        if access != "read" and names[-1] in ("", ".", ".."):
            raise _error(errno.EISDIR, path)
        with contextlib.closing(PathWalk(self._roots, self._closed, path, access, last_link)) as way:
            try:
                yield way.walk(names if path.startswith("/") else [*self.workspace.parts[1:], *names])
            except OSError as broken:
                raise _error(broken.errno or 0, path) from None


def workspace_files(
    roots: Iterable[Root], workspace: Path, closed: Path, rules: Iterable[Path] = ()
) -> WorkspaceFiles:
    """Return the fence of these roots, cached while every root resolves to the same inode."""
    given = tuple(roots)
    return _fence(given, workspace, closed, tuple(rules), tuple(inode_of(root.path) for root in given))


@lru_cache(maxsize=64)
def _fence(
    roots: tuple[Root, ...],
    workspace: Path,
    closed: Path,
    rules: tuple[Path, ...],
    inodes: tuple[Inode | None, ...],
) -> WorkspaceFiles:
    return WorkspaceFiles(roots, workspace, (closed,), rules)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _entry(name: str, status: os.stat_result) -> FolderEntry:
    kinds: dict[int, EntryKind] = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}
    return FolderEntry(name, kinds.get(stat.S_IFMT(status.st_mode), "other"), status.st_size)


def _require_regular(status: os.stat_result | None, path: str) -> None:
    if status is None:
        raise _error(errno.ENOENT, path)
    if stat.S_ISDIR(status.st_mode):
        raise _error(errno.EISDIR, path)
    if not stat.S_ISREG(status.st_mode):
        raise _error(errno.ENXIO, path)


def _check_text(path: object) -> None:
    if not isinstance(path, str) or not path:
        raise FenceError("a path must be a non-empty string")
    if "\0" in path:
        raise path_error("{path} contains a NUL character, which is not allowed in file names", path)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise path_error("{path} contains a character that is not allowed in file names", path) from None


def _error(code: int, path: str) -> FenceError:
    problem, fix = _CAUSES.get(code, ("{path} cannot be used: {cause}", ""))
    return path_error(problem, path, fix, cause=os.strerror(code))
