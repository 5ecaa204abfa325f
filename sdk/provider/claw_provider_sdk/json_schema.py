"""A tool's schema in JSON Schema 2020-12, whatever draft it was written in. Pure.

Anthropic checks every tool against that draft, OpenAI checks patterns and lists; one fault makes either refuse the whole
request. Sources: their errors "JSON schema is invalid. It must match JSON Schema draft 2020-12" and "array schema missing
items", JSON Schema "Migrating from older drafts".
"""

import re
from collections.abc import Mapping
from typing import Any

_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE = (
    *("items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "contains", "propertyNames"),
    *("not", "if", "then", "else"),
)  # fmt: skip
_NOT_SENT = frozenset({"$schema", "$id", "id", "$comment"})
_NEVER_NULL = frozenset(
    ("title", "description", "pattern", "format", "uniqueItems", "readOnly", "writeOnly", "deprecated")
)


def current_draft(node: Any) -> Any:
    """Return a schema in draft 2020-12. A restriction that has no such form is left out: the host checks every call.

    Lists of ``items`` become ``prefixItems``, true for ``exclusiveMinimum`` its number; a list says what its items are,
    a pattern is one that Python can compile, and a schema that is true or false is an object.
    """
    if isinstance(node, bool):
        return {} if node else {"not": {}}
    if not isinstance(node, Mapping):
        return node
    nulls = {key for key in _NEVER_NULL if node.get(key, key) is None}
    out = {key: value for key, value in node.items() if key not in _NOT_SENT | nulls}
    _update_bounds(out)
    _without_repetitions(out)
    _update_lists(out)
    if "pattern" in out and not _compiles(out["pattern"]):
        del out["pattern"]
    if isinstance(keys := out.get("patternProperties"), Mapping):
        out["patternProperties"] = {key: inner for key, inner in keys.items() if _compiles(key)}
    for key in _NAMED:
        if isinstance(inner := out.get(key), Mapping):
            out[key] = {name: current_draft(one) for name, one in inner.items()}
    for key in _LISTS:
        if isinstance(inner := out.get(key), list | tuple):
            out[key] = [current_draft(one) for one in inner]
    for key in _ONE:
        if key in out and not (key.startswith(("additional", "unevaluated")) and isinstance(out[key], bool)):
            out[key] = current_draft(out[key])
    return out


def _update_bounds(node: dict[str, Any]) -> None:
    for strict, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(is_strict := node.get(strict), bool):
            del node[strict]
            if is_strict and bound in node:
                node[strict] = node.pop(bound)


def _update_lists(node: dict[str, Any]) -> None:
    if isinstance(items := node.get("items"), list | tuple):
        node["items"] = node.pop("additionalItems", True)
        if items:
            node["prefixItems"] = list(items)
    node.pop("additionalItems", None)
    kinds = node.get("type", ())
    if "array" in (kinds if isinstance(kinds, list | tuple) else (kinds,)):
        node.setdefault("items", {})


def _without_repetitions(node: dict[str, Any]) -> None:
    for key in ("required", "type"):
        if isinstance(names := node.get(key), list | tuple):
            node[key] = list(dict.fromkeys(names))
    if isinstance(needed := node.get("dependentRequired"), Mapping):
        node["dependentRequired"] = {key: list(dict.fromkeys(names)) for key, names in needed.items()}


def _compiles(pattern: Any) -> bool:
    try:
        return bool(re.compile(pattern))
    except (re.error, TypeError, RecursionError, OverflowError):
        return False
