"""Times that a person types or reads, and work that is due once a day."""

from datetime import datetime

from claw import UsageError
from claw.runtime import SYSTEM_CLOCK, Clock, parse_duration


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


class DailyTask:
    """A task that is due at the first check and then once a day, however long the process lives."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._done: float | None = None

    def due(self) -> bool:
        """Return true if the task is due, and count it as done."""
        now = self._clock.now()
        if self._done is not None and 0 <= now - self._done < 86_400:
            return False
        self._done = now
        return True
