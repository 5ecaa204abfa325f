"""Session queues: one turn at a time in each session, in order; a later message may steer the running one."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

MAIN, SUBAGENT, CLOCK = "main", "subagents", "clock"
"""The kinds of turns; each has its own limit, so that many turns of one kind do not block the others."""


class SteeringQueue:
    """The steering queue of a running turn: messages that wait for its next batch boundary.

    ``open`` is False once the turn accepts no more; messages still in the queue can be taken.
    """

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self.open = True

    def put(self, message: Any) -> bool:
        """Add a message; return False when the turn accepts no more."""
        if self.open:
            self._waiting.append(message)
        return self.open

    def take(self) -> list[Any]:
        """Remove and return everything that waits, oldest first."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def close(self) -> list[Any]:
        """Close the queue and return what is left; a later message gets a turn of its own."""
        self.open = False
        return self.take()


@dataclass
class SessionLock:
    """The turn lock of one session.

    :param turns: how many run or wait; the entry is deleted when it is 0.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    turns: int = 0


class ConcurrencyLimit:
    """The limit of concurrent turns of one kind; those that wait begin in their order.

    :ivar most: 0 = no limit.
    """

    def __init__(self, most: int = 0) -> None:
        self.limit, self._running = most, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        begun = asyncio.get_running_loop().create_future()
        self._waiting.append(begun)
        self.admit_waiting()
        try:
            await begun
        except asyncio.CancelledError:
            if not begun.cancelled():  # it was admitted at the same moment
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._running -= 1
        self.admit_waiting()

    def admit_waiting(self) -> None:
        """Admit waiting turns up to the limit."""
        while self._waiting and (not self.limit or self._running < self.limit):
            begun = self._waiting.popleft()
            if not begun.done():
                self._running += 1
                begun.set_result(None)


class SessionQueues:
    """The queues of all sessions.

    :param widths: limits of concurrent turns by kind, over all sessions; 0 or absent = no limit.
    """

    def __init__(self, widths: Mapping[str, int] | None = None) -> None:
        self._sessions: dict[str, SessionLock] = {}
        self._limits = {kind: ConcurrencyLimit() for kind in (MAIN, SUBAGENT, CLOCK)}
        self.set_limits(widths or {})

    def set_limits(self, widths: Mapping[str, int]) -> None:
        """Set other limits; running turns are not stopped."""
        for kind, limit in self._limits.items():
            limit.limit = widths.get(kind, 0)
            limit.admit_waiting()

    def __len__(self) -> int:
        return len(self._sessions)

    @asynccontextmanager
    async def turn(self, key: str, kind: str = MAIN) -> AsyncIterator[SteeringQueue]:
        """Wait for the earlier turns of this session, and for the limit of the kind; the block is the turn.

        A turn calls ``mailbox.shut()`` after its last model call; that returns the messages that came after
        its last look, for the next turn. Leaving the block closes the queue too.
        """
        session = self._sessions.setdefault(key, SessionLock())
        session.turns += 1
        try:
            async with session.lock, self._limits[kind]:
                steering = SteeringQueue()
                try:
                    yield steering
                finally:
                    steering.open = False
        finally:
            session.turns -= 1
            if not session.turns:
                del self._sessions[key]
