"""The notes of one agent on disk: MEMORY.md, and Markdown files in ``memory/``."""

import os
import re
import stat
from calendar import timegm
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from claw import ToolError

LONG_TERM = "MEMORY.md"
FOLDER = "memory"
MOST_BYTES = 4_000_000
"""Maximum number of bytes that are read of one file."""

_SUFFIX = ".md"
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")

Stamp = tuple[int, int, int]
"""Version of a file: time in nanoseconds, size in bytes, inode."""


@dataclass(frozen=True, slots=True)
class Notes:
    """:param own: ``CLAW_HOME/agents/ID/agent``."""

    own: Path

    def look(self) -> dict[str, Stamp]:
        """Return every file of the memory by its path (``MEMORY.md``, ``memory/2026-01-31.md``), the newest
        name first.

        Links that lead out of the memory are skipped.
        """
        found: dict[str, Stamp] = {}
        with suppress(OSError):
            if _is_regular(status := os.stat(self.own / LONG_TERM)):
                found[LONG_TERM] = _stamp(status)
        for path, status in sorted(self._walk(FOLDER), reverse=True):
            found[path] = _stamp(status)
        return found

    def _walk(self, folder: str) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the notes below a folder, without following links to folders."""
        try:
            with os.scandir(os.path.join(self.own, folder)) as entries:
                there = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError:
            return
        for entry in there:
            path = f"{folder}/{entry.name}"
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from self._walk(path)
                elif self._is_note(entry, path) and _is_regular(status := entry.stat()):
                    yield path, status

    def _is_note(self, entry: "os.DirEntry[str]", path: str) -> bool:
        return entry.name.lower().endswith(_SUFFIX) and (not entry.is_symlink() or self._contains(path))

    def read(self, path: str) -> str | None:
        """Return the text of a file that ``look`` named, line ends as ``\\n``; None when it is deleted."""
        try:
            with (self.own / path).open("rb") as file:
                data = file.read(MOST_BYTES)
        except OSError:
            return None
        return decode_note(data)

    def place(self, path: str) -> str:
        """Return the path of a note, as ``look`` names it, for a path that a model wrote.

        :raises ToolError: the path is not in the memory, or a link leads out of it.
        """
        inside = path.removeprefix(f"{self.own}{os.sep}")
        plain_path = str(PurePosixPath(inside))
        if ".." in PurePosixPath(inside).parts or not is_note(plain_path) or not self._contains(plain_path):
            raise ToolError(
                "{path} is no file of the memory: memory_get reads MEMORY.md and memory/*.md, the tool read any other",
                path=path,
            )
        return plain_path

    def _contains(self, path: str) -> bool:
        """Return true if the path lies in the memory after links are resolved. MEMORY.md and the folder
        may be links.
        """
        real = (self.own / path).resolve()
        return path == LONG_TERM or real.is_relative_to((self.own / FOLDER).resolve())


def is_note(path: str) -> bool:
    """Return true if a path relative to the agent's folder names a note."""
    pure = PurePosixPath(path)
    hidden = any(part.startswith(".") for part in pure.parts)
    return path == LONG_TERM or (
        pure.parts[:1] == (FOLDER,) and pure.suffix.lower() == _SUFFIX and not hidden
    )


def decode_note(data: bytes) -> str:
    """Decode the bytes of a note."""
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def dated(path: str) -> float | None:
    """Return the date in a file's name as seconds since 1970 (UTC); None when it has none."""
    found = _DATE.search(PurePosixPath(path).name)
    try:
        return float(timegm((int(found[1]), int(found[2]), int(found[3]), 0, 0, 0))) if found else None
    except ValueError:
        return None


def lines_of(text: str, first: int, count: int | None) -> str:
    """Return ``count`` lines from line ``first`` (counted from 1); all that follow when it is None."""
    lines = text.split("\n")
    begin = max(first, 1) - 1
    return "\n".join(lines[begin : None if count is None else begin + count])


def _is_regular(status: os.stat_result) -> bool:
    """Return true for a file, false for a folder or device."""
    return stat.S_ISREG(status.st_mode)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino
