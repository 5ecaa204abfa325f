"""Lanes: one turn at a time in a session, in order; a later text may steer."""

import asyncio

import pytest
from claw.lane import CLOCK, MAIN, SUBAGENT, Lanes


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
    lanes, running, most = Lanes({MAIN: 2}), 0, 0

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
    lanes, arrived = Lanes(), asyncio.Barrier(9)

    async def turn(key: str) -> None:
        async with lanes.turn(key):
            await arrived.wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(turn(f"s{number}"))


async def test_a_later_text_is_put_before_the_turn_that_runs():
    async with Lanes().turn("s") as mailbox:
        assert mailbox.put("and in French") and mailbox.put("please")

        assert mailbox.take() == ["and in French", "please"]
        assert mailbox.take() == []


async def test_a_turn_that_asks_the_model_no_more_takes_nothing_and_nothing_is_lost():
    async with Lanes().turn("s") as mailbox:
        assert mailbox.put("just in time")
        assert mailbox.shut() == ["just in time"]
        assert not mailbox.put("too late")

    assert mailbox.take() == []


async def test_what_a_turn_never_looked_at_can_still_be_taken_after_it():
    async with Lanes().turn("s") as mailbox:
        mailbox.put("unseen")

    assert not mailbox.put("too late")
    assert mailbox.take() == ["unseen"]


async def test_a_turn_that_fails_or_is_cancelled_lets_the_next_one_run_and_leaves_no_lane():
    lanes = Lanes({MAIN: 1})
    with pytest.raises(RuntimeError):
        async with lanes.turn("s"):
            raise RuntimeError("broken")

    async def forever() -> None:
        async with lanes.turn("s"):
            await asyncio.Event().wait()

    running, waiting = asyncio.ensure_future(forever()), asyncio.ensure_future(forever())
    await asyncio.sleep(0)
    waiting.cancel()
    running.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)

    async with lanes.turn("s"):
        assert len(lanes) == 1
    assert len(lanes) == 0


async def settle() -> None:
    """Whatever can begin has begun: so many steps of the loop, and no time."""
    for _ in range(30):
        await asyncio.sleep(0)


async def running_at_once(lanes: Lanes, kind: str, count: int) -> int:
    """How many of ``count`` turns of a kind, each of a session of its own, run before any of them ends."""
    begun, over = [], asyncio.Event()

    async def turn(number: int) -> None:
        async with lanes.turn(f"{kind}-{number}", kind):
            begun.append(number)
            await over.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(turn(number))
        await settle()
        at_once = len(begun)
        assert begun == list(range(at_once)), "those that came first"
        over.set()
    assert begun == list(range(count)), "nobody is forgotten, nobody is overtaken"
    return at_once


async def test_each_kind_of_lane_has_a_width_of_its_own():
    lanes = Lanes({MAIN: 3, SUBAGENT: 2, CLOCK: 1})

    async with asyncio.TaskGroup() as group:  # side by side: none takes another's room
        kinds = {kind: group.create_task(running_at_once(lanes, kind, 6)) for kind in (MAIN, SUBAGENT, CLOCK)}

    assert {kind: done.result() for kind, done in kinds.items()} == {MAIN: 3, SUBAGENT: 2, CLOCK: 1}


async def test_other_widths_hold_from_now_on():
    lanes, over, begun = Lanes({MAIN: 1}), asyncio.Event(), []

    async def turn(number: int) -> None:
        async with lanes.turn(str(number)):
            begun.append(number)
            await over.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(turn(number))
        await settle()
        assert begun == [0]
        lanes.widen({MAIN: 3})
        await settle()
        assert begun == [0, 1, 2]
        lanes.widen({MAIN: 1})
        await settle()
        assert begun == [0, 1, 2], "no turn that runs is stopped"
        over.set()
    assert await running_at_once(lanes, MAIN, 3) == 1


async def test_who_gives_up_while_he_waits_for_room_takes_none():
    lanes = Lanes({MAIN: 1})

    async def turn(key: str) -> None:
        async with lanes.turn(key):
            await asyncio.sleep(0)

    for moments in range(6):  # also at the very moment in which he is let in
        first, waits, last = (asyncio.ensure_future(turn(key)) for key in "abc")
        for _ in range(moments):
            await asyncio.sleep(0)
        waits.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(first, waits, last, return_exceptions=True)
        assert len(lanes) == 0
    assert await running_at_once(lanes, MAIN, 2) == 1
