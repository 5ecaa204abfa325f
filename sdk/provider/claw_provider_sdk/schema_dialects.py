"""Schema dialects: a tool's JSON Schema in the form that each model service accepts. Pure.

What a dialect cannot express is reported, never guessed.

Anthropic accepts plain JSON Schema with an object at its top. Sources: OpenAI, "Structured Outputs, supported schemas";
Google, "Schema" of the Gemini API (the classic ``parameters`` field).
"""

from collections.abc import Mapping
from typing import Any

from claw import ToolSpec, t

from claw_provider_sdk.json_schema import current_draft

Schema = Mapping[str, Any]

_GEMINI_KEYS = frozenset(
    {"type", "format", "title", "description", "nullable", "default", "items", "minItems", "maxItems", "enum", "anyOf"}
    | {"properties", "required", "minProperties", "maxProperties", "minimum", "maximum", "minLength", "maxLength"}
    | {"pattern", "example", "propertyOrdering"}
)  # fmt: skip
_NOT_AT_TOP = frozenset({"allOf", "anyOf", "oneOf", "not", "enum"})
_GEMINI_FORMATS = frozenset({"date-time", "enum", "float", "double", "int32", "int64"})
# Keys that only restrict: without them the model has more freedom, and the host checks every call anyway.
_STRICT_DROPS = frozenset(
    {"$schema", "$id", "$comment", "default", "examples", "minLength", "maxLength", "uniqueItems", "readOnly"}
    | {"writeOnly", "deprecated", "minProperties", "maxProperties", "propertyNames", "title"}
)  # fmt: skip
_STRICT_UNSUPPORTED = ("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
                   "prefixItems", "contains", "unevaluatedProperties")  # fmt: skip


class _UnsupportedSchema(Exception):
    """The dialect cannot express this schema; the text says where and why."""


def function_schema(spec: ToolSpec) -> dict[str, Any]:
    """Return a tool as a function of the chat completions API."""
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": object_schema(spec.parameters),
    }


def object_schema(schema: Schema) -> dict[str, Any]:
    """Return a tool's schema in the current draft, as one plain object at the top: OpenAI and Anthropic demand both.

    The properties of alternatives (``anyOf`` …) stand side by side; the host checks the arguments against the full
    schema.
    """
    parts = [
        part
        for key in ("allOf", "anyOf", "oneOf")
        for part in schema.get(key, ())
        if isinstance(part, Mapping)
    ]
    if not parts and "not" not in schema and "enum" not in schema:
        return {"type": "object", **current_draft(schema)}
    plain = {key: value for key, value in schema.items() if key not in _NOT_AT_TOP}
    definitions, properties = _definitions(schema), dict(schema.get("properties", {}))
    for part in parts:
        named = definitions.get(str(part.get("$ref", "")).rsplit("/", 1)[-1], part)
        for name, inner in named.get("properties", {}).items():
            properties.setdefault(name, inner)
    return {"type": "object", **current_draft({**plain, "properties": properties})}


def gemini_schema(schema: Schema) -> dict[str, Any]:
    """Convert ``schema`` to the subset of Gemini's ``parameters``: no references, no type lists, only string enums.

    Whatever it cannot express is left out or widened: the host checks the arguments against the full schema.
    """
    return _gemini(schema, _definitions(schema), ())


def openai_strict_schema(schema: Schema) -> dict[str, Any] | None:
    """Convert ``schema`` for OpenAI's strict mode: all properties required, optional ones nullable, no others.

    The host's check drops the nulls that a model then sends for optional arguments.

    :returns: None when strict mode cannot express it: the tool is then sent without ``strict``.
    """
    try:
        return _strict(_require_object(schema), "")
    except _UnsupportedSchema:
        return None


