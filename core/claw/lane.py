"""Lanes: one turn at a time in each session, in the order they came; a later message may steer the running one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field

WIDTH = 4  # turns at once in the whole house, as in the seeds' main lane


class Mailbox:
    """Where texts for a running turn wait for its next batch boundary.

    ``open`` is False once the turn takes no more; what still lies in it can be taken.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []
        self.open = True

    def put(self, text: str) -> bool:
        """Leave a text; False when the turn takes no more."""
        if self.open:
            self._texts.append(text)
        return self.open

    def take(self) -> list[str]:
        """Everything that waits, oldest first; it is gone then."""
        texts, self._texts = self._texts, []
        return texts

    def shut(self) -> list[str]:
        """The last ``take``: what is put from now on is refused, so that it gets a turn of its own."""
        self.open = False
        return self.take()


@dataclass
class Lane:
    """The queue of one session.

    :param turns: how many run or wait; the lane goes when it is 0.
    :param running: the mailbox of the turn that runs, if one does.
    """

    gate: asyncio.Lock = field(default_factory=asyncio.Lock)
    turns: int = 0
    running: Mailbox | None = None


class Lanes:
    """All lanes of the house.

    :param width: how many turns may run at once over all sessions; None for no limit.
    """

    def __init__(self, width: int | None = WIDTH) -> None:
        self._lanes: dict[str, Lane] = {}
        self._room: asyncio.Semaphore | nullcontext[None] = (
            asyncio.Semaphore(width) if width else nullcontext()
        )

    def __len__(self) -> int:
        return len(self._lanes)

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[Mailbox]:
        """Wait for this session's earlier turns, and for room in the house; the block is the turn.

        A turn that ends takes ``mailbox.shut()`` once it asks the model no more; texts that came after its last look
        and before that are in there, for the next turn. Leaving the block shuts the mailbox too.
        """
        lane = self._lanes.setdefault(key, Lane())
        lane.turns += 1
        try:
            async with lane.gate, self._room:
                lane.running = mailbox = Mailbox()
                try:
                    yield mailbox
                finally:
                    lane.running = None
                    mailbox.open = False
        finally:
            lane.turns -= 1
            if not lane.turns:
                del self._lanes[key]

    def steer(self, key: str, text: str) -> bool:
        """Put a text before the running turn of this session; False when none runs that could still take it."""
        lane = self._lanes.get(key)
        return bool(lane and lane.running and lane.running.put(text))

    def busy(self, key: str) -> bool:
        """Whether a turn of this session runs or waits."""
        return key in self._lanes
