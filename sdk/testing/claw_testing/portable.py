"""Portability checks of a tool definition for all model services, and its cost in tokens. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from claw import t
from claw.runtime import definition_tokens, schema_problem
from claw_provider_sdk import strict_schema_problem

TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
"""Tool names that every service accepts; the first character is a letter because some services require it."""
ARGUMENT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
MAX_DESCRIPTION_CHARS = 1024
MAX_TOKENS = 1000


class ToolDefinition(Protocol):
    """A tool definition: a ``Tool``, a ``ToolSpec``, or the entry of a tool in a manifest."""

    @property
    def name(self) -> str:
        """The name for calls."""
        ...

    @property
    def description(self) -> str:
        """The description for the model."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        ...


@dataclass(frozen=True, slots=True)
class PortabilityProblem:
    """A problem of a tool definition.

    :param rule: name, description, anthropic, openai-strict, gemini or price.
    """

    rule: str
    problem: str


def tool_faults(tool: ToolDefinition) -> tuple[PortabilityProblem, ...]:
    """Find all problems that prevent offering ``tool`` to every service."""
    return (*_name_and_description(tool), *_schema(tool.parameters), *_cost(tool))


def tool_tokens(tool: ToolDefinition) -> int:
    """Estimate the tokens of the tool definition in a request, at four characters a token."""
    return definition_tokens(tool.name, tool.description, tool.parameters)


def _name_and_description(tool: ToolDefinition) -> Iterator[PortabilityProblem]:
    if not TOOL_NAME.fullmatch(tool.name):
        yield PortabilityProblem(
            "name",
            t(
                "{name} is not a valid name: a letter, then letters, digits, _ and -, at most 64 characters",
                name=repr(tool.name),
            ),
        )
    description = tool.description.strip()
    one_word = description.isascii() and len(description.split()) < 2
    if one_word or description.lower() == re.sub("[_-]", " ", tool.name).lower():
        yield PortabilityProblem("description", t("its description does not say what it does"))
    if len(description) > MAX_DESCRIPTION_CHARS:
        yield PortabilityProblem(
            "description",
            t(
                "its description has {chars} characters, over {most}",
                chars=len(description),
                most=MAX_DESCRIPTION_CHARS,
            ),
        )


def _schema(schema: Mapping[str, Any]) -> Iterator[PortabilityProblem]:
    import jsonschema

    if why := schema_problem(schema):  # claw itself withholds it, in the same words
        yield PortabilityProblem(
            "anthropic", t("model services do not accept its parameters: {why}", why=why)
        )
        return
    try:
        jsonschema.Draft202012Validator.check_schema(dict(schema))
    except jsonschema.SchemaError as wrong:
        yield PortabilityProblem(
            "anthropic", t("model services do not accept its parameters: {why}", why=wrong.message[:200])
        )
        return
    unions = {"anyOf", "oneOf", "allOf"} & schema.keys()
    if schema.get("type") != "object" or unions:
        yield PortabilityProblem(
            "anthropic", t("its parameters must be one object at the top, without anyOf, oneOf, allOf")
        )
        return
    for name in schema.get("properties", {}):
        if not ARGUMENT_NAME.fullmatch(name):
            yield PortabilityProblem(
                "anthropic",
                t("the argument {name} is not letters, digits, _ . -, at most 64", name=repr(name)),
            )
    if obstacle := strict_schema_problem(schema):
        yield PortabilityProblem("openai-strict", obstacle)
    for where, lost in _gemini_losses(schema, "", _definitions(schema), ()):
        yield PortabilityProblem("gemini", t("{place}: {lost}", place=where or ".", lost=lost))


def _gemini_losses(
    node: Any, where: str, definitions: Mapping[str, Any], inside: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Find the places where conversion to Gemini's schema dialect would change the meaning."""
    if not isinstance(node, Mapping):
        return
    if isinstance(ref := node.get("$ref"), str):
        name = ref.rsplit("/", 1)[-1]
        if name in inside or name not in definitions:
            yield where, t("a recursive type cannot be expanded there")
            return
        node, inside = definitions[name], (*inside, name)
    for key in ("not", "if", "patternProperties", "prefixItems", "dependentRequired"):
        if key in node:
            yield where, t("it has no {key}", key=key)
    kinds = node.get("type")
    if "array" in (kinds if isinstance(kinds, list) else [kinds]) and not node.get("items"):
        yield where, t("a list must say what its items are")
    if any(value is not None and not isinstance(value, str) for value in node.get("enum", ())):
        yield where, t("an enum can only hold texts")
    for name, inner in node.get("properties", {}).items():
        yield from _gemini_losses(inner, f"{where}.{name}" if where else name, definitions, inside)
    yield from _gemini_losses(node.get("items"), f"{where}[]", definitions, inside)
    for key in ("anyOf", "oneOf", "allOf"):
        for at, option in enumerate(node.get(key, ())):
            yield from _gemini_losses(option, f"{where}|{at}", definitions, inside)


def _definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**schema.get("definitions", {}), **schema.get("$defs", {})}


def _cost(tool: ToolDefinition) -> Iterator[PortabilityProblem]:
    if (tokens := tool_tokens(tool)) > MAX_TOKENS:
        yield PortabilityProblem(
            "price",
            t("it costs {tokens} tokens in every request, over {most}", tokens=tokens, most=MAX_TOKENS),
        )
