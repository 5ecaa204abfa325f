"""Path resolution from a root, name by name, by directory descriptors. ``workspace_fs`` is the only caller.

Every folder is opened relative to its parent, never through a link. A link is read and its target is walked by the same
rules, so the final target decides, and a swap between check and use has no effect. All systems use the same code, as
macOS has no ``openat2``; a name costs three system calls.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from claw.contracts.errors import FenceError

Access = Literal["read", "append", "write"]

FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_PATH enters folders without permission to list them.
_TRAVERSE = FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
_MOST_LINKS = 40  # the limit of Linux, path_resolution(7)
MAX_PATH_DEPTH = 200  # folders below a root; each holds a descriptor while the path is walked


@dataclass(frozen=True, slots=True)
class Root:
    """A folder (with all below it) or a single file that an agent may touch; it need not exist yet.

    :param write: it may also be written, created and removed.
    :param append_only: it may only be read and appended to, whatever ``write`` says.
    :param marks_provenance: text written into its Markdown files gets a provenance mark
        (``claw.storage.provenance``).
    """

    path: Path
    write: bool = False
    append_only: bool = False
    marks_provenance: bool = False

    def grants(self, access: Access) -> bool:
        """Return true if this root allows ``access``."""
        if access == "append":
            return self.write or self.append_only
        return access == "read" or (self.write and not self.append_only)


@dataclass(frozen=True, slots=True)
class WalkedRoot:
    """A root after resolution: its real path, and the absolute paths (split into names) that refer to it."""

    root: Root
    path: Path
    aliases: frozenset[tuple[str, ...]]


Inode = tuple[int, int]
"""The identity of a file: device and inode, as some file systems accept more than one spelling of a name."""


@dataclass(frozen=True, slots=True)
class PathTarget:
    """The end of a path: an open folder, a name in it that was not a link, and the real path."""

    folder: int
    name: str
    path: Path

    def lstat(self) -> os.stat_result | None:
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def open(self, flags: int, mode: int = 0o666) -> int:
        return os.open(self.name, flags, mode, dir_fd=self.folder)


@dataclass
class PathWalk:
    """One walk: the folders that are open so far; the first is the parent of a root.

    :param closed: the real paths of folders in which only roots inside them may be touched, whichever root contains the
        folder itself.
    :param path: as the model wrote it, for errors.
    :param last_link: follow a link at the end of the path too; if false (to remove a name), no folder is created.
    """

    roots: tuple[WalkedRoot, ...]
    closed: Mapping[Inode, Path]
    path: str
    access: Access
    last_link: bool
    _fds: list[int] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _hops: int = 0

    def close(self) -> None:
        while self._fds:
            os.close(self._fds.pop())

    def walk(self, absolute: list[str]) -> PathTarget:
        """Walk an absolute path, given as names, to its end.

        :raises FenceError: the path leaves the roots, or its root does not grant the access.
        """
        pending = self._start_at_root(absolute)
        while pending:
            name = pending.pop()
            if name in ("", "."):
                continue
            if name == "..":
                pending = self._ascend(pending)
                continue
            is_last = all(rest in ("", ".") for rest in pending)
            target = None if is_last and not self.last_link else self._link_target(name)
            if target is not None:
                pending = self._follow(target, pending)
            elif is_last:
                path = self._top.path.joinpath(*[*self._names, name][1:])
                return self._check_end(PathTarget(self._fds[-1], name, path))
            else:
                pending = self._descend(name, pending)
        path = self._top.path.joinpath(*self._names[1:])
        return self._check_end(PathTarget(self._fds[-2], self._names[-1], path))

    def _check_end(self, spot: PathTarget) -> PathTarget:
        status = spot.lstat() if self.closed else None
        if status is not None and _identity(status) in self.closed:
            raise self._outside_error()
        if not self._top.root.grants(self.access):
            raise self._denied_error()
        return spot

    def _start_at_root(self, absolute: list[str], within: Path | None = None) -> list[str]:
        """Start (again) at the root that contains ``absolute``, and return the names left to walk, next one last."""
        self._hops += 1
        if self._hops > _MOST_LINKS:
            raise OSError(errno.ELOOP, "")
        self.close()
        self._names.clear()
        self._top, rest = self._find_root(absolute, within)
        parent = self._top.path.parent
        if self._creates_folders():
            parent.mkdir(0o700, parents=True, exist_ok=True)
        self._fds.append(open_folder(parent))
        # The root folder has an empty name: "./" means the same to the system, and the walk does not skip it.
        return [*reversed(rest), self._top.path.name or "./"]

    def _find_root(self, absolute: list[str], within: Path | None) -> tuple[WalkedRoot, list[str]]:
        """Return the root of a path, and the names below it; of several, the first that grants the access."""
        roots = [top for top in self.roots if within is None or within in top.path.parents]
        inside: list[tuple[WalkedRoot, list[str]]] = []
        above: list[str] = []
        for index, name in enumerate(["", *absolute]):
            if name == "..":
                if inside:
                    break  # below a root the parent depends on links, so the walk resolves it
                del above[-1:]
            elif name not in ("", "."):
                above.append(name)
            called = tuple(above)
            inside += [(top, absolute[index:]) for top in roots if called in top.aliases]
        if not inside:
            raise self._outside_error()
        granting = (found for found in inside if found[0].root.grants(self.access))
        return next(granting, inside[0])

    def _ascend(self, pending: list[str]) -> list[str]:
        if len(self._fds) > 2:
            os.close(self._fds.pop())
            self._names.pop()
            return pending
        return self._start_at_root([*self._top.path.parent.parts[1:], *reversed(pending)])

    def _descend(self, name: str, pending: list[str]) -> list[str]:
        """Step into a folder, or restart at a closed one; return the remaining names."""
        if len(self._fds) > MAX_PATH_DEPTH:
            raise OSError(errno.ENAMETOOLONG, "")
        self._fds.append(self._open_child(name))
        self._names.append(name)
        if self.closed and (closed := self.closed.get(_identity(os.fstat(self._fds[-1])))):
            return self._start_at_root([*closed.parts[1:], *reversed(pending)], within=closed)
        return pending

    def _open_child(self, name: str) -> int:
        here = self._fds[-1]
        try:
            return os.open(name, _TRAVERSE, dir_fd=here)
        except FileNotFoundError:
            if self.access == "read" or not self.last_link:
                raise
            if not self._creates_folders():
                raise self._denied_error() from None
            os.mkdir(name, dir_fd=here)
            return os.open(name, _TRAVERSE, dir_fd=here)

    def _link_target(self, name: str) -> str | None:
        """Return the target of a link; None for anything else, and for a missing name."""
        try:
            return os.readlink(name, dir_fd=self._fds[-1])
        except OSError as refused:
            if refused.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow(self, target: str, pending: list[str]) -> list[str]:
        names = target.split("/")
        if target.startswith("/"):
            return self._start_at_root([*names, *reversed(pending)])
        # When the root itself became a link, its target is no root just because of that.
        if len(self._fds) == 1:
            return self._start_at_root([*self._top.path.parent.parts[1:], *names, *reversed(pending)])
        self._hops += 1
        if self._hops > _MOST_LINKS:
            raise OSError(errno.ELOOP, "")
        return [*pending, *reversed(names)]

    def _creates_folders(self) -> bool:
        """Return true if missing folders on the path are created."""
        return self.access != "read" and self.last_link and self._top.root.grants(self.access)

    def _denied_error(self) -> FenceError:
        if self.access == "write" and self._top.root.grants("append"):
            return path_error("{path} can only be appended to", self.path)
        return path_error("{path} is read-only", self.path, "write in the workspace")

    def _outside_error(self) -> FenceError:
        return path_error(
            "{path} is outside the folders that this agent may use",
            self.path,
            "use a path in the workspace; relative paths start there",
        )


def resolve_root(root: Root) -> WalkedRoot:
    named, true = Path(os.path.abspath(root.path)), Path(os.path.realpath(root.path))
    return WalkedRoot(root, true, frozenset((named.parts[1:], true.parts[1:])))


def inode_of(path: Path) -> Inode | None:
    """Return the identity of a file, with links followed; None when there is none."""
    try:
        return _identity(os.stat(path))
    except OSError:
        return None


def _identity(status: os.stat_result) -> Inode:
    return status.st_dev, status.st_ino


def escapes_workspace(top: WalkedRoot, workspace: Path, home: Path) -> bool:
    """Return true if a root in the workspace is a link to elsewhere, which the agent may have created itself."""
    named = any(
        Path("/", *called).is_relative_to(base) for called in top.aliases for base in (workspace, home)
    )
    return named and not top.path.is_relative_to(home)


def open_folder(path: Path) -> int:
    """Open a folder by its real path. It may be inside another root, so no part of the path may have become a link.

    :raises OSError: there is no such folder, or a part of the path is a link.
    """
    if no_links := getattr(os, "O_NOFOLLOW_ANY", 0):  # macOS
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | no_links)
    here = os.open("/", _TRAVERSE)
    for name in path.parts[1:]:
        try:
            below = os.open(name, _TRAVERSE, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def replace_at(spot: PathTarget, data: bytes, mode: int | None) -> None:
    """Replace a file atomically, through a temporary file beside it.

    :param mode: of the existing file; None for a new one, whose mode the umask decides.
    """
    beside = f".claw-{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(beside, flags, 0o666 if mode is None else 0o600, dir_fd=spot.folder)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            if mode is not None:
                os.fchmod(handle, mode)
        os.rename(beside, spot.name, src_dir_fd=spot.folder, dst_dir_fd=spot.folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=spot.folder)
        raise


def path_error(problem: str, path: str | Path, fix: str = "", **values: str) -> FenceError:
    """Return an error about a path.

    :param problem: template with ``{path}``.
    """
    return FenceError(problem, fix=fix, path=printable_path(str(path)), **values)


def printable_path(path: str) -> str:
    """Make a path printable: no lone surrogates, no control characters, limited length."""
    text = path if len(path) <= 300 else f"{path[:300]}…"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
