"""worker: what plugins do in a turn happens in a loop of their own."""

import asyncio
import itertools
import threading
import time
from dataclasses import replace

import pytest
from claw.host.isolation import DEFAULT_TIMEOUTS
from claw.host.worker import PluginWorker


@pytest.fixture
def worker():
    worker = PluginWorker()
    yield worker
    worker.close()
    time.sleep(0.02)


async def test_plain_and_async_steps_answer_from_another_thread(worker):
    async def double(n):
        await asyncio.sleep(0)
        return n * 2, threading.current_thread().name

    assert await worker.call(lambda n: n + 1, 1, seconds=20) == 2
    assert await worker.call(double, 4, seconds=20) == (8, "claw-plugin")


async def test_what_a_step_raises_comes_through(worker):
    def broken():
        raise RuntimeError("no mood")

    with pytest.raises(RuntimeError, match="no mood"):
        await worker.call(broken, seconds=20)


async def test_a_step_that_waits_for_ever_is_given_up_and_the_worker_goes_on(worker):
    with pytest.raises(TimeoutError):
        await worker.call(asyncio.Event().wait, seconds=0.05)

    assert await worker.call(lambda: "here", seconds=20) == "here"


async def test_a_step_that_blocks_the_worker_does_not_block_claw(worker):
    beats = []

    async def beat():
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(0.01)

    heart = asyncio.ensure_future(beat())
    with pytest.raises(TimeoutError):
        await worker.call(time.sleep, 5, seconds=0.1)
    heart.cancel()

    assert max(b - a for a, b in itertools.pairwise(beats)) < 3
    assert await worker.call(lambda: "a new one", seconds=20) == "a new one"


async def test_a_plugin_that_was_late_twice_is_left_out_and_asked_again_after_a_pause():
    worker = PluginWorker(replace(DEFAULT_TIMEOUTS, late_pause_seconds=0.3))
    try:
        for _ in range(2):
            with pytest.raises(TimeoutError, match="within"):
                await worker.call(asyncio.Event().wait, seconds=0.05, who="slow")
        with pytest.raises(TimeoutError, match="did not answer 2 times"):
            await worker.call(lambda: "here", seconds=20, who="slow")
        assert await worker.call(lambda: "here", seconds=20, who="other") == "here"
        await asyncio.sleep(0.35)
        assert await worker.call(lambda: "here", seconds=20, who="slow") == "here"
        with pytest.raises(TimeoutError, match="within"):
            await worker.call(asyncio.Event().wait, seconds=0.05, who="slow")
        with pytest.raises(TimeoutError, match="did not answer 3 times"):
            await worker.call(lambda: "here", seconds=20, who="slow")
    finally:
        worker.close()
