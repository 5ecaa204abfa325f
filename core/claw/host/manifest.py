"""Plugin manifests: ``claw-plugin.json`` in a plugin's import package, which describes it without an import.

A plugin is found by its entry point in the group ``claw.plugins`` (name = plugin id, value = import package);
nothing here imports it. Source of the entry-point rules: packaging.python.org, "Entry points specification".
"""

import operator
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec

from claw.config.paths import Path as KeyPath
from claw.contracts.errors import PluginError

GROUP = "claw.plugins"
FILE_NAME = "claw-plugin.json"
_TO_AUTHOR = "correct the file if it is yours, or update the plugin"
API_VERSION = (1, 0)
Kind = Literal[
    "channel", "provider", "tool", "section", "sandbox", "reviewer", "filter", "observer", "store", "command",
    "middleware", "models", "context", "approver", "service", "turn-log", "session-store", "chat-command", "diagnostic",
    "skill", "mcp-server",
]  # fmt: skip
KINDS: tuple[str, ...] = get_args(Kind)
_EVERY_TURN = frozenset({"middleware", "models", "context", "approver", "turn-log", "session-store"})
_EVERY_TURN |= {"section", "reviewer", "filter", "observer"}
"""Kinds that take part in every turn, so that a plugin with one of them is loaded once it is enabled."""
WITHOUT_CODE = frozenset({"skill", "mcp-server"})
"""Kinds that are used while the plugin's code is not loaded."""

Name = Annotated[str, msgspec.Meta(pattern=r"\S")]
Names = tuple[Name, ...]


