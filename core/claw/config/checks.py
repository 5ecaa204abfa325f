"""Checks across sections: references that must be valid, and warnings, which every command shows alike. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os.path import normpath
from pathlib import Path as FilePath
from typing import Any, Protocol

from pydantic.alias_generators import to_camel

from claw.config.agents import AgentSettings
from claw.config.channels import example_unless_id
from claw.config.errors import ErrorFactory
from claw.config.models import Settings
from claw.config.paths import Layout, Path, normalise_agent_id, split_key, values_at
from claw.config.source import SubstitutedText, substitute_all
from claw.config.summary import ANY_ENDPOINT, install_hint, schema_violations
from claw.config.values import Secret, origin_of
from claw.contracts.errors import ConfigError, UsageError, nearest

UNREAD = (
    "agents.temperature", "agents.timeoutSeconds", "agents.identity.emoji", "agents.subagents.maxChildrenPerAgent",
    "agents.subagents.maxConcurrent", "agents.subagents.archiveAfterMinutes", "agents.subagents.model",
    "agents.subagents.thinking",
)  # fmt: skip
"""Keys of core that are accepted and that nothing reads yet."""


class CheckedConfig(Protocol):
    """The part of :class:`claw.config.Config` that the checks read."""

    @property
    def home(self) -> FilePath: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def layout(self) -> Layout: ...
    @property
    def environ(self) -> Mapping[str, str]: ...
    @property
    def error_factory(self) -> ErrorFactory: ...
    @property
    def owned(self) -> Mapping[Path, Any]: ...
    @property
    def agent_ids(self) -> tuple[str, ...]: ...
    @property
    def file(self) -> str: ...
    def agent(self, agent_id: str = "") -> Any: ...
    def line(self, key: str) -> int | None: ...


@dataclass(frozen=True, slots=True)
class InstalledNames:
    """Names and schemas of the installed plugins, from their manifests.

    :param plugins: ids.
    :param tools: those that manifests list.
    :param sandboxes: back ends for ``sandbox.mode``.
    :param schemas: plugin id → JSON Schema of ``plugins.entries.ID.config``.
    :param sections: channel → JSON Schema of ``channels.NAME``.
    :param endpoints: provider → id of its plugin, and JSON Schema of ``providers.NAME``.
    :param has_unlisted: a plugin without a manifest is installed, which may register any channel, provider or tool.
    """

    plugins: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    sandboxes: frozenset[str] = frozenset()
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    endpoints: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    has_unlisted: bool = False


def installed_names(found: Iterable[Any]) -> InstalledNames:
    """Collect the names and schemas of these plugins.

    :param found: ``claw.host.manifest.InstalledPlugin``; one without a manifest contributes its id only.
    """
    found = tuple(found)
    manifests = [one.manifest for one in found if one.manifest and one.fault is None]
    return InstalledNames(
        plugins=frozenset(one.id for one in found),
        tools=frozenset(line.name for one in found if one.manifest for line in one.manifest.tools),
        channels=frozenset(name for each in manifests for name in each.channels) | {"terminal"},
        providers=frozenset(line.name for each in manifests for line in each.providers),
        sandboxes=frozenset(name for each in manifests for name in each.sandboxes),
        schemas={
            each.id: each.config_schema for each in manifests if each.config_schema and each.has_own_section
        },
        sections={
            name: each.config_schema for each in manifests if each.config_schema for name in each.channels
        },
        endpoints={
            line.name: (each.id, each.config_schema)
            for each in manifests
            if each.config_schema and not each.channels
            for line in each.providers
        },
        has_unlisted=any(one.manifest is None and one.fault is None for one in found),
    )


def reference_errors(config: CheckedConfig) -> list[ConfigError]:
    """Return an error for each invalid reference inside the file; with any of them the file is refused."""
    errors = [*_duplicate_agents(config), *_unknown_agents(config)]
    return errors or [*_unusable_workspaces(config)]


def file_warnings(config: CheckedConfig) -> tuple[ConfigError, ...]:
    """Return warnings that need the file alone: empty keys, variables that are not set, jobs that cannot run."""
    return (
        *_unset_variables(config),
        *_invalid_owners(config),
        *_invalid_ids(config),
        *_open_channels(config),
        *_repeated_fallbacks(config),
        *_unlisted_default(config),
        *_unread_keys(config),
        *_owners_warnings(config),
    )


def check_installed(config: CheckedConfig, known: InstalledNames) -> tuple[ConfigError, ...]:
    """Compare the file with the installed plugins: unknown sections and names, each with the nearest known name.

    The words of tool lists are judged by ``policy.unknown_names``, which knows every tool.

    :returns: warnings; the caller shows each once.
    """
    return (
        *_unknown_sections(config, known),
        *_unknown_plugins(config, known),
        *_plugin_keys(config, known),
        *_channel_keys(config, known),
        *_provider_keys(config, known),
        *_unusable_addresses(config),
        *_missing_sandboxes(config, known),
    )


def _unusable_workspaces(config: CheckedConfig) -> Iterator[ConfigError]:
    """Yield an error for each workspace at or below a file, or among claw's own files, where tools would find keys."""
    home = normpath(config.home)
    for agent in map(config.agent, config.agent_ids):
        folder, problem, fix = FilePath(normpath(agent.workspace)), "", ""
        within = folder.relative_to(home).parts if folder.is_relative_to(home) else ("workspace",)
        above = folder.parents if agent.has_configured_workspace else ()
        if file := next(filter(FilePath.is_file, (folder, *above)), None):
            folder, problem, fix = file, "{folder} is a file, not a folder", "Name a folder"
        elif agent.has_configured_workspace and not (within and within[0].startswith("workspace")):
            problem = "{folder} is in claw's home, beside keys and conversations"
            fix = "Name a folder outside of {home}, or {home}/workspace-{id}"
        if problem:
            steps = split_key(agent.key_of("workspace")) or ()
            place = tuple(step for step in steps if isinstance(step, str | int))
            values = {"folder": folder, "home": home, "id": agent.id}
            yield config.error_factory.error(place, problem, fix, **values)


