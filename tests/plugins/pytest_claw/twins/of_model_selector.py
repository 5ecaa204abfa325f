"""One sound model selector, and for each promise a twin that breaks it and no other."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from claw import Finished, Message, ModelOptions, ModelRef, ProviderError, Request
from pytest_claw import ModelSelectorSuite


class First:
    """Asks the models in order, each with its first key."""

    name = "first"

    def select(
        self,
        models: Sequence[ModelRef],
        providers: Mapping[str, Any],
        request: Request,
        options: ModelOptions,
    ) -> Any:
        async def ask(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[Any]:
            for model in models:
                full = self.filled(request, messages, tool_choice, model)
                full = replace(full, credential=self.key(providers[model.provider], options))
                try:
                    async with aclosing(self.answer(providers[model.provider], full)) as events:  # type: ignore[type-var]
                        async for event in events:
                            yield self.named(event, model)
                    return
                except ProviderError:
                    if model == models[-1]:
                        raise

        return ask

    def filled(
        self, request: Request, messages: Sequence[Message], tool_choice: str, model: ModelRef
    ) -> Request:
        return replace(request, model=model.model, messages=tuple(messages), tool_choice=tool_choice)

    def key(self, provider: Any, options: ModelOptions) -> Any:
        keys = provider.credentials()
        return next((key for key in keys if key.name == options.keys.get(provider.name)), keys[0])

    async def answer(self, provider: Any, request: Request) -> AsyncIterator[Any]:
        async with aclosing(provider.stream(request)) as stream:
            async for event in stream:
                yield event

    def named(self, event: Any, model: ModelRef) -> Any:
        if isinstance(event, Finished):
            return Finished(msgspec.structs.replace(event.message, model=str(model)))
        return event

    def credentials(self, provider: Any, agent_dir: Path | None = None) -> Any:
        return provider.credentials()


class TestSound(ModelSelectorSuite):
    kind: type[First] = First
    breaks = ""
    limit_seconds = 2.0

    def make(self, folder: Path) -> Any:
        return self.kind()


class Nameless(First):
    name = ""


class TestHasNoName(TestSound):
    kind, breaks = Nameless, "test_it_has_the_members_of_its_hook"


class Careless(First):
    def filled(self, request: Request, messages: Any, tool_choice: str, model: ModelRef) -> Request:
        return super().filled(request, messages, "auto", model)


class TestForgetsTheToolChoice(TestSound):
    kind, breaks = Careless, "test_the_first_model_is_asked_with_what_the_turn_gives"


class Anonymous(First):
    def named(self, event: Any, model: ModelRef) -> Any:
        return super().named(event, ModelRef("", model.model) if model.provider == "one" else model)


class TestNamesNoProvider(TestSound):
    kind, breaks = Anonymous, "test_the_answer_has_the_name_of_its_model"


class Buffered(First):
    async def answer(self, provider: Any, request: Request) -> AsyncIterator[Any]:
        async with aclosing(provider.stream(request)) as stream:
            events = [event async for event in stream]
        for event in events:
            yield event


class TestWaitsForTheWholeAnswer(TestSound):
    kind, breaks = Buffered, "test_each_piece_is_passed_on_as_it_comes"


class Hushing(First):
    async def answer(self, provider: Any, request: Request) -> AsyncIterator[Any]:
        try:
            async with aclosing(super().answer(provider, request)) as events:  # type: ignore[type-var]
                async for event in events:
                    yield event
        except ProviderError:
            return


class TestHidesAFailure(TestSound):
    kind, breaks = Hushing, "test_a_failure_ends_in_an_answer_or_in_the_error"


class Stubborn(First):
    def key(self, provider: Any, options: ModelOptions) -> Any:
        return provider.credentials()[0]


class TestIgnoresTheChosenKey(TestSound):
    kind, breaks = Stubborn, "test_a_key_that_the_person_chose_is_used_first"


OPEN: list[Any] = []


class Leaky(First):
    async def answer(self, provider: Any, request: Request) -> AsyncIterator[Any]:
        stream = provider.stream(request)
        OPEN.append(stream)
        async for event in stream:
            yield event


class TestKeepsConnections(TestSound):
    kind, breaks = Leaky, "test_closing_the_answer_closes_the_stream"


class Listing(First):
    def credentials(self, provider: Any, agent_dir: Path | None = None) -> Any:
        return [key.name for key in provider.credentials()]


class TestListsNames(TestSound):
    kind, breaks = Listing, "test_it_lists_the_keys_of_a_provider"
