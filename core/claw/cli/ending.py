"""How a command ends that did not go well: in words on stderr, with an exit code, never with a traceback."""

import os
import sys

from claw import words
from claw.errors import ClawError


def tell(why: BaseException) -> int:
    """Say what went wrong on stderr; the exit code."""
    if isinstance(why, SystemExit):
        return why.code if isinstance(why.code, int) else 1
    if isinstance(why, KeyboardInterrupt) or type(why).__name__ == "Abort":
        sys.stderr.write("\n")
        return 130
    if isinstance(why, ClawError):
        sys.stderr.write(f"claw: {_safe(str(why))}\n")
        return why.exit_code
    if isinstance(why, BrokenPipeError):
        sys.stderr.close()
        return 0
    if type(why).__name__ == "Exit":
        return int(getattr(why, "exit_code", 0))
    show = getattr(why, "format_message", None)
    if show is not None:
        sys.stderr.write(f"claw: {_safe(show())}\n")
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
