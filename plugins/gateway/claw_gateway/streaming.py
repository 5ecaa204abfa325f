"""The view of a running turn in its chat: a streaming reply, and typing signs until it begins."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from typing import Any

from claw import (
    Assistant,
    AttemptFailed,
    Channel,
    DeliveryError,
    Event,
    MessageRecorded,
    Notice,
    Outbound,
    Retrying,
    StepStarted,
    TextStreamed,
    Thinking,
    ToolEnded,
    User,
    t,
)
from claw.runtime import SYSTEM_CLOCK, WAITS_FOR_REPLY, describe_exception, location_of, within
from claw_channel_sdk import BlockSplitter, StreamingReply

from claw_gateway.channel_turn import ChannelTurn
from claw_gateway.journal import Journal
from claw_gateway.process.failpoint import failpoint
from claw_gateway.replies import block_key
from claw_gateway.settlement import notice_key

TYPING_SECONDS = 4.0
"""The interval of typing signs: Telegram shows one for 5 s, Discord for 10 s (spec, channels 6)."""

_UPDATE_SECONDS = 0.04
"""The interval of updates: a service's own limit is longer, and each update reads the whole text."""

_NOTICE_SECONDS = 10.0
_NOTICE_PAUSE_SECONDS = 1.0
_FIND_SECONDS, _FIND_PAUSE_SECONDS = 10.0, 0.05

_PLUGIN_SECONDS = 10.0
_CHECKS_PER_SIGN = 16

Log = Callable[[str], None]


async def count_then_emit(turn: ChannelTurn, emit: Callable[[Event], Awaitable[None]], event: Event) -> None:
    """Add the tokens and the thinking of an answer to those of its turn, then emit the event."""
    if isinstance(event, ToolEnded):
        failpoint("effect-done")
    if isinstance(event, MessageRecorded) and isinstance(event.message, User):
        failpoint("user-recorded")
    if isinstance(event, MessageRecorded) and isinstance(event.message, Assistant):
        usage, (read, written) = event.message.usage, turn.tokens
        asked = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
        turn.tokens = (read + asked, written + (usage.output or 0))
        turn.thinking += "".join(block.text for block in event.message.content if isinstance(block, Thinking))
    await emit(event)


@dataclass(frozen=True)
class RelayOptions:
    """The options of a relayed stream.

    :param streams: show the text while it grows; otherwise typing signs only.
    :param send: sends a recorded message of the turn before its end; ``in_blocks``: the answer goes out so.
    :param is_free: returns true if no older reply is on its way to this chat; until then nothing is shown.
    :param resumed: a process before this one may have shown a part of the turn.
    :param notice_seconds: the time without an answer after which the chat is told that the model service fails.
    """

    streams: bool = True
    send: Callable[[Sequence[Outbound]], None] | None = None
    in_blocks: bool = False
    is_free: Callable[[], bool] = lambda: True
    resumed: bool = True
    notice_seconds: float = _NOTICE_SECONDS


