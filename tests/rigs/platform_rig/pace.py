"""Rate limits, as the platforms document them.

Telegram (core.telegram.org/bots/faq, "My bot is hitting limits"): about 1 message a second in a chat with short bursts,
20 a minute in a group, 30 a second in all. Discord (docs/topics/rate-limits): 50 requests a second in all; the limit of
a route is in the headers of its responses, for messages 5 in 5 seconds and channel.
"""

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Window:
    """At most ``most`` events within ``seconds``."""

    most: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    times: deque[float] = field(default_factory=deque)

    def wait(self) -> float:
        """Return the seconds until one more event is allowed."""
        now = self.clock()
        while self.times and self.times[0] <= now - self.seconds:
            self.times.popleft()
        return 0.0 if len(self.times) < self.most else self.times[0] + self.seconds - now

    def count(self) -> None:
        """Count one event."""
        self.times.append(self.clock())


class TelegramPace:
    """The limits of one bot.

    :ivar refused: calls that were answered with 429.
    :ivar impatient: calls to a chat that came before the ``retry_after`` of its last 429 had passed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all = Window(30, 1.0, clock)
        self._private: dict[int, Window] = defaultdict(lambda: Window(3, 3.0, clock))
        self._groups: dict[int, Window] = defaultdict(lambda: Window(20, 60.0, clock))
        self._closed: dict[int, float] = {}
        self.refused = self.impatient = 0

    def retry_after(self, chat: int, *, is_new_message: bool) -> int:
        """Count a call; return 0, or the whole seconds of ``retry_after`` if it is refused."""
        now = self._clock()
        windows = [self._all]
        if is_new_message:
            windows.append((self._groups if chat < 0 else self._private)[chat])
        wait = max(window.wait() for window in windows)
        if wait <= 0:
            for window in windows:
                window.count()
            return 0
        self.refused += 1
        if now < self._closed.get(chat, 0) - 0.5:
            self.impatient += 1
        seconds = max(1, math.ceil(wait))
        self._closed[chat] = now + seconds
        return seconds


class DiscordPace:
    """The global limit, and the buckets of the message routes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._all = Window(50, 1.0, clock)
        self._routes: dict[str, Window] = defaultdict(lambda: Window(5, 5.0, clock))
        self._clock = clock
        self.refused = 0

    def ask(self, bucket: str) -> tuple[float, bool, dict[str, str]]:
        """Count a request.

        :return: seconds of ``retry_after`` (0 = allowed), true for the global limit, and the headers of the response.
        """
        route = self._routes[bucket]
        if (wait := self._all.wait()) > 0:
            self.refused += 1
            return wait, True, {"Retry-After": str(math.ceil(wait)), "X-RateLimit-Global": "true"}
        wait = route.wait()
        if wait <= 0:
            self._all.count()
            route.count()
        else:
            self.refused += 1
        reset = max(0.0, route.times[0] + route.seconds - self._clock()) if route.times else 0.0
        headers = {
            "X-RateLimit-Limit": str(route.most),
            "X-RateLimit-Remaining": str(max(0, route.most - len(route.times))),
            "X-RateLimit-Reset": f"{time.time() + reset:.3f}",
            "X-RateLimit-Reset-After": f"{reset:.3f}",
            "X-RateLimit-Bucket": bucket,
        }
        if wait > 0:
            headers |= {"Retry-After": str(math.ceil(wait)), "X-RateLimit-Scope": "user"}
        return max(0.0, wait), False, headers


class FeishuPace:
    """The limits of one app, a second: 50 calls of each method, 5 messages in a chat, 10 calls on a card.

    open.feishu.cn, "frequency control", the page of the send call, and "streaming cards".

    :ivar refused: calls that were refused.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._methods: dict[str, Window] = defaultdict(lambda: Window(50, 1.0, clock))
        self._chats: dict[str, Window] = defaultdict(lambda: Window(5, 1.0, clock))
        self._cards: dict[str, Window] = defaultdict(lambda: Window(10, 1.0, clock))
        self.refused = 0

    def call(self, method: str) -> int:
        """Count a call of a method; return 0, or the seconds after which it is allowed."""
        return self._wait(self._methods[method])

    def message(self, chat: str) -> int:
        """Count a message to a chat; return 0, or the seconds after which it is allowed."""
        return self._wait(self._chats[chat])

    def card(self, card: str) -> int:
        """Count a call on a card; return 0, or the seconds after which it is allowed."""
        return self._wait(self._cards[card])

    def _wait(self, window: Window) -> int:
        wait = window.wait()
        if wait <= 0:
            window.count()
            return 0
        self.refused += 1
        return max(1, math.ceil(wait))
