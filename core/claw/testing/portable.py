"""Whether a tool can be offered to every model service as it is, and what it costs in every request. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from claw.dialect import why_not_strict
from claw.words import say

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""Accepted by every service; letters first, because some refuse anything else there."""
ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
DESCRIPTION_CHARS = 1024
TOKENS = 1000


class Described(Protocol):
    """A ``Tool``, a ``ToolSpec``, or a tool's line of a manifest."""

    @property
    def name(self) -> str:
        """How a model calls it."""
        ...

    @property
    def description(self) -> str:
        """What a model is told of it."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of its arguments."""
        ...


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to mend in a tool.

    :param rule: name, description, anthropic, openai-strict, gemini or price.
    """

    rule: str
    problem: str


def tool_faults(tool: Described) -> tuple[Fault, ...]:
    """All that keeps ``tool`` from being offered everywhere as it stands."""
    return (*_words(tool), *_schema(tool.parameters), *_price(tool))


def tool_tokens(tool: Described) -> int:
    """What the tool costs in every request that offers it, by the rule of four characters a token."""
    line = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return -(-len(json.dumps(line, ensure_ascii=False, separators=(",", ":"))) // 4)


def _words(tool: Described) -> Iterator[Fault]:
    if not NAME.fullmatch(tool.name):
        yield Fault(
            "name",
            say(
                "{name} is no name: a letter, then letters, digits, _ and -, at most 64", name=repr(tool.name)
            ),
        )
    told = tool.description.strip()
    one_word = told.isascii() and len(told.split()) < 2
    if one_word or told.lower() == re.sub("[_-]", " ", tool.name).lower():
        yield Fault("description", say("its description does not say what it does"))
    if len(told) > DESCRIPTION_CHARS:
        yield Fault(
            "description",
            say(
                "its description has {chars} characters, over {most}", chars=len(told), most=DESCRIPTION_CHARS
            ),
        )


def _schema(schema: Mapping[str, Any]) -> Iterator[Fault]:
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(dict(schema))
    except jsonschema.SchemaError as why:
        yield Fault(
            "anthropic", say("its parameters are not a sound JSON Schema: {error}", error=why.message[:200])
        )
        return
    unions = {"anyOf", "oneOf", "allOf"} & schema.keys()
    if schema.get("type") != "object" or unions:
        yield Fault(
            "anthropic", say("its parameters must be one object at the top, without anyOf, oneOf, allOf")
        )
        return
    for name in schema.get("properties", {}):
        if not ARGUMENT.fullmatch(name):
            yield Fault(
                "anthropic",
                say("the argument {name} is not letters, digits, _ . -, at most 64", name=repr(name)),
            )
    if obstacle := why_not_strict(schema):
        yield Fault("openai-strict", obstacle)
    for where, lost in _lost(schema, "", _definitions(schema), ()):
        yield Fault("gemini", say("{place}: {lost}", place=where or ".", lost=lost))


def _lost(
    node: Any, where: str, definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Where Gemini's dialect would tell a model something else than the schema says."""
    if not isinstance(node, Mapping):
        return
    if isinstance(ref := node.get("$ref"), str):
        name = ref.rsplit("/", 1)[-1]
        if name in inside or name not in definitions:
            yield where, say("a type that holds itself has no end there")
            return
        node, inside = definitions[name], (*inside, name)
    for key in ("not", "if", "patternProperties", "prefixItems", "dependentRequired"):
        if key in node:
            yield where, say("it has no {key}", key=key)
    kinds = node.get("type")
    if "array" in (kinds if isinstance(kinds, list) else [kinds]) and not node.get("items"):
        yield where, say("a list must say what its items are")
    if any(value is not None and not isinstance(value, str) for value in node.get("enum", ())):
        yield where, say("an enum can only hold texts")
    for name, inner in node.get("properties", {}).items():
        yield from _lost(inner, f"{where}.{name}" if where else name, definitions, inside)
    yield from _lost(node.get("items"), f"{where}[]", definitions, inside)
    for key in ("anyOf", "oneOf", "allOf"):
        for at, option in enumerate(node.get(key, ())):
            yield from _lost(option, f"{where}|{at}", definitions, inside)


def _definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**schema.get("definitions", {}), **schema.get("$defs", {})}


def _price(tool: Described) -> Iterator[Fault]:
    if (tokens := tool_tokens(tool)) > TOKENS:
        yield Fault(
            "price", say("it costs {tokens} tokens in every request, over {most}", tokens=tokens, most=TOKENS)
        )
