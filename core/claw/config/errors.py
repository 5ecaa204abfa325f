"""Sections of the file read as models; pydantic's errors become config errors: key, line, problem, fix, nearest name."""

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import BaseModel, RootModel, ValidationError
from pydantic_core import ErrorDetails

from claw.config.paths import Layout, Path, camel_case, format_key, line_of, value_at
from claw.config.source import SubstitutedText, substitute_all
from claw.config.summary import LIKE_EXAMPLE, LIMIT_FIX, OUT_OF_RANGE, package_of_key, unknown_key
from claw.contracts.errors import ConfigError, nearest
from claw.i18n import t

M = TypeVar("M", bound=BaseModel)

_TEXT = ("must be a string", "Put it in quotes")
_SWITCH = ("must be true or false", "Write true or false without quotes")
_WHOLE = ("must be a whole number (an integer)", "Write digits only, without quotes")
_NUMBER = ("must be a number", "Write digits, without quotes")
_LIST = ("must be a list (an array)", "Write it as a list: [one, two]")
_MAP = ("must be a mapping of keys (an object)", "Write key: value below it")
_TYPE_ERRORS = {
    "string_type": _TEXT, "bool_type": _SWITCH, "bool_parsing": _SWITCH, "int_type": _WHOLE, "int_parsing": _WHOLE,
    "int_from_float": _WHOLE, "float_type": _NUMBER, "float_parsing": _NUMBER, "finite_number": _NUMBER,
    "tuple_type": _LIST, "list_type": _LIST, "dict_type": _MAP, "mapping_type": _MAP, "model_type": _MAP,
    "model_attributes_type": _MAP, "missing": ("is required but missing", "Add it"),
    "string_too_short": ("is empty", "Write a string"),
    "string_pattern_mismatch": ("has the wrong format", "See claw config schema"),
}  # fmt: skip
_OF_KEY = "[key]"  # pydantic's last step of an error about a key itself


