"""The one timer of a stream: it rings when a wait is too long, however often it was moved, and never otherwise."""

import asyncio

import pytest
from claw_provider_sdk.timeouts import ReusableTimeout


async def test_a_wait_that_is_too_long_ends() -> None:
    alarm = ReusableTimeout()
    with pytest.raises(TimeoutError), alarm.within(0.02):
        await asyncio.sleep(5)
    assert alarm.fired
    await asyncio.sleep(0)  # the task itself is not cancelled
    alarm.close()


async def test_waits_that_are_short_enough_may_go_on_for_longer_than_one_limit() -> None:
    alarm = ReusableTimeout()
    for _ in range(8):
        with alarm.within(0.5):
            await asyncio.sleep(0.08)
    assert not alarm.fired
    with pytest.raises(TimeoutError), alarm.within(0.02):
        await asyncio.sleep(5)


async def test_a_limit_may_come_nearer() -> None:
    alarm = ReusableTimeout()
    with alarm.within(60):
        await asyncio.sleep(0)
    async with asyncio.timeout(5):
        with pytest.raises(TimeoutError), alarm.within(0.02):
            await asyncio.sleep(60)
    assert alarm.fired


async def test_between_two_waits_nothing_rings() -> None:
    alarm = ReusableTimeout()
    with alarm.within(0.02):
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    with alarm.within(1):
        await asyncio.sleep(0)
    assert not alarm.fired
    alarm.close()


async def test_who_is_cancelled_from_outside_is_cancelled() -> None:
    alarm = ReusableTimeout()

    async def wait() -> None:
        with alarm.within(60):
            await asyncio.sleep(60)

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    alarm.close()


async def test_of_two_alarms_the_one_that_rang_is_distinguished_from_the_other() -> None:
    outer, inner = ReusableTimeout(), ReusableTimeout()
    with pytest.raises(TimeoutError), outer.within(0.02), inner.within(60):
        await asyncio.sleep(60)
    assert (outer.fired, inner.fired) == (True, False)
    inner.close()


async def test_a_closed_alarm_leaves_no_timer_behind() -> None:
    alarm = ReusableTimeout()
    with alarm.within(3600):
        await asyncio.sleep(0)
    alarm.close()
    waiting = [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()]
    assert waiting == []
