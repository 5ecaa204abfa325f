"""A reply that people see as a draft while it grows, and as a message once it is whole.

A draft is no message: it shows in a direct chat for half a minute and is gone. https://core.telegram.org/bots/api#sendmessagedraft
"""

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Awaitable, Callable

from claw import DeliveryError, EditWriter, Outbound, Receipt

_log = logging.getLogger(__name__)

AGAIN_SECONDS = 20.0  # a draft that is not shown again is gone after 30


def draft_id(key: str) -> int:
    """The number of the draft of one answer: not 0, the same at each showing."""
    return zlib.crc32(key.encode()) & 0x7FFFFFFF or 1


class DraftWriter:
    """A :class:`claw.Writer` that shows drafts and posts the final text.

    :param final: posts it; nothing stands before.
    :param draw: shows a text as the draft.
    :param pause_seconds: between two drafts; ``again_seconds`` until one that did not change is shown again.
    """

    def __init__(
        self,
        final: EditWriter,
        draw: Callable[[str], Awaitable[object]],
        *,
        pause_seconds: float,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        self._final, self._draw = final, draw
        self._pause, self._again = pause_seconds, again_seconds
        self._wanted = ""
        self._newer = asyncio.Event()
        self._drawing: asyncio.Task[None] | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of the messages that stand there now; a draft is none."""
        return self._final.shown

    async def show(self, text: str) -> None:
        """The whole text so far; returns at once."""
        self._wanted = text
        self._newer.set()
        if self._drawing is None and text.strip():
            self._drawing = asyncio.create_task(self._keep_up())

    async def finish(self, outbound: Outbound) -> Receipt:
        """Post the whole text.

        :raises DeliveryError: Telegram did not take it.
        """
        await self._end()
        return await self._final.finish(outbound)

    async def abandon(self) -> None:
        """There will be no final text: the draft goes by itself."""
        await self._end()
        await self._final.abandon()

    async def _end(self) -> None:
        if self._drawing is not None:
            self._drawing.cancel()
            await asyncio.wait({self._drawing})
            if not self._drawing.cancelled():
                self._drawing.exception()  # nobody waits for a draft

    async def _keep_up(self) -> None:
        """Show what is newest, at most once in each pause, and again before it fades."""
        while True:
            self._newer.clear()
            wait = self._pause
            try:
                await self._draw(self._wanted)
            except DeliveryError as why:
                if why.permanent:
                    _log.debug("%s", why)
                    return
                wait = max(wait, why.retry_after_seconds or 0.0)
            await asyncio.sleep(wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(self._again - wait, 0)):
                    await self._newer.wait()
