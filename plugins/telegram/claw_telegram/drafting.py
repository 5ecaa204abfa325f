"""A streaming reply that is shown as a draft while it grows and posted as a message at the end.

A draft is no message: it shows in a direct chat for half a minute and is gone. https://core.telegram.org/bots/api#sendmessagedraft
"""

import asyncio
import contextlib
import logging
import zlib
from collections.abc import Awaitable, Callable

from claw import DeliveryError, Outbound, Receipt
from claw_channel_sdk import EditStream

_log = logging.getLogger(__name__)

AGAIN_SECONDS = 20.0  # a draft that is not shown again is gone after 30


def draft_id(key: str) -> int:
    """Return the draft number of one answer: nonzero, and the same at each update."""
    return zlib.crc32(key.encode()) & 0x7FFFFFFF or 1


class DraftStream:
    """A :class:`claw_channel_sdk.StreamingReply` that shows drafts and posts the final text.

    :param final: posts the final text; no message exists before.
    :param draw: updates the draft.
    :param pause_seconds: between two updates; ``again_seconds`` until an unchanged draft is sent again.
    """

    def __init__(
        self,
        final: EditStream,
        draw: Callable[[str], Awaitable[object]],
        *,
        pause_seconds: float,
        again_seconds: float = AGAIN_SECONDS,
    ) -> None:
        self._final, self._draw = final, draw
        self._pause, self._again = pause_seconds, again_seconds
        self._wanted = ""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of the posted messages; a draft is not one."""
        return self._final.shown

    @property
    def lost(self) -> int:
        """Number of posts whose outcome is unknown."""
        return self._final.lost

    async def show(self, text: str) -> None:
        """Take the whole text so far; return at once."""
        self._wanted = text
        self._changed.set()
        if self._task is None and text.strip():
            self._task = asyncio.create_task(self._update_loop())

    async def finish(self, outbound: Outbound) -> Receipt:
        """Post the whole text.

        :raises DeliveryError: Telegram refused the message or could not be reached.
        """
        await self._end()
        return await self._final.finish(outbound)

    async def abandon(self) -> None:
        """End without a final text; the draft disappears by itself."""
        await self._end()
        await self._final.abandon()

    async def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.exception()  # read here, as no caller awaits a draft

    async def _update_loop(self) -> None:
        """Send the newest text at most once per pause, and repeat it before the draft expires."""
        while True:
            self._changed.clear()
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
                    await self._changed.wait()
