"""The plugin state under a configuration: loaded, idle, disabled, blocked, quarantined or incompatible.

Pure: it reads metadata and the plain tree of the config file, imports no plugin, and is the data of ``plugins
list``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, cast

from claw.config import summary
from claw.config.paths import Path as KeyPath, values_at
from claw.config.summary import ANY_ENDPOINT, ConfigOutline, install_hint
from claw.contracts.diagnostics import BLOCKED, DISABLED, IDLE, INCOMPATIBLE, LOADED, QUARANTINED, UNTRIED
from claw.contracts.errors import ConfigError, PluginError
from claw.host.health import NOTED, LoadFailure, files_digest
from claw.host.manifest import API_VERSION, WITHOUT_CODE, InstalledPlugin, Manifest, api_matches, providers_of
from claw.i18n import add_translations, t
from claw.policy.catalog import CORE_TOOLS, PLUGINS_GROUP, is_pattern

if TYPE_CHECKING:
    from pydantic import BaseModel

    from claw.config.loader import Config
    from claw.config.summary import OwnedModels
    from claw.contracts.tool import Tool
    from claw.policy.subjects import ToolFact

IMPORT_SECONDS = 20.0
"""Seconds that the import of a plugin's config model may take, as that of the plugin itself."""


@dataclass(frozen=True)
class PluginState:
    """The state of one plugin, and the reason.

    :param eager: its code takes part in turns from the start; a tool with a manifest waits for its first
        call.
    :param why: the use that loads it, or the reason that nothing does; for a quarantined plugin, the cause.
    :param stage: of the fault; empty when there is none.
    :param fix: the instruction that removes the cause.
    :param without_failure: of one that is quarantined for a failure that an earlier process recorded: its state without.
    :param prevented: that failure keeps processes from loading it again.
    :param faults: cause and fix of each recorded failure; ``why`` and ``fix`` join them.
    :param sound: digest of its files when it was last loaded; empty = never, as far as this home knows.
    :param graded: its grade, and the digest of its files then.
    """

    found: InstalledPlugin
    state: str
    why: str = ""
    stage: str = ""
    fix: str = ""
    eager: bool = False
    required: bool = False
    without_failure: "PluginState | None" = None
    prevented: bool = False
    faults: tuple[tuple[str, str], ...] = ()
    sound: str = ""
    graded: tuple[str, str] = ("", "")

    @property
    def grade(self) -> str:
        """The grade of its present files, as ``claw plugins grade`` found it; empty = not graded."""
        grade, digest = self.graded
        return grade if grade and digest == files_digest(self.found) else ""

    @property
    def is_untried(self) -> bool:
        """True for a third party's plugin in use that no process of this home has loaded with the files that it has."""
        if self.state != LOADED or self.found.is_first_party:
            return False
        return not self.sound or self.sound != files_digest(self.found)

    @property
    def shown(self) -> str:
        """The state for people: nobody knows yet if one that is untried loads."""
        return UNTRIED if self.is_untried else self.state

    @property
    def to_load(self) -> "PluginState":
        """The state from which a process that loads plugins starts: most failures are tried again."""
        return (None if self.prevented else self.without_failure) or self

    @property
    def id(self) -> str:
        """The plugin's id."""
        return self.found.id

    @property
    def is_usable(self) -> bool:
        """True if its code may be loaded: it is loaded or idle."""
        return self.state in (LOADED, IDLE)

    def fault_line(self) -> str:
        """Return the fault with its fix as one line for people."""
        problem = t("plugin {id}: {problem}", id=self.id, problem=self.why)
        if not self.is_usable and not self.found.rival:
            stage = t(self.stage or "find")
            problem = t("plugin {id} was disabled at {stage}: {why}", id=self.id, stage=stage, why=self.why)
        return t("{problem}. {fix}", problem=problem, fix=self.fix) if self.fix else problem

    def fault_parts(self) -> tuple[str, str, str]:
        """Return stage, cause and fix, for an error that gets no further values: braces in them stay as they
        are.
        """
        return self.stage or "find", self.why or self.state, self.fix


