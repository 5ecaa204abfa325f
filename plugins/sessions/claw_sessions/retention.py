"""The service that compresses and removes old conversations once a day, as ``session.keep`` says."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

from claw import ClawError, t
from claw.runtime import App

from claw_sessions.settings import Retention

_log = logging.getLogger(__name__)
_FIRST_AFTER_SECONDS, _DAY_SECONDS = 60.0, 86_400.0


class RetentionService:
    """A background task of the gateway.

    :param first_after: seconds from the start to the first run; a start has more urgent work.
    """

    name = "session-retention"

    def __init__(self, first_after: float = _FIRST_AFTER_SECONDS) -> None:
        self._first_after = first_after

    async def run(self, runtime: App, stop: asyncio.Event) -> None:
        """Apply ``session.keep`` now and then until ``stop`` is set."""
        pause = self._first_after
        while not await _is_set(stop, pause):
            pause = _DAY_SECONDS
            await self._apply(runtime)

    async def _apply(self, runtime: App) -> None:
        from claw_sessions.maintenance import apply_retention  # a gateway that starts does not need it

        config = runtime.config
        try:
            done = await asyncio.to_thread(
                apply_retention, config.home, config.section("session.keep", Retention)
            )
        except (ClawError, OSError) as refused:
            _log.error(t("old conversations could not be cleaned up: {why}", why=refused))
            return
        if done.compressed or done.removed:
            packed, gone = len(done.compressed), len(done.removed)
            _log.info(t("old conversations: {packed} compressed, {gone} removed", packed=packed, gone=gone))


async def _is_set(stop: asyncio.Event, seconds: float) -> Any:
    """Wait until ``stop`` is set, for at most ``seconds``; return true if it is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
