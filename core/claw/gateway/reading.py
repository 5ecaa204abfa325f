"""Reading the log: the newest lines that somebody asks for, and then what comes, also across a turn-over."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO

from claw.gateway.logs import level_of, numbered

_MOST_FILES = 1000
_FULL_LINE = 1 << 20  # ours are shorter by far; what is longer is no log


@dataclass(frozen=True, slots=True)
class Filter:
    """Which lines.

    :param level: this one and graver ones; a number of ``logging``.
    :param channel: of this channel alone (``name`` or ``name/account``); empty = all.
    :param since: seconds since 1970.
    """

    level: int = 0
    channel: str = ""
    since: float = 0.0

    def takes(self, fields: dict[str, Any]) -> bool:
        """Whether a line is among them."""
        if level_of(str(fields.get("level", ""))) < self.level:
            return False
        if self.channel:
            name, _, account = self.channel.partition("/")
            if fields.get("channel") != name or (account and fields.get("account", "default") != account):
                return False
        return not self.since or moment_of(fields) >= self.since


class Reader:
    """A log from the start of its oldest file to what is written just now.

    :param path: of the file that is written; older ones lie beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def newest(self, wanted: Filter, most: int | None) -> list[dict[str, Any]]:
        """The newest lines, oldest first; afterwards :meth:`more` goes on where they end.

        :param most: how many at the most; None = all.
        """
        found: list[list[dict[str, Any]]] = []
        count = 0
        for number in range(_MOST_FILES):
            raw = self._all_of_current() if number == 0 else _content(numbered(self._path, number))
            if raw is None and number:
                break
            lines = [line for line in map(_fields, (raw or b"").splitlines()) if line]
            found.append([line for line in lines if wanted.takes(line)])
            count += len(found[-1])
            older = lines and moment_of(lines[0]) < wanted.since
            if older or (most is not None and count >= most):
                break
        joined = [line for lines in reversed(found) for line in lines]
        return joined[len(joined) - most :] if most is not None and len(joined) > most else joined

    def more(self, wanted: Filter) -> Iterator[dict[str, Any]]:
        """What was written since; call it again for what comes later."""
        raw = self._news()
        while raw:
            head, newline, self._rest = (self._rest + raw).rpartition(b"\n")
            if len(self._rest) > _FULL_LINE:
                self._rest = b""
            for line in (head + newline).splitlines():
                if (fields := _fields(line)) and wanted.takes(fields):
                    yield fields
            raw = self._news()

    def close(self) -> None:
        """Let go of the file."""
        if self._file:
            self._file.close()
        self._file = None

    def _all_of_current(self) -> bytes | None:
        self.close()
        self._open(self._path)
        raw = self._file.read() if self._file else None
        if raw is None:
            return None
        head, newline, self._rest = raw.rpartition(b"\n")
        return head + newline

    def _news(self) -> bytes:
        """What follows in the file at hand; at its end, of the next newer one when it was put aside."""
        if self._file is None:
            self._open(self._path)
        if self._file is None:
            return b""
        if raw := self._file.read(_FULL_LINE):
            return raw
        if newer := self._newer():
            raw = self._file.read()  # what was written between our last look and the turn-over
            self.close()
            self._file = newer
            return raw or newer.read(_FULL_LINE)
        return b""

    def _newer(self) -> BinaryIO | None:
        """The file that was begun after ours, open; None while ours is the one that is written.

        Names move on while we look, the oldest first: what was opened beside ours is only what follows it when ours has
        the same name before and after.
        """
        assert self._file is not None
        ours, there = os.fstat(self._file.fileno()), list(_there(self._path))
        number = next((number for number, seen in there if os.path.samestat(seen, ours)), None)
        if number == 0:
            if ours.st_size < self._file.tell():  # somebody emptied it
                self._file.seek(0)
            return None
        if number is None:  # ours is gone: what follows are those that were written to after it
            later = [one for one, seen in there if seen.st_mtime_ns >= ours.st_mtime_ns]
            return _opened(numbered(self._path, later[-1])) if later else None
        newer = _opened(numbered(self._path, number - 1))
        if newer and not any(
            one == number and os.path.samestat(seen, ours) for one, seen in _there(self._path)
        ):
            newer.close()
            return None  # the next look finds out
        return newer

    def _open(self, path: Path) -> None:
        self._file = _opened(path)


def _there(path: Path) -> Iterator[tuple[int, os.stat_result]]:
    """The files of a log, newest first; one name may be free while they are renamed."""
    missing = 0
    for number in range(_MOST_FILES):
        try:
            yield number, numbered(path, number).stat()
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


def moment_of(fields: dict[str, Any]) -> float:
    """When a line was written, seconds since 1970; 0 when it does not say."""
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
