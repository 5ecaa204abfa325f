"""Lanes: one turn at a time in a session, in order; a later text may steer."""

import asyncio

import pytest
from claw.agent.session_queue import CLOCK, MAIN, SUBAGENT, SessionQueues


async def test_turns_of_one_session_run_one_at_a_time_in_the_order_they_came():
    session_queues, told = SessionQueues(), []

    async def turn(name: str) -> None:
        async with session_queues.turn("s"):
            told.append(f"{name} begins")
            await asyncio.sleep(0)
            told.append(f"{name} ends")

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(turn(name))

    assert told == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


async def test_turns_of_different_sessions_run_together_up_to_the_width_of_claw():
    session_queues, running, most = SessionQueues({MAIN: 2}), 0, 0

    async def turn(key: str) -> None:
        nonlocal running, most
        async with session_queues.turn(key):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(turn(f"s{number}"))

    assert most == 2


async def test_without_a_width_all_sessions_run_together():
    session_queues, arrived = SessionQueues(), asyncio.Barrier(9)

    async def turn(key: str) -> None:
        async with session_queues.turn(key):
            await arrived.wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(turn(f"s{number}"))


async def test_a_later_text_is_put_before_the_turn_that_runs():
    async with SessionQueues().turn("s") as steering:
        assert steering.put("and in French") and steering.put("please")

        assert steering.take() == ["and in French", "please"]
        assert steering.take() == []


async def test_a_turn_that_asks_the_model_no_more_takes_nothing_and_nothing_is_lost():
    async with SessionQueues().turn("s") as steering:
        assert steering.put("just in time")
        assert steering.close() == ["just in time"]
        assert not steering.put("too late")

    assert steering.take() == []


async def test_what_a_turn_never_looked_at_can_still_be_taken_after_it():
    async with SessionQueues().turn("s") as steering:
        steering.put("unseen")

    assert not steering.put("too late")
    assert steering.take() == ["unseen"]


async def test_a_turn_that_fails_or_is_cancelled_lets_the_next_one_run_and_leaves_no_lane():
    session_queues = SessionQueues({MAIN: 1})
    with pytest.raises(RuntimeError):
        async with session_queues.turn("s"):
            raise RuntimeError("broken")

    async def forever() -> None:
        async with session_queues.turn("s"):
            await asyncio.Event().wait()

    running, waiting = asyncio.ensure_future(forever()), asyncio.ensure_future(forever())
    await asyncio.sleep(0)
    waiting.cancel()
    running.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)

    async with session_queues.turn("s"):
        assert len(session_queues) == 1
    assert len(session_queues) == 0


async def settle() -> None:
    """Whatever can begin has begun: so many steps of the loop, and no time."""
    for _ in range(30):
        await asyncio.sleep(0)


async def running_at_once(session_queues: SessionQueues, kind: str, count: int) -> int:
    """How many of ``count`` turns of a kind, each of a session of its own, run before any of them ends."""
    begun, over = [], asyncio.Event()

    async def turn(number: int) -> None:
        async with session_queues.turn(f"{kind}-{number}", kind):
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
    session_queues = SessionQueues({MAIN: 3, SUBAGENT: 2, CLOCK: 1})

    async with asyncio.TaskGroup() as group:  # side by side: none takes another's place
        kinds = {
            kind: group.create_task(running_at_once(session_queues, kind, 6))
            for kind in (MAIN, SUBAGENT, CLOCK)
        }

    assert {kind: done.result() for kind, done in kinds.items()} == {MAIN: 3, SUBAGENT: 2, CLOCK: 1}


async def test_other_widths_hold_from_now_on():
    session_queues, over, begun = SessionQueues({MAIN: 1}), asyncio.Event(), []

    async def turn(number: int) -> None:
        async with session_queues.turn(str(number)):
            begun.append(number)
            await over.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(turn(number))
        await settle()
        assert begun == [0]
        session_queues.set_limits({MAIN: 3})
        await settle()
        assert begun == [0, 1, 2]
        session_queues.set_limits({MAIN: 1})
        await settle()
        assert begun == [0, 1, 2], "no turn that runs is stopped"
        over.set()
    assert await running_at_once(session_queues, MAIN, 3) == 1


async def test_who_gives_up_while_he_waits_for_room_takes_none():
    session_queues = SessionQueues({MAIN: 1})

    async def turn(key: str) -> None:
        async with session_queues.turn(key):
            await asyncio.sleep(0)

    for moments in range(6):  # also at the very moment in which he is let in
        first, waits, last = (asyncio.ensure_future(turn(key)) for key in "abc")
        for _ in range(moments):
            await asyncio.sleep(0)
        waits.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(first, waits, last, return_exceptions=True)
        assert len(session_queues) == 0
    assert await running_at_once(session_queues, MAIN, 2) == 1
