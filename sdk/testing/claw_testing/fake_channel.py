"""In-memory channel for tests: ``says`` writes as a person, ``shown`` lists visible messages, failures are scripted.

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

from claw import (
    Address,
    ChannelLimits,
    ChannelState,
    ConfigError,
    DeliveryError,
    Inbound,
    Inbox,
    Outbound,
    Receipt,
    Sender,
)
from claw.runtime import SYSTEM_CLOCK
from claw_channel_sdk import split_text

_CAPABILITIES = frozenset({"delete", "edit", "idempotent", "polls", "reactions", "typing"})

ScriptedFailure = BaseException | str | None


class FakeChannel:
    """A channel together with the fake chat service behind it.

    It delivers a message until the host acknowledges it, and again after a lost connection; it refuses an outbound
    text that does not fit into one message. Belongs to one event loop.

    :param capabilities: the capabilities it declares; without ``idempotent`` it shows a repeated key again.
    :param streaming: it also has ``stream``: replies grow while they are shown.
    :param known: False = the service refuses the credentials.
    :ivar sent: the sent messages, in order; a streaming reply with its final text.
    :ivar states: every text of streaming replies, the final ones included.
    :ivar acts: the other acts, in order, as (edit, delete, react, poll, typing or settled; the arguments).
    :ivar acknowledged: ids of the acknowledged events.
    :ivar connections: number of connections made.
    """

    def __init__(
        self,
        name: str = "fake",
        *,
        account: str = "default",
        limits: ChannelLimits | None = None,
        capabilities: frozenset[str] = _CAPABILITIES,
        streaming: bool = False,
        known: bool = True,
    ) -> None:
        self.name, self.account = name, account
        self.limits = limits or ChannelLimits(quiet_seconds=0.0)
        self.capabilities = capabilities | ({"streaming"} if streaming else set())
        self.sent: list[Outbound] = []
        self.stream_states: list[str] = []
        self.acts: list[tuple[str, tuple[Any, ...]]] = []
        self.acknowledged: list[str] = []
        self.connections = 0
        self.closed = False
        self.state = ChannelState()
        if "streaming" in self.capabilities:
            self.stream = self._stream
        self._known = known
        self._messages: dict[str, str] = {}
        self._waiting: deque[Inbound] = deque()
        self._last: Inbound | None = None
        self._arrived = asyncio.Event()
        self._lost = asyncio.Event()
        self._changed = asyncio.Condition()
        self._receipts: dict[str, Receipt] = {}
        self._failures: deque[tuple[BaseException | None, bool]] = deque()
        self._ids, self._shown_ids = count(1), count(1)

    # --- people and the service

    def address(self, chat: str = "chat-1", *, thread: str | None = None) -> Address:
        """Return the address of a chat of this channel."""
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
        """Write a message as a person; it is delivered while :meth:`run` runs.

        :param sender: the person, by stable id.
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
        self._enqueue(self._last)
        return self._last

    def says_in_group(self, text: str, mention: str = "") -> Inbound:
        """Write a message in a group.

        :param mention: ``us``, or ``namesake``: another person with the bot's name.
        """
        return self.says(text, chat="group-1", chat_type="group", mentions_us=mention == "us")

    def bot_says(self, text: str) -> Inbound:
        """Write a message as another bot."""
        return self.says(text, Sender("bot-2", name="bot", is_bot=True))

    def again(self, inbound: Inbound | None = None) -> None:
        """Deliver a message (by default the last one) a second time, as real services do."""
        repeated = inbound or self._last
        assert repeated is not None, "no message was sent yet"
        self._enqueue(repeated)

    def disconnect(self) -> None:
        """Break the connection. The channel reconnects, and unacknowledged messages are delivered again."""
        self._lost.set()

    def fail_next(
        self,
        how: ScriptedFailure = None,
        seconds: float = 60.0,
        *,
        edit: bool = False,
        after_showing: bool = False,
        times: int = 1,
    ) -> None:
        """Make the next send or edit fail.

        :param how: ``refused`` permanently, ``busy`` for ``seconds``, ``down`` for now, ``lost`` (the message is shown,
            its confirmation is lost), or an exception to raise. None = down, or lost with ``after_showing``.
        :param edit: ignored; accepted for the suites of pytest-claw.
        """
        how = how or ("lost" if after_showing else "down")
        error = how if isinstance(how, BaseException) else _failure(how, seconds)
        self._failures.extend([(error, after_showing or how == "lost")] * times)

    def hang_next(self) -> None:
        """Make the next ``send`` hang until it is cancelled; nothing is shown."""
        self._failures.append((None, False))

    def impostor(self) -> "FakeChannel":
        """Return the same channel with credentials that the service refuses."""
        return FakeChannel(
            self.name, account=self.account, limits=self.limits, capabilities=self.capabilities, known=False
        )

    @property
    def shown(self) -> list[str]:
        """The visible messages, in order; a file as its kind and name."""
        return list(self._messages.values())

    async def until_shown(self, messages: int = 1, within_seconds: float = 5.0) -> list[str]:
        """Wait until this many messages are visible.

        :raises TimeoutError: they are not in time.
        """
        async with asyncio.timeout(within_seconds), self._changed:
            await self._changed.wait_for(lambda: len(self.shown) >= messages)
        return self.shown

    async def until_sent(self, messages: int = 1, within_seconds: float = 5.0) -> list[Outbound]:
        """Wait until this many messages are sent; a streaming reply counts when it is complete.

        :raises TimeoutError: they are not in time.
        """
        async with asyncio.timeout(within_seconds), self._changed:
            await self._changed.wait_for(lambda: len(self.sent) >= messages)
        return list(self.sent)

    # --- the channel

    async def run(self, inbox: Inbox) -> None:
        """Deliver inbound messages in order, until cancelled.

        :raises ConfigError: the service refuses the credentials.
        """
        while True:
            if not self._known:
                why = ConfigError(f"channels.{self.name}", "the service does not know these credentials")
                self.state = replace(self.state, state="failed", detail=str(why), last_error=str(why))
                raise why
            self.connections += 1
            self.state = ChannelState("up", reconnects=self.connections - 1, last_frame_at=SYSTEM_CLOCK.now())
            self._lost.clear()
            listening = asyncio.ensure_future(self._listen(inbox))
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
        """Show a message, once for each key, in place of those it replaces.

        :raises DeliveryError: it does not fit into one message, or a failure is scripted.
        """
        drops = "idempotent" in self.capabilities and not outbound.replaces
        if drops and (known := self._receipts.get(outbound.key)):
            return known
        error, shows = self._failures.popleft() if self._failures else (None, True)
        if not shows:
            if error is None:
                await asyncio.Event().wait()
            raise error  # type: ignore[misc]
        text = self._visible_text(outbound)
        kept = next((id for id in outbound.replaces if id in self._messages), None)
        for id in outbound.replaces:
            if id != kept:
                self._messages.pop(id, None)
        receipt = self._receipts[outbound.key] = Receipt((kept or self._new_id(),))
        await self._put(receipt.message_ids[0], text, outbound)
        if error is not None:
            raise error
        return receipt

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Replace the text of a message."""
        self._require_message(message_id)
        self.acts.append(("edit", (address, message_id, text)))
        await self._put(message_id, text)

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete a message."""
        self._require_message(message_id)
        self.acts.append(("delete", (address, message_id)))
        del self._messages[message_id]

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Add a reaction to a message, or remove it."""
        self.acts.append(("react", (address, message_id, emoji, remove)))

    async def poll(self, address: Address, question: str, options: tuple[str, ...]) -> Receipt:
        """Post a poll; its question is shown."""
        self.acts.append(("poll", (address, question, options)))
        receipt = Receipt((self._new_id(),))
        await self._put(receipt.message_ids[0], question)
        return receipt

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Record the typing indicator."""
        self.acts.append(("typing", (address, message_id)))

    async def settled(self, address: Address, message_id: str = "") -> None:
        """Record the end of the typing indicator."""
        self.acts.append(("settled", (address, message_id)))

    async def close(self) -> None:
        """Record that the host has closed the channel."""
        self.closed = True

    # --- inside

    def _stream(self, outbound: Outbound) -> "FakeStreamingReply":
        """Start a streaming reply; this is ``stream`` of a channel with streaming."""
        return FakeStreamingReply(self)

    async def _listen(self, inbox: Inbox) -> None:
        while True:
            while self._waiting:
                inbound = self._waiting[0]
                self.state = replace(self.state, last_frame_at=SYSTEM_CLOCK.now())
                if not await inbox.submit(inbound):
                    await asyncio.sleep(0.01)
                    continue
                self.acknowledged.append(inbound.event_id)
                self._waiting.popleft()
            self._arrived.clear()
            await self._arrived.wait()

    def _enqueue(self, inbound: Inbound) -> None:
        self._waiting.append(inbound)
        self._arrived.set()

    def _visible_text(self, outbound: Outbound) -> str:
        """Return the visible text of a message; refuse one that real services would refuse."""
        if len(split_text(outbound.text, self.limits)) > 1:
            problem = "a message holds {most}, and this one is longer"
            raise DeliveryError(problem, permanent=True, most=self.limits.text_chars)
        files = [f"[{file.kind} {file.name}]" for file in outbound.attachments]
        said = " ".join(filter(str.strip, (outbound.text, *files)))
        if not said:
            raise DeliveryError("a message without anything in it", permanent=True)
        return said

    def _require_message(self, message_id: str) -> None:
        if message_id not in self._messages:
            raise DeliveryError("there is no message {id}", permanent=True, id=message_id)

    def _new_id(self) -> str:
        return f"shown-{next(self._shown_ids)}"

    async def _put(self, id: str, text: str, whole: Outbound | None = None) -> None:
        async with self._changed:
            self._messages[id] = text
            self.sent += [whole] if whole else []
            self._changed.notify_all()


