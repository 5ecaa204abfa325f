"""One sound middleware, and for each promise a twin that breaks it and no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from claw import ProviderError, Request, TextDelta
from pytest_claw import MiddlewareSuite


class Counted:
    """A provider that counts its pieces; everything else is passed on."""

    def __init__(self, provider: Any) -> None:
        self._provider, self.pieces = provider, 0

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        stream = self._provider.stream(request)
        try:
            async for event in stream:
                self.pieces += isinstance(event, TextDelta)
                yield event
        finally:
            await stream.aclose()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)


class TestSound(MiddlewareSuite):
    wrapper: type[Any] = Counted
    name, breaks = "counter", ""
    limit_seconds = 2.0

    def make(self, folder: Path) -> Any:
        suite = self

        class Counter:
            name = suite.name

            def wrap(self, provider: Any) -> Any:
                return suite.wrapper(provider)

            def at_end(self, turn: str) -> Any:
                return suite.statements()

        return Counter()

    def statements(self) -> Any:
        return [("INSERT INTO counts VALUES (?)", (1,))]


class TestHasNoName(TestSound):
    name, breaks = " ", "test_it_has_the_members_of_its_hook"


class Forgetful(Counted):
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        async with aclosing(super().stream(request)) as stream:  # type: ignore[type-var]
            async for event in stream:
                if not (isinstance(event, TextDelta) and self.pieces == 2):
                    yield event


class TestLosesAPiece(TestSound):
    wrapper, breaks = Forgetful, "test_the_answer_is_passed_on"

    def test_two_answers_at_once_do_not_mix(self, subject: Any) -> None:
        """Lost pieces are lost there too."""


class Buffered(Counted):
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        stream = self._provider.stream(request)
        try:
            events = [event async for event in stream]
        finally:
            await stream.aclose()
        for event in events:
            yield event


class TestWaitsForTheWholeAnswer(TestSound):
    wrapper, breaks = Buffered, "test_each_piece_is_passed_on_as_it_comes"


class Bare(Counted):
    def __getattr__(self, name: str) -> Any:
        if name == "custom_fact":
            raise AttributeError(name)
        return super().__getattr__(name)


class TestKnowsOnlyTheProtocol(TestSound):
    wrapper, breaks = Bare, "test_what_it_does_not_know_is_passed_on"


class Vague(Counted):
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        stream = self._provider.stream(request)
        try:
            async for event in stream:
                yield event
        except ProviderError as error:
            raise ProviderError("something went wrong", reason="server") from error
        finally:
            await stream.aclose()


class TestHidesTheReason(TestSound):
    wrapper, breaks = Vague, "test_an_error_is_passed_on"


OPEN: list[Any] = []


class Leaky(Counted):
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        stream = self._provider.stream(request)
        OPEN.append(stream)
        async for event in stream:
            yield event


class TestKeepsConnections(TestSound):
    wrapper, breaks = Leaky, "test_closing_the_answer_closes_the_stream"


class Shared(Counted):
    last: Any = None

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        async with aclosing(super().stream(request)) as stream:  # type: ignore[type-var]
            async for event in stream:
                self.last = event
                await asyncio.sleep(0)
                yield self.last


class TestSharesOneAnswer(TestSound):
    wrapper, breaks = Shared, "test_two_answers_at_once_do_not_mix"


class TestWritesStatementsAsText(TestSound):
    breaks = "test_its_statements_at_the_end_of_a_turn_are_sql"

    def statements(self) -> Any:
        return [("INSERT INTO counts VALUES (1)", None)]
