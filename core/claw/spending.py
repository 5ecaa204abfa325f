"""Spending: every model call on somebody's account, in ``state.db``; where a cap is set, before it is made.

A call without a cap is a row that is written together with the end of its turn. With one, a row with the worst that it
may cost comes first, in one transaction with the question whether that fits, and the true cost takes its place; what a
death leaves behind stays counted. So the caps hold over all processes of a home.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from claw.caps import Amount, Bill, Cap, Refusal, rule
from claw.clock import SYSTEM, Clock, Daily
from claw.store import Database
from claw.transcript import Usage

T = TypeVar("T")

KEPT_DAYS = 400

_TABLE = """CREATE TABLE IF NOT EXISTS spending
(at_ms INTEGER NOT NULL, id INTEGER NOT NULL, agent TEXT NOT NULL, model TEXT NOT NULL, session_key TEXT NOT NULL,
 conversation TEXT NOT NULL, turn TEXT NOT NULL, plugin TEXT NOT NULL, job TEXT NOT NULL, purpose TEXT NOT NULL,
 input INTEGER NOT NULL, output INTEGER NOT NULL, cache_read INTEGER NOT NULL, cache_write INTEGER NOT NULL,
 nanos INTEGER, state TEXT NOT NULL, PRIMARY KEY (at_ms, id)) WITHOUT ROWID"""
_INDEXES = {  # only where a cap asks for them: each one is a page more in every commit
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
BY = tuple(_GROUPS)
"""What :meth:`Book.sums` can be asked for."""

_NOBODY = Bill()
_bill: ContextVar[Bill] = ContextVar("claw-bill", default=_NOBODY)

Statement = tuple[str, tuple[Any, ...]]


def account(bill: Bill) -> None:
    """From here on, in this task and those that it starts, model calls go on this bill."""
    _bill.set(bill)


def current() -> Bill:
    """On whose account a model call would go now."""
    return _bill.get()


async def for_purpose(purpose: str, step: Awaitable[T]) -> T:
    """Do ``step``, in a task of its own, with what its model calls are for on the bill."""
    account(replace(current(), purpose=purpose))
    return await step


@dataclass(frozen=True, slots=True)
class Sum:
    """What calls came to.

    :param name: of the day, agent, model … that they have in common.
    :param nanos: of those whose price is known; ``unpriced`` is how many of the calls have none.
    :param guessed: how many did not say what they cost, or were cut off: their figures are estimates.
    """

    name: str
    calls: int
    usage: Usage
    nanos: int
    unpriced: int
    guessed: int


class Book:
    """The table, and the rows of turns that have not ended yet.

    :param database: None = nothing is kept.
    """

    def __init__(self, database: Database | None = None, clock: Clock = SYSTEM) -> None:
        self.clock, self._database = clock, database
        self._open: dict[str, list[Statement]] = {}
        self._sweeping = Daily(clock)
        if database:
            database.tables("spending", _TABLE)

    def indexed(self, caps: Sequence[Cap]) -> None:
        """Make what these caps are looked up by."""
        for per in {cap.per for cap in caps} & _INDEXES.keys():
            if self._database:
                self._database.tables(f"spending by {per}", _TABLE, _INDEXES[per])

    def note(self, bill: Bill, model: str, usage: Usage, nanos: int | None, state: str) -> None:
        """A call was made: it is written with the end of its turn, or at once when it belongs to none."""
        row = _row(self.clock.now_ms(), _id(), bill, model, usage, nanos, state)
        if bill.turn:
            self._open.setdefault(bill.turn, []).append((_INSERT, row))
        elif self._database:
            self._database.write_all((_INSERT, row), *self._sweep())

    def of_turn(self, turn: str) -> Sequence[Statement]:
        """What must be written when a turn ends; it is forgotten here."""
        rows = self._open.pop(turn, [])
        return (*rows, *self._sweep()) if rows else ()

    def reserve(
        self, caps: Sequence[Cap], bill: Bill, model: str, usage: Usage, nanos: int | None
    ) -> "Refusal | tuple[int, int]":
        """Set the worst aside, when every cap allows it: the key of its row."""
        assert self._database
        now, wanted = self.clock.now(), Amount(nanos, _tokens(usage))
        with self._database.transaction() as ask:
            spent = [(cap, *self._spent(cap, bill, now, ask)) for cap in caps]
            refused = rule(spent, wanted, bill)
            if refused:
                return refused
            key = int(now * 1000), _id()
            ask(_INSERT, _row(*key, bill, model, usage, nanos, "held"))
        return key

    def settle(self, key: tuple[int, int], usage: Usage, nanos: int | None, state: str) -> None:
        """The true cost, in place of the worst."""
        assert self._database
        self._database.write(_SETTLE, *_figures(usage), nanos, state, *key)

    def spent(self, cap: Cap, bill: Bill) -> tuple[Amount, Amount]:
        """What is spent under a cap, and what of that is only set aside."""
        if not self._database:
            return Amount(), Amount()
        with self._database.transaction() as ask:
            return self._spent(cap, bill, self.clock.now(), ask)

    def _spent(
        self, cap: Cap, bill: Bill, now: float, ask: Callable[..., list[tuple[Any, ...]]]
    ) -> tuple[Amount, Amount]:
        since, columns = cap.where(bill, now)
        like = "GLOB" if cap.per == "day" else "="  # the values themselves, found by their index
        conditions = " AND ".join(["at_ms >= ?", *(f"{name} {like} ?" for name in columns)])
        sql = (
            f"SELECT coalesce(sum(nanos), 0), coalesce(sum({_TOKENS}), 0), "
            f"coalesce(sum(nanos) FILTER (WHERE state = 'held'), 0), "
            f"coalesce(sum({_TOKENS}) FILTER (WHERE state = 'held'), 0) FROM spending WHERE {conditions}"
        )
        ((nanos, tokens, held, held_tokens),) = ask(sql, (since, *columns.values()))
        return Amount(nanos, tokens), Amount(held, held_tokens)

    def sums(self, by: str = "", since: float = 0.0, **only: str) -> list[Sum]:
        """What was spent, in groups of :data:`BY`, or all together.

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
            Sum(
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
        """Write what turns left that did not end here."""
        rows = [row for rows in self._open.values() for row in rows]
        self._open.clear()
        if rows and self._database:
            self._database.write_all(*rows)

    def _read(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._database.read(sql, *values) if self._database else []

    def _sweep(self) -> Sequence[Statement]:
        """Once a day: what is older than anybody asks for."""
        if not self._sweeping.due():
            return ()
        oldest = self.clock.now_ms() - KEPT_DAYS * 24 * 3600 * 1000
        return (("DELETE FROM spending WHERE at_ms < ?", (oldest,)),)


def _id() -> int:
    return random.getrandbits(62)


def _figures(usage: Usage) -> tuple[int, int, int, int]:
    return usage.input or 0, usage.output or 0, usage.cache_read or 0, usage.cache_write or 0


def _tokens(usage: Usage) -> int:
    return sum(_figures(usage))


def _row(
    at_ms: int, id: int, bill: Bill, model: str, usage: Usage, nanos: int | None, state: str
) -> tuple[Any, ...]:
    return (
        at_ms, id, bill.agent, model, bill.session_key, bill.conversation, bill.turn, bill.plugin, bill.job,
        bill.purpose, *_figures(usage), nanos, state,
    )  # fmt: skip
