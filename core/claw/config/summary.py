"""Outline of the config for commands that must be fast: the plugins it may need, without validation or pydantic."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from claw.config.paths import Path, normalise_layout, values_at
from claw.contracts.errors import nearest
from claw.i18n import t

if TYPE_CHECKING:
    from pydantic import BaseModel

ANY_ENDPOINT = "*"
"""In a manifest's ``providers``: the plugin serves every ``providers.NAME`` with a ``baseUrl`` that no other serves."""


def read_table(name: str) -> Mapping[str, Any]:
    """Read a data table of core: a JSON file below ``claw``."""
    table: Mapping[str, Any] = json.loads((FilePath(__file__).parents[1] / name).read_bytes())
    return table


@cache
def _hints() -> Mapping[str, Mapping[str, Any]]:
    """Read the table plugin id → its package (empty = not released) and what it brings, which ``docs/make.py`` generates
    from the manifests. It is the text of hints and decides nothing: an id in it gives a plugin no right.
    """
    return read_table("config/package_hints.json")


def plugins_that_bring(kind: str) -> dict[str, str]:
    """Return the name of each thing of a kind → the id of the plugin of claw's own that brings it: for hints.

    :param kind: ``commands``, ``chatCommands``, ``configKeys``, ``channels``, ``shortKeys``, ``sandboxes`` or ``tools``.
    """
    return {name: id for id, about in _hints().items() for name in about.get(kind, ())}


def package_of(plugin: str) -> str:
    """Return the package of a plugin of claw's own, and empty for any other: no hint invents a name."""
    return str(_hints().get(plugin, {}).get("package", ""))


def package_of_key(path: Path) -> str:
    """Return the package of claw's own that brings a key of the file; empty for any other key."""
    tree: Any = None
    for step in reversed(path):
        tree = {step: tree}
    for kind in ("configKeys", "channels", "shortKeys"):
        for key, id in plugins_that_bring(kind).items():
            for pattern in (key, key.removeprefix("agents.")):
                if any(found == path for found, _ in values_at(tree, pattern)):
                    return package_of(id)
    return ""


def asks_for_nothing(value: Any) -> bool:
    """Return true if the value of a plugin's key (empty, ``false``, ``off``, ``enabled: false``) needs no plugin."""
    return value in (None, False, 0, "", "off", [], {}) or _mapping(value).get("enabled") is False


def idle_keys(tree: Mapping[str, Any], is_core: Callable[[str], bool]) -> list[Path]:
    """Return the paths of the keys of claw's own plugins whose value asks for nothing: they may stay when the plugin is
    uninstalled.

    :param is_core: tells which keys core describes itself.
    """
    found = ((key, *place) for key in plugins_that_bring("configKeys") for place in values_at(tree, key))
    return [path for key, path, value in found if asks_for_nothing(value) and not is_core(key)]


def install_hint(plugin: str) -> str:
    """Return the instruction to install a plugin, or the channel or provider of that name."""
    package = package_of(plugin)
    if package:
        return t("claw plugins install {package}", package=package)
    return t("install the package that provides {id}", id=plugin)


class DeclaredChannel(Protocol):
    """A channel as the manifest of its plugin declares it (``claw.host.manifest.ChannelDeclaration``).

    :ivar token_user: the id of every sender, who all have a token of the operator; empty = they have ids of their own.
    """

    @property
    def token_user(self) -> str: ...
    def example_unless_id(self, id: str, of_group: bool = False) -> str: ...


OwnedModels = Mapping[str, Callable[[], "type[BaseModel]"] | None]


