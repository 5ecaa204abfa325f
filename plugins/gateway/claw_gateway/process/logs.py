"""The log: one JSON object per line in ``logs/claw.jsonl``, and the same lines for people on stderr; secrets
are masked.

A failure of logging stops nothing: lines that cannot be written are counted, and the count is logged when
writing works again. So are warnings and errors that repeat (:mod:`claw_gateway.process.repeats`).
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

from claw import ClawError, t
from claw.runtime import SYSTEM_CLOCK, SYSTEM_DISK, Clock, Disk, Redactor, iso_time, with_label

from claw_gateway.process.repeats import RepeatLimit
from claw_gateway.process.report import LOG_CONTEXT

FILE = "claw.jsonl"
OWN_LOGGER = "claw"
"""The name of claw's own logger. The loggers of plugins use its level; those of libraries are logged from
WARNING on."""
ORIGIN_FIELDS = ("plugin", "channel", "account", "session")
"""Fields of a line that say where it comes from: names for ``extra={…}`` of a logging call."""
LINE_CHARS = 16_000
_LOOKED_AT_CHARS = 200_000
_TORN_CHARS = 8_000  # a secret that the limit above cuts in half is shorter than this
_COLOURS = {logging.WARNING: "33", logging.ERROR: "31", logging.CRITICAL: "31;1"}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class RotatingLogFile:
    """A log file that is rotated when it is full: ``claw.jsonl``, then ``claw.jsonl.1`` (newest) and on.

    :param max_bytes: size of one file; ``keep`` is the number of older files that stay.
    """

    def __init__(
        self, path: Path, max_bytes: int = 10 << 20, keep: int = 5, disk: Disk = SYSTEM_DISK
    ) -> None:
        self.path, self.max_bytes, self.keep, self._disk = path, max_bytes, keep, disk
        self._fd, self._size = -1, 0

    def write(self, line: bytes) -> None:
        """Append one line, its newline included.

        :raises OSError: the disk refuses.
        """
        if self._fd < 0:
            self._open()
        if self._size and self._size + len(line) > self.max_bytes:
            self._rotate()
        try:
            self._disk.append(self._fd, line)
        except OSError:
            self.close()  # the next line begins with a fresh descriptor
            raise
        self._size += len(line)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
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

    def _rotate(self) -> None:
        """Give each file the next number and drop the last one. When a rename fails, the current file grows
        on."""
        with suppress(OSError):
            for number in range(self.keep, 0, -1):
                older = self.path if number == 1 else rotated_path(self.path, number - 1)
                if older.exists():
                    self._disk.rename(str(older), str(rotated_path(self.path, number)))
            if not self.keep:
                self.path.unlink(missing_ok=True)
        self.close()
        self._open()


def rotated_path(path: Path, number: int) -> Path:
    """Return the path of an older log file; 0 is the file that is written now."""
    return path.with_name(f"{path.name}.{number}") if number else path


class LogHandler(logging.Handler):
    """The log handler of the process: it masks, cuts and writes each record to the file and the screen.

    :param screen: the stream for people; None = none.
    :param redact: masks secrets; replaced once the secrets of the config are known.
    """

    def __init__(
        self, book: RotatingLogFile, screen: TextIO | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        super().__init__()
        self._clock, self._repeats = clock, RepeatLimit()
        self.log_file, self.stream = book, screen
        self.redact: Callable[[str], str] = Redactor()
        self.own_level = logging.INFO
        self._own = frozenset({OWN_LOGGER})
        self._lost_lines, self._emitting = 0, threading.local()

    def set_levels(self, packages: Iterable[str], level: int) -> None:
        """Log claw itself and these packages, those of plugins, from ``level`` on."""
        named = {OWN_LOGGER, *(package.partition(".")[0] for package in packages)} - {""}
        before, self.own_level, self._own = self._own, level, frozenset(named)
        for name in before - self._own:
            logging.getLogger(name).setLevel(logging.NOTSET)
        for name in self._own - {OWN_LOGGER}:
            logging.getLogger(name).setLevel(level)

    def reopen(self) -> None:
        """Close the file, which another program may have rotated: the next line opens it again."""
        self.acquire()
        try:
            self.log_file.close()
        finally:
            self.release()

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; never raise, and ignore records that the writing itself causes."""
        is_own = record.name.partition(".")[0] in self._own
        if record.levelno < (self.own_level if is_own else logging.WARNING):
            return
        if getattr(self._emitting, "busy", False):
            return
        self._emitting.busy = True
        try:
            self._write_once_a_second(record)
        except Exception:  # noqa: BLE001 - a failing log must not stop the program
            self._lost_lines += 1
        finally:
            self._emitting.busy = False

    def _write_once_a_second(self, record: logging.LogRecord) -> None:
        """Write the record, with the number of omitted ones before it; omit a warning that repeats within a second."""
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - a library's wrong arguments
            text = str(record.msg)
        if record.levelno < logging.WARNING:
            return self._write(record.levelno, self._fields(record, text))
        values = {**LOG_CONTEXT.get(), **vars(record)}
        origin = (record.name, *(values.get(name) for name in ORIGIN_FIELDS if name != "session"))
        omitted = self._repeats.admit(origin, text, self._clock.monotonic(), (record, text))
        if omitted:
            text = t("{text} … and {count} more", text=text, count=f"{omitted:,}")
        if omitted is not None:
            self._write(record.levelno, self._fields(record, text))
        return None

    def write_counts(self, *, everything: bool = False) -> None:
        """Write the number of omitted lines of each cause, with the newest one, once a second is over.

        :param everything: do not wait for the end of the second.
        """
        self.acquire()
        try:
            for (record, text), count in self._repeats.due(self._clock.monotonic(), everything=everything):
                line = t("… and {count} more: {text}", text=text, count=f"{count:,}")
                self._write(record.levelno, self._fields(record, line))
        finally:
            self.release()

    def _write(self, level: int, fields: dict[str, str]) -> None:
        self._write_file(fields)
        self._write_screen(level, fields)

    def _fields(self, record: logging.LogRecord, text: str) -> dict[str, str]:
        fields = {"time": iso_time(record.created), "level": record.levelname.lower(), "logger": record.name}
        values = {**LOG_CONTEXT.get(), **vars(record)}
        fields |= {name: self.redacted(str(values[name])) for name in ORIGIN_FIELDS if values.get(name)}
        fields["text"] = self.redacted(text)
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = self.redacted("".join(traceback.format_exception(record.exc_info[1])))
        return fields

    def redacted(self, text: str) -> str:
        """Return ``text`` with secrets masked, cut to the limit of a line."""
        shown = self.redact(text[:_LOOKED_AT_CHARS])
        if len(text) > _LOOKED_AT_CHARS:
            shown = shown[:-_TORN_CHARS]
        if len(shown) <= LINE_CHARS and len(text) <= _LOOKED_AT_CHARS:
            return shown
        return f"{shown[:LINE_CHARS]} … ({t('cut: {count} characters', count=len(text))})"

    def _write_file(self, fields: dict[str, str]) -> None:
        try:
            if self._lost_lines:
                note = t("{count:line|lines} of the log could not be written", count=self._lost_lines)
                self.log_file.write(
                    _line({"time": fields["time"], "level": "warning", "logger": OWN_LOGGER, "text": note})
                )
                self._lost_lines = 0
            self.log_file.write(_line(fields))
        except OSError:
            self._lost_lines += 1

    def _write_screen(self, level: int, fields: dict[str, str]) -> None:
        if self.stream is None:
            return
        with suppress(OSError, ValueError):
            self.stream.write(format_line(fields, colour=_coloured(self.stream), level=level) + "\n")
            self.stream.flush()


