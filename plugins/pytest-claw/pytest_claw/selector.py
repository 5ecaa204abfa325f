"""Conformance tests of a model selector."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from claw import (
    Credential,
    Finished,
    Message,
    ModelEvent,
    ModelOptions,
    ModelRef,
    ProviderError,
    Text,
    TextDelta,
    User,
)

from pytest_claw.hook import REQUEST, HookSuite, ScriptedProvider, closed_after_first, collected

MODELS = (ModelRef("one", "m1"), ModelRef("two", "m2"))
ASKED = (User((Text("what is the weather?"),)),)


class ModelSelectorSuite(HookSuite):
    """The promises of a model selector. ``make`` is yours."""

    members = ("select", "credentials")

    def test_the_first_model_is_asked_with_what_the_turn_gives(self, subject: Any, tmp_path: Path) -> None:
        providers = {name: ScriptedProvider(name) for name in ("one", "two")}
        shown, last = self.run(collected(self.call(subject, providers, tmp_path)))
        assert shown == "Good day, m1"
        assert isinstance(last, Finished), "the last event is Finished"
        assert providers["two"].requests == [], "a second model was asked without a failure"
        [request] = providers["one"].requests
        assert (request.model, request.messages, request.tool_choice) == ("m1", ASKED, "required")
        assert (request.system, request.max_tokens) == (REQUEST.system, REQUEST.max_tokens)
        assert getattr(request.credential, "name", "") == "main", "the first key"

    def test_the_answer_has_the_name_of_its_model(self, subject: Any, tmp_path: Path) -> None:
        _, last = self.run(collected(self.call(subject, {"one": ScriptedProvider()}, tmp_path)))
        assert isinstance(last, Finished)
        assert last.message.model == "one/m1"

    def test_each_piece_is_passed_on_as_it_comes(self, subject: Any, tmp_path: Path) -> None:
        async def streamed() -> None:
            gate = asyncio.Event()
            stream = self.call(subject, {"one": ScriptedProvider(gate=gate)}, tmp_path)
            try:
                async with asyncio.timeout(self.limit_seconds / 2):
                    first = await anext(stream)
            except TimeoutError:
                pytest.fail("nothing came before the whole answer was there")
            assert isinstance(first, TextDelta), f"the first event is {first!r}"
            gate.set()
            await collected(stream)

        self.run(streamed())

    def test_a_failure_ends_in_an_answer_or_in_the_error(self, subject: Any, tmp_path: Path) -> None:
        error = ProviderError("too many requests", reason="rate_limit", retryable=True)
        providers = {"one": ScriptedProvider(error=error), "two": ScriptedProvider("two")}
        try:
            _, last = self.run(collected(self.call(subject, providers, tmp_path)))
        except ProviderError:
            return
        assert isinstance(last, Finished), "the failure is lost: neither an answer nor an error"
        assert last.message.model == "two/m2"

    def test_a_key_that_the_person_chose_is_used_first(self, subject: Any, tmp_path: Path) -> None:
        provider = ScriptedProvider()
        self.run(collected(self.call(subject, {"one": provider}, tmp_path, keys={"one": "spare"})))
        assert [getattr(request.credential, "name", "") for request in provider.requests] == ["spare"]

    def test_closing_the_answer_closes_the_stream(self, subject: Any, tmp_path: Path) -> None:
        provider = ScriptedProvider()
        stream = self.call(subject, {"one": provider}, tmp_path)
        assert self.run(closed_after_first(stream, provider)) == 1, (
            "the connection of a stopped turn stays open"
        )

    def test_it_lists_the_keys_of_a_provider(self, subject: Any, tmp_path: Path) -> None:
        keys = subject.credentials(ScriptedProvider(), tmp_path)
        assert all(isinstance(key, Credential) for key in keys), f"{keys!r}"
        assert [key.name for key in keys] == ["main", "spare"]

    def call(
        self, selector: Any, providers: dict[str, Any], folder: Path, **options: Any
    ) -> AsyncIterator[ModelEvent]:
        """Begin the model call of a turn that has two models."""
        models = [model for model in MODELS if model.provider in providers]
        given = ModelOptions(agent_dir=folder, session_key="agent:default:main", **options)
        messages: Sequence[Message] = ASKED
        stream: AsyncIterator[ModelEvent] = selector.select(models, providers, REQUEST, given)(
            messages, "required"
        )
        return stream