def decide_states(
    found: Sequence[InstalledPlugin],
    wanted: ConfigOutline,
    providers_used: Sequence[str],
    wrong: Mapping[str, ConfigError] | None = None,
) -> tuple[PluginState, ...]:
    """Decide the state of every plugin, also of one that is required and not installed.

    :param wanted: the parts of the config file that concern plugins.
    :param providers_used: the provider names that a model of the configuration refers to.
    :param wrong: plugin id → the error in its own section against its ``configSchema``.
    """
    required = {plugin for plugin, entry in wanted.entries.items() if entry.get("required") is True}
    usage = _Usage(found, wanted, providers_used)
    errors = wrong or {}
    states = [_operators_state(one, wanted, errors.get(one.id)) or usage.state_of(one) for one in found]
    absent = required - {one.id for one in found}
    for plugin in (one for one in wanted.entries if one in absent):
        fix = t("{install}, or remove plugins.entries.{id}", install=install_hint(plugin), id=plugin)
        missing = InstalledPlugin(plugin, "", "", "")
        states.append(PluginState(missing, QUARANTINED, t("it is not installed"), "find", fix))
    return tuple(with_needs([replace(one, required=one.id in required) for one in states]))


def _operators_state(
    found: InstalledPlugin, wanted: ConfigOutline, wrong: ConfigError | None
) -> PluginState | None:
    """Return the state that the operator or its own files give a plugin; None for one that may be used."""
    api, fault = found.declares.api, found.fault
    if found.rival and fault:  # the settings of its id are those of the other
        return PluginState(found, QUARANTINED, fault.problem, fault.stage, fault.fix)
    if wanted.entries.get(found.id, {}).get("enabled") is False:
        why = t("plugins.entries.{id}.enabled is false", id=found.id)
        fix = t("claw config set plugins.entries.{id}.enabled true", id=found.id)
        return PluginState(found, DISABLED, why, fix=fix)
    if found.id in wanted.deny:
        return PluginState(found, BLOCKED, t("plugins.deny names it"), fix=t("remove it from plugins.deny"))
    if wanted.allow is not None and found.id not in wanted.allow and not found.is_standard:
        fix = t("claw config set 'plugins.allow[]' {id}", id=found.id)
        return PluginState(found, BLOCKED, t("plugins.allow does not name it"), fix=fix)
    if fault:
        return PluginState(found, QUARANTINED, fault.problem, fault.stage, fault.fix)
    if not api_matches(api):
        why = t("it needs plugin API {range}; this claw has {version}", range=api, version=API_VERSION[0])
        fix = t("claw plugins update {id}, if it has a release for this claw", id=found.id)
        return PluginState(found, INCOMPATIBLE, why, "find", fix)
    if wrong:
        return PluginState(found, QUARANTINED, f"{wrong.where}: {wrong.problem}", "config", wrong.fix)
    return None


def with_failures(state: PluginState, failures: Sequence[LoadFailure], now: float) -> PluginState:
    """Quarantine a plugin that would be used and whose last load failed with the files that it has.

    One of which only a part cannot be used, or that another process goes on without, keeps its state, with the reason.
    """
    held = [one for one in failures if one.holds_for(state.found)] if state.is_usable else []
    elsewhere = next((one for one in failures if one.of_other_process), None) if state.is_usable else None
    if held:
        faults = tuple((one.why, one.advice or failure_fix(state.found, one)) for one in held)
        why, fix = ("; ".join(filter(None, dict.fromkeys(parts))) for parts in zip(*faults, strict=True))
        noted = replace(state, why=why, stage=held[0].stage, fix=fix, faults=faults)
        if held[0].kind == NOTED:
            return noted
        prevented = any(one.prevents_loading(now) for one in held)
        return replace(noted, state=QUARANTINED, eager=False, without_failure=state, prevented=prevented)
    if elsewhere:
        values = {"pid": elsewhere.run, "why": elsewhere.why}
        why = t("process {pid} runs without it, where it failed: {why}", **values)
        fix = t("restart that process; if it is the gateway: claw gateway restart")
        return replace(state, why=why, stage=elsewhere.stage, fix=fix)
    return state


