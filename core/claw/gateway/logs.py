"""The log: one JSON object a line in ``logs/claw.jsonl``, the same for people on stderr, no secret in either.

What goes wrong with logging itself stops nobody: a line that cannot be written is counted, and the count is told when
writing works again.
"""

import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, TextIO

from claw.clock import instant
from claw.errors import ClawError
from claw.guard.redact import Redactor
from claw.report import PLACE
from claw.store import SYSTEM as DISK, Disk
from claw.words import say

FILE = "claw.jsonl"
OWN = "claw"
"""Our own logger. Plugins' are heard as it is; what libraries say through theirs is heard from WARNING on."""
WHERE = ("plugin", "channel", "account", "session")
"""What a line may say of where it comes from: names for ``extra={…}`` of a logging call."""
LINE_CHARS = 16_000
_LOOKED_AT_CHARS, _TORN_CHARS = 200_000, 8_000  # a secret that the first cut tears is shorter than the second
_COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31;1"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Book:
    """A file of lines that is put aside when it is full: ``claw.jsonl``, then ``claw.jsonl.1`` (newest) and on.

    :param max_bytes: of one file; ``keep`` is how many older ones stay.
    """

    def __init__(self, path: Path, max_bytes: int = 10 << 20, keep: int = 5, disk: Disk = DISK) -> None:
        self.path, self.max_bytes, self.keep, self._disk = path, max_bytes, keep, disk
        self._fd, self._size = -1, 0

    def write(self, line: bytes) -> None:
        """Append one line, its newline included.

        :raises OSError: the disk refuses.
        """
        if self._fd < 0:
            self._open()
        if self._size and self._size + len(line) > self.max_bytes:
            self._turn_over()
        try:
            self._disk.append(self._fd, line)
        except OSError:
            self.close()  # the next line begins with a fresh descriptor
            raise
        self._size += len(line)

    def close(self) -> None:
        """Let go of the file; the next line opens it again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with suppress(OSError):
                os.close(fd)

    def _open(self) -> None:
        try:
            self._disk.make_folder(self.path.parent)
        except ClawError as refused:
            raise OSError(str(refused)) from refused
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self.path, flags, 0o600)
        self._size = os.fstat(self._fd).st_size

    def _turn_over(self) -> None:
        """Each file takes the next number; the last one goes. A name that cannot be changed makes the file longer."""
        with suppress(OSError):
            for number in range(self.keep, 0, -1):
                older = self.path if number == 1 else numbered(self.path, number - 1)
                if older.exists():
                    self._disk.rename(str(older), str(numbered(self.path, number)))
            if not self.keep:
                self.path.unlink(missing_ok=True)
        self.close()
        self._open()


def numbered(path: Path, number: int) -> Path:
    """Where an older log lies; 0 is the one that is written now."""
    return path.with_name(f"{path.name}.{number}") if number else path


class Sink(logging.Handler):
    """Where all logging of the process ends: redacted, cut, and written twice.

    :param screen: for people; None = nobody watches.
    :param redact: masks secrets; replaced once the house knows its own.
    """

    def __init__(self, book: Book, screen: TextIO | None = None) -> None:
        super().__init__()
        self.book, self.screen = book, screen
        self.redact: Callable[[str], str] = Redactor()
        self.own_level = logging.INFO
        self._own = frozenset({OWN})
        self._lost, self._inside = 0, threading.local()

    def hear(self, packages: Iterable[str], level: int) -> None:
        """From now on hear claw itself and these packages, those of plugins, from ``level`` on."""
        named = {OWN, *(package.partition(".")[0] for package in packages)} - {""}
        before, self.own_level, self._own = self._own, level, frozenset(named)
        for name in before - self._own:
            logging.getLogger(name).setLevel(logging.NOTSET)
        for name in self._own - {OWN}:
            logging.getLogger(name).setLevel(level)

    def reopen(self) -> None:
        """Let go of the file, which somebody may have put aside: the next line begins it anew."""
        self.acquire()
        try:
            self.book.close()
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record down; never raises, and hears nothing that is logged meanwhile by who does the writing."""
        is_own = record.name.partition(".")[0] in self._own
        if record.levelno < (self.own_level if is_own else logging.WARNING):
            return
        if getattr(self._inside, "busy", False):
            return
        self._inside.busy = True
        try:
            fields = self._fields(record)
            self._keep(fields)
            self._show(record.levelno, fields)
        except Exception:  # noqa: BLE001 - a log that fails must stop nobody
            self._lost += 1
        finally:
            self._inside.busy = False

    def _fields(self, record: logging.LogRecord) -> dict[str, str]:
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - a library's wrong arguments
            text = str(record.msg)
        fields = {"time": instant(record.created), "level": record.levelname.lower(), "logger": record.name}
        place = {**PLACE.get(), **vars(record)}
        fields |= {name: self.safe(str(place[name])) for name in WHERE if place.get(name)}
        fields["text"] = self.safe(text)
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = self.safe("".join(traceback.format_exception(record.exc_info[1])))
        return fields

    def safe(self, text: str) -> str:
        """``text`` without secrets, and not endless."""
        shown = self.redact(text[:_LOOKED_AT_CHARS])
        if len(text) > _LOOKED_AT_CHARS:
            shown = shown[:-_TORN_CHARS]
        if len(shown) <= LINE_CHARS and len(text) <= _LOOKED_AT_CHARS:
            return shown
        return f"{shown[:LINE_CHARS]} … ({say('cut: {count} characters', count=len(text))})"

    def _keep(self, fields: dict[str, str]) -> None:
        try:
            if self._lost:
                note = say("{count:line|lines} of the log could not be written", count=self._lost)
                self.book.write(
                    _line({"time": fields["time"], "level": "warning", "logger": OWN, "text": note})
                )
                self._lost = 0
            self.book.write(_line(fields))
        except OSError:
            self._lost += 1

    def _show(self, level: int, fields: dict[str, str]) -> None:
        if self.screen is None:
            return
        with suppress(OSError, ValueError):
            self.screen.write(for_people(fields, colour=_coloured(self.screen), level=level) + "\n")
            self.screen.flush()


