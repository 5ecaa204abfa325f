"""The log reader: the newest lines, and then new lines as they are written, across rotations of the file."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from claw_gateway.process.logs import level_number, rotated_path

_MOST_FILES = 1000
_FULL_LINE = 1 << 20  # our lines are far shorter; a longer one is no log line


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A choice of log lines.

    :param level: the least level, a number of ``logging``.
    :param channel: only lines of this channel (``name`` or ``name/account``); empty = all.
    :param since: seconds since 1970.
    """

    level: int = 0
    channel: str = ""
    since: float = 0.0

    def matches(self, fields: dict[str, Any]) -> bool:
        """Return true if a line is chosen."""
        if level_number(str(fields.get("level", ""))) < self.level:
            return False
        if self.channel:
            name, _, account = self.channel.partition("/")
            if fields.get("channel") != name or (account and fields.get("account", "default") != account):
                return False
        return not self.since or timestamp_of(fields) >= self.since


class LogReader:
    """A reader of a log, from the start of its oldest file to the line that was written last.

    :param path: the file that is written now; older ones lie beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def newest(self, wanted: LogFilter, most: int | None) -> list[dict[str, Any]]:
        """Return the newest lines, oldest first; afterwards :meth:`more` continues where they end.

        :param most: the largest number of lines; None = all.
        """
        found: list[list[dict[str, Any]]] = []
        count = 0
        for number in range(_MOST_FILES):
            raw = self._read_current() if number == 0 else _content(rotated_path(self._path, number))
            if raw is None and number:
                break
            lines = [line for line in map(_fields, (raw or b"").splitlines()) if line]
            found.append([line for line in lines if wanted.matches(line)])
            count += len(found[-1])
            older = lines and timestamp_of(lines[0]) < wanted.since
            if older or (most is not None and count >= most):
                break
        joined = [line for lines in reversed(found) for line in lines]
        return joined[len(joined) - most :] if most is not None and len(joined) > most else joined

    def new_lines(self, wanted: LogFilter) -> Iterator[dict[str, Any]]:
        """Yield the lines written since the last call."""
        raw = self._read_new()
        while raw:
            head, newline, self._rest = (self._rest + raw).rpartition(b"\n")
            if len(self._rest) > _FULL_LINE:
                self._rest = b""
            for line in (head + newline).splitlines():
                if (fields := _fields(line)) and wanted.matches(fields):
                    yield fields
            raw = self._read_new()

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()
        self._file = None

    def _read_current(self) -> bytes | None:
        self.close()
        self._open(self._path)
        raw = self._file.read() if self._file else None
        if raw is None:
            return None
        head, newline, self._rest = raw.rpartition(b"\n")
        return head + newline

    def _read_new(self) -> bytes:
        """Read what follows in the current file; at its end, read from the next newer file if the log was
        rotated."""
        if self._file is None:
            self._open(self._path)
        if self._file is None:
            return b""
        if raw := self._file.read(_FULL_LINE):
            return raw
        if newer := self._open_newer():
            raw = self._file.read()  # written between the last read and the rotation
            self.close()
            self._file = newer
            return raw or newer.read(_FULL_LINE)
        return b""

    def _open_newer(self) -> BinaryIO | None:
        """Open the file that was begun after the current one; None while the current one is still written.

        A rotation may rename files meanwhile, the oldest first: the file that was opened follows the current
        one only if the current one has the same number before and after.
        """
        assert self._file is not None
        current, existing = os.fstat(self._file.fileno()), list(_existing(self._path))
        number = next((number for number, seen in existing if os.path.samestat(seen, current)), None)
        if number == 0:
            if current.st_size < self._file.tell():  # it was truncated
                self._file.seek(0)
            return None
        if number is None:  # our file is gone: the next ones are those written to after it
            later = [one for one, seen in existing if seen.st_mtime_ns >= current.st_mtime_ns]
            return _opened(rotated_path(self._path, later[-1])) if later else None
        newer = _opened(rotated_path(self._path, number - 1))
        if newer and not any(
            one == number and os.path.samestat(seen, current) for one, seen in _existing(self._path)
        ):
            newer.close()
            return None  # the next read tries again
        return newer

    def _open(self, path: Path) -> None:
        self._file = _opened(path)


def _existing(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """Yield the numbers of a log's files, newest first; one number may be missing while files are renamed."""
    missing = 0
    for number in range(_MOST_FILES):
        try:
            yield number, rotated_path(path, number).stat()
            missing = 0
        except OSError:
            missing += 1
            if missing > 1:
                return


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except OSError:
        return None


def timestamp_of(fields: dict[str, Any]) -> float:
    """Return when a line was written, in seconds since 1970; 0 when it does not say."""
    try:
        return datetime.fromisoformat(str(fields.get("time"))).timestamp()
    except ValueError:
        return 0.0


def _fields(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
