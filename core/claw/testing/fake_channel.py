"""A channel that lives in a test: people write with ``says``, ``shown`` is what they see, and it fails when it is told.

async def test_what_got_lost_is_shown_once():
    channel = FakeChannel()
    hello = Outbound("key-1", channel.address(), "hello")
    channel.fail_next("lost")
    with pytest.raises(DeliveryError):
        await channel.send(hello)
    await channel.send(hello)
    assert channel.shown == ["hello"]
"""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from claw.channel import ChannelState, Door, Limits
from claw.chunking import split_text
from claw.clock import SYSTEM
from claw.errors import ConfigError, DeliveryError
from claw.message import Address, Inbound, Outbound, Receipt, Sender

_ABLE = frozenset({"delete", "edit", "idempotent", "polls", "reactions", "typing"})

Failure = BaseException | str | None


class FakeChannel:
    """Both ends of a place to talk: the channel as the house sees it, and the service behind it.

    It delivers until the house says that it has a message, and after a lost connection once more; it refuses what does
    not fit into one message. Belongs to one event loop.

    :param capabilities: what it says it can; without ``idempotent`` it shows a repeated key again.
    :param streaming: it has ``stream`` as well: replies grow while people watch.
    :param known: the service knows our credentials.
    :ivar sent: what the house said, in order; of a reply that grew, its end.
    :ivar states: the texts that replies had while they grew, the last of each included.
    :ivar acts: what else the house did, in order, as (edit, delete, react, poll, typing or settled; its arguments).
    :ivar acknowledged: event ids that the house took.
    :ivar connections: how often it connected.
    """

    def __init__(
        self,
        name: str = "fake",
        *,
        account: str = "default",
        limits: Limits | None = None,
        capabilities: frozenset[str] = _ABLE,
        streaming: bool = False,
        known: bool = True,
    ) -> None:
        self.name, self.account = name, account
        self.limits = limits or Limits(patience_seconds=0.0)
        self.capabilities = capabilities | ({"streaming"} if streaming else set())
        self.sent: list[Outbound] = []
        self.states: list[str] = []
        self.acts: list[tuple[str, tuple[Any, ...]]] = []
        self.acknowledged: list[str] = []
        self.connections = 0
        self.closed = False
        self.state = ChannelState()
        if "streaming" in self.capabilities:
            self.stream = self._stream
        self._known = known
        self._standing: dict[str, str] = {}
        self._waiting: deque[Inbound] = deque()
        self._last: Inbound | None = None
        self._news, self._lost, self._spoken = asyncio.Event(), asyncio.Event(), asyncio.Condition()
        self._receipts: dict[str, Receipt] = {}
        self._failures: deque[tuple[BaseException | None, bool]] = deque()
        self._ids, self._shown_ids = count(1), count(1)

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

    def says_in_group(self, text: str, mention: str = "") -> Inbound:
        """Somebody writes in a group.

        :param mention: ``us``, or ``namesake``: somebody else who is called as we are.
        """
        return self.says(text, chat="group-1", chat_type="group", mentions_us=mention == "us")

    def bot_says(self, text: str) -> Inbound:
        """Another bot writes."""
        return self.says(text, Sender("bot-2", name="bot", is_bot=True))

    def again(self, inbound: Inbound | None = None) -> None:
        """The service delivers a message (the last one) a second time, as services do."""
        repeated = inbound or self._last
        assert repeated is not None, "nobody has said anything yet"
        self._arrive(repeated)

    def disconnect(self) -> None:
        """The connection breaks. The channel connects again, and what was not acknowledged comes again."""
        self._lost.set()

    def fail_next(
        self,
        how: Failure = None,
        seconds: float = 60.0,
        *,
        edit: bool = False,
        after_showing: bool = False,
        times: int = 1,
    ) -> None:
        """The next thing that is said or rewritten fails.

        :param how: ``refused`` for good, ``busy`` for so many seconds, ``down`` for now, ``lost``: it is shown, and only
            the answer does not arrive; or an error to raise. None is down, or lost with ``after_showing``.
        :param edit: taken for the suites of pytest-claw: here it is the same.
        """
        how = how or ("lost" if after_showing else "down")
        error = how if isinstance(how, BaseException) else _failure(how, seconds)
        self._failures.extend([(error, after_showing or how == "lost")] * times)

    def hang_next(self) -> None:
        """The next ``send`` gets no answer until it is cancelled; nothing is shown."""
        self._failures.append((None, False))

    def impostor(self) -> "FakeChannel":
        """The same, with credentials that the service does not know."""
        return FakeChannel(
            self.name, account=self.account, limits=self.limits, capabilities=self.capabilities, known=False
        )

    @property
    def shown(self) -> list[str]:
        """The messages that people see now, in order; of a file its kind and name."""
        return list(self._standing.values())

    async def until_shown(self, messages: int = 1, within_seconds: float = 5.0) -> list[str]:
        """Wait until people see so many messages.

        :raises TimeoutError: they do not.
        """
        async with asyncio.timeout(within_seconds), self._spoken:
            await self._spoken.wait_for(lambda: len(self.shown) >= messages)
        return self.shown

    async def until_sent(self, messages: int = 1, within_seconds: float = 5.0) -> list[Outbound]:
        """Wait until the house has said so much; a reply that grows counts when it is whole.

        :raises TimeoutError: it has not.
        """
        async with asyncio.timeout(within_seconds), self._spoken:
            await self._spoken.wait_for(lambda: len(self.sent) >= messages)
        return list(self.sent)

    # --- the channel

    async def run(self, door: Door) -> None:
        """Hand in what comes, in order, until cancelled.

        :raises ConfigError: the service does not know us.
        """
        while True:
            if not self._known:
                why = ConfigError(f"channels.{self.name}", "the service does not know these credentials")
                self.state = replace(self.state, state="failed", detail=str(why), last_error=str(why))
                raise why
            self.connections += 1
            self.state = ChannelState("up", reconnects=self.connections - 1, last_frame_at=SYSTEM.now())
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
        """Show it, once for each key, or in the place of what it replaces.

        :raises DeliveryError: it does not fit into one message, or was told to fail.
        """
        drops = "idempotent" in self.capabilities and not outbound.replaces
        if drops and (known := self._receipts.get(outbound.key)):
            return known
        error, shows = self._failures.popleft() if self._failures else (None, True)
        if not shows:
            if error is None:
                await asyncio.Event().wait()
            raise error  # type: ignore[misc]
        said = self._one_message(outbound)
        kept = next((id for id in outbound.replaces if id in self._standing), None)
        for id in outbound.replaces:
            if id != kept:
                self._standing.pop(id, None)
        receipt = self._receipts[outbound.key] = Receipt((kept or self._new_id(),))
        await self._put(receipt.message_ids[0], said, outbound)
        if error is not None:
            raise error
        return receipt

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Put another text in the place of a message."""
        self._standing_one(message_id)
        self.acts.append(("edit", (address, message_id, text)))
        await self._put(message_id, text)

    async def delete(self, address: Address, message_id: str) -> None:
        """Take a message back."""
        self._standing_one(message_id)
        self.acts.append(("delete", (address, message_id)))
        del self._standing[message_id]

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Put a reaction on a message, or take it off."""
        self.acts.append(("react", (address, message_id, emoji, remove)))

    async def poll(self, address: Address, question: str, options: tuple[str, ...]) -> Receipt:
        """Ask everybody; people see the question."""
        self.acts.append(("poll", (address, question, options)))
        receipt = Receipt((self._new_id(),))
        await self._put(receipt.message_ids[0], question)
        return receipt

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Show that an answer is coming."""
        self.acts.append(("typing", (address, message_id)))

    async def settled(self, address: Address, message_id: str = "") -> None:
        """No answer is coming any more."""
        self.acts.append(("settled", (address, message_id)))

    async def close(self) -> None:
        """The house is done with it."""
        self.closed = True

    # --- inside

    def _stream(self, outbound: Outbound) -> "GrowingMessage":
        """A reply that grows; ``stream`` of a channel with streaming."""
        return GrowingMessage(self)

    async def _listen(self, door: Door) -> None:
        while True:
            while self._waiting:
                inbound = self._waiting[0]
                self.state = replace(self.state, last_frame_at=SYSTEM.now())
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

    def _one_message(self, outbound: Outbound) -> str:
        """What people see of it, refused as services refuse it."""
        if len(split_text(outbound.text, self.limits)) > 1:
            problem = "a message holds {most}, and this one is longer"
            raise DeliveryError(problem, permanent=True, most=self.limits.text_chars)
        files = [f"[{file.kind} {file.name}]" for file in outbound.attachments]
        said = " ".join(filter(str.strip, (outbound.text, *files)))
        if not said:
            raise DeliveryError("a message without anything in it", permanent=True)
        return said

    def _standing_one(self, message_id: str) -> None:
        if message_id not in self._standing:
            raise DeliveryError("there is no message {id}", permanent=True, id=message_id)

    def _new_id(self) -> str:
        return f"shown-{next(self._shown_ids)}"

    async def _put(self, id: str, text: str, whole: Outbound | None = None) -> None:
        async with self._spoken:
            self._standing[id] = text
            self.sent += [whole] if whole else []
            self._spoken.notify_all()


class GrowingMessage:
    """The writer of a :class:`FakeChannel`: each state is shown at once, and skipped when a failure waits."""

    def __init__(self, channel: FakeChannel) -> None:
        self._channel = channel
        self._ids: list[str] = []
        self._over = False

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of the messages that stand there."""
        return tuple(self._ids)

    async def show(self, text: str) -> None:
        """The whole text so far."""
        channel = self._channel
        if self._over or (channel._failures and channel._failures.popleft()):
            return
        await self._write(text)

    async def finish(self, outbound: Outbound) -> Receipt:
        """The final text."""
        channel, self._over = self._channel, True
        error, shows = channel._failures.popleft() if channel._failures else (None, True)
        if error and not shows:
            raise error
        await self._write(outbound.text, outbound)
        if error:
            raise error
        return Receipt(self.shown)

    async def abandon(self) -> None:
        """What stands there is left as it is."""
        self._over = True

    async def _write(self, text: str, whole: Outbound | None = None) -> None:
        channel = self._channel
        channel.states.append(text)
        pieces = split_text(text, channel.limits)
        for id in self._ids[len(pieces) :]:
            channel._standing.pop(id, None)
        del self._ids[len(pieces) :]
        self._ids += [channel._new_id() for _ in pieces[len(self._ids) :]]
        for id, piece in zip(self._ids, pieces, strict=True):
            await channel._put(id, piece, whole if id == self._ids[-1] else None)


def _failure(how: str, seconds: float) -> DeliveryError:
    if how == "busy":
        return DeliveryError("the service wants a pause", retry_after_seconds=seconds)
    told = {"refused": "the service refuses it", "down": "the service is away", "lost": "the line broke"}
    return DeliveryError(told[how], permanent=how == "refused", outcome_unknown=how == "lost")
