"""What a plugin says of itself without being imported: ``claw-plugin.json`` inside its import package.

A plugin is found by its entry point in the group ``claw.plugins`` (name = plugin id, value = import package); nothing
here imports it. Source of the entry-point rules: packaging.python.org, "Entry points specification".
"""

import operator
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from claw.errors import PluginError

GROUP = "claw.plugins"
FILE_NAME = "claw-plugin.json"
_TO_AUTHOR = "correct the file if it is yours, or update the plugin"
API_VERSION = (1, 0)
Kind = Literal[
    "channel", "provider", "tool", "section", "sandbox", "reviewer", "filter", "observer", "store", "command"
]
KINDS: tuple[str, ...] = get_args(Kind)

Name = Annotated[str, msgspec.Meta(pattern=r"\S")]
Names = tuple[Name, ...]


class Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A piece of the manifest: its fields are written in camelCase, and a field that is not here is an error."""


class ToolLine(Part, frozen=True):
    """A tool as the manifest declares it: all that a model or a policy needs to know before the code is imported.

    :param name: how a model calls it.
    :param description: what a model is told of it.
    :param parameters: JSON Schema of its arguments, of type object.
    :param optional: an allow list must name it, its plugin or ``group:plugins``.
    :param owner_only: it is there for owners and vanishes for everybody else.
    :param effects: after a crash, a call with unknown outcome may run again (none, idempotent) or not (once).
    :param parallel: it may run beside other calls of the same answer.
    :param timeout_seconds: then it is cancelled; absent = no limit.
    """

    name: Name
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    optional: bool = False
    owner_only: bool = False
    effects: Literal["none", "idempotent", "once"] = "none"
    parallel: bool = True
    timeout_seconds: float | None = None


class ProviderLine(Part, frozen=True):
    """A provider as the manifest declares it.

    :param name: as in ``providers.NAME`` and in front of a model's name; ``*`` stands for every ``providers.NAME`` that
        has a ``baseUrl`` and that no other plugin serves.
    :param env: environment variables of which one holds a key.
    :param default_model: the model to use when only a key is configured; without ``provider/``.
    :param needs: a distribution that it cannot do without and that an extra brings; while it is missing, this provider
        is not chosen for its key alone.
    """

    name: Name
    env: Names = ()
    default_model: str = ""
    needs: str = ""

    def variable(self, environ: Mapping[str, str]) -> str:
        """The environment variable that holds a key; empty when none does."""
        return next((name for name in self.env if environ.get(name, "").strip()), "")

    def ready(self, environ: Mapping[str, str]) -> bool:
        """Whether it may be chosen unasked: it has a model, a key of it is set, and what it needs is installed."""
        keyed = bool(self.default_model and self.variable(environ))
        return keyed and (not self.needs or _is_installed(self.needs))


class Manifest(Part, frozen=True):
    """The whole of ``claw-plugin.json``.

    :param id: the same as the name of the entry point; letters, digits, ``-`` and ``_``, at most 64.
    :param name: for people.
    :param description: for people, one line.
    :param api: range of plugin API versions it was made for.
    :param kinds: what it brings, for the list.
    :param channels: names of the channels it brings; each is configured at ``channels.NAME``.
    :param providers: the providers it brings.
    :param tools: the tools it brings. When there are any, these lines are what models and policy see: a tool that only
        the code brings is not offered.
    :param prompt_sections: names; with one of them the plugin is loaded at start.
    :param skills: names, for the list.
    :param commands: words behind ``claw`` that it answers to; ``plugins NAME`` is one behind ``claw plugins``.
    :param sandboxes: names, for the list.
    :param reviewers: names; with one of them the plugin is loaded at start.
    :param filters: names; with one of them the plugin is loaded at start.
    :param observers: names; with one of them the plugin is loaded at start.
    :param stores: names; with one of them the plugin is loaded at start.
    :param requires: ids of plugins without which it is set aside.
    :param env: environment variables it reads, for the list.
    :param capabilities: what it touches: paths, network, subprocess; for people, nothing is enforced.
    :param config_schema: JSON Schema of its settings (``plugins.entries.ID.config``): for editors, and to set the plugin
        aside before its code is there when they do not fit.
    :param schema: address of a JSON Schema, for your editor.
    """

    id: Name
    name: str = ""
    description: str = ""
    api: str = ">=1,<2"
    kinds: tuple[Kind, ...] = ()
    channels: Names = ()
    providers: tuple[ProviderLine, ...] = ()
    tools: tuple[ToolLine, ...] = ()
    prompt_sections: Names = ()
    skills: Names = ()
    commands: Names = ()
    sandboxes: Names = ()
    reviewers: Names = ()
    filters: Names = ()
    observers: Names = ()
    stores: Names = ()
    requires: Names = ()
    env: Names = ()
    capabilities: dict[str, Any] = {}
    config_schema: dict[str, Any] | None = None
    schema: str = msgspec.field(default="", name="$schema")

    @property
    def speaks_in_turns(self) -> bool:
        """Whether it brings something that takes part in every turn, so that it is loaded once enabled."""
        return bool(self.prompt_sections or self.reviewers or self.filters or self.observers or self.stores)

    @property
    def keeps_own_section(self) -> bool:
        """Whether its settings stand under ``plugins.entries.ID.config``; else under its channels or providers."""
        return not (self.channels or self.providers)


FIRST_PARTY = frozenset({
    "builtin", "tools-std", "anthropic", "openai", "google", "mistral", "local", "feishu", "telegram", "discord",
    "skills", "memory", "agents", "clock", "mcp", "llm-bridge", "sandbox", "http", "otel", "cluster",
})  # fmt: skip
"""Plugin ids that are claw's own: only ``claw-ID`` may bring them."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def _is_installed(distribution: str) -> bool:
    from importlib import metadata

    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


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
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.ValidationError as why:
        raise PluginError(plugin, "find", "its manifest is wrong: {why}", _TO_AUTHOR, why=why) from None
    except (ValueError, RecursionError) as why:
        raise PluginError(plugin, "find", "its manifest is not JSON: {why}", _TO_AUTHOR, why=why) from None
    if manifest.id != plugin:
        raise PluginError(
            plugin, "find", "its manifest says id {id}, its entry point says {entry}", "make the two the same",
            id=repr(manifest.id), entry=plugin,
        )  # fmt: skip
    return manifest


