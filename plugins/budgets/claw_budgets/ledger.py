"""Usage accounting: each model call as a row in ``state.db``; under a budget, the worst case is reserved
before the call.

A call without a cap is a row written together with the end of its turn. With one, a row with the worst-case
cost comes first, in one transaction with the check against the cap, and the true cost replaces it; a row that
a crash leaves behind still counts. So the caps hold across all processes of a home.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from claw import CallAccount, Usage
from claw.runtime import Clock, Database
from claw_config_sdk import DailyTask

from claw_budgets.caps import Amount, BudgetRefusal, SpendingCap, check_budgets

KEPT_DAYS = 400

_TABLE = """CREATE TABLE IF NOT EXISTS spending
(at_ms INTEGER NOT NULL, id INTEGER NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL, session_key TEXT NOT NULL,
 conversation TEXT NOT NULL, turn TEXT NOT NULL, plugin TEXT NOT NULL, job TEXT NOT NULL, purpose TEXT NOT NULL,
 input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
 nanos INTEGER, state TEXT NOT NULL, PRIMARY KEY (at_ms, id)) WITHOUT ROWID"""
_INDEXES = {  # only where a cap needs them: each adds a page to every commit
    "session": "CREATE INDEX IF NOT EXISTS spending_sessions ON spending (session_key, conversation)",
    "turn": "CREATE INDEX IF NOT EXISTS spending_turns ON spending (turn)",
}
_INSERT = "INSERT INTO spending VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SETTLE = """UPDATE spending SET input = ?, output = ?, cache_read = ?, cache_write = ?, nanos = ?, state = ?
             WHERE at_ms = ? AND id = ?"""
_TOKENS = "input + output + cache_read + cache_write"
_GROUPS = {
    "day": "date(at_ms / 1000, 'unixepoch', 'localtime')", "agent": "agent", "model": "model", "session": "session_key",
    "plugin": "plugin", "job": "job", "purpose": "purpose",
}  # fmt: skip
GROUPINGS = tuple(_GROUPS)
"""Groups for :meth:`UsageLedger.sums`."""

Statement = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The total of a group of calls.

    :param name: the day, agent, model … that they have in common.
    :param nanos: cost of those with a known price; ``unpriced`` is the number of calls without one.
    :param guessed: number of calls whose service reported no usage, or that were cut off: their figures are
        estimates.
    """

    name: str
    calls: int
    usage: Usage
    nanos: int
    unpriced: int
    guessed: int


