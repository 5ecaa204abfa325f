"""A tool whose parameters no model service takes is withheld and named; its siblings and the turn are not touched."""

import asyncio
from pathlib import Path
from typing import Any

import claw_anthropic
import claw_google
import claw_mistral
import claw_openai
import pytest
from claw.contracts.tool_schema import schema_problem
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from claw_testing.protocols import RequestRefused
from claw_testing.protocols.tool_schemas import check_function
from claw_testing.services import AnthropicService, GoogleService, MistralService, OpenAIService
from third_party import Machine, installed, plugin_code

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
    **{
        f"{key}: {value!r}": {"type": "object", "properties": {"x": {key: value}}}
        for key, value in (
            ("maximum", "5"),
            ("minimum", float("inf")),
            ("minimum", float("nan")),
            ("maximum", True),
            ("exclusiveMaximum", "9"),
            ("multipleOf", 0),
            ("multipleOf", -2),
            ("minLength", -1),
            ("maxLength", 2.5),
            ("minItems", 1.5),
            ("maxProperties", None),
            ("uniqueItems", "yes"),
            ("description", 5),
            ("pattern", ["a"]),
            ("not", []),
            ("contains", 3),
            ("additionalProperties", "no"),
            ("dependentRequired", 5),
            ("dependentRequired", {"a": "b"}),
            ("dependentRequired", {"a": [1]}),
        )
    },
}
COMBINED = {
    "anyOf": [
        {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    ]
}
NESTED: dict[str, Any] = {
    "anyOf inside": {
        "anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {"type": "array"}}}]
    },
    "oneOf with null": {"oneOf": [{"type": "string", "format": "uri"}, {"type": "null"}]},
    "a list without items": {"type": "array"},
    "a tuple of an old draft": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
    "a strict bound of an old draft": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    "a pattern of another dialect": {"type": "string", "pattern": "^\\p{L}+$"},
    "keys by pattern": {
        "type": "object",
        "patternProperties": {"^x-": {"type": "string"}, "\\p{L}": {"type": "string"}},
    },
    "any other keys": {"type": "object", "additionalProperties": {"type": "array"}},
    "a recursive reference": {"$ref": "#/$defs/Node"},
    "a reference with a description": {"$ref": "#/$defs/Node", "description": "where to begin"},
    "a format": {"type": "string", "format": "email"},
    "an enum of numbers": {"type": "integer", "enum": [1, 2]},
    "constants": {"anyOf": [{"const": "a"}, {"const": 3}]},
    "one of its own keys is required": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "names twice": {"type": ["string", "string"], "description": None, "uniqueItems": None},
    "an argument that is required twice": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a", "a"],
        "dependentRequired": {"a": ["b", "b"]},
    },
    "counts that are whole": {"type": "array", "minItems": 1.0, "maxItems": 3},
    "true": True,
    "false": False,
    "type lists": {"type": ["string", "array", "null"]},
    "conditions": {
        "type": "object",
        "if": {"required": ["a"]},
        "then": {"required": ["b"]},
        "dependentRequired": {"a": ["b"]},
    },
}
"""Schemas of one argument that are sound, and that a service refuses unless they are converted."""

