"""What a plugin says of itself without being imported: ``claw-plugin.json`` inside its import package.

A plugin is found by its entry point in the group ``claw.plugins`` (name = plugin id, value = import package); nothing
here imports it. Source of the entry-point rules: packaging.python.org, "Entry points specification".
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from claw.errors import PluginError

GROUP = "claw.plugins"
FILE_NAME = "claw-plugin.json"
API_VERSION = (1, 0)
KINDS = (
    "channel",
    "provider",
    "tool",
    "section",
    "sandbox",
    "reviewer",
    "filter",
    "observer",
    "store",
    "command",
)

_LISTS_OF_NAMES = (
    "kinds",
    "channels",
    "promptSections",
    "skills",
    "commands",
    "sandboxes",
    "reviewers",
    "filters",
    "observers",
    "stores",
    "requires",
    "env",
)
_OTHERS = frozenset(
    {"id", "name", "description", "api", "providers", "tools", "capabilities", "configSchema", "$schema"}
)


@dataclass(frozen=True)
class ToolLine:
    """A tool as the manifest declares it: all that a model or a policy needs to know before the code is
    imported."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    optional: bool = False
    owner_only: bool = False
    effects: str = "none"
    parallel: bool = True
    timeout_seconds: float | None = None


@dataclass(frozen=True)
class ProviderLine:
    """A provider as the manifest declares it.

    :param env: environment variables of which one holds a key.
    :param default_model: the model to use when only a key is configured; without ``provider/``.
    """

    name: str
    env: tuple[str, ...] = ()
    default_model: str = ""


@dataclass(frozen=True)
class Manifest:
    """The whole of ``claw-plugin.json``; ``docs/plugins.md`` says what each field means."""

    id: str
    name: str = ""
    description: str = ""
    api: str = ">=1,<2"
    kinds: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    providers: tuple[ProviderLine, ...] = ()
    tools: tuple[ToolLine, ...] = ()
    prompt_sections: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    sandboxes: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    observers: tuple[str, ...] = ()
    stores: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    config_schema: Mapping[str, Any] | None = None

    @property
    def speaks_in_turns(self) -> bool:
        """Whether it brings something that takes part in every turn, so that it is loaded once enabled."""
        return bool(self.prompt_sections or self.reviewers or self.filters or self.observers or self.stores)


@dataclass(frozen=True)
class Found:
    """An installed plugin, seen and not imported.

    :param package: import package of the entry point.
    :param folder: where that package lies; None when it cannot be found.
    :param manifest: None when it has none.
    :param fault: why its manifest cannot be used.
    """

    id: str
    package: str
    distribution: str
    version: str
    folder: Path | None = None
    manifest: Manifest | None = None
    fault: PluginError | None = None


def parse(text: str, plugin: str) -> Manifest:
    """Read a manifest.

    :raises PluginError: stage find; it names the field and what is wanted there.
    """
    try:
        tree = json.loads(text)
    except ValueError as wrong:
        raise PluginError(plugin, "find", "its manifest is not JSON: {why}", why=wrong) from None
    if not isinstance(tree, dict):
        raise _wrong(plugin, FILE_NAME, "an object")
    if tree.get("id") != plugin:
        raise PluginError(
            plugin,
            "find",
            "its manifest says id {id}, its entry point says {entry}",
            "make the two the same",
            id=repr(tree.get("id")),
            entry=plugin,
        )
    for key, value in tree.items():
        if key in _LISTS_OF_NAMES and not _is_names(value):
            raise _wrong(plugin, key, "a list of names")
        if key not in _LISTS_OF_NAMES and key not in _OTHERS:
            raise PluginError(
                plugin, "find", "its manifest has an unknown field {field}", "remove it", field=key
            )
    if stranger := next((kind for kind in tree.get("kinds", ()) if kind not in KINDS), None):
        raise PluginError(
            plugin,
            "find",
            "its manifest names an unknown kind {kind}",
            "use one of {kinds}",
            kind=stranger,
            kinds=", ".join(KINDS),
        )
    values: dict[str, Any] = {_snake(key): tuple(tree.get(key, ())) for key in _LISTS_OF_NAMES}
    values |= {key: _text(tree, key, plugin) for key in ("name", "description")}
    values["api"] = _text(tree, "api", plugin) or ">=1,<2"
    values["providers"] = tuple(_provider(line, plugin) for line in _rows(tree, "providers", plugin))
    values["tools"] = tuple(_tool(line, plugin) for line in _rows(tree, "tools", plugin))
    values["capabilities"] = _object(tree.get("capabilities", {}), "capabilities", plugin)
    if "configSchema" in tree:
        values["config_schema"] = _object(tree["configSchema"], "configSchema", plugin)
    return Manifest(id=plugin, **values)


