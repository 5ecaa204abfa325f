"""Warnings about the config file beside the installed plugins: unknown names, keys against the schemas of manifests."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from claw import ConfigError, UsageError, nearest
from claw.runtime import (
    ANY_ENDPOINT,
    TERMINAL,
    Config,
    InstalledPlugin,
    install_hint,
    origin_of,
    package_of,
    schema_violations,
    substitute_all,
    value_at,
)
from pydantic.alias_generators import to_camel

from claw_admin.config_checks.file_warnings import Path, agent_sections, people_lists


@dataclass(frozen=True, slots=True)
class InstalledNames:
    """Names and schemas of the installed plugins, from their manifests.

    :param plugins: ids.
    :param tools: those that manifests list.
    :param sandboxes: back ends for ``sandbox.mode``.
    :param schemas: plugin id → JSON Schema of ``plugins.entries.ID.config``.
    :param sections: channel → JSON Schema of ``channels.NAME``.
    :param unset: ids of plugins whose manifest declares no settings at all.
    :param endpoints: provider → id of its plugin, and JSON Schema of ``providers.NAME``.
    :param has_unlisted: a plugin without a manifest is installed, which may register any channel, provider or tool.
    """

    plugins: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    sandboxes: frozenset[str] = frozenset()
    schemas: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unset: frozenset[str] = frozenset()
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    endpoints: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    has_unlisted: bool = False


def installed_names(found: Iterable[InstalledPlugin]) -> InstalledNames:
    """Collect the names and schemas of these plugins.

    :param found: one without a manifest contributes its id only.
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
        unset=frozenset(each.id for each in manifests if each.config_schema is None),
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


def check_installed(config: Config, known: InstalledNames) -> tuple[ConfigError, ...]:
    """Compare the file with the installed plugins: unknown sections and names, each with the nearest known name.

    The words of tool lists are judged by ``config_checks.tool_lists``, which knows every tool.

    :returns: warnings; the caller shows each once.
    """
    return (
        *_unknown_sections(config, known),
        *_unknown_plugins(config, known),
        *(error for _, error in _misfits(config, known)),
        *_undeclared_keys(config, known),
        *_providers_of_tools(config, known),
        *_people_of_channels(config, known),
        *_unusable_addresses(config),
        *_missing_sandboxes(config, known),
    )


def refuse_misfits(place: str, config: Config, known: InstalledNames) -> None:
    """Check the values at or below a dotted key, as written, against the schemas of manifests.

    Keys that are only missing are no obstacle: a file is written step by step.

    :raises ConfigError: one does not fit.
    """
    for path, error in _misfits(config, known):
        is_below = error.key == place or error.key.startswith((f"{place}.", f"{place}["))
        if is_below and value_at(config.layout.tree, path, _MISSING) is not _MISSING:
            raise error


_MISSING: Any = object()
_Misfits = Iterator[tuple[Path, ConfigError]]


def _misfits(config: Config, known: InstalledNames) -> _Misfits:
    """Yield the path and the error of each key that does not fit the schema of its plugin's manifest."""
    yield from _plugin_keys(config, known)
    yield from _channel_keys(config, known)
    yield from _provider_keys(config, known)


