"""Tool arguments: a JSON Schema made from a function signature, and validation against a schema.

Neither pydantic nor jsonschema is imported before a function is read or a call is checked.
"""

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterator, Mapping
from sys import float_info
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from claw.contracts.errors import ClawError, ToolError, nearest
from claw.i18n import t

Read = Callable[[dict[str, Any]], dict[str, Any]]

_MOST_ERRORS = 5
_MOST_NODES, _MOST_CHARS = 20_000, 64_000  # about 16,000 tokens, in each request
_OPEN = frozenset(
    ("additionalProperties", "patternProperties", "unevaluatedProperties", "anyOf", "oneOf", "allOf", "$ref")
)
_validators: dict[int, tuple[Mapping[str, Any], Any]] = {}


# --- a function → a schema -------------------------------------------------------------------------------------------


def schema_of_function(function: Callable[..., Any], given_by_host: type) -> tuple[dict[str, Any], Read, str]:
    """Read the signature of ``function``.

    Pydantic makes the schema, so every annotation that it supports works: ``Literal``, ``Annotated`` (a bare string in it
    is a description), nested models. ``:param x:`` of the docstring describes parameters without a description.

    :param given_by_host: a parameter annotated with this class is left out.
    :returns: JSON Schema; a function that turns checked arguments into values of the annotated types (it raises
        ``ToolError``); and the name of the parameter left out, empty when there is none.
    :raises ClawError: the signature cannot be offered to a model.
    """
    import pydantic

    hints, descriptions = _hints(function), documented_parameters(function)
    fields: dict[str, Any] = {}
    left_out = host_parameter(function, given_by_host)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == left_out:
            continue
        hint = hints.get(parameter.name, Any)
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise _signature_error(
                function,
                "the parameter {name} cannot be passed by name",
                "give every parameter a name, or pass parameters= with a JSON Schema and accept **arguments",
                name=str(parameter),
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        # An alias, because pydantic reserves names such as "json" and "copy" in models.
        described = _description(hint, descriptions.get(parameter.name))
        named = pydantic.Field(alias=parameter.name, description=described)
        fields[f"argument_{len(fields)}"] = (Annotated[hint, named], default)
    model = pydantic.create_model("Arguments", **fields)
    names = {field: typing.cast("str", info.alias) for field, info in model.model_fields.items()}

    def read(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            values = model.model_validate(arguments)
        except pydantic.ValidationError as error:
            faults = error.errors(include_url=False)
            problems = "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults)
            raise ToolError("{problems}", problems=problems) from None
        return {name: getattr(values, field) for field, name in names.items()}

    return compact_schema(model.model_json_schema()), read, left_out


def host_parameter(function: Callable[..., Any], given_by_host: type) -> str:
    """Return the name of the parameter annotated with ``given_by_host``; empty when there is none."""
    hints = _hints(function)
    found = (n for n, h in hints.items() if h is given_by_host or given_by_host in typing.get_args(h))
    return next(found, "")


def documented_parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Return the ``:param name: text`` entries of a docstring; a text may go on over indented lines."""
    found = re.findall(
        r"^:param\s+(?:[^:\n]*\s)?\*{0,2}(\w+):[ \t]*(.*(?:\n[ \t]+.*)*)",
        inspect.getdoc(function) or "",
        re.MULTILINE,
    )
    return {name: " ".join(text.split()) for name, text in found}


def first_paragraph(function: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(function) or "").split("\n\n")[0].split())


def compact_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Shorten a schema of pydantic: remove titles, ``$ref`` (except in recursive types) and the null of arguments that
    may be left out."""
    definitions = schema.get("$defs", {})
    short: dict[str, Any] = _short(schema, definitions, ())
    bodies: dict[str, Any] = {}
    while missing := set(re.findall(r'"#/\$defs/([^"]+)"', json.dumps([short, bodies]))) - bodies.keys():
        bodies |= {name: _short(definitions[name], definitions, (name,)) for name in sorted(missing)}
    return {**short, "$defs": bodies} if bodies else short


def _short(node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_short(item, definitions, inside) for item in node]
    if not isinstance(node, Mapping):
        return node
    if isinstance(ref := node.get("$ref"), str):
        name = ref.rsplit("/", 1)[-1]
        if name in inside:
            return dict(node)
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _short({**definitions[name], **beside}, definitions, (*inside, name))
    short = {key: value for key, value in node.items() if key != "$defs" and not _is_redundant(key, value)}
    options = short.get("anyOf")
    left_out_is_null = "default" in node and node["default"] is None
    if left_out_is_null and isinstance(options, list) and {"type": "null"} in options:
        options = [option for option in options if option != {"type": "null"}]
        del short["anyOf"]
        short = {**(options[0] if len(options) == 1 else {"anyOf": options}), **short}
        return _short(short, definitions, inside)
    for key, value in short.items():
        if key in ("properties", "patternProperties"):
            short[key] = {name: _short(inner, definitions, inside) for name, inner in value.items()}
        elif key not in ("default", "const", "enum", "examples"):
            short[key] = _short(value, definitions, inside)
    return short


def _is_redundant(key: str, value: Any) -> bool:
    if key == "title":
        return isinstance(value, str)
    return (key == "default" and value is None) or (key == "additionalProperties" and value is True)


def _description(hint: Any, documented: str | None) -> str | None:
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, str):
            return extra
        if text := getattr(extra, "description", None):
            return str(text)
    return documented


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError as unknown:
        raise _signature_error(
            function,
            "an annotation cannot be resolved: {unknown}",
            "import it in the module of the tool, not under TYPE_CHECKING",
            unknown=unknown,
        ) from None


def _signature_error(function: Callable[..., Any], problem: str, fix: str, **values: object) -> ClawError:
    return ClawError(problem, where=f"{function.__module__}.{function.__qualname__}", fix=fix, **values)


# --- the schema of a third party ---

_OF_SCHEMAS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_COUNTS = tuple(
    f"{end}{of}" for end in ("min", "max") for of in ("Length", "Items", "Properties", "Contains")
)
_FLAGS = ("uniqueItems", "readOnly", "writeOnly", "deprecated")
_WORDS = ("title", "description", "pattern", "format", "$comment", "$id", "$anchor")
_Type = Literal["object", "array", "string", "number", "integer", "boolean", "null"]
_Number = Annotated[float, msgspec.Meta(ge=-float_info.max, le=float_info.max)]
_Some = Annotated[list[Any], msgspec.Meta(min_length=1)]
_VALUES: dict[str, Any] = {
    "type": _Type | list[_Type],
    "enum": _Some,
    "required": list[str],
    "dependentRequired": dict[str, list[str]],
    **dict.fromkeys(_OF_SCHEMAS, dict[Any, Any]),
    **dict.fromkeys(_LISTS, _Some),
    **dict.fromkeys(_ONE, dict[Any, Any] | bool),
    "items": dict[Any, Any] | bool | list[Any],
    **dict.fromkeys(("maximum", "minimum"), _Number),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum"), _Number | bool),
    "multipleOf": Annotated[float, msgspec.Meta(gt=0, le=float_info.max)],
    **dict.fromkeys(_COUNTS, Annotated[float, msgspec.Meta(ge=0, le=float_info.max, multiple_of=1)]),
    **dict.fromkeys(_FLAGS, bool | None),
    **dict.fromkeys(_WORDS, str | None),
}
"""Keyword → the values that it may have, or that providers convert: a bound of draft 4 that is true or false, a list of
``items``, a text or a mark that is null."""
_Keywords = TypedDict("_Keywords", _VALUES, total=False)  # type: ignore[misc]


def schema_problem(schema: Any, description: str = "") -> str:
    """Return why the parameters of a tool are no JSON Schema of an object, or too large with its description; or empty.

    One such tool makes a model service refuse the whole request. Facts: JSON Schema 2020-12; the references of OpenAI,
    Anthropic, Google and Mistral want an object at the top, and resolve no reference outside of the schema.
    """
    if not isinstance(schema, Mapping):
        return t("{place} must be an object", place="parameters")
    if schema.get("type", "object") != "object":
        return t("the type at the top must be object")
    pending: list[tuple[str, Any]] = [("", schema)]
    for place, node in pending:
        if isinstance(node, bool) and place:
            continue
        if problem := _node_problem(node, schema):
            return f"{place or '.'}: {problem}"
        pending += _parts(place, node)
        if len(pending) > _MOST_NODES:
            return t("it has more than {count} parts", count=_MOST_NODES)
    try:
        size = len(description) + len(json.dumps(dict(schema)))
    except (TypeError, ValueError) as why:
        return t("it is not JSON: {why}", why=why)
    if size > _MOST_CHARS:
        return t(
            "with its description it has {size:,} characters, over {most:,}", size=size, most=_MOST_CHARS
        )
    return ""


def _node_problem(node: Any, whole: Mapping[str, Any]) -> str:
    if not isinstance(node, Mapping):
        return t("a schema must be an object")
    try:
        msgspec.convert({key: value for key, value in node.items() if key in _VALUES}, _Keywords)
    except msgspec.ValidationError as wrong:
        key = str(wrong).rpartition("`$.")[2].rstrip("`").partition("[")[0]
        template = "{given} is no type" if key == "type" else "{given} is no value of {place}"
        return t(template, given=_excerpt(node[key]), place=key)
    reference = node.get("$ref", "#")
    return "" if _resolves(reference, whole) else t("{given} leads nowhere", given=_excerpt(reference))


def _resolves(reference: Any, whole: Any) -> bool:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return False
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(whole, Mapping) or name not in whole:
            return False
        whole = whole[name]
    return True


def _parts(place: str, node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the schemas inside a schema, each with its place."""
    for key in _OF_SCHEMAS:
        yield from ((f"{place}.{name}".lstrip("."), inner) for name, inner in node.get(key, {}).items())
    for key in _LISTS:
        yield from ((f"{place}.{key}[{at}]".lstrip("."), inner) for at, inner in enumerate(node.get(key, ())))
    for key in _ONE:
        if key in node and not isinstance(node[key], list):
            yield f"{place}.{key}".lstrip("."), node[key]


# --- arguments against a schema --------------------------------------------------------------------------------------


def check_arguments(schema: Mapping[str, Any], arguments: Any) -> tuple[dict[str, Any], str]:
    """Check ``arguments`` against ``schema``.

    A null for an optional argument counts as left out. A schema that lists its properties and does not mention others
    allows only these: a misspelt argument is an error; ``additionalProperties: true`` allows anything.

    :returns: the arguments and an empty text; or an error text for the model, with a line for each argument.
    """
    if not isinstance(arguments, dict):
        return {}, t("the arguments must be one JSON object, not {given}", given=_excerpt(arguments))
    kept = without_nulls(arguments, schema)
    problems = [*_unknown_arguments(schema, kept)]
    problems += (_describe_error(error, kept) for error in _errors(schema, kept))
    problems = list(dict.fromkeys(problems))
    return ({}, "\n".join(problems[:_MOST_ERRORS])) if problems else (kept, "")


def without_nulls(value: Any, schema: Any) -> Any:
    """Remove nulls that stand for an omitted optional argument, at any depth."""
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, list):
        return [without_nulls(item, schema.get("items")) for item in value]
    properties = schema.get("properties")
    if not isinstance(value, dict) or not isinstance(properties, Mapping):
        return value
    required = schema.get("required", ())
    return {
        key: without_nulls(item, properties.get(key))
        for key, item in value.items()
        if item is not None or key in required or key not in properties or _allows_null(properties[key])
    }


def _allows_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping) or not schema.keys() & {"type", "enum", "anyOf", "oneOf"}:
        return True
    if any(_allows_null(choice) for key in ("anyOf", "oneOf") for choice in schema.get(key, ())):
        return True
    kinds = schema.get("type", ())
    return "null" in (kinds if isinstance(kinds, list) else (kinds,)) or None in schema.get("enum", ())


def _unknown_arguments(schema: Mapping[str, Any], arguments: dict[str, Any]) -> Iterator[str]:
    properties = schema.get("properties") or {}
    takes_others = schema.get("additionalProperties") is not False and not _OPEN.isdisjoint(schema)
    for name in arguments if properties and not takes_others else ():
        if name not in properties:
            near, known = nearest(name, properties, 0), ", ".join(properties)
            yield t(
                "{name}: unknown argument; did you mean {nearest}? Known: {known}",
                name=name,
                nearest=near,
                known=known,
            )


_SIMPLE = {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf"}
_NOTES = {"title", "description", "default", "writeOnly", "examples", "$comment", "$schema"}


def surely_fits(value: Any, schema: Any) -> bool:
    """Return true if ``value`` meets a schema of :data:`_SIMPLE` keywords; false leaves the answer to jsonschema.

    Its import and first use take 150 ms, and most config files and arguments fit.
    """
    if not isinstance(schema, Mapping) or not schema.keys() <= _SIMPLE | _NOTES:
        return schema is True
    if "anyOf" in schema:
        return schema.keys() <= _NOTES | {"anyOf"} and any(surely_fits(value, one) for one in schema["anyOf"])
    kind = schema.get("type")
    if "enum" in schema:
        return kind == "string" and isinstance(value, str) and value in schema["enum"]
    if kind == "object" and isinstance(value, Mapping):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        fits = all(surely_fits(item, known.get(key, others)) for key, item in value.items())
        return fits and value.keys() >= set(schema.get("required", ()))
    if kind == "array" and isinstance(value, list):
        return all(surely_fits(item, schema.get("items", True)) for item in value)
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else int | float) and not isinstance(value, bool)
    plain = {"string": str, "boolean": bool, "null": type(None)}.get(str(kind))
    return isinstance(value, plain) if plain else not schema


def _errors(schema: Mapping[str, Any], arguments: dict[str, Any]) -> list[Any]:
    if surely_fits(arguments, schema):
        return []
    kept = _validators.get(id(schema))
    if kept is None or kept[0] is not schema:
        if len(_validators) > 2000:  # ids of schemas that were freed
            _validators.clear()
        kept = _validators[id(schema)] = (schema, _compiled(schema))
    return sorted(
        (e for e in kept[1].iter_errors(arguments) if e.validator != "additionalProperties" or e.path),
        key=lambda error: list(map(str, error.path)),
    )


def _compiled(schema: Mapping[str, Any]) -> Any:
    import jsonschema
    import referencing

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    kind.check_schema(dict(schema))
    # An empty registry: a third-party schema must not make us fetch an address.
    return kind(schema, registry=referencing.Registry(), format_checker=kind.FORMAT_CHECKER)


def _describe_error(error: Any, arguments: dict[str, Any]) -> str:
    """Describe one jsonschema error: the argument, the wanted value, the given value."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path).lstrip(".")
    wanted, given = error.validator_value, _excerpt(error.instance)
    if error.validator == "required":
        missing = [name for name in wanted if name not in error.instance]
        inner = (error.schema.get("properties") or {}).get(missing[0], {})
        name = f"{path}.{missing[0]}" if path else missing[0]
        return t("{name} is missing: it must be {wanted}", name=name, wanted=_describe_schema(inner))
    if error.validator in ("type", "enum", "const", "anyOf", "oneOf"):
        wanted = _describe_schema(error.schema)
        return t("{path} must be {wanted}, not {given}", path=path, wanted=wanted, given=given)
    return t("{path}: {problem}", path=path or "arguments", problem=error.message[:300])


def _describe_schema(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        values = ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
        return t("one of {values}", values=values)
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return t(" or ").join(_describe_schema(option) for option in options)
    kinds = schema.get("type", "anything")
    named = t(" or ").join(kinds) if isinstance(kinds, list) else str(kinds)
    return f"{named} ({schema['description']})" if "description" in schema else named


def _excerpt(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else f"{text[:80]}…"
