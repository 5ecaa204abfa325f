"""Warnings about references in the config file: accounts, people, tools and plugins that a key names and nothing has."""

import re
from collections.abc import Iterable, Iterator

from claw import ClawError, ConfigError, t
from claw.runtime import BLOCKED, DISABLED, Config, InstalledPlugin, PluginState, normalise_tool_name

from claw_admin.config_checks.file_warnings import Path, agent_sections
from claw_admin.config_checks.installed_warnings import InstalledNames, unknown_name

_DEFAULT = "default"
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header (RFC 9110, 5.1)."""


def reference_warnings(
    config: Config,
    known: InstalledNames,
    states: tuple[PluginState, ...],
    found: Iterable[InstalledPlugin],
) -> tuple[ConfigError, ...]:
    """Return a warning for each reference to something that neither the file nor a plugin in use has."""
    unusable = {one.id for one in states if not one.is_usable}
    return (
        *_switched_off(config, states),
        *_suppliers(config, known, [one.found for one in states]),
        *_targets(config, known),
        *_linked_people(config, known),
        *_accounts_of_bindings(config),
        *_nested_accounts(config),
        *_settings_of_agents(config, known),
        *_headers(config),
        *_names_of_owners(config, [one for one in found if one.id not in unusable]),
    )


def _switched_off(config: Config, states: tuple[PluginState, ...]) -> Iterator[ConfigError]:
    """Yield a warning for each plugin that the file requires and switches off, and each channel of such a plugin."""
    for one in states:
        if one.required and one.state in (DISABLED, BLOCKED):
            path: Path = ("plugins", "entries", one.id, "required")
            problem = "claw does not start: plugin {id} is required, and {why}"
            fix = "{advice}, or remove required"
            yield config.sections.error(
                path, problem, fix, id=one.id, why=one.why, advice=one.fix, grave=True
            )
    for name, section in config.settings.channels.items():
        owners = [one for one in states if name in one.found.channels]
        if section.enabled and owners and all(one.state in (DISABLED, BLOCKED) for one in owners):
            problem, fix = "it has no effect: plugin {id} is {state}", "{advice}, or remove the section"
            values = {"id": owners[0].id, "state": t(owners[0].state), "advice": owners[0].fix}
            yield config.sections.error(("channels", name), problem, fix, **values)


def _suppliers(
    config: Config, known: InstalledNames, found: Iterable[InstalledPlugin]
) -> Iterator[ConfigError]:
    """Yield a warning for each tool that is assigned to a plugin which cannot supply it, so that nobody has the tool."""
    tools = {
        one.id: {normalise_tool_name(line.name) for line in one.manifest.tools}
        for one in found
        if one.manifest and (one.manifest.tools or "tool" not in one.manifest.kinds)
    }
    sections = [((), config.settings.tools), *((place, one.tools) for place, one in agent_sections(config))]
    for place, section in sections:
        for tool, plugin in section.suppliers.items() if section else ():
            path: Path = (*place, "tools", "suppliers", tool)
            problem, fix = "plugin {name} is not installed", "Install it, or remove the entry"
            for missing in unknown_name(config, path, plugin, known.plugins, problem, fix):
                missing.grave = True
                yield missing
            if plugin in tools and normalise_tool_name(tool) not in tools[plugin]:
                problem = "plugin {name} provides no tool {tool}"
                yield config.sections.error(
                    path, problem, "Remove the entry", name=plugin, tool=tool, grave=True
                )


def _targets(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    sections = [((), config.settings.tools), *((place, one.tools) for place, one in agent_sections(config))]
    for place, section in sections:
        for index, target in enumerate(section.message.targets if section else ()):
            path: Path = (*place, "tools", "message", "targets", index)
            yield from _unknown_channel(config, known, path, target)


def _linked_people(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    for name, people in config.settings.session.identity_links.items():
        if not people:
            path: Path = ("session", "identityLinks", name)
            fix = "Write the addresses of the person as channel:id, or remove it"
            yield config.sections.error(path, "it has no effect: the list is empty", fix)
        for index, person in enumerate(people):
            yield from _unknown_channel(config, known, ("session", "identityLinks", name, index), person)


def _unknown_channel(
    config: Config, known: InstalledNames, path: Path, written: str
) -> Iterator[ConfigError]:
    """Yield a warning about a text ``channel:id``, or ``channel/account:id``, that names no channel."""
    place, colon, id = written.partition(":")
    channel = place.partition("/")[0].strip().lower()
    if not (colon and channel and id.strip()):
        problem = "{text} has no effect: it names no channel and id"
        yield config.sections.error(path, problem, "Write channel:id", text=written)
    elif not known.has_unlisted:
        problem, fix = "no installed plugin provides the channel {name}, so it has no effect", "Remove it"
        yield from unknown_name(config, path, channel, known.channels, problem, fix)


def _accounts_of_bindings(config: Config) -> Iterator[ConfigError]:
    """Yield a warning for each binding to an account that its channel, or without one any channel, does not have."""
    channels = config.settings.channels
    for index, binding in enumerate(config.settings.bindings):
        account, channel = binding.match.account, binding.match.channel
        sections = [section for name, section in channels.items() if channel in (None, name)]
        names = {_DEFAULT, *(name for section in sections for name in section.accounts)}
        if account and account not in names and (sections or not channel):
            path: Path = ("bindings", index, "match", "account")
            problem = "there is no account {name}, so the binding has no effect"
            yield from unknown_name(config, path, account, names, problem, "Remove the binding")


def _nested_accounts(config: Config) -> Iterator[ConfigError]:
    for name, section in config.settings.channels.items():
        for account, part in section.accounts.items():
            if part.accounts:
                path: Path = ("channels", name, "accounts", account, "accounts")
                problem = "it has no effect: an account has no accounts"
                yield config.sections.error(path, problem, "Move them to channels.{name}.accounts", name=name)


def _settings_of_agents(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    for place, settings in agent_sections(config):
        for plugin in settings.plugins:
            problem, fix = "plugin {name} is not installed", "Install it, or remove the section"
            yield from unknown_name(config, (*place, "plugins", plugin), plugin, known.plugins, problem, fix)


def _names_of_owners(config: Config, found: list[InstalledPlugin]) -> Iterator[ConfigError]:
    """Yield what the models of plugins say of names in their keys that no plugin in use brings: ``unknown_names(plugins
    in use)`` yields path, problem, fix and values."""
    for place, value in config.owned.items():
        for path, problem, fix, values in getattr(value, "unknown_names", lambda found: ())(found):
            yield config.sections.error((*place, *path), problem, fix, **values, grave=True)


def _headers(config: Config) -> Iterator[ConfigError]:
    """Yield a warning for each header that no request can have."""
    for provider, section in config.settings.providers.items():
        for name, value in section.headers.items():
            path: Path = ("providers", provider, "headers", name)
            problem = ""
            if not _HEADER.fullmatch(name):
                problem = "this is no name of a header, so no request can be made"
            elif not _is_one_line(value):
                problem = "the value contains a line break or another control character"
            if problem:
                yield config.sections.error(path, problem, "Correct it, or remove it", grave=True)


def _is_one_line(value: object) -> bool:
    try:
        text = str(value.reveal())  # type: ignore[attr-defined]
    except ClawError:  # another warning names what is missing
        return True
    return all(one == "\t" or one.isprintable() for one in text)
