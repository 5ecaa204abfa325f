"""Time limits of a model stream: for the first output, between outputs, for the whole; and the error for
each.
"""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from claw import ProviderError

if TYPE_CHECKING:
    from claw import ProviderConfig

_TAIL_SECONDS = 3.0
_NO_FIRST_OUTPUT = "the service did not start to answer within {n} s"
_NO_NEXT_OUTPUT = "the service stopped in the middle of its answer: no data for {n} s"
_NOT_FINISHED = "the service did not finish its answer within {n} s"


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """Timeouts of a model call, in seconds. Keep-alives do not count as output (``AnswerBuilder.received``).

    :param begin_seconds: for the first output, from the call on; for the whole of an answer that is not
        streamed.
    :param idle_seconds: between two outputs.
    :param total_seconds: for the end, from the call on.
    """

    begin_seconds: float = 600.0
    idle_seconds: float = 120.0
    total_seconds: float = 3600.0

    @classmethod
    def of(cls, settings: "ProviderConfig") -> "StreamTimeouts":
        """Read the timeouts of ``providers.NAME``."""
        return cls(settings.begin_timeout_seconds, settings.idle_timeout_seconds, settings.timeout_seconds)


class ReusableTimeout:
    """Reusable timeout: ``with alarm.at(when):`` raises ``TimeoutError`` if the wait inside is not over by
    then.

    ``asyncio.timeout_at`` creates and cancels a timer each time: 7 µs, a third of the cost of a streamed
    token. Here one timer checks, when it fires, if the deadline was moved meanwhile. For waits one after the
    other; ``close`` it at the end.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._when = self._cancels_before = 0.0
        self.fired = False

    def at(self, when: float) -> Self:
        """Set the deadline, in the loop's time."""
        self._when = when
        return self

    def within(self, seconds: float) -> Self:
        """Set the deadline, in seconds from now."""
        self._when = self._loop.time() + seconds
        return self

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer:
            self._timer.cancel()

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancels_before, self.fired = task.cancelling(), False
        if self._timer is None or self._timer.when() > self._when:
            self._schedule()

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self.fired and task is not None:
            still_cancelled = task.uncancel() > self._cancels_before
            if kind is asyncio.CancelledError and not still_cancelled:
                raise TimeoutError from why

    def _schedule(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._task is None:
            return  # nothing waits; the next wait schedules a timer again
        if self._when > self._loop.time():
            self._schedule()
        else:
            self.fired = True
            self._task.cancel()


class StreamDeadline:
    """The deadlines of one call: ``deadline`` is the time by which the next output must arrive."""

    def __init__(self, timeouts: StreamTimeouts) -> None:
        self._now, self._timeouts = asyncio.get_running_loop().time, timeouts
        self._begun, self._alarm = False, ReusableTimeout()
        self.start()

    def start(self) -> None:
        """Start the limits now: the call is about to be made."""
        began = self._now()
        self._end = began + self._timeouts.total_seconds
        self.deadline = min(began + self._timeouts.begin_seconds, self._end)

    def close(self) -> None:
        """Cancel the timer at the end of the call."""
        self._alarm.close()

    def output_received(self) -> None:
        """Note output of the model: the idle timeout starts again."""
        self._begun = True
        self.deadline = min(self._now() + self._timeouts.idle_seconds, self._end)

    def timeout(self, *, whole: bool = False) -> ReusableTimeout:
        """Return the timeout round a wait for the next piece; it is short when only usage figures can follow."""
        return self._alarm.at(min(self.deadline, self._now() + _TAIL_SECONDS) if whole else self.deadline)

    def timeout_error(self, service: str) -> ProviderError:
        """Return the error for the limit that was exceeded."""
        timeouts = self._timeouts
        if self.deadline >= self._end:
            seconds, words, key = timeouts.total_seconds, _NOT_FINISHED, "timeoutSeconds"
        elif self._begun:
            seconds, words, key = timeouts.idle_seconds, _NO_NEXT_OUTPUT, "idleTimeoutSeconds"
        else:
            seconds, words, key = timeouts.begin_seconds, _NO_FIRST_OUTPUT, "beginTimeoutSeconds"
        return ProviderError(
            words, fix="try again later, or wait longer: providers.{name}.{key}", reason="timeout", retryable=True,
            where=service, name=service.partition("/")[0], key=key, n=f"{seconds:g}",
        )  # fmt: skip
