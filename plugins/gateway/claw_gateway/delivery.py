"""Outbox delivery: send every reply that is recorded in the ledger, in order within a chat, chats in parallel.

Each message is recorded in the ledger before it is handed to its channel and after. A message that a crash or a lost
response leaves between the two records is sent again only where the service drops repeats, or if it is a notice.
Elsewhere its outcome is unknown, and its chat gets a notice; where the service can find messages of ours
(``settlement``), the message then takes the place of that notice or of itself.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from claw import Address, Channel, DeliveryError, Outbound, Receipt, t
from claw.runtime import SYSTEM_CLOCK, Clock, Timeouts, describe_exception, within
from claw_channel_sdk import StreamingReply

from claw_gateway.journal import Journal, PendingReply
from claw_gateway.outbox_items import (
    LateReport,
    OutboxItem,
    QueuedReply,
    SettledMessage,
    UnexpectedError,
    UnfinishedReply,
)
from claw_gateway.process.failpoint import failpoint
from claw_gateway.process.report import LOG_CONTEXT, log_context_of
from claw_gateway.settlement import Settlement, doubt_notice, is_notice
from claw_gateway.settling_outbox import SettlingOutbox
from claw_gateway.streaming import expected_messages, lost_posts

TRIES = 8
"""Tries for one message when the service fails temporarily; the pauses double from half a second to a minute."""
UNEXPECTED_ERROR_TRIES = 3
"""Tries for a message whose channel raises an exception outside of the contract: a bug seldom goes away."""
MAX_AGE_SECONDS = 24 * 3600.0
"""Age after which a pending reply is not sent any more: its reader no longer waits, and an old answer alarms."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_UNSERVED_SECONDS = 2.0  # until a reply looks again for its channel

Log = Callable[[str], None]