class ManifestPart(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A part of the manifest: its fields are written in camelCase, and an unknown field is an error."""


class ToolDeclaration(ManifestPart, frozen=True):
    """A tool as the manifest declares it: all that a model or a policy needs before the code is imported.

    :param name: the name by which a model calls it.
    :param description: for models.
    :param parameters: JSON Schema of its arguments, of type object.
    :param optional: an allow list must name it, its plugin or ``group:plugins``.
    :param owner_only: only owners get it.
    :param effects: after a crash, a call with unknown outcome may run again (none, idempotent) or not (once).
    :param parallel: it may run beside other calls of the same answer.
    :param timeout_seconds: it is cancelled after this time; absent = no limit.
    :param results: whose words its results may hold: ``foreign``, ``own`` or ``marked`` (as ``claw.Tool``).
    :param leaves_running: arguments with which a call leaves a program running, or writes to one (as ``claw.Tool``).
    :param reads_files: it reads any file that the agent may read, from any line on.
    :param without: name of another tool → the line of this tool for runs that do not have the other one.
    """

    name: Name
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    optional: bool = False
    owner_only: bool = False
    effects: Literal["none", "idempotent", "once"] = "once"
    parallel: bool = True
    timeout_seconds: float | None = None
    results: Literal["foreign", "own", "marked"] = "foreign"
    leaves_running: Names = ("background",)
    reads_files: bool = False
    without: dict[Name, "ToolDeclaration"] = {}


_ID_STEP = re.compile(
    r"(?:\\[dw.+-]|\[\^?[^\]\[\\]+\]|[^\\\[\](){}|^$*+?.\s])([?+*]|\{\d{1,3}(?:,\d{1,3})?\})?"
)  # a character or a class of characters, and how often


@cache
def _id_pattern(shape: str) -> re.Pattern[str]:
    """Compile a shape. A step that repeats is possessive, so that a match takes linear time.

    :raises ValueError: it is malformed.
    """
    if _ID_STEP.sub("", shape):
        rule = "write characters, classes and repetitions"
        raise ValueError(f"{shape} has groups, alternatives or anchors: {rule}")
    try:
        return re.compile(_ID_STEP.sub(lambda step: step[0] + "+" * bool(step[1]), shape))
    except re.error as why:
        raise ValueError(f"{shape} is not a regular expression: {why}") from None


class ChannelDeclaration(ManifestPart, frozen=True):
    """A channel as the manifest declares it. The shapes of ids are regular expressions without groups, alternatives and
    anchors, which the whole id matches, such as ``U[A-Z0-9]+``; a repetition takes all that it can.

    :param user_ids: the shape of the stable ids of people. A sender with any other id is refused, as a name that anybody
        may choose, and an entry of any other shape in a list of people is a warning.
    :param user_example: an id of this shape, for messages; ``…`` stands for any characters.
    :param group_ids: the shape of the ids of groups, for the same warning.
    :param group_example: an id of this shape.
    :param token_user: the id of every sender, when all of them prove with a token of the operator that they may write:
        ``allowFrom`` is this id, and ``dmPolicy`` is allowlist, where the file does not set them.
    """

    user_ids: str = ""
    user_example: str = ""
    group_ids: str = ""
    group_example: str = ""
    token_user: Annotated[str, msgspec.Meta(pattern=r"^[^\s*]*$")] = ""

    def __post_init__(self) -> None:
        for shape, example in ((self.user_ids, self.user_example), (self.group_ids, self.group_example)):
            if shape and not (example and _id_pattern(shape).fullmatch(example.replace("…", "0"))):
                raise ValueError(f"the example {example!r} does not have the shape {shape}")

    def example_unless_id(self, id: str, of_group: bool = False) -> str:
        """Return the example if ``id`` does not have the shape; empty when it has, or there is no shape."""
        shape, example = (
            (self.group_ids, self.group_example) if of_group else (self.user_ids, self.user_example)
        )
        return example if shape and not _id_pattern(shape).fullmatch(id) else ""


class ProviderDeclaration(ManifestPart, frozen=True):
    """A provider as the manifest declares it.

    :param name: as in ``providers.NAME`` and in front of a model's name; ``*`` means every
        ``providers.NAME`` that has a ``baseUrl`` and that no other plugin serves.
    :param env: environment variables of which one holds a key.
    :param default_model: the model to use when only a key is configured; without ``provider/``.
    :param needs: a distribution that it requires and that an extra installs; while it is missing, this
        provider is not chosen for its key alone.
    :param fallback: it needs no key, and its ``defaultModel`` answers when nothing else is configured.
    """

    name: Name
    env: Names = ()
    default_model: str = ""
    needs: str = ""
    fallback: bool = False

    def variable(self, environ: Mapping[str, str]) -> str:
        """Return the environment variable that holds a key; empty when none does."""
        return next((name for name in self.env if environ.get(name, "").strip()), "")

    def ready(self, environ: Mapping[str, str]) -> bool:
        """Return true if it may be a default: it has a model, a key, and what it needs is installed."""
        if not (self.default_model and self.variable(environ)):
            return False
        from importlib.metadata import Distribution

        return not self.needs or any(Distribution.discover(name=self.needs))


class Manifest(ManifestPart, frozen=True):
    """The whole of ``claw-plugin.json``.

    :param id: the same as the name of the entry point; letters, digits, ``-`` and ``_``, at most 64.
    :param name: for people.
    :param description: for people, one line.
    :param api: range of plugin API versions it was made for.
    :param kinds: what it contributes; shown in lists.
    :param channels: its channels by name; each is configured at ``channels.NAME``, or ``NAME`` at the top level. A list
        of the names alone will do.
    :param providers: its providers.
    :param tools: its tools. When there are any, these lines are what models and policy see: a tool that only
        the code registers is not offered.
    :param prompt_sections: names; with one of them the plugin is loaded at start.
    :param skills: folders ``skills/NAME`` of its package, each with a ``SKILL.md``: agents may open them while the plugin
        is in use or idle. Its code is not needed for that.
    :param commands: the words behind ``claw`` that run its commands, each with one line for ``claw --help``; ``plugins
        NAME`` is one behind ``claw plugins``, and any other group works the same way. A list of the words alone will do.
    :param mcp_servers: MCP servers by name, each as in ``mcpServers`` of the config file. An operator must allow each of
        their tools, and connect to each server once. Its code is not needed for that.
    :param sandboxes: names; shown in lists.
    :param reviewers: names; with one of them the plugin is loaded at start.
    :param filters: names; with one of them the plugin is loaded at start.
    :param observers: names; with one of them the plugin is loaded at start.
    :param stores: names; with one of them the plugin is loaded at start.
    :param requires: ids of plugins without which it is quarantined.
    :param env: environment variables it reads; shown in lists.
    :param capabilities: what it touches: paths, network, subprocess; information for people, nothing is
        enforced.
    :param config_schema: JSON Schema of its settings (``plugins.entries.ID.config``): for editors, and to
        quarantine the plugin before its code is imported when they do not fit.
    :param config_keys: the keys of the file that it gives effect to, beside its own section: ``budgets`` at the top
        level, ``agents.compaction`` for the defaults and each agent, ``providers.*.tools`` with any name in place of
        ``*``. A key that is set while no owner of it is in use is an error of the file.
    :param config_models: of some of these keys, the pydantic model of the value, as ``PACKAGE.MODULE:CLASS`` in the
        plugin's own package. It is imported when a file has the key and the plugin is in use. A key without a model is
        one that core describes, or is checked by the plugin alone.
    :param config_checks: its diagnostics check the config file at every start too (``check_config``), so every chat
        imports them; without it only commands such as ``claw config validate`` ask them.
    :param short_keys: keys of its own section that may stand at the top level of the file too.
    :param standard: it is a part of claw that was taken out of core: ``plugins.allow`` need not name it (``plugins.deny``
        and ``enabled: false`` hold for it), and its answer to a hook with a slot is in force until ``plugins.slots``
        chooses another. It holds for a distribution that the metadata of ``claw-core`` names (:func:`release_train`).
    :param operator: its commands repair a claw that does not start, so they run even when the plugin is disabled, blocked
        or quarantined, or when the config file is wrong. It holds for the same distributions as ``standard``.
    :param schema: address of a JSON Schema, for your editor.
    """

    id: Name
    name: str = ""
    description: str = ""
    api: str = ">=1,<2"
    kinds: tuple[Kind, ...] = ()
    channels: dict[Name, ChannelDeclaration] | Names = ()
    providers: tuple[ProviderDeclaration, ...] = ()
    tools: tuple[ToolDeclaration, ...] = ()
    prompt_sections: Names = ()
    skills: Names = ()
    commands: dict[Name, str] | Names = ()
    mcp_servers: dict[Name, dict[str, Any]] = {}
    sandboxes: Names = ()
    reviewers: Names = ()
    filters: Names = ()
    observers: Names = ()
    stores: Names = ()
    requires: Names = ()
    env: Names = ()
    capabilities: dict[str, Any] = {}
    config_schema: dict[str, Any] | None = None
    config_keys: Names = ()
    config_models: dict[str, str] = {}
    config_checks: bool = False
    short_keys: Names = ()
    standard: bool = False
    operator: bool = False
    schema: str = msgspec.field(default="", name="$schema")

    @property
    def loads_at_start(self) -> bool:
        """True if it contributes something to every turn, so that it is loaded once enabled."""
        named = self.prompt_sections or self.reviewers or self.filters or self.observers or self.stores
        return bool(named) or not _EVERY_TURN.isdisjoint(self.kinds)

    @property
    def has_own_section(self) -> bool:
        """True if its settings are under ``plugins.entries.ID.config``; else under channels or providers."""
        return not (self.channels or self.providers)


_NO_MANIFEST = Manifest("")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class InstalledPlugin:
    """An installed plugin, found and not imported.

    :param package: import package of the entry point.
    :param folder: of that package; None when it cannot be found.
    :param manifest: None when it has none.
    :param fault: the reason why its manifest cannot be used.
    :param is_first_party: its distribution is one of the release train of the installed ``claw-core``.
    :param rival: the distribution whose plugin of the same id is used in its place; empty when there is none.
    """

    id: str
    package: str
    distribution: str
    version: str
    folder: Path | None = None
    manifest: Manifest | None = None
    fault: PluginError | None = None
    is_first_party: bool = False
    rival: str = ""

    @property
    def declares(self) -> Manifest:
        """Its manifest; without one, a manifest that lists nothing."""
        return self.manifest or _NO_MANIFEST

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that its manifest names."""
        return tuple(self.declares.channels)

    @property
    def is_operator(self) -> bool:
        """True if its commands run whatever its state is."""
        return self.declares.operator and self.is_first_party

    @property
    def is_standard(self) -> bool:
        """True if it is a part of claw that was taken out of core."""
        return self.declares.standard and self.is_first_party


def parse_manifest(text: str, plugin: str) -> Manifest:
    """Read a manifest.

    :raises PluginError: stage find; it names the field and the expected value.
    """
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.ValidationError as why:
        raise PluginError(plugin, "find", "its manifest is invalid: {why}", _TO_AUTHOR, why=why) from None
    except (ValueError, RecursionError) as why:
        raise PluginError(plugin, "find", "its manifest is not JSON: {why}", _TO_AUTHOR, why=why) from None
    if manifest.id != plugin:
        problem, fix = "its manifest says id {id}, its entry point says {entry}", "make both the same"
        raise PluginError(plugin, "find", problem, fix, id=repr(manifest.id), entry=plugin)
    return manifest


_OPERATORS = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
}  # fmt: skip


