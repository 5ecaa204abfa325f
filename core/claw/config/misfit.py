"""A plugin's own section against the JSON Schema of its manifest: neither pydantic nor the plugin is imported."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from claw.config.names import Path, nearest


@dataclass(frozen=True, slots=True)
class Misfit:
    """One thing that is wrong.

    :param path: of the key, below the section.
    :param problem: English template, as ``fix``; ``values`` are what they name.
    """

    path: Path
    problem: str
    fix: str
    values: Mapping[str, object] = field(default_factory=dict)


def misfits(section: Any, schema: Mapping[str, Any]) -> Iterator[Misfit]:
    """All that is wrong with ``section``; a schema that is itself unsound is one misfit of the whole section."""
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
        errors = list(jsonschema.Draft202012Validator(dict(schema)).iter_errors(section))
    except Exception as unsound:  # noqa: BLE001 - a stranger's schema
        why = getattr(unsound, "message", "") or type(unsound).__name__
        yield Misfit(
            (), "cannot be judged: the plugin's schema is wrong ({why})", "Tell its author", {"why": why}
        )
        return
    for error in errors:
        yield from _told(error)


def _told(error: Any) -> Iterator[Misfit]:
    place, rule = tuple(error.absolute_path), error.validator
    if rule == "required" and isinstance(error.instance, Mapping):
        for name in error.validator_value:
            if name not in error.instance:
                yield Misfit((*place, name), "is required and missing", "Add it")
    elif rule == "additionalProperties" and isinstance(error.instance, Mapping):
        names = sorted(error.schema.get("properties", {}))
        for name in error.instance.keys() - set(names):
            near = nearest(str(name), names)
            fix = "Did you mean {near}?" if near else "Known keys here: {names}"
            yield Misfit((*place, name), "is not a known key", fix, {"near": near, "names": ", ".join(names)})
    elif kinds := _kinds(error):
        yield Misfit(place, "must be of the type {type}", "See the plugin's page", {"type": kinds})
    elif rule == "enum":
        words = ", ".join(str(word) for word in error.validator_value)
        yield Misfit(place, "is not one of the known words", "Write one of: {words}", {"words": words})
    else:
        limit = error.validator_value
        values = {"rule": f"{rule}: {limit}" if isinstance(limit, str | int | float) else rule}
        yield Misfit(place, "does not fit the plugin's schema ({rule})", "See the plugin's page", values)


def _kinds(error: Any) -> str:
    """The types of which a value is none; empty when that is not what is wrong with it."""
    if error.validator == "type":
        kind = error.validator_value
        return kind if isinstance(kind, str) else ", ".join(map(str, kind))
    here = all(part.absolute_path == error.absolute_path for part in error.context)
    kinds = [_kinds(part) for part in error.context if error.validator in ("anyOf", "oneOf")]
    told = [kind for kind in dict.fromkeys(kinds) if kind != "null"]  # to leave it out is what that means
    return ", ".join(told) if here and all(kinds) else ""