def for_people(
    fields: dict[str, Any], *, colour: bool = False, level: int | None = None, today: date | None = None
) -> str:
    """A line of the log as a person reads it: time of day here, level unless it is plain information, where, text.

    :param today: of any other day the date stands before the time; None = no day is told.
    """
    number = level if level is not None else level_of(str(fields.get("level", "info")))
    try:
        there = datetime.fromisoformat(str(fields.get("time"))).astimezone()
        moment = there.strftime("%H:%M:%S" if today in (None, there.date()) else "%Y-%m-%d %H:%M:%S")
    except ValueError:
        moment = "--:--:--"
    place = "/".join(str(fields[name]) for name in ("channel", "account") if fields.get(name))
    logger = str(fields.get("logger", ""))
    place = place or str(fields.get("plugin", "")) or ("" if _is_own(logger) else logger)
    word = "" if number == logging.INFO else f"{say(logging.getLevelName(number).lower())}: "
    said = str(fields.get("text", "")).removeprefix(f"{place}: ")
    text = f"{word}{place + ': ' if place else ''}{said}"
    if fields.get("error"):
        text += "\n" + str(fields["error"]).rstrip()
    text = _CONTROL.sub("·", text).replace(
        "\n", "\n         "
    )  # nobody's text moves the cursor, or looks like ours
    if not colour:
        return f"{moment} {text}"
    return f"\x1b[2m{moment}\x1b[0m " + (
        f"\x1b[{_COLOURS[number]}m{text}\x1b[0m" if number in _COLOURS else text
    )


def level_of(name: str) -> int:
    """The number of a level's name; unknown names count as information."""
    return {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}.get(name.lower(), 20)


@contextmanager
def logging_to(sink: Sink) -> Iterator[logging.Logger]:
    """All logging of this process goes to ``sink``, warnings and the failures of threads too; answers with our logger."""
    root, own = logging.getLogger(), logging.getLogger(OWN)
    before = root.handlers[:], root.level, own.level, threading.excepthook
    root.handlers[:] = [sink]
    root.setLevel(logging.WARNING)
    own.setLevel(logging.DEBUG)  # the sink decides
    logging.captureWarnings(True)
    threading.excepthook = lambda raised: _thread_failed(own, raised)
    try:
        yield own
    finally:
        logging.captureWarnings(False)
        root.handlers[:], root_level, own_level, threading.excepthook = before
        root.setLevel(root_level)
        own.setLevel(own_level)
        sink.hear((), sink.own_level)
        sink.book.close()


def _thread_failed(own: logging.Logger, raised: threading.ExceptHookArgs) -> None:
    if raised.exc_value is not None:
        name = raised.thread.name if raised.thread else "?"
        own.error(say("a thread failed: {name}", name=name), exc_info=raised.exc_value)


def _is_own(logger: str) -> bool:
    return logger == OWN or logger.startswith(f"{OWN}.")


def _line(fields: dict[str, str]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _coloured(screen: TextIO) -> bool:
    return screen is sys.stderr and screen.isatty() and not os.environ.get("NO_COLOR")
