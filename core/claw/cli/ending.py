"""How a command ends that did not go well: in words on stderr, with an exit code, never with a traceback."""

import os
import sys
from typing import NoReturn

from claw import survey, words
from claw.errors import ClawError


def leave(code: int) -> NoReturn:
    """End with ``code``. Who read stdout may have left before (``| head``): that is no failure of ours."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the very end
    sys.exit(code)


def tell(why: BaseException) -> int:
    """Say what went wrong on stderr; the exit code."""
    if isinstance(why, BrokenPipeError) or isinstance(why.__context__, BrokenPipeError):
        return 0
    if isinstance(why, SystemExit):
        return why.code if isinstance(why.code, int) else 1
    survey.speak(os.environ)
    if isinstance(why, KeyboardInterrupt) or type(why).__name__ == "Abort":
        sys.stderr.write(f"\nclaw: {words.say('stopped')}\n")
        return 130
    if hasattr(why, "format_message"):
        from claw.cli.misuse import told

        why = told(why) or why
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
    text = words.say(
        "something broke inside claw ({kind}: {why}). It is a fault of ours: please report it; CLAW_DEBUG=1 shows where",
        kind=type(why).__name__,
        why=why,
    )
    sys.stderr.write(f"claw: {_safe(text)}\n")
    return 1


def _safe(text: str) -> str:
    from claw.guard.redact import redact

    return redact(text)
