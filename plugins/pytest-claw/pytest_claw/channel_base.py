"""The base of the suite for channels: making a trial, and its time limits."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pytest_claw.channel_trial import ChannelTrial

WITHOUT = {
    "groups": "chats of several people",
    "bots": "other bots that write",
    "acknowledgement": "deliveries that the channel acknowledges",
    "credentials": "a token or a password",
    "ids": "ids of the messages that the channel sends",
    "redelivery": "a second delivery of the same message",
    "answers": "an answer to a message that is sent: whether it arrived is never known",
    "connection": "a connection that the channel opens: the service, or each person, calls it",
    "pushes": "a message that answers none: each belongs to one of a person, whose id is in `answers`",
    "limits": "a maximum length of a message",
}
"""The words of ``ChannelSuite.without``, and what a service of each lacks."""


class ChannelSuiteBase:
    """The settings of a suite; see :class:`pytest_claw.ChannelSuite`."""

    limit_seconds = 10.0
    abort_seconds = 1.0
    stop_seconds = 2.0
    without: frozenset[str] | tuple[str, ...] = ()

    def place(self) -> AbstractAsyncContextManager[Any]:
        """Return a fresh :class:`Place`: an ``@asynccontextmanager`` that starts the fake service and
        makes the channel.
        """
        pytest.fail(
            f"{type(self).__name__}.place is not written: an async context manager that yields a Place"
        )

    def plain(self, shown: str) -> str:
        """Return the words of a message as people see it; override it for a service that adds marks of its
        own.
        """
        return shown

    def try_(self, trial: Callable[[ChannelTrial], Awaitable[None]]) -> None:
        """Run a trial in a place, and a loop, of its own."""
        if unknown := ", ".join(set(self.without) - WITHOUT.keys()):
            pytest.fail(f"without: {unknown}; it may name {', '.join(WITHOUT)}", pytrace=False)

        async def whole() -> None:
            async with self.place() as place:
                on = ChannelTrial(place, self)
                try:
                    await trial(on)
                finally:
                    await on.close()

        asyncio.run(whole())

    def needs(self, what: str) -> None:
        """Skip the test if the service lacks the feature."""
        if what in self.without:
            pytest.skip(f"the service lacks {WITHOUT[what]}")
