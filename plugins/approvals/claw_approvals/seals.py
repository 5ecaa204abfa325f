"""Seals of answers and lasting permissions: a row of ``state.db`` that was written without the key allows nothing."""

import hmac
import json
import os
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from claw import ClawError
from claw.runtime import SYSTEM_DISK, Database

KEY_FILE = "plugins/approvals/key"
"""In the folder of ``state.db``, mode 0600. No file tool reads it, and a sandbox hides it from commands."""
TABLE = "CREATE TABLE IF NOT EXISTS approval_seals (id TEXT PRIMARY KEY, seal TEXT NOT NULL) WITHOUT ROWID"
WRITE = "INSERT OR REPLACE INTO approval_seals VALUES (?, ?)"
_KEY_BYTES = 32


class Seals:
    """The seals of the rows of one ``state.db``.

    :param database: its folder holds the key.
    """

    def __init__(self, database: Database) -> None:
        self._database, self._path = database, database.path.parent / KEY_FILE
        self._key = b""

    def make(self, *facts: Any) -> str:
        """Return the seal of these facts, 64 hex digits. The key is created when there is none.

        :raises ClawError: the key cannot be read or created.
        """
        try:
            key = self._read() or _created(self._path)
        except OSError as refused:
            problem = "the key of approvals cannot be used: {why}"
            raise ClawError(
                problem, where=str(self._path), fix="Correct its permissions", why=refused
            ) from None
        return _seal(key, facts)

    def is_sealed(self, id: str, *facts: Any) -> bool:
        """Return true if the row has the seal of these facts; false without a key."""
        rows = self._database.read("SELECT seal FROM approval_seals WHERE id = ?", id)
        with suppress(OSError):
            return bool(rows and (key := self._read()) and hmac.compare_digest(rows[0][0], _seal(key, facts)))
        return False

    def _read(self) -> bytes:
        """Return the key; empty when there is none.

        :raises OSError: it cannot be read.
        """
        with suppress(FileNotFoundError):
            self._key = self._key or self._path.read_bytes()
        return self._key


def _seal(key: bytes, facts: tuple[Any, ...]) -> str:
    return hmac.digest(key, json.dumps(facts).encode(), "sha256").hex()


def _created(path: Path) -> bytes:
    """Create the key, unless another process does at the same time, and return it.

    :raises OSError: the disk refuses.
    """
    SYSTEM_DISK.make_folder(path.parent)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    SYSTEM_DISK.replace(new, secrets.token_bytes(_KEY_BYTES), 0o600)
    try:
        with suppress(FileExistsError):
            os.link(new, path)
    finally:
        new.unlink()
    return path.read_bytes()
