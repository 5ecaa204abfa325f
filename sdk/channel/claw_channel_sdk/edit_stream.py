"""Edit-in-place stream: a streaming reply that posts messages and edits them until the answer is complete.

For every service that can edit (Telegram, Discord …): the channel defines how to split, post and edit one message;
this module keeps the pace, the failures and the ids of the posted messages.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from claw import DeliveryError, Outbound, Receipt
from claw.runtime import SYSTEM_CLOCK

_LONGEST_PAUSE_SECONDS = 30.0
_KEY_CHARS = 50  # maximum of Outbound.key
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _PostedMessage:
    """A posted message. ``text`` is None when its present text is unknown.

    ``renewed``: it took the place of one that cannot be edited, and stands behind those that were posted before.
    """

    id: str
    text: str | None
    renewed: bool = False


class EditStream:
    """A :class:`claw_channel_sdk.StreamingReply` over messages that can be edited.

    While the text grows, at most one call is made per pause; states in between are skipped, and a failed edit never
    posts a second message. ``finish`` may be called again after it raised: it continues with the missing parts.

    :param outbound: the address of the answer; its first message quotes ``outbound.reply_to``.
    :param pieces: split a text into texts of one message each; pure.
    :param post: send one message and return its id. Messages after the first have the delivery key ``KEY:1``, …
    :param edit: edit the message of that id. The outbound is given only for the last message of a final text, for its
        other parts, such as buttons. An unchanged text must count as written.
    :param delete: delete a message; None when the service cannot.
    :param pause_seconds: between two calls while the text grows; failures double it.
    :param has_room: is asked before each call while the text grows; false skips that state of the text, such as when the
        service's rate limit is nearly reached.
    :ivar lost: number of posts whose outcome is unknown; a later post took the place of each.
    :ivar on_posted: is called when the id of one more message is known.
    """

    def __init__(
        self,
        outbound: Outbound,
        *,
        pieces: Callable[[str], tuple[str, ...]],
        post: Callable[[Outbound], Awaitable[str]],
        edit: Callable[[str, str, Outbound | None], Awaitable[None]],
        delete: Callable[[str], Awaitable[None]] | None = None,
        pause_seconds: float = 1.0,
        has_room: Callable[[], bool] = lambda: True,
    ) -> None:
        self._outbound, self._pieces = outbound, pieces
        self._post, self._edit, self._delete = post, edit, delete
        self._pause, self._has_room = pause_seconds, has_room
        self._posted: list[_PostedMessage] = []
        self._last_post_unknown = False  # the newest post may have arrived although its id is unknown
        self._repeated = False
        self.lost = 0
        self.on_posted: Callable[[], None] | None = None
        self._text = ""
        self._not_before = SYSTEM_CLOCK.monotonic()
        self._ending = asyncio.Event()
        self._updater: asyncio.Task[None] | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the messages that are posted now."""
        return tuple(one.id for one in self._posted)

    def messages(self, text: str) -> int:
        """Return the number of messages that a text takes."""
        return len(self._pieces(text))

    async def again(self, count: int, known: Sequence[str] = ()) -> None:
        """Post the first messages of this answer once more with the same keys, to learn their ids.

        :param known: ids of the first of them that are known already; these messages are not touched.
        """
        self._posted += [_PostedMessage(id, None) for id in known[len(self._posted) :]]
        for at in range(len(self._posted), count):
            await self._add(at, "…", self._outbound)

    async def show(self, text: str) -> None:
        """Show the whole text so far; return at once."""
        self._text = text
        idle = self._updater is None or self._updater.done()
        if idle and not self._ending.is_set() and self._next(self._pieces(text)) is not None:
            self._updater = asyncio.create_task(self._update())

    async def finish(self, outbound: Outbound) -> Receipt:
        """Write the whole text: edit the posted messages, post the rest, delete the surplus.

        Files are not written here: ``send`` does that.

        :raises DeliveryError: the service did not accept a part of it, or asked for a pause.
        """
        await self._end()
        pieces = self._pieces(outbound.text)
        wait = self._not_before - SYSTEM_CLOCK.monotonic()
        if wait > 0 and pieces:
            raise DeliveryError("the service wants a pause before the next message", retry_after_seconds=wait)
        for at, piece in enumerate(pieces):
            last = outbound if at == len(pieces) - 1 else None
            await self._write_final(at, piece, outbound, last)
        while len(self._posted) > len(pieces):
            if self._delete is not None:
                await delete_surplus(self._await_call(self._delete(self._posted[-1].id)))
            self._posted.pop()
        return Receipt(self.shown, self._repeated)

    async def abandon(self) -> None:
        """End without a final text: the posted messages stay as they are."""
        await self._end()

    async def _end(self) -> None:
        """Stop showing. A running call is awaited, or its message could be posted twice."""
        self._ending.set()
        if self._updater is not None:
            await asyncio.wait({self._updater})
            if not self._updater.cancelled():
                self._updater.exception()  # finish tries again what failed

    async def _update(self) -> None:
        """Write the newest text, one call per pause, until nothing is left to write."""
        next_at = self._not_before
        while True:
            await self._pause_until(max(next_at, self._not_before))
            pieces = self._pieces(self._text)
            at = self._next(pieces)
            if at is None or self._ending.is_set():
                return
            try:
                if self._has_room():
                    await self._show_piece(at, pieces[at])
            except DeliveryError as why:
                if not self._slow_down(why):
                    return
            next_at = SYSTEM_CLOCK.monotonic() + self._pause

    def _next(self, pieces: tuple[str, ...]) -> int | None:
        """Return the first message that does not show its piece; None when all do, or no call would help."""
        if self._last_post_unknown:
            return None
        shown = [one.text for one in self._posted]
        return next((at for at, piece in enumerate(pieces) if at >= len(shown) or shown[at] != piece), None)

    async def _show_piece(self, at: int, piece: str) -> None:
        if at < len(self._posted):
            await self._rewrite(at, piece, None)
        else:
            await self._add(at, piece, self._outbound)

    def _slow_down(self, why: DeliveryError) -> bool:
        """Widen the pause after a failure; return true to go on, false to leave the rest to ``finish``."""
        self._pause = min(max(self._pause, 0.05) * 2, _LONGEST_PAUSE_SECONDS)
        return not (why.permanent or self._last_post_unknown)

    async def _pause_until(self, until: float) -> None:
        """Wait until the next call is due; the end of the answer ends the wait."""
        seconds = until - SYSTEM_CLOCK.monotonic()
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), seconds)

    async def _write_final(self, at: int, piece: str, outbound: Outbound, last: Outbound | None) -> None:
        """Make message ``at`` show its final piece."""
        more = last is not None and bool(last.buttons)
        if at < len(self._posted):
            if at and self._posted[at - 1].renewed and not self._posted[at].renewed:
                await self._replace(at, piece, outbound, last)  # it would stand before its beginning
                return
            if self._posted[at].text == piece and not more:
                return
            try:
                await self._rewrite(at, piece, last)
            except DeliveryError as why:
                if not why.permanent:
                    raise
                await self._replace(at, piece, outbound, last)
            return
        may_be_posted = self._last_post_unknown
        self._repeated |= may_be_posted
        await self._add(at, piece, outbound, last)
        if may_be_posted:  # a service that drops repeated keys still shows the older text
            await self._rewrite(at, piece, last)

    async def _replace(self, at: int, piece: str, outbound: Outbound, last: Outbound | None) -> None:
        """Post a new message in place of one that cannot be edited: it was deleted, or it is too old."""
        gone = self._posted[at].id
        key = self._key(outbound.key, at, mark="r")
        id = await self._await_call(self._post(self._message(at, piece, outbound, last, key)))
        self._posted[at] = _PostedMessage(id, piece, renewed=True)
        await self._try_delete(gone)

    async def _add(self, at: int, piece: str, outbound: Outbound, last: Outbound | None = None) -> None:
        message = self._message(at, piece, outbound, last, self._key(outbound.key, at))
        try:
            id = await self._await_call(self._post(message))
        except DeliveryError as why:
            self._last_post_unknown = why.outcome_unknown
            self.lost += why.outcome_unknown
            raise
        self._last_post_unknown = False
        self._posted.append(_PostedMessage(id, piece))
        if self.on_posted:
            self.on_posted()

    async def _rewrite(self, at: int, piece: str, last: Outbound | None) -> None:
        message = self._posted[at]
        try:
            await self._await_call(self._edit(message.id, piece, last))
        except DeliveryError as why:
            if not why.outcome_unknown:
                raise
            self._posted[at] = replace(message, text=None)
            raise _repeatable(why) from why
        self._posted[at] = replace(message, text=piece)

    async def _try_delete(self, id: str) -> None:
        """Delete a message and ignore failures: the final text is posted already."""
        if self._delete is not None:
            with contextlib.suppress(DeliveryError):
                await self._delete(id)

    async def _await_call(self, call: Awaitable[_T]) -> _T:
        """Await a call; record the pause that the service asks for."""
        try:
            return await call
        except DeliveryError as why:
            if why.retry_after_seconds is not None:
                self._not_before = SYSTEM_CLOCK.monotonic() + why.retry_after_seconds
            raise

    @staticmethod
    def _message(at: int, piece: str, outbound: Outbound, last: Outbound | None, key: str) -> Outbound:
        return replace(
            outbound,
            key=key,
            text=piece,
            reply_to=outbound.reply_to if at == 0 else None,
            buttons=last.buttons if last else (),
            attachments=(),
            replaces=(),
        )

    @staticmethod
    def _key(key: str, at: int, mark: str = "") -> str:
        """Return the delivery key of a message of one answer; the first has the answer's own."""
        end = f":{mark}{at}" if at or mark else ""
        return key[-(_KEY_CHARS - len(end)) :] + end


async def delete_surplus(deletion: Awaitable[object]) -> None:
    """Await the deletion of a message that the whole answer does not need.

    :raises DeliveryError: temporary, of known outcome: the answer has to be written again, as the message would stay
        beside it.
    """
    try:
        await deletion
    except DeliveryError as why:
        if not why.permanent:
            raise _repeatable(why) from why


def _repeatable(why: DeliveryError) -> DeliveryError:
    """Return the failure of an edit or a deletion as one that may be repeated: it may be made twice."""
    after = why.retry_after_seconds
    return DeliveryError("{why}", permanent=why.permanent, retry_after_seconds=after, why=why)
