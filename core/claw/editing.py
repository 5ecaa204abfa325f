"""A reply that grows in messages which can be edited: one message is posted, and rewritten until the answer is whole.

For every service that can edit (Telegram, Discord …): the channel says how to cut, to post and to edit one message;
the pace, the failures and the ids of what stands are kept here.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from claw.clock import SYSTEM, Clock
from claw.errors import DeliveryError
from claw.message import Outbound, Receipt

_LONGEST_PAUSE_SECONDS = 30.0
_KEY_CHARS = 50  # of Outbound.key
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Standing:
    """A message of ours. ``text`` is None when nobody knows what it shows."""

    id: str
    text: str | None


class EditWriter:
    """A :class:`claw.Writer` over messages that can be edited.

    While the text grows, at most one call goes out in each pause; states in between are skipped, and no failure of an
    edit ever posts a second message. ``finish`` may be called again after it raised: it goes on with what is missing.

    :param outbound: where the answer goes; its first message quotes ``outbound.reply_to``.
    :param pieces: cuts a text into texts of one message each; pure.
    :param post: sends one message and answers with its id. Messages after the first have the delivery key ``KEY:1``, …
    :param edit: rewrites the message of that id. The outbound comes with the last message of a final text alone: for
        what else belongs to it, such as buttons. A text that is there already must count as written.
    :param delete: takes a message back; None when the service cannot.
    :param pause_seconds: between two calls of a text that grows; it widens when the service is pressed.
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
        clock: Clock = SYSTEM,
    ) -> None:
        self._outbound, self._pieces = outbound, pieces
        self._post, self._edit, self._delete = post, edit, delete
        self._pause, self._clock = pause_seconds, clock
        self._standing: list[_Standing] = []
        self._doubtful = False  # the newest post may stand without our knowing its id
        self._repeated = False
        self._wanted = ""
        self._not_before = clock.monotonic()
        self._ending = asyncio.Event()
        self._keeping_up: asyncio.Task[None] | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of the messages that stand there now."""
        return tuple(one.id for one in self._standing)

    def messages(self, text: str) -> int:
        """In how many messages a text would stand."""
        return len(self._pieces(text))

    async def again(self, count: int) -> None:
        """Post the first messages of this answer under the same keys once more, to learn where they stand."""
        for at in range(len(self._standing), count):
            await self._add(at, "…", self._outbound)

    async def show(self, text: str) -> None:
        """The whole text so far; returns at once."""
        self._wanted = text
        idle = self._keeping_up is None or self._keeping_up.done()
        if idle and not self._ending.is_set() and self._next(self._pieces(text)) is not None:
            self._keeping_up = asyncio.create_task(self._keep_up())

    async def finish(self, outbound: Outbound) -> Receipt:
        """Write the whole text: edit what stands, post the rest, take back what is too many.

        Files are not written here: they go by ``send``.

        :raises DeliveryError: the service did not take a part of it, or has asked to be left alone for a while.
        """
        await self._end()
        pieces = self._pieces(outbound.text)
        wait = self._not_before - self._clock.monotonic()
        if wait > 0 and pieces:
            raise DeliveryError("the service wants a pause before the next message", retry_after_seconds=wait)
        for at, piece in enumerate(pieces):
            last = outbound if at == len(pieces) - 1 else None
            await self._put(at, piece, outbound, last)
        for surplus in self._standing[len(pieces) :]:
            await self._take_back(surplus.id)
        del self._standing[len(pieces) :]
        return Receipt(self.shown, self._repeated)

    async def abandon(self) -> None:
        """There will be no final text: what stands is left as it is."""
        await self._end()

    async def _end(self) -> None:
        """Stop showing. A call under way is waited for: its message would be doubled otherwise."""
        self._ending.set()
        if self._keeping_up is not None:
            await asyncio.wait({self._keeping_up})
            if not self._keeping_up.cancelled():
                self._keeping_up.exception()  # what failed on the way is tried again by finish

    async def _keep_up(self) -> None:
        """Write what is newest, a call in each pause, until nothing is left to write."""
        next_at = self._not_before
        while True:
            await self._rest(max(next_at, self._not_before))
            pieces = self._pieces(self._wanted)
            at = self._next(pieces)
            if at is None or self._ending.is_set():
                return
            try:
                await self._show_one(at, pieces[at])
            except DeliveryError as why:
                if not self._may_go_on(why):
                    return
            next_at = self._clock.monotonic() + self._pause

    def _next(self, pieces: tuple[str, ...]) -> int | None:
        """The first message that does not show its piece; None when all do, or no call would help."""
        if self._doubtful:
            return None
        shown = [one.text for one in self._standing]
        return next((at for at, piece in enumerate(pieces) if at >= len(shown) or shown[at] != piece), None)

    async def _show_one(self, at: int, piece: str) -> None:
        if at < len(self._standing):
            await self._rewrite(at, piece, None)
        else:
            await self._add(at, piece, self._outbound)

    def _may_go_on(self, why: DeliveryError) -> bool:
        """After a failure while the text grows: wait longer, or leave everything to ``finish``."""
        self._pause = min(max(self._pause, 0.05) * 2, _LONGEST_PAUSE_SECONDS)
        return not (why.permanent or self._doubtful)

    async def _rest(self, until: float) -> None:
        """Wait for the next call's time; the end of the answer ends the wait."""
        seconds = until - self._clock.monotonic()
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), seconds)

    async def _put(self, at: int, piece: str, outbound: Outbound, last: Outbound | None) -> None:
        """Make message ``at`` show its final piece."""
        more = last is not None and bool(last.buttons)
        if at < len(self._standing):
            if self._standing[at].text == piece and not more:
                return
            try:
                await self._rewrite(at, piece, last)
            except DeliveryError as why:
                if not why.permanent:
                    raise
                await self._replace(at, piece, outbound, last)
            return
        may_stand_already = self._doubtful
        self._repeated |= may_stand_already
        await self._add(at, piece, outbound, last)
        if may_stand_already:  # a service that drops a repeated key has kept the older text
            await self._rewrite(at, piece, last)

    async def _replace(self, at: int, piece: str, outbound: Outbound, last: Outbound | None) -> None:
        """Post what a message can no longer be edited into: somebody deleted it, or it is too old."""
        gone = self._standing[at].id
        key = self._key(outbound.key, at, mark="r")
        id = await self._called(self._post(self._message(at, piece, outbound, last, key)))
        self._standing[at] = _Standing(id, piece)
        await self._take_back(gone)

    async def _add(self, at: int, piece: str, outbound: Outbound, last: Outbound | None = None) -> None:
        message = self._message(at, piece, outbound, last, self._key(outbound.key, at))
        try:
            id = await self._called(self._post(message))
        except DeliveryError as why:
            self._doubtful = why.outcome_unknown
            raise
        self._doubtful = False
        self._standing.append(_Standing(id, piece))

    async def _rewrite(self, at: int, piece: str, last: Outbound | None) -> None:
        standing = self._standing[at]
        try:
            await self._called(self._edit(standing.id, piece, last))
        except DeliveryError as why:
            if not why.outcome_unknown:
                raise
            self._standing[at] = _Standing(standing.id, None)
            raise _harmless(why) from why
        self._standing[at] = _Standing(standing.id, piece)

    async def _take_back(self, id: str) -> None:
        """At best: the final text stands already."""
        if self._delete is not None:
            with contextlib.suppress(DeliveryError):
                await self._delete(id)

    async def _called(self, call: Awaitable[_T]) -> _T:
        """The call's answer; when the service asks for a pause, that is noted."""
        try:
            return await call
        except DeliveryError as why:
            if why.retry_after_seconds is not None:
                self._not_before = self._clock.monotonic() + why.retry_after_seconds
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
        """A delivery key for each message of one answer; the first has the answer's own."""
        end = f":{mark}{at}" if at or mark else ""
        return key[-(_KEY_CHARS - len(end)) :] + end


def _harmless(why: DeliveryError) -> DeliveryError:
    """The same failure of an edit: whatever became of it, it may be made again."""
    after = why.retry_after_seconds
    return DeliveryError("{why}", permanent=why.permanent, retry_after_seconds=after, why=why)