def failure_fix(found: InstalledPlugin, failure: LoadFailure) -> str:
    """Return the instruction for a failure that has none of its own."""
    if failure.stage == "config":
        return t("correct {key}", key=failure.place.rpartition(": ")[2] or t("the config file"))
    fix = "update or uninstall {distribution}; it is loaded again after a day, or after: claw plugins retry {id}"
    if not failure.prevents_loading(failure.at):
        fix = "update or uninstall {distribution}, or disable it: claw config set plugins.entries.{id}.enabled false"
    return t(fix, distribution=found.distribution, id=found.id)


@dataclass(frozen=True)
class _Usage:
    """The state of plugins by use: loaded if anything in the configuration uses it, else idle."""

    found: Sequence[InstalledPlugin]
    wanted: ConfigOutline
    providers_used: Sequence[str]

    def state_of(self, plugin: InstalledPlugin) -> PluginState:
        """Return the state of a plugin that may be used."""
        manifest, wanted = plugin.manifest, self.wanted
        if manifest is None:
            why = t("it has no manifest, so it is imported at every start")
            return PluginState(plugin, LOADED, why, eager=True)
        channels = [name for name in manifest.channels if name in wanted.channels]
        reasons = [t("channel {name} is configured", name=name) for name in channels]
        reasons += [t("a model of {name} is in use", name=name) for name in self._providers_of(manifest)]
        if "sandbox" in manifest.kinds and wanted.sandboxed:
            reasons.append(t("an agent runs in a sandbox"))
        if manifest.loads_at_start:
            reasons.append(t("it is used in every turn"))
        if why := self._why_dynamic(manifest):
            reasons.append(why)
        eager, names = bool(reasons), {PLUGINS_GROUP, manifest.id, *(tool.name for tool in manifest.tools)}
        is_opted_in = bool(manifest.tools) and not names.isdisjoint(wanted.opt_ins)
        if is_opted_in or any(not tool.optional for tool in manifest.tools):
            reasons.append(t("it provides tools"))
        if reasons:
            return PluginState(plugin, LOADED, "; ".join(reasons), eager=eager)
        return PluginState(plugin, IDLE, _why_idle(manifest), fix=_enable_fix(manifest))

    def _providers_of(self, manifest: Manifest) -> list[str]:
        """Return the providers in use that a plugin serves."""
        own = {line.name for line in manifest.providers}
        served = [name for name in self.providers_used if name in own]
        if ANY_ENDPOINT in own:
            others = {line.name for line in providers_of(self.found)}
            free = (name for name in self.providers_used if name not in others)
            served += [name for name in free if name in self.wanted.providers]
        return served

    def _why_dynamic(self, manifest: Manifest) -> str:
        """Return the reason to load a plugin of kind tool that declares no tools, because they depend on its
        settings or on other plugins: the file has settings for it, names it, or names a tool that no manifest
        declares. Else empty.
        """
        if "tool" not in manifest.kinds or manifest.tools:
            return ""
        if chosen_by_file(manifest.id, self.wanted):
            return t("it is configured")
        needs_settings = (manifest.config_schema or {}).get("required")
        if needs_settings and not any(one.declares.mcp_servers for one in self.found):  # else it has no tools
            return ""
        declared = {line.name.lower() for one in self.found for line in one.declares.tools}
        undeclared = self.wanted.opt_ins - declared - {*CORE_TOOLS} - {one.id for one in self.found}
        word = min((word for word in undeclared if ":" not in word and not is_pattern(word)), default="")
        return t("an allow list includes {word}, which no manifest declares", word=word) if word else ""


