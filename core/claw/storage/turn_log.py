"""The turn log of core: the contract of turn logs, and the log in use when no plugin provides one."""

import asyncio
import inspect
from collections.abc import Callable, Sequence

from claw.contracts.errors import ClawError
from claw.contracts.extensions import Statement, TurnLog
from claw.contracts.messages import Inbound, Outbound
from claw.storage.database import Database

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 30.0


class NoTurnLog:
    """The turn log of a claw without one: it knows the turns of this process only.

    :param database: for the statements of others that are committed with the end of a turn.
    """

    name = "none"

    def __init__(self, database: Database | None = None) -> None:
        self._database = database
        self._running: set[str] = set()
        self._done: set[tuple[str, str]] = set()

    def began(self, turn: str, session_key: str, numbers: Sequence[int], again: bool = False) -> None:
        """Record that a turn runs."""
        self._running.add(turn)

    def joined(self, turn: str, number: int) -> None:
        """Do nothing: no message has a row here."""

    def once(self, turn: str, call: str) -> bool:
        """Return true the first time that a turn makes this call."""
        is_new = (turn, call) not in self._done
        self._done.add((turn, call))
        return is_new

    def not_begun(self, turn: str, call: str) -> None:
        """Forget a call of ``once``."""
        self._done.discard((turn, call))

    def ended(
        self, turn: str, outcome: str, replies: Sequence[Outbound] = (), more: Sequence[Statement] = (), why: str = ""
    ) -> None:  # fmt: skip
        """Record that a turn is over, and run the statements of others."""
        if more and self._database:
            self._database.write_all(*more)
        self._running.discard(turn)
        self._done = {(of, call) for of, call in self._done if of != turn}

    def is_over(self, turn: str) -> bool:
        """Return true if that turn does not run now."""
        return turn not in self._running


def is_repeat(log: TurnLog, inbound: Inbound) -> bool:
    """Return true if the log has seen this message before: a service delivered it twice."""
    ask: Callable[[Inbound], bool] | None = getattr(log, "is_repeat", None)
    return ask is not None and ask(inbound)


def takes_cause(log: TurnLog) -> bool:
    """Return true if ``log.ended`` has the parameter ``why``; the logs of earlier plugins lack it."""
    return "why" in inspect.signature(log.ended).parameters


async def retry_until_written(write: Callable[[], None], log: Callable[[str], None] | None) -> None:
    """Call ``write``, which a turn cannot go on without, until it succeeds, with ever longer pauses. A turn that gave up
    would be resumed by the next start only, which may be weeks away.

    :param log: receives each error; None = the error is raised, because the caller can report it.
    """
    pause = _PAUSE_SECONDS
    while True:
        try:
            return write()
        except ClawError as refused:
            if log is None:
                raise
            log(str(refused))
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