class ConfigErrors(ConfigError):
    """Several errors of one file; its own key, fix and line are those of the first one."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.key, "{what}", first.fix, file=first.file, line=first.line, what=first.problem)
        self.where = first.where
        self.errors = tuple(errors)

    def __str__(self) -> str:
        head = t("{count:error|errors} in the config file", count=len(self.errors))
        return "\n".join([head, *(f"- {error}" for error in self.errors)])


def errors_in(error: ConfigError) -> Sequence[ConfigError]:
    """Return the errors that one error combines; itself when it is a single one."""
    return error.errors if isinstance(error, ConfigErrors) else (error,)


def combine_errors(errors: Sequence[ConfigError]) -> ConfigError:
    """Combine errors into one."""
    return errors[0] if len(errors) == 1 else ConfigErrors(errors)


@dataclass(frozen=True)
class ConfigSections:
    """The sections of a config file, read as models; each error has the key as written and its line.

    :param environ: for ``${NAME}``; ``home`` for files of secrets.
    :param owned: keys that plugins own, as in ``configKeys``: known beside those of the models.
    """

    layout: Layout
    lines: Mapping[Path, int]
    file: str
    home: FilePath
    environ: Mapping[str, str]
    owned: Iterable[str] = ()

    def read(self, model: type[M], tree: Any, path: Path = (), beside: Mapping[str, Any] | None = None) -> M:
        """Read ``tree``, the part of the file at ``path``, as ``model``.

        :param beside: the section with ``path`` in it, for validators: ``info.context["beside"]``, its keys in camelCase.
        :raises ConfigError: one or several keys are wrong.
        """
        near = {camel_case(str(name)): value for name, value in (beside or {}).items()}
        context = {"environ": self.environ, "home": self.home, "beside": near}
        try:
            return model.model_validate(substitute_all(tree, self.environ), context=context)
        except ValidationError as found:
            raise combine_errors(self._errors(found, model, path)) from None

    def line(self, path: Path) -> int | None:
        """Return the line of the key, or of its nearest parent in the file."""
        return line_of(self.layout.as_written(path), self.lines)

    def error(
        self, path: Path, problem: str, fix: str = "", key: str = "", /, **values: object
    ) -> ConfigError:
        """Create an error about ``path`` of the tree.

        :param key: to be named; empty = the path as written.
        :param values: of the texts; ``grave=True`` marks a warning about something that does not work.
        """
        key = key or format_key(self.layout.as_written(path))
        error = ConfigError(key, problem, fix, file=self.file, line=self.line(path), **values)
        error.grave = bool(values.get("grave"))
        if name := self._entry_name(path):
            error.where += f" ({name})"
        return error

    def not_installed(self, path: Path) -> ConfigError:
        """Create the error about a key that only a plugin gives effect, and none that is installed owns."""
        package = package_of_key(path)
        fix = "Install it (claw plugins install {package}), or remove the key"
        return self.error(path, "it has no effect: {package} is not installed", fix, package=package)

    def _errors(self, found: ValidationError, model: type[BaseModel], base: Path) -> list[ConfigError]:
        """Convert every error of a validation, in the order of the file; one per key.

        :param model: the model that was validated against, for its known keys.
        :param base: path of the validated part in the tree.
        """
        by_key: dict[str, tuple[int, ConfigError]] = {}
        part, known = value_at(self.layout.tree, base), partial(self._known, model, base)
        for detail in found.errors(include_url=False):
            path, problem, fix, values = _convert(detail, part, known)
            if detail["type"] == "string_pattern_mismatch" and (example := _example_of(model, path)):
                fix, values = LIKE_EXAMPLE, {"example": example}
            error = self.error(base + path, problem, fix, **values)
            if detail["type"] == "extra_forbidden" and package_of_key(base + path):
                error = self.not_installed(base + path)
            by_key.setdefault(error.key, (error.line or 0, error))
        return [error for _, error in sorted(by_key.values(), key=lambda pair: pair[0])]

    def _known(self, model: type[BaseModel], base: Path, path: Path) -> set[str]:
        """Return the keys that may stand at ``path`` below ``base``: those of the model, and those of plugins."""
        first, *rest = (*base, *path) or ("",)
        if first == "agents" and rest:
            rest = rest[1:] if rest[0] == "defaults" else rest[2:]
        here = [str(step) for step in (first, *rest) if step != ""]
        owned = (key.split(".") for key in self.owned)
        return known_keys(model, path) | {steps[-1] for steps in owned if steps[:-1] == here}

    def _entry_name(self, path: Path) -> str:
        """Return the id of the last list entry on the path; empty when the path has no index, or the entry no id."""
        for end in range(len(path), 0, -1):
            if isinstance(path[end - 1], int) and isinstance(self.layout.as_written(path)[-1], str | int):
                entry = value_at(self.layout.tree, path[:end])
                name = entry.get("id") if isinstance(entry, Mapping) else None
                return name if isinstance(name, str) else ""
        return ""


def _convert(
    detail: ErrorDetails, tree: Any, known: Callable[[Path], set[str]]
) -> tuple[Path, str, str, dict[str, object]]:
    """Convert one pydantic error to (path, problem, fix, values)."""
    kind, context = detail["type"], detail.get("ctx", {})
    path = _real_path(detail["loc"], tree)
    if kind == "claw":
        return path + tuple(context["at"]), context["problem"], context["fix"], context["values"]
    if kind == "extra_forbidden":
        return path, *unknown_key(str(path[-1]), known(path[:-1]))
    if kind == "literal_error":
        return path, *_unknown_word(_format_value(detail["input"]), literal_words(context["expected"]))
    if kind == "value_error":  # from a plugin's own validator, with its own text
        return path, "{why}", "", {"why": context["error"]}
    if rule := next((rule for rule in context if rule in OUT_OF_RANGE), ""):
        limit, value = context[rule], _format_value(detail["input"])
        values = {"limit": f"{limit:g}" if isinstance(limit, float) else limit, "value": value}
        return path, OUT_OF_RANGE[rule], LIMIT_FIX, values
    problem, fix = _TYPE_ERRORS.get(kind, ("is invalid ({kind})", "See claw config schema"))
    return path, problem, fix, dict(context) | {"kind": kind}


def _real_path(loc: Iterable[str | int], tree: Any) -> Path:
    """Remove the parts that pydantic adds to a path (names of union members and of validators)."""
    path: list[str | int] = []
    here = tree
    steps = tuple(loc)
    for number, step in enumerate(steps):
        if isinstance(here, Mapping):
            if step in here or (number == len(steps) - 1 and step != _OF_KEY):
                path.append(step)
                here = here.get(step)
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            path.append(step)
            here = here[step]
        elif isinstance(here, list | tuple) and not isinstance(step, int):
            path.append(step)
            here = None
    return tuple(path)


def _unknown_word(value: str, words: Sequence[str]) -> tuple[str, str, dict[str, object]]:
    near = nearest(value, words)
    fix = "Did you mean {near}? Known: {words}" if near else "Write one of: {words}"
    return "{value} is not a known value here", fix, {"value": value, "near": near, "words": [*words]}


def _format_value(value: object) -> str:
    """Format a value for an error as the person wrote it, never with the content of a variable."""
    text = value.template if isinstance(value, SubstitutedText) else str(value)
    return text if len(text) <= 40 else text[:37] + "…"


def literal_words(expected: str) -> list[str]:
    """Split ``'a', 'b' or 'c'`` into the words."""
    return [word.strip(" '") for word in expected.replace(" or ", ", ").split(",")]


def known_keys(model: type[BaseModel], path: Path) -> set[str]:
    """Return the keys that the section at ``path`` below ``model`` may have, as they are written."""
    fields = [field for each in _models_at(model, path) for field in each.model_fields.items()]
    return {field.alias or name for name, field in fields}


def _example_of(model: type[BaseModel], path: Path) -> str:
    """Return the first of the ``examples`` of the field at ``path`` below ``model``; empty when it has none."""
    names = [step for step in path if not isinstance(step, int)]
    for each in _models_at(model, tuple(names[:-1])):
        for name, field in each.model_fields.items():
            if field.examples and names[-1] in (name, field.alias):
                return str(field.examples[0])
    return ""


def _models_at(model: type[BaseModel], path: Path) -> list[type[BaseModel]]:
    """Return the models that the section at ``path`` below ``model`` may be."""
    here = _models(model.model_fields["root"].annotation) if issubclass(model, RootModel) else [model]
    for step in path:
        fields = [(name, field) for each in here for name, field in each.model_fields.items()]
        # A step that is no field is an index or a free name, so the models stay the same.
        types = [field.annotation for name, field in fields if step in (name, field.alias)]
        here = [found for annotation in types for found in _models(annotation)] or here
    return here


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that a value of this type may be or contain."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in typing.get_args(annotation) for model in _models(inner)]