def _duplicate_agents(config: CheckedConfig) -> Iterator[ConfigError]:
    tell, seen = config.error_factory.error, dict[str, str]()
    for index, entry in enumerate(config.settings.agents.list):
        name = normalise_agent_id(entry.id)
        if first := seen.get(name):
            same, alike = (
                "duplicate agent id {id}",
                "{id} duplicates {first}: case and punctuation are ignored in ids",
            )
            problem = same if first == entry.id else alike
            at: Path = ("agents", "list", index, "id")
            yield tell(at, problem, "Give each agent its own id", id=entry.id, first=first)
        seen.setdefault(name, entry.id)
    for index in [index for index, entry in enumerate(config.settings.agents.list) if entry.default][1:2]:
        yield tell(("agents", "list", index, "default"), "a second agent is marked as default", "Mark one")


def _unknown_agents(config: CheckedConfig) -> Iterator[ConfigError]:
    written = config.layout.tree.get("bindings", ())
    for index, (binding, raw) in enumerate(zip(config.settings.bindings, written, strict=False)):
        if normalise_agent_id(binding.agent) not in (*config.agent_ids, "main"):
            path: Path = ("bindings", index, "agent" if "agent" in raw else "agentId")
            names = ", ".join(config.agent_ids)
            yield config.error_factory.error(
                path, "there is no agent {id}", "Agents: {names}", id=binding.agent, names=names
            )


