"""Threads for plugins: so many at once, and none that keeps the process from ending."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest
from claw.contracts.tool import DaemonThreadPool


async def test_no_more_than_its_width_run_at_once_and_all_get_their_answer() -> None:
    threads, running, most, guard = DaemonThreadPool(3, "test"), 0, 0, threading.Lock()

    def call(number: int) -> int:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with guard:
            running -= 1
        return number

    answers = await asyncio.gather(*(threads.run(lambda n=n: call(n)) for n in range(12)))
    assert answers == list(range(12))
    assert most == 3


async def test_who_is_cancelled_while_he_waits_is_never_called() -> None:
    threads, gate, called = DaemonThreadPool(1, "test"), threading.Event(), []
    first = asyncio.create_task(threads.run(gate.wait))
    second = asyncio.create_task(threads.run(lambda: called.append("second")))
    await asyncio.sleep(0.01)
    second.cancel()
    gate.set()
    assert await first is True
    with pytest.raises(asyncio.CancelledError):
        await second
    await threads.run(lambda: called.append("third"))
    assert called == ["third"]


def test_a_thread_that_hangs_does_not_keep_the_process() -> None:
    code = """
import asyncio, time
from claw.contracts.tool import DaemonThreadPool
async def main():
    try:
        await asyncio.wait_for(DaemonThreadPool(1, "t").run(lambda: time.sleep(600)), 0.05)
    except TimeoutError:
        print("left")
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    assert (done.stdout, done.stderr) == ("left\n", "")
