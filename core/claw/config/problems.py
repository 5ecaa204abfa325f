"""What pydantic found wrong, in our words: dotted key, line, problem, fix, and the nearest name."""

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from claw.config.names import Path, dotted, line_of, nearest, value_at
from claw.config.variables import Filled
from claw.errors import ConfigError
from claw.words import say

_TEXT = ("must be a text (a string)", "Put it in quotes")
_SWITCH = ("must be true or false", "Write true or false without quotes")
_WHOLE = ("must be a whole number (an integer)", "Write digits only, without quotes")
_NUMBER = ("must be a number", "Write digits, without quotes")
_LIST = ("must be a list (an array)", "Write it as a list: [one, two]")
_MAP = ("must be a mapping of keys (an object)", "Write key: value below it")
_SHAPES = {
    "string_type": _TEXT, "bool_type": _SWITCH, "bool_parsing": _SWITCH, "int_type": _WHOLE, "int_parsing": _WHOLE,
    "int_from_float": _WHOLE, "float_type": _NUMBER, "float_parsing": _NUMBER, "finite_number": _NUMBER,
    "tuple_type": _LIST, "list_type": _LIST, "dict_type": _MAP, "mapping_type": _MAP, "model_type": _MAP,
    "model_attributes_type": _MAP, "missing": ("is required and missing", "Add it"),
    "string_too_short": ("is empty", "Write a text"),
    "string_pattern_mismatch": ("does not have the right form", "Write it as in the manual"),
}  # fmt: skip
_LIMITS = {
    "greater_than": "{value} is out of range: it must be greater than {limit}",
    "greater_than_equal": "{value} is out of range: it must be at least {limit}, the minimum",
    "less_than": "{value} is out of range: it must be less than {limit}",
    "less_than_equal": "{value} is out of range: the limit is {limit}, the maximum",
}


