"""A tool: made from a function, its arguments checked, run isolated, its answer cut to size."""

import asyncio
import json
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from claw.contracts.errors import ClawError, ToolError
from claw.contracts.text import OMISSION_MARK, truncate, truncate_blocks
from claw.contracts.tool import Tool, ToolContext, ToolResult, fit_result, tool, validate
from claw.contracts.transcript import Image, Text
from claw.host.manifest import ToolDeclaration
from claw.host.worker import check_and_run, run_tool as run
from claw.policy.subjects import tool_fact
from claw.testing import tool_tokens
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field


class Place(BaseModel):
    """A place, as a parameter of a tool."""

    city: str
    zip_code: str | None = None


class Tree(BaseModel):
    label: str
    children: list["Tree"] = []


async def _say_nothing(text: str, attachments: tuple[str, ...]) -> tuple[str, ...]:
    return ()


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext("call_1", "agent:a:main", None, True, None, tmp_path, lambda text: None, _say_nothing)  # type: ignore[arg-type]


# --- made from a function --------------------------------------------------------------------------------------------


def test_a_typed_function_becomes_a_tool_with_a_terse_schema_and_its_own_words():
    @tool
    async def weather(
        place: Place,
        unit: Literal["c", "f"] = "c",
        days: Annotated[int, Field(ge=1)] = 3,
        note: str | None = None,
    ) -> str:
        """Tell the weather
        of a place.

        More that only a programmer reads.

        :param place: where to look,
            as exactly as possible
        :param str note: anything else
        """
        return ""

    assert (weather.name, weather.description) == ("weather", "Tell the weather of a place.")
    assert weather.parameters == {
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "description": "where to look, as exactly as possible",
                "properties": {"city": {"type": "string"}, "zip_code": {"type": "string"}},
                "required": ["city"],
            },
            "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
            "days": {"type": "integer", "minimum": 1, "default": 3},
            "note": {"type": "string", "description": "anything else"},
        },
        "required": ["place"],
    }


def test_the_decorator_says_what_the_tool_is_allowed_to_be():
    @tool(
        name="acme_go",
        description="Go.",
        optional=True,
        owner_only=True,
        effects="once",
        parallel=False,
        timeout_seconds=5,
    )
    def go() -> str:
        return "gone"

    assert (go.name, go.description, go.optional, go.owner_only) == ("acme_go", "Go.", True, True)
    assert (go.effects, go.parallel, go.timeout_seconds) == ("once", False, 5)


def test_a_tool_that_declares_no_effects_must_not_run_twice():
    @tool
    def go() -> str:
        return "gone"

    async def run(arguments, context):
        return "gone"

    assert go.effects == Tool("go", "Go.", {}, run).effects == ToolDeclaration("go").effects == "once"


def test_a_type_that_holds_itself_keeps_its_one_definition():
    @tool
    def plant(tree: Tree) -> str:
        return tree.label

    inner = plant.parameters["properties"]["tree"]["properties"]["children"]["items"]
    assert inner == {"$ref": "#/$defs/Tree"}
    assert set(plant.parameters["$defs"]) == {"Tree"}
    assert validate(plant, {"tree": {"label": "a", "children": [{"label": "b"}]}})[1] == ""
    assert "tree.children[0].label" in validate(plant, {"tree": {"label": "a", "children": [{}]}})[1]


def test_properties_may_have_names_that_schemas_and_pydantic_use_themselves():
    @tool
    def odd(title: str, json: int, model_config: bool, _under: str = "x") -> str:
        return title

    assert list(odd.parameters["properties"]) == ["title", "json", "model_config", "_under"]


def test_a_bare_string_in_annotated_describes_the_argument():
    @tool
    def look(where: Annotated[str, "a city"]) -> str:
        return where

    assert look.parameters["properties"]["where"] == {"type": "string", "description": "a city"}


def test_a_signature_that_no_model_can_fill_is_refused_with_the_way_out():
    def spread(*words: str) -> str:
        return ""

    with pytest.raises(ClawError, match=r"\*words.*parameters="):
        tool(spread)


def test_importing_the_module_loads_neither_pydantic_nor_jsonschema():
    code = (
        "import sys, claw.contracts.tool; print([m for m in ('pydantic', 'jsonschema') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


def test_the_public_name_is_the_decorator_also_after_the_module_of_that_name_was_imported():
    code = "import claw.contracts.tool; from claw import tool; print(type(tool).__name__)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "function"
    )


# --- arguments -------------------------------------------------------------------------------------------------------