def _unset_variables(config: CheckedConfig) -> Iterator[ConfigError]:
    """Yield a warning for each text or secret whose environment variable is not set, and for each empty secret."""
    settings = config.settings.model_dump(by_alias=True, exclude_unset=True)
    secrets = ((path, leaf) for path, leaf in _leaves(settings) if isinstance(leaf, Secret))
    for path, leaf in (*_leaves(substitute_all(config.layout.tree, config.environ)), *secrets):
        if isinstance(leaf, Secret) and leaf.empty:
            yield config.error_factory.error(
                path, "the key is empty, so it is not used", "Write a value, or remove the key"
            )
        elif (isinstance(leaf, Secret) and leaf.is_reference) or isinstance(leaf, SubstitutedText):
            for name in leaf.missing[:1]:
                fix = "Set {name} before claw starts, or remove the key"
                yield config.error_factory.error(
                    path, "the environment variable {name} is not set", fix, name=name, grave=True
                )


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield everything in a tree that is neither mapping nor list, with its path."""
    if isinstance(value, Mapping | list | tuple):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _leaves(part, (*path, key))
    else:
        yield path, value


def _invalid_owners(config: CheckedConfig) -> Iterator[ConfigError]:
    settings = config.settings
    numbers = settings.agents.defaults.identity.owner_numbers
    for path, people in (
        (("owners",), settings.owners),
        (("agents", "defaults", "identity", "ownerNumbers"), numbers),
    ):
        for index, problem, fix, values in odd_people(people):
            yield config.error_factory.error((*path, index), problem, fix, **values)


def odd_people(people: Iterable[str]) -> Iterator[tuple[int, str, str, dict[str, object]]]:
    """Yield index, problem, fix and values of each entry of a list of owners or approvers that names no one."""
    for index, person in enumerate(people):
        if ":" not in person and not person.startswith("+"):
            fix = "Write channel:id, or a phone number with +"
            yield index, "{person} does not name a person", fix, {"person": person}
        elif values := _odd_id(person.partition(":")[0].strip().lower(), person):
            yield index, *_NO_ID, values


def _invalid_ids(config: CheckedConfig) -> Iterator[ConfigError]:
    """Yield a warning for each name in a list of people or groups where the service uses stable ids."""
    for name, section in config.settings.channels.items():
        for path, part in (((), section), *((("accounts", of), one) for of, one in section.accounts.items())):
            place: Path = ("channels", name, *path)
            lists: list[tuple[Path, tuple[str, ...]]]
            lists = [(("allowFrom",), part.allow_from), (("groupAllowFrom",), part.group_allow_from or ())]
            lists += [
                (("groups", id, "allowFrom"), group.allow_from or ()) for id, group in part.groups.items()
            ]
            for at, people in lists:
                for index, person in enumerate(people):
                    yield from _invalid_id(config, (*place, *at, index), name, person)
            for id in part.groups:
                if id != "*" and (like := example_unless_id(name, id, of_group=True)):
                    problem = (
                        "{id} is not a group id and admits no group: on {channel} a group "
                        "id looks like {like}"
                    )
                    fix = "Write the id of the group, or '*' for all of them"
                    yield config.error_factory.error(
                        (*place, "groups", id), problem, fix, id=id, channel=name, like=like
                    )


_NO_ID = (
    "{id} is not a stable id and matches nobody: on {channel} an id looks like {like}",
    "Let the person write to the bot; claw pairing list then shows the id",
)


def _invalid_id(config: CheckedConfig, path: Path, channel: str, person: str) -> Iterator[ConfigError]:
    if values := _odd_id(channel, person):
        problem, fix = _NO_ID
        yield config.error_factory.error(path, problem, fix, **values)


def _odd_id(channel: str, person: str) -> dict[str, object]:
    """Return the values of the warning about an id that its service cannot have written; empty when it may have."""
    written = person.strip()
    head, colon, rest = written.partition(":")
    id = rest.strip() if colon and head.strip().lower() == channel else written
    like = "" if id in ("", "*") or id.startswith("+") else example_unless_id(channel, id)
    return {"id": id, "channel": channel, "like": like} if like else {}


def _open_channels(config: CheckedConfig) -> Iterator[ConfigError]:
    for name, channel in config.settings.channels.items():
        if channel.dm_policy == "open" and "*" not in channel.allow_from:
            problem = "dmPolicy is open, but allowFrom does not contain '*': the channel does not start"
            fix = "Write allowFrom: ['*'] to admit everyone, or use dmPolicy: pairing"
            yield config.error_factory.error(("channels", name, "allowFrom"), problem, fix, grave=True)


def _repeated_fallbacks(config: CheckedConfig) -> Iterator[ConfigError]:
    aliases = config.settings.models.aliases
    for place, settings in _agent_sections(config):
        choice = settings.model
        models = (
            [aliases.get(name or "", name) for name in (choice.primary, *choice.fallbacks)] if choice else []
        )
        for index, name in enumerate(models[1:]):
            if name in models[: index + 1]:
                problem, fix = (
                    "{model} was tried before, so it is no fallback",
                    "Name another model, or remove it",
                )
                yield config.error_factory.error(
                    (*place, "model", "fallbacks", index), problem, fix, model=name
                )


def _unlisted_default(config: CheckedConfig) -> Iterator[ConfigError]:
    """Yield a warning if the list of agents leaves out the agent ``default``, which has conversations."""
    folder = config.home / "agents" / "default"
    if "default" not in config.agent_ids and folder.is_dir():
        problem = (
            "the agent default is not in the list, so its conversations and notes in {folder} are not in use"
        )
        fix = "Add {{id: default, default: true}} to agents.list, or move the folder away"
        yield config.error_factory.error(("agents", "list"), problem, fix, folder=folder)


def _unread_keys(config: CheckedConfig) -> Iterator[ConfigError]:
    for key in UNREAD:
        for path, _ in values_at(config.layout.tree, key):
            yield config.error_factory.error(path, "it has no effect: claw does not read it yet", "Remove it")


def _owners_warnings(config: CheckedConfig) -> Iterator[ConfigError]:
    """Yield what the models of plugins find odd: ``odd_keys(agent ids)`` yields path, problem, fix and values."""
    for place, value in config.owned.items():
        for path, problem, fix, values in getattr(value, "odd_keys", lambda agents: ())(config.agent_ids):
            yield config.error_factory.error((*place, *path), problem, fix, **values)


def _unknown_sections(config: CheckedConfig, known: InstalledNames) -> Iterator[ConfigError]:
    settings, fix = config.settings, "To use it: {install}. Else remove the section"
    if not known.has_unlisted:
        problem = "no installed plugin provides the channel {name}, so it stays off"
        for name in settings.channels:
            yield from _unknown_name(config, ("channels", name), name, known.channels, problem, fix)
        for name, section in settings.providers.items():
            if not (section.base_url and ANY_ENDPOINT in known.providers):
                problem = "no installed plugin provides {name} as a model provider"
                yield from _unknown_name(config, ("providers", name), name, known.providers, problem, fix)
    for name in settings.plugins.entries:
        path: Path = ("plugins", "entries", name)
        yield from _unknown_name(config, path, name, known.plugins, "plugin {name} is not installed", fix)


def _unknown_name(
    config: CheckedConfig, path: Path, name: str, there: Iterable[str], problem: str, fix: str
) -> Iterator[ConfigError]:
    """Yield a warning if ``name`` is not in ``there``. A suggestion of the nearest one takes precedence over ``fix``."""
    if name not in there:
        near, install = nearest(name, there), install_hint(name)
        fix = "Did you mean {near}?" if near else fix
        yield config.error_factory.error(path, problem, fix, name=name, near=near, install=install)


def _unknown_plugins(config: CheckedConfig, known: InstalledNames) -> Iterator[ConfigError]:
    plugins = config.settings.plugins
    fix = "Install it, or remove the entry"
    for key, names in (("allow", plugins.allow or ()), ("deny", plugins.deny)):
        for index, name in enumerate(names):
            path: Path = ("plugins", key, index)
            yield from _unknown_name(config, path, name, known.plugins, "plugin {name} is not installed", fix)


def _plugin_keys(config: CheckedConfig, known: InstalledNames) -> Iterator[ConfigError]:
    """Check a plugin's own keys against the schema of its manifest, without importing the plugin."""
    for name, entry in config.settings.plugins.entries.items():
        if entry.enabled and name in known.schemas:
            place: Path = ("plugins", "entries", name, "config")
            for misfit in schema_violations(
                substitute_all(entry.config, config.environ), known.schemas[name]
            ):
                path = (*place, *misfit.path)
                yield config.error_factory.error(
                    path, misfit.problem, misfit.fix, **misfit.values, grave=True
                )


