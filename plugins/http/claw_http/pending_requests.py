"""The waiting requests: each with its growing text, and its end."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from math import inf

from claw import Address, Outbound
from claw_channel_sdk import MessageFate

from claw_http.failures import BadRequest, failed_turn, no_answer, still_running

CHAT_HEAD, RESPONSE_HEAD = "chatcmpl-", "resp_"
ID_HEADS = (CHAT_HEAD, RESPONSE_HEAD)
"""Prefixes of message ids, which are the ids of completions and responses."""
LATE_SECONDS = 1.0
"""Claw reports the end of a turn before it delivers the last text; after this time the journal is read."""
SOON_SECONDS = 0.3
"""A text sent while no turn runs is the whole answer (a chat command), unless a turn begins within this
time.
"""
MAX_KEPT = 4096
"""Maximum number of requests without a caller whose turn runs on."""


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
    """One request and its growing answer, for any number of callers.

    :param message_id: of the inbound message made from it; ``event_id`` too.
    :ivar callers: the number of those who wait.
    :ivar failure: why there is no answer.
    :ivar refusal: the text of a model that refused to answer.
    :ivar tokens: what the models read and wrote for it.
    :ivar stop_reason: why its answer ends: stop, length or content_filter.
    :ivar read_fate: called when it ends without its last message: reads its end from the journal into it.
    :ivar on_end: functions that are called once, when it has ended.
    """

    def __init__(self, message_id: str, event_id: str, address: Address) -> None:
        self.message_id, self.event_id, self.address = message_id, event_id, address
        self.callers, self.stop_reason, self.refusal = 0, "stop", ""
        self.failure: BadRequest | None = None
        self.tokens = (0, 0)
        self.turn_runs = self.turn_is_over = self.ended = False
        self.read_fate: Callable[[PendingRequest], None] = lambda call: None
        self.on_end: list[Callable[[], None]] = []
        self._is_ending = False
        self._taken = set[str]()  # the keys of the messages of its turn
        self._said: list[str] = []
        self._written = self._block = ""
        self._pieces: list[str] = []
        self._news = asyncio.Event()

    @property
    def text(self) -> str:
        """All text so far, whole messages."""
        return "\n\n".join(self._said)

    @property
    def has_begun(self) -> bool:
        """True if a part of the answer is visible."""
        return bool(self._written)

    @property
    def is_blank(self) -> bool:
        """True if it has neither a whole message nor a failure, as far as is known here; a stream may have begun."""
        return not (self._said or self.refusal or self.failure)

    def take(self, outbound: Outbound) -> None:
        """Add a message of its turn: a part of the answer, a refusal, or the notice of a failure."""
        self._taken.add(outbound.key)
        self.tokens = max(self.tokens, outbound.tokens)
        reason = outbound.stop_reason
        if reason == "content_filter":
            self.stop_reason, self.refusal = reason, outbound.text
            self.say("")
        elif reason in ("stop", "length"):
            self.stop_reason = reason
            self.say(outbound.text)
        else:
            self.failure = failed_turn(reason, outbound.text)
            self.end()

    def take_fate(self, fate: MessageFate) -> None:
        """Add what the journal says about an ended message: its replies that did not arrive here, or why it has none."""
        own = [one for one in fate.replies if one.answers == self.message_id]
        for one in own:
            if one.key not in self._taken:
                self.take(one)
        if self.is_blank and fate.replies and not own:
            self.failure = no_answer("merged")
        elif self.is_blank and fate.outcome not in ("delivered", "silent", "command", "answered"):
            self.failure = no_answer(fate.outcome)

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
        asyncio.get_running_loop().call_later(LATE_SECONDS, self._end_late)

    def _end_late(self) -> None:
        self.end(is_late=True)

    def _end_without_turn(self) -> None:
        if not self.turn_runs:
            self.end()

    def end(self, failure: BadRequest | None = None, *, is_late: bool = False) -> None:
        """End the answer.

        :param is_late: a message of it may be recorded and not delivered yet, as on a busy machine.
        """
        if self.ended or self._is_ending:
            return
        self._is_ending = True
        if failure is None and (is_late or self.is_blank):
            self.read_fate(self)
        self.failure, self.ended = failure or self.failure, True
        self._news.set()
        for ended in self.on_end:
            ended()

    async def until_ended(self) -> None:
        """Wait for the whole answer."""
        while not self.ended:
            await self._next_news()

    async def until_begun(self) -> None:
        """Wait for the first text or the end."""
        while not (self.ended or self._pieces):
            await self._next_news()

    async def pieces(self, quiet_seconds: float, deadline: float = inf) -> AsyncIterator[str]:
        """Yield the answer in pieces from its beginning; yield an empty one when nothing came for
        ``quiet_seconds``.

        :param deadline: of the monotonic clock.
        :raises BadRequest: the deadline passed.
        """
        at, began = 0, time.monotonic()
        while True:
            while at < len(self._pieces):
                at += 1
                yield self._pieces[at - 1]
            if self.ended:
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise still_running(deadline - began)
            try:
                await asyncio.wait_for(self._next_news(), min(quiet_seconds, left))
            except TimeoutError:
                if left > quiet_seconds:
                    yield ""

    async def _next_news(self) -> None:
        self._news.clear()  # whoever waits has looked at all that came before
        await self._news.wait()


class PendingRequests:
    """All requests whose turn waits or runs, in order of arrival, whether a caller waits for them or not."""

    def __init__(self) -> None:
        self._calls: dict[str, PendingRequest] = {}

    def __len__(self) -> int:
        return sum(call.callers > 0 for call in self._calls.values())

    def open(self, message_id: str, event_id: str, address: Address) -> PendingRequest:
        """Add a request with one caller."""
        call = self._calls[message_id] = PendingRequest(message_id, event_id, address)
        call.callers = 1
        return call

    def get(self, message_id: str) -> PendingRequest | None:
        """Return the request with this message id."""
        return self._calls.get(message_id)

    def running(self, digest: str) -> PendingRequest | None:
        """Return the newest request with this digest that has not ended; one whose caller left goes first."""
        ends = f":{digest}"
        found = [one for one in self._calls.values() if not one.ended and one.event_id.endswith(ends)]
        return max(reversed(found), key=lambda one: one.callers <= 0, default=None)

    def close(self, call: PendingRequest) -> None:
        """Remove one caller, answered or gone; without callers, an ended request is forgotten."""
        call.callers -= 1
        if call.callers <= 0:
            call.on_end.append(lambda: self.discard(call))
            if call.ended:
                self.discard(call)
            elif len(self._calls) > MAX_KEPT:
                left = next((one for one in self._calls.values() if one.callers <= 0), None)
                if left:
                    self.discard(left)

    def discard(self, call: PendingRequest) -> None:
        """Forget a request at once, unless a caller came back."""
        if call.callers <= 0 and self._calls.get(call.message_id) is call:
            del self._calls[call.message_id]

    def waiting_at(self, address: Address) -> int:
        """Return the number of requests of a conversation that have not ended."""
        return sum(call.address == address and not call.ended for call in self._calls.values())

    def of(self, outbound: Outbound) -> PendingRequest | None:
        """Return the request that waits for this message."""
        return self.at(outbound.address, outbound.answers or outbound.reply_to or "")

    def at(self, address: Address, message_id: str) -> PendingRequest | None:
        """Return the request with the id ``message_id``; for a foreign id, the oldest one at that address."""
        if message_id.startswith(ID_HEADS):
            return self._calls.get(message_id)
        waits = (call for call in self._calls.values() if call.address == address and not call.ended)
        return next(waits, None)

    def before(self, call: PendingRequest) -> list[PendingRequest]:
        """Return the older requests at the same address that wait for their turn."""
        found = []
        for earlier in self._calls.values():
            if earlier is call:
                break
            if earlier.address == call.address and not earlier.turn_is_over:
                found.append(earlier)
        return found

    def end_all(self, failure: BadRequest) -> None:
        """End all requests when claw stops."""
        for call in list(self._calls.values()):
            call.end(failure)
