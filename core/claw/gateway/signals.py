"""What the operator says to a running gateway by signals: stop, stop at once, read the config again."""

import asyncio
import os
import signal
import threading
from contextlib import suppress
from typing import Any

from claw.clock import SYSTEM

STOP_SECONDS = 15.0
"""From the first signal to the end of the process, whatever hangs; what was taken in is on disk."""


TOGETHER_SECONDS = 1.0
"""A second SIGTERM so soon is the first one said twice."""


class Signals:
    """Handlers that work also while the event loop is blocked; taken for the rest of the process's life.

    :param stop_seconds: after the first word the process is gone in so long at the latest.
    :ivar asked: how often it was told to stop.
    """

    def __init__(self, stop_seconds: float = STOP_SECONDS) -> None:
        self.asked, self._asked_at, self._stop_seconds = 0, 0.0, stop_seconds
        self._had_terminal = os.isatty(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop, self._reload = asyncio.Event(), asyncio.Event()

    def take(self) -> None:
        """From now on they come here. Call it from the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._again)

    def tell(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event, reload: asyncio.Event) -> None:
        """Set these events of ``loop``; what was said before is not lost."""
        self._stop, self._reload, self._loop = stop, reload, loop
        if self.asked:
            stop.set()

    def _end(self, number: int, frame: Any) -> None:
        now = SYSTEM.monotonic()
        if self.asked and number == signal.SIGTERM and now - self._asked_at < TOGETHER_SECONDS:
            return  # timeout(1) tells the process and its group: that is one word
        self.asked, self._asked_at = self.asked + 1, now
        if self.asked > 1:
            os._exit(128 + number)
        end_in(self._stop_seconds)
        self._set(self._stop)

    def _again(self, number: int, frame: Any) -> None:
        if self._had_terminal and not os.isatty(0):  # it was closed: nobody asked for the config to be read
            self._end(number, frame)
        else:
            self._set(self._reload)

    def _set(self, event: asyncio.Event) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(event.set)


def end_in(seconds: float, code: int = 0) -> None:
    """The process ends after so long at the latest, also when a thread of a stranger holds it."""
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
