"""Checks across sections: references that must be valid, and warnings that are shown once at start. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Protocol

from pydantic.alias_generators import to_camel

from claw.config.channels import example_unless_id
from claw.config.errors import ErrorFactory
from claw.config.models import Settings
from claw.config.paths import Layout, Path, normalise_agent_id
from claw.config.source import SubstitutedText, substitute_all
from claw.config.summary import ANY_ENDPOINT, install_hint, schema_violations
from claw.config.values import Secret
from claw.contracts.errors import ConfigError, nearest

_LISTS = (("allow", "allow"), ("deny", "deny"), ("alsoAllow", "also_allow"))


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


@dataclass(frozen=True, slots=True)
class InstalledNames:
    """Names and schemas of the installed plugins, from their manifests.

    :param plugins: ids.
    :param tools: every tool name, core and plugins.
    :param groups: ``group:NAME`` words.
    :param schemas: plugin id → JSON Schema of ``plugins.entries.ID.config``.
    :param sections: channel → JSON Schema of ``channels.NAME``.
    :param endpoints: provider → id of its plugin, and JSON Schema of ``providers.NAME``.
    :param silent: a plugin without a manifest is installed, which may register any channel, provider or tool.
    """

    plugins: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    endpoints: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    has_unlisted: bool = False


def installed_names(found: Iterable[Any], core_tools: Iterable[str], groups: Iterable[str]) -> InstalledNames:
    """Collect the names and schemas of these plugins.

    :param found: ``claw.host.manifest.Found``; one without a manifest contributes its id only.
    """
    there = tuple(one for one in found if one.fault is None)
    manifests = [one.manifest for one in there if one.manifest]
    return InstalledNames(
        plugins=frozenset(one.id for one in there),
        channels=frozenset(name for each in manifests for name in each.channels) | {"terminal"},
        providers=frozenset(line.name for each in manifests for line in each.providers),
        tools=frozenset(core_tools) | {line.name for each in manifests for line in each.tools},
        groups=frozenset(groups) | {"group:plugins"},
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
        has_unlisted=any(one.manifest is None for one in there),
    )


def reference_errors(config: CheckedConfig) -> list[ConfigError]:
    """Return an error for each invalid reference inside the file; with any of them the file is refused."""
    return [*_duplicate_agents(config), *_unknown_agents(config)]


def file_warnings(config: CheckedConfig) -> tuple[ConfigError, ...]:
    """Return warnings that need the file alone: empty keys, variables that are not set, jobs that cannot run."""
    return (
        *_unset_variables(config),
        *_invalid_owners(config),
        *_invalid_ids(config),
        *{str(why): why for _, _, why in webhooks_without_listener(config)}.values(),
        *_open_channels(config),
        *_repeated_fallbacks(config),
        *_unlisted_default(config),
        *_owners_warnings(config),
    )


def check_installed(config: CheckedConfig, known: InstalledNames) -> tuple[ConfigError, ...]:
    """Compare the file with the installed plugins: unknown sections and names, each with the nearest known name.

    :returns: warnings; the caller shows each once.
    """
    return (
        *missing_plugins(config, known),
        *_plugin_keys(config, known),
        *_channel_keys(config, known),
        *_provider_keys(config, known),
        *_unknown_tools(config, known),
    )


def missing_plugins(config: CheckedConfig, known: InstalledNames) -> tuple[ConfigError, ...]:
    """Return the part of ``check`` that is reported at start: sections and ids of plugins that are not installed. The
    words of tool lists are reported by ``policy.strays``, which knows every tool; ``survey`` quarantines a plugin with
    wrong keys.
    """
    return (*_unknown_sections(config, known), *_unknown_plugins(config, known))


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
                    path, "the environment variable {name} is not set", fix, name=name
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


def webhooks_without_listener(config: CheckedConfig) -> Iterator[tuple[str, str, ConfigError]]:
    """Yield channel, account and warning of each account in ``mode: webhook`` while no HTTP listener is configured."""
    http = config.settings.channels.get("http")
    if http is not None and http.enabled:
        return
    problem = "no message can arrive: webhooks need channels.http, which is not configured"
    for name, section in config.settings.channels.items():
        shared = (section.model_extra or {}).get("mode")
        for account in ("default", *section.accounts):
            own = section.accounts.get(account)
            written = "mode" in (own.model_extra or {}) if own else False
            mode = (own.model_extra or {})["mode"] if own and written else shared
            if mode == "webhook" and section.enabled and not (own and not own.enabled):
                key: Path = ("channels", name, *(("accounts", account) if written else ()), "mode")
                fix = "claw config set channels.http.enabled true"
                yield name, account, config.error_factory.error(key, problem, fix)


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
            yield config.error_factory.error(("channels", name, "allowFrom"), problem, fix)


def _repeated_fallbacks(config: CheckedConfig) -> Iterator[ConfigError]:
    agents = config.settings.agents
    entries = ((("agents", "list", index), one) for index, one in enumerate(agents.list))
    for place, settings in ((("agents", "defaults"), agents.defaults), *entries):
        choice = settings.model
        for index, name in enumerate(choice.fallbacks if choice else ()):
            if choice and name in (choice.primary, *choice.fallbacks[:index]):
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
        fix = "Add {{id: default}} to agents.list, or move the folder away"
        yield config.error_factory.error(("agents", "list"), problem, fix, folder=folder)


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
                yield config.error_factory.error(
                    (*place, *misfit.path), misfit.problem, misfit.fix, **misfit.values
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
        yield config.error_factory.error((*place, *path), misfit.problem, misfit.fix, **misfit.values)


def _unknown_tools(config: CheckedConfig, known: InstalledNames) -> Iterator[ConfigError]:
    """Yield unknown entries of allow, deny and alsoAllow; patterns are left to the policy, which knows the run."""
    words = known.tools | known.plugins | known.groups | {"*"}
    if known.has_unlisted or not known.tools:
        return
    lower = {word.lower() for word in words}
    problem = "there is no tool, plugin or group {name}"
    fix = "Install the plugin that provides it, or remove the entry"
    for path, lists in _tool_lists(config):
        for written, attribute in _LISTS:
            for index, word in enumerate(getattr(lists, attribute) or ()):
                if word.strip() and "*" not in word and word.strip().lower() not in lower:
                    yield from _unknown_name(config, (*path, written, index), word, words, problem, fix)


def _tool_lists(config: CheckedConfig) -> Iterator[tuple[Path, Any]]:
    agents = config.settings.agents
    scopes: list[tuple[Path, Any]] = [(("tools",), config.settings.tools)]
    scopes.append((("agents", "defaults", "tools"), agents.defaults.tools))
    scopes += ((("agents", "list", index, "tools"), agent.tools) for index, agent in enumerate(agents.list))
    for path, tools in scopes:
        if tools is None:
            continue
        yield path, tools
        yield from (((*path, "byProvider", name), lists) for name, lists in tools.by_provider.items())
        for part in ("sandbox", "subagents"):
            if (section := getattr(tools, part)) is not None:
                yield (*path, part, "tools"), section.tools