class RelayedStream:
    """The part of a turn that one chat sees before its final text.

    :param outbound: the address, with an empty text.
    :param visible: returns the part of a text so far that may be shown; empty holds it back.
    """

    def __init__(
        self,
        channel: Channel,
        outbound: Outbound,
        turn: str,
        journal: Journal,
        visible: Callable[[str], str],
        log: Log,
        options: RelayOptions = RelayOptions(),
    ) -> None:
        self._channel, self._outbound, self._turn = channel, outbound, turn
        self._journal, self._visible, self._log = journal, visible, log
        self._send, self._block_numbers = options.send, count(1)
        self._in_blocks, self._blocks, self._posted = options.in_blocks, BlockSplitter(), ""
        shown, lost = journal.streamed(turn) if options.resumed else ((), 0)
        self._is_durable = WAITS_FOR_REPLY not in channel.capabilities
        # Messages of an earlier process become the answer; no further ones are posted.
        self._can_edit = hasattr(channel, "stream") and not (shown or lost)
        self._streams = self._can_edit and options.streams and not options.in_blocks
        self._notice_seconds = inf if shown or lost else options.notice_seconds
        self._shows_notice, self._shown_text = False, ""
        self._silent_since = SYSTEM_CLOCK.monotonic()
        self._notice_due: asyncio.TimerHandle | None = None
        self._is_free = options.is_free
        self.writer: StreamingReply | None = None
        self._text = ""
        self._recorded: tuple[str, ...] = ()
        self._expected = self._lost = 0
        self._delay_seconds = channel.limits.quiet_seconds
        self._next_update = SYSTEM_CLOCK.monotonic() + self._delay_seconds  # a quick answer is not streamed
        self._update_due: asyncio.TimerHandle | None = None
        self._update_task: asyncio.Task[None] | None = None
        self._has_newer = self._is_over = False
        self._typing_task: asyncio.Task[None] | None = None
        self._typing_due: asyncio.TimerHandle | None = None
        if hasattr(channel, "typing"):
            self._typing_due = asyncio.get_running_loop().call_later(self._delay_seconds, self._start_typing)

    async def on_event(self, event: Event) -> None:
        """Handle one event of the turn."""
        if isinstance(event, Retrying):
            self._expect_pause(event.seconds)
        elif not isinstance(event, AttemptFailed | Notice):
            self._cancel_notice()
        if isinstance(event, StepStarted):
            self._text, self._silent_since = "", SYSTEM_CLOCK.monotonic()
            if self._in_blocks:
                self._post_blocks(self._blocks.finish())
                self._blocks, self._posted = BlockSplitter(), ""
        elif isinstance(event, MessageRecorded):
            if isinstance(event.message, Assistant) and event.message.stop_reason == "error":
                self._blocks = BlockSplitter()  # the unsent rest of an answer that broke off is dropped
        elif isinstance(event, TextStreamed):
            if not self._text and self.writer is None:  # a short answer is complete before it is shown
                self._next_update = SYSTEM_CLOCK.monotonic() + self._delay_seconds
            self._text += event.text
            if self._streams:
                self._schedule()
            elif self._in_blocks:
                text = self._visible(self._text)
                if text.startswith(self._posted) and len(text) > len(self._posted):
                    more, self._posted = text[len(self._posted) :], text
                    self._post_blocks(self._blocks.feed(more))

    def _schedule(self) -> None:
        """Schedule an update; the writer gets one at a time."""
        self._has_newer = True
        if self._update_due is None and self._update_task is None and not self._is_over:
            wait = self._next_update - SYSTEM_CLOCK.monotonic()
            if wait > 0:
                self._update_due = asyncio.get_running_loop().call_later(wait, self._update)
            else:
                self._update()

    def _update(self) -> None:
        self._update_due, self._has_newer = None, False
        if text := self._visible(self._text):
            self._shows_notice, self._shown_text = False, text
            self._update_task = asyncio.ensure_future(self._show_safely(text))

    async def _show_safely(self, text: str) -> None:
        try:
            await self._show(text)
        except Exception as why:  # noqa: BLE001 - a journal error; the text is not the answer yet
            self._log_failure(why)
        self._update_task, self._next_update = None, SYSTEM_CLOCK.monotonic() + _UPDATE_SECONDS
        if self._has_newer:
            self._schedule()

    def _post_blocks(self, blocks: Sequence[str]) -> None:
        for block in blocks:
            number = next(self._block_numbers)
            quote = self._outbound.reply_to if number == 1 else None
            self._say(block_key(self._turn, number), block, quote)
            self._can_edit = False  # what is edited into the answer would stand above its blocks

    def _say(self, key: str, text: str, quote: str | None) -> None:
        """Send a message of the turn before its end."""
        one = replace(self._outbound, key=key, text=text, reply_to=quote)
        if self._send and self._journal.add_reply(self._turn, one):
            self._send([one])

    def _expect_pause(self, seconds: float) -> None:
        """Tell the chat that the model service fails, if a pause before the next try makes the silence too long."""
        left = max(0.0, self._silent_since + self._notice_seconds - SYSTEM_CLOCK.monotonic())
        if seconds > left and self._is_durable and self._notice_due is None and not self._text:
            self._notice_due = asyncio.get_running_loop().call_later(left, self._report_failure)

    def _cancel_notice(self) -> None:
        if self._notice_due:
            self._notice_due.cancel()
            self._notice_due = None

    def _report_failure(self) -> None:
        """Tell the chat once that the model service fails: in the message that becomes the answer, where there is one."""
        if self._update_task or not self._is_free():
            later = _NOTICE_PAUSE_SECONDS
            self._notice_due = asyncio.get_running_loop().call_later(later, self._report_failure)
            return
        self._notice_due, self._notice_seconds = None, inf
        text = t("The model service does not answer yet. I keep trying; the answer follows here.")
        if self._can_edit:
            self._update_task = asyncio.ensure_future(self._show_notice(text))
        else:
            self._say(notice_key(self._turn, "wait"), text, self._outbound.reply_to)

    async def _show_notice(self, text: str) -> None:
        """Show the notice in the message that becomes the answer; if none can be made now, try again."""
        in_blocks, self._in_blocks, self._shows_notice = self._in_blocks, False, True
        await self._show_safely(text)
        if self.writer is None:
            self._in_blocks, self._shows_notice = in_blocks, False
            if not (self._is_over or self._text or self._notice_due):
                loop = asyncio.get_running_loop()
                self._notice_due = loop.call_later(_NOTICE_PAUSE_SECONDS, self._report_failure)

    async def stop_updates(self) -> None:
        """Stop the updates, and wait for a running one: a first post has an id then."""
        self._is_over = True
        self._cancel_notice()
        if self._update_due:
            self._update_due.cancel()
        if self._update_task:
            await asyncio.wait({self._update_task})

    async def close(self, finished: bool, parked: bool = False) -> None:
        """End the view; ``finished``: the final text follows through the writer, otherwise nothing does.

        :param parked: another process resumes the turn, in the messages that are shown.
        """
        if self._typing_due:
            self._typing_due.cancel()
        if self._typing_task:
            self._typing_task.cancel()
        await self.stop_updates()
        if self._typing_task:
            await asyncio.wait({self._typing_task})
        if self.writer and not finished:
            await self._abandon(self.writer, parked)
        if hasattr(self._channel, "settled"):
            asked: Any = self._channel
            await self._call_plugin(asked.settled(self._outbound.address, self._outbound.answers))

    async def _abandon(self, writer: StreamingReply, parked: bool) -> None:
        """Leave what is shown, without a notice that no answer follows."""
        is_notice = self._shows_notice and not parked
        if is_notice and self._shown_text:
            await self._call_plugin(writer.show(self._shown_text))
        await self._call_plugin(writer.abandon())
        self.record_messages()  # a post may have been running: a parked turn continues in that message
        if is_notice and not self._shown_text and hasattr(self._channel, "delete"):
            for id in writer.shown:
                await self._call_plugin(self._channel.delete(self._outbound.address, id))
        if self._is_durable and not parked:
            self._expected = 0  # what was expected and is not there, such as a draft, is no lost message
            self._record(tuple(writer.shown))

    async def _show(self, text: str) -> None:
        if self.writer is None:
            if not self._is_free():
                return
            asked: Any = self._channel
            try:
                self.writer = asked.stream(self._outbound)
            except Exception as why:  # noqa: BLE001 - plugin code
                self._streams = self._can_edit = False
                self._log_failure(why)
                return
        expected, lost = expected_messages(self.writer, self._channel, text), self._lost_posts()
        if self._is_durable and (expected > self._expected or lost > self._lost):
            self._expected = max(expected, self._expected)
            self._record(self._recorded)  # before the text is there
        if hasattr(self.writer, "on_posted"):  # the id is recorded as soon as it is known
            self.writer.on_posted = self.record_messages
        await self._call_plugin(self.writer.show(text))
        self.record_messages()

    def record_messages(self) -> None:
        """Record the messages that hold the text, when they have changed: a restart continues with them."""
        shown = tuple(self.writer.shown) if self.writer else self._recorded
        if shown != self._recorded and self._is_durable:
            failpoint("stream-posted")
            self._record(shown)

    def _record(self, shown: tuple[str, ...]) -> None:
        self._lost, self._recorded = self._lost_posts(), shown
        self._expected = max(self._expected, len(shown))  # the final text may be longer than what was shown
        self._journal.record_streamed(self._turn, shown, self._expected + self._lost)

    def _lost_posts(self) -> int:
        return lost_posts(self.writer, self._channel) if self.writer else 0

    def _start_typing(self) -> None:
        self._typing_task = asyncio.ensure_future(self._keep_typing())

    async def _keep_typing(self) -> None:
        asked: Any = self._channel
        while True:
            await self._call_plugin(asked.typing(self._outbound.address, self._outbound.answers))
            for _ in range(_CHECKS_PER_SIGN):  # a post takes time, and no event may follow it
                await asyncio.sleep(TYPING_SECONDS / _CHECKS_PER_SIGN)
                self.record_messages()

    async def _call_plugin(self, asked: Any) -> None:
        try:  # no wait_for: in Python 3.11 it loses a cancellation that comes with the answer
            await within(_PLUGIN_SECONDS, asked)
        except Exception as why:  # noqa: BLE001 - plugin code
            self._log_failure(why)

    def _log_failure(self, why: BaseException) -> None:
        name = self._channel.name
        self._log(
            t(
                "channel {name}: a reply cannot be streamed: {why}",
                name=name,
                why=describe_exception(why),
            )
        )