WIRES = {
    "anthropic": (AnthropicService, claw_anthropic, "anthropic/claude-sonnet-4-6", {}),
    "openai": (OpenAIService, claw_openai, "openai/gpt-4.1", {}),
    "google": (GoogleService, claw_google, "google/gemini-2.5-pro", {}),
    "mistral": (MistralService, claw_mistral, "mistral/mistral-large-4", {}),
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


async def test_a_tool_that_is_larger_than_a_request_should_be_is_withheld_and_named() -> None:
    huge, wide = (
        FakeTool("huge", "", SOUND),
        FakeTool("wide", "", {"type": "object", "description": "x" * 90_000}),
    )
    odd = FakeTool("odd", "", {"type": "object", "default": {1, 2}})
    huge.description = "Think. " * 50_000
    model = FakeProvider(says("so be it"))
    async with Harness(model, tools=[huge, wide, odd, FakeTool("good", "", SOUND)]) as harness:
        await harness.send("go")

    assert {"huge", "wide", "odd", "good"} & set(model.requests[0].tool_names) == {"good"}
    said = "its tool huge is withheld: model services do not accept its parameters: with its description it has 350,"
    assert any(said in line and " characters, over 64,000. " in line for line in harness.log_lines)


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
    assert any(line.startswith("plugin ") and "its tool bad is withheld" in line for line in log)


@pytest.mark.parametrize("wire", WIRES)
async def test_alternatives_at_the_top_are_sent_as_one_object(wire: str) -> None:
    text, _, body, _ = await answered(wire, FakeTool("combined", "", COMBINED))

    assert text == "fine"
    assert "'id'" in str(body["tools"]) and "'name'" in str(body["tools"])


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_service_takes_every_sound_schema(wire: str, name: str) -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"x": NESTED[name], "y": {"type": "object", "properties": {"x": NESTED[name]}}},
        "required": ["x"],
        "$defs": {"Node": node},
    }

    text, _, body, _ = await answered(wire, FakeTool("odd", "", schema))

    assert text == "fine"
    assert "odd" in str(body["tools"])


async def test_a_tool_with_arguments_that_anthropic_cannot_name_is_left_out_and_named(caplog: Any) -> None:
    named = {"type": "object", "properties": {"名字": {"type": "string"}}}

    text, _, body, _ = await answered(
        "anthropic", FakeTool("good", "", SOUND), FakeTool("chinese", "", named)
    )

    assert text == "fine"
    assert [tool["name"] for tool in body["tools"]] == ["good"]
    assert "anthropic is not given these tools: chinese" in caplog.text and "名字" in caplog.text


@pytest.mark.parametrize("wire", ["openai", "openai responses"])
async def test_more_tools_than_openai_takes_leave_out_the_last_ones_and_name_them(
    wire: str, caplog: Any
) -> None:
    tools = [FakeTool(f"tool_{number:03d}", "", SOUND) for number in range(130)]

    text, _, body, _ = await answered(wire, *tools)

    assert text == "fine"
    sent = [tool.get("function", tool)["name"] for tool in body["tools"]]
    assert sent == [f"tool_{number:03d}" for number in range(128)]
    [line] = [record.getMessage() for record in caplog.records if "not given" in record.getMessage()]
    assert "tool_128, tool_129" in line and "takes 128 tools" in line and "tools.deny" in line


@pytest.mark.parametrize("wire", ["openai", "openai responses"])
async def test_a_description_that_is_too_long_for_openai_is_cut_and_named(wire: str, caplog: Any) -> None:
    tools = [FakeTool("long", "", SOUND), FakeTool("good", "", SOUND)]
    tools[0].description = "Think. " * 400

    text, _, body, _ = await answered(wire, *tools)

    assert text == "fine"
    sent = [tool.get("function", tool) for tool in body["tools"]]
    assert [tool["name"] for tool in sent] == ["long", "good"]
    assert sent[0]["description"].startswith("Think. Think.") and len(sent[0]["description"]) <= 1024
    [line] = [record.getMessage() for record in caplog.records if "1024 characters" in record.getMessage()]
    assert line.endswith("are cut: long")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a list without items", "array schema missing items"),
        ("a tuple of an old draft", "draft 2020-12"),
        ("a strict bound of an old draft", "draft 2020-12"),
        ("a pattern of another dialect", "is not a 'regex'"),
        ("keys by pattern", "is not a 'regex'"),
    ],
)
def test_our_service_refuses_what_openai_refuses(name: str, why: str) -> None:
    with pytest.raises(RequestRefused, match=why):
        check_function({"type": "object", "properties": {"x": {"anyOf": [NESTED[name]]}}}, "odd")