@cache
def api_matches(api: str, version: tuple[int, int] = API_VERSION) -> bool:
    """Return true if a plugin API range such as ``>=1,<2`` admits ``version``; an unreadable one does not."""
    parts = [re.fullmatch(r"\s*([<>]=?|[=!]=)\s*(\d+)(?:\.(\d+))?\s*", part) for part in api.split(",")]
    return all(part and _OPERATORS[part[1]](version, (int(part[2]), int(part[3] or 0))) for part in parts)


def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """Return every installed plugin, in order of its id; no plugin is imported.

    Of two distributions with one plugin id that of the release train is used, else the first on the path; the other is
    reported as a fault.
    """
    from importlib.metadata import entry_points

    seen: dict[str, InstalledPlugin] = {}
    twice: list[InstalledPlugin] = []
    entries = entry_points(group=GROUP)
    all_found = [find_plugin(one.name, one.value, *_name_and_version(one.dist)) for one in entries]
    for one in sorted(all_found, key=lambda one: not one.is_first_party):
        if (first := seen.setdefault(one.id, one)).distribution != one.distribution:
            problem = "{this} is not used: {first} provides a plugin with this id"
            fix = "claw plugins uninstall {this}"
            unused = _faulty(one, problem, fix, this=one.distribution, first=first.distribution)
            twice.append(replace(unused, rival=first.distribution))
    return tuple(sorted([*seen.values(), *twice], key=lambda found: found.id))


