"""Times that a person types or reads: a moment, or how long ago."""

from datetime import datetime

from claw import UsageError
from claw.runtime import parse_duration


def parse_time(text: str, now: float) -> float:
    """Parse ``10m`` (ago), or a time in ISO form, into seconds since 1970.

    :raises UsageError: it is neither.
    """
    if (ago := parse_duration(text)) is not None:
        return now - ago
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except ValueError:
        problem, fix = "{text} is neither a time nor a duration", "Write 10m, 2h, 1d, or 2026-03-01T12:00"
        raise UsageError(problem, where="--since", fix=fix, text=text) from None


def local_time(at: float, now: float) -> str:
    """Format a moment in local time: the time of day, and the date when it is not today."""
    there, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now).date()
    return there.strftime("%H:%M" if there.date() == today else "%Y-%m-%d %H:%M")
