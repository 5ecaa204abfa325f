"""The end of a command that failed: a message on stderr and an exit code, never a traceback."""

import os
import signal
import sys
from dataclasses import dataclass
from typing import NoReturn

from claw import i18n
from claw.contracts.errors import ClawError
from claw.host import discovery


def exit_with(code: int) -> NoReturn:
    """End with ``code``. The reader of stdout may have left before (``| head``): that is no failure."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the interpreter's flush at exit
    sys.exit(code)


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
    if isinstance(why, ClawError):
        sys.stderr.write(f"claw: {_safe(str(why))}\n")
        return why.exit_code
    if type(why).__name__ == "Exit":
        return int(getattr(why, "exit_code", 0))
    show = getattr(why, "format_message", None)
    if show is not None:
        if message := show():  # without a command the help was shown, and there is nothing to add
            sys.stderr.write(f"claw: {_safe(message)}\n")
        return int(getattr(why, "exit_code", 2))
    if os.environ.get("CLAW_DEBUG"):
        import traceback

        traceback.print_exception(why)
    text = i18n.t(
        "internal error in claw ({kind}: {why}). This is a bug: please report it; CLAW_DEBUG=1 "
        "shows the traceback",
        kind=type(why).__name__,
        why=why,
    )
    sys.stderr.write(f"claw: {_safe(text)}\n")
    return 1


def _safe(text: str) -> str:
    from claw.security.redaction import redact

    return redact(text)
