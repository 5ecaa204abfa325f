"""Providers as turns ask them: middleware in its order, and the guards of core that need no plugin."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from claw import (
    Assistant,
    Finished,
    ModelEvent,
    ProviderError,
    Request,
    SystemPrompt,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolSpec,
)
from claw.agent.providers import GuardedProvider, apply_middleware
from claw.config.models import ModelsSettings
from claw.host.registry import Contribution
from claw.security.redaction import Redactor
from claw.testing import FakeProvider, says

SECRET = "sk-very-long-secret-0123456789"
TOOL = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


def asked(*tools: ToolSpec) -> Request:
    return Request("m1", SystemPrompt("You help."), (), tools)


def guarded(
    provider: Any, log: Callable[[str], None] = lambda line: None, **settings: Any
) -> GuardedProvider:
    limits = {"leastContext": 16_000, "smallContext": 32_000, **settings}
    return GuardedProvider(provider, ModelsSettings.model_validate(limits), Redactor([SECRET]), log)


async def events_of(provider: Any, request: Request) -> list[ModelEvent]:
    return [event async for event in provider.stream(request)]


class Babbling(FakeProvider):
    """A provider that streams thinking and text one character at a time."""

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        for character in f"key {SECRET}":
            yield ThinkingDelta(character)
            yield TextDelta(character)
        call = ToolCall("1", "look", {"key": SECRET})
        yield Finished(Assistant((Thinking(f"key {SECRET}"), Text(f"key {SECRET}"), call)))


async def test_a_known_secret_is_masked_in_text_and_thinking_however_it_is_cut() -> None:
    *pieces, last = await events_of(guarded(Babbling()), asked())

    for kind in (TextDelta, ThinkingDelta):
        assert "".join(one.text for one in pieces if isinstance(one, kind)) == "key ***"
    assert isinstance(last, Finished)
    thinking, text, call = last.message.content
    assert isinstance(thinking, Thinking) and isinstance(text, Text) and isinstance(call, ToolCall)
    assert (thinking.text, text.text) == ("key ***", "key ***")
    assert call.arguments == {"key": SECRET}


async def test_a_model_that_reads_too_little_is_given_no_tools_whoever_provides_them() -> None:
    provider = FakeProvider(says("hi"), context_tokens=8000)

    with pytest.raises(ProviderError, match="needs at least 16,000"):
        await events_of(guarded(provider), asked(TOOL))
    assert provider.requests == []
    assert await events_of(guarded(provider), asked())


async def test_a_provider_that_cannot_say_how_much_it_reads_is_written_down_and_asked_all_the_same() -> None:
    class Broken(FakeProvider):
        def context_tokens(self, model: str) -> int:
            raise RuntimeError("no idea")

    lines: list[str] = []
    assert await events_of(guarded(Broken(says("hi")), lines.append), asked(TOOL))
    assert lines == ["provider fake failed: RuntimeError: no idea"]


class Marking:
    """Middleware that puts its mark in front of the model's name."""

    def __init__(self, mark: str, seen: list[str]) -> None:
        self.name, self.seen = mark, seen

    def wrap(self, provider: Any) -> Any:
        outer = self

        class Marked:
            name = provider.name

            def __getattr__(self, name: str) -> Any:
                return getattr(provider, name)

            def stream(self, request: Request) -> Any:
                outer.seen.append(outer.name)
                return provider.stream(request)

        return Marked()


async def test_the_first_middleware_is_the_outermost_and_one_that_fails_is_left_out() -> None:
    class Wrong:
        name = "wrong"

        def wrap(self, provider: Any) -> Any:
            return object()

    seen: list[str] = []
    failed: list[tuple[str, str]] = []
    chain = [
        Contribution("a", Marking("a", seen)),
        Contribution("w", Wrong()),
        Contribution("b", Marking("b", seen)),
    ]
    providers = {"fake": Contribution("acme", FakeProvider(says("hi")))}
    wrapped = apply_middleware(providers, chain, lambda plugin, why: failed.append((plugin, str(why))), 5)  # type: ignore[arg-type]

    assert await events_of(wrapped["fake"].value, asked())
    assert seen == ["a", "b"]
    assert failed == [
        ("w", "its middleware answers with a provider that has no stream, credentials, context_tokens")
    ]
