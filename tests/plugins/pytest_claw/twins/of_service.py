"""One sound service, and for each promise a twin that breaks it and no other."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pytest_claw import ServiceSuite


class Heartbeat:
    """Counts the time."""

    name = "heartbeat"

    def __init__(self) -> None:
        self.beats = 0

    async def run(self, runtime: Any, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.beat()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 0.02)

    def beat(self) -> None:
        self.beats += 1

    def health(self) -> Any:
        return {"beats": self.beats}


class TestSound(ServiceSuite):
    kind: type[Heartbeat] = Heartbeat
    breaks = ""
    stop_seconds = 0.3

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Any]:
        yield None

    def make(self, folder: Path) -> Any:
        return self.kind()


class Nameless(Heartbeat):
    name = ""


class TestHasNoName(TestSound):
    kind, breaks = Nameless, "test_it_has_the_members_of_its_hook"


class Deaf(Heartbeat):
    async def run(self, runtime: Any, stop: asyncio.Event) -> None:
        await asyncio.sleep(3600)


class TestGoesOn(TestSound):
    kind, breaks = Deaf, "test_it_runs_until_it_is_asked_to_stop"


LEFT: list[Any] = []


class Leaving(Heartbeat):
    async def run(self, runtime: Any, stop: asyncio.Event) -> None:
        LEFT.append(asyncio.ensure_future(asyncio.sleep(3600)))
        await super().run(runtime, stop)
        LEFT[-1].cancel()


class TestLeavesATask(TestSound):
    kind, breaks = Leaving, "test_it_ends_when_it_is_cancelled"


class Blocking(Heartbeat):
    def beat(self) -> None:
        time.sleep(0.2)


class TestHoldsTheLoop(TestSound):
    kind, breaks, block_seconds = Blocking, "test_it_does_not_block_the_gateway", 0.15


class Opaque(Heartbeat):
    def health(self) -> Any:
        return {"beats": {self.beats}}


class TestReportsASet(TestSound):
    kind, breaks = Opaque, "test_its_health_is_plain_data"
