"""Limits of concurrent turns: one for each kind, over all sessions; those that wait begin in their order."""

import asyncio

from claw_gateway.turn_limits import CLOCK, MAIN, SUBAGENT, TurnLimits

KEYS = {MAIN: "agent:a:chat-{}", SUBAGENT: "agent:a:subagent:{}", CLOCK: "agent:a:cron:job:run:{}"}


async def test_turns_of_different_sessions_run_together_up_to_the_limit():
    limits, running, most = TurnLimits({MAIN: 2}), 0, 0

    async def turn(key: str) -> None:
        nonlocal running, most
        async with limits.of(f"agent:a:{key}"):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(turn(f"s{number}"))

    assert most == 2


async def settle() -> None:
    """Whatever can begin has begun: so many steps of the loop, and no time."""
    for _ in range(30):
        await asyncio.sleep(0)


async def running_at_once(limits: TurnLimits, kind: str, count: int) -> int:
    """Count the turns of a kind that run before any of them ends, of ``count`` in sessions of their own."""
    begun, over = [], asyncio.Event()

    async def turn(number: int) -> None:
        async with limits.of(KEYS[kind].format(number)):
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


async def test_each_kind_of_turn_has_a_limit_of_its_own():
    limits = TurnLimits({MAIN: 3, SUBAGENT: 2, CLOCK: 1})

    async with asyncio.TaskGroup() as group:  # side by side: none takes another's place
        kinds = {
            kind: group.create_task(running_at_once(limits, kind, 6)) for kind in (MAIN, SUBAGENT, CLOCK)
        }

    assert {kind: done.result() for kind, done in kinds.items()} == {MAIN: 3, SUBAGENT: 2, CLOCK: 1}


async def test_other_limits_hold_from_now_on():
    limits, over, begun = TurnLimits({MAIN: 1}), asyncio.Event(), []

    async def turn(number: int) -> None:
        async with limits.of(f"agent:a:{number}"):
            begun.append(number)
            await over.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(turn(number))
        await settle()
        assert begun == [0]
        limits.change({MAIN: 3})
        await settle()
        assert begun == [0, 1, 2]
        limits.change({MAIN: 1})
        await settle()
        assert begun == [0, 1, 2], "no turn that runs is stopped"
        over.set()
    assert await running_at_once(limits, MAIN, 3) == 1


async def test_a_turn_that_is_cancelled_while_it_waits_takes_no_place():
    limits = TurnLimits({MAIN: 1})

    async def turn(key: str) -> None:
        async with limits.of(f"agent:a:{key}"):
            await asyncio.sleep(0)

    for moments in range(6):  # also at the very moment in which he is let in
        first, waits, last = (asyncio.ensure_future(turn(key)) for key in "abc")
        for _ in range(moments):
            await asyncio.sleep(0)
        waits.cancel()
        async with asyncio.timeout(5):
            await asyncio.gather(first, waits, last, return_exceptions=True)
    assert await running_at_once(limits, MAIN, 2) == 1
