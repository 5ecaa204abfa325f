"""Restrictions of a process and its children, so that their disk is full, read-only or another user's, for root too.

The mounts are in a mount namespace of the process (unshare(2), mount_namespaces(7)), of which the machine sees nothing:
as root, or in a user namespace where the kernel permits that. Everything else needs no right.
"""

import ctypes
import errno
import os
import resource
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000  # linux/sched.h
MS_RDONLY, MS_REMOUNT, MS_REC, MS_PRIVATE = 1, 32, 16384, 1 << 18  # linux/mount.h
PR_CAPBSET_DROP = 24
CAPABILITY_VERSION_3 = 0x20080522
OF_FILES = (0, 1, 2, 3)  # CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Confinement:
    """The restrictions, applied in this order.

    :param folder: gets a file system of its own, with what it contains now; empty = it keeps its own.
    :param full: that file system is filled to the last byte.
    :param read_only: that file system is read-only (EROFS).
    :param plain: the process loses the rights by which root passes over modes and owners of files.
    :param file_bytes: no file may grow beyond that (RLIMIT_FSIZE; EFBIG), as with a quota that is used up: statvfs(3)
        shows free space. None = no limit.
    """

    folder: str = ""
    full: bool = False
    read_only: bool = False
    plain: bool = False
    file_bytes: int | None = None


def confine(wanted: Confinement) -> None:
    """Apply the restrictions to this process.

    :raises OSError: the kernel does not permit a mount.
    """
    if wanted.folder:
        _mount(Path(wanted.folder), wanted)
    if wanted.plain:
        _drop_rights()
    if wanted.file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (wanted.file_bytes, wanted.file_bytes))


def can_mount() -> bool:
    """Return true if a child of this process may mount."""
    pid = os.fork()
    if pid == 0:
        try:
            _enter_namespace()
            _call("mount", b"none", b"/mnt", b"tmpfs", 0, b"size=64k")
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _mount(folder: Path, wanted: Confinement) -> None:
    _enter_namespace()
    kept = folder.with_name(f"{folder.name}.kept")
    shutil.copytree(folder, kept, symlinks=True)
    mode = folder.stat().st_mode & 0o777
    _call("mount", b"none", os.fsencode(folder), b"tmpfs", 0, f"size=8m,mode={mode:o}".encode())
    shutil.copytree(kept, folder, symlinks=True, dirs_exist_ok=True)
    if wanted.full:
        _fill(folder / "something-else")
    if wanted.read_only:
        _call("mount", b"none", os.fsencode(folder), b"tmpfs", MS_REMOUNT | MS_RDONLY, None)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def _enter_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", CLONE_NEWNS)
    except OSError as refused:
        if refused.errno != errno.EPERM:
            raise
        _call("unshare", CLONE_NEWNS | CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)


def _drop_rights() -> None:
    for right in OF_FILES:
        _libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0)  # who has no such right need not lose it
    header, held = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    _call("capget", header, held)
    for right in OF_FILES:
        for word in (0, 1, 2):  # effective, permitted, inheritable: the lower 32
            held[word] &= ~(1 << right)
    _call("capset", header, held)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
