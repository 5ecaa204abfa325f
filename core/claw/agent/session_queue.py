"""Session queues: one turn at a time in each session, in order; a later message may steer the running one."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any


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


class SessionQueues:
    """The queues of all sessions: a lock for each session, and how many turns hold it or wait for it."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turns: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[SteeringQueue]:
        """Wait for the earlier turns of this session; the block is the turn.

        A turn closes its queue after its last model call; that returns the messages that came after its last look, for
        the next turn. Leaving the block closes the queue too.
        """
        self._turns[key] += 1
        try:
            async with self._locks[key]:
                steering = SteeringQueue()
                try:
                    yield steering
                finally:
                    steering.open = False
        finally:
            self._turns[key] -= 1
            if not self._turns[key]:
                del self._locks[key], self._turns[key]