def fits(api: str, version: tuple[int, int] = API_VERSION) -> bool:
    """Whether a plugin API range such as ``>=1,<2`` admits ``version``; an unreadable range admits
    nothing."""
    for part in api.split(","):
        match = re.fullmatch(r"\s*(>=|<=|==|!=|<|>)\s*(\d+)(?:\.(\d+))?\s*", part)
        if not match:
            return False
        wanted = (int(match[2]), int(match[3] or 0))
        held = {
            ">=": version >= wanted,
            "<=": version <= wanted,
            "==": version == wanted,
            "!=": version != wanted,
            "<": version < wanted,
            ">": version > wanted,
        }[match[1]]
        if not held:
            return False
    return True


def scan() -> tuple[Found, ...]:
    """Every installed plugin, in order of its id; no plugin is imported.

    Of two distributions with one plugin id the first on the path stands, and the other is reported as a
    fault.
    """
    from importlib.metadata import entry_points

    seen: dict[str, Found] = {}
    twice: list[Found] = []
    for entry in entry_points(group=GROUP):
        dist = entry.dist
        one = look(entry.name, entry.value, dist.name if dist else "?", dist.version if dist else "?")
        first = seen.setdefault(one.id, one)
        if first is not one and first.distribution != one.distribution:
            twice.append(_second(one, first))
    return tuple(sorted([*seen.values(), *twice], key=lambda found: found.id))


def look(plugin: str, package: str, distribution: str = "?", version: str = "?") -> Found:
    """See one plugin by its import package, through the path finders only: nothing is imported."""
    spec = PathFinder.find_spec(package.partition(".")[0])
    if spec is None:
        fault = PluginError(
            plugin, "find", "its package {package} is not there", "install it again", package=package
        )
        return Found(plugin, package, distribution, version, fault=fault)
    where = list(spec.submodule_search_locations or ())
    if not where:  # a single module: it has no folder that could hold a manifest
        return Found(plugin, package, distribution, version)
    folder = Path(where[0]).joinpath(*package.split(".")[1:])
    try:
        text = (folder / FILE_NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return Found(plugin, package, distribution, version, folder)
    except (OSError, UnicodeDecodeError) as why:
        fault = PluginError(plugin, "find", "its manifest cannot be read: {why}", why=why)
        return Found(plugin, package, distribution, version, folder, fault=fault)
    try:
        return Found(plugin, package, distribution, version, folder, parse(text, plugin))
    except PluginError as fault:
        return Found(plugin, package, distribution, version, folder, fault=fault)


def _second(one: Found, first: Found) -> Found:
    fault = PluginError(
        one.id,
        "find",
        "{this} and {first} both bring a plugin of this id",
        "uninstall one of the two",
        this=one.distribution,
        first=first.distribution,
    )
    return Found(one.id, one.package, one.distribution, one.version, one.folder, one.manifest, fault)


def _tool(line: Mapping[str, Any], plugin: str) -> ToolLine:
    parameters = _object(
        line.get("parameters", {"type": "object", "properties": {}}), "tools[].parameters", plugin
    )
    return ToolLine(
        name=_required_name(line, "tools", plugin),
        description=_text(line, "description", plugin),
        parameters=parameters,
        optional=bool(line.get("optional", False)),
        owner_only=bool(line.get("ownerOnly", False)),
        effects=str(line.get("effects", "none")),
        parallel=bool(line.get("parallel", True)),
        timeout_seconds=line.get("timeoutSeconds"),
    )


def _provider(line: Mapping[str, Any], plugin: str) -> ProviderLine:
    env = line.get("env", ())
    if not _is_names(list(env)):
        raise _wrong(plugin, "providers[].env", "a list of names")
    return ProviderLine(
        _required_name(line, "providers", plugin), tuple(env), _text(line, "defaultModel", plugin)
    )


def _rows(tree: Mapping[str, Any], key: str, plugin: str) -> Iterator[Mapping[str, Any]]:
    rows = tree.get(key, [])
    if not isinstance(rows, list):
        raise _wrong(plugin, key, "a list")
    for row in rows:
        if isinstance(row, str):
            yield {"name": row}
        elif isinstance(row, dict):
            yield row
        else:
            raise _wrong(plugin, key, "a list of names or objects")


def _required_name(line: Mapping[str, Any], key: str, plugin: str) -> str:
    name = line.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _wrong(plugin, f"{key}[].name", "a name")
    return name


def _text(tree: Mapping[str, Any], key: str, plugin: str) -> str:
    value = tree.get(key, "")
    if not isinstance(value, str):
        raise _wrong(plugin, key, "a text")
    return value


def _object(value: Any, key: str, plugin: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(plugin, key, "an object")
    return value


def _is_names(value: Any) -> bool:
    return (
        isinstance(value, Iterable)
        and not isinstance(value, str | dict)
        and all(isinstance(v, str) for v in value)
    )


def _wrong(plugin: str, key: str, wanted: str) -> PluginError:
    return PluginError(
        plugin, "find", "its manifest's {key} is not {wanted}", "correct it", key=key, wanted=wanted
    )


def _snake(key: str) -> str:
    return re.sub(r"([A-Z])", lambda letter: "_" + letter[1].lower(), key)