def providers_of(found: Iterable[InstalledPlugin]) -> Iterator[ProviderDeclaration]:
    """Yield every provider that the manifests declare."""
    return (line for one in found for line in one.declares.providers)


def key_variables(found: Iterable[InstalledPlugin]) -> dict[str, tuple[str, ...]]:
    """Return, for each provider that the manifests declare, the environment variables that may hold its key."""
    variables: dict[str, tuple[str, ...]] = {}
    for line in providers_of(found):
        variables[line.name] = (*variables.get(line.name, ()), *line.env)
    return variables


def declared_channels(found: Iterable[InstalledPlugin]) -> dict[str, list[ChannelDeclaration]]:
    """Return, for each channel that the manifests declare, the declaration of each plugin that has it."""
    declared: dict[str, list[ChannelDeclaration]] = {}
    for channels in (one.declares.channels for one in found):
        for name in channels:
            line = channels[name] if isinstance(channels, dict) else ChannelDeclaration()
            declared.setdefault(name, []).append(line)
    return declared


def short_forms(found: Collection[InstalledPlugin]) -> dict[str, KeyPath]:
    """Return name at the top level of the file → the path that it stands for, of the channels, the short keys and the
    agents' keys of all installed plugins. A top-level key that any plugin owns (``configKeys``) keeps its own meaning.
    """
    forms: dict[str, KeyPath] = {}
    for one in found:
        forms |= {name: ("channels", name) for name in one.channels}
        forms |= {key: ("plugins", "entries", one.id, "config", key) for key in one.declares.short_keys}
    owned = [key.split(".") for one in found for key in one.declares.config_keys]
    forms = {name: path for name, path in forms.items() if name not in {steps[0] for steps in owned}}
    of_agents = (steps[1] for steps in owned if steps[0] == "agents" and len(steps) == 2)
    return forms | {key: ("agents", "defaults", key) for key in of_agents}