@tool
def search(
    query: str, limit: int = 10, mode: Literal["fast", "deep"] = "fast", tags: list[str] | None = None
) -> str:
    """Search.

    :param query: what to look for
    """
    return f"{query} {limit} {mode} {tags}"


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, ["query is missing", "string", "what to look for"]),
        ({"query": 5}, ["query must be string", "not 5"]),
        ({"query": "x", "limit": "ten"}, ["limit must be integer", '"ten"']),
        ({"query": "x", "limti": 3}, ["limti", "did you mean limit?", "query, limit, mode, tags"]),
        ({"query": "x", "mode": "slow"}, ["mode must be one of", '"fast", "deep"', '"slow"']),
        ({"query": "x", "tags": ["a", 2]}, ["tags[1] must be string, not 2"]),
        ({"query": None}, ["query must be string", "not null"]),
        ("query=x", ["one JSON object", "query=x"]),
        (["x"], ["one JSON object"]),
    ],
)
def test_a_bad_argument_is_reported_so_that_a_model_can_correct_it(arguments, wanted):
    _, problem = validate(search, arguments)
    assert problem.startswith("Invalid arguments for search:")
    for part in wanted:
        assert part in problem


def test_a_null_for_an_optional_argument_counts_as_left_out():
    assert validate(search, {"query": "x", "limit": None, "tags": None}) == ({"query": "x"}, "")


def test_an_explicit_schema_may_take_null_and_further_arguments():
    schema = {
        "type": "object",
        "properties": {"a": {"type": ["string", "null"]}},
        "additionalProperties": True,
    }
    free = Tool("free", "", schema, run=_echo)
    assert validate(free, {"a": None, "b": 1}) == ({"a": None, "b": 1}, "")


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("email", "ann@example.org", "ann"),
        ("date", "2026-11-23", "next Monday"),
        ("ipv4", "192.0.2.7", "192.0.2.700"),
        ("uuid", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "f81d4fae"),
    ],
)
def test_a_format_that_the_schema_names_is_checked(form, good, bad):
    schema = {"type": "object", "properties": {"value": {"type": "string", "format": form}}}
    one = Tool("tool", "", schema, lambda arguments, context: None)
    assert validate(one, {"value": good})[1] == ""
    assert form in validate(one, {"value": bad})[1]


