"""The way to a path: walked name by name from a root, by directory descriptors. ``fence`` is its only caller.

Every folder on the way is opened relative to the one before, never through a link; a link is read and its target walked
by the same rules, so the final target decides, and a swap between check and use meets a closed door. There is one way for
all systems, as macOS has no ``openat2``; a name costs two system calls.
"""

import contextlib
import errno
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from claw.errors import FenceError

Access = Literal["read", "append", "write"]

FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PASS = FOLDER | getattr(os, "O_PATH", os.O_RDONLY)  # Linux may pass through a folder that it may not list
_MOST_LINKS = 40  # as Linux does, path_resolution(7)
DEEPEST = 200  # folders below a root; each holds a descriptor while the path is walked


@dataclass(frozen=True, slots=True)
class Root:
    """A folder (with all below it) or a single file that an agent may touch; it need not exist yet.

    :param write: it may also be written, created and removed.
    :param append_only: it may be read and added to, and nothing else, whatever ``write`` says.
    :param notes: what is written into its Markdown files keeps its origin (``claw.origin``).
    """

    path: Path
    write: bool = False
    append_only: bool = False
    notes: bool = False

    def grants(self, access: Access) -> bool:
        """Whether this root allows ``access``."""
        if access == "append":
            return self.write or self.append_only
        return access == "read" or (self.write and not self.append_only)


