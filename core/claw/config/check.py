"""What no single section can see: references that must hold, and oddities worth one warning at start. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from claw.config.channels import like_an_id
from claw.config.misfit import misfits
from claw.config.names import Path, nearest, normalise_agent_id
from claw.config.outline import ANY_ENDPOINT
from claw.config.values import Secret
from claw.config.variables import Filled, filled
from claw.errors import ConfigError

if TYPE_CHECKING:
    from claw.config.loaded import Config

_PATTERN = frozenset("*?[")
_LISTS = (("allow", "allow"), ("deny", "deny"), ("alsoAllow", "also_allow"))


@dataclass(frozen=True, slots=True)
class Known:
    """What the installed plugins bring, as their manifests say.

    :param plugins: ids.
    :param tools: every tool name, core and plugins.
    :param groups: ``group:NAME`` words.
    :param schemas: plugin id → JSON Schema of ``plugins.entries.ID.config``.
    :param sections: channel → JSON Schema of ``channels.NAME``.
    :param endpoints: provider → id of its plugin, and JSON Schema of ``providers.NAME``.
    :param silent: a plugin is there that says nothing of itself, so it may bring any channel, provider or tool.
    """

    plugins: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    endpoints: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    silent: bool = False


def known_of(found: Iterable[Any], core_tools: Iterable[str], groups: Iterable[str]) -> Known:
    """What is known when these plugins are installed.

    :param found: ``claw.manifest.Found``; one without a manifest is known by its id alone.
    """
    there = tuple(one for one in found if one.fault is None)
    manifests = [one.manifest for one in there if one.manifest]
    return Known(
        plugins=frozenset(one.id for one in there),
        channels=frozenset(name for each in manifests for name in each.channels) | {"terminal"},
        providers=frozenset(line.name for each in manifests for line in each.providers) | {"offline"},
        tools=frozenset(core_tools) | {line.name for each in manifests for line in each.tools},
        groups=frozenset(groups) | {"group:plugins"},
        schemas={
            each.id: each.config_schema for each in manifests if each.config_schema and each.keeps_own_section
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
        silent=any(one.manifest is None for one in there),
    )


def refusals(config: "Config") -> list[ConfigError]:
    """References inside the file that do not hold: the file is refused."""
    return [*_agents_once(config), *_agents_exist(config)]


def remarks(config: "Config") -> tuple[ConfigError, ...]:
    """What the file itself shows to be odd: keys that are empty, variables that are not set, jobs that cannot run."""
    return (
        *_unset_variables(config),
        *_jobs(config),
        *_owners(config),
        *_named(config),
        *{str(why): why for _, _, why in unheard(config)}.values(),
        *_open_channels(config),
        *_caps_of_nobody(config),
    )


def check(config: "Config", known: Known) -> tuple[ConfigError, ...]:
    """Compare the file with what is installed: sections and names that nobody supplies, and the nearest name.

    :returns: warnings; the caller shows each once.
    """
    return (
        *absent(config, known),
        *_schemas(config, known),
        *_own_keys(config, known),
        *_endpoint_keys(config, known),
        *_tools(config, known),
    )


def absent(config: "Config", known: Known) -> tuple[ConfigError, ...]:
    """The part of ``check`` that a start tells: sections and ids of what is not there. Of the rest, words in tool lists
    are told by ``policy.strays``, which knows every tool, and a plugin with wrong keys is set aside by ``survey``.
    """
    return (*_sections(config, known), *_plugin_names(config, known))


def _agents_once(config: "Config") -> Iterator[ConfigError]:
    tell, seen = config.teller.tell, dict[str, str]()
    for index, entry in enumerate(config.settings.agents.list):
        name = normalise_agent_id(entry.id)
        if first := seen.get(name):
            same, alike = (
                "duplicate agent id {id}",
                "{id} is a duplicate of {first}: case and signs do not count",
            )
            problem = same if first == entry.id else alike
            at: Path = ("agents", "list", index, "id")
            yield tell(at, problem, "Give each agent its own id", id=entry.id, first=first)
        seen.setdefault(name, entry.id)
    for index in [index for index, entry in enumerate(config.settings.agents.list) if entry.default][1:2]:
        yield tell(("agents", "list", index, "default"), "a second agent is marked as default", "Mark one")


def _agents_exist(config: "Config") -> Iterator[ConfigError]:
    written = config.layout.tree.get("bindings", ())
    for index, (binding, raw) in enumerate(zip(config.settings.bindings, written, strict=False)):
        if normalise_agent_id(binding.agent) not in (*config.agent_ids, "main"):
            path: Path = ("bindings", index, "agent" if "agent" in raw else "agentId")
            names = ", ".join(config.agent_ids)
            yield config.teller.tell(
                path, "no agent is called {id}", "Agents: {names}", id=binding.agent, names=names
            )


def _unset_variables(config: "Config") -> Iterator[ConfigError]:
    """Texts and secrets with a variable behind them that is not there, and secrets that are empty."""
    settings = config.settings.model_dump(by_alias=True, exclude_unset=True)
    secrets = ((path, leaf) for path, leaf in _leaves(settings) if isinstance(leaf, Secret))
    for path, leaf in (*_leaves(filled(config.layout.tree, config.environ)), *secrets):
        if isinstance(leaf, Secret) and leaf.empty:
            yield config.teller.tell(
                path, "the key is empty, so it is not used", "Write a value, or take it out"
            )
        elif (isinstance(leaf, Secret) and leaf.is_reference) or isinstance(leaf, Filled):
            for name in leaf.missing[:1]:
                fix = "Set {name} before claw starts, or take the key out"
                yield config.teller.tell(path, "the environment variable {name} is not set", fix, name=name)


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Everything in a tree that is neither mapping nor list, with its path."""
    if isinstance(value, Mapping | list | tuple):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _leaves(part, (*path, key))
    else:
        yield path, value


