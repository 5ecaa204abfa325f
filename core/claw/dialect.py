"""A tool's JSON Schema in the dialects of the model services. Pure; what a dialect cannot say is named, never guessed.

Anthropic takes plain JSON Schema with an object at its top. Sources: OpenAI, "Structured Outputs, supported schemas";
Google, "Schema" of the Gemini API (the classic ``parameters`` field).
"""

from collections.abc import Mapping
from typing import Any

from claw.words import say

Schema = Mapping[str, Any]

_GEMINI_KEYS = frozenset(
    {"type", "format", "title", "description", "nullable", "default", "items", "minItems", "maxItems", "enum", "anyOf"}
    | {"properties", "required", "minProperties", "maxProperties", "minimum", "maximum", "minLength", "maxLength"}
    | {"pattern", "example", "propertyOrdering"}
)  # fmt: skip
_GEMINI_FORMATS = frozenset({"date-time", "enum", "float", "double", "int32", "int64"})
# Keys that only narrow: without them a model may answer more widely, and the host checks every call anyway.
_STRICT_DROPS = frozenset(
    {"$schema", "$id", "$comment", "default", "examples", "minLength", "maxLength", "uniqueItems", "readOnly"}
    | {"writeOnly", "deprecated", "minProperties", "maxProperties", "propertyNames", "title"}
)  # fmt: skip
_STRICT_REFUSES = ("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
                   "prefixItems", "contains", "unevaluatedProperties")  # fmt: skip


class _Unsayable(Exception):
    """The dialect has no words for this schema; the text says where and why."""


def gemini(schema: Schema) -> dict[str, Any]:
    """``schema`` in the subset that Gemini's ``parameters`` take: no references, no type lists, enums of strings only.

    Whatever it cannot say is left out or widened: the arguments are held against the full schema when they come.
    """
    return _gemini(schema, _definitions(schema), ())


def openai_strict(schema: Schema) -> dict[str, Any] | None:
    """``schema`` for OpenAI's strict mode: all properties required, optional ones nullable, no others.

    The nulls that a model then sends for optional arguments are dropped by the host's own check.

    :returns: None when strict mode cannot say it: the tool is then sent without ``strict``.
    """
    try:
        return _strict(_plain(schema), "")
    except _Unsayable:
        return None


def why_not_strict(schema: Schema) -> str:
    """Which part of ``schema`` strict mode cannot say, and why; empty when it can say all of it."""
    try:
        _strict(_plain(schema), "")
    except _Unsayable as why:
        return str(why)
    return ""


def _definitions(schema: Schema) -> Schema:
    return {**schema.get("definitions", {}), **schema.get("$defs", {})}


# --- Gemini ----------------------------------------------------------------------------------------------------------