class ConfigErrors(ConfigError):
    """Several errors of one file, each complete; it stands for the first one where only one fits."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.key, "{what}", first.fix, file=first.file, line=first.line, what=first.problem)
        self.where = first.where
        self.errors = tuple(errors)

    def __str__(self) -> str:
        head = say("{count:error|errors} in the config file", count=len(self.errors))
        return "\n".join([head, *(f"- {error}" for error in self.errors)])


def joined(errors: Sequence[ConfigError]) -> ConfigError:
    """One error for all of them."""
    return errors[0] if len(errors) == 1 else ConfigErrors(errors)


class Teller:
    """Knows the file: turns a path in the tree into the place a person looks at.

    :param written: a path in the tree → the path as written.
    """

    def __init__(
        self,
        tree: Mapping[str, Any],
        lines: Mapping[Path, int],
        file: str,
        written: Callable[[Path], Path] = lambda path: path,
    ) -> None:
        self._tree, self.lines, self._file, self._written = tree, lines, file, written

    def line(self, path: Path) -> int | None:
        """Of the key, or of the nearest one above it that stands in the file."""
        return line_of(self._written(path), self.lines)

    def tell(self, path: Path, problem: str, fix: str = "", **values: object) -> ConfigError:
        """An error about ``path`` of the tree."""
        error = ConfigError(
            dotted(self._written(path)), problem, fix, file=self._file, line=self.line(path), **values
        )
        if name := self._entry_name(path):
            error.where += f" ({name})"
        return error

    def tell_all(self, found: ValidationError, model: type[BaseModel], base: Path = ()) -> list[ConfigError]:
        """Every error of a validation, in the order of the file; one per key.

        :param model: what was validated, for the names it knows.
        :param base: where in the tree it stands.
        """
        told: dict[str, tuple[int, ConfigError]] = {}
        for detail in found.errors(include_url=False):
            path, problem, fix, values = _read(detail, value_at(self._tree, base), model)
            error = self.tell(base + path, problem, fix, **values)
            told.setdefault(error.key, (error.line or 0, error))
        return [error for _, error in sorted(told.values(), key=lambda pair: pair[0])]

    def _entry_name(self, path: Path) -> str:
        """The id of the last list entry on the way, when the path itself has a number in it."""
        for end in range(len(path), 0, -1):
            if isinstance(path[end - 1], int) and isinstance(self._written(path)[-1], str | int):
                entry = value_at(self._tree, path[:end])
                name = entry.get("id") if isinstance(entry, Mapping) else None
                return name if isinstance(name, str) else ""
        return ""


def _read(
    detail: ErrorDetails, tree: Any, model: type[BaseModel]
) -> tuple[Path, str, str, dict[str, object]]:
    """One pydantic error as (path, problem, fix, values)."""
    kind, context = detail["type"], detail.get("ctx", {})
    path = _real_path(detail["loc"], tree)
    if kind == "claw":
        return path + tuple(context["at"]), context["problem"], context["fix"], context["values"]
    if kind == "extra_forbidden":
        return path, *_unknown_key(str(path[-1]), known_keys(model, path[:-1]))
    if kind == "literal_error":
        return path, *_unknown_word(_shown(detail["input"]), typing_words(context["expected"]))
    if kind == "value_error":  # a plugin's own validator, in its own words
        return path, "{why}", "", {"why": context["error"]}
    if kind in _LIMITS:
        limit = next(iter(context.values()))
        values = {
            "limit": f"{limit:g}" if isinstance(limit, float) else limit,
            "value": _shown(detail["input"]),
        }
        return path, _LIMITS[kind], "Write a number within the limits", values
    problem, fix = _SHAPES.get(kind, ("is not right ({kind})", "See claw config schema"))
    return path, problem, fix, dict(context) | {"kind": kind}


def _real_path(loc: Iterable[str | int], tree: Any) -> Path:
    """Drop what pydantic adds to a path (names of union members and of validators)."""
    path: list[str | int] = []
    here = tree
    steps = tuple(loc)
    for number, step in enumerate(steps):
        if isinstance(here, Mapping):
            if step in here or number == len(steps) - 1:
                path.append(step)
                here = here.get(step)
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            path.append(step)
            here = here[step]
        elif isinstance(here, list | tuple) and not isinstance(step, int):
            path.append(step)
            here = None
    return tuple(path)


def _unknown_key(name: str, known: Iterable[str]) -> tuple[str, str, dict[str, object]]:
    names = sorted(known)
    if near := nearest(name, names):
        return "is not a known key", "Did you mean {near}?", {"near": near}
    return "is not a known key", "Known keys here: {names}", {"names": ", ".join(names)}


def _unknown_word(value: str, words: Sequence[str]) -> tuple[str, str, dict[str, object]]:
    near = nearest(value, words)
    fix = "Did you mean {near}? Known: {words}" if near else "Write one of: {words}"
    return "{value} is not known here", fix, {"value": value, "near": near, "words": ", ".join(words)}


def _shown(value: object) -> str:
    """A value for an error: as the person wrote it, never what a variable holds."""
    text = value.template if isinstance(value, Filled) else str(value)
    return text if len(text) <= 40 else text[:37] + "…"


def typing_words(expected: str) -> list[str]:
    """``'a', 'b' or 'c'`` → the words."""
    return [word.strip(" '") for word in expected.replace(" or ", ", ").split(",")]


def known_keys(model: type[BaseModel], path: Path) -> set[str]:
    """The keys that the section at ``path`` below ``model`` knows, as they are written."""
    here = [model]
    for step in path:
        fields = [(name, field) for each in here for name, field in each.model_fields.items()]
        # A step that is no field is an index, or a name of the person's own: the same models are behind it.
        here = [
            m for name, field in fields if step in (name, field.alias) for m in _models(field.annotation)
        ] or here
    return {field.alias or name for each in here for name, field in each.model_fields.items()}


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that a value of this type may be or hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models(inner)]