async def test_a_tool_that_the_provider_of_the_run_refuses_is_withheld_by_the_policy_and_explained() -> None:
    odd = FakeTool("odd", "", {"type": "object", "properties": {"$filter": {"type": "string"}}})
    model = FakeProvider(says("so be it"))
    model.tool_problem = lambda tool: (
        "$filter is no name" if "$filter" in tool.parameters["properties"] else ""
    )
    async with Harness(model, tools=[odd, FakeTool("good", "", SOUND)]) as harness:
        await harness.send("go")
        [fact] = [one for one in harness.app.runtime.facts if one.name == "odd"]

    assert "good" in model.requests[0].tool_names
    assert "odd" not in model.requests[0].tool_names
    assert fact.refused_by == ((model.name, "$filter is no name"),)


async def test_a_provider_that_fails_to_judge_tools_refuses_none_and_is_named() -> None:
    def fails(tool: Any) -> str:
        raise RuntimeError("no luck")

    model = FakeProvider(says("so be it"))
    model.tool_problem = fails
    async with Harness(model, tools=[FakeTool("good", "", SOUND)]) as harness:
        await harness.send("go")

    assert "good" in model.requests[0].tool_names
    assert any("no luck" in line for line in harness.log_lines)


def test_every_surface_says_the_same_sentence_about_a_wrong_schema(tmp_path: Path) -> None:
    parameters = {"type": "object", "properties": {"town": {"type": "strin"}}}
    tools = [{"name": "tides", "description": "Tells when the water is high.", "parameters": parameters}]
    code = plugin_code("tides").replace("return [tides]", f"return [replace(tides, parameters={parameters})]")
    code = "from dataclasses import replace\n" + code
    site = installed(tmp_path / "site", "sea", code, {"kinds": ["tool"], "tools": tools})
    machine = Machine(tmp_path / "machine", [site])

    sentence = 'model services do not accept its parameters: town: "strin" is no type'
    others = ("a simpler schema", "not a valid JSON Schema", "not valid under")
    for words in (
        "tools list --all",
        "tools explain tides",
        "plugins info sea",
        "plugins check sea",
        "doctor",
    ):
        done = machine.claw(*words.split())
        said = done.out + done.err
        assert sentence in said, (words, said)
        wrong = [one for one in others if one in said]
        assert wrong == [], (words, said)
    assert "a sound schema" in machine.claw("tools", "explain", "tides").out


TIDE = """
from claw import Tool, hookimpl

async def run(arguments, context):
    return "fine"

@hookimpl
def register_tools(config):
    schema = {"type": "object", "properties": {"a": {"type": "strng"}}}
    return [Tool("tide", "Say the tide.", schema, run, effects="none")]
"""
LINE = {"name": "tide", "description": "Say the tide.", "effects": "none"}
REFUSED = {"type": "object", "properties": {"a": {"type": "strng"}}}
WITHHELD = 'its tool tide is withheld: model services do not accept its parameters: a: "strng" is no type'
DIFFERS = "tool tide: manifest and code differ in parameters"


@pytest.mark.parametrize(
    ("manifest", "said", "available"),
    [
        (None, [WITHHELD], False),
        ({"kinds": ["tool"], "tools": [{**LINE, "parameters": REFUSED}]}, [WITHHELD], False),
        ({"kinds": ["tool"], "tools": [{**LINE, "parameters": SOUND}]}, [DIFFERS], True),
    ],
    ids=["no manifest", "declared", "only in its code"],
)
def test_every_surface_says_the_same_of_a_tool_with_an_unsound_schema(
    tmp_path: Path, manifest: dict[str, Any] | None, said: list[str], available: bool
) -> None:
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "tides", TIDE, manifest)])
    checked = machine.claw("plugins", "doctor")
    assert checked.code == 1

    printed = {
        words: machine.claw(*words.split())
        for words in ("plugins list", "plugins info tides", "status", "doctor", "tools explain tide")
    }

    for words, answer in {**printed, "plugins doctor": checked}.items():
        text = " ".join((answer.out + answer.err).split())
        assert [one for one in said if one not in text] == [], words
        assert available or DIFFERS not in text, words
    assert printed["doctor"].out.count("tide: ") + printed["doctor"].out.count("tide is") == 1
    assert printed["tools explain tide"].code == (0 if available else 1)