def test_a_schema_that_is_none_is_the_tools_fault_and_no_address_in_it_is_asked():
    broken = Tool("broken", "", {"type": "object", "properties": {"a": {"type": 5}}}, _echo, plugin="acme")
    remote = Tool(
        "remote", "", {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, _echo
    )
    assert "JSON Schema" in validate(broken, {"a": 1})[1] and "acme" in validate(broken, {"a": 1})[1]
    assert "JSON Schema" in validate(remote, {"a": 1})[1]


async def _echo(arguments: dict[str, Any], context: ToolContext) -> Any:
    return dict(arguments)


# --- running ---------------------------------------------------------------------------------------------------------


async def test_a_function_gets_values_of_its_types_its_defaults_and_the_context(context: ToolContext):
    @tool
    async def visit(context: ToolContext, place: Place, when: list[Place] | None = None) -> dict[str, Any]:
        return {"city": place.city, "when": when, "call": context.call_id, "type": type(place).__name__}

    answer = await check_and_run(visit, {"place": {"city": "Köln"}}, context)

    assert "context" not in visit.parameters["properties"]
    assert answer == ToolResult(
        '{"city":"Köln","when":null,"call":"call_1","type":"Place"}',
        details={"city": "Köln", "when": None, "call": "call_1", "type": "Place"},
    )


async def test_with_an_explicit_schema_the_function_gets_the_checked_arguments_as_they_are(
    context: ToolContext,
):
    @tool(parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    async def count(context: ToolContext, **arguments: Any) -> dict[str, Any]:
        return arguments

    assert (await check_and_run(count, {"n": 3}, context)).content == '{"n":3}'
    assert (await check_and_run(count, {}, context)).is_error


async def test_a_plain_function_runs_in_a_thread_and_the_loop_goes_on(context: ToolContext):
    here, went_on = threading.current_thread(), threading.Event()

    @tool
    def wait() -> str:
        assert threading.current_thread() is not here
        return str(went_on.wait(5))

    running = asyncio.ensure_future(check_and_run(wait, {}, context))
    await asyncio.sleep(0)
    went_on.set()
    assert (await running).content == "True"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RuntimeError("it broke badly"), "it broke badly (plugin acme)"),
        (KeyError("x"), "KeyError: 'x' (plugin acme)"),
        (ValueError(), "ValueError (plugin acme)"),
        (SystemExit(3), "SystemExit: 3 (plugin acme)"),
        (KeyboardInterrupt("no"), "KeyboardInterrupt: no (plugin acme)"),
        (StopIteration(), "acme"),
        (Unspeakable(), "Unspeakable"),
        (ToolError("a brace { too many", x=1), "ToolError"),
        (asyncio.CancelledError(), "CancelledError (plugin acme)"),
        (ToolError("no such {thing}", fix="try another", thing="cup"), "no such cup. try another"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_a_tool_raises_becomes_a_result_that_names_the_culprit(
    error, text, plain, context: ToolContext
):
    def fail() -> str:
        raise error

    async def fail_later() -> str:
        raise error

    answer = await check_and_run(replace(tool(fail if plain else fail_later), plugin="acme"), {}, context)

    assert answer.is_error
    assert text in answer.blocks[0].text


@pytest.mark.parametrize(
    "answer",
    [None, 5, ["a"], pytest.param(object(), id="object"), ToolResult(["text"]), ToolResult(7)],
    ids=repr,
)  # type: ignore[arg-type]
async def test_an_answer_of_another_kind_is_an_error_of_the_tool(answer, context: ToolContext):
    @tool
    async def odd() -> Any:
        return answer

    result = await check_and_run(replace(odd, plugin="acme"), {}, context)
    assert result.is_error
    assert "str, dict or ToolResult" in result.content and "acme" in result.content


async def test_a_dict_that_json_cannot_hold_is_an_error_too(context: ToolContext):
    @tool
    async def odd() -> Any:
        return {"when": object()}

    assert (await check_and_run(odd, {}, context)).is_error


async def test_half_a_surrogate_pair_does_not_reach_the_transcript(context: ToolContext):
    @tool
    async def odd() -> str:
        return "a\ud800b"

    assert (await check_and_run(odd, {}, context)).content == "a\ufffdb"


async def test_a_tool_that_takes_too_long_is_stopped(context: ToolContext):
    cleaned = []

    @tool(timeout_seconds=0.01)
    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)
        return ""

    answer = await check_and_run(slow, {}, context)
    assert answer.is_error and "0.01 s" in answer.content
    assert cleaned == [True]


async def test_cancelling_passes_to_the_tool_and_back(context: ToolContext):
    began = asyncio.Event()

    @tool
    async def slow() -> str:
        began.set()
        await asyncio.sleep(60)
        return ""

    running = asyncio.ensure_future(check_and_run(slow, {}, context))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_tool_that_will_not_be_cancelled_is_left_behind(
    context: ToolContext,
):
    let_go = asyncio.Event()

    @tool(timeout_seconds=0.01)
    async def stubborn() -> str:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                pass
        return "at last"

    answer = await run(stubborn, {}, context, grace_seconds=0.02)
    assert answer.is_error
    let_go.set()
    await asyncio.sleep(0.01)


# --- cut to size -----------------------------------------------------------------------------------------------------


def test_texts_of_one_result_share_the_limit_and_pictures_stay():
    picture = Image("AAAA")
    long = ToolResult((Text("a" * 9000), picture, Text("b" * 1000)), details={"kept": 1})

    short = fit_result(long, 5000)

    first, second, third = short.blocks
    assert (len(first.text), second, len(third.text)) == (4500, picture, 500)
    assert short.details == {"kept": 1}
    assert fit_result(short, 5000) is short


def test_a_cut_text_says_how_much_is_gone_and_what_to_do():
    assert truncate("x" * 500, 100).endswith("[... 400 chars truncated; narrow args]")


@given(st.text(max_size=400), st.integers(0, 300), st.none() | st.text(max_size=20), st.integers(0, 100))
def test_no_cut_text_is_longer_than_its_limit_and_a_short_one_is_untouched(text, limit, suffix, min_keep):
    out = truncate(text, limit, suffix, min_keep)
    assert len(out) <= max(limit, 0) or out == text
    if len(text) <= limit:
        assert out == text
    elif OMISSION_MARK not in out and suffix is not None:
        assert text.startswith(out.removesuffix(suffix[:limit]))


@given(st.lists(st.text(max_size=200), max_size=5), st.integers(0, 500))
def test_the_parts_together_keep_within_the_limit(texts, limit):
    assert sum(len(block.text) for block in truncate_blocks([Text(t) for t in texts], limit)) <= max(limit, 0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda s: st.lists(s) | st.dictionaries(st.text(), s),
    )
)
def test_no_arguments_whatever_make_the_check_raise(arguments):
    kept, problem = validate(search, arguments)
    assert isinstance(kept, dict)
    assert problem or json.dumps(kept)


def test_every_surface_counts_the_same_tokens_for_the_definition_of_a_tool() -> None:
    @tool(effects="none")
    def peek(path: str, lines: int = 10) -> str:
        """Read the beginning of a file: “the first lines”.

        :param path: where
        """
        return ""

    assert tool_fact(peek, "acme", {}).tokens == tool_tokens(peek) > 20
