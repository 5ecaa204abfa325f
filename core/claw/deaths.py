"""Which plugin was being loaded when a process died: a note before, removed after, counted by whoever finds it.

A plugin can end the process (``os._exit``, a crash in C), and no host in that process can stop it. So it is named
beforehand: the second start that finds the note goes without that plugin (DESIGN section 5).
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from claw.clock import SYSTEM, Clock
from claw.store import SYSTEM as DISK, Disk

DEATHS = 2
WINDOW_SECONDS = 24 * 3600.0
_NOTE = ".starting-"


class Deaths:
    """The notes of one home: one of each process that loads a plugin just now.

    :param folder: ``CLAW_HOME/plugins``.
    """

    def __init__(self, folder: Path, clock: Clock = SYSTEM, disk: Disk = DISK) -> None:
        self._book = folder / ".deaths.json"
        self._folder, self._clock, self._disk = folder, clock, disk

    def culprits(self) -> dict[str, int]:
        """Plugin id → how many processes died while it was loaded, of late; a note that is found is counted now."""
        book = self._read()
        for note in self._left_behind():
            if plugin := _text_of(note):
                book.setdefault(plugin, []).append(self._clock.now())
                self._write(book)
                note.unlink(missing_ok=True)
        since = self._clock.now() - WINDOW_SECONDS
        return {
            plugin: len([moment for moment in moments if moment > since]) for plugin, moments in book.items()
        }

    @contextmanager
    def starting(self, plugin: str) -> Iterator[None]:
        """Note that ``plugin`` is being loaded, until it is."""
        note = self._folder / f"{_NOTE}{os.getpid()}"
        self._disk.make_folder(self._folder)
        self._disk.jot(note, plugin.encode())
        try:
            yield
        finally:
            note.unlink(missing_ok=True)

    def forgive(self, plugin: str) -> None:
        """Count from nothing again, because the operator says so or the plugin has changed."""
        book = self._read()
        if book.pop(plugin, None) is not None:
            self._write(book)

    def _left_behind(self) -> list[Path]:
        """The notes of processes that are gone. One with our own number was left by another of that number, as in a
        container, where a restart has the number of the one that died."""
        notes = [(note, note.name.removeprefix(_NOTE)) for note in self._folder.glob(f"{_NOTE}*")]
        return [
            note
            for note, pid in notes
            if pid == str(os.getpid()) or not (pid.isdecimal() and _lives(int(pid)))
        ]

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


def _text_of(note: Path) -> str:
    try:
        return note.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is somebody else's
        return True
    return True
