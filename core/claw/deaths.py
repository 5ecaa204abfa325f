"""Which plugin was being loaded when a process died: a note before, removed after, counted by whoever finds it.

A plugin can end the process (``os._exit``, a crash in C), and no host in that process can stop it. So it is named
beforehand: the second start that finds the note goes without that plugin (DESIGN section 5).
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from claw.clock import SYSTEM, Clock
from claw.store import SYSTEM as DISK, Disk

DEATHS = 2
WINDOW_SECONDS = 24 * 3600.0


class Deaths:
    """The notes of one home.

    :param folder: ``CLAW_HOME/plugins``.
    """

    def __init__(self, folder: Path, clock: Clock = SYSTEM, disk: Disk = DISK) -> None:
        self._note, self._book = folder / ".starting", folder / ".deaths.json"
        self._folder, self._clock, self._disk = folder, clock, disk

    def culprits(self) -> dict[str, int]:
        """Plugin id → how many processes died while it was loaded, of late; a note that is found is counted now."""
        book = self._read()
        if plugin := self._left_behind():
            book.setdefault(plugin, []).append(self._clock.now())
            self._write(book)
            self._note.unlink(missing_ok=True)
        since = self._clock.now() - WINDOW_SECONDS
        return {
            plugin: len([moment for moment in moments if moment > since]) for plugin, moments in book.items()
        }

    @contextmanager
    def starting(self, plugin: str) -> Iterator[None]:
        """Note that ``plugin`` is being loaded, until it is."""
        self._disk.make_folder(self._folder)
        self._disk.jot(self._note, plugin.encode())
        try:
            yield
        finally:
            self._note.unlink(missing_ok=True)

    def forgive(self, plugin: str) -> None:
        """Count from nothing again, because the operator says so or the plugin has changed."""
        book = self._read()
        if book.pop(plugin, None) is not None:
            self._write(book)

    def _left_behind(self) -> str:
        try:
            return self._note.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""

    def _read(self) -> dict[str, list[float]]:
        try:
            book = json.loads(self._book.read_bytes())
        except (OSError, ValueError):
            return {}
        return {
            str(plugin): [moment for moment in moments if isinstance(moment, int | float)]
            for plugin, moments in (book.items() if isinstance(book, dict) else ())
            if isinstance(moments, list)
        }

    def _write(self, book: dict[str, list[float]]) -> None:
        self._disk.make_folder(self._folder)
        self._disk.replace(self._book, json.dumps(book).encode())
