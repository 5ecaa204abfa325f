"""One log line for each tool call of a turn, at level debug: name, outcome and duration.

Never its arguments or its result: they may hold what nobody should read in a log. The log adds the session.
"""

import logging

from claw import Event, ToolBegan, ToolEnded, current_account
from claw.runtime import Clock

_log = logging.getLogger(__name__)


def is_wanted(level: str) -> bool:
    """Return true if the log has lines of level debug: each event that an observer gets costs a turn some time.

    :param level: ``logging.level``, which the log may not have taken up yet.
    """
    return level == "debug" or _log.isEnabledFor(logging.DEBUG)


class ToolLog:
    """The observer that logs tool calls."""

    name = "tool-log"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: dict[tuple[str, str], float] = {}

    def on_event(self, event: Event) -> None:
        """Log a tool call that has ended."""
        if isinstance(event, ToolBegan):
            self._began[_key(event)] = self._clock.monotonic()
        elif isinstance(event, ToolEnded):
            now = self._clock.monotonic()
            seconds = now - self._began.pop(_key(event), now)
            outcome = "error" if event.result.is_error else "ok"
            _log.debug("tool %s: %s in %d ms", event.call.name, outcome, seconds * 1000)


def _key(event: ToolBegan | ToolEnded) -> tuple[str, str]:
    return current_account().turn, event.call.id  # two turns may have calls of the same id
