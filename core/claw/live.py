"""A reply that people watch while it grows: one writer for each turn, and signs of life until it speaks."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from claw.channel import WAITS, Channel, Writer
from claw.chunking import Blocks
from claw.clock import SYSTEM
from claw.errors import DeliveryError
from claw.event import Event, Said, StepStarted, TextPiece
from claw.failpoint import reach
from claw.journal import Journal
from claw.message import Outbound
from claw.transcript import Assistant
from claw.wall import name_of, within
from claw.words import say

TYPING_SECONDS = 4.0
"""Between two signs of life: Telegram shows one for 5 s, Discord for 10 s (spec, channels 6)."""

_GROW_SECONDS = 0.04
"""Between two looks at a text that grows: a service's own limit is longer, and each look reads the whole of it."""

_FIND_SECONDS = 10.0

_STRANGER_SECONDS = 10.0
_LOOKS = 16

Complain = Callable[[str], None]


class Live:
    """What one chat sees of a turn before its final text.

    :param outbound: where, with an empty text.
    :param visible: what of a text so far may be shown; empty holds it back.
    :param streams: whether the text is shown while it grows, or signs of life only.
    :param post: sends a part of the answer as a message of its own; given, the answer goes out in blocks.
    :param resumed: whether a process before this one may have shown something of the turn.
    :param free: whether nothing older is still on its way to this chat; until then nothing is shown.
    """

    def __init__(
        self,
        channel: Channel,
        outbound: Outbound,
        turn: str,
        journal: Journal,
        visible: Callable[[str], str],
        complain: Complain,
        streams: bool = True,
        post: Callable[[str], None] | None = None,
        free: Callable[[], bool] = lambda: True,
        *,
        resumed: bool = True,
    ) -> None:
        self._channel, self._outbound, self._turn = channel, outbound, turn
        self._journal, self._visible, self._complain = journal, visible, complain
        self._post, self._blocks, self._fed = post, Blocks(), ""
        shown, lost = journal.standing(turn) if resumed else ((), 0)
        self._lasts = WAITS not in channel.capabilities
        self._streams = post is None and streams and hasattr(channel, "stream")
        if (
            shown or lost
        ):  # of the process before: its messages become the answer, no others stand beside them
            self._streams = False
        self._free = free
        self.writer: Writer | None = None
        self._text = ""
        self._noted: tuple[str, ...] = ()
        self._expected = 0
        self._patience = channel.limits.patience_seconds
        self._next = (
            SYSTEM.monotonic() + self._patience
        )  # people may want to see an answer come that takes so long
        self._due: asyncio.TimerHandle | None = None
        self._showing: asyncio.Task[None] | None = None
        self._is_newer = self._is_over = False
        self._typing: asyncio.Task[None] | None = None
        self._quiet: asyncio.TimerHandle | None = None
        if hasattr(channel, "typing"):
            self._quiet = asyncio.get_running_loop().call_later(self._patience, self._begin_signs)

    async def hear(self, event: Event) -> None:
        """One event of the turn."""
        if isinstance(event, StepStarted):
            self._text = ""
            if self._post:
                self._send(self._blocks.finish())
                self._blocks, self._fed = Blocks(), ""
        elif isinstance(event, Said):
            if isinstance(event.message, Assistant) and event.message.stop_reason == "error":
                self._blocks = Blocks()  # what was not sent of an answer that broke off never is
        elif isinstance(event, TextPiece):
            self._text += event.text
            if self._streams:
                self._grow()
            elif self._post:
                text = self._visible(self._text)
                if text.startswith(self._fed) and len(text) > len(self._fed):
                    more, self._fed = text[len(self._fed) :], text
                    self._send(self._blocks.feed(more))

    def _grow(self) -> None:
        """It is shown at the next look; a writer is asked one thing at a time."""
        self._is_newer = True
        if self._due is None and self._showing is None and not self._is_over:
            wait = self._next - SYSTEM.monotonic()
            if wait > 0:
                self._due = asyncio.get_running_loop().call_later(wait, self._look)
            else:
                self._look()

    def _look(self) -> None:
        self._due, self._is_newer = None, False
        if text := self._visible(self._text):
            self._showing = asyncio.ensure_future(self._shown(text))

    async def _shown(self, text: str) -> None:
        try:
            await self._show(text)
        except Exception as why:  # noqa: BLE001 - of the ledger: what is shown is not the answer yet
            self._failed(why)
        self._showing, self._next = None, SYSTEM.monotonic() + _GROW_SECONDS
        if self._is_newer:
            self._grow()

    def _send(self, blocks: Sequence[str]) -> None:
        for block in blocks:
            if self._post:
                self._post(block)

    async def started(self) -> None:
        """Nothing more is shown while it grows; what is just being shown is waited for: a first post has an id then."""
        self._is_over = True
        if self._due:
            self._due.cancel()
        if self._showing:
            await asyncio.wait({self._showing})

    async def over(self, finished: bool) -> None:
        """The turn is over. ``finished``: the final text comes through the writer; else nothing more comes there."""
        if self._quiet:
            self._quiet.cancel()
        if self._typing:
            self._typing.cancel()
        await self.started()
        if self._typing:
            await asyncio.wait({self._typing})
        if self.writer and not finished:
            await self._stranger(self.writer.abandon())
            self.note()  # a post that was under way: a turn that was parked goes on in that message
        if hasattr(self._channel, "settled"):
            asked: Any = self._channel
            await self._stranger(asked.settled(self._outbound.address, self._outbound.answers))

    async def _show(self, text: str) -> None:
        if self.writer is None:
            if not self._free():
                return
            asked: Any = self._channel
            try:
                self.writer = asked.stream(self._outbound)
            except Exception as why:  # noqa: BLE001 - a stranger's code
                self._streams = False
                self._failed(why)
                return
        if self._lasts and (expected := messages_of(self.writer, self._channel, text)) > self._expected:
            self._expected = expected
            self._journal.shown(self._turn, self._noted, expected)  # before a word stands in another one
        await self._stranger(self.writer.show(text))
        self.note()

    def note(self) -> None:
        """Write down in which messages the text stands, when that has changed: a restart goes on with them."""
        shown = tuple(self.writer.shown) if self.writer else self._noted
        if shown != self._noted and self._lasts:
            reach("stream-posted")
            self._journal.shown(self._turn, shown, self._expected)
            self._noted = shown

    def _begin_signs(self) -> None:
        self._typing = asyncio.ensure_future(self._signs())

    async def _signs(self) -> None:
        asked: Any = self._channel
        while True:
            await self._stranger(asked.typing(self._outbound.address, self._outbound.answers))
            for _ in range(_LOOKS):  # a post takes its time, and the model may be silent after it
                await asyncio.sleep(TYPING_SECONDS / _LOOKS)
                self.note()

    async def _stranger(self, asked: Any) -> None:
        try:  # no wait_for: in Python 3.11 it loses a cancelling that comes together with the stranger's answer
            await within(_STRANGER_SECONDS, asked)
        except Exception as why:  # noqa: BLE001 - a stranger's code
            self._failed(why)

    def _failed(self, why: BaseException) -> None:
        name = self._channel.name
        self._complain(
            say(
                "channel {name}: an answer cannot be shown while it grows: {why}", name=name, why=name_of(why)
            )
        )