class UsageLedger:
    """The usage table, and the rows of turns that have not ended yet.

    :param database: None = nothing is kept.
    """

    def __init__(self, database: Database | None = None, clock: Clock | None = None) -> None:
        self.clock, self._database = clock or Clock(), database
        self._open: dict[str, list[Statement]] = {}
        self._calls: dict[str, list[tuple[Usage, int | None]]] = {}  # of turns that have not ended
        self._sweeping = DailyTask(self.clock)
        if database:
            database.tables("spending", _TABLE)

    def create_indexes(self, caps: Sequence[SpendingCap]) -> None:
        """Create the indexes that these caps need."""
        for per in {cap.per for cap in caps} & _INDEXES.keys():
            if self._database:
                self._database.tables(f"spending by {per}", _TABLE, _INDEXES[per])

    def record(self, bill: CallAccount, model: str, usage: Usage, nanos: int | None, state: str) -> None:
        """Record a call: it is written with the end of its turn, or at once when it belongs to none."""
        row = _row(self.clock.now_ms(), _id(), bill, model, usage, nanos, state)
        if bill.turn:
            self._open.setdefault(bill.turn, []).append((_INSERT, row))
        elif self._database:
            self._database.write_all((_INSERT, row), *self._sweep())

    def pop_turn_rows(self, turn: str) -> Sequence[Statement]:
        """Return and forget the statements to be written when a turn ends."""
        rows = self._open.pop(turn, [])
        self._calls.pop(turn, None)
        return (*rows, *self._sweep()) if rows else ()

    def count(self, turn: str, usage: Usage, nanos: int | None) -> None:
        """Count a call for the total of its turn, whether a budget applies or not."""
        if turn:
            self._calls.setdefault(turn, []).append((usage, nanos))

    def of_turn(self, turn: str) -> tuple[Usage | None, int | None]:
        """Return the tokens and the cost of the calls of a running turn; no usage when it made none, no cost when one
        of them has no known price.
        """
        calls = self._calls.get(turn)
        if not calls:
            return None, None
        fresh, out, read, written = (
            sum(part) for part in zip(*(_figures(usage) for usage, _ in calls), strict=True)
        )
        costs = [nanos for _, nanos in calls if nanos is not None]
        usage = Usage(fresh, out, read, written, fresh + out + read + written)
        return usage, sum(costs) if len(costs) == len(calls) else None

    def reserve(
        self, caps: Sequence[SpendingCap], bill: CallAccount, model: str, usage: Usage, nanos: int | None
    ) -> "BudgetRefusal | tuple[int, int]":
        """Reserve the worst-case cost if every cap allows it; return the key of its row, else the refusal."""
        assert self._database
        now, wanted = self.clock.now(), Amount(nanos, _tokens(usage))
        with self._database.transaction() as ask:
            spent = [(cap, *spent_under(cap, bill, now, ask)) for cap in caps]
            refused = check_budgets(spent, wanted, bill)
            if refused:
                return refused
            key = int(now * 1000), _id()
            ask(_INSERT, _row(*key, bill, model, usage, nanos, "held"))
        return key

    def settle(self, key: tuple[int, int], usage: Usage, nanos: int | None, state: str) -> None:
        """Replace the reserved worst case by the true cost."""
        assert self._database
        self._database.write(_SETTLE, *_figures(usage), nanos, state, *key)

    def spent(self, cap: SpendingCap, bill: CallAccount) -> tuple[Amount, Amount]:
        """Return the amount spent under a cap, and the part of it that is only reserved."""
        if not self._database:
            return Amount(), Amount()
        with self._database.transaction() as ask:
            return spent_under(cap, bill, self.clock.now(), ask)

    def sums(self, by: str = "", since: float = 0.0, **only: str) -> list[UsageSum]:
        """Return spending in groups of :data:`GROUPINGS`, or as one total.

        :param since: seconds since 1970.
        :param only: column → value: agent, session_key, conversation …
        """
        group = _GROUPS[by] if by else "''"
        conditions = " AND ".join(["at_ms >= ?", *(f"{name} = ?" for name in only)])
        rows = self._read(
            f"""SELECT {group}, count(*), sum(input), sum(output), sum(cache_read), sum(cache_write),
            coalesce(sum(nanos), 0), sum(nanos IS NULL), sum(state != 'said') FROM spending WHERE {conditions}
            GROUP BY 1 ORDER BY 1""",
            int(since * 1000),
            *only.values(),
        )
        return [
            UsageSum(
                name,
                calls,
                Usage(fresh, out, read, write, fresh + out + read + write),
                nanos,
                unpriced,
                guessed,
            )
            for name, calls, fresh, out, read, write, nanos, unpriced, guessed in rows
        ]

    def close(self) -> None:
        """Write the rows of turns that did not end here."""
        rows = [row for rows in self._open.values() for row in rows]
        self._open.clear()
        if rows and self._database:
            self._database.write_all(*rows)

    def _read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._database.read(sql, *values) if self._database else []

    def _sweep(self) -> Sequence[Statement]:
        """Return, once a day, the statement that deletes rows older than :data:`KEPT_DAYS`."""
        if not self._sweeping.due():
            return ()
        oldest = self.clock.now_ms() - KEPT_DAYS * 24 * 3600 * 1000
        return (("DELETE FROM spending WHERE at_ms < ?", (oldest,)),)


def spent_under(
    cap: SpendingCap, bill: CallAccount, now: float, ask: Callable[..., list[tuple[Any, ...]]]
) -> tuple[Amount, Amount]:
    """Return the amount spent under a cap, and the part of it that is only reserved.

    :param ask: runs a query of ``state.db`` with its values and returns the rows.
    """
    since, columns = cap.where(bill, now)
    like = "GLOB" if cap.per == "day" else "="  # exact values are found by their index
    conditions = " AND ".join(["at_ms >= ?", *(f"{name} {like} ?" for name in columns)])
    sql = (
        f"SELECT coalesce(sum(nanos), 0), coalesce(sum({_TOKENS}), 0), "
        f"coalesce(sum(nanos) FILTER (WHERE state = 'held'), 0), "
        f"coalesce(sum({_TOKENS}) FILTER (WHERE state = 'held'), 0) FROM spending WHERE {conditions}"
    )
    ((nanos, tokens, held, held_tokens),) = ask(sql, (since, *columns.values()))
    return Amount(nanos, tokens), Amount(held, held_tokens)


def _id() -> int:
    return random.getrandbits(62)


def _figures(usage: Usage) -> tuple[int, int, int, int]:
    return usage.input or 0, usage.output or 0, usage.cache_read or 0, usage.cache_write or 0


def _tokens(usage: Usage) -> int:
    return sum(_figures(usage))


def _row(
    at_ms: int, id: int, bill: CallAccount, model: str, usage: Usage, nanos: int | None, state: str
) -> tuple[Any, ...]:
    return (
        at_ms, id, bill.agent, model, bill.session_key, bill.conversation, bill.turn, bill.plugin, bill.job,
        bill.purpose, *_figures(usage), nanos, state,
    )  # fmt: skip
