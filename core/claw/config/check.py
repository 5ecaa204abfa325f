"""What no single section can see: references that must hold, and oddities worth one warning at start. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from claw.config.misfit import misfits
from claw.config.names import Path, nearest, normalise_agent_id
from claw.config.outline import ANY_ENDPOINT
from claw.config.values import Secret
from claw.config.variables import Filled, filled
from claw.errors import ConfigError

if TYPE_CHECKING:
    from claw.config.loaded import Config

_LISTS = (("allow", "allow"), ("deny", "deny"), ("alsoAllow", "also_allow"))


@dataclass(frozen=True, slots=True)
class Known:
    """What the installed plugins bring, as their manifests say.

    :param plugins: ids.
    :param tools: every tool name, core and plugins.
    :param groups: ``group:NAME`` words.
    :param schemas: plugin id → JSON Schema of ``plugins.entries.ID.config``.
    :param silent: a plugin is there that says nothing of itself, so it may bring any channel, provider or tool.
    """

    plugins: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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
        silent=any(one.manifest is None for one in there),
    )


def refusals(config: "Config") -> list[ConfigError]:
    """References inside the file that do not hold: the file is refused."""
    return [*_agents_once(config), *_agents_exist(config)]


def remarks(config: "Config") -> tuple[ConfigError, ...]:
    """What the file itself shows to be odd: keys that are empty, variables that are not set, jobs that cannot run."""
    return (
        *_unset_variables(config),
        *_secrets(config),
        *_jobs(config),
        *_owners(config),
        *_open_channels(config),
    )


def check(config: "Config", known: Known) -> tuple[ConfigError, ...]:
    """Compare the file with what is installed: sections and names that nobody supplies, and the nearest name.

    :returns: warnings; the caller shows each once.
    """
    return (*absent(config, known), *_schemas(config, known), *_tools(config, known))


def absent(config: "Config", known: Known) -> tuple[ConfigError, ...]:
    """The part of ``check`` that a start tells: sections and ids of what is not there. Of the rest, words in tool lists
    are told by ``policy.strays``, which knows every tool, and a plugin with wrong keys is set aside by ``survey``.
    """
    return (*_sections(config, known), *_plugin_names(config, known))


def _agents_once(config: "Config") -> Iterator[ConfigError]:
    seen: dict[str, str] = {}
    marked = 0
    for index, entry in enumerate(config.settings.agents.list):
        path: Path = ("agents", "list", index)
        name = normalise_agent_id(entry.id)
        if name in seen:
            yield config.teller.tell(
                (*path, "id"),
                "duplicate agent id {id}"
                if seen[name] == entry.id
                else "{id} is a duplicate of {first}: case and signs do not count",
                "Give each agent its own id",
                id=entry.id,
                first=seen[name],
            )
        seen.setdefault(name, entry.id)
        marked += entry.default
        if entry.default and marked == 2:
            yield config.teller.tell((*path, "default"), "a second agent is marked as default", "Mark one")


def _agents_exist(config: "Config") -> Iterator[ConfigError]:
    named: list[tuple[Path, str]] = [
        (("bindings", index, "agent" if "agent" in raw else "agentId"), binding.agent)
        for index, (binding, raw) in enumerate(
            zip(config.settings.bindings, config.layout.tree.get("bindings", ()), strict=False)
        )
    ]
    for path, agent in named:
        if normalise_agent_id(agent) not in (*config.agent_ids, "main"):
            yield config.teller.tell(
                path,
                "no agent is called {id}",
                "Agents: {names}",
                id=agent,
                names=", ".join(config.agent_ids),
            )


def _unset_variables(config: "Config") -> Iterator[ConfigError]:
    for path, value in _texts(filled(config.layout.tree, config.environ)):
        if isinstance(value, Filled) and value.missing:
            yield config.teller.tell(
                path,
                "the environment variable {name} is not set",
                "Set {name} before claw starts, or take the key out",
                name=value.missing[0],
            )


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _texts(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _texts(part, (*path, index))


def _secrets(config: "Config") -> Iterator[ConfigError]:
    for path, secret in _secrets_in(config.settings, config.layout.tree, ()):
        if secret.empty:
            yield config.teller.tell(
                path, "the key is empty, so it is not used", "Write a value, or take it out"
            )
        elif secret.missing and secret.is_reference:
            yield config.teller.tell(
                path,
                "the environment variable {name} is not set",
                "Set {name} before claw starts, or take the key out",
                name=secret.missing[0],
            )


def _secrets_in(value: Any, tree: Any, path: Path) -> Iterator[tuple[Path, Secret]]:
    """Every secret that the file names, with its path in the tree."""
    if isinstance(value, Secret):
        yield path, value
    elif isinstance(value, BaseModel):
        for name in value.model_fields_set & type(value).model_fields.keys():
            key = next(
                (key for key in _spellings(type(value), name) if isinstance(tree, Mapping) and key in tree),
                None,
            )
            if key is not None and isinstance(tree, Mapping):
                yield from _secrets_in(getattr(value, name), tree[key], (*path, key))
    elif isinstance(value, Mapping):
        for name, part in value.items():
            if isinstance(tree, Mapping) and name in tree:
                yield from _secrets_in(part, tree[name], (*path, name))
    elif isinstance(value, tuple) and isinstance(tree, list):
        for index, (part, below) in enumerate(zip(value, tree, strict=False)):
            yield from _secrets_in(part, below, (*path, index))


def _spellings(model: type[BaseModel], name: str) -> tuple[str, ...]:
    field_ = model.model_fields[name]
    choices = getattr(field_.validation_alias, "choices", ())
    return (*(choice for choice in choices if isinstance(choice, str)), field_.alias or name, name)


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
    )
    for path, people in lists:
        for index, person in enumerate(people):
            if ":" not in person and not person.startswith("+"):
                yield config.teller.tell(
                    (*path, index),
                    "{person} names nobody",
                    "Write channel:id, or a phone number with +",
                    person=person,
                )


def _open_channels(config: "Config") -> Iterator[ConfigError]:
    for name, channel in config.settings.channels.items():
        if channel.dm_policy == "open" and "*" not in channel.allow_from:
            yield config.teller.tell(
                ("channels", name, "allowFrom"),
                "dmPolicy is open, but the list has no star: the channel does not start",
                "Write allowFrom: ['*'] to let everybody in, or choose pairing",
            )


def _sections(config: "Config", known: Known) -> Iterator[ConfigError]:
    settings = config.settings
    providers = [
        name
        for name, section in settings.providers.items()
        if not (section.base_url and ANY_ENDPOINT in known.providers)
    ]
    groups: tuple[tuple[Path, Iterable[str], frozenset[str], str], ...] = (
        (
            ("channels",),
            settings.channels,
            known.channels,
            "no installed plugin brings a channel {name}: it stays off",
        ),
        (("providers",), providers, known.providers, "no installed plugin brings a provider {name}"),
        (("plugins", "entries"), settings.plugins.entries, known.plugins, "no plugin {name} is installed"),
    )
    for path, names, there, problem in groups:
        for name in names:
            if name not in there and not (known.silent and path != ("plugins", "entries")):
                near = nearest(name, there)
                fix = "Did you mean {near}?" if near else "Install the plugin, or take the section out"
                yield config.teller.tell((*path, name), problem, fix, name=name, near=near)


def _plugin_names(config: "Config", known: Known) -> Iterator[ConfigError]:
    plugins = config.settings.plugins
    for key, names in (("allow", plugins.allow or ()), ("deny", plugins.deny)):
        for index, name in enumerate(names):
            if name not in known.plugins:
                near = nearest(name, known.plugins)
                yield config.teller.tell(
                    ("plugins", key, index),
                    "no plugin {name} is installed",
                    "Did you mean {near}?" if near else "Install it, or take the entry out",
                    name=name,
                    near=near,
                )


def _schemas(config: "Config", known: Known) -> Iterator[ConfigError]:
    """A plugin's own keys against the schema of its manifest, without importing the plugin."""
    for name, entry in config.settings.plugins.entries.items():
        if entry.enabled and name in known.schemas:
            place: Path = ("plugins", "entries", name, "config")
            for misfit in misfits(filled(entry.config, config.environ), known.schemas[name]):
                yield config.teller.tell((*place, *misfit.path), misfit.problem, misfit.fix, **misfit.values)


