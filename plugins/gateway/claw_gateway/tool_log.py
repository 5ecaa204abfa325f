"""One log line for each tool call of a turn, at level debug: name, outcome and duration.

Never its arguments or its result: they may hold what nobody should read in a log. The log adds the session.
"""

import logging
from collections.abc import Awaitable, Callable

from claw import Event, ToolBegan, ToolEnded
from claw.runtime import SYSTEM_CLOCK

_log = logging.getLogger(__name__)

Emit = Callable[[Event], Awaitable[None]]


def with_tool_log(emit: Emit) -> Emit:
    """Return the receiver of a turn's events that also logs its tool calls; ``emit`` itself unless debug is on."""
    if not _log.isEnabledFor(logging.DEBUG):
        return emit
    began: dict[str, float] = {}

    async def logged(event: Event) -> None:
        if isinstance(event, ToolBegan):
            began[event.call.id] = SYSTEM_CLOCK.monotonic()
        elif isinstance(event, ToolEnded):
            seconds = SYSTEM_CLOCK.monotonic() - began.pop(event.call.id, SYSTEM_CLOCK.monotonic())
            outcome = "error" if event.result.is_error else "ok"
            _log.debug("tool %s: %s in %d ms", event.call.name, outcome, seconds * 1000)
        await emit(event)

    return logged
