"""The calls that a bot may make: in all, in one chat, in one group; and the chat whose call is next. Pure decisions.

https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this: at most one message a second in a chat,
with short bursts, 20 a minute in a group, about 30 a second in all.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

CallKind = Literal["post", "edit", "sign"]
"""``post`` = a new message, ``edit`` = another text of one, ``sign`` = all else that names a chat: typing, a reaction."""

_REFUSALS_FOR_ALL, _REFUSALS_SECONDS = 3, 1.0
"""So many chats refused within a second: the limit of the whole bot is used up, which the response does not say."""
_MOST_IDLE = 1000  # chats without a recent call that are remembered


@dataclass(frozen=True, slots=True)
class Limit:
    """At most ``calls`` within ``seconds``; ``spare`` of them are kept for calls that must not be skipped."""

    calls: int
    seconds: float
    spare: int


BOT = Limit(30, 1.0, 10)
CHAT = Limit(3, 3.0, 1)
GROUP = Limit(20, 60.0, 5)
"""The limits of Telegram; of a chat, as bursts of three."""


@dataclass(slots=True)
class _Window:
    """The calls that count towards a limit: those without a response yet, and those of the last ``limit.seconds``.

    A call counts from its response on, as the service may have received it at any moment before: so the limit holds for
    the times at which the calls arrive, however long each of them is on its way.

    :ivar times: of responses, in order; ``running`` = calls without one.
    """

    limit: Limit
    times: deque[float] = field(default_factory=deque)
    running: int = 0

    def wait(self, now: float, spare: int = 0) -> float:
        """Return the seconds until one more call is within the limit, with ``spare`` calls left.

        It is a lower bound while calls are running that may take longer.
        """
        while self.times and self.times[0] <= now - self.limit.seconds:
            self.times.popleft()
        surplus = self.running + len(self.times) - (self.limit.calls - spare)
        if surplus < 0:
            return 0.0
        return (
            self.times[surplus] + self.limit.seconds - now
            if surplus < len(self.times)
            else self.limit.seconds
        )


@dataclass(eq=False, slots=True)
class CountedCall:
    """A call that was allowed: the windows in which it counts, and the time since when; None = it is running."""

    windows: list[_Window]
    at: float | None

    def start(self) -> None:
        """Note that the call is made now."""
        for window in self.windows:
            if self.at is not None and self.at in window.times:
                window.times.remove(self.at)
            window.running += 1
        self.at = None

    def end(self, now: float) -> None:
        """Note that its response is there, or that there will be none."""
        for window in self.windows:
            window.running -= 1
            window.times.append(now)
        self.at = now


@dataclass(slots=True)
class _Chat:
    """The calls to one chat; ``served`` = the number of its newest call, ``closed`` = the end of its pause."""

    posts: _Window
    minute: _Window
    served: int = 0
    closed: float = 0.0


def is_group(chat: str) -> bool:
    """Return true if the id is one of a group or a channel."""
    return chat.startswith(("-", "@"))


class CallBudget:
    """The calls of one bot. Time is given to each method, in seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._all = _Window(BOT)
        self._chats: dict[str, _Chat] = {}
        self._closed = 0.0
        self._refusals: deque[tuple[float, str]] = deque()
        self._count = 0

    def wait(self, chat: str, kind: CallKind, now: float, *, optional: bool = False) -> float:
        """Return the seconds until this call is allowed; 0 = now.

        :param optional: the call may be skipped, so it leaves a part of each limit to the others.
        """
        known = self._chats.get(chat)
        waits = [self._closed - now, self._all.wait(now, BOT.spare * optional)]
        if known is not None:
            waits.append(known.closed - now)
            waits += [
                window.wait(now, window.limit.spare * optional) for window in _counting(known, chat, kind)
            ]
        return max(0.0, *waits)

    def count(self, chat: str, kind: CallKind, now: float) -> CountedCall:
        """Count a call that is allowed now; start and end it when it is made."""
        self._count += 1
        known = self._known(chat, now)
        known.served = self._count
        call = CountedCall([self._all, *_counting(known, chat, kind)], now)
        for window in call.windows:
            window.times.append(now)
        return call

    def record_refusal(self, chat: str, seconds: float, now: float) -> None:
        """Close a chat for the time that a 429 names; close all when several chats are refused at a time."""
        known = self._known(chat, now)
        known.closed = max(known.closed, now + seconds)
        self._refusals.append((now, chat))
        while self._refusals[0][0] < now - _REFUSALS_SECONDS:
            self._refusals.popleft()
        if len({one for _, one in self._refusals}) >= _REFUSALS_FOR_ALL:
            self._closed = max(self._closed, now + seconds)

    def next_chat(self, waiting: Mapping[str, CallKind], now: float) -> tuple[str | None, float]:
        """Return the chat whose waiting call is next, and 0; or None and the seconds until one is allowed.

        Of those that are allowed it is the one that has waited longest since its last call.

        :param waiting: by chat, the kind of its first waiting call; in the order of their arrival, not empty.
        """
        if (wait := max(self._closed - now, self._all.wait(now))) > 0:
            return None, wait
        waits = {chat: self.wait(chat, kind, now) for chat, kind in waiting.items()}
        least = min(waits.values())
        if least > 0:
            return None, least
        return min((chat for chat, wait in waits.items() if wait <= 0), key=self._served), 0.0

    def _served(self, chat: str) -> int:
        known = self._chats.get(chat)
        return known.served if known else 0

    def _known(self, chat: str, now: float) -> _Chat:
        if chat not in self._chats:
            if len(self._chats) >= _MOST_IDLE:
                self._chats = {id: one for id, one in self._chats.items() if _is_recent(one, now)}
            self._chats[chat] = _Chat(_Window(CHAT), _Window(GROUP))
        return self._chats[chat]


def _counting(known: _Chat, chat: str, kind: CallKind) -> list[_Window]:
    """Return the windows of a chat in which a call of this kind counts."""
    posts = [known.posts] if kind == "post" else []
    return posts + ([known.minute] if kind != "sign" and is_group(chat) else [])


def _is_recent(known: _Chat, now: float) -> bool:
    windows = (known.posts, known.minute)
    newest = max((window.times[-1] for window in windows if window.times), default=0.0)
    return any(one.running for one in windows) or known.closed > now or newest > now - GROUP.seconds
