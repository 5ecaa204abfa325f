"""The queries of a turn to ``state.db`` cost the same after a week of messages as on the first day."""

import asyncio
import sqlite3
from collections.abc import Iterator

from claw.testing import FakeChannel, FakeProvider, Harness, says
from claw_gateway.supervisor import ChannelServer

FEW = {"keys", "sessions", "open_approval_messages"}
"""Tables with a row for each key of a provider, and for each open request; and one that is only asked whether it
holds anything."""


def whole_tables(connection: sqlite3.Connection, statements: list[str]) -> Iterator[str]:
    """Statements that read all rows of a table, by SQLite's own plan."""
    for statement in statements:
        if statement.split()[0].upper() in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {statement}"):
                if step.startswith("SCAN") and step.split()[1] not in FEW:
                    yield f"{step}: {statement}"


async def test_no_statement_of_a_turn_reads_a_whole_table(tmp_path):
    channel = FakeChannel()
    harness = Harness(
        FakeProvider(says("one"), says("two"), says("three")), channels=[channel], home=tmp_path
    )
    stop = asyncio.Event()
    serving = asyncio.ensure_future(ChannelServer(harness.app).run(stop))
    connection = harness.app.runtime.turn_log._database._open()
    try:
        channel.says("the first, with what a process does once")
        await channel.until_shown(1)
        seen: list[str] = []
        connection.set_trace_callback(seen.append)
        channel.says("the second")
        await channel.until_shown(2)
        channel.says("the third")
        await channel.until_shown(3)
        harness.app.runtime.turn_log.counts()
        harness.app.runtime.turn_log.waiting_events()
        connection.set_trace_callback(None)
        assert sum(one.startswith("UPDATE inbox SET state = 'answered'") for one in seen) == 2
        assert list(whole_tables(connection, seen)) == []
    finally:
        stop.set()
        await asyncio.wait_for(serving, 20)
        await harness.close()
