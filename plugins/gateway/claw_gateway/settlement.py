"""Settlement of messages with an unknown outcome, on services that can find messages of ours (``find_sent``).

A later message in the chat bounds the search. For a reply in doubt that message is a notice; the reply then takes the
place of what is found, or of the notice. For parts that a stream left, it is the whole answer; they are deleted. Every
step can be repeated, so a crash in between costs nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from claw import Address, Channel, DeliveryError, Outbound, t
from claw.runtime import Timeouts, describe_exception, within

from claw_gateway.journal import Journal

_KEY_CHARS = 50
_SEARCH_SECONDS = 300.0  # in the background, at the pace that the limits of the service leave
_ANSWERS = frozenset({"stop", "length"})
_NOTICES = (":doubt", ":cut", ":left", ":wait")
_T = TypeVar("_T")


def is_notice(outbound: Outbound) -> bool:
    """Return true if a message is a notice in place of an answer: it may be in the chat twice, and must be there once."""
    return outbound.key.endswith(_NOTICES) or outbound.stop_reason not in _ANSWERS


def notice_key(key: str, kind: str) -> str:
    """Return the delivery key of the notice about another message, or about a turn."""
    return f"{key[-(_KEY_CHARS - len(kind) - 1) :]}:{kind}"


def doubt_notice(outbound: Outbound, key: str, number: int = 0) -> Outbound:
    """Return the notice to a chat that a message may be missing.

    :param key: of that message, or of its turn.
    :param number: how often the message was sent again; each time needs a notice behind it.
    """
    text = t("I do not know if my last message arrived here. If one is missing, please ask me for it again.")
    kind = f"again{number}:doubt" if number else "doubt"  # KEY:1 is the key of the second part of an answer
    return Outbound(notice_key(key, kind), outbound.address, text, answers=outbound.answers)


class Settlement:
    """Finds lost messages and puts their chats in order.

    :param pause: seconds to wait after a failed call, by the failure and the present pause.
    """

    def __init__(
        self,
        journal: Journal,
        timeouts: Timeouts,
        pause: Callable[[DeliveryError, float], float],
        tries: int,
        pauses: tuple[float, float],
    ) -> None:
        self._journal, self._timeouts = journal, timeouts
        self._pause, self._tries, self._pauses = pause, tries, pauses

    @staticmethod
    def is_possible(channel: Channel | None) -> bool:
        """Return true if the service can find messages of ours, edit and delete them."""
        return all(hasattr(channel, name) for name in ("find_sent", "edit", "delete"))

    async def settle(
        self,
        channel: Any,
        outbound: Outbound,
        notices: tuple[str, ...],
        *,
        is_alone: bool = True,
        may_wait: bool = False,
    ) -> tuple[str, ...]:
        """Make a message with an unknown outcome appear once; return its ids.

        :param notices: ids of the delivered notices about it; the last one is behind its last send.
        :param is_alone: no other message of the chat is unknown. If one is, what is found cannot be told from it: all is
            deleted, and the message takes the place of the last notice, or is sent again.
        :param may_wait: no message of the chat waits for it.
        :raises DeliveryError: it is still unknown if it is there; the notices stay.
        """
        since_ms = self._journal.reply_time_ms(outbound.key)
        search = self._journal.search_of(outbound.address, since_ms, notices[-1], may_wait=may_wait)
        seconds = _SEARCH_SECONDS if may_wait else None
        found: tuple[str, ...] = await self._repeat(lambda: channel.find_sent(search), seconds)
        known = self._journal.known_since(outbound.address, since_ms)  # also what arrived during the search
        found = tuple(id for id in found if (outbound.address.chat, id) not in known)
        itself = found[-1:] if is_alone else ()
        if outbound.attachments:
            ids = itself or await self._send_file_again(channel, outbound, found)
        else:
            place = replace(outbound, replaces=itself or notices[-1:])
            ids = (await self._repeat(lambda: channel.send(place))).message_ids
        for id in (*found, *notices):
            if id not in ids:
                await self.delete(channel, outbound, id)
        return tuple(ids)

    async def delete_left_parts(
        self, channel: Any, turn: str, answer: Outbound, *, is_last: bool
    ) -> bool | None:
        """Delete what a stream of an ended turn left beside its whole answer; return False if it cannot be found.

        What is known goes at once; the search for the rest may take minutes. It may find what streams in other threads
        of the chat left, once the whole answers there are delivered: that is deleted too.

        :param answer: a delivered message of that turn.
        :param is_last: if not, return None when the search fails.
        """
        whole = self._journal.delivered_ids(turn)
        shown, lost = self._journal.streamed(turn)
        for id in shown:
            if id not in whole:
                await self.delete(channel, answer, id)
        self._journal.record_streamed(turn, whole, len(whole) + lost)
        began_at_ms = self._journal.began_at_ms(turn)
        search = self._journal.search_of(answer.address, began_at_ms, whole[-1], may_wait=True)
        try:
            found: tuple[str, ...] = await self._repeat(lambda: channel.find_sent(search), _SEARCH_SECONDS)
        except DeliveryError:
            if not is_last:
                return None
            found = ("",) * (lost + 1)
        beside, is_open = self._journal.lost_beside(turn, answer.address)
        if len(found) > lost and is_open and not is_last:
            return None
        beside += self.repeated_notices(answer.address, began_at_ms)
        is_found = len(found) <= lost + (0 if is_open else beside)
        for id in found if is_found else ():
            if id not in whole:
                await self.delete(channel, answer, id)
        self._journal.record_streamed(turn, whole)
        if is_found:
            self._journal.clear_repeated(turn)
        return is_found

    def repeated_notices(self, address: Address, since_ms: int) -> int:
        """Return how many messages of a chat repeat a notice that was delivered since a time: their ids are unknown."""
        repeated = self._journal.repeated_since(address, since_ms)
        return sum(count for outbound, count in repeated if is_notice(outbound))

    async def _send_file_again(
        self, channel: Any, outbound: Outbound, found: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Send a file that is not there, or that cannot be told from other messages: what is found is deleted first.

        It is recorded before, so that a later search has a notice behind this send too. A rate limit is waited for, as
        nothing was sent then.
        """
        for id in found:
            await self._repeat(partial(channel.delete, outbound.address, id))
        self._journal.mark_sending(outbound.key, repeated=True)
        while True:
            if hasattr(channel, "wait_for_rate_limit"):
                await channel.wait_for_rate_limit(outbound.address)
            try:
                return tuple((await self._call(channel.send(outbound))).message_ids)
            except DeliveryError as failed:
                if failed.retry_after_seconds is None or failed.permanent or failed.outcome_unknown:
                    if not failed.outcome_unknown:
                        self._journal.take_back_repeat(outbound.key)
                    raise
                await asyncio.sleep(self._pause(failed, 0.0))

    async def delete(self, channel: Any, of: Outbound, id: str) -> None:
        """Delete a message of a chat; one that is not there, or cannot be deleted, stays as it is."""
        with suppress(DeliveryError):
            await self._repeat(lambda: channel.delete(of.address, id))

    async def _repeat(self, call: Callable[[], Awaitable[_T]], seconds: float | None = None) -> _T:
        """Make a call that may be made twice, until it succeeds or is refused, or the tries are used up.

        :param seconds: timeout of each try; None = that of a send.
        """
        (pause, longest), tries = self._pauses, self._tries
        while True:
            try:
                return await self._call(call(), seconds)
            except DeliveryError as failed:
                tries -= failed.retry_after_seconds is None
                if failed.permanent or not tries:
                    raise
                await asyncio.sleep(self._pause(failed, pause))
                if failed.retry_after_seconds is None:
                    pause = min(2 * pause, longest)

    async def _call(self, asked: Awaitable[_T], seconds: float | None = None) -> _T:
        try:
            return await within(seconds or self._timeouts.send_seconds, asked, self._timeouts.grace_seconds)
        except TimeoutError:
            raise DeliveryError("the service did not answer in time", outcome_unknown=True) from None
        except DeliveryError:
            raise
        except Exception as why:
            raise DeliveryError(
                "{why}", permanent=True, outcome_unknown=True, why=describe_exception(why)
            ) from why