class PluginKeys(NamedTuple):
    """The keys and channels that the installed plugins add to the file.

    :param models: key that a plugin owns (``configKeys``) → function that returns the model of its value; None: nothing
        checks the value here, because no owner of it is in use, or because its owner checks it.
    :param channels: name → the declaration in the manifest of each plugin that has a channel of this name.
    :param short_forms: name at the top level → the path that it stands for.
    """

    models: OwnedModels = MappingProxyType({})
    channels: Mapping[str, Sequence[DeclaredChannel]] = MappingProxyType({})
    short_forms: Mapping[str, Path] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ConfigOutline:
    """Names that the config mentions.

    :param allow: ``plugins.allow``; None = no such list.
    :param entries: ``plugins.entries``, as written.
    :param channels: names with a section that is not disabled.
    :param providers: names with a section, and those in the name of a model.
    :param provider_sections: name → its section, as written.
    :param models: every model that is named anywhere, as written.
    :param opt_ins: every entry of a tool allow list anywhere, lower-case.
    :param sandboxed: an agent runs commands in a sandbox, in some conversations at least.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    channels: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    provider_sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    opt_ins: frozenset[str] = frozenset()
    sandboxed: bool = False


def outline_config(
    raw: Mapping[str, Any], short_forms: Mapping[str, Path] = MappingProxyType({})
) -> ConfigOutline:
    """Build the outline of the raw tree, or of ``Config.layout``; values of the wrong type count as absent."""
    tree = normalise_layout(raw, short_forms).tree
    plugins, channels = _mapping(tree.get("plugins")), _mapping(tree.get("channels"))
    entries = _mapping(plugins.get("entries"))
    providers = _mapping(tree.get("providers"))
    aliases = _mapping(_mapping(tree.get("models")).get("aliases"))
    texts = [*_leaves(tree)]
    named_models = [text for path, text in texts if _names_model(path)]
    models = tuple(dict.fromkeys(str(aliases.get(name, name)) for name in named_models))
    named = {model.split("/", 1)[0] for model in models if "/" in model}
    return ConfigOutline(
        allow=_names(plugins["allow"]) if isinstance(plugins.get("allow"), list) else None,
        deny=_names(plugins.get("deny")),
        entries={id: entry for id, entry in entries.items() if isinstance(entry, Mapping)},
        channels=frozenset(name for name, one in channels.items() if _mapping(one).get("enabled", True)),
        providers=frozenset(providers) | named,
        provider_sections={name: one for name, one in providers.items() if isinstance(one, Mapping)},
        models=models,
        opt_ins=frozenset(text.strip().lower() for path, text in texts if _allowed(path)),
        sandboxed=any(mode not in ("off", False) for _, mode in values_at(tree, "agents.sandbox.mode")),
    )


def _leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every text of a tree with its path."""
    if isinstance(tree, str):
        yield path, tree
    elif isinstance(tree, Mapping | list):
        for step, value in tree.items() if isinstance(tree, Mapping) else enumerate(tree):
            yield from _leaves(value, (*path, step))


def _allowed(path: Path) -> bool:
    """Return true for an entry of ``allow`` or ``alsoAllow`` outside of ``plugins``."""
    return path[-2:-1] in (("allow",), ("alsoAllow",), ("also_allow",)) and "plugins" not in path


_OF_PLUGINS = {"plugins", "channels", "providers", "memorySearch", "memory_search"}


def _names_model(path: Path) -> bool:
    """Return true for a text at or below a key ``model``, and for an alias, except in sections that plugins read."""
    return ("model" in path or "aliases" in path) and _OF_PLUGINS.isdisjoint(path)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in value if isinstance(name, str)) if isinstance(value, list) else ()


def unknown_key(name: str, known: Iterable[str]) -> tuple[str, str, dict[str, object]]:
    """Return problem, fix and their values for a key that is not known; they name the nearest one."""
    names = sorted(known)
    if near := nearest(name, names):
        return "is not a known key", "Did you mean {near}?", {"near": near}
    return "is not a known key", "Known keys here: {names}", {"names": [*names]}


LIKE_EXAMPLE = "Write it like this: {example}"
"""The fix for a text in the wrong format: few people read a regular expression."""


