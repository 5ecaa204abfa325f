"""Signals from the operator to a running gateway: stop, stop at once, read the config again."""

import asyncio
import os
import posix
import signal
import threading
import time
from contextlib import suppress
from typing import Any

from claw.runtime import SYSTEM_CLOCK, TERMINATION

STOP_SECONDS = 15.0
"""Time from the first signal to the end of the process, whatever hangs; received messages are on disk."""
_ALARM_SECONDS = 2.0
"""The system ends the process so much later, if a library keeps Python from running."""


DUPLICATE_SECONDS = 1.0
"""A second SIGTERM within this time is the first one sent twice."""


class SignalHandlers:
    """Signal handlers that work also while the event loop is blocked; installed for the rest of the process's
    life.

    :param stop_seconds: the longest time from the first signal to the end of the process.
    :ivar asked: the number of stop signals so far.
    """

    def __init__(self, stop_seconds: float = STOP_SECONDS) -> None:
        self.stop_count, self._asked_at, self._stop_seconds = 0, 0.0, stop_seconds
        self._had_terminal = os.isatty(0)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop, self._reload = asyncio.Event(), asyncio.Event()

    def install(self) -> None:
        """Install the handlers. Call it from the main thread.

        A thread ends the process in time although the main thread is in a library that does not return, so that no
        handler runs, or although no thread can be started by then.

        A signal that came while claw was imported counts too: Python drops the exception of a handler that runs inside
        a callback of an import lock.
        """
        with suppress(RuntimeError, OSError):
            reading, writing = os.pipe()
            os.set_blocking(writing, False)
            thread = threading.Thread(target=_end_in_time, args=(reading, self._stop_seconds), daemon=True)
            thread.start()
            signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # written to before any handler runs
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_hangup)
        if TERMINATION.signal:
            self._on_stop(TERMINATION.signal, None)

    def connect(self, loop: asyncio.AbstractEventLoop, stop: asyncio.Event, reload: asyncio.Event) -> None:
        """Set these events of ``loop`` on a signal; a signal that came before counts too."""
        self._stop, self._reload, self._loop = stop, reload, loop
        if self.stop_count:
            stop.set()

    def _on_stop(self, number: int, frame: Any) -> None:
        now = SYSTEM_CLOCK.monotonic()
        if self.stop_count and number == signal.SIGTERM and now - self._asked_at < DUPLICATE_SECONDS:
            return  # timeout(1) signals the process and its group: that is one request
        self.stop_count, self._asked_at = self.stop_count + 1, now
        if self.stop_count > 1:
            posix._exit(
                128 + number
            )  # not os._exit: an exit of claw itself is no crash of a plugin that loads
        self._set(self._stop)
        if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
            signal.setitimer(signal.ITIMER_REAL, self._stop_seconds + _ALARM_SECONDS)
        with suppress(RuntimeError):  # no further thread can be started
            exit_after(self._stop_seconds)

    def _on_hangup(self, number: int, frame: Any) -> None:
        if self._had_terminal and not os.isatty(
            0
        ):  # the terminal was closed: this signal is no request for a reload
            self._on_stop(number, frame)
        else:
            self._set(self._reload)

    def _set(self, event: asyncio.Event) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(event.set)


def _end_in_time(wakeup_fd: int, seconds: float) -> None:
    """Wait until a stop signal is written to a descriptor, and end the process so many seconds later."""
    while not {signal.SIGTERM, signal.SIGINT}.intersection(os.read(wakeup_fd, 64)):
        continue
    time.sleep(seconds)
    posix._exit(0)


def exit_after(seconds: float, code: int = 0) -> None:
    """End the process after ``seconds`` at the latest, also when a plugin's thread blocks it."""
    timer = threading.Timer(seconds, posix._exit, (code,))
    timer.daemon = True
    timer.start()
