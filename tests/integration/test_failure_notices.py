"""Each failure between a message and its answer is reported to the person."""

import asyncio
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from claw.contracts.errors import ClawError
from claw.contracts.messages import Attachment
from claw.storage.database import Database
from claw.testing import FakeChannel, FakeProvider, Harness, says
from claw_gateway.journal import Journal
from integration.served import serve
from integration.test_crash_recovery import wrote

SORRY = "Something went wrong here, and I could not answer. Please try again later."


def outcomes(home):
    database = Database(home / "state.db")
    journal = Journal(database)
    turn_outcomes = [turn["outcome"] for turn in journal.turns()]
    assert journal.unfinished() == () and journal.waiting_events() == () and journal.pending_replies() == ()
    database.close()
    return turn_outcomes


async def test_an_answer_whose_file_cannot_be_copied_is_sent_with_the_reason(tmp_path):
    channel = FakeChannel()
    harness = Harness(FakeProvider(says("see\nMEDIA:./plan.txt")), channels=[channel], home=tmp_path)
    (harness.workspace / "plan.txt").write_text("the plan")
    (tmp_path / "outgoing").symlink_to("/proc/self")  # where nothing can be made, by nobody
    async with serve(harness):
        channel.says("the plan?", "user-1")
        [turn_outcomes] = await channel.until_shown()
    assert turn_outcomes.startswith("see\n./plan.txt cannot be sent: ")
    assert outcomes(tmp_path) == ["delivered"]


async def test_an_answer_that_cannot_be_put_into_messages_ends_with_a_notice(tmp_path):
    channel = FakeChannel()
    harness = Harness(FakeProvider(says("see\nMEDIA:./plan.txt")), channels=[channel], home=tmp_path)
    limits = channel.limits
    channel.limits = SimpleNamespace(  # a channel with a bug: it knows nothing of files
        text_chars=limits.text_chars, utf16=False, quiet_seconds=0.0, repeat_seconds=limits.repeat_seconds
    )
    async with serve(harness):
        channel.says("the plan?", "user-1")
        assert await channel.until_shown() == [SORRY]
    assert outcomes(tmp_path) == ["failed"]
    assert any("media_out_bytes" in line for line in harness.log_lines)


class Odd(FakeChannel):
    """A channel with a bug where it should bring files."""

    @property
    def fetch(self):
        raise RuntimeError("odd")


async def test_a_message_that_cannot_be_taken_up_is_answered_with_a_notice(tmp_path):
    channel = Odd()
    harness = Harness(FakeProvider(says("fine")), channels=[channel], home=tmp_path)
    async with serve(harness):
        channel.says("look", "user-1", attachments=(Attachment("file", "a.txt", key="k"),))
        assert await channel.until_shown() == [SORRY]
    assert outcomes(tmp_path) == []


async def test_a_cut_off_turn_that_cannot_be_taken_up_ends_with_a_notice(tmp_path):
    model, channel = FakeProvider(says("fine")), Odd()
    harness = Harness(model, channels=[channel], home=tmp_path)
    file = (Attachment("file", "a.txt", key="k"),)
    journal = harness.app.runtime.turn_log
    one = journal.accept(replace(wrote(1, "look"), attachments=file))
    journal.began("turn-1", "agent:default:fake:direct:user-1", [one.number])
    async with serve(harness):
        assert await channel.until_shown() == [SORRY]
    assert outcomes(tmp_path) == ["failed"] and model.requests == []


@contextmanager
def full_disk(home, event):
    """While this lasts, the state refuses an event, as on a full disk."""
    with closing(sqlite3.connect(home / "state.db", isolation_level=None)) as state:
        state.execute(
            f"CREATE TRIGGER full BEFORE {event} BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
        yield
        state.execute("DROP TRIGGER full")


@pytest.mark.parametrize("event", ["INSERT ON turns", "UPDATE ON turns", "UPDATE ON inbox"])
async def test_a_turn_whose_beginning_or_end_finds_no_space_goes_on_once_there_is_some(tmp_path, event):
    channel, model = FakeChannel(), FakeProvider(says("fine"), says("fine too"))
    harness = Harness(model, channels=[channel], home=tmp_path)
    async with serve(harness):
        harness.app.runtime.turn_log.counts()  # its tables are made at first use
        with full_disk(tmp_path, event):
            channel.says("hello", "user-1")
            async with asyncio.timeout(10):
                while not any("the disk is full" in line for line in harness.log_lines):
                    await asyncio.sleep(0.01)
        assert await channel.until_shown() == ["fine"]
        channel.says("and now?", "user-1")
        assert await channel.until_shown(2) == ["fine", "fine too"]
    assert outcomes(tmp_path) == ["delivered", "delivered"] and len(model.requests) == 2


async def test_a_command_whose_end_finds_no_space_loses_nothing_that_comes_behind_it(tmp_path):
    channel = FakeChannel()
    harness = Harness(FakeProvider(says("fine")), channels=[channel], home=tmp_path)
    async with serve(harness):
        harness.app.runtime.turn_log.counts()
        with full_disk(tmp_path, "UPDATE ON inbox"):
            channel.says("/status", "user-1")
            channel.says("hello", "user-1")
            async with asyncio.timeout(10):
                while not any("the disk is full" in line for line in harness.log_lines):
                    await asyncio.sleep(0.01)
        assert await channel.until_shown(2) == [SORRY, "fine"]
    assert outcomes(tmp_path) == ["delivered"]


async def test_whoever_waits_at_a_terminal_is_notified_at_once_that_there_is_no_space(tmp_path):
    harness = Harness(FakeProvider(says("fine"), says("fine")), home=tmp_path)
    await harness.send("hello")
    with full_disk(tmp_path, "INSERT ON turns"), pytest.raises(ClawError, match="the disk is full"):
        await harness.send("hello")
