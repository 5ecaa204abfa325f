"""The clock: the only place that asks what time it is, so that a test can say it instead."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Clock:
    """Two readings, both replaceable.

    :param now: seconds since 1970, UTC; it may jump.
    :param monotonic: seconds since some moment; it never goes back. For durations only.
    """

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC: what a record on disk carries."""
        return int(self.now() * 1000)


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds_in(text: str) -> float | None:
    """How long ``1h30m`` is, in seconds; None when it is no duration."""
    text = re.sub(r"\s", "", text.lower())
    pieces = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", text)
    if not pieces or text != "".join(number + unit for number, unit in pieces):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in pieces)


def instant(at: float) -> str:
    """A moment (seconds since 1970) in ISO 8601, UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def here(at: float, now: float) -> str:
    """A moment as people here say it: the time of day, and the day too when it is another one."""
    there, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now).date()
    return there.strftime("%H:%M" if there.date() == today else "%Y-%m-%d %H:%M")


SYSTEM = Clock()
DAY_SECONDS = 86_400.0


class Daily:
    """Something that is done at the first need and then once a day, however long the process lives."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._done: float | None = None

    def due(self) -> bool:
        """Whether it is to be done now; asked again, it is not."""
        now = self._clock.now()
        if self._done is not None and 0 <= now - self._done < DAY_SECONDS:
            return False
        self._done = now
        return True
