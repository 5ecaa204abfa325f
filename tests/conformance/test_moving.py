"""A conversation moves between providers in mid-turn: each service, which is strict, takes what the others made."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import msgspec
import pytest
from claw.contracts.transcript import Assistant, Image, Text, ToolCall, ToolResultMessage, User, sendable
from claw_testing.services import AnthropicService, OpenAIService, ServiceReply
from models import LS, answer, asks, provider
from typed import TypedGoogleService, TypedMistralService


@dataclass(frozen=True)
class Stop:
    """A provider on the way."""

    service: Any
    plugin: str
    model: str
    section: tuple[tuple[str, Any], ...] = ()


STOPS = {
    "anthropic": Stop(AnthropicService, "anthropic", "claude-x"),
    "google": Stop(TypedGoogleService, "google", "gemini-3-x"),
    "openai": Stop(OpenAIService, "openai", "gpt-x"),
    "responses": Stop(OpenAIService, "openai", "o-x", (("api", "responses"),)),
    "mistral": Stop(TypedMistralService, "mistral", "magistral-x"),
}
TWO = [("ls", {"path": "a"}), ("ls", {"path": "b"})]
ROADS = [
    ("anthropic", "google", "openai", "mistral"),
    *permutations(("anthropic", "google", "responses", "mistral")),
    *[(name, "openai", name, name) for name in STOPS],
]


@pytest.mark.parametrize("road", ROADS, ids="-".join)
async def test_a_turn_goes_on_wherever_it_goes(road):
    """At each stop the model thinks, speaks and calls two tools; the next stop reads their results."""
    past: list[Any] = [User((Text("look"), Image("aGk=", "image/png")))]
    async with AsyncExitStack() as stack:
        for number, name in enumerate(road):
            stop = STOPS[name]
            last = number == len(road) - 1
            reply = (
                ServiceReply(text="Done.")
                if last
                else ServiceReply(text=f"At {name}.", thinking=f"as {name}", calls=TWO)
            )
            service = await stack.enter_async_context(stop.service([reply]))
            model = await stack.enter_async_context(provider(service.url, stop.plugin, **dict(stop.section)))
            thinking = "high" if number % 2 else "low"
            request = asks(*sendable(past), model=stop.model, tools=(LS,), thinking=thinking)
            _, message = await answer(model, request)
            assert service.refusals == []
            past += [through_the_file(message), *(result(call) for call in message.tool_calls)]
            said = msgspec.json.encode(service.requests[0].body).decode()
            for other in set(road[:number]) - {name}:
                assert f"as {other}" not in said, "a thought is for nobody but the model that had it"

    assert past[-1].text == "Done."
    assert sum(len(one.tool_calls) for one in past if isinstance(one, Assistant)) == 6


async def test_a_call_that_nobody_answered_is_answered_for_before_the_next_service_is_notified():
    """Claw died between call and result: the next model, of another maker, gets a notice."""
    begun = Assistant(
        (ToolCall("toolu_1", "ls", {}), ToolCall("toolu_2", "ls", {})), model="anthropic/claude-x"
    )
    past = (User((Text("look"),)), begun, ToolResultMessage("toolu_2", "ls", (Text("b"),)))
    for name in ("google", "mistral"):
        stop = STOPS[name]
        async with stop.service(["I see."]) as service, provider(service.url, stop.plugin) as model:
            shown, _ = await answer(model, asks(*sendable(past), model=stop.model, tools=(LS,)))
        assert (shown, service.refusals) == ("I see.", [])
        assert "the call was cut off" in msgspec.json.encode(service.requests[0].body).decode()


def result(call: ToolCall) -> ToolResultMessage:
    return ToolResultMessage(
        call.id, call.name, (Text(str(call.arguments)),), is_error=call.arguments == {"path": "b"}
    )


def through_the_file(message: Assistant) -> Assistant:
    """As it is read again from a transcript."""
    return msgspec.json.decode(msgspec.json.encode(message), type=Assistant)