class FakeStreamingReply:
    """A streaming reply of a :class:`FakeChannel`; each update is shown at once, or skipped by a scripted failure."""

    def __init__(self, channel: FakeChannel) -> None:
        self._channel = channel
        self._ids: list[str] = []
        self._over = False

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of the visible messages of the reply."""
        return tuple(self._ids)

    async def show(self, text: str) -> None:
        """Show the whole text so far."""
        channel = self._channel
        if self._over or (channel._failures and channel._failures.popleft()):
            return
        await self._write(text)

    async def finish(self, outbound: Outbound) -> Receipt:
        """Show the final text and return its receipt."""
        channel, self._over = self._channel, True
        error, shows = channel._failures.popleft() if channel._failures else (None, True)
        if error and not shows:
            raise error
        await self._write(outbound.text, outbound)
        if error:
            raise error
        return Receipt(self.shown)

    async def abandon(self) -> None:
        """End the reply; the shown text stays."""
        self._over = True

    async def _write(self, text: str, whole: Outbound | None = None) -> None:
        channel = self._channel
        channel.stream_states.append(text)
        pieces = split_text(text, channel.limits)
        for id in self._ids[len(pieces) :]:
            channel._messages.pop(id, None)
        del self._ids[len(pieces) :]
        self._ids += [channel._new_id() for _ in pieces[len(self._ids) :]]
        for id, piece in zip(self._ids, pieces, strict=True):
            await channel._put(id, piece, whole if id == self._ids[-1] else None)


def _failure(how: str, seconds: float) -> DeliveryError:
    if how == "busy":
        return DeliveryError("the service wants a pause", retry_after_seconds=seconds)
    problems = {"refused": "the service refuses it", "down": "the service is away", "lost": "the line broke"}
    return DeliveryError(problems[how], permanent=how == "refused", outcome_unknown=how == "lost")