def _jobs(config: "Config") -> Iterator[ConfigError]:
    for index, job in enumerate(config.settings.cron.jobs):
        if job.schedule is not None and not job.schedule_is_sound:
            yield config.teller.tell(
                ("cron", "jobs", index, "schedule"),
                "a schedule has five fields, and this one does not: the job is disabled",
                "Write minute hour day month weekday, such as: 0 9 * * 1-5",
            )


def _owners(config: "Config") -> Iterator[ConfigError]:
    settings = config.settings
    lists: tuple[tuple[Path, tuple[str, ...]], ...] = (
        (("owners",), settings.owners),
        (("agents", "defaults", "identity", "ownerNumbers"), settings.agents.defaults.identity.owner_numbers),
        (("approvals", "approvers"), settings.approvals.approvers),
    )
    for path, people in lists:
        for index, person in enumerate(people):
            if ":" not in person and not person.startswith("+"):
                fix = "Write channel:id, or a phone number with +"
                yield config.teller.tell((*path, index), "{person} names nobody", fix, person=person)
            else:
                yield from _no_id(config, (*path, index), person.partition(":")[0].strip().lower(), person)


def unheard(config: "Config") -> Iterator[tuple[str, str, ConfigError]]:
    """Accounts whose service calls us (``mode: webhook``), where no listener takes the calls: channel, account, why."""
    http = config.settings.channels.get("http")
    if http is not None and http.enabled:
        return
    problem = "nothing can arrive: webhooks come through channels.http, and that is not there"
    for name, section in config.settings.channels.items():
        shared = (section.model_extra or {}).get("mode")
        for account in ("default", *section.accounts):
            own = section.accounts.get(account)
            written = "mode" in (own.model_extra or {}) if own else False
            mode = (own.model_extra or {})["mode"] if own and written else shared
            if mode == "webhook" and section.enabled and not (own and not own.enabled):
                key: Path = ("channels", name, *(("accounts", account) if written else ()), "mode")
                fix = "claw config set channels.http.enabled true"
                yield name, account, config.teller.tell(key, problem, fix)


def _named(config: "Config") -> Iterator[ConfigError]:
    """Lists of people and groups with a name in them, where the service tells ids."""
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
                    yield from _no_id(config, (*place, *at, index), name, person)
            for id in part.groups:
                if id != "*" and (like := like_an_id(name, id, of_group=True)):
                    problem = "{id} is no id of a group, so it admits none: {channel} knows groups by ids such as {like}"
                    fix = "Write the id of the group, or '*' for all of them"
                    yield config.teller.tell(
                        (*place, "groups", id), problem, fix, id=id, channel=name, like=like
                    )


def _no_id(config: "Config", path: Path, channel: str, person: str) -> Iterator[ConfigError]:
    written = person.strip()
    head, colon, rest = written.partition(":")
    id = rest.strip() if colon and head.strip().lower() == channel else written
    if id not in ("", "*") and not id.startswith("+") and (like := like_an_id(channel, id)):
        problem = "{id} is no stable id, so it is nobody: {channel} knows people by ids such as {like}"
        fix = "Let them write to the bot: claw pairing list shows the id"
        yield config.teller.tell(path, problem, fix, id=id, channel=channel, like=like)


def _open_channels(config: "Config") -> Iterator[ConfigError]:
    for name, channel in config.settings.channels.items():
        if channel.dm_policy == "open" and "*" not in channel.allow_from:
            problem = "dmPolicy is open, but the list has no star: the channel does not start"
            fix = "Write allowFrom: ['*'] to let everybody in, or choose pairing"
            yield config.teller.tell(("channels", name, "allowFrom"), problem, fix)