@dataclass(frozen=True, slots=True)
class Wall:
    """A root as walked: its true path, and the absolute paths (as names) by which people call it."""

    root: Root
    path: Path
    called: frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Closed:
    """A folder known by device and inode, as on some file systems it answers to more than one spelling."""

    path: Path
    inode: tuple[int, int]

    def is_it(self, status: os.stat_result) -> bool:
        return (status.st_dev, status.st_ino) == self.inode


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a path ends: an open folder, a name in it that was no link, and the true path."""

    folder: int
    name: str
    path: Path

    def lstat(self) -> os.stat_result | None:
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    @property
    def is_link(self) -> bool:
        status = self.lstat()
        return status is not None and stat.S_ISLNK(status.st_mode)

    def open(self, flags: int, mode: int = 0o666) -> int:
        return os.open(self.name, flags, mode, dir_fd=self.folder)


class Way:
    """One walk: the folders open so far, of which the first is the parent of a root.

    :param closed: folders where only the roots that lie in them may be touched, whichever root they themselves lie in.
    :param last_link: a link at the very end is followed too; without it (to remove a name) nothing is made on the way.
    """

    def __init__(
        self, walls: tuple[Wall, ...], closed: tuple[Closed, ...], path: str, access: Access, last_link: bool
    ) -> None:
        self._walls, self._closed = walls, closed
        self._path, self._access, self._last_link = path, access, last_link
        self._open: list[int] = []
        self._names: list[str] = []
        self._hops = 0

    def close(self) -> None:
        while self._open:
            os.close(self._open.pop())

    def end(self, absolute: list[str]) -> Spot:
        """Walk an absolute path, given as names, to its end.

        :raises FenceError: it leaves the roots, or its root does not grant the access.
        """
        pending = self._enter(absolute)
        while pending:
            name = pending.pop()
            if name in ("", "."):
                continue
            if name == "..":
                pending = self._up(pending)
                continue
            if any(rest not in ("", ".") for rest in pending):
                pending = self._into(name, pending)
                continue
            target = self._link(name) if self._last_link else None
            if target is not None:
                pending = self._follow(target, pending)
            else:
                return self._ended(
                    Spot(self._open[-1], name, self._wall.path.joinpath(*[*self._names, name][1:]))
                )
        return self._ended(Spot(self._open[-2], self._names[-1], self._wall.path.joinpath(*self._names[1:])))

    def _ended(self, spot: Spot) -> Spot:
        status = spot.lstat() if self._closed else None
        if status is not None and any(closed.is_it(status) for closed in self._closed):
            raise self._outside()
        if not self._wall.root.grants(self._access):
            raise self._not_granted()
        return spot

    def _enter(self, absolute: list[str], within: Path | None = None) -> list[str]:
        """Start (again) at the root that contains ``absolute``; the names to walk from there, the next one last."""
        self._hops += 1
        if self._hops > _MOST_LINKS:
            raise OSError(errno.ELOOP, "")
        self.close()
        self._names.clear()
        self._wall, rest = self._containing(absolute, within)
        parent = self._wall.path.parent
        if self._makes():
            parent.mkdir(0o700, parents=True, exist_ok=True)
        self._open.append(open_folder(parent))
        # "/" has no name: "./" is a name to the system, and none of those that the walk leaves out
        return [*reversed(rest), self._wall.path.name or "./"]

    def _containing(self, absolute: list[str], within: Path | None) -> tuple[Wall, list[str]]:
        """The root of a path, and the names below it; of several, the first that grants the access."""
        walls = [wall for wall in self._walls if within is None or within in wall.path.parents]
        inside: list[tuple[Wall, list[str]]] = []
        above: list[str] = []
        for index, name in enumerate(["", *absolute]):
            if name == "..":
                if inside:
                    break  # from a root on, only the disk says what is above
                del above[-1:]
            elif name not in ("", "."):
                above.append(name)
            called = tuple(above)
            inside += [(wall, absolute[index:]) for wall in walls if called in wall.called]
        if not inside:
            raise self._outside()
        granting = (found for found in inside if found[0].root.grants(self._access))
        return next(granting, inside[0])

    def _up(self, pending: list[str]) -> list[str]:
        if len(self._open) > 2:
            os.close(self._open.pop())
            self._names.pop()
            return pending
        return self._enter([*self._wall.path.parent.parts[1:], *reversed(pending)])

    def _into(self, name: str, pending: list[str]) -> list[str]:
        """Step into a folder, or turn where a link or a closed folder sends us; what is left to walk."""
        if len(self._open) > DEEPEST:
            raise OSError(errno.ENAMETOOLONG, "")
        try:
            below = self._folder(name)
        except OSError as refused:
            target = self._link(name) if refused.errno in (errno.ENOTDIR, errno.ELOOP) else None
            if target is None:
                raise
            return self._follow(target, pending)
        self._open.append(below)
        self._names.append(name)
        status = os.fstat(below) if self._closed else None
        for closed in self._closed:
            if status is not None and closed.is_it(status):
                return self._enter([*closed.path.parts[1:], *reversed(pending)], within=closed.path)
        return pending

    def _folder(self, name: str) -> int:
        here = self._open[-1]
        try:
            return os.open(name, _PASS, dir_fd=here)
        except FileNotFoundError:
            if self._access == "read" or not self._last_link:
                raise
            if not self._makes():
                raise self._not_granted() from None
            os.mkdir(name, dir_fd=here)
            return os.open(name, _PASS, dir_fd=here)

    def _link(self, name: str) -> str | None:
        """The target of a link; None for anything else, and for nothing."""
        try:
            return os.readlink(name, dir_fd=self._open[-1])
        except OSError as refused:
            if refused.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow(self, target: str, pending: list[str]) -> list[str]:
        names = target.split("/")
        if target.startswith("/"):
            return self._enter([*names, *reversed(pending)])
        if len(self._open) == 1:  # a root became a link: what it names beside itself is no root by that
            return self._enter([*self._wall.path.parent.parts[1:], *names, *reversed(pending)])
        self._hops += 1
        if self._hops > _MOST_LINKS:
            raise OSError(errno.ELOOP, "")
        return [*pending, *reversed(names)]

    def _makes(self) -> bool:
        """Whether a missing folder on the way is made."""
        return self._access != "read" and self._last_link and self._wall.root.grants(self._access)

    def _not_granted(self) -> FenceError:
        if self._access == "write" and self._wall.root.grants("append"):
            return FenceError("{path} can only be added to", path=shown(self._path))
        return FenceError("{path} can only be read", fix="write in the workspace", path=shown(self._path))

    def _outside(self) -> FenceError:
        return FenceError(
            "{path} is outside of what this agent may touch",
            fix="use a path in the workspace; relative paths start there",
            path=shown(self._path),
        )


def wall_of(root: Root) -> Wall:
    named, true = Path(os.path.abspath(root.path)), Path(os.path.realpath(root.path))
    return Wall(root, true, frozenset((named.parts[1:], true.parts[1:])))


def closed_at(path: Path) -> Closed | None:
    """None when there is no such folder."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return Closed(Path(os.path.realpath(path)), (status.st_dev, status.st_ino))


def led_out(wall: Wall, workspace: Path, home: Path) -> bool:
    """Whether a root in the workspace is a link to elsewhere: the agent itself may have put it there."""
    named = any(
        Path("/", *called).is_relative_to(base) for called in wall.called for base in (workspace, home)
    )
    return named and not wall.path.is_relative_to(home)


def open_folder(path: Path) -> int:
    """Open a folder by its true path. It may lie in another root, so none of its names may have become a link.

    :raises OSError: there is no such folder, or one of its names is a link.
    """
    if no_links := getattr(os, "O_NOFOLLOW_ANY", 0):  # macOS
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | no_links)
    here = os.open("/", _PASS)
    for name in path.parts[1:]:
        try:
            below = os.open(name, _PASS, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here


def replace_at(spot: Spot, data: bytes, mode: int | None) -> None:
    """Put ``data`` in the place of the file, through a new one beside it.

    :param mode: of the file so far; None for a new one, which the umask decides.
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


def shown(path: str) -> str:
    """A path that can be printed and sent: no lone surrogates, no control characters, not endless."""
    text = path if len(path) <= 300 else f"{path[:300]}…"
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)
