"""A tool's schema in the dialects of the services: nothing a dialect does not know is in it, and nothing is opened."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
from claw_provider_sdk.schema_dialects import gemini_schema, openai_strict_schema, strict_schema_problem
from hypothesis import example, given, settings, strategies as st

GEMINI = {
    *(
        "type",
        "format",
        "title",
        "description",
        "nullable",
        "default",
        "items",
        "minItems",
        "maxItems",
        "enum",
    ),
    *("anyOf", "properties", "required", "minimum", "maximum", "minLength", "maxLength", "pattern"),
}
NAMES = st.sampled_from(["path", "type", "items", "名字", "x"])
LEAVES = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "number", "boolean"])}),
    st.fixed_dictionaries(
        {"type": st.just("string"), "enum": st.just(["a", "b"])}, optional={"default": st.just("a")}
    ),
    st.fixed_dictionaries(
        {"type": st.just(["string", "null"]), "format": st.sampled_from(["uri", "date-time"])}
    ),
    st.fixed_dictionaries({"const": st.sampled_from(["x", 3])}),
    st.just({"$ref": "#/$defs/T"}),
    st.just({}),
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(NAMES, inner, max_size=3).flatmap(
        lambda properties: st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.just(properties)},
            optional={
                "required": st.lists(st.sampled_from([*properties, "gone"]), unique=True),
                "additionalProperties": st.booleans(),
            },
        )
    )


SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        objects(inner),
        st.fixed_dictionaries({"type": st.just("array")}, optional={"items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=8,
)
PARAMETERS = objects(SCHEMAS).map(
    lambda schema: {**schema, "$defs": {"T": {"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}}}}}
)

NO_LIST = {
    "type": "object",
    "properties": {"x": {"allOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/T"}}]}},
    "$defs": {"T": {"type": "object"}},
}


def nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every schema in a schema."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for key in ("properties", "$defs"):
        for inner in schema.get(key, {}).values():
            yield from nodes(inner)
    yield from nodes(schema.get("items"))
    for option in schema.get("anyOf", ()):
        yield from nodes(option)


@settings(max_examples=150, deadline=None)
@given(PARAMETERS)
@example(NO_LIST)
def test_gemini_is_addressed_in_its_own_words_only(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    said = gemini_schema(schema)
    assert schema == before, "the tool's own schema is left alone"
    for node in nodes(said):
        assert set(node) <= GEMINI
        assert not isinstance(node.get("type"), list)
        assert node.get("type") != "array" or node["items"]
        assert all(isinstance(value, str) for value in node.get("enum", ()))
        assert set(node.get("required", ())) <= set(node.get("properties", {}))
        assert "required" not in node or node["required"]


@settings(max_examples=150, deadline=None)
@given(PARAMETERS)
def test_strict_mode_is_said_whole_or_not_at_all(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    said, obstacle = openai_strict_schema(schema), strict_schema_problem(schema)
    assert schema == before
    assert (said is None) == bool(obstacle)
    for node in nodes(said):
        assert node.keys().isdisjoint({"allOf", "oneOf", "default", "$schema"})
        if "properties" in node:
            assert node["additionalProperties"] is False
            assert sorted(node["required"]) == sorted(node["properties"])
    if said is not None:
        jsonschema.Draft202012Validator.check_schema(said)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer"}),
        ({"enum": ["a", None]}, {"enum": ["a"], "type": "string", "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "string", "nullable": True}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        ({"$ref": "#/$defs/nowhere"}, {"type": "object"}),
        (
            {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
    ],
)
def test_what_gemini_cannot_say_is_widened(schema: dict[str, Any], said: dict[str, Any]) -> None:
    whole = gemini_schema({"type": "object", "properties": {"x": schema}})
    assert whole["properties"]["x"] == said


@pytest.mark.parametrize(
    ("schema", "obstacle"),
    [
        ({"type": "object"}, ". takes keys of any name"),
        ({"type": "object", "properties": {"x": {}}}, "x may be anything"),
        ({"type": "object", "properties": {"x": {"type": "array", "items": {}}}}, "x[] may be anything"),
        (
            {"type": "object", "properties": {"x": {"type": "object", "properties": {"y": {"not": {}}}}}},
            "x.y uses not",
        ),
        ({"anyOf": [{"type": "object"}]}, "the top level is not an object"),
    ],
)
def test_what_keeps_a_tool_from_strict_mode_is_named(schema: dict[str, Any], obstacle: str) -> None:
    assert strict_schema_problem(schema) == obstacle


def test_an_optional_choice_becomes_one_that_may_be_null() -> None:
    properties = {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "b": {"$ref": "#/$defs/T"}}
    said = openai_strict_schema(
        {"type": "object", "properties": properties, "$defs": {"T": {"type": "string"}}}
    )
    assert said is not None
    assert said["properties"] == {
        "a": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        "b": {"anyOf": [{"$ref": "#/$defs/T"}, {"type": "null"}]},
    }
