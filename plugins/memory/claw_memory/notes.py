"""The notes of one agent on disk, which are the truth: MEMORY.md, and Markdown files in ``memory/``."""

import os
import re
from calendar import timegm
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from claw import ToolError

LONG_TERM = "MEMORY.md"
FOLDER = "memory"
MOST_BYTES = 4_000_000
"""What is read of one file."""

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")

Stamp = tuple[int, int, int]
"""What tells one version of a file from another: time in nanoseconds, size in bytes, inode."""


@dataclass(frozen=True, slots=True)
class Notes:
    """:param own: ``CLAW_HOME/agents/ID/agent``."""

    own: Path

    def look(self) -> dict[str, Stamp]:
        """Every file of the memory by its path (``MEMORY.md``, ``memory/2026-01-31.md``), the newest name first.

        Links that lead out are left out.
        """
        found: dict[str, Stamp] = {}
        if stamp := _stamp(self.own / LONG_TERM):
            found[LONG_TERM] = stamp
        walked = os.walk(self.own / FOLDER)  # follows no link to a folder
        names = [os.path.join(folder, name) for folder, _, files in walked for name in files]
        for name in sorted(names, reverse=True):
            path = os.path.relpath(name, self.own)
            if (
                is_note(path)
                and (stamp := _stamp(Path(name)))
                and (not os.path.islink(name) or self._holds(path))
            ):
                found[path] = stamp
        return found

    def read(self, path: str) -> str | None:
        """The text of a file that ``look`` named, line ends as ``\\n``; None when it is gone."""
        try:
            with (self.own / path).open("rb") as file:
                data = file.read(MOST_BYTES)
        except OSError:
            return None
        return plain(data)

    def place(self, path: str) -> str:
        """The path of a note as ``look`` names it, of what a model wrote.

        :raises ToolError: it is none of the memory's, or a link leads out.
        """
        inside = path.removeprefix(f"{self.own}{os.sep}")
        plain_path = str(PurePosixPath(inside))
        if ".." in PurePosixPath(inside).parts or not is_note(plain_path) or not self._holds(plain_path):
            raise ToolError(
                "{path} is no file of the memory. memory_get reads MEMORY.md and memory/*.md; for other files there is read",
                path=path,
            )
        return plain_path

    def _holds(self, path: str) -> bool:
        """Whether it lies in the memory when links are followed. MEMORY.md itself, and the folder, may be links."""
        real = (self.own / path).resolve()
        return path == LONG_TERM or real.is_relative_to((self.own / FOLDER).resolve())


def is_note(path: str) -> bool:
    """Whether a path relative to the agent's folder names a note."""
    pure = PurePosixPath(path)
    hidden = any(part.startswith(".") for part in pure.parts)
    return path == LONG_TERM or (pure.parts[:1] == (FOLDER,) and pure.suffix.lower() == ".md" and not hidden)


def plain(data: bytes) -> str:
    """The words in the bytes of a note."""
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def dated(path: str) -> float | None:
    """The day that a file's name tells, as seconds since 1970 (UTC); None when it tells none."""
    found = _DATE.search(PurePosixPath(path).name)
    try:
        return float(timegm((int(found[1]), int(found[2]), int(found[3]), 0, 0, 0))) if found else None
    except ValueError:
        return None


def lines_of(text: str, first: int, count: int | None) -> str:
    """``count`` lines from line ``first`` (counted from 1); all that follow when it is None."""
    lines = text.split("\n")
    begin = max(first, 1) - 1
    return "\n".join(lines[begin : None if count is None else begin + count])


def _stamp(path: Path) -> Stamp | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if path.is_file() else None
