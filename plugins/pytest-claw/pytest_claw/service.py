"""Conformance tests of a background service of the gateway."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from claw.testing import FakeProvider, Harness

from pytest_claw.hook import HookSuite

_TICK_SECONDS = 0.01


class ServiceSuite(HookSuite):
    """The promises of a service. ``make`` is yours.

    :cvar run_seconds: how long it runs in each test.
    :cvar stop_seconds: within which it must end.
    :cvar block_seconds: the longest time that it may hold the event loop.
    """

    members = ("run",)
    limit_seconds = 30.0
    run_seconds = 0.1
    stop_seconds = 1.0
    block_seconds = 0.5

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Any]:
        """Yield the running claw that the service is given; override it for one with channels or plugins."""
        async with Harness(FakeProvider()) as harness:
            yield harness.app

    def test_it_runs_until_it_is_asked_to_stop(self, subject: Any) -> None:
        async def stopped() -> None:
            async with self.runtime() as runtime:
                stop = asyncio.Event()
                task = asyncio.ensure_future(subject.run(runtime, stop))
                await asyncio.wait({task}, timeout=self.run_seconds)
                assert not task.done(), f"it ended by itself: {task!r}"
                stop.set()
                _, late = await asyncio.wait({task}, timeout=self.stop_seconds)
                for one in late:
                    one.cancel()
                assert not late, f"it went on for {self.stop_seconds:g} s after stop was set"
                task.result()

        self.run(stopped())

    def test_it_ends_when_it_is_cancelled(self, subject: Any) -> None:
        async def cancelled() -> None:
            async with self.runtime() as runtime:
                before = asyncio.all_tasks()
                task = asyncio.ensure_future(subject.run(runtime, asyncio.Event()))
                await asyncio.sleep(self.run_seconds)
                task.cancel()
                _, late = await asyncio.wait({task}, timeout=self.stop_seconds)
                assert not late, f"it went on for {self.stop_seconds:g} s after it was cancelled"
                await asyncio.sleep(0)
                left = asyncio.all_tasks() - before
                for one in left:
                    one.cancel()
                assert [str(one.get_coro()) for one in left] == [], "it left tasks behind"

        self.run(cancelled())

    def test_it_does_not_block_the_gateway(self, subject: Any) -> None:
        async def ticked() -> float:
            async with self.runtime() as runtime:
                stop, longest = asyncio.Event(), 0.0
                task = asyncio.ensure_future(subject.run(runtime, stop))
                end = time.monotonic() + self.run_seconds
                while (begun := time.monotonic()) < end:
                    await asyncio.sleep(_TICK_SECONDS)
                    longest = max(longest, time.monotonic() - begun)
                stop.set()
                await asyncio.wait({task}, timeout=self.stop_seconds)
                task.cancel()
                return longest

        longest = self.run(ticked())
        assert longest <= self.block_seconds, f"nothing else ran for {longest:.1f} s: use a thread"

    def test_its_health_is_plain_data(self, subject: Any) -> None:
        if not hasattr(subject, "health"):
            pytest.skip("it has no health")

        async def healths() -> list[Any]:
            async with self.runtime() as runtime:
                stop, found = asyncio.Event(), [subject.health()]
                task = asyncio.ensure_future(subject.run(runtime, stop))
                await asyncio.sleep(self.run_seconds)
                found.append(subject.health())
                stop.set()
                await asyncio.wait({task}, timeout=self.stop_seconds)
                task.cancel()
                return found

        for health in self.run(healths()):
            try:
                assert isinstance(json.loads(json.dumps(health)), dict), f"{health!r}"
            except (TypeError, ValueError) as error:
                pytest.fail(f"{health!r} is not JSON: {error}")
