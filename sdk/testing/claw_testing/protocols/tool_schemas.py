"""Refusals of tool schemas by the services, at any depth. Pure.

Sources: Anthropic's errors "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12"
and "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"; OpenAI's "array schema missing items", "is not a
'regex'" and "reference can only point to definitions defined at the top level of the schema".
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, SchemaError

from claw_testing.protocols import require

_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


def check_draft(schema: Mapping[str, Any], where: str) -> None:
    """Check that a schema is one of draft 2020-12, as Anthropic and Mistral do.

    :raises RequestRefused: it is not.
    """
    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as why:
        require(
            condition=False,
            message=f"{where}: JSON schema is invalid. It must match JSON Schema draft 2020-12: {why.message}",
        )


def check_keys(schema: Mapping[str, Any], where: str) -> None:
    """Check the names of the arguments, as Anthropic does.

    :raises RequestRefused: one has other characters, or is too long.
    """
    for name in schema.get("properties", {}):
        message = f"{where}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
        require(_KEY.fullmatch(name), message)


def check_function(schema: Mapping[str, Any], name: str) -> None:
    """Check lists, patterns and references, as OpenAI does without strict mode.

    :raises RequestRefused: a part of it is unsound.
    """
    check_draft(schema, f"Invalid schema for function '{name}'")
    for node in parts(schema):
        kinds = node.get("type", ())
        is_list = "array" in (kinds if isinstance(kinds, list) else [kinds])
        problem = f"Invalid schema for function '{name}': "
        require(not is_list or "items" in node, f"{problem}array schema missing items")
        for pattern in filter(None, (node.get("pattern"), *node.get("patternProperties", ()))):
            require(_compiles(pattern), f"{problem}{pattern!r} is not a 'regex'")
        target = str(node.get("$ref", "#"))
        require(
            target == "#" or _is_defined(target, schema),
            f"{problem}reference can only point to definitions defined at the top level of the schema",
        )


def parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas inside it."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for key in _NAMED:
        for inner in schema.get(key, {}).values():
            yield from parts(inner)
    for key in _LISTS:
        for inner in schema.get(key, ()):
            yield from parts(inner)
    for key in _ONE:
        yield from parts(schema.get(key))


def _is_defined(reference: str, schema: Mapping[str, Any]) -> bool:
    _, key, *name = reference.split("/")
    return key in ("$defs", "definitions", "properties") and bool(name) and name[0] in schema.get(key, {})


def _compiles(pattern: str) -> bool:
    try:
        return bool(re.compile(pattern))
    except re.error:
        return False
