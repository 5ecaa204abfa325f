"""Crash guard: record the plugin that is being loaded, to find the one that ended the process.

A plugin can end the process (``os._exit``, a crash in C), and no host in that process can prevent it. So a note names
the plugin before it is loaded and is removed afterwards; later processes count the notes that were left. After two
such crashes the next start leaves that plugin out (DESIGN section 5).
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType

from claw.storage.clock import SYSTEM_CLOCK, Clock
from claw.storage.files import SYSTEM_DISK, Disk

MAX_CRASHES = 2
WINDOW_SECONDS = 24 * 3600.0
_NOTE = ".starting-"


class CrashGuard:
    """The notes of one home: one for each process that is loading a plugin.

    :param folder: ``CLAW_HOME/plugins``.
    """

    def __init__(self, folder: Path, clock: Clock = SYSTEM_CLOCK, disk: Disk = SYSTEM_DISK) -> None:
        self._counts_file = folder / ".deaths.json"
        self._folder, self._clock, self._disk = folder, clock, disk

    def crash_counts(self) -> dict[str, int]:
        """Return plugin id → number of recent crashes while it was loaded; notes that were left are counted now."""
        times = self._read()
        for note in self._notes_of_dead_processes():
            if plugin := _read_note(note):
                times.setdefault(plugin, []).append(self._clock.now())
                self._write(times)
                note.unlink(missing_ok=True)
        since = self._clock.now() - WINDOW_SECONDS
        return {
            plugin: len([moment for moment in moments if moment > since]) for plugin, moments in times.items()
        }

    @contextmanager
    def guard(self, plugin: str) -> Iterator[None]:
        """Keep a note that ``plugin`` is being loaded, until it is."""
        note = self._folder / f"{_NOTE}{os.getpid()}"
        self._disk.make_folder(self._folder)
        self._disk.write_note(note, plugin.encode())
        try:
            yield
        finally:
            note.unlink(missing_ok=True)

    def reset(self, plugin: str) -> None:
        """Reset the count, because the operator says so or the plugin has changed."""
        times = self._read()
        if times.pop(plugin, None) is not None:
            self._write(times)

    def _notes_of_dead_processes(self) -> list[Path]:
        """Return the notes of dead processes.

        A note with our own pid was left by another process with that pid, as in a container, where a restart gets the
        pid of the process that died.
        """
        notes = [(note, note.name.removeprefix(_NOTE)) for note in self._folder.glob(f"{_NOTE}*")]
        return [
            note
            for note, pid in notes
            if pid == str(os.getpid()) or not (pid.isdecimal() and _is_running(int(pid)))
        ]

    def _read(self) -> dict[str, list[float]]:
        try:
            times = json.loads(self._counts_file.read_bytes())
        except (OSError, ValueError):
            return {}
        return {
            str(plugin): [moment for moment in moments if isinstance(moment, int | float)]
            for plugin, moments in (times.items() if isinstance(times, dict) else ())
            if isinstance(moments, list)
        }

    def _write(self, times: dict[str, list[float]]) -> None:
        self._disk.make_folder(self._folder)
        self._disk.replace(self._counts_file, json.dumps(times).encode())


def _read_note(note: Path) -> str:
    try:
        return note.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # the process belongs to another user
        return True
    return True


_GUARDED = (
    *("claw.policy", "claw.agent.tool_gate", "claw.agent.routing", "claw.host.calls", "claw.security"),
    "claw.storage.files",
)


def function_ids() -> dict[str, int]:
    """Return every function of the guarded modules with the identity of its code: ``claw.policy.engine:judge``
    → id.
    """
    found: dict[str, int] = {}
    for name, module in list(sys.modules.items()):
        if module is not None and name.startswith(_GUARDED):
            for key, value in vars(module).items():
                if isinstance(value, FunctionType):
                    found[f"{name}:{key}"] = id(value.__code__)
    return found


def replaced_functions(before: dict[str, int], after: dict[str, int]) -> tuple[str, ...]:
    """Return the names of functions that were replaced, sorted."""
    return tuple(sorted(name for name, code in before.items() if after.get(name, code) != code))