def normalise_distribution(name: str) -> str:
    """Normalise the name of a distribution. Source: packaging.python.org, "Names and normalization"."""
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def release_train() -> frozenset[str]:
    """Return the distributions that the extras of the installed ``claw-core`` name: they are released with it.

    The metadata of the installed distribution decides, and no plugin can change it; an id or a manifest proves nothing.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("claw-core").read_text("METADATA") or ""
    except PackageNotFoundError:
        return frozenset()
    lines = re.findall(r"^Requires-Dist:[ \t]*([\w.-]+)[^;\n]*;.*\bextra\b", text.partition("\n\n")[0], re.M)
    return frozenset(map(normalise_distribution, lines))


def _name_and_version(dist: Any) -> tuple[str, str]:
    """Return both, from the head of METADATA: the standard library parses all of it as an e-mail."""
    text = (dist and (dist.read_text("METADATA") or dist.read_text("PKG-INFO"))) or ""
    head = dict(re.findall(r"^(Name|Version):[ \t]*(.*?)[ \t\r]*$", text.partition("\n\n")[0], re.M))
    return head.get("Name", "?"), head.get("Version", "?")


def find_plugin(plugin: str, package: str, distribution: str = "?", version: str = "?") -> InstalledPlugin:
    """Find one plugin by its import package, through the path finders only: nothing is imported."""
    train = release_train()
    ours = normalise_distribution(distribution) in train
    seen = InstalledPlugin(plugin, package, distribution, version, is_first_party=ours)
    spec = PathFinder.find_spec(package.partition(".")[0])
    is_taken = not ours and distribution != "?" and f"claw-{normalise_distribution(plugin)}" in train
    no_id = "its id is not valid: use letters, digits, - and _, at most 64 characters"
    no_package = "its entry point names {package}, and it must name a package alone"
    for is_wrong, problem, fix in (
        (not _ID.fullmatch(plugin), no_id, _TO_AUTHOR),
        (is_taken, "its id belongs to claw, and {distribution} is another package", "uninstall it"),
        (":" in package, no_package, _TO_AUTHOR),
        (spec is None, "its package {package} is missing", "install it again"),
    ):
        if is_wrong:
            return _faulty(seen, problem, fix, package=package, distribution=distribution)
    where = list(spec.submodule_search_locations or ()) if spec else []
    if not where:  # a single module: it has no folder that could hold a manifest
        return seen
    folder = Path(where[0]).joinpath(*package.split(".")[1:])
    seen = replace(seen, folder=folder)
    try:
        text = (folder / FILE_NAME).read_text(encoding="utf-8")
        return replace(seen, manifest=parse_manifest(text, plugin))
    except FileNotFoundError:
        return seen
    except (OSError, UnicodeDecodeError) as why:
        return _faulty(seen, "its manifest cannot be read: {why}", "install it again", why=why)
    except PluginError as fault:
        return replace(seen, fault=fault)


def _faulty(seen: InstalledPlugin, problem: str, fix: str, **values: object) -> InstalledPlugin:
    return replace(seen, fault=PluginError(seen.id, "find", problem, fix, **values))
