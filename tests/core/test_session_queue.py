"""Session queues: one turn at a time in a session, in order."""

import asyncio

import pytest
from claw.agent.session_queue import SessionQueues


async def test_turns_of_one_session_run_one_at_a_time_in_the_order_they_came():
    session_queues, states = SessionQueues(), []

    async def turn(name: str) -> None:
        async with session_queues.turn("s"):
            states.append(f"{name} begins")
            await asyncio.sleep(0)
            states.append(f"{name} ends")

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(turn(name))

    assert states == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


async def test_all_sessions_run_together():
    session_queues, arrived = SessionQueues(), asyncio.Barrier(9)

    async def turn(key: str) -> None:
        async with session_queues.turn(key):
            await arrived.wait()

    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        for number in range(9):
            group.create_task(turn(f"s{number}"))


async def test_a_turn_that_fails_or_is_cancelled_lets_the_next_one_run_and_leaves_no_queue():
    session_queues = SessionQueues()
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