OUT_OF_RANGE = {
    "gt": "{value} is out of range: it must be greater than {limit}",
    "ge": "{value} is out of range: it must be at least {limit}, the minimum",
    "lt": "{value} is out of range: it must be less than {limit}",
    "le": "{value} is out of range: the limit is {limit}, the maximum",
}
"""Pydantic's word for a limit → the problem of a number beyond it."""
_LIMITS = {"exclusiveMinimum": "gt", "minimum": "ge", "exclusiveMaximum": "lt", "maximum": "le"}
LIMIT_FIX = "Write a number within the limits"
_SEE_PLUGIN = "See the plugin's documentation"


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """One violation of a schema.

    :param path: of the key, below the section.
    :param problem: English template, like ``fix``; ``values`` fill both.
    """

    path: Path
    problem: str
    fix: str
    values: Mapping[str, object] = field(default_factory=dict)


def schema_violations(section: Any, schema: Mapping[str, Any]) -> Iterator[SchemaViolation]:
    """Yield all violations in ``section``; an invalid schema is one misfit of the whole section."""
    from claw.contracts.tool_schema import surely_fits

    try:
        if surely_fits(section, schema):
            return
        import jsonschema

        jsonschema.Draft202012Validator.check_schema(schema)
        errors = list(jsonschema.Draft202012Validator(dict(schema)).iter_errors(section))
    except Exception as unsound:  # noqa: BLE001 - a third-party schema
        why = getattr(unsound, "message", "") or type(unsound).__name__
        problem = "cannot be checked: the plugin's schema is invalid ({why})"
        yield SchemaViolation((), problem, "Report it to the plugin's author", {"why": why})
        return
    for error in errors:
        yield from _misfits_of(error)


def _misfits_of(error: Any) -> Iterator[SchemaViolation]:
    place, rule = tuple(error.absolute_path), error.validator
    if rule == "required" and isinstance(error.instance, Mapping):
        for name in error.validator_value:
            if name not in error.instance:
                yield SchemaViolation((*place, name), "is required but missing", "Add it")
    elif rule == "additionalProperties" and isinstance(error.instance, Mapping):
        known = error.schema.get("properties", {})
        for name in error.instance.keys() - known.keys():
            yield SchemaViolation((*place, name), *unknown_key(str(name), known))
    elif example := _example_of(error):
        yield SchemaViolation(place, "has the wrong format", LIKE_EXAMPLE, {"example": example})
    elif types := _expected_types(error):
        yield SchemaViolation(place, "must be of the type {type}", _SEE_PLUGIN, {"type": types})
    elif rule == "enum":
        words = {"words": [*error.validator_value]}
        yield SchemaViolation(place, "is not one of the known words", "Write one of: {words}", words)
    elif part := next((one for one in (error, *error.context) if one.validator in _LIMITS), None):
        problem = OUT_OF_RANGE[_LIMITS[part.validator]]
        values = {"value": part.instance, "limit": part.validator_value}
        yield SchemaViolation(tuple(part.absolute_path), problem, LIMIT_FIX, values)
    else:
        limit = error.validator_value
        values = {"rule": f"{rule}: {limit}" if isinstance(limit, str | int | float) else rule}
        yield SchemaViolation(place, "does not fit the plugin's schema ({rule})", _SEE_PLUGIN, values)


def _example_of(error: Any) -> str:
    """Return an example for a text in the wrong format; empty for any other error, and when the schema has none."""
    alternatives = error.context if error.validator == "anyOf" else (error,)
    rules, examples = {part.validator for part in alternatives} - {"type"}, error.schema.get("examples")
    is_text = isinstance(error.instance, str) and rules == {"pattern"}
    return str(examples[0]) if is_text and isinstance(examples, list) and examples else ""


def _expected_types(error: Any) -> str:
    """Return the expected types for an error of type; empty for any other error."""
    if error.validator == "type":
        kind = error.validator_value
        return kind if isinstance(kind, str) else ", ".join(map(str, kind))
    here = all(part.absolute_path == error.absolute_path for part in error.context)
    types = [_expected_types(part) for part in error.context if error.validator in ("anyOf", "oneOf")]
    # null means that the key may be left out, so the message does not suggest it
    named = [kind for kind in dict.fromkeys(types) if kind != "null"]
    return ", ".join(named) if here and all(types) else ""