def messages_of(writer: Writer, channel: Channel, text: str) -> int:
    """In how many messages a text may stand, where what was posted and not noted can be found again."""
    count: Any = getattr(writer, "messages", None)
    with suppress(Exception):  # a stranger's code: what it does not say is found for one message
        if count and "idempotent" in channel.capabilities:
            return max(1, int(count(text)))
    return 1


async def find_again(channel: Channel, outbound: Outbound, turn: str, journal: Journal) -> None:
    """Learn where the words of a cut-off turn stand, when a death came between a post and its note.

    The same keys are posted again; a service that drops repeats answers with the messages that stand there. One that has
    forgotten the keys by now is not asked: it would post anew.
    """
    asked: Any = channel
    known, lost = journal.standing(turn)
    can = "idempotent" in asked.capabilities and hasattr(asked, "stream")
    if not (lost and can) or journal.age_seconds(turn) >= channel.limits.repeat_seconds:
        return
    with suppress(Exception):  # a stranger's code; what is not found stays unknown
        writer = asked.stream(outbound)
        with suppress(TimeoutError):
            async with asyncio.timeout(_FIND_SECONDS):
                while len(writer.shown) < len(known) + lost:
                    with suppress(DeliveryError):
                        await (
                            writer.again(len(known) + lost) if hasattr(writer, "again") else writer.show("…")
                        )
                    await asyncio.sleep(0.05)
        if len(shown := tuple(writer.shown)) > len(known):
            journal.shown(turn, shown, len(known) + lost)
        await writer.abandon()
