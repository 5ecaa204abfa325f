"""The clock: the only module that reads the time, so that a test can replace it."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


@dataclass(frozen=True)
class Clock:
    """The time sources, both replaceable.

    :param now: seconds since 1970, UTC; it may jump.
    :param monotonic: seconds since an arbitrary moment; it never goes back. For durations only.
    """

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic

    def now_ms(self) -> int:
        """Return milliseconds since 1970, UTC, the form of records on disk."""
        return int(self.now() * 1000)


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def parse_duration(text: str) -> float | None:
    """Return the seconds of a duration such as ``1h30m``; None when it is no duration."""
    text = re.sub(r"\s", "", text.lower())
    pieces = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", text)
    if not pieces or text != "".join(number + unit for number, unit in pieces):
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in pieces)


def iso_time(at: float) -> str:
    """Format a moment (seconds since 1970) in ISO 8601, UTC, to the millisecond."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@cache
def zone_of(name: str | None) -> tzinfo | None:
    """Return the time zone of that name; None = this machine's, also for an unknown name."""
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        return None


SYSTEM_CLOCK = Clock()
