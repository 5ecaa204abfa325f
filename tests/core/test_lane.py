"""Lanes: one turn at a time in a session, in order; a later text may steer."""

import asyncio

import pytest
from claw.lane import Lanes


async def test_turns_of_one_session_run_one_at_a_time_in_the_order_they_came():
    lanes, told = Lanes(), []

    async def turn(name: str) -> None:
        async with lanes.turn("s"):
            told.append(f"{name} begins")
            await asyncio.sleep(0)
            told.append(f"{name} ends")

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(turn(name))

    assert told == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


async def test_turns_of_different_sessions_run_together_up_to_the_width_of_the_house():
    lanes, running, most = Lanes(width=2), 0, 0

    async def turn(key: str) -> None:
        nonlocal running, most
        async with lanes.turn(key):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(turn(f"s{number}"))

    assert most == 2


async def test_without_a_width_all_sessions_run_together():
    lanes, arrived = Lanes(width=None), asyncio.Barrier(9)

    async def turn(key: str) -> None:
        async with lanes.turn(key):
            await arrived.wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(turn(f"s{number}"))


async def test_a_later_text_steers_the_turn_that_runs():
    lanes = Lanes()
    async with lanes.turn("s") as mailbox:
        assert lanes.steer("s", "and in French")
        assert lanes.steer("s", "please")

        assert mailbox.take() == ["and in French", "please"]
        assert mailbox.take() == []


async def test_nothing_steers_where_no_turn_runs():
    lanes = Lanes()
    async with lanes.turn("other"):
        assert not lanes.steer("s", "hello?")


async def test_a_turn_that_asks_the_model_no_more_is_not_steered_and_nothing_is_lost():
    lanes = Lanes()
    async with lanes.turn("s") as mailbox:
        assert lanes.steer("s", "just in time")
        assert mailbox.shut() == ["just in time"]
        assert not lanes.steer("s", "too late")

    assert mailbox.take() == []


async def test_what_a_turn_never_looked_at_can_still_be_taken_after_it():
    lanes = Lanes()
    async with lanes.turn("s") as mailbox:
        lanes.steer("s", "unseen")

    assert not mailbox.open
    assert mailbox.take() == ["unseen"]


async def test_a_turn_that_fails_or_is_cancelled_lets_the_next_one_run_and_leaves_no_lane():
    lanes = Lanes(width=1)
    with pytest.raises(RuntimeError):
        async with lanes.turn("s"):
            raise RuntimeError("broken")

    async def forever() -> None:
        async with lanes.turn("s"):
            await asyncio.Event().wait()

    running, waiting = asyncio.ensure_future(forever()), asyncio.ensure_future(forever())
    await asyncio.sleep(0)
    assert lanes.busy("s")
    waiting.cancel()
    running.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)

    async with lanes.turn("s"):
        assert len(lanes) == 1
    assert len(lanes) == 0
    assert not lanes.busy("s")
