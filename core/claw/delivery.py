"""Delivery: everything that is owed leaves here, in order within a chat, chats beside each other.

Each message is noted in the ledger before it is handed to its channel and after. What a death or a lost response leaves
between the two is sent again only where the service drops repeats; elsewhere it stays in doubt, and chat and owner
are told (window W1 of the plan).
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from claw.channel import Channel, Writer
from claw.clock import SYSTEM, Clock
from claw.errors import DeliveryError
from claw.failpoint import reach
from claw.journal import Journal, Owed
from claw.live import find_again, messages_of
from claw.message import Address, Outbound, Receipt
from claw.report import PLACE, place_of
from claw.wall import Leeway, name_of, within
from claw.words import say

TRIES = 8
"""Of one message, when the service fails in a passing way; the pauses double from half a second to a minute."""
STRANGE_TRIES = 3
"""Of a message whose channel raises what the contract does not know: a bug seldom passes."""
OLDEST_SECONDS = 24 * 3600.0
"""What is owed longer than this is not sent any more: nobody waits for it, and a week-old answer frightens people."""
_DOUBT = (
    "I cannot tell whether a message of mine has arrived here. If one is missing, please ask me for it again."
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
_MOST_PATIENCE = 900.0  # a service that asks for a longer pause than this is asked again then

Complain = Callable[[str], None]


class _Strange(DeliveryError):
    """A channel raised what the contract does not know."""


@dataclass
class _Letter:
    """One message on its way, and who waits for it.

    :ivar repeated: a part of it may stand there already, by another way: that is looked for, or its next send is marked.
    """

    outbound: Outbound
    repeated: bool = False
    arrived: "asyncio.Future[Receipt] | None" = None


@dataclass
class _Growing:
    """A reply that people watch: its writer, the whole text, the rows that it pays, the channel of the writer."""

    writer: Writer
    whole: Outbound
    rows: Sequence[Outbound]
    of: Channel | None


@dataclass(frozen=True)
class _Settled:
    """Nothing more is said about this message: its channel may take back its signs of life."""

    address: Address
    message_id: str


class Delivery:
    """The way out of the house.

    :param channel_of: the channel of an address; None when nobody listens there any more.
    """

    def __init__(
        self,
        journal: Journal,
        channel_of: Callable[[Address], Channel | None],
        complain: Complain,
        leeway: Leeway,
        clock: Clock = SYSTEM,
    ) -> None:
        self._journal, self._channel_of, self._complain = journal, channel_of, complain
        self._leeway, self._clock = leeway, clock
        self._chats: dict[Address, deque[_Letter | _Growing | _Settled]] = {}
        self._workers: dict[Address, asyncio.Task[None]] = {}

    def busy(self, address: Address) -> bool:
        """Whether something is on its way to this chat."""
        return replace(address, thread=None) in self._workers

    def post(self, owed: Sequence[Outbound], repeated: bool = False) -> None:
        """Send what is in the ledger already."""
        for outbound in owed:
            self._enqueue(outbound.address, _Letter(outbound, repeated))

    def finish(
        self, writer: Writer, whole: Outbound, rows: Sequence[Outbound], of: Channel | None = None
    ) -> None:
        """Let a reply that people watch become its final text; it pays ``rows``.

        :param of: the channel that made the writer; None = the one that listens.
        """
        self._enqueue(whole.address, _Growing(writer, whole, rows, of or self._channel_of(whole.address)))

    def settle(self, address: Address, message_id: str) -> None:
        """A message was dealt with without a turn; its channel hears so, behind what is on its way to that chat."""
        if hasattr(self._channel_of(address), "settled"):
            self._enqueue(address, _Settled(address, message_id))

    async def say(self, turn: str, outbound: Outbound) -> Receipt:
        """Owe one message more, send it, and wait for what the service says.

        :raises DeliveryError: it was refused.
        """
        if not self._journal.owe(turn, outbound):
            return Receipt()
        arrived: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._enqueue(outbound.address, _Letter(outbound, arrived=arrived))
        return await arrived

    def recover(self) -> None:
        """At start: send what a death left, unless it is too old, or may have arrived and a repeat would show."""
        now = self._clock.now()
        for one in self._journal.owed():
            age = now - one.owed_at_ms / 1000
            if age > OLDEST_SECONDS:
                self._give_up(one, "expired", say("it was owed for more than a day"))
            elif one.sending and not (one.outbound.replaces or self._is_known(one, age)):
                if self._may_stand(one):  # beside what is in doubt itself
                    self._journal.sending(one.outbound.key, repeated=True)
                self._in_doubt(one.outbound, say("claw stopped while it was sent"))
            else:
                is_news = not one.repeated or self._drops_repeats(one.outbound.address)
                self.post([one.outbound], repeated=is_news and self._may_stand(one))

    def _is_known(self, one: Owed, age: float) -> bool:
        """Whether its service shows it once, however often it is sent: it knows the key, or the message to change."""
        if self._drops_repeats(one.outbound.address, age):
            return True
        is_first = one.outbound.key == one.turn and bool(one.outbound.text)
        shown = is_first and self._drops_repeats(one.outbound.address) and self._journal.standing(one.turn)[0]
        return bool(shown)

    def _may_stand(self, one: Owed) -> bool:
        """A stream may have posted it, and had no time to note where."""
        shown, lost = self._journal.standing(one.turn)
        return bool(lost or (shown and one.outbound.text and not one.outbound.replaces))

    async def stopped(self, seconds: float) -> None:
        """Let what is on its way go out for so long; the rest stays owed, for the next start."""
        if self._workers:
            await asyncio.wait(self._workers.values(), timeout=seconds)
        left = list(self._workers.values())
        for worker in left:
            worker.cancel()
        if left:
            await asyncio.wait(left, timeout=self._leeway.grace_seconds)

    def _drops_repeats(self, address: Address, age_seconds: float = 0.0) -> bool:
        """Whether a message that was owed so long ago shows once there, however often it is sent."""
        channel = self._channel_of(address)
        if channel is None or "idempotent" not in channel.capabilities:
            return False
        return age_seconds < channel.limits.repeat_seconds

    def _give_up(self, one: Owed, state: str, why: str) -> None:
        self._journal.failed(one.outbound.key, state, why)
        self._complain(
            say("channel {name}: an answer was not sent: {why}", name=one.outbound.address.channel, why=why)
        )

    def _in_doubt(self, outbound: Outbound, why: object, *, notice: bool = True) -> None:
        """Nobody knows whether it stands there, and a repeat might show twice: it is not sent again, and told.

        :param notice: in its chat too, once for each turn.
        """
        turn = self._journal.turn_of(outbound.key)
        told = Outbound(f"{turn}:doubt", outbound.address, say(_DOUBT), answers=outbound.answers)
        notice = notice and not isinstance(
            why, _Strange
        )  # a channel with a bug is not asked for one message more
        if notice and outbound.key != told.key and self._journal.owe(turn, told):
            self.post([told])
        self._journal.failed(outbound.key, "unknown", say("whether it arrived is unknown: {why}", why=why))
        self._complain(
            say(
                "channel {name}: whether an answer arrived is unknown, and it is not sent again: {why}",
                name=outbound.address.channel,
                why=why,
            )
        )

    def _enqueue(self, address: Address, letter: _Letter | _Growing | _Settled) -> None:
        place = replace(address, thread=None)  # services count per chat
        self._chats.setdefault(place, deque()).append(letter)
        if place not in self._workers:
            self._workers[place] = asyncio.ensure_future(self._work(place))

    async def _work(self, place: Address) -> None:
        waiting = self._chats[place]
        PLACE.set(place_of(place))
        try:
            while waiting:
                letter = waiting.popleft()
                try:
                    await self._one(letter)
                except Exception as broken:  # noqa: BLE001 - one message; the ledger keeps it for the next start
                    self._complain(
                        say("channel {name} failed: {why}", name=place.channel, why=name_of(broken))
                    )
                    if isinstance(letter, _Letter) and letter.arrived and not letter.arrived.done():
                        letter.arrived.set_exception(broken)
        finally:  # no await between the last look and this: what comes later gets a worker of its own
            del self._workers[place], self._chats[place]

    async def _one(self, letter: _Letter | _Growing | _Settled) -> None:
        if isinstance(letter, _Growing):
            await self._end(letter)
        elif isinstance(letter, _Letter):
            await self._send(letter)
        else:
            await self._settle(letter)

    async def _settle(self, settled: _Settled) -> None:
        channel: Any = self._channel_of(settled.address)
        try:
            told = channel.settled(settled.address, settled.message_id)
            await within(self._leeway.send_seconds, told, self._leeway.grace_seconds)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            self._blame(settled.address, why)

    def _blame(self, address: Address, why: Exception) -> None:
        self._complain(say("channel {name} failed: {why}", name=address.channel, why=name_of(why)))

    async def _end(self, growing: _Growing) -> None:
        """The final text through the writer; if the service refuses that, as messages of their own."""
        mark = not self._drops_repeats(growing.whole.address)
        note = not self._drops_repeats(growing.whole.address, OLDEST_SECONDS)
        receipt, doubt, pause = None, None, _FIRST_PAUSE
        for _ in range(TRIES):
            self._handed_over(growing, note)
            self._expect(growing)
            try:
                receipt = await within(
                    self._leeway.send_seconds,
                    growing.writer.finish(growing.whole),
                    self._leeway.grace_seconds,
                )
                break
            except DeliveryError as failed:
                if failed.permanent and not growing.writer.shown:
                    for (
                        row
                    ) in growing.rows:  # nothing stands that could not be changed: the chat takes nothing
                        self._refused(row, failed)
                    return
                doubt = failed if failed.outcome_unknown else None
                if failed.permanent or (doubt and mark) or self._is_former(growing):
                    break  # where repeats are dropped the writer asks again, under the same key as before
                self._held_up(growing, bool(doubt))
                await asyncio.sleep(_waiting(failed, pause))
                pause = min(2 * pause, _LONGEST_PAUSE)
            except Exception as why:  # noqa: BLE001 - a stranger's code
                self._blame(growing.whole.address, why)
                doubt = _Strange("{why}", outcome_unknown=True, why=name_of(why))
                break
        if receipt is None:
            await self._apart(growing, doubt if mark else None)
            return
        if receipt.repeated and mark:
            self._journal.sending(growing.rows[0].key, repeated=True)
        reach("service-took")
        self._journal.paid(growing.rows[0].key, receipt.message_ids, [row.key for row in growing.rows[1:]])

    def _is_former(self, growing: _Growing) -> bool:
        """A new configuration has put another channel in the place of the writer's, which may never hear again."""
        return self._channel_of(growing.whole.address) is not growing.of

    def _expect(self, growing: _Growing) -> None:
        """Before more messages stand there than are known: a death behind their post must know that they may."""
        shown = tuple(growing.writer.shown)
        if (expected := self._expected(growing)) > max(1, len(shown)):
            self._journal.shown(self._journal.turn_of(growing.rows[0].key), shown, expected)

    def _expected(self, growing: _Growing) -> int:
        channel = self._channel_of(growing.whole.address)
        return messages_of(growing.writer, channel, growing.whole.text) if channel else 1

    def _held_up(self, growing: _Growing, may_stand: bool) -> None:
        """Another try comes later; a start before it must know what stands there by now."""
        if shown := tuple(growing.writer.shown):
            turn = self._journal.turn_of(growing.rows[0].key)
            self._journal.shown(turn, shown, self._expected(growing))
        elif not may_stand:
            for row in growing.rows:
                self._journal.postponed(row.key)

    def _handed_over(self, growing: _Growing, note: bool) -> None:
        if note:
            for row in growing.rows:
                self._journal.sending(row.key)
        reach("sending-noted")

    async def _apart(self, growing: _Growing, doubt: DeliveryError | None) -> None:
        """The final text as messages of their own, in the place of what stands there.

        :param doubt: the message behind those may stand too.
        """
        shown = tuple(growing.writer.shown)
        for at, row in enumerate(growing.rows):
            mine = shown[at : at + 1] if at < len(growing.rows) - 1 else shown[at:]
            if doubt and not mine:
                self._journal.sending(
                    row.key, repeated=True
                )  # while it grew a post may have been lost as well
                self._in_doubt(row, doubt)
                doubt = None
                continue
            self._journal.postponed(row.key)
            await self._send(_Letter(replace(row, replaces=mine)))

    async def _send(self, letter: _Letter) -> None:
        """Try until it stands there, is refused, is in doubt, or the tries are over."""
        if letter.repeated and self._drops_repeats(letter.outbound.address):
            await self._look_for(letter)
        outbound, pause, tries = letter.outbound, _FIRST_PAUSE, 0
        while failed := await self._try(letter):
            tries += 1
            most = STRANGE_TRIES if isinstance(failed, _Strange) else TRIES
            if failed.outcome_unknown and not self._drops_repeats(outbound.address):
                self._in_doubt(outbound, failed, notice=letter.arrived is None)
            elif failed.permanent or tries == most:
                self._refused(outbound, failed)
            else:
                letter.repeated = False  # that is marked by now
                if not failed.outcome_unknown:
                    self._journal.postponed(outbound.key)
                await asyncio.sleep(_waiting(failed, pause))
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if letter.arrived and not letter.arrived.done():
                letter.arrived.set_exception(failed)
            return

    async def _look_for(self, letter: _Letter) -> None:
        """A message may stand where a stream of a process before this one posted its words: it goes there."""
        row, turn = letter.outbound, self._journal.turn_of(letter.outbound.key)
        channel, rows = self._channel_of(row.address), self._journal.said(turn)
        keys = [
            one.key for one in rows if one.text and (one.key == turn or one.key[len(turn) + 1 :].isdigit())
        ]
        if row.key not in keys or channel is None:
            return
        await find_again(channel, replace(row, key=turn, text="", buttons=()), turn, self._journal)
        at, shown = keys.index(row.key), self._journal.standing(turn)[0]
        if mine := shown[at:] if row.key == keys[-1] else shown[at : at + 1]:
            letter.outbound, letter.repeated = replace(row, replaces=mine), False

    def _refused(self, outbound: Outbound, failed: DeliveryError) -> None:
        self._journal.failed(outbound.key, "refused", str(failed))
        self._complain(
            say("channel {name}: an answer was not sent: {why}", name=outbound.address.channel, why=failed)
        )

    async def _try(self, letter: _Letter) -> DeliveryError | None:
        outbound = letter.outbound
        channel = self._channel_of(outbound.address)
        if channel is None:
            return DeliveryError("there is no channel {name}", permanent=True, name=outbound.address.channel)
        if letter.repeated or not self._drops_repeats(outbound.address, OLDEST_SECONDS):
            self._journal.sending(outbound.key, letter.repeated)
        reach("sending-noted")
        try:
            receipt = await within(
                self._leeway.send_seconds, channel.send(outbound), self._leeway.grace_seconds
            )
        except DeliveryError as failed:
            return failed
        except TimeoutError as late:
            self._blame(outbound.address, late)  # at once: the tries after it may take minutes
            late_edit = bool(outbound.replaces)  # which does no harm twice
            return DeliveryError("the service did not answer in time", outcome_unknown=not late_edit)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            return _Strange("{why}", outcome_unknown=not outbound.replaces, why=name_of(why))
        ids = tuple(getattr(receipt, "message_ids", ()))
        reach("service-took")
        self._journal.paid(outbound.key, ids)
        if letter.arrived and not letter.arrived.done():
            letter.arrived.set_result(Receipt(ids))
        return None


def _waiting(failed: DeliveryError, pause: float) -> float:
    """Seconds until the next try: what the service asked for, else the pause; with a jitter, as many chats may wait."""
    asked = failed.retry_after_seconds
    if asked is None:
        return pause * random.uniform(0.8, 1.2)
    return min(asked, _MOST_PATIENCE) * random.uniform(1.0, 1.1)
