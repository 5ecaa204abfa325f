"""Through the whole program: a turn whose model call meets a fault ends in time, and the conversation goes on at once."""

import time
from importlib import import_module
from typing import Any

import pytest
from claw.contracts.errors import ClawError
from claw.testing import FakeProvider, Harness, says
from claw_testing.services import AnthropicService, GoogleService, MistralService, OpenAIService, ServiceReply
from pytest_claw.faults import ANSWER, CALLS, FAULTS, KEY, TEXT, at

WIRES: dict[str, tuple[Any, str, str, dict[str, Any]]] = {
    "messages": (AnthropicService, "anthropic", "anthropic", {}),
    "chat": (OpenAIService, "openai", "openai", {}),
    "responses": (OpenAIService, "openai", "openai", {"api": "responses"}),
    "gemini": (GoogleService, "google", "google.genai", {}),
    "mistral": (MistralService, "mistral", "mistralai.client", {}),
}
LIMITS = {"beginTimeoutSeconds": 0.4, "idleTimeoutSeconds": 0.3, "timeoutSeconds": 1.0}
GRACE_SECONDS = 5.0
OF_ALL = (
    "reset in the arguments of a call",
    "silence in the middle",
    "events without words for ever",
    "an orderly end in the middle",
    "an error behind some words",
    "two calls of one id",
    "calls without an id",
    "arguments that are not JSON",
    "nothing said",
    "429, a pause in seconds",
)
OF_CHAT = (
    "connection refused",
    "a service without TLS where TLS is wanted",
    "half a head",
    "redirected",
    "half closed in the middle",
    "cut in the middle of a character",
    "one byte now and then",
    "words without end",
    "an end mark and silence",
    "a line without end",
    "an event that is not json",
    "a web page",
    "an error that says it is an answer",
    "gzip that is none",
    "a body longer than it said",
    "only thoughts",
    "no reason to stop",
    *("400", "401", "402", "403", "404", "408", "409", "413", "422", "500", "503", "529"),
    "429, a pause of years",
)


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    """A vendor's library takes a second at its first call, which is not what is timed here."""
    for _, _, library, _ in WIRES.values():
        import_module(library)


@pytest.mark.parametrize(
    ("wire", "name"),
    [*((wire, name) for wire in WIRES for name in OF_ALL), *(("chat", name) for name in OF_CHAT)],
)
async def test_a_turn_that_meets_a_fault_ends_in_time_and_the_next_one_is_answered(
    wire: str, name: str
) -> None:
    service_class, maker, _, section = WIRES[wire]
    fault, fallback = FAULTS[name], FakeProvider(says("I am the spare."))
    replies = iter([] if fault.where else [fault.reply])
    limits = LIMITS if "timeout" in fault.ends else {}
    async with service_class(lambda request: next(replies, ServiceReply(text="Here I am."))) as service:
        async with at(fault.where, service.url) as url:
            config = {"providers": {maker: {"baseUrl": url, "apiKey": KEY, **section, **limits}}}
            plugins = {maker: import_module(f"claw_{maker}")}
            async with Harness(fallback, plugins=plugins, config=config) as harness:
                asked = {"model": f"{maker}/model-x"}
                began = time.monotonic()
                said = await answer_to(harness, "first", **asked, fallbacks=())
                assert time.monotonic() - began < max(limits.values(), default=0.0) + GRACE_SECONDS
                assert KEY not in said
                assert said
                if fault.ends == {ANSWER} and fault.reply.text:
                    assert said == ("Here I am." if fault.reply.calls else fault.reply.text)
                again = await answer_to(harness, "second", **asked, fallbacks=("fake/m1",))
                assert again in ("Here I am.", "I am the spare.")
        assert service.refusals == []


async def test_a_model_that_never_stops_calling_ends_in_time_too() -> None:
    async with OpenAIService(lambda request: ServiceReply(text=TEXT, calls=CALLS)) as service:
        config = {"providers": {"openai": {"baseUrl": service.url, "apiKey": KEY}}}
        plugins = {"openai": import_module("claw_openai")}
        async with Harness(FakeProvider(says("I am the spare.")), plugins=plugins, config=config) as harness:
            assert await answer_to(harness, "first", model="openai/model-x", fallbacks=())
            assert len(service.requests) < 100
            assert await answer_to(harness, "second", model="fake/m1", fallbacks=()) == "I am the spare."


async def answer_to(harness: Harness, text: str, **options: Any) -> str:
    """Return the answer to the person, or the error."""
    try:
        reply = await harness.send(text, **options)
    except ClawError as failed:
        return str(failed)
    return reply.text if reply else ""
