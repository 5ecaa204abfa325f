"""Limits of concurrent turns (``messages.lanes``): one for each kind of turn, over all sessions."""

import asyncio
from collections import deque
from collections.abc import Mapping

from claw import Section
from claw.runtime import Config, parse_key
from pydantic import Field

from claw_gateway.process.descriptors import most_turns

MAIN, SUBAGENT, CLOCK = "main", "subagents", "clock"
"""The kinds of turns; each has its own limit, so that many turns of one kind do not block the others."""


class LaneSettings(Section):
    """Numbers of concurrent turns. Turns mostly wait for models, so they may exceed the number of cores."""

    main: int = Field(256, ge=1, description="Of all conversations with people.")
    subagents: int = Field(8, ge=1, description="Of sub-agents.")
    clock: int = Field(4, ge=1, description="Of scheduled tasks.")


class ConcurrencyLimit:
    """The limit of concurrent turns of one kind; those that wait begin in their order.

    :ivar limit: 0 = no limit.
    """

    def __init__(self, limit: int = 0) -> None:
        self.limit, self._running = limit, 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        begun = asyncio.get_running_loop().create_future()
        self._waiting.append(begun)
        self.admit_waiting()
        try:
            await begun
        except asyncio.CancelledError:
            if not begun.cancelled():  # it was admitted at the same moment
                await self.__aexit__()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._running -= 1
        self.admit_waiting()

    def admit_waiting(self) -> None:
        """Admit waiting turns up to the limit."""
        while self._waiting and (not self.limit or self._running < self.limit):
            begun = self._waiting.popleft()
            if not begun.done():
                self._running += 1
                begun.set_result(None)


class TurnLimits:
    """The limits of all kinds of turns.

    :param widths: limits by kind; 0 or absent = no limit.
    """

    def __init__(self, widths: Mapping[str, int] | None = None) -> None:
        self._limits = {kind: ConcurrencyLimit() for kind in (MAIN, SUBAGENT, CLOCK)}
        self.change(widths or {})

    def change(self, widths: Mapping[str, int]) -> None:
        """Set other limits; running turns are not stopped."""
        for kind, limit in self._limits.items():
            limit.limit = widths.get(kind, 0)
            limit.admit_waiting()

    def of(self, session_key: str) -> ConcurrencyLimit:
        """Return the limit of a session's turns: sub-agents and scheduled tasks have limits of their own."""
        known = parse_key(session_key)
        return self._limits[SUBAGENT if known.is_subagent else CLOCK if known.is_cron else MAIN]


def widths_of(config: Config) -> dict[str, int]:
    """Return the limits by kind, of ``messages.lanes``; no more than this process has descriptors for."""
    most = most_turns()
    return {kind: min(limit, most) for kind, limit in config.section("messages.lanes", LaneSettings)}
