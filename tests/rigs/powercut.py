"""A power cut: what of a home is there afterwards, when only what was synced is on the medium."""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

from claw.store import SYSTEM, Disk

_BLOCK_BYTES = 512


@dataclass
class Medium:
    """A disk that forgets all but what was synced; the rest of a file may be there in parts.

    SQLite syncs ``state.db`` itself, before it writes over any part of its log that was synced: the two are kept as
    they are when the log is.

    :ivar syncs: how often the data of a file were brought onto it.
    """

    syncs: int = 0
    _kept: dict[Path, bytes] = field(default_factory=dict)
    _names: set[Path] = field(default_factory=set)

    def disk(self) -> Disk:
        """The system calls of a house that lives on it."""
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
        SYSTEM.sync(fd)
        self.syncs += 1
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self._kept[path] = path.read_bytes()
        if path.name.endswith(".db-wal"):
            database = path.with_name(path.name.removesuffix("-wal"))
            self._kept[database] = database.read_bytes()

    def _sync_all(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.is_dir():
            SYSTEM.sync_all(fd)
            self._names |= set(path.iterdir())
        else:
            self._sync(fd)