def format_line(
    fields: dict[str, Any], *, colour: bool = False, level: int | None = None, today: date | None = None
) -> str:
    """Format a line of the log for people: local time of day, level unless it is info, origin, text.

    :param today: records of another day show the date before the time; None = never show the date.
    """
    number = level if level is not None else level_number(str(fields.get("level", "info")))
    try:
        local = datetime.fromisoformat(str(fields.get("time"))).astimezone()
        moment = local.strftime("%H:%M:%S" if today in (None, local.date()) else "%Y-%m-%d %H:%M:%S")
    except ValueError:
        moment = "--:--:--"
    origin = "/".join(str(fields[name]) for name in ("channel", "account") if fields.get(name))
    logger = str(fields.get("logger", ""))
    origin = origin or str(fields.get("plugin", "")) or ("" if _is_own(logger) else logger)
    level_word = "" if number == logging.INFO else with_label(t(logging.getLevelName(number).lower()), "")
    body = str(fields.get("text", "")).removeprefix(f"{origin}: ")
    text = f"{level_word}{origin + ': ' if origin else ''}{body}"
    if fields.get("error"):
        text += "\n" + str(fields["error"]).rstrip()
    # Text from outside must not move the cursor, or look like a line of ours.
    text = _CONTROL.sub("·", text).replace("\n", "\n         ")
    if not colour:
        return f"{moment} {text}"
    return f"\x1b[2m{moment}\x1b[0m " + (
        f"\x1b[{_COLOURS[number]}m{text}\x1b[0m" if number in _COLOURS else text
    )


def level_number(name: str) -> int:
    """Return the number of a level's name; unknown names count as info."""
    return {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}.get(name.lower(), 20)


@contextmanager
def install_handler(sink: LogHandler) -> Iterator[logging.Logger]:
    """Send all logging of this process to ``sink``, with warnings and failures of threads; yield claw's own
    logger."""
    root, own = logging.getLogger(), logging.getLogger(OWN_LOGGER)
    saved = root.handlers[:], root.level, own.level, threading.excepthook
    root.handlers[:] = [sink]
    root.setLevel(logging.WARNING)
    own.setLevel(logging.DEBUG)  # the sink decides
    logging.captureWarnings(True)
    threading.excepthook = lambda raised: _thread_failed(own, raised)
    try:
        yield own
    finally:
        sink.write_counts(everything=True)
        logging.captureWarnings(False)
        root.handlers[:], root_level, own_level, threading.excepthook = saved
        root.setLevel(root_level)
        own.setLevel(own_level)
        sink.set_levels((), sink.own_level)
        sink.log_file.close()


def _thread_failed(own: logging.Logger, raised: threading.ExceptHookArgs) -> None:
    if raised.exc_value is not None:
        name = raised.thread.name if raised.thread else "?"
        own.error(t("a thread failed: {name}", name=name), exc_info=raised.exc_value)


def _is_own(logger: str) -> bool:
    return logger == OWN_LOGGER or logger.startswith(f"{OWN_LOGGER}.")


def _line(fields: dict[str, str]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def _coloured(screen: TextIO) -> bool:
    return screen is sys.stderr and screen.isatty() and not os.environ.get("NO_COLOR")
