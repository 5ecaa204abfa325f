"""A channel that lives in a test: people write with ``says``, ``shown`` is what they see, and it fails when it is told.

async def test_what_is_said_twice_is_shown_once():
    channel = FakeChannel()
    hello = Outbound("key-1", channel.address(), "hello")
    channel.fail_next(after_showing=True)
    with pytest.raises(ConnectionError):
        await channel.send(hello)
    await channel.send(hello)
    assert channel.shown == ["hello"]
"""

import asyncio
from collections import deque
from contextlib import suppress
from itertools import count
from typing import Any

from claw.channel import Door, Limits
from claw.chunking import split_text
from claw.message import Address, Inbound, Outbound, Receipt, Sender


class FakeChannel:
    """Both ends of a place to talk: the channel as the house sees it, and the service behind it.

    It delivers until the house says that it has a message, and after a lost connection once more; it shows one message
    for each delivery key, cut to its limits. Belongs to one event loop.

    :ivar sent: what the house said, in order, each key once.
    :ivar shown: the messages that people see, cut to ``limits``.
    :ivar acknowledged: event ids that the house took.
    :ivar connections: how often it connected.
    """

    def __init__(
        self,
        name: str = "fake",
        *,
        account: str = "default",
        limits: Limits | None = None,
        capabilities: frozenset[str] = frozenset(),
    ) -> None:
        self.account = account
        self.name, self.limits, self.capabilities = name, limits or Limits(), capabilities
        self.sent: list[Outbound] = []
        self.shown: list[str] = []
        self.acknowledged: list[str] = []
        self.connections = 0
        self.closed = False
        self._waiting: deque[Inbound] = deque()
        self._last: Inbound | None = None
        self._news, self._lost, self._spoken = asyncio.Event(), asyncio.Event(), asyncio.Condition()
        self._receipts: dict[str, Receipt] = {}
        self._failures: deque[tuple[BaseException | None, bool]] = deque()
        self._ids = count(1)

    # --- what people and the service do

    def address(self, chat: str = "chat-1", *, thread: str | None = None) -> Address:
        """A chat of this channel."""
        return Address(self.name, chat, self.account, thread)

    def says(
        self,
        text: str,
        sender: str | Sender = "user-1",
        *,
        chat: str = "chat-1",
        thread: str | None = None,
        **more: Any,
    ) -> Inbound:
        """Somebody writes; it reaches the house once :meth:`run` runs.

        :param sender: who, by stable id.
        :param more: other fields of ``Inbound``: chat_type, mentions_us, kind, reply_to …
        """
        number = next(self._ids)
        facts: dict[str, Any] = {
            "message_id": f"message-{number}",
            "event_id": f"event-{number}",
            "sent_at": float(number),
        } | more
        person = sender if isinstance(sender, Sender) else Sender(sender, name=sender)
        self._last = Inbound(self.address(chat, thread=thread), text, person, **facts)
        self._arrive(self._last)
        return self._last

    def again(self, inbound: Inbound | None = None) -> None:
        """The service delivers a message (the last one) a second time, as services do."""
        repeated = inbound or self._last
        assert repeated is not None, "nobody has said anything yet"
        self._arrive(repeated)

    def disconnect(self) -> None:
        """The connection breaks. The channel connects again, and what was not acknowledged comes again."""
        self._lost.set()

    def fail_next(
        self, error: BaseException | None = None, *, after_showing: bool = False, times: int = 1
    ) -> None:
        """The next ``send`` fails.

        :param after_showing: the message is shown, and only the service's answer is lost.
        """
        self._failures.extend([(error or ConnectionError("the service is away"), after_showing)] * times)

    def hang_next(self) -> None:
        """The next ``send`` gets no answer until it is cancelled; nothing is shown."""
        self._failures.append((None, False))

    async def until_shown(self, messages: int = 1, within_seconds: float = 5.0) -> list[str]:
        """Wait until people see so many messages.

        :raises TimeoutError: they do not.
        """
        async with asyncio.timeout(within_seconds), self._spoken:
            await self._spoken.wait_for(lambda: len(self.shown) >= messages)
        return list(self.shown)

    # --- the channel

    async def run(self, door: Door) -> None:
        """Hand in what comes, in order, until cancelled."""
        while True:
            self.connections += 1
            self._lost.clear()
            listening = asyncio.ensure_future(self._listen(door))
            lost = asyncio.ensure_future(self._lost.wait())
            try:
                await asyncio.wait({listening, lost}, return_when=asyncio.FIRST_COMPLETED)
                if listening.done():
                    listening.result()
            finally:
                for task in (listening, lost):
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task

    async def send(self, outbound: Outbound) -> Receipt:
        """Show it, once for each key."""
        if known := self._receipts.get(outbound.key):
            return known
        error, shows = self._failures.popleft() if self._failures else (None, True)
        if not shows:
            if error is None:
                await asyncio.Event().wait()
            raise error  # type: ignore[misc]
        parts = split_text(outbound.text, self.limits)
        receipt = Receipt(tuple(f"shown-{len(self.shown) + at}" for at in range(1, len(parts) + 1)))
        self._receipts[outbound.key] = receipt
        async with self._spoken:
            self.sent.append(outbound)
            self.shown += parts
            self._spoken.notify_all()
        if error is not None:
            raise error
        return receipt

    async def close(self) -> None:
        """The house is done with it."""
        self.closed = True

    async def _listen(self, door: Door) -> None:
        while True:
            while self._waiting:
                inbound = self._waiting[0]
                if not await door.submit(inbound):
                    await asyncio.sleep(0.01)
                    continue
                self.acknowledged.append(inbound.event_id)
                self._waiting.popleft()
            self._news.clear()
            await self._news.wait()

    def _arrive(self, inbound: Inbound) -> None:
        self._waiting.append(inbound)
        self._news.set()
