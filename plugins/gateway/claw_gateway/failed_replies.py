"""Replies that could not be delivered: ``claw turns retry`` sends them again, ``claw turns dismiss`` acknowledges them.

The commands run in a process of their own and write their wish into the journal; the gateway looks there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from claw import ClawError, Outbound
from claw.runtime import Clock, Database

FAILED = ("refused", "expired", "unknown")
"""States of a reply that is not tried again by itself."""
_DISMISSED, _RETRY = "dismissed", "retry"
_LOOK_SECONDS = 1.0


class FailedReplies:
    """The part of the journal that keeps replies that could not be delivered."""

    _database: Database
    _clock: Clock

    def failed_turns(self) -> tuple[str, ...]:
        """Return the turns with such replies, the oldest first; a reply without a turn has an id of its own."""
        rows = self._database.read(
            "SELECT turn FROM owed WHERE state IN (?, ?, ?) GROUP BY turn ORDER BY min(number)", *FAILED
        )
        return tuple(str(turn) for (turn,) in rows)

    def retry(self, turn: str) -> int:
        """Have the gateway send the failed replies of a turn again, dismissed ones too; return their number.

        One that may have arrived counts as possibly repeated.
        """
        return self._database.write(
            """UPDATE owed SET repeated = repeated + (state = 'unknown'), state = ?, why = ''
            WHERE turn = ? AND state IN (?, ?, ?, ?)""",
            *(_RETRY, turn, *FAILED, _DISMISSED),
        )

    def dismiss(self, turn: str) -> int:
        """Acknowledge the failed replies of a turn, which are stuck no longer; return their number."""
        return self._database.write(
            "UPDATE owed SET state = ? WHERE turn = ? AND state IN (?, ?, ?)", _DISMISSED, turn, *FAILED
        )

    def take_retries(self) -> tuple[Outbound, ...]:
        """Return the replies to send again, in order; they are pending from now on, as if they were new."""
        rows = self._database.read("SELECT number, body FROM owed WHERE state = 'retry' ORDER BY number")
        if rows:
            sql = "UPDATE owed SET state = 'owed', owed_at_ms = ? WHERE number = ?"
            now = self._clock.now_ms()
            self._database.write_all(*((sql, (now, number)) for number, _ in rows))
        return tuple(msgspec.json.decode(body, type=Outbound) for _, body in rows)


async def send_retries(
    journal: Any,
    enqueue: Callable[[Sequence[Outbound]], None],
    log: Callable[[str], None],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Send what ``claw turns retry`` asks for, until the task is cancelled; a turn log of another plugin may lack it."""
    while hasattr(journal, "take_retries"):
        try:
            enqueue(journal.take_retries())
        except ClawError as why:  # usually a full disk: later
            log(str(why))
        await pause(_LOOK_SECONDS)
