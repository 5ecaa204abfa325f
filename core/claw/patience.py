"""How long a model call may take: to its first word, to the next one, to its end; and which of these is over."""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from claw.errors import ProviderError

if TYPE_CHECKING:
    from claw.config.settings import ProviderConfig

_TAIL_SECONDS = 3.0
_NOT_BEGUN = "the service did not begin to answer within {n} s"
_STOPPED = "the service stopped in the middle of its answer: no word for {n} s"
_NOT_DONE = "the service was not done with its answer within {n} s"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds. Keep-alives of any kind (``Fold.heard``) count for nothing.

    :param begin_seconds: for the first word, from the call on; for the whole of an answer that is not streamed.
    :param idle_seconds: from word to word.
    :param total_seconds: for the end, from the call on.
    """

    begin_seconds: float = 600.0
    idle_seconds: float = 120.0
    total_seconds: float = 3600.0

    @classmethod
    def of(cls, settings: "ProviderConfig") -> "Patience":
        """As ``providers.NAME`` says."""
        return cls(settings.begin_timeout_seconds, settings.idle_timeout_seconds, settings.timeout_seconds)


class Alarm:
    """``with alarm.at(when):`` raises ``TimeoutError`` when the wait inside is not over by then; again and again.

    As ``asyncio.timeout_at``, which makes and cancels a timer each time: 7 µs, a third of what a word of a stream costs.
    Here one timer looks, when it rings, whether it was moved on meanwhile. For waits one after the other; ``close`` it.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._when = self._cancels = 0.0
        self.rang = False

    def at(self, when: float) -> Self:
        """Until when, in the loop's time."""
        self._when = when
        return self

    def within(self, seconds: float) -> Self:
        """For how long, from now on."""
        self._when = self._loop.time() + seconds
        return self

    def close(self) -> None:
        """Nothing is waited for any more."""
        if self._timer:
            self._timer.cancel()

    def __enter__(self) -> None:
        self._task = task = asyncio.current_task()
        assert task is not None
        self._cancels, self.rang = task.cancelling(), False
        if self._timer is None or self._timer.when() > self._when:
            self._set()

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        if self.rang and task is not None:
            still_cancelled = task.uncancel() > self._cancels
            if kind is asyncio.CancelledError and not still_cancelled:
                raise TimeoutError from why

    def _set(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._when, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._task is None:
            return  # nobody waits; who does next sets it again
        if self._when > self._loop.time():
            self._set()
        else:
            self.rang = True
            self._task.cancel()


class Watch:
    """The time of one call: until when the next word must be here."""

    def __init__(self, patience: Patience) -> None:
        self._now, self._patience = asyncio.get_running_loop().time, patience
        began = self._now()
        self._end = began + patience.total_seconds
        self.until = min(began + patience.begin_seconds, self._end)
        self._begun, self._alarm = False, Alarm()

    def close(self) -> None:
        """The call is over."""
        self._alarm.close()

    def heard(self) -> None:
        """Something was said: the next word may take its time again."""
        self._begun = True
        self.until = min(self._now() + self._patience.idle_seconds, self._end)

    def waiting(self, *, whole: bool = False) -> Alarm:
        """Round a wait for the next piece; not for long when only figures can follow."""
        return self._alarm.at(min(self.until, self._now() + _TAIL_SECONDS) if whole else self.until)

    def late(self, service: str) -> ProviderError:
        """The error for the limit that is over."""
        patience = self._patience
        if self.until >= self._end:
            seconds, words, key = patience.total_seconds, _NOT_DONE, "timeoutSeconds"
        elif self._begun:
            seconds, words, key = patience.idle_seconds, _STOPPED, "idleTimeoutSeconds"
        else:
            seconds, words, key = patience.begin_seconds, _NOT_BEGUN, "beginTimeoutSeconds"
        return ProviderError(
            words, fix="try again later, or wait longer: providers.{name}.{key}", reason="timeout", retryable=True,
            where=service, name=service.partition("/")[0], key=key, n=f"{seconds:g}",
        )  # fmt: skip