class OutboxDelivery(SettlingOutbox):
    """Send replies to channels, one worker for each chat.

    :param channel_of: return the channel of an address; None when no channel listens there any more.
    """

    def __init__(
        self,
        journal: Journal,
        channel_of: Callable[[Address], Channel | None],
        log: Log,
        timeouts: Timeouts,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._journal, self._channel_of, self._log = journal, channel_of, log
        self._timeouts, self._clock = timeouts, clock
        pauses = (_FIRST_PAUSE, _LONGEST_PAUSE)
        self._settlement = Settlement(journal, timeouts, _retry_seconds, TRIES, pauses)
        self._chats: dict[Address, deque[OutboxItem]] = {}
        self._workers: dict[Address, asyncio.Task[None]] = {}
        self._searches, self._settling, self._on_way = {}, WeakValueDictionary(), {}

    def busy(self, address: Address) -> bool:
        """Return true if something is on its way to this chat."""
        return replace(address, thread=None) in self._workers

    def enqueue(self, replies: Sequence[Outbound], repeated: bool = False) -> None:
        """Send messages that are in the ledger already."""
        for outbound in replies:
            self._enqueue(outbound.address, QueuedReply(outbound, repeated))

    def finish_reply(
        self, writer: StreamingReply, whole: Outbound, rows: Sequence[Outbound], of: Channel | None = None
    ) -> None:
        """Queue the final text of a streaming reply; it settles ``rows``.

        :param of: the channel that made the writer; None = the one that listens now.
        """
        channel = of or self._channel_of(whole.address)
        self._enqueue(whole.address, UnfinishedReply(writer, whole, rows, channel))

    def clear_typing(self, address: Address, message_id: str) -> None:
        """Queue a notice to the channel that a message was handled without a turn."""
        if hasattr(self._channel_of(address), "settled"):
            self._enqueue(address, SettledMessage(address, message_id))

    async def send_and_wait(self, turn: str, outbound: Outbound) -> Receipt:
        """Record one more message in the ledger, send it, and return its receipt.

        :raises DeliveryError: the service refused it.
        """
        if not self._journal.add_reply(turn, outbound):
            return Receipt()
        receipt: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._enqueue(outbound.address, QueuedReply(outbound, receipt=receipt))
        return await receipt

    def recover(self) -> None:
        """Send, at start, what a crash left, unless it is too old, or may have arrived and a repeat would show."""
        now, doubtful = self._clock.now(), set[str]()
        for one in map(self._in_place, self._journal.pending_replies()):
            age = now - one.owed_at_ms / 1000
            if age > MAX_AGE_SECONDS:
                self._give_up(one, "expired", t("it waited for more than a day"))
            elif one.outbound.key in doubtful:
                continue  # it is sent when the message that it is about is settled
            elif one.sending and not (one.outbound.replaces or self._is_safe_to_repeat(one, age)):
                if self._can_settle(one.outbound):
                    doubtful.add(doubt_notice(one.outbound, one.outbound.key, one.repeated).key)
                    self._enqueue(one.outbound.address, QueuedReply(one.outbound, in_doubt=True))
                    continue
                if self._may_be_posted(one):  # besides the message whose own outcome is unknown
                    self._journal.mark_sending(one.outbound.key, repeated=True)
                self._mark_unknown(one.outbound, t("claw stopped while it was being sent"))
            else:
                drops = self._drops_repeats(one.outbound.address)
                again = one.sending and not (drops or one.outbound.replaces)  # a notice
                is_news = (not one.repeated or drops) and self._may_be_posted(one)
                self.enqueue([one.outbound], repeated=again or is_news)
        oldest_ms = int((now - MAX_AGE_SECONDS) * 1000)
        for turn, answer in self._journal.ended_with_lost_messages(oldest_ms):
            self._delete_left_parts(turn, answer)

    def _is_safe_to_repeat(self, one: PendingReply, age: float) -> bool:
        """Return true if the service shows it once however often it is sent: it knows the key, or the message to edit.
        A notice may be there twice."""
        if is_notice(one.outbound) or self._drops_repeats(one.outbound.address, age):
            return True
        is_first = one.outbound.key == one.turn and bool(one.outbound.text)
        shown = is_first and self._drops_repeats(one.outbound.address) and self._journal.streamed(one.turn)[0]
        return bool(shown)

    def _may_be_posted(self, one: PendingReply) -> bool:
        """Return true if a stream may have posted it and had no time to record where."""
        shown, lost = self._journal.streamed(one.turn)
        return bool(lost or (shown and one.outbound.text and not one.outbound.replaces))

    async def stop(self, seconds: float) -> None:
        """Wait ``seconds`` for what is on its way; the rest stays in the ledger for the next start."""
        notice_seconds = self.search_stop_seconds  # for notices that a search sends
        for limit in (seconds, notice_seconds):
            if self._workers:
                await asyncio.wait(self._workers.values(), timeout=limit)
            if left := list(self._workers.values()):
                for worker in left:
                    worker.cancel()
                await asyncio.wait(left, timeout=self._timeouts.grace_seconds)
            self._is_stopped = True
            await self._stop_searches()

    def _drops_repeats(self, address: Address, age_seconds: float = 0.0) -> bool:
        """Return true if a message of this age shows once there, however often it is sent."""
        channel = self._channel_of(address)
        if channel is None or "idempotent" not in channel.capabilities:
            return False
        return age_seconds < channel.limits.repeat_seconds

    def _give_up(self, one: PendingReply, state: str, why: str) -> None:
        self._journal.mark_undeliverable(one.outbound.key, state, why)
        self._log(
            t("channel {name}: a reply was not sent: {why}", name=one.outbound.address.channel, why=why)
        )

    def _mark_unknown(self, outbound: Outbound, why: object, *, notice: bool = True) -> None:
        """Mark a message whose outcome is unknown: a repeat might show twice, so it is reported and not sent again.

        :param notice: send a notice to its chat too, once for each turn.
        """
        turn = self._journal.turn_of(outbound.key)
        about = doubt_notice(outbound, turn)
        # A channel with a bug does not get one more message.
        notice = notice and not isinstance(why, UnexpectedError)
        if notice and outbound.key != about.key and self._journal.add_reply(turn, about):
            self.enqueue([about])
        self._journal.mark_undeliverable(
            outbound.key, "unknown", t("it is unknown if it arrived: {why}", why=why)
        )
        self._log(
            t(
                "channel {name}: it is unknown if a reply arrived; it is not sent again: {why}",
                name=outbound.address.channel,
                why=why,
            )
        )

    def _enqueue(self, address: Address, item: OutboxItem) -> None:
        chat = replace(address, thread=None)  # services count per chat
        self._chats.setdefault(chat, deque()).append(item)
        if chat not in self._workers:
            self._workers[chat] = asyncio.ensure_future(self._work(chat))

    async def _work(self, chat: Address) -> None:
        waiting = self._chats[chat]
        LOG_CONTEXT.set(log_context_of(chat))
        try:
            while waiting:
                item = waiting.popleft()
                try:
                    await self._process(item)
                except Exception as broken:  # noqa: BLE001 - only this one; the ledger keeps it
                    self._log(
                        t("channel {name} failed: {why}", name=chat.channel, why=describe_exception(broken))
                    )
                    if isinstance(item, QueuedReply):
                        item.fail(broken)
        finally:  # no await since the last check: a later item gets a new worker
            del self._workers[chat], self._chats[chat]

    async def _process(self, item: OutboxItem) -> None:
        if isinstance(item, UnfinishedReply):
            await self._finish_reply(item)
        elif isinstance(item, QueuedReply) and item.in_doubt:
            stopped = DeliveryError("claw stopped while it was being sent", outcome_unknown=True)
            await self._settle_in_doubt(item, stopped)
        elif isinstance(item, QueuedReply):
            await self._send(item)
        else:
            await self._settle(item)

    async def _settle(self, settled: SettledMessage) -> None:
        channel: Any = self._channel_of(settled.address)
        try:
            call = channel.settled(settled.address, settled.message_id)
            await within(self._timeouts.send_seconds, call, self._timeouts.grace_seconds)
        except Exception as why:  # noqa: BLE001 - third-party code
            self._log_failure(settled.address, why)

    async def _finish_reply(self, reply: UnfinishedReply) -> None:
        """Write the final text through the writer; if the service refuses that, send it as separate messages."""
        mark = not self._drops_repeats(reply.whole.address)
        note = not self._drops_repeats(reply.whole.address, MAX_AGE_SECONDS)
        receipt, doubt, pause, tries = None, None, _FIRST_PAUSE, 0
        late = LateReport(self._clock, reply.whole.address.channel, self._log)
        while tries < TRIES:
            await self._wait_for_rate_limit(reply.whole.address)
            self._record_sending(reply, note)
            self._record_expected_messages(reply)
            with self._on_its_way(reply.whole):
                finished = await self._try_to_finish(reply)
            if not isinstance(finished, DeliveryError):
                receipt = finished
                break
            failed = finished
            if failed.permanent and not reply.writer.shown:
                for row in reply.rows:  # no message is posted, so the chat accepts nothing
                    self._refused(row, failed)
                return
            doubt = failed if failed.outcome_unknown else None
            is_bug = isinstance(failed, UnexpectedError)
            if is_bug or failed.permanent or (doubt and mark) or self._channel_was_replaced(reply):
                break  # where repeats are dropped, the writer tries again with the same key
            late.failed(failed)
            self._record_retry(reply, bool(doubt))
            await asyncio.sleep(_retry_seconds(failed, pause))
            if not _is_rate_limit(failed):
                tries, pause = tries + 1, min(2 * pause, _LONGEST_PAUSE)
        if receipt is None:
            await self._send_separately(reply, doubt if mark else None)
            return
        if receipt.repeated and mark:
            self._journal.mark_sending(reply.rows[0].key, repeated=True)
        failpoint("service-took")
        turn = self._record_posted(reply, receipt.message_ids)
        self._journal.mark_delivered(
            reply.rows[0].key, receipt.message_ids, [row.key for row in reply.rows[1:]]
        )
        self._delete_left_parts(turn, reply.rows[0])

    async def _try_to_finish(self, reply: UnfinishedReply) -> Receipt | DeliveryError:
        """Let the writer write the final text; it has the time of one send for each message."""
        seconds = self._timeouts.send_seconds * max(1, self._count_expected_messages(reply))
        try:
            return await within(seconds, reply.writer.finish(reply.whole), self._timeouts.grace_seconds)
        except DeliveryError as failed:
            return failed
        except TimeoutError as late:
            self._log_failure(reply.whole.address, late)
            return DeliveryError("the service did not answer in time", outcome_unknown=True)
        except Exception as why:  # noqa: BLE001 - third-party code
            self._log_failure(reply.whole.address, why)
            return UnexpectedError("{why}", outcome_unknown=True, why=describe_exception(why))

    def _record_posted(self, reply: UnfinishedReply, message_ids: Sequence[str]) -> str:
        """Record the messages that the writer posted, and the number of posts whose ids are lost; return the turn."""
        turn, lost = self._journal.turn_of(reply.rows[0].key), int(getattr(reply.writer, "lost", 0))
        if lost or self._journal.streamed(turn)[1]:
            self._journal.record_streamed(turn, message_ids, len(message_ids) + lost)
        return turn

    def _channel_was_replaced(self, reply: UnfinishedReply) -> bool:
        """Return true if a new configuration replaced the channel of the writer, which may never answer again."""
        return self._channel_of(reply.whole.address) is not reply.of

    def _record_expected_messages(self, reply: UnfinishedReply) -> None:
        """Record how many messages the writer will post, so that a start after a crash knows that they may exist."""
        shown = tuple(reply.writer.shown)
        if (expected := self._count_expected_messages(reply)) > max(1, len(shown)):
            self._journal.record_streamed(self._journal.turn_of(reply.rows[0].key), shown, expected)

    def _count_expected_messages(self, reply: UnfinishedReply) -> int:
        channel = self._channel_of(reply.whole.address)
        if channel is None:
            return 1
        return expected_messages(reply.writer, channel, reply.whole.text) + lost_posts(reply.writer, channel)

    def _record_retry(self, reply: UnfinishedReply, may_stand: bool) -> None:
        """Record what is posted by now, for a start that comes before the next try."""
        if shown := tuple(reply.writer.shown):
            turn = self._journal.turn_of(reply.rows[0].key)
            self._journal.record_streamed(turn, shown, self._count_expected_messages(reply))
        elif not may_stand:
            for row in reply.rows:
                self._journal.mark_pending(row.key)

    def _record_sending(self, reply: UnfinishedReply, note: bool) -> None:
        if note:
            for row in reply.rows:
                self._journal.mark_sending(row.key)
        failpoint("sending-noted")

    async def _send_separately(self, reply: UnfinishedReply, doubt: DeliveryError | None) -> None:
        """Send the final text as separate messages, in the place of those that are posted.

        :param doubt: a message after those may be posted too.
        """
        shown = tuple(reply.writer.shown)
        self._record_posted(reply, shown)
        for at, row in enumerate(reply.rows):
            posted = shown[at : at + 1] if at < len(reply.rows) - 1 else shown[at:]
            if doubt and not posted and self._can_settle(row):
                await self._settle_in_doubt(QueuedReply(row), doubt)
                doubt = None
                continue
            if doubt and not posted:
                # A post may have been lost while the text was streamed, too.
                self._journal.mark_sending(row.key, repeated=True)
                self._mark_unknown(row, doubt)
                doubt = None
                continue
            self._journal.mark_pending(row.key)
            await self._send(QueuedReply(replace(row, replaces=posted)))

    async def _send(self, message: QueuedReply) -> None:
        """Try until it is sent, is refused, its outcome is unknown, or the tries are used up.

        A pause that the service asks for is no try: however often it does, the message waits and is not dropped.
        """
        outbound, pause, tries = message.outbound, _FIRST_PAUSE, 0
        late = LateReport(self._clock, outbound.address.channel, self._log)
        while failed := await self._try(message):
            tries += not _is_rate_limit(failed)
            is_bug = isinstance(failed, UnexpectedError)
            most = UNEXPECTED_ERROR_TRIES if is_bug else TRIES
            is_final = is_bug or not is_notice(outbound)  # a notice is repeated until it is delivered
            if failed.outcome_unknown and is_final and not self._drops_repeats(outbound.address):
                await self._settle_in_doubt(message, failed)
                return
            if failed.permanent or (tries >= most and is_final):
                self._refused(outbound, failed)
            else:
                late.failed(failed)
                # the ledger has the mark of this send by now
                message.repeated = failed.outcome_unknown and not self._drops_repeats(outbound.address)
                if not failed.outcome_unknown:
                    self._journal.mark_pending(outbound.key)
                await asyncio.sleep(_retry_seconds(failed, pause))
                pause = pause if _is_rate_limit(failed) else min(2 * pause, _LONGEST_PAUSE)
                continue
            message.fail(failed)
            return

    def _in_place(self, one: PendingReply) -> PendingReply:
        """Let a part of an answer replace the message of its stream, if all of these are known by now."""
        if one.outbound.replaces or not one.outbound.text or self._journal.streamed(one.turn)[1]:
            return one
        return replace(one, outbound=replace(one.outbound, replaces=self._posted_as(one.outbound, one.turn)))

    def _refused(self, outbound: Outbound, failed: DeliveryError) -> None:
        self._journal.mark_undeliverable(outbound.key, "refused", str(failed))
        self._log(t("channel {name}: a reply was not sent: {why}", name=outbound.address.channel, why=failed))

    async def _wait_for_rate_limit(self, address: Address) -> None:
        """Wait until the channel may send there, before the ledger says that a message may have arrived."""
        channel: Any = self._channel_of(address)
        if hasattr(channel, "wait_for_rate_limit"):
            try:
                await channel.wait_for_rate_limit(address)
            except Exception as why:  # noqa: BLE001 - third-party code
                self._log_failure(address, why)

    async def _try(self, message: QueuedReply) -> DeliveryError | None:
        await self._wait_for_rate_limit(message.outbound.address)
        if self._drops_repeats(message.outbound.address) and (unable := await self._find_posted(message)):
            return unable
        outbound = message.outbound
        channel = self._channel_of(outbound.address)
        if channel is None:  # a later configuration may serve it: the reply waits, unless a tool waits for it
            name, pause = outbound.address.channel, None if message.receipt else _UNSERVED_SECONDS
            text = "there is no channel {name}"
            return DeliveryError(text, permanent=pause is None, retry_after_seconds=pause, name=name)
        if message.repeated or not self._drops_repeats(outbound.address, MAX_AGE_SECONDS):
            self._journal.mark_sending(outbound.key, message.repeated)
        failpoint("sending-noted")
        seconds, grace = self._timeouts.send_seconds, self._timeouts.grace_seconds
        try:
            with self._on_its_way(outbound):
                receipt = await within(seconds, channel.send(outbound), grace)
        except DeliveryError as failed:
            return failed
        except TimeoutError as late:
            self._log_failure(outbound.address, late)  # logged at once: the tries after it may take minutes
            late_edit = bool(outbound.replaces)  # an edit may be made twice
            return DeliveryError("the service did not answer in time", outcome_unknown=not late_edit)
        except Exception as why:  # noqa: BLE001 - third-party code
            return UnexpectedError(
                "{why}", outcome_unknown=not outbound.replaces, why=describe_exception(why)
            )
        ids = tuple(getattr(receipt, "message_ids", ()))
        failpoint("service-took")
        await self._record_delivered(message, ids)
        return None


def _is_rate_limit(failed: DeliveryError) -> bool:
    """Return true if the service asked for a pause and for nothing else."""
    return failed.retry_after_seconds is not None and not failed.permanent and not failed.outcome_unknown


def _retry_seconds(failed: DeliveryError, pause: float) -> float:
    """Return the seconds until the next try: what the service asked for, else the pause; with jitter for many chats."""
    asked = failed.retry_after_seconds
    if asked is None:
        return pause * random.uniform(0.8, 1.2)
    return min(asked, MAX_AGE_SECONDS) * random.uniform(1.0, 1.1)
