"""The callers who wait: each with the text that grows for him, and its end."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from claw import Address, Outbound

ID_HEAD = "chatcmpl-"
"""What the ids of our messages begin with: they are the ids of the completions."""
LATE_SECONDS = 1.0
"""The house says that a turn is over before it hands out the last text; when none has come then, there is none."""
SOON_SECONDS = 0.3
"""What is said while no turn runs is the whole answer (a chat command), unless a turn begins at once."""


def more(before: str, block: str, text: str) -> str:
    """What to write behind ``before`` so that ``text`` stands there: a stream takes nothing back.

    :param before: all that was written.
    :param block: the last text in it, which ``text`` usually goes on with.
    """
    if text.startswith(block):
        return text[len(block) :]
    if text.startswith(before):
        return text[len(before) :]
    return f"\n\n{text}" if before.strip() else text


class Call:
    """One request and the answer that is coming.

    :param message_id: of the inbound that it became.
    :ivar tokens: what the models read and wrote for it.
    """

    def __init__(self, message_id: str, address: Address) -> None:
        self.message_id, self.address = message_id, address
        self.problem = ""
        self.tokens = (0, 0)
        self.turn_runs = self.turn_is_over = self.ended = False
        self._said: list[str] = []
        self._written = self._block = ""
        self._pieces: deque[str] = deque()
        self._news = asyncio.Event()

    @property
    def text(self) -> str:
        """All that was said, whole messages."""
        return "\n\n".join(self._said)

    @property
    def has_begun(self) -> bool:
        """Whether any of the answer can be seen."""
        return bool(self._written)

    def show(self, text: str) -> None:
        """The answer so far."""
        if not self.ended and (piece := more(self._written, self._block, text)):
            self._written += piece
            self._pieces.append(piece)
            self._news.set()
        self._block = text

    def say(self, text: str) -> None:
        """A whole message: the answer, or a word of the agent before it."""
        if text and not self.ended:
            self._said.append(text)
            if not self._written.rstrip().endswith(text.rstrip()):  # else it stands there already
                self.show(text)
        if self.turn_is_over:
            self.end()
        elif not self.turn_runs:
            asyncio.get_running_loop().call_later(SOON_SECONDS, self._end_without_turn)

    def began(self) -> None:
        """A turn runs for it: what is said now is not yet the answer."""
        self.turn_runs = True

    def over(self) -> None:
        """The turn is over: the next message is the last, and it comes at once or never."""
        self.turn_is_over = True
        asyncio.get_running_loop().call_later(LATE_SECONDS, self.end)

    def _end_without_turn(self) -> None:
        if not self.turn_runs:
            self.end()

    def end(self, problem: str = "") -> None:
        """Nothing more will come."""
        if not self.ended:
            self.problem, self.ended = problem, True
            self._news.set()

    async def until_ended(self) -> None:
        """Wait for the whole answer."""
        while not self.ended:
            self._news.clear()
            await self._news.wait()

    async def pieces(self, quiet_seconds: float) -> AsyncIterator[str]:
        """The answer piece by piece; an empty one whenever nothing came for so long."""
        while True:
            while self._pieces:
                yield self._pieces.popleft()
            if self.ended:
                return
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), quiet_seconds)
            except TimeoutError:
                yield ""


class Waiting:
    """All who wait, in order of arrival."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def open(self, message_id: str, address: Address) -> Call:
        """A new one."""
        call = self._calls[message_id] = Call(message_id, address)
        return call

    def close(self, call: Call) -> None:
        """He has his answer, or has left."""
        self._calls.pop(call.message_id, None)

    def of(self, outbound: Outbound) -> Call | None:
        """Who waits for this."""
        return self.at(outbound.address, outbound.answers or outbound.reply_to or "")

    def at(self, address: Address, message_id: str) -> Call | None:
        """Who waits for what answers ``message_id``; when that is none of our ids, who waits longest in that place."""
        if message_id.startswith(ID_HEAD):
            return self._calls.get(message_id)
        waits = (call for call in self._calls.values() if call.address == address and not call.ended)
        return next(waits, None)

    def passed(self, call: Call) -> None:
        """It has its answer: who came before it in the same place has missed his own (``interrupt``, ``/stop``)."""
        for earlier in self._calls.values():
            if earlier is call:
                return
            if earlier.address == call.address and not earlier.turn_is_over:
                earlier.over()

    def end_all(self, problem: str) -> None:
        """The house stops."""
        for call in self._calls.values():
            call.end(problem)