def _unknown_sections(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    settings, fix = config.settings, "To use it: {install}. Else remove the section"
    if not known.has_unlisted:
        problem = "no installed plugin provides the channel {name}, so it stays off"
        for name in settings.channels:
            yield from unknown_name(config, ("channels", name), name, known.channels, problem, fix)
        for name, section in settings.providers.items():
            if not (section.base_url and ANY_ENDPOINT in known.providers):
                problem = "no installed plugin provides {name} as a model provider"
                own = "For a service of your own, write its baseUrl. Else remove the section"
                own = own if ANY_ENDPOINT in known.providers and not package_of(name) else fix
                yield from unknown_name(config, ("providers", name), name, known.providers, problem, own)
    for name in settings.plugins.entries:
        path: Path = ("plugins", "entries", name)
        for missing in unknown_name(config, path, name, known.plugins, "plugin {name} is not installed", fix):
            missing.grave = settings.plugins.entries[name].required  # claw does not start without it
            yield missing


def unknown_name(
    config: Config, path: Path, name: str, there: Iterable[str], problem: str, fix: str
) -> Iterator[ConfigError]:
    """Yield a warning if ``name`` is not in ``there``. A suggestion of the nearest one takes precedence over ``fix``."""
    if name not in there:
        near, install = nearest(name, there), install_hint(name)
        fix = "Did you mean {near}?" if near else fix
        yield config.sections.error(path, problem, fix, name=name, near=near, install=install)


def _unknown_plugins(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    plugins = config.settings.plugins
    fix = "Install it, or remove the entry"
    for key, names in (("allow", plugins.allow or ()), ("deny", plugins.deny)):
        for index, name in enumerate(names):
            path: Path = ("plugins", key, index)
            yield from unknown_name(config, path, name, known.plugins, "plugin {name} is not installed", fix)


def _plugin_keys(config: Config, known: InstalledNames) -> _Misfits:
    """Check a plugin's own keys against the schema of its manifest, without importing the plugin."""
    for name, entry in config.settings.plugins.entries.items():
        if entry.enabled and name in known.schemas:
            place: Path = ("plugins", "entries", name, "config")
            for misfit in schema_violations(
                substitute_all(entry.config, config.environ), known.schemas[name]
            ):
                path = (*place, *misfit.path)
                yield (
                    path,
                    config.sections.error(path, misfit.problem, misfit.fix, **misfit.values, grave=True),
                )


def _undeclared_keys(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    """Yield a warning for each key of a plugin whose manifest declares no settings."""
    for name, entry in config.settings.plugins.entries.items():
        for key in entry.config if name in known.unset else ():
            path: Path = ("plugins", "entries", name, "config", key)
            problem = "plugin {name} has no settings: its manifest declares none"
            yield config.sections.error(path, problem, "Remove it", name=name)


def _providers_of_tools(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    """Yield a warning for each key of ``tools.byProvider`` that is a pattern, or whose provider neither the file nor a
    plugin has.
    """
    there = {name.lower() for name in (*known.providers, *config.settings.providers)}
    problem = "there is no provider {name}, so it has no effect"
    sections = [((), config.settings.tools), *((place, one.tools) for place, one in agent_sections(config))]
    for place, tools in sections:
        for written in tools.by_provider if tools else ():
            name, slash, model = (part.strip() for part in written.lower().partition("/"))
            path: Path = (*place, "tools", "byProvider", written)
            if "*" in written or (slash and not model):
                why = "it has no effect: patterns are not matched here"
                yield config.sections.error(path, why, "Write a provider, or provider/model", grave=True)
            elif not known.has_unlisted:
                fix = "To use it: {install}. Else remove the section"
                yield from unknown_name(config, path, name, there, problem, fix)


def _people_of_channels(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    """Yield a warning for each owner or approver on a channel that no installed plugin provides."""
    there = {TERMINAL, *known.channels}
    problem, fix = (
        "no installed plugin provides the channel {name}, so it names nobody",
        "Correct or remove it",
    )
    for place, people in (*people_lists(config.settings), *people_lists(config.owned)):
        for index, person in enumerate(people):
            name = person.partition(":")[0].strip().lower()
            if name and not person.startswith("+") and ":" in person and not known.has_unlisted:
                yield from unknown_name(config, (*place, index), name, there, problem, fix)


def _channel_keys(config: Config, known: InstalledNames) -> _Misfits:
    """Check the keys of a channel that core does not read against the schema of the plugin's manifest."""
    for name, section in config.settings.channels.items():
        for path, part in ((), section), *((("accounts", of), one) for of, one in section.accounts.items()):
            schema, place = known.sections.get(name, {}), ("channels", name, *path)
            yield from _extra_keys(config, place, part.model_extra or {}, schema)
            names = sorted(_group_keys(schema))
            for id, group in part.groups.items() if names else ():
                for key in group.model_extra or {}:
                    near = nearest(to_camel(key), names)
                    fix = "Did you mean {near}?" if near else "Known keys here: {names}"
                    values = {"near": near, "names": [*names]}
                    wrong = (*place, "groups", id, key)
                    yield wrong, config.sections.error(wrong, "is not a known key", fix, **values)


def _group_keys(schema: Any) -> frozenset[str]:
    """Return the keys of one group in the schema of a channel; empty when it does not describe groups."""
    groups = schema.get("properties", {}).get("groups", {})
    forms = [form.get("additionalProperties") for form in (groups, *groups.get("anyOf", ()))]
    return frozenset(key for form in forms if isinstance(form, Mapping) for key in form.get("properties", ()))


def _provider_keys(config: Config, known: InstalledNames) -> _Misfits:
    """Check the keys of a provider that core does not read against the schema of its plugin's manifest."""
    for name, section in config.settings.providers.items():
        extra = section.model_extra or {}
        plugin, schema = known.endpoints.get(name) or known.endpoints.get(ANY_ENDPOINT) or ("", {})
        if isinstance(kind := extra.get("type"), str) and not known.has_unlisted:
            problem, fix = (
                "no installed plugin serves providers of the type {name}",
                "Correct it, or remove the key",
            )
            kinds = {of for of, _ in known.endpoints.values()}
            place: Path = ("providers", name, "type")
            for missing in unknown_name(config, place, kind, kinds, problem, fix):
                missing.grave = True
                yield place, missing
        if extra.get("type", plugin) != plugin:  # another plugin serves it, with keys of its own
            continue
        yield from _extra_keys(config, ("providers", name), extra, schema)


def _extra_keys(config: Config, place: Path, extra: Mapping[str, Any], schema: Mapping[str, Any]) -> _Misfits:
    """Check the plugin's own keys of a section; they may be written in snake_case."""
    written = {to_camel(key): key for key in extra}
    own = {camel: extra[key] for camel, key in written.items()}
    for misfit in schema_violations(substitute_all(own, config.environ), schema):
        path = (*place, *(written.get(str(step), step) for step in misfit.path))
        yield path, config.sections.error(path, misfit.problem, misfit.fix, **misfit.values, grave=True)


_ENDPOINTS = ("/chat/completions", "/responses", "/messages", "/completions")
"""The paths below ``baseUrl`` that requests go to."""


def _unusable_addresses(config: Config) -> Iterator[ConfigError]:
    """Yield a warning for each provider whose ``baseUrl`` is no address: its plugin skips that provider."""
    for name, section in config.settings.providers.items():
        written = section.base_url or ""
        if section.enabled and written and not getattr(written, "missing", ()):
            path: Path = ("providers", name, "baseUrl")
            try:
                origin_of(written)
            except UsageError as wrong:
                yield config.sections.error(path, "{why}", wrong.fix, why=wrong.problem, grave=True)
                continue
            address, mark, _ = written.partition("#" if "?" not in written else "?")
            if mark:
                problem, fix = "what follows {mark} is not sent", "Remove it"
                yield config.sections.error(path, problem, fix, mark=mark, grave=True)
            elif end := next((end for end in _ENDPOINTS if address.rstrip("/").endswith(end)), ""):
                problem = "the address ends with {end}, which claw adds to it"
                yield config.sections.error(path, problem, "Remove {end}", end=end, grave=True)


def _missing_sandboxes(config: Config, known: InstalledNames) -> Iterator[ConfigError]:
    """Yield a warning for each agent whose turns all fail, because no installed plugin provides its sandbox."""
    for place, settings in agent_sections(config):
        wanted, path = settings.sandbox.backend, (*place, "sandbox", "backend")
        there = wanted in known.sandboxes if wanted else known.sandboxes
        if settings.sandbox.mode == "off" and wanted and not known.has_unlisted:
            problem, fix = "no installed plugin provides the sandbox {name}", "Install it, or remove the key"
            yield from unknown_name(config, path, wanted, known.sandboxes, problem, fix)
        elif settings.sandbox.mode != "off" and not there and not known.has_unlisted:
            problem = "every turn is refused: no installed plugin provides the sandbox {name}"
            if not wanted:
                problem = "every turn is refused: no installed plugin provides a sandbox"
            fix = "Install a plugin that provides it, or set sandbox.mode: off"
            yield config.sections.error((*place, "sandbox", "mode"), problem, fix, name=wanted, grave=True)