def _caps_of_nobody(config: "Config") -> Iterator[ConfigError]:
    """Caps for an agent that is not there, which guard nothing. A pattern may be meant for agents to come."""
    for name, budget in config.settings.budgets.items():
        wanted = budget.agent or ""
        if wanted and not _PATTERN.intersection(wanted) and wanted not in config.agent_ids:
            yield config.teller.tell(
                ("budgets", name, "agent"), "no agent is called {id}, so this budget guards nothing",
                "Agents: {names}", id=wanted, names=", ".join(config.agent_ids),
            )  # fmt: skip


def _sections(config: "Config", known: Known) -> Iterator[ConfigError]:
    settings, fix = (
        config.settings,
        "Install its plugin (claw plugins install claw-{name}), or take the section out",
    )
    if not known.silent:
        problem = "no installed plugin brings a channel {name}: it stays off"
        for name in settings.channels:
            yield from _absent(config, ("channels", name), name, known.channels, problem, fix)
        for name, section in settings.providers.items():
            if not (section.base_url and ANY_ENDPOINT in known.providers):
                problem = "no installed plugin brings a provider {name}"
                yield from _absent(config, ("providers", name), name, known.providers, problem, fix)
    for name in settings.plugins.entries:
        path: Path = ("plugins", "entries", name)
        yield from _absent(config, path, name, known.plugins, "no plugin {name} is installed", fix)


def _absent(
    config: "Config", path: Path, name: str, there: Iterable[str], problem: str, fix: str
) -> Iterator[ConfigError]:
    """A word of the file that is none of those ``there``; the nearest one is a better fix than ``fix``."""
    if name not in there:
        near = nearest(name, there)
        yield config.teller.tell(path, problem, "Did you mean {near}?" if near else fix, name=name, near=near)


def _plugin_names(config: "Config", known: Known) -> Iterator[ConfigError]:
    plugins = config.settings.plugins
    fix = "Install it, or take the entry out"
    for key, names in (("allow", plugins.allow or ()), ("deny", plugins.deny)):
        for index, name in enumerate(names):
            path: Path = ("plugins", key, index)
            yield from _absent(config, path, name, known.plugins, "no plugin {name} is installed", fix)


def _schemas(config: "Config", known: Known) -> Iterator[ConfigError]:
    """A plugin's own keys against the schema of its manifest, without importing the plugin."""
    for name, entry in config.settings.plugins.entries.items():
        if entry.enabled and name in known.schemas:
            place: Path = ("plugins", "entries", name, "config")
            for misfit in misfits(filled(entry.config, config.environ), known.schemas[name]):
                yield config.teller.tell((*place, *misfit.path), misfit.problem, misfit.fix, **misfit.values)


def _own_keys(config: "Config", known: Known) -> Iterator[ConfigError]:
    """A channel's keys, beside those that core reads of every channel, against the schema of its manifest."""
    for name, section in config.settings.channels.items():
        for path, part in ((), section), *((("accounts", of), one) for of, one in section.accounts.items()):
            schema = known.sections.get(name, {})
            yield from _extra_keys(config, ("channels", name, *path), part.model_extra or {}, schema)


def _endpoint_keys(config: "Config", known: Known) -> Iterator[ConfigError]:
    """A provider's keys, beside those that core reads of every one, against the schema of its plugin's manifest."""
    for name, section in config.settings.providers.items():
        extra = section.model_extra or {}
        plugin, schema = known.endpoints.get(name) or known.endpoints.get(ANY_ENDPOINT) or ("", {})
        if extra.get("type", plugin) != plugin:  # it is left to another plugin, whose keys are its own
            continue
        yield from _extra_keys(config, ("providers", name), extra, schema)


def _extra_keys(
    config: "Config", place: Path, extra: Mapping[str, Any], schema: Mapping[str, Any]
) -> Iterator[ConfigError]:
    """The keys of a section that are its plugin's; they may be written in snake_case."""
    written = {to_camel(key): key for key in extra}
    own = {camel: extra[key] for camel, key in written.items()}
    for misfit in misfits(filled(own, config.environ), schema):
        path = (written.get(str(step), step) for step in misfit.path)
        yield config.teller.tell((*place, *path), misfit.problem, misfit.fix, **misfit.values)


def _tools(config: "Config", known: Known) -> Iterator[ConfigError]:
    """Unknown entries of allow, deny and alsoAllow; patterns are left to the ruling, which knows the run."""
    words = known.tools | known.plugins | known.groups | {"*"}
    if known.silent or not known.tools:
        return
    lower = {word.lower() for word in words}
    problem = "no tool, plugin or group is called {name}"
    fix = "Install the plugin that brings it, or take the entry out"
    for path, lists in _tool_lists(config):
        for written, attribute in _LISTS:
            for index, word in enumerate(getattr(lists, attribute) or ()):
                if word.strip() and "*" not in word and word.strip().lower() not in lower:
                    yield from _absent(config, (*path, written, index), word, words, problem, fix)


def _tool_lists(config: "Config") -> Iterator[tuple[Path, Any]]:
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
