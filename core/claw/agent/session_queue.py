"""Session queues: one turn at a time in each session, in order."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SessionQueues:
    """The queues of all sessions: a lock for each session, and how many turns hold it or wait for it."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._turns: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for the earlier turns of this session; the block is the turn."""
        self._turns[key] += 1
        try:
            async with self._locks[key]:
                yield
        finally:
            self._turns[key] -= 1
            if not self._turns[key]:
                del self._locks[key], self._turns[key]