def _channel_keys(config: CheckedConfig, known: InstalledNames) -> Iterator[ConfigError]:
    """Check the keys of a channel that core does not read against the schema of the plugin's manifest."""
    for name, section in config.settings.channels.items():
        for path, part in ((), section), *((("accounts", of), one) for of, one in section.accounts.items()):
            schema = known.sections.get(name, {})
            yield from _extra_keys(config, ("channels", name, *path), part.model_extra or {}, schema)


def _provider_keys(config: CheckedConfig, known: InstalledNames) -> Iterator[ConfigError]:
    """Check the keys of a provider that core does not read against the schema of its plugin's manifest."""
    for name, section in config.settings.providers.items():
        extra = section.model_extra or {}
        plugin, schema = known.endpoints.get(name) or known.endpoints.get(ANY_ENDPOINT) or ("", {})
        if extra.get("type", plugin) != plugin:  # another plugin serves it, with keys of its own
            continue
        yield from _extra_keys(config, ("providers", name), extra, schema)


def _extra_keys(
    config: CheckedConfig, place: Path, extra: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[ConfigError]:
    """Check the plugin's own keys of a section; they may be written in snake_case."""
    written = {to_camel(key): key for key in extra}
    own = {camel: extra[key] for camel, key in written.items()}
    for misfit in schema_violations(substitute_all(own, config.environ), schema):
        path = (written.get(str(step), step) for step in misfit.path)
        yield config.error_factory.error(
            (*place, *path), misfit.problem, misfit.fix, **misfit.values, grave=True
        )


def _unusable_addresses(config: CheckedConfig) -> Iterator[ConfigError]:
    """Yield a warning for each provider whose ``baseUrl`` is no address: its plugin skips that provider."""
    for name, section in config.settings.providers.items():
        written = section.base_url or ""
        if section.enabled and written and not getattr(written, "missing", ()):
            try:
                origin_of(written)
            except UsageError as wrong:
                path: Path = ("providers", name, "baseUrl")
                yield config.error_factory.error(path, "{why}", wrong.fix, why=wrong.problem, grave=True)


def _missing_sandboxes(config: CheckedConfig, known: InstalledNames) -> Iterator[ConfigError]:
    """Yield a warning for each agent whose turns all fail, because no installed plugin provides its sandbox."""
    for place, settings in _agent_sections(config):
        wanted = settings.sandbox.backend
        there = wanted in known.sandboxes if wanted else known.sandboxes
        if settings.sandbox.mode != "off" and not there and not known.has_unlisted:
            problem = "every turn is refused: no installed plugin provides the sandbox {name}"
            if not wanted:
                problem = "every turn is refused: no installed plugin provides a sandbox"
            fix = "Install a plugin that provides it, or set sandbox.mode: off"
            yield config.error_factory.error(
                (*place, "sandbox", "mode"), problem, fix, name=wanted, grave=True
            )


def _agent_sections(config: CheckedConfig) -> Iterator[tuple[Path, AgentSettings]]:
    """Yield the path and the settings of the defaults and of each agent in the list."""
    agents = config.settings.agents
    yield ("agents", "defaults"), agents.defaults
    yield from ((("agents", "list", index), one) for index, one in enumerate(agents.list))
