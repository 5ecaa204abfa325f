"""A power cut: what of a home is there afterwards, when only what was synced is on the medium."""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from claw.storage.files import SYSTEM_DISK, Disk

_BLOCK_BYTES = 512
_SALT = slice(16, 24)  # of a log's header: SQLite's file format, "WAL file format"


@dataclass
class Medium:
    """A disk that forgets all but what was synced; the rest of a file may be there in parts.

    SQLite syncs ``state.db`` itself, before it writes over any part of its log that was synced: the two are kept as
    they are when the log is.

    :ivar syncs: number of syncs of the data of a file.
    :ivar failing: so many syncs of the log fail. As on Linux, what they should have written is lost for good, and the
        next one says that all is well.
    """

    syncs: int = 0
    failing: int = 0
    _lost: dict[Path, tuple[bytes, int, int]] = field(default_factory=dict)
    _kept: dict[Path, bytes] = field(default_factory=dict)
    _names: set[Path] = field(default_factory=set)

    def disk(self) -> Disk:
        """The system calls of a gateway that lives on it."""
        return Disk(sync=self._sync, sync_all=self._sync_all)

    def after_a_cut(self, home: Path, place: Path, dice: random.Random) -> Path:
        """Put what is left of ``home`` into a new folder ``place``."""
        for path, kept in list(self._kept.items()):  # a sync may be under way
            if path not in self._names or not path.is_relative_to(home):
                continue
            left = place / path.relative_to(home)
            left.parent.mkdir(parents=True, exist_ok=True)
            left.write_bytes(kept + self._unsynced(path, kept, dice))
        return place

    def _unsynced(self, path: Path, kept: bytes, dice: random.Random) -> bytes:
        """Any of the blocks behind what was synced, as far as a random length; those that never came are empty."""
        now = path.read_bytes() if path.exists() else b""
        if not now.startswith(kept) or path.name.endswith(".db"):
            return b""
        tail = now[len(kept) :][: dice.randint(0, len(now) - len(kept))]
        blocks = [tail[at : at + _BLOCK_BYTES] for at in range(0, len(tail), _BLOCK_BYTES)]
        return b"".join(block if dice.random() < 0.7 else bytes(len(block)) for block in blocks)

    def _sync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if self.failing and path.name.endswith("-wal"):
            self.failing -= 1
            now = path.read_bytes()
            kept = self._kept.get(path, b"")
            self._lost[path] = now[_SALT], len(kept) if kept[_SALT] == now[_SALT] else 0, len(now)
            raise OSError(5, "Input/output error")
        SYSTEM_DISK.sync(fd)
        self.syncs += 1
        self._kept[path] = self._written(path)
        if path.name.endswith(".db-wal"):
            database = path.with_name(path.name.removesuffix("-wal"))
            self._kept[database] = database.read_bytes()

    def _written(self, path: Path) -> bytes:
        """A file as it is on the medium once it was synced: what was lost stays so, until it is written again."""
        now = path.read_bytes()
        salt, start, end = self._lost.get(path, (b"", 0, 0))
        if salt != now[_SALT]:  # the log was restarted
            return now
        return now[:start] + bytes(end - start) + now[end:]

    def _sync_all(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.is_dir():
            SYSTEM_DISK.sync_all(fd)
            self._names |= set(path.iterdir())
        else:
            self._sync(fd)
