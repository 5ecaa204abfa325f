"""What a chat sees of a turn before its final text."""

import asyncio

import pytest
from claw.channel import Limits
from claw.event import TextPiece
from claw.journal import Journal
from claw.live import Live
from claw.message import Address, Outbound
from claw.store import Database
from claw.testing import FakeChannel


class Typing(FakeChannel):
    """A channel whose sign of life takes until it is let go."""

    def __init__(self):
        super().__init__()
        self.go = asyncio.Event()

    async def typing(self, address, message_id=""):
        await self.go.wait()


@pytest.mark.parametrize("ticks", range(6))
async def test_a_turn_that_ends_just_when_a_sign_of_life_was_shown_is_over(tmp_path, ticks):
    channel, complaints = Typing(), []
    where = Outbound("t1", Address("fake", "c1"), "")
    live = Live(channel, where, "t1", Journal(Database(tmp_path / "state.db")), str, complaints.append)
    await asyncio.sleep(0)
    channel.go.set()
    for _ in range(ticks):
        await asyncio.sleep(0)

    await asyncio.wait_for(live.over(finished=True), 20)
    assert complaints == []


class Growing(FakeChannel):
    """A channel that writes down every state of an answer; the first post can be held up."""

    def __init__(self):
        super().__init__()
        self.states, self.go = list[str](), asyncio.Event()
        self.go.set()

    def stream(self, outbound):
        return Writing(self)


class Writing:
    shown = ("m1",)

    def __init__(self, channel):
        self.channel = channel

    async def show(self, text):
        await self.channel.go.wait()
        self.channel.states.append(text)

    async def abandon(self): ...


def growing(tmp_path, channel, visible=str):
    where = Outbound("t1", Address("fake", "c1"), "")
    return Live(channel, where, "t1", Journal(Database(tmp_path / "state.db")), visible, str)


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_what_comes_between_two_looks_is_shown_together_and_the_last_of_it_without_more_to_come(
    tmp_path,
):
    channel = Growing()
    live = growing(tmp_path, channel)
    for word in ["one", "two", "three", "four"]:
        await live.hear(TextPiece(word))
    await until(lambda: len(channel.states) == 2)

    assert channel.states == ["one", "onetwothreefour"]
    await live.over(finished=True)


async def test_a_long_answer_is_looked_at_by_the_clock_and_not_at_every_piece(tmp_path):
    looks, channel = [], Growing()
    live = growing(tmp_path, channel, lambda text: looks.append(text) or text)
    for _ in range(5000):
        await live.hear(TextPiece("word "))
    await live.over(finished=True)

    assert len(looks) < 50


async def test_a_slow_service_holds_up_nothing_and_its_first_post_is_waited_for_at_the_end(tmp_path):
    channel = Growing()
    channel.go.clear()
    live = growing(tmp_path, channel)
    await asyncio.wait_for(live.hear(TextPiece("one")), 20)
    await asyncio.wait_for(live.hear(TextPiece("two")), 20)

    ending = asyncio.ensure_future(live.over(finished=True))
    await asyncio.sleep(0.05)
    assert not ending.done()
    channel.go.set()
    await asyncio.wait_for(ending, 20)
    assert channel.states == ["one"]


async def test_signs_of_life_end_with_the_turn_also_when_the_house_does_not_wait_for_its_last_words(
    tmp_path,
):
    channel = Growing()
    channel.go.clear()
    live = growing(tmp_path, channel)
    await live.hear(TextPiece("one"))
    await until(lambda: channel.acts)

    ending = asyncio.ensure_future(live.over(finished=False))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait({ending})
    channel.go.set()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def test_nothing_grows_before_what_is_older_has_arrived(tmp_path):
    channel, is_free = Growing(), asyncio.Event()
    where, journal = Outbound("t1", Address("fake", "c1"), ""), Journal(Database(tmp_path / "state.db"))
    live = Live(channel, where, "t1", journal, str, str, free=is_free.is_set)
    await live.hear(TextPiece("one"))
    await asyncio.sleep(0.1)
    assert (channel.states, live.writer) == ([], None)

    is_free.set()
    await live.hear(TextPiece(" two"))
    await until(lambda: channel.states)
    assert channel.states == ["one two"]
    await live.over(finished=True)


async def test_a_sign_of_life_is_shown_at_the_question_and_taken_back_when_the_turn_is_over(tmp_path):
    channel, there = FakeChannel(), Address("fake", "c1")
    where = Outbound("t1", there, "", answers="q1")
    live = Live(channel, where, "t1", Journal(Database(tmp_path / "state.db")), str, str)
    await asyncio.sleep(0.02)
    assert channel.acts == [("typing", (there, "q1"))]

    await live.over(finished=True)
    assert channel.acts[1:] == [("settled", (there, "q1"))]


async def test_what_is_answered_at_once_needs_no_sign_of_life(tmp_path):
    channel = FakeChannel(limits=Limits(patience_seconds=5.0))
    where = Outbound("t1", Address("fake", "c1"), "", answers="q1")
    live = Live(channel, where, "t1", Journal(Database(tmp_path / "state.db")), str, str)
    await live.hear(TextPiece("one"))
    await live.over(finished=True)
    assert [act for act, _ in channel.acts] == ["settled"]
