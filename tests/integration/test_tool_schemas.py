"""A tool whose parameters no model service takes is withheld and named; its siblings and the turn are not touched."""

import asyncio
from typing import Any

import claw_anthropic
import claw_openai
import pytest
from claw.contracts.tool_schema import schema_problem
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from claw_testing.services import AnthropicService, OpenAIService

SOUND = {"type": "object", "properties": {"path": {"type": "string"}}}
BAD: dict[str, Any] = {
    "an array": {"type": "array"},
    "no type": {"type": "objekt"},
    "properties that are none": {"type": "object", "properties": 5},
    "a type inside": {"type": "object", "properties": {"x": {"type": "strin"}}},
    "a dangling reference": {"type": "object", "properties": {"x": {"$ref": "#/$defs/Nobody"}}},
    "a remote reference": {"type": "object", "properties": {"x": {"$ref": "https://example.org/x.json"}}},
    "an empty choice": {"type": "object", "properties": {"x": {"anyOf": []}}},
    "required that is no list": {"type": "object", "properties": {}, "required": "x"},
}
COMBINED = {
    "anyOf": [
        {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    ]
}
WIRES = {
    "anthropic": (AnthropicService, claw_anthropic, "anthropic/claude-sonnet-4-6", {}),
    "openai": (OpenAIService, claw_openai, "openai/gpt-4.1", {}),
    "openai responses": (OpenAIService, claw_openai, "openai/gpt-4.1", {"api": "responses"}),
}


@pytest.mark.parametrize("name", BAD)
def test_an_unsound_schema_is_recognised(name: str) -> None:
    assert schema_problem(BAD[name])


@pytest.mark.parametrize(
    "schema",
    [
        SOUND,
        COMBINED,
        {},
        {
            "type": "object",
            "$defs": {"A": {"type": ["string", "null"]}},
            "properties": {"x": {"$ref": "#/$defs/A"}},
        },
        {"type": "object", "properties": {"x": True}, "additionalProperties": False},
        {"type": "object", "properties": {"type": {"type": "string", "enum": ["a"]}}},
    ],
)
def test_a_sound_schema_is_left_alone(schema: dict[str, Any]) -> None:
    assert schema_problem(schema) == ""


async def test_a_pattern_that_backtracks_without_end_is_stopped() -> None:
    slow = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    tool, model = FakeTool("slow", "", slow), FakeProvider(calls("slow", x="a" * 40 + "!"), says("so be it"))
    async with Harness(model, tools=[tool]) as harness:
        async with asyncio.timeout(20):
            reply = await harness.send("go")

        assert reply and reply.text == "so be it"
        assert tool.calls == []
        assert "it takes more than 1 s" in str(model.requests[1].request.messages[-1])


async def answered(wire: str, *tools: FakeTool) -> tuple[str, list[str], Any, list[str]]:
    service_class, plugin, model, section = WIRES[wire]
    async with service_class(["fine"]) as service:
        maker = model.partition("/")[0]
        config = {"providers": {maker: {"baseUrl": service.url, "apiKey": "k", **section}}}
        async with Harness(FakeProvider(), tools=tools, plugins={maker: plugin}, config=config) as harness:
            reply = await harness.send("hi", model=model)
            assert service.refusals == []
            return reply.text if reply else "", harness.log_lines, service.requests[0].body, service.refusals


@pytest.mark.parametrize("wire", WIRES)
async def test_one_bad_tool_stops_no_turn_and_is_named(wire: str) -> None:
    text, log, body, _ = await answered(
        wire, FakeTool("good", "", SOUND), FakeTool("bad", "", BAD["an array"])
    )

    assert text == "fine"
    assert '"good"' in str(body).replace("'", '"') and '"bad"' not in str(body).replace("'", '"')
    assert any("tool bad of plugin" in line and "withheld" in line for line in log)


@pytest.mark.parametrize("wire", WIRES)
async def test_alternatives_at_the_top_are_sent_as_one_object(wire: str) -> None:
    text, _, body, _ = await answered(wire, FakeTool("combined", "", COMBINED))

    assert text == "fine"
    assert "'id'" in str(body["tools"]) and "'name'" in str(body["tools"])
