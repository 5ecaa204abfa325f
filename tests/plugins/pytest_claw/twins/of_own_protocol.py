"""A provider that answers in this process, and for each promise a twin that breaks it and no other."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from claw import Assistant, Credential, Finished, ModelEvent, ProviderError, Request, Text, TextDelta
from pytest_claw import OwnProtocolSuite

WORDS = ("Good ", "day.")
KEY = "key-of-a-test"


class Parrot:
    name = "parrot"

    def context_tokens(self, model: str) -> int | None:
        return 8000

    def credentials(self) -> tuple[Any, ...]:
        return (Credential("parrot", KEY),)

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        self.check(request)
        for word in WORDS:
            await asyncio.sleep(0.001)
            yield TextDelta(word)
        yield Finished(Assistant((Text("".join(WORDS)),), model=f"parrot/{request.model}"))

    def check(self, request: Request) -> None:
        if request.model != "parrot":
            raise ProviderError("there is no such model", reason="model_not_found")


class TestSound(OwnProtocolSuite):
    provider_class: type[Parrot] = Parrot
    breaks = ""
    model, keys = "parrot", (KEY,)
    limit_seconds, stop_seconds = 3.0, 0.2

    def make(self, folder: Path) -> Any:
        return self.provider_class()


class Nameless(Parrot):
    name = ""


class TestHasNoName(TestSound):
    provider_class, breaks = Nameless, "test_it_has_the_members_of_its_hook"


class Shorter(Parrot):
    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        self.check(request)
        yield TextDelta(WORDS[0])
        yield Finished(Assistant((Text(WORDS[0]),), stop_reason="error"))


class TestEndsWithAnError(TestSound):
    provider_class, breaks = Shorter, "test_an_answer_is_its_pieces"


class OneBuffer(Parrot):
    def __init__(self) -> None:
        self._said = ""
        self._open = 0

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        self.check(request)
        self._said, self._open = self._said if self._open else "", self._open + 1
        for word in WORDS:
            await asyncio.sleep(0.001)
            self._said += word
            yield TextDelta(word)
        self._open -= 1
        yield Finished(Assistant((Text(self._said),)))


class TestMixesTwoAnswers(TestSound):
    provider_class, breaks = OneBuffer, "test_two_answers_at_once_are_whole"


class OnlyText(Parrot):
    def check(self, request: Request) -> None:
        super().check(request)
        if len(request.messages) > 1:
            raise ProviderError("one message alone", reason="bad_request")


class TestReadsOneMessage(TestSound):
    provider_class, breaks = OnlyText, "test_a_conversation_of_other_providers_is_accepted"


class Lingers(Parrot):
    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        rest = asyncio.ensure_future(asyncio.sleep(0.3))
        async for event in super().stream(request):
            yield event
        rest.cancel()


class TestLeavesATask(TestSound):
    provider_class, breaks = Lingers, "test_an_answer_that_is_left_leaves_nothing"


class Deaf(Parrot):
    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        self.check(request)
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            await asyncio.sleep(0.5)
            raise
        async for event in super().stream(request):
            yield event


class TestDoesNotStop(TestSound):
    provider_class, breaks = Deaf, "test_a_cancelled_answer_ends_at_once"


class AnyModel(Parrot):
    def check(self, request: Request) -> None:
        if request.model != "parrot":
            raise ProviderError("it failed", reason="server")


class TestSaysNoReason(TestSound):
    provider_class, breaks = AnyModel, "test_a_model_that_it_does_not_have_is_an_error_with_a_reason"


class NoWindow(Parrot):
    def context_tokens(self, model: str) -> int | None:
        return 0


class TestHasNoWindow(TestSound):
    provider_class, breaks = NoWindow, "test_it_has_a_window_and_credentials"


class Open(Parrot):
    def __init__(self) -> None:
        self.key = KEY


class TestShowsItsKey(TestSound):
    provider_class, breaks = Open, "test_a_key_is_never_shown"