def _gemini(node: Any, definitions: Schema, inside: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {}
    if isinstance(ref := node.get("$ref"), str):
        name = ref.rsplit("/", 1)[-1]
        if name in inside or name not in definitions:
            return {"type": "object"}  # a type that holds itself has no end when written out
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _gemini({**definitions[name], **beside}, definitions, (*inside, name))
    whole = _without_unions(_merged(node))
    said = {key: value for key, value in whole.items() if key in _GEMINI_KEYS}
    if said.get("format") not in _GEMINI_FORMATS:
        said.pop("format", None)
    if "anyOf" in said:
        said["anyOf"] = [_gemini(option, definitions, inside) for option in said["anyOf"]]
        if not said["anyOf"]:
            del said["anyOf"]
        elif len(said["anyOf"]) == 1:
            said = {**said.pop("anyOf")[0], **said}
    if isinstance(properties := said.get("properties"), Mapping):
        said["properties"] = {name: _gemini(inner, definitions, inside) for name, inner in properties.items()}
        said["required"] = [name for name in said.get("required", ()) if name in properties]
    if not said.get("required"):
        said.pop("required", None)
    if said.get("type") == "array":
        said["items"] = _gemini(said.get("items"), definitions, inside) or {"type": "string"}
    else:  # what allOf folds together may be no list in the end
        said.pop("items", None)
    return said


def _merged(node: Schema) -> dict[str, Any]:
    """``allOf`` folded into its node; ``oneOf`` read as ``anyOf``, ``const`` as an enum of one."""
    whole = {key: value for key, value in node.items() if key not in ("allOf", "oneOf", "const")}
    for part in node.get("allOf", ()):
        inner = _merged(part) if isinstance(part, Mapping) else {}
        properties = {**whole.get("properties", {}), **inner.get("properties", {})}
        required = list(dict.fromkeys([*whole.get("required", ()), *inner.get("required", ())]))
        whole = {**inner, **whole}
        whole |= {"properties": properties} if properties else {}
        whole |= {"required": required} if required else {}
    if "oneOf" in node:
        whole["anyOf"] = [*whole.get("anyOf", ()), *node["oneOf"]]
    if "const" in node:
        whole["enum"] = [node["const"]]
        whole.setdefault("type", _type_of(node["const"]))
    return whole


def _without_unions(node: dict[str, Any]) -> dict[str, Any]:
    """Null as ``nullable``, a list of types as ``anyOf``, enums of strings only."""
    if isinstance(kinds := node.get("type"), list):
        node["nullable"] = node.get("nullable") or "null" in kinds
        rest = [kind for kind in kinds if kind != "null"]
        node.pop("type")
        if len(rest) == 1:
            node["type"] = rest[0]
        elif rest:
            node["anyOf"] = [{"type": kind} for kind in rest]
    if isinstance(options := node.get("anyOf"), list):
        kept = [option for option in options if option != {"type": "null"}]
        node["nullable"] = node.get("nullable") or len(kept) < len(options)
        node["anyOf"] = kept
    if isinstance(values := node.get("enum"), list):
        node["nullable"] = node.get("nullable") or None in values
        values = [value for value in values if value is not None]
        if values and all(isinstance(value, str) for value in values):
            node |= {"enum": values, "type": "string"}
        else:
            del node["enum"]
    if not node.get("nullable"):
        node.pop("nullable", None)
    return node


def _type_of(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "string")


# --- OpenAI strict ---------------------------------------------------------------------------------------------------


def _plain(schema: Schema) -> Schema:
    if schema.get("type") != "object" or "anyOf" in schema or "oneOf" in schema:
        raise _Unsayable(say("the top is not one object"))
    return schema


def _strict(node: Any, where: str) -> dict[str, Any]:
    if not isinstance(node, Mapping) or not node:
        raise _Unsayable(say("{place} may be anything", place=where or "."))
    for key in _STRICT_REFUSES:
        if key in node:
            raise _Unsayable(say("{place} uses {key}", place=where or ".", key=key))
    if "allOf" in node:
        if len(node["allOf"]) != 1:
            raise _Unsayable(say("{place} uses {key}", place=where or ".", key="allOf"))
        node = _merged(node)
    said = {key: value for key, value in node.items() if key not in _STRICT_DROPS}
    if "oneOf" in said:
        said["anyOf"] = [*said.get("anyOf", ()), *said.pop("oneOf")]
    if "anyOf" in said:
        said["anyOf"] = [_strict(option, f"{where}|{at}") for at, option in enumerate(said["anyOf"])]
    for key in ("$defs", "definitions"):
        if key in said:
            said[key] = {name: _strict(inner, f"{where}{key}.{name}") for name, inner in said[key].items()}
    kinds = said.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]) or "properties" in said:
        said |= _closed(said, where)
    elif "array" in (kinds if isinstance(kinds, list) else [kinds]):
        said["items"] = _strict(said.get("items"), f"{where}[]")
    elif not {"type", "enum", "const", "anyOf", "$ref"} & said.keys():
        raise _Unsayable(say("{place} may be anything", place=where or "."))
    return said


def _closed(node: Schema, where: str) -> dict[str, Any]:
    """An object with all its properties required and no others."""
    if "properties" not in node or node.get("additionalProperties", False) is not False:
        raise _Unsayable(say("{place} takes keys of any name", place=where or "."))
    wanted = node.get("required", ())
    properties = {}
    for name, inner in node["properties"].items():
        said = _strict(inner, f"{where}.{name}" if where else name)
        properties[name] = said if name in wanted else _nullable(said)
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    kinds = node.get("type")
    if kinds is None or "const" in node:
        options = node.get("anyOf") if node.keys() <= {"anyOf", "description"} else None
        if options is None:
            return {"anyOf": [node, {"type": "null"}]}
        return node if {"type": "null"} in options else {**node, "anyOf": [*options, {"type": "null"}]}
    kinds = kinds if isinstance(kinds, list) else [kinds]
    said = {**node, "type": kinds if "null" in kinds else [*kinds, "null"]}
    if "enum" in node and None not in node["enum"]:
        said["enum"] = [*node["enum"], None]
    return said