_COMPARED = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@cache
def fits(api: str, version: tuple[int, int] = API_VERSION) -> bool:
    """Whether a plugin API range such as ``>=1,<2`` admits ``version``; an unreadable range admits
    nothing."""
    parts = [re.fullmatch(r"\s*([<>]=?|[=!]=)\s*(\d+)(?:\.(\d+))?\s*", part) for part in api.split(",")]
    return all(part and _COMPARED[part[1]](version, (int(part[2]), int(part[3] or 0))) for part in parts)


def scan() -> tuple[Found, ...]:
    """Every installed plugin, in order of its id; no plugin is imported.

    Of two distributions with one plugin id the first on the path stands, and the other is reported as a
    fault.
    """
    from importlib.metadata import entry_points

    seen: dict[str, Found] = {}
    twice: list[Found] = []
    for entry in entry_points(group=GROUP):
        one = look(entry.name, entry.value, *_name_and_version(entry.dist))
        first = seen.setdefault(one.id, one)
        if first is not one and first.distribution != one.distribution:
            twice.append(_faulty(
                one, "{this} and {first} both bring a plugin of this id", "uninstall one of the two",
                this=one.distribution, first=first.distribution,
            ))  # fmt: skip
    return tuple(sorted([*seen.values(), *twice], key=lambda found: found.id))


def providers_of(found: Iterable[Found]) -> Iterator[ProviderLine]:
    """Every provider that the manifests declare."""
    return (line for one in found if one.manifest for line in one.manifest.providers)


def variables_of(found: Iterable[Found], provider: str) -> tuple[str, ...] | None:
    """The environment variables of which one may hold a key of ``provider``; None when no manifest speaks of it."""
    lines = [line for line in providers_of(found) if line.name == provider]
    return tuple(name for line in lines for name in line.env) if lines else None


def _name_and_version(dist: Any) -> tuple[str, str]:
    """Of a distribution, from the head of its METADATA: the standard library puts its e-mail parser to the whole."""
    text = (dist and (dist.read_text("METADATA") or dist.read_text("PKG-INFO"))) or ""
    head = dict(re.findall(r"^(Name|Version):[ \t]*(.*?)[ \t\r]*$", text.partition("\n\n")[0], re.M))
    return head.get("Name", "?"), head.get("Version", "?")


def look(plugin: str, package: str, distribution: str = "?", version: str = "?") -> Found:
    """See one plugin by its import package, through the path finders only: nothing is imported."""
    seen = Found(plugin, package, distribution, version)
    if not _ID.fullmatch(plugin):
        return _faulty(seen, "its id is not a plain name: letters, digits, - and _, at most 64", _TO_AUTHOR)
    if plugin in FIRST_PARTY and distribution not in ("?", f"claw-{plugin}"):
        problem = "its id belongs to claw-{id}, and {distribution} is another package"
        return _faulty(seen, problem, "uninstall it", id=plugin, distribution=distribution)
    spec = PathFinder.find_spec(package.partition(".")[0])
    if spec is None:
        return _faulty(seen, "its package {package} is not there", "install it again", package=package)
    where = list(spec.submodule_search_locations or ())
    if not where:  # a single module: it has no folder that could hold a manifest
        return seen
    folder = Path(where[0]).joinpath(*package.split(".")[1:])
    seen = replace(seen, folder=folder)
    try:
        return replace(seen, manifest=parse((folder / FILE_NAME).read_text(encoding="utf-8"), plugin))
    except FileNotFoundError:
        return seen
    except (OSError, UnicodeDecodeError) as why:
        return _faulty(seen, "its manifest cannot be read: {why}", "install it again", why=why)
    except PluginError as fault:
        return replace(seen, fault=fault)


def _faulty(seen: Found, problem: str, fix: str, **values: object) -> Found:
    return replace(seen, fault=PluginError(seen.id, "find", problem, fix, **values))
