"""Lanes: one turn at a time in each session, in the order they came; a later message may steer the running one."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

MAIN, SUBAGENT, CLOCK = "main", "subagents", "clock"
"""The kinds of lanes; each has a width of its own, so that a flood of one kind leaves room for the others."""


class Mailbox:
    """Where messages for a running turn wait for its next batch boundary.

    ``open`` is False once the turn takes no more; what still lies in it can be taken.
    """

    def __init__(self) -> None:
        self._waiting: list[Any] = []
        self.open = True

    def put(self, message: Any) -> bool:
        """Leave a message; False when the turn takes no more."""
        if self.open:
            self._waiting.append(message)
        return self.open

    def take(self) -> list[Any]:
        """Everything that waits, oldest first; it is gone then."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def shut(self) -> list[Any]:
        """The last ``take``: what is put from now on is refused, so that it gets a turn of its own."""
        self.open = False
        return self.take()


@dataclass
class Lane:
    """The queue of one session.

    :param turns: how many run or wait; the lane goes when it is 0.
    """

    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    turns: int = 0


class Width:
    """How many turns of one kind run at once; those that wait begin in their order.

    :ivar most: 0 = as many as there are.
    """

    def __init__(self, most: int = 0) -> None:
        self.most, self._running = most, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        begun = asyncio.get_running_loop().create_future()
        self._waiting.append(begun)
        self.begin()
        try:
            await begun
        except asyncio.CancelledError:
            if not begun.cancelled():  # it was let in at the same moment
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._running -= 1
        self.begin()

    def begin(self) -> None:
        """Let those in for whom there is room."""
        while self._waiting and (not self.most or self._running < self.most):
            begun = self._waiting.popleft()
            if not begun.done():
                self._running += 1
                begun.set_result(None)


class Lanes:
    """All lanes of the house.

    :param widths: how many turns of each kind may run at once over all sessions; 0 and no word = no limit.
    """

    def __init__(self, widths: Mapping[str, int] | None = None) -> None:
        self._lanes: dict[str, Lane] = {}
        self._rooms = {kind: Width() for kind in (MAIN, SUBAGENT, CLOCK)}
        self.widen(widths or {})

    def widen(self, widths: Mapping[str, int]) -> None:
        """Other widths from now on; no turn that runs is stopped."""
        for kind, room in self._rooms.items():
            room.most = widths.get(kind, 0)
            room.begin()

    def __len__(self) -> int:
        return len(self._lanes)

    @asynccontextmanager
    async def turn(self, key: str, kind: str = MAIN) -> AsyncIterator[Mailbox]:
        """Wait for this session's earlier turns, and for room in the house; the block is the turn.

        A turn that ends takes ``mailbox.shut()`` once it asks the model no more; what came after its last look
        and before that is in there, for the next turn. Leaving the block shuts the mailbox too.
        """
        lane = self._lanes.setdefault(key, Lane())
        lane.turns += 1
        try:
            async with lane.gate, self._rooms[kind]:
                mailbox = Mailbox()
                try:
                    yield mailbox
                finally:
                    mailbox.open = False
        finally:
            lane.turns -= 1
            if not lane.turns:
                del self._lanes[key]