def strict_schema_problem(schema: Schema) -> str:
    """Return the part of ``schema`` that strict mode cannot express, and why; empty when it can express all of it."""
    try:
        _strict(_require_object(schema), "")
    except _UnsupportedSchema as why:
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
            return {"type": "object"}  # a recursive type has no end when expanded
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _gemini({**definitions[name], **beside}, definitions, (*inside, name))
    whole = _without_unions(_merged(node))
    out = {key: value for key, value in whole.items() if key in _GEMINI_KEYS}
    if out.get("format") not in _GEMINI_FORMATS:
        out.pop("format", None)
    if "anyOf" in out:
        out["anyOf"] = [_gemini(option, definitions, inside) for option in out["anyOf"]]
        if not out["anyOf"]:
            del out["anyOf"]
        elif len(out["anyOf"]) == 1:
            out = {**out.pop("anyOf")[0], **out}
    if "properties" not in out:
        out.pop("required", None)
    if isinstance(properties := out.get("properties"), Mapping):
        out["properties"] = {name: _gemini(inner, definitions, inside) for name, inner in properties.items()}
        out["required"] = [name for name in out.get("required", ()) if name in properties]
    if not out.get("required"):
        out.pop("required", None)
    if out.get("type") == "array":
        out["items"] = _gemini(out.get("items"), definitions, inside) or {"type": "string"}
    else:  # allOf may merge to something that is no list
        out.pop("items", None)
    return out


def _merged(node: Schema) -> dict[str, Any]:
    """Merge ``allOf`` into its node; turn ``oneOf`` into ``anyOf``, ``const`` into an enum of one."""
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
    """Turn null into ``nullable``, a list of types into ``anyOf``, and drop enums of other types than string."""
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


def _require_object(schema: Schema) -> Schema:
    if schema.get("type") != "object" or "anyOf" in schema or "oneOf" in schema:
        raise _UnsupportedSchema(t("the top level is not an object"))
    return schema


def _strict(node: Any, where: str) -> dict[str, Any]:
    if not isinstance(node, Mapping) or not node:
        raise _UnsupportedSchema(t("{place} may be anything", place=where or "."))
    for key in _STRICT_UNSUPPORTED:
        if key in node:
            raise _UnsupportedSchema(t("{place} uses {key}", place=where or ".", key=key))
    if "allOf" in node:
        if len(node["allOf"]) != 1:
            raise _UnsupportedSchema(t("{place} uses {key}", place=where or ".", key="allOf"))
        node = _merged(node)
    out = {key: value for key, value in node.items() if key not in _STRICT_DROPS}
    if "oneOf" in out:
        out["anyOf"] = [*out.get("anyOf", ()), *out.pop("oneOf")]
    if "anyOf" in out:
        out["anyOf"] = [_strict(option, f"{where}|{at}") for at, option in enumerate(out["anyOf"])]
    for key in ("$defs", "definitions"):
        if key in out:
            out[key] = {name: _strict(inner, f"{where}{key}.{name}") for name, inner in out[key].items()}
    kinds = out.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]) or "properties" in out:
        out |= _strict_object(out, where)
    elif "array" in (kinds if isinstance(kinds, list) else [kinds]):
        out["items"] = _strict(out.get("items"), f"{where}[]")
    elif not {"type", "enum", "const", "anyOf", "$ref"} & out.keys():
        raise _UnsupportedSchema(t("{place} may be anything", place=where or "."))
    return out


def _strict_object(node: Schema, where: str) -> dict[str, Any]:
    """Return an object with all its properties required and no others."""
    if "properties" not in node or node.get("additionalProperties", False) is not False:
        raise _UnsupportedSchema(t("{place} takes keys of any name", place=where or "."))
    wanted = node.get("required", ())
    properties = {}
    for name, inner in node["properties"].items():
        out = _strict(inner, f"{where}.{name}" if where else name)
        properties[name] = out if name in wanted else _nullable(out)
    return {"properties": properties, "required": list(properties), "additionalProperties": False}


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    kinds = node.get("type")
    if kinds is None or "const" in node:
        options = node.get("anyOf") if node.keys() <= {"anyOf", "description"} else None
        if options is None:
            return {"anyOf": [node, {"type": "null"}]}
        return node if {"type": "null"} in options else {**node, "anyOf": [*options, {"type": "null"}]}
    kinds = kinds if isinstance(kinds, list) else [kinds]
    out = {**node, "type": kinds if "null" in kinds else [*kinds, "null"]}
    if "enum" in node and None not in node["enum"]:
        out["enum"] = [*node["enum"], None]
    return out