def chosen_by_file(plugin: str, wanted: ConfigOutline) -> bool:
    """Return true if the file has settings for a plugin, or an allow list names it."""
    settings = wanted.entries.get(plugin, {}).get("config")
    is_configured = isinstance(settings, Mapping) and any(settings.values())
    return is_configured or not wanted.opt_ins.isdisjoint({plugin, PLUGINS_GROUP})


def _why_idle(manifest: Manifest) -> str:
    if manifest.tools:
        return t("its tools are optional and no allow list enables one")
    if manifest.channels:
        return t("channel {name} is not configured", name=[*manifest.channels])
    if manifest.providers:
        names = [line.name for line in manifest.providers if line.name != ANY_ENDPOINT]
        return t("no model of {name} is in use", name=names)
    if "tool" in manifest.kinds:
        return t("it has no settings and no allow list includes it")
    if WITHOUT_CODE & {*manifest.kinds}:
        return t("its skills and MCP servers are used without its code")
    if manifest.commands:
        return t("it is loaded when one of its commands is used")
    return t("nothing uses it") if manifest.kinds else t("its manifest lists nothing that claw uses")


def _enable_fix(manifest: Manifest) -> str:
    needs_settings = (manifest.config_schema or {}).get("required")
    has_tools = manifest.tools or ("tool" in manifest.kinds and not needs_settings)
    return t("claw config set 'tools.alsoAllow[]' {id}", id=manifest.id) if has_tools else ""


def with_needs(states: Sequence[PluginState]) -> list[PluginState]:
    """Quarantine each plugin of which one that it requires is absent or unusable; the fix for that one is the fix."""
    by_id = {one.id: one for one in states if not one.found.rival}
    return [_without_need(one, by_id) if one.is_usable else one for one in states]


def _without_need(state: PluginState, by_id: Mapping[str, PluginState]) -> PluginState:
    for need in state.found.declares.requires:
        there = by_id.get(need)
        if there is None or not there.is_usable:
            why, fix = t("it needs plugin {id}", id=need), there.fix if there else install_hint(need)
            again = state if there and there.to_load.is_usable else None
            absent = PluginState(state.found, QUARANTINED, why, "find", fix, without_failure=again)
            return replace(absent, required=state.required)
    return state


def choose_default_model(
    found: Sequence[InstalledPlugin], wanted: ConfigOutline, environ: Mapping[str, str]
) -> str:
    """Return the default model when the configuration names none: of the first provider with a key, else of
    one that needs none (``fallback``). Empty when there is neither.

    A provider counts when the environment holds what it needs, or its section holds a key or a ``baseUrl``
    and names a ``defaultModel``.
    """
    off = {id for id, entry in wanted.entries.items() if entry.get("enabled") is False} | {*wanted.deny}
    declared = [*providers_of(one for one in found if one.id not in off)]
    for name, section in wanted.provider_sections.items():
        own = (line.default_model for line in providers_of(found) if line.name == name)
        if model := section.get("defaultModel") or section.get("default_model") or next(own, ""):
            return f"{name}/{model}"
    fallback = next((line for line in declared if line.fallback), None)
    first = next((line for line in declared if line.ready(environ)), fallback)
    return f"{first.name}/{first.default_model}" if first else ""


def require_plugins(plugin_states: Sequence[PluginState]) -> None:
    """Raise if a plugin that the file requires is not usable.

    :raises PluginError: it is not installed, or is quarantined; with cause and fix.
    """
    for one in plugin_states:
        if one.required and not one.to_load.is_usable:
            stage, problem, fix = one.fault_parts()
            raise PluginError(one.id, stage, "is required, and {why}", "{advice}", why=problem, advice=fix)


