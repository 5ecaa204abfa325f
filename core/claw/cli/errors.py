"""The end of a command that failed: a message on stderr and an exit code, never a traceback."""

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from errno import EDQUOT, EFBIG, ENOSPC
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from claw import i18n
from claw.cli.output import SCHEMA_VERSION
from claw.contracts.errors import ClawError
from claw.host import discovery
from claw.host.health import package_of

_LAST_SECONDS = 5.0


def exit_with(code: int) -> NoReturn:
    """End with ``code``. The reader of stdout may have left before (``| head``): that is no failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's flush at exit
    threads = sys.modules.get("threading")
    if threads and threads.active_count() > 1:  # the interpreter waits for threads, without an end
        threads.Thread(target=_end_in_time, args=(code,), daemon=True).start()
        sys.unraisablehook = partial(_end_at_interrupt, sys.unraisablehook)
    sys.exit(code)


def _end_at_interrupt(report: Callable[[Any], Any], unraisable: Any) -> None:
    """End the process, without a traceback, at a Ctrl-C while the interpreter waits for threads."""
    import threading

    if unraisable.exc_type is KeyboardInterrupt and not threading.main_thread().is_alive():
        os._exit(130)
    report(unraisable)


def _end_in_time(code: int) -> None:
    """End the process although a plugin left a thread, or a handler of the exit, that does not end."""
    import threading
    import time

    time.sleep(_LAST_SECONDS)
    if threading.main_thread().is_alive():  # somebody caught the exit
        return
    frames, owners = sys._current_frames(), set[str]()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0) if not thread.daemon else None
        while frame:
            owners.add(package_of(frame))
            frame = frame.f_back
    text = "a thread of {packages} does not end; claw ends without it"
    if not (names := sorted(filter(None, owners))):
        text = "what a plugin does at the end of claw takes too long; claw ends without it"
    sys.stderr.write(i18n.t(text, packages=names) + "\n")
    sys.stderr.flush()
    os._exit(code)


@dataclass
class Termination:
    """The end of this process by SIGTERM or SIGHUP, as by Ctrl-C: what a turn has started ends with it.

    :ivar signal: the number of the signal; 0 = none has come.
    """

    signal: int = 0

    def install(self) -> None:
        """Handle both signals from now on; must be called in the main thread."""
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
                signal.signal(number, self._end)

    def _end(self, number: int, frame: object) -> None:
        self.signal = number
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            raise SystemExit(128 + number)
        signal.raise_signal(signal.SIGINT)  # an event loop runs: its handler cancels the turn


TERMINATION = Termination()
PRINTED: set[str] = set()
"""The warnings on stderr so far."""


def report_error(why: BaseException) -> int:
    """Print what went wrong on stderr; return the exit code."""
    if isinstance(why, BrokenPipeError) or isinstance(why.__context__, BrokenPipeError):
        return 0
    if isinstance(why, SystemExit):
        return why.code if isinstance(why.code, int) else 1
    discovery.use_configured_locale(os.environ)
    if TERMINATION.signal:
        return 128 + TERMINATION.signal
    if isinstance(why, KeyboardInterrupt) or type(why).__name__ == "Abort":
        sys.stderr.write(f"\nclaw: {i18n.t('stopped')}\n")
        return 130
    if hasattr(why, "format_message"):
        from claw.cli.usage_errors import usage_error_of

        why = usage_error_of(why) or why
    if isinstance(why, OSError) and why.errno in (ENOSPC, EDQUOT, EFBIG):
        from claw.storage.files import cannot_write

        why = cannot_write(Path(why.filename or discovery.home_of(os.environ)), why)
    if isinstance(why, ClawError):
        return _fail(why.exit_code, str(why), error_fields(why))
    if type(why).__name__ == "Exit":
        return int(getattr(why, "exit_code", 0))
    if (show := getattr(why, "format_message", None)) is not None:
        message, code = show(), int(getattr(why, "exit_code", 2))
        return _fail(code, message) if message else code  # without a command the help was shown
    if os.environ.get("CLAW_DEBUG"):
        import traceback

        traceback.print_exception(why)
    text = i18n.t(
        "internal error in claw ({kind}: {why}). This is a bug: please report it; CLAW_DEBUG=1 "
        "shows the traceback",
        kind=type(why).__name__,
        why=why,
    )
    return _fail(1, text)


def print_error(text: str) -> None:
    """Print an error on stderr, redacted, unless it is there already."""
    from claw.storage import database

    if not any(line.endswith(text) for line in (*PRINTED, *database.PRINTED)):
        sys.stderr.write(f"claw: {_redacted(text)}\n")


def error_fields(why: ClawError) -> dict[str, str]:
    """Return an error as a part of a document."""
    return {"problem": _redacted(why.problem), "where": _redacted(why.where), "fix": _redacted(why.fix)}


def _redacted(text: str) -> str:
    from claw.security.redaction import redact

    return redact(text)


def _fail(code: int, text: str, fields: dict[str, str] | None = None) -> int:
    """Print an error on stderr and, with ``--json``, as a document of one line on stdout; return ``code``."""
    print_error(text)
    if "--json" in sys.argv:
        head = {"schemaVersion": SCHEMA_VERSION, "kind": "error", "exitCode": code}
        print(json.dumps(head | (fields or {"problem": _redacted(text)}), ensure_ascii=False))
    return code