def _tools(config: "Config", known: Known) -> Iterator[ConfigError]:
    """Unknown entries of allow, deny and alsoAllow; patterns are left to the ruling, which knows the run."""
    words = known.tools | known.plugins | known.groups | {"*"}
    if known.silent or not known.tools:
        return
    lower = {word.lower() for word in words}
    for path, lists in _tool_lists(config):
        for written, name in _LISTS:
            for index, word in enumerate(getattr(lists, name) or ()):
                if word.strip() and "*" not in word and word.strip().lower() not in lower:
                    near = nearest(word, words)
                    yield config.teller.tell(
                        (*path, written, index),
                        "no tool, plugin or group is called {word}",
                        "Did you mean {near}?"
                        if near
                        else "Install the plugin that brings it, or take the entry out",
                        word=word,
                        near=near,
                    )


def _tool_lists(config: "Config") -> Iterator[tuple[Path, Any]]:
    settings = config.settings
    scopes: list[tuple[Path, Any]] = [(("tools",), settings.tools)]
    scopes.append((("agents", "defaults", "tools"), settings.agents.defaults.tools))
    scopes += [
        (("agents", "list", index, "tools"), agent.tools) for index, agent in enumerate(settings.agents.list)
    ]
    for path, tools in scopes:
        if tools is None:
            continue
        yield path, tools
        yield from (((*path, "byProvider", name), lists) for name, lists in tools.by_provider.items())
        for part in ("sandbox", "subagents"):
            if (section := getattr(tools, part)) is not None:
                yield (*path, part, "tools"), section.tools
