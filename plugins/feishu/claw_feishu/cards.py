"""Streaming replies on cards (CardKit).

The rules, from the open platform's pages on streaming cards: each update carries the whole text so far and a sequence
that increases with every call on the card; at most ten calls a second; ``streaming_mode`` is switched off at the
end, always, or the chat list says "generating" for ever.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from uuid import uuid4

from claw import Button, DeliveryError, Outbound, Receipt

from claw_feishu.outbound import ELEMENT, Form, card_form, card_json, card_pieces, once, text_form
from claw_feishu.tenant import SEQUENCE_BEHIND, STREAM_CLOSED, FeishuError, Tenant

CARDS = "/open-apis/cardkit/v1/cards"
MOST_PACE_SECONDS = 5.0
CALL_SECONDS = 5.0
LONGEST_WAIT_SECONDS = 3.0
"""Longest pause, asked for by the service, that the final write waits out itself."""
LEAP = 1_000_000
"""Increment of the sequence after a takeover: a process that finishes the card of another does not know its
sequence, so it jumps beyond any earlier write and any that the service has yet to carry out."""
LEAPS = 5
TAKE_BACKS = 3
"""Number of tries to delete an empty card when an answer ends without a text."""

Post = Callable[[Form, str], Awaitable[str]]
"""Function that sends one form as a reply, under a uuid, and returns the message id."""


class Card:
    """One card in a chat.

    :ivar message_id: the message that shows it; empty until it is sent.
    :ivar text: what it shows.
    :ivar open: streaming mode is on.
    """

    def __init__(self, tenant: Tenant, card_id: str, message_id: str = "") -> None:
        self._tenant, self.card_id, self.message_id = tenant, card_id, message_id
        self._sequence, self.text, self.open = 0, "", True
        self._write_prefix = uuid4().hex  # keeps equal sequences of two processes from looking like repeats

    @classmethod
    async def made(cls, tenant: Tenant) -> "Card":
        """Create an empty card that is in no chat yet."""
        body = {"type": "card_json", "data": _json(card_json("", streaming=True))}
        answer = await tenant.call("POST", CARDS, body, timeout_seconds=CALL_SECONDS)
        return cls(tenant, str(answer["data"]["card_id"]))

    @classmethod
    async def found(cls, tenant: Tenant, message_id: str) -> "Card":
        """Return the card of a message, also one that another process began."""
        answer = await tenant.call("POST", f"{CARDS}/id_convert", {"message_id": message_id})
        card = cls(tenant, str(answer["data"]["card_id"]), message_id)
        card._sequence = LEAP
        return card

    async def write(self, text: str) -> None:
        """Set the whole text."""
        if self.open:
            try:
                await self._change("PUT", f"/elements/{ELEMENT}/content", {"content": text})
            except FeishuError as why:
                if why.code not in STREAM_CLOSED:
                    raise
                self.open = False
        if not self.open:
            await self.replace(text)
        self.text = text

    async def close(self) -> None:
        """Switch streaming mode off."""
        if self.open:
            await self._change(
                "PATCH", "/settings", {"settings": _json({"config": {"streaming_mode": False}})}
            )
            self.open = False

    async def replace(self, text: str, buttons: tuple[Button, ...] = ()) -> None:
        """Replace the card: text and buttons."""
        await self._change(
            "PUT", "", {"card": {"type": "card_json", "data": _json(card_json(text, buttons))}}
        )
        self.text, self.open = text, False

    async def _change(self, method: str, path: str, body: dict[str, Any]) -> None:
        for left in range(LEAPS, -1, -1):
            self._sequence += 1
            uuid = once(self.card_id, self._write_prefix, self._sequence)
            numbered = {**body, "sequence": self._sequence, "uuid": uuid}
            where = f"{CARDS}/{self.card_id}{path}"
            try:
                await self._tenant.call(method, where, numbered, timeout_seconds=CALL_SECONDS)
            except FeishuError as why:
                if why.code != SEQUENCE_BEHIND or not left:
                    raise
                self._sequence += LEAP
            else:
                return


class CardStream:
    """Writer that shows a streaming reply on cards. A text that cards cannot take is sent as messages when complete.

    :param post: posts a reply to the inbound message.
    :param send: sends a complete answer without cards, for when cards fail.
    :param recall: deletes a message.
    """

    def __init__(
        self,
        tenant: Tenant,
        outbound: Outbound,
        *,
        post: Post,
        send: Callable[[Outbound], Awaitable[Receipt]],
        recall: Callable[[str], Awaitable[None]],
        pace_seconds: float,
    ) -> None:
        self._tenant, self._key = tenant, outbound.key
        self._post, self._send, self._recall = post, send, recall
        self._pace = pace_seconds
        self._paused_until = 0.0
        self._cards: list[Card] = []
        self._unsent: Card | None = None
        self._wanted = ""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._cards_fail = False
        self._refused: FeishuError | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """Message ids of the cards."""
        return tuple(card.message_id for card in self._cards)

    def messages(self, text: str) -> int:
        """Return the number of cards that a text needs."""
        return len(card_pieces(text))

    async def again(self, count: int, known: Sequence[str] = ()) -> None:
        """Find the first cards by their uuids, to learn their message ids.

        :param known: ids of the first of them that are known already; these cards are not touched.
        :raises LookupError: no further card had been posted: the rest of the answer may have been sent as messages.
        """
        for message_id in known[len(self._cards) :]:
            card = Card(self._tenant, "", message_id)
            card.open = False
            self._cards.append(card)
        for at in range(len(self._cards), count):
            self._cards.append(await self._find(at))

    async def _find(self, at: int) -> Card:
        """Return the card that was posted under a uuid: a text is sent under it, and the service returns the card.

        The text is new, or one that a process before has sent for this: it is deleted. A card in its place would be taken
        for one of the stream by the next process, beside the messages as which the answer was sent.
        """
        message_id = await self._post(text_form("…"), self._uuid(at))
        try:
            return await Card.found(self._tenant, message_id)
        except FeishuError as why:
            if not why.permanent:
                raise
        try:
            await self._recall(message_id)
        except FeishuError as why:
            if not why.permanent:
                raise
        raise LookupError("no further card had been posted")

    def _uuid(self, at: int) -> str:
        return once(self._key, "card", at)

    async def show(self, text: str) -> None:
        """Take the newest text; a task writes it at most every ``pace_seconds``."""
        if not text.strip() or self._cards_fail or self._refused:
            return
        self._wanted = text
        if not self._cards:  # written at once, so that recovery after a crash knows the message
            if _now() >= self._paused_until:
                await self._try_write(text)
            return
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._keep_writing(), name="feishu card")

    async def finish(self, outbound: Outbound) -> Receipt:
        """Write the final text and close the cards."""
        await self._stop()
        if self._refused and not self._cards:
            raise self._refused
        if self._cards_fail or not (self._cards or self._unsent):
            return await self._send_as_messages(outbound)
        try:
            await self._complete_after_pause(outbound)
        except FeishuError as why:
            if not why.permanent:
                raise
            return await self._send_as_messages(outbound)
        return Receipt(self.shown)

    async def abandon(self) -> None:
        """Close the cards unchanged."""
        await self._stop()
        for card in self._cards:
            with suppress(DeliveryError):
                await card.close()
        for _ in range(TAKE_BACKS):
            with suppress(DeliveryError):
                await self._recall_unsent()

    async def _keep_writing(self) -> None:
        """Run as the one writing task, awaited by ``finish`` or ``abandon``."""
        while not self._cards_fail:
            await asyncio.sleep(max(self._pace, self._paused_until - _now()))
            await self._changed.wait()
            self._changed.clear()
            await self._try_write(self._wanted)

    async def _try_write(self, text: str) -> None:
        """Write; note when the service is busy or refuses cards. Raise nothing."""
        try:
            await self._write(card_pieces(text))
        except FeishuError as why:
            self._cards_fail = why.is_about_form
            self._refused = why if why.permanent and not why.is_about_form else None
            self._pace = min(self._pace * 2, MOST_PACE_SECONDS)
            self._paused_until = _now() + (why.retry_after_seconds or self._pace)
            self._changed.set()

    async def _write(self, pieces: tuple[str, ...]) -> None:
        for at, piece in enumerate(pieces):
            if at >= len(self._cards):
                await self._close_all()
                self._cards.append(await self._next_card(at))
            if self._cards[at].text != piece:
                await self._cards[at].write(piece)

    async def _next_card(self, at: int) -> Card:
        """Return the next card, sent. A created card whose post failed is posted again: its uuid may have been used."""
        card = self._unsent = self._unsent or await Card.made(self._tenant)
        card.message_id = await self._post(card_form(card.card_id), self._uuid(at))
        self._unsent = None
        return card

    async def _recall_unsent(self) -> None:
        """Delete an empty card whose post was not confirmed, where the answer no longer needs it."""
        if self._unsent and not self._cards_fail and not self._refused:
            self._cards.append(await self._next_card(len(self._cards)))
            await self._recall(self._cards[-1].message_id)
            del self._cards[-1]

    async def _close_all(self) -> None:
        for card in self._cards:
            await card.close()

    async def _complete_after_pause(self, outbound: Outbound) -> None:
        """Write everything after the pause that the service asked for; leave a long pause to the gateway."""
        until = _now() + LONGEST_WAIT_SECONDS
        while True:
            if self._paused_until > until:
                raise FeishuError(
                    "Feishu is rate limiting requests", retry_after_seconds=self._paused_until - _now()
                )
            await asyncio.sleep(self._paused_until - _now())
            try:
                return await self._complete(outbound)
            except FeishuError as why:
                if why.retry_after_seconds is None:
                    raise
                self._paused_until = _now() + why.retry_after_seconds

    async def _complete(self, outbound: Outbound) -> None:
        pieces = card_pieces(outbound.text)
        await self._write(pieces)
        await self._close_all()
        while len(self._cards) > len(pieces):
            await self._recall(self._cards[-1].message_id)
            del self._cards[-1]
        await self._recall_unsent()
        if outbound.buttons:
            await self._cards[-1].replace(self._cards[-1].text, outbound.buttons)

    async def _send_as_messages(self, outbound: Outbound) -> Receipt:
        """Send the whole text as a usual message; delete the partial cards or at least close them."""
        receipt = await self._send(outbound)
        for card in self._cards:
            try:
                await self._recall(card.message_id)
            except DeliveryError:
                with suppress(DeliveryError):
                    await card.close()
        self._cards = []
        return receipt

    async def _stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])


def _now() -> float:
    return asyncio.get_running_loop().time()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
