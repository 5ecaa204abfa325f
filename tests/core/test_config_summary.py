"""A plugin's own section against its manifest's schema: each wrong key with its path and a fix, no plugin imported."""

import json
from typing import Any

import jsonschema
import pytest
from claw.config.source import ConfigSource
from claw.config.summary import OUT_OF_RANGE, schema_violations
from claw.contracts.tool_schema import surely_fits
from claw.host.discovery import states_of
from claw.host.manifest import InstalledPlugin, Manifest
from core.source import ROOT
from hypothesis import given, strategies as st

SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}, "size": {"type": "integer", "minimum": 1}},
    "required": ["colour"],
    "additionalProperties": False,
}
PAINT = InstalledPlugin("paint", "paint", "paint", "1", manifest=Manifest("paint", config_schema=SCHEMA))


def found_wrong(section: object) -> list[tuple[tuple[str | int, ...], str]]:
    return [(one.path, one.problem) for one in schema_violations(section, SCHEMA)]


@pytest.mark.parametrize(
    ("kind", "fitting", "others"),
    [
        ({"type": "integer"}, [0, -5], [True, 0.5, "1", None]),
        ({"type": "number", "title": "n"}, [0, 0.5], [False, "1"]),
        ({"type": "array", "items": {"type": "integer"}}, [[], [1, 2]], [[1, "a"], {}]),
        ({"type": "string", "format": "email"}, [], ["a@b.c"]),
    ],
)
def test_a_value_surely_fits_only_where_jsonschema_says_so(kind: Any, fitting: Any, others: Any) -> None:
    schema = {"type": "object", "properties": {"x": kind}, "$comment": "by hand"}
    assert all(surely_fits({"x": value}, schema) for value in fitting)
    assert not any(surely_fits({"x": value}, schema) for value in others)
    for value in fitting:
        jsonschema.validate({"x": value}, schema)


def test_what_fits_has_no_misfit() -> None:
    assert found_wrong({"colour": "red", "size": 2}) == []


@pytest.mark.parametrize(
    ("section", "path", "problem"),
    [
        ({}, ("colour",), "is required but missing"),
        ({"colour": "red", "colur": 1}, ("colur",), "is not a known key"),
        ({"colour": "green"}, ("colour",), "is not one of the known words"),
        ({"colour": "red", "size": "big"}, ("size",), "must be of the type {type}"),
        ({"colour": "red", "size": 0}, ("size",), OUT_OF_RANGE["ge"]),
    ],
)
def test_each_kind_of_wrong_names_its_key(section: object, path: tuple[str, ...], problem: str) -> None:
    assert found_wrong(section) == [(path, problem)]


def test_a_value_that_may_be_of_several_types_and_is_of_none_is_reported_with_them() -> None:
    secret = {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/from"}, {"type": "null"}]}
    schema = {"properties": {"token": secret}, "$defs": {"from": {"type": "object", "required": ["env"]}}}
    [one] = schema_violations({"token": 123}, schema)
    assert (one.path, one.problem.format(**one.values)) == (("token",), "must be of the type string, object")
    [one] = schema_violations({"token": {"evn": "T"}}, schema)  # of a right type, and wrong in another way
    assert one.problem == "does not fit the plugin's schema ({rule})"


def test_a_limit_of_a_value_that_may_be_left_out_is_named_with_it() -> None:
    schema = {
        "properties": {"share": {"anyOf": [{"type": "number", "exclusiveMaximum": 0.5}, {"type": "null"}]}}
    }
    [one] = schema_violations({"share": 0.5}, schema)
    said = "0.5 is out of range: it must be less than 0.5"
    assert (one.path, one.problem.format(**one.values)) == (("share",), said)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_no_section_and_no_schema_breaks_it(value: object) -> None:
    list(schema_violations(value, SCHEMA))
    list(schema_violations({}, {"type": value, "properties": value}))


SCHEMAS = [
    schema
    for path in sorted(ROOT.glob("plugins/*/*/claw-plugin.json"))
    if (schema := json.loads(path.read_text()).get("configSchema"))
]
WORDS = ["x", "pairing", "*", "", True, 3, 2.5, None, [], ["a"], [1], {}, {"env": "X"}, {"a": {}}]


@given(st.sampled_from(SCHEMAS), st.lists(st.tuples(st.integers(0, 99), st.sampled_from(WORDS)), max_size=3))
def test_the_short_way_for_simple_schemas_accepts_what_jsonschema_accepts(schema, chosen) -> None:
    keys = [*schema.get("properties", {}), "unknown"]
    section = {keys[number % len(keys)]: value for number, value in chosen}
    is_valid = jsonschema.Draft202012Validator(schema).is_valid(section)
    assert (not [*schema_violations(section, schema)]) == is_valid


def test_a_variable_is_filled_in_before_it_is_judged() -> None:
    raw = {"plugins": {"entries": {"paint": {"config": {"colour": "${HUE}"}}}}}
    assert [one.state for one in states_of([PAINT], {"HUE": "red"}, ConfigSource(tree=raw))] == ["idle"]
    [wrong] = states_of([PAINT], {"HUE": "green"}, ConfigSource(tree=raw))
    assert (wrong.state, wrong.stage) == ("quarantined", "config")
    assert wrong.why.startswith("plugins.entries.paint.config.colour: ") and "red, blue" in wrong.fix


def test_a_plugin_that_is_switched_off_keeps_its_own_state() -> None:
    raw = {"plugins": {"entries": {"paint": {"enabled": False, "config": {}}}}}
    assert [one.state for one in states_of([PAINT], {}, ConfigSource(tree=raw))] == ["disabled"]
