"""What every part of the suite for channels stands on: how a trial is made, and what it may take."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pytest_claw.place import Trial


class Trying:
    """The settings of a suite; see :class:`pytest_claw.ChannelSuite`."""

    patience_seconds = 10.0
    abort_seconds = 1.0
    stop_seconds = 2.0
    without: frozenset[str] | tuple[str, ...] = ()

    def place(self) -> AbstractAsyncContextManager[Any]:
        """A fresh :class:`Place`: an ``@asynccontextmanager`` that starts the fake service and makes the channel."""
        pytest.fail(
            f"{type(self).__name__}.place is not written: an async context manager that yields a Place"
        )

    def plain(self, shown: str) -> str:
        """The words of a message as people see it; for a service that writes marks of its own."""
        return shown

    def try_(self, trial: Callable[[Trial], Awaitable[None]]) -> None:
        """Run a trial in a place, and a loop, of its own."""

        async def whole() -> None:
            async with self.place() as place:
                on = Trial(place, self)
                try:
                    await trial(on)
                finally:
                    await on.close()

        asyncio.run(whole())

    def needs(self, what: str) -> None:
        """Leave the test out where the service knows no such thing."""
        if what in self.without:
            pytest.skip(f"the service has no {what}")
