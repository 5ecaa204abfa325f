"""The part of the outbox that settles messages with an unknown outcome, and deletes parts of streams that are left."""

import asyncio
from collections.abc import Callable, Sequence

from claw import Address, Channel, DeliveryError, Outbound, Receipt, t

from claw_gateway.journal import Journal
from claw_gateway.outbox_items import LeftParts, OutboxItem, QueuedReply, UnexpectedError
from claw_gateway.settlement import Settlement, doubt_notice, notice_key


class SettlingOutbox:
    """The base of :class:`claw_gateway.delivery.OutboxDelivery`, which sends."""

    _journal: Journal
    _channel_of: Callable[[Address], Channel | None]
    _settlement: Settlement
    _is_stopped = False
    search_pauses: Sequence[float] = (5.0, 20.0)
    """Seconds after which a failed search for parts is repeated. After an outage few ids are in question only when the
    messages of all chats have arrived."""

    def enqueue(self, replies: Sequence[Outbound], repeated: bool = False) -> None:
        """Send messages that are in the ledger already."""
        raise NotImplementedError

    async def _send(self, message: QueuedReply) -> None:
        raise NotImplementedError

    def _enqueue(self, address: Address, item: OutboxItem) -> None:
        raise NotImplementedError

    def _mark_unknown(self, outbound: Outbound, why: object, *, notice: bool = True) -> None:
        raise NotImplementedError

    def _can_settle(self, outbound: Outbound) -> bool:
        """Return true if it can be found out whether a message is in its chat."""
        return Settlement.is_possible(self._channel_of(outbound.address))

    async def _settle_in_doubt(self, message: QueuedReply, why: DeliveryError) -> None:
        """Settle a message with an unknown outcome, or mark it if the service cannot find it."""
        outbound, key, ids = message.outbound, message.outbound.key, tuple[str, ...]()
        about = doubt_notice(outbound, key)
        is_bug = isinstance(why, UnexpectedError)
        if can_settle := self._can_settle(outbound) and not is_bug:
            self._journal.mark_sending(key)  # until it is settled, also by the next start
            self._journal.add_reply(self._journal.turn_of(key), about)
            if not self._journal.message_ids_of(about.key):
                await self._send(QueuedReply(about))
            if noticed := self._journal.message_ids_of(about.key):
                channel = self._channel_of(outbound.address)
                try:
                    ids = await self._settlement.settle(channel, outbound, noticed)
                except DeliveryError as unable:
                    why = unable
        if not ids:
            self._mark_unknown(outbound, why, notice=message.receipt is None and not can_settle)
            message.fail(why)
            return
        await self._record_delivered(message, ids)

    async def _record_delivered(self, message: QueuedReply, ids: tuple[str, ...]) -> None:
        self._journal.mark_delivered(message.outbound.key, ids)
        if message.receipt and not message.receipt.done():
            message.receipt.set_result(Receipt(ids))
        await self._delete_left_parts(self._journal.turn_of(message.outbound.key), message.outbound)

    async def _delete_left_parts(self, turn: str, answer: Outbound, searches: int = 0) -> None:
        """Delete the parts that a stream left in the chat, once the whole answer is there; else send a notice."""
        if not self._journal.streamed(turn)[1] or not self._can_settle(answer):
            return
        if not self._journal.is_over(turn) or self._journal.has_pending_replies(turn):
            return
        channel, is_last = self._channel_of(answer.address), searches >= len(self.search_pauses)
        done = await self._settlement.delete_left_parts(channel, turn, answer, is_last=is_last)
        if done is None:
            again = LeftParts(turn, answer, searches + 1)
            loop = asyncio.get_running_loop()
            loop.call_later(self.search_pauses[searches], self._search_again, again)
        if done is not False:
            return
        text = t("claw was interrupted here. If an answer above breaks off, the later one is the whole one.")
        about = Outbound(notice_key(turn, "left"), answer.address, text, answers=answer.answers)
        if self._journal.add_reply(turn, about):
            self.enqueue([about])

    def _search_again(self, parts: LeftParts) -> None:
        if not self._is_stopped:  # else the next start searches
            self._enqueue(parts.answer.address, parts)