def expected_messages(writer: StreamingReply, channel: Channel, text: str) -> int:
    """Return how many messages a text may take, where posted but unrecorded messages can be found again."""
    count: Any = getattr(writer, "messages", None)
    with suppress(Exception):  # plugin code: without an answer, one message is assumed
        if count and ("idempotent" in channel.capabilities or hasattr(channel, "find_sent")):
            return max(1, int(count(text)))
    return 1


def lost_posts(writer: StreamingReply, channel: Channel) -> int:
    """Return how many posts of a writer may be in the chat besides its messages, where they can be found again."""
    is_findable = hasattr(channel, "find_sent") and "idempotent" not in channel.capabilities
    return int(getattr(writer, "lost", 0)) if is_findable else 0


async def recover_streamed(
    channel: Channel,
    outbound: Outbound,
    turn: str,
    journal: Journal,
    log: Log,
    seconds: float = _FIND_SECONDS,
) -> bool:
    """Find the messages of a cut-off turn, when a crash came between a post and its record; return False if the service
    could not be asked.

    The same keys are posted again; a service that drops repeats answers with the existing messages. A service
    that has forgotten the keys by now is not asked: it would post a second time. A message whose id is known is left as
    it is: its text may be the final one. What is not found stays unknown, and the log says why.
    """
    known, lost = journal.streamed(turn)
    is_findable = "idempotent" in channel.capabilities and hasattr(channel, "stream")
    if not (lost and is_findable) or journal.age_seconds(turn) >= channel.limits.repeat_seconds:
        return True
    asked: Any = channel
    problem: Exception | None = None
    try:
        writer: StreamingReply = asked.stream(outbound)
        try:
            problem = await _post_again(writer, known, lost, seconds)
        except LookupError as nothing:  # no other was posted; its subclasses are errors of the code
            if type(nothing) is not LookupError:
                raise
        # What is not there stays expected: the search has used its keys, and a later stream could not post under them.
        if len(shown := tuple(writer.shown)) > len(known):
            journal.record_streamed(turn, shown, len(known) + lost)
        await writer.abandon()
    except Exception as why:  # noqa: BLE001 - plugin code
        problem = why
    if problem:
        template = "channel {name}: the messages of an answer that was cut off cannot be found: {why}"
        place, why_text = location_of(problem, "claw_gateway"), describe_exception(problem)
        log(t(template, name=channel.name, why=f"{why_text} ({place})" if place else why_text))
    return problem is None


async def _post_again(writer: Any, known: tuple[str, ...], lost: int, seconds: float) -> DeliveryError | None:
    """Post the lost messages until all ids are known, or for a limited time; return the last refusal if one is missing.

    :raises LookupError: the writer knows that no other was posted.
    """
    refused = DeliveryError("the service did not answer in time")
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while len(writer.shown) < len(known) + lost:
                pause = _FIND_PAUSE_SECONDS
                try:
                    await (
                        writer.again(len(known) + lost, known)
                        if hasattr(writer, "again")
                        else writer.show("…")
                    )
                except DeliveryError as why:
                    refused, pause = why, max(pause, why.retry_after_seconds or 0.0)
                await asyncio.sleep(pause)
    return refused if len(writer.shown) < len(known) + lost else None
