"""Session queues: one turn at a time in each session, in order; a later message may steer the running one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
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


@dataclass
class SessionLock:
    """The turn lock of one session.

    :param turns: how many run or wait; the entry is deleted when it is 0.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    turns: int = 0


class SessionQueues:
    """The queues of all sessions."""

    def __init__(self) -> None:
        self._sessions: dict[str, SessionLock] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[SteeringQueue]:
        """Wait for the earlier turns of this session; the block is the turn.

        A turn closes its queue after its last model call; that returns the messages that came after its last look, for
        the next turn. Leaving the block closes the queue too.
        """
        session = self._sessions.setdefault(key, SessionLock())
        session.turns += 1
        try:
            async with session.lock:
                steering = SteeringQueue()
                try:
                    yield steering
                finally:
                    steering.open = False
        finally:
            session.turns -= 1
            if not session.turns:
                del self._sessions[key]
