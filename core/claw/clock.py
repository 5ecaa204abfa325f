"""The clock: the only place that asks what time it is, so that a test can say it instead."""

import time
from collections.abc import Callable
from dataclasses import dataclass


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


SYSTEM = Clock()
