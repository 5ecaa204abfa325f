"""The waiting requests: each with its growing text, and its end."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from claw import Address, Outbound

ID_HEAD = "chatcmpl-"
"""Prefix of message ids, which are the ids of the completions."""
LATE_SECONDS = 1.0
"""Claw reports the end of a turn before it delivers the last text; after this time none is expected."""
SOON_SECONDS = 0.3
"""A text sent while no turn runs is the whole answer (a chat command), unless a turn begins within this
time.
"""


def more(before: str, block: str, text: str) -> str:
    """Return the text to append to ``before`` so that it ends with ``text``: a stream cannot retract text.

    :param before: all that was written.
    :param block: the last text in it, which ``text`` usually continues.
    """
    if text.startswith(block):
        return text[len(block) :]
    if text.startswith(before):
        return text[len(before) :]
    return f"\n\n{text}" if before.strip() else text


class PendingRequest:
    """One request and its growing answer.

    :param message_id: of the inbound message made from it.
    :ivar tokens: what the models read and wrote for it.
    :ivar stop_reason: why its answer ends: stop, length or content_filter.
    """

    def __init__(self, message_id: str, address: Address) -> None:
        self.message_id, self.address = message_id, address
        self.problem, self.stop_reason = "", "stop"
        self.tokens = (0, 0)
        self.turn_runs = self.turn_is_over = self.ended = False
        self._said: list[str] = []
        self._written = self._block = ""
        self._pieces: deque[str] = deque()
        self._news = asyncio.Event()

    @property
    def text(self) -> str:
        """All text so far, whole messages."""
        return "\n\n".join(self._said)

    @property
    def has_begun(self) -> bool:
        """True if a part of the answer is visible."""
        return bool(self._written)

    def show(self, text: str) -> None:
        """Show the answer so far."""
        if not self.ended and (piece := more(self._written, self._block, text)):
            self._written += piece
            self._pieces.append(piece)
            self._news.set()
        self._block = text

    def say(self, text: str) -> None:
        """Add a whole message: the answer, or an interim message of the agent."""
        if text and not self.ended:
            self._said.append(text)
            if not self._written.rstrip().endswith(text.rstrip()):  # otherwise it was streamed already
                self.show(text)
        if self.turn_is_over:
            self.end()
        elif not self.turn_runs:
            asyncio.get_running_loop().call_later(SOON_SECONDS, self._end_without_turn)

    def began(self) -> None:
        """Note that a turn runs: a message sent now is not yet the answer."""
        self.turn_runs = True

    def over(self) -> None:
        """Note the end of the turn: the next message is the last, and it comes at once or never."""
        self.turn_is_over = True
        asyncio.get_running_loop().call_later(LATE_SECONDS, self.end)

    def _end_without_turn(self) -> None:
        if not self.turn_runs:
            self.end()

    def end(self, problem: str = "") -> None:
        """End the answer."""
        if not self.ended:
            self.problem, self.ended = problem, True
            self._news.set()

    async def until_ended(self) -> None:
        """Wait for the whole answer."""
        while not self.ended:
            self._news.clear()
            await self._news.wait()

    async def pieces(self, quiet_seconds: float) -> AsyncIterator[str]:
        """Yield the answer in pieces; yield an empty one when nothing came for ``quiet_seconds``."""
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


class PendingRequests:
    """All waiting requests, in order of arrival."""

    def __init__(self) -> None:
        self._calls: dict[str, PendingRequest] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def open(self, message_id: str, address: Address) -> PendingRequest:
        """Add a request."""
        call = self._calls[message_id] = PendingRequest(message_id, address)
        return call

    def close(self, call: PendingRequest) -> None:
        """Remove a request that is answered or disconnected."""
        self._calls.pop(call.message_id, None)

    def of(self, outbound: Outbound) -> PendingRequest | None:
        """Return the request that waits for this message."""
        return self.at(outbound.address, outbound.answers or outbound.reply_to or "")

    def at(self, address: Address, message_id: str) -> PendingRequest | None:
        """Return the request with the id ``message_id``; for a foreign id, the oldest one at that address."""
        if message_id.startswith(ID_HEAD):
            return self._calls.get(message_id)
        waits = (call for call in self._calls.values() if call.address == address and not call.ended)
        return next(waits, None)

    def passed(self, call: PendingRequest) -> None:
        """End older requests at the same address: they have missed their answer (``interrupt``,
        ``/stop``).
        """
        for earlier in self._calls.values():
            if earlier is call:
                return
            if earlier.address == call.address and not earlier.turn_is_over:
                earlier.over()

    def end_all(self, problem: str) -> None:
        """End all requests when claw stops."""
        for call in self._calls.values():
            call.end(problem)
