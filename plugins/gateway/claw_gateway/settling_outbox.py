"""The part of the outbox that settles messages with an unknown outcome, and deletes parts of streams that are left."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakValueDictionary

from claw import Address, Channel, DeliveryError, Outbound, Receipt, t
from claw.runtime import Timeouts, describe_exception

from claw_gateway.journal import Journal
from claw_gateway.outbox_items import QueuedReply, UnexpectedError
from claw_gateway.settlement import Settlement, doubt_notice, notice_key
from claw_gateway.streaming import recover_streamed

_WAIT_SECONDS, _MOST_WAITS = 0.5, 600
_MOST_SEARCHES = 4


class SettlingOutbox:
    """The base of :class:`claw_gateway.delivery.OutboxDelivery`, which sends."""

    _journal: Journal
    _channel_of: Callable[[Address], Channel | None]
    _settlement: Settlement
    _timeouts: Timeouts
    _log: Callable[[str], None]
    _searches: dict[str, asyncio.Task[None]]
    _settling: WeakValueDictionary[Address, asyncio.Lock]
    _on_way: dict[asyncio.Future[None], Address]
    _is_stopped = False
    search_pauses: Sequence[float] = (5.0, 20.0, 60.0)
    """Seconds after which a failed search is repeated. After an outage few ids are in question only when the
    messages of all chats have arrived."""
    find_seconds = 10.0
    """Time of a search for messages of a stream on a service that drops repeats."""
    search_stop_seconds = 2.0
    """Time that a search has when claw stops; the next start begins it again."""

    def enqueue(self, replies: Sequence[Outbound], repeated: bool = False) -> None:
        """Send messages that are in the ledger already."""
        raise NotImplementedError

    async def _send(self, message: QueuedReply) -> None:
        raise NotImplementedError

    def _mark_unknown(self, outbound: Outbound, why: object, *, notice: bool = True) -> None:
        raise NotImplementedError

    def _log_failure(self, address: Address, why: Exception) -> None:
        self._log(t("channel {name} failed: {why}", name=address.channel, why=describe_exception(why)))

    def _can_settle(self, outbound: Outbound) -> bool:
        """Return true if it can be found out whether a message is in its chat."""
        return Settlement.is_possible(self._channel_of(outbound.address))

    async def _settle_in_doubt(self, message: QueuedReply, why: DeliveryError) -> None:
        """Settle a message with an unknown outcome, or mark it if the service cannot find it."""
        outbound, ids = message.outbound, tuple[str, ...]()
        is_bug = isinstance(why, UnexpectedError)
        if can_settle := self._can_settle(outbound) and not is_bug:
            self._journal.mark_sending(outbound.key)  # until it is settled, also by the next start
            noticed = await self._send_doubt_notice(outbound)
            searching = self._settling.setdefault(replace(outbound.address, thread=None), asyncio.Lock())
            if noticed and searching.locked():
                message.fail(why)  # who waits for its receipt cannot wait for a search of minutes
                message = QueuedReply(outbound)
                if self._settle_later(message, why):
                    return
            try:
                async with searching:
                    ids = await self._settle_behind(outbound, noticed) if noticed else ()
            except DeliveryError as unable:
                why = unable
                if self._settle_later(message, why):
                    return
        if not ids:
            self._mark_unknown(outbound, why, notice=message.receipt is None and not can_settle)
            message.fail(why)
            return
        await self._record_settled(message, ids)

    async def _send_doubt_notice(self, outbound: Outbound) -> tuple[str, ...]:
        """Send the notice that a message may be missing, if none is behind its last send; return the ids of all notices.

        The newest bounds the search for the message, and holds its place. Empty if the service refuses it.
        """
        notices = self._doubt_notices(outbound)
        newest = notices[-1]
        self._journal.add_reply(self._journal.turn_of(outbound.key), newest)
        if not self._journal.message_ids_of(newest.key):
            may_be_there, _ = self._journal.handed_over(newest.key)
            await self._send(QueuedReply(newest, repeated=may_be_there))
        ids = [self._journal.message_ids_of(one.key) for one in notices]
        return tuple(id for some in ids for id in some) if ids[-1] else ()

    def _doubt_notices(self, outbound: Outbound) -> list[Outbound]:
        """Return the notices about a message in doubt: one, and one more for each time that it was sent again."""
        _, repeats = self._journal.handed_over(outbound.key)
        return [doubt_notice(outbound, outbound.key, number) for number in range(repeats + 1)]

    async def _settle_behind(
        self, outbound: Outbound, noticed: tuple[str, ...], *, may_wait: bool = False
    ) -> tuple[str, ...]:
        """Settle a message before its notices; return its ids."""
        await self._wait_for_responses(outbound.address)
        turn = self._journal.turn_of(outbound.key)
        notices = [one.key for one in self._doubt_notices(outbound)]
        others = (
            self._journal.lost_beside(turn, outbound.address)[0],
            self._journal.streamed(turn)[1],
            self._journal.unknown_in_turn(turn, outbound.key, notices),
            self._settlement.repeated_notices(outbound.address, self._journal.reply_time_ms(outbound.key)),
        )
        channel, is_alone = self._channel_of(outbound.address), not any(others)
        return await self._settlement.settle(channel, outbound, noticed, is_alone=is_alone, may_wait=may_wait)

    def _settle_later(self, message: QueuedReply, why: DeliveryError) -> bool:
        """Settle a message in doubt beside later ones of its chat, when a backlog has arrived.

        The notice about it holds its place in the chat. Return False if nothing can be settled later.
        """
        key = message.outbound.key
        if message.receipt is not None or self._is_stopped or not self.search_pauses or key in self._searches:
            return False
        task = self._searches[key] = asyncio.ensure_future(self._try_to_settle(message, why))
        task.add_done_callback(lambda _: self._searches.pop(key, None))
        return True

    async def _try_to_settle(self, message: QueuedReply, why: DeliveryError) -> None:
        outbound = message.outbound
        searching = self._settling.setdefault(replace(outbound.address, thread=None), asyncio.Lock())
        for pause in self.search_pauses:
            await asyncio.sleep(pause)
            try:
                async with searching:  # two parts of an answer would find the same messages
                    noticed = await self._send_doubt_notice(outbound)
                    ids = await self._settle_behind(outbound, noticed, may_wait=True) if noticed else ()
                    if ids:
                        await self._record_settled(message, ids)
                        return
            except DeliveryError as unable:
                why = unable
            except Exception as broken:  # noqa: BLE001 - the journal; the next start settles it
                self._log_failure(outbound.address, broken)
                return
        self._mark_unknown(outbound, why, notice=False)
        for notice in self._doubt_notices(outbound)[:-1]:  # one is enough
            for id in self._journal.message_ids_of(notice.key):
                await self._settlement.delete(self._channel_of(outbound.address), outbound, id)

    async def _record_settled(self, message: QueuedReply, ids: tuple[str, ...]) -> None:
        about = self._doubt_notices(message.outbound)
        await self._record_delivered(message, ids)
        self._journal.clear_repeats([message.outbound.key, *(one.key for one in about)])

    async def _record_delivered(self, message: QueuedReply, ids: tuple[str, ...]) -> None:
        self._journal.mark_delivered(message.outbound.key, ids)
        if message.receipt and not message.receipt.done():
            message.receipt.set_result(Receipt(ids))
        self._delete_left_parts(self._journal.turn_of(message.outbound.key), message.outbound)

    def _delete_left_parts(self, turn: str, answer: Outbound) -> None:
        """Delete the parts that a stream left in the chat, once the whole answer is there; else send a notice.

        That is done beside the messages of the chat, as it can take minutes.
        """
        search = notice_key(
            turn, "left"
        )  # the key of the turn is that of its first reply, which is searched too
        if self._is_stopped or search in self._searches:
            return
        if not self._journal.streamed(turn)[1] or not self._can_settle(answer):
            return
        if not self._journal.is_over(turn) or self._journal.has_pending_replies(turn):
            return
        task = self._searches[search] = asyncio.ensure_future(self._search_left_parts(turn, answer))
        task.add_done_callback(lambda _: self._searches.pop(search, None))

    async def _search_left_parts(self, turn: str, answer: Outbound) -> None:
        is_found: bool | None = None
        await self._wait_for_other_threads(turn, answer)
        for pause in (*self.search_pauses, None):
            channel = self._channel_of(answer.address)
            try:
                is_found = await self._settlement.delete_left_parts(
                    channel, turn, answer, is_last=pause is None
                )
            except Exception as broken:  # noqa: BLE001 - the journal; the next start searches
                self._log_failure(answer.address, broken)
                return
            if is_found is not None or pause is None or self._is_stopped:
                break
            await asyncio.sleep(pause)
        if is_found is not False:
            return
        text = t("claw was interrupted here. If an answer above breaks off, the later one is the whole one.")
        about = Outbound(notice_key(turn, "left"), answer.address, text, answers=answer.answers)
        if self._journal.add_reply(turn, about):
            self.enqueue([about])

    async def _find_posted(self, message: QueuedReply) -> DeliveryError | None:
        """Find the message that a stream of an earlier process posted for these words, and replace it.

        Return why the service cannot be asked now; after some tries the words are sent all the same.
        """
        row, turn = message.outbound, self._journal.turn_of(message.outbound.key)
        channel = self._channel_of(row.address)
        is_due = message.searches < _MOST_SEARCHES and not row.replaces
        if not is_due or channel is None or not self._journal.streamed(turn)[1]:
            return None
        if row.key not in self._answer_keys(turn):
            return None
        self._record_delivered_parts(turn, channel)
        stream_row = replace(row, key=turn, text="", buttons=())
        message.searches += 1
        is_over = await recover_streamed(
            channel, stream_row, turn, self._journal, self._log, self.find_seconds
        )
        if posted := self._posted_as(row, turn):
            message.outbound, message.repeated = replace(row, replaces=posted), False
        if posted or is_over:
            message.searches = _MOST_SEARCHES
        if message.searches < _MOST_SEARCHES:
            problem = "the messages of an answer that was cut off cannot be found yet"
            return DeliveryError(problem, outcome_unknown=True)
        return None

    def _answer_keys(self, turn: str) -> list[str]:
        """Return the keys of the texts of an answer, in order."""
        rows = self._journal.replies_of(turn)
        return [
            one.key for one in rows if one.text and (one.key == turn or one.key[len(turn) + 1 :].isdigit())
        ]

    def _posted_as(self, row: Outbound, turn: str) -> tuple[str, ...]:
        """Return the messages of a stream that a part of its answer replaces; the last part replaces all the rest."""
        keys, shown = self._answer_keys(turn), self._journal.streamed(turn)[0]
        if row.key not in keys:
            return ()
        at = keys.index(row.key)
        return shown[at:] if row.key == keys[-1] else shown[at : at + 1]

    def _record_delivered_parts(self, turn: str, channel: Channel) -> None:
        """Record the parts of an answer that were sent one by one as messages of its stream: they are not searched.

        While the service drops repeats they are the messages of the stream, which has the same keys.
        """
        shown, lost = self._journal.streamed(turn)
        if self._journal.age_seconds(turn) >= channel.limits.repeat_seconds:
            return
        known = list(shown)
        for key in self._answer_keys(turn)[len(shown) :]:
            if len(ids := self._journal.message_ids_of(key)) != 1:
                break
            known += ids
        if len(known) > len(shown):
            self._journal.record_streamed(turn, known, max(len(known), len(shown) + lost))

    async def _wait_for_other_threads(self, turn: str, answer: Outbound) -> None:
        """Wait until the messages of other threads of the chat are settled, which a search could not tell from others."""
        for _ in range(_MOST_WAITS):
            if self._is_stopped or not self._journal.lost_beside(turn, answer.address)[1]:
                return
            await asyncio.sleep(_WAIT_SECONDS)

    @contextmanager
    def _on_its_way(self, outbound: Outbound) -> Iterator[None]:
        """Note that a message is with its service, and has no id until the response is recorded."""
        response = asyncio.get_running_loop().create_future()
        self._on_way[response] = replace(outbound.address, thread=None)
        try:
            yield
        finally:
            del self._on_way[response]
            response.set_result(None)

    async def _wait_for_responses(self, address: Address) -> None:
        """Wait until the messages that are on their way to a chat now have ids: a search could not tell them from lost
        ones."""
        here = replace(address, thread=None)
        if sent := [response for response, chat in self._on_way.items() if chat == here]:
            await asyncio.wait(sent)

    async def _stop_searches(self) -> None:
        """Give the searches a short time to end; the next start begins them again."""
        if self._searches:
            await asyncio.wait(self._searches.values(), timeout=self.search_stop_seconds)
        if left := list(self._searches.values()):
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=self._timeouts.grace_seconds)
