"""The context engine ``compaction``: flush, compaction, recovery and kept tool results behind one object.

Each of them is imported when a turn first needs it: a gateway is ready, and idle, without.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from claw import t

from claw_context.shared import SharedState

if TYPE_CHECKING:
    from claw import Message, ModelCall, TurnView

READ_TOOL = "read"


class CompactingEngine:
    """A context engine that has a model summarise the older part of a long conversation."""

    name = "compaction"

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared

    def wrap(self, call: "ModelCall", turn: "TurnView") -> "ModelCall":
        """Return a call for histories of any length, which leaves out what a service refuses again and again."""
        from claw_context.engine import ContextView, History
        from claw_context.memory_flush import flush_function
        from claw_context.recovery import Recovery

        save = flush_function(turn, self._shared)

        def view_of(past: "Sequence[Message]", start: int) -> "ModelCall":
            return ContextView(call, turn, self._shared, History(past, start), save).ask

        return Recovery(view_of, turn).ask

    async def compact(self, turn: "TurnView", focus: str) -> str:
        """Summarise the older part now; a running turn goes on."""
        from claw_context.compaction import compact_session

        done = await compact_session(turn, self._shared.aliases, focus)
        return done.description if done else t("there is nothing to compact in this conversation yet")

    async def before_reset(self, turn: "TurnView") -> None:
        """Run the memory flush, unless all of the conversation was saved before."""
        from claw_context.memory_flush import flush_before_reset

        await flush_before_reset(turn, self._shared)

    async def keep_result(self, text: str, limit: int, folder: Path, name: str) -> str:
        """Keep a long tool result in a file; return the line that names it."""
        from claw_context.results import store_result

        path, lines = await store_result(folder, name, text)
        return (
            f"\n[... {len(text) - limit} chars truncated; all that was kept of it, {lines} lines, is in {path}: "
            f"use {READ_TOOL}]"
        )