def config_key_errors(config: "Config", plugin_states: Sequence[PluginState]) -> list[ConfigError]:
    """Return an error for each key of the file that has no effect because no plugin that owns it is in use.

    A key whose value asks for nothing (empty, ``false``, ``off``, ``enabled: false``) needs no owner, nor
    do the keys of a quarantined channel: they concern that channel alone, which is reported by itself.

    :param plugin_states: a plugin names its keys in its manifest (``configKeys``); of several owners one is enough.
    :returns: errors in the order of the file; the fix names the package to install, or the command that enables it.
    """
    owners: dict[str, list[PluginState]] = {}
    for one in plugin_states:
        for key in one.found.declares.config_keys:
            owners.setdefault(key, []).append(one)
    errors = []
    for key in dict.fromkeys((*owners, *summary.plugins_that_bring("configKeys"))):
        there = owners.get(key, [])
        if not any(one.is_usable or (one.found.channels and one.state == QUARANTINED) for one in there):
            values = values_at(config.layout.tree, key)
            asking = (path for path, value in values if not summary.asks_for_nothing(value))
            errors += [_ownerless(config, path, there) for path in asking]
    return sorted(errors, key=lambda error: error.line or 0)


def _ownerless(config: "Config", path: KeyPath, owners: Sequence[PluginState]) -> ConfigError:
    if not owners:
        return config.sections.not_installed(path)
    owner = owners[0]
    fix = "{command}, or remove the key" if owner.state in (DISABLED, BLOCKED) else "{command}"
    problem, fix = "it has no effect: plugin {id} is {state}", fix if owner.fix else "Remove the key"
    values = {"id": owner.id, "state": t(owner.state), "command": owner.fix}
    return config.sections.error(path, problem, fix, **values)


def owned_models(plugin_states: Sequence[PluginState], seconds: float = IMPORT_SECONDS) -> "OwnedModels":
    """Return the keys that plugins own, each with the function that imports its model.

    :param plugin_states: code of a plugin that is not in use is not imported: nothing checks its keys, which
        :func:`config_key_errors` refuses.
    :param seconds: how long an import may take.
    """
    models: dict[str, Callable[[], type[BaseModel]] | None] = {}
    for one in plugin_states:
        models |= dict.fromkeys(key for key in one.found.declares.config_keys if key not in models)
        if one.to_load.is_usable:
            named = one.found.declares.config_models.items()
            models |= {key: partial(_import_model, one.found, key, name, seconds) for key, name in named}
    return models


def _import_model(found: InstalledPlugin, key: str, name: str, seconds: float) -> "type[BaseModel]":
    """Import the model of a key.

    :raises ConfigError: it cannot be imported, or is outside of the plugin's package.
    """
    from claw.host.isolation import describe_exception, run_bounded  # a list of plugins needs neither,
    from claw.host.worker import is_own_exit  # nor asyncio

    module, _, attribute = name.partition(":")
    try:
        if module.partition(".")[0] != found.package.partition(".")[0]:
            raise ImportError(f"{module} is not in its package {found.package}")
        add_translations(found.package)
        model: type[BaseModel] = getattr(run_bounded(partial(import_module, module), seconds), attribute)
        return model
    except BaseException as why:
        if is_own_exit(why):
            raise
        problem = "its plugin {id} cannot check it: {why}"
        fix = "Install {package} again, or disable the plugin and remove the key"
        raise ConfigError(
            key, problem, fix, id=found.id, package=found.distribution, why=describe_exception(why)
        ) from why


def declared_tools(
    plugin_states: Sequence[PluginState], suppliers: Mapping[str, str]
) -> "tuple[ToolFact, ...]":
    """Return the tools that every usable plugin declares in its manifest; core tools first, as in an app.

    :param suppliers: ``tools.suppliers`` of the file.
    """
    # It imports the message types, which ``plugins list`` does not need. A line has each field that it reads of a tool.
    from claw.policy.subjects import tool_fact

    facts = [
        tool_fact(cast("Tool", line), one.id, suppliers, first_party=one.found.is_first_party)
        for one in plugin_states
        if one.is_usable
        for line in one.found.declares.tools
    ]
    return tuple(sorted(facts, key=lambda fact: fact.plugin is not None))
