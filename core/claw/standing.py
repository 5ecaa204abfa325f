"""How an installed plugin stands under a configuration: loaded, idle, disabled, blocked, quarantined or incompatible.

Pure: it looks at metadata and at the plain tree of the file, imports nothing, and is what ``plugins list`` prints.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from claw.catalog import CORE_TOOLS, PLUGINS_GROUP, is_pattern
from claw.config.outline import ANY_ENDPOINT, Wanted
from claw.errors import ConfigError, PluginError
from claw.manifest import API_VERSION, Found, Manifest, fits, providers_of
from claw.words import say

LOADED, IDLE, DISABLED, BLOCKED = "loaded", "idle", "disabled", "blocked"
QUARANTINED, INCOMPATIBLE = "quarantined", "incompatible"


@dataclass(frozen=True)
class Standing:
    """One plugin's state, and why.

    :param eager: its code takes part in turns from the start; a tool with a manifest waits for its first call.
    :param why: what uses it, or why nothing does; for a plugin set aside, the cause.
    :param stage: of the fault; empty when there is none.
    :param mend: what to do.
    """

    found: Found
    state: str
    why: str = ""
    stage: str = ""
    mend: str = ""
    eager: bool = False
    required: bool = False

    @property
    def id(self) -> str:
        """The plugin's id."""
        return self.found.id

    def fault_parts(self) -> tuple[str, str, str]:
        """Stage, cause and mend, for an error that names it without further values: so braces stay as they are."""
        return self.stage or "find", self.why or self.state, self.mend


def judge(
    found: Sequence[Found],
    wanted: Wanted,
    providers_used: Sequence[str],
    wrong: Mapping[str, ConfigError] | None = None,
) -> tuple[Standing, ...]:
    """Rule on every plugin, also on one that is required and not installed.

    :param wanted: what the file asks for.
    :param providers_used: the provider names that a model of the configuration refers to.
    :param wrong: plugin id → what does not fit its ``configSchema`` in its own section.
    """
    ids = {one.id for one in found}
    required = {plugin for plugin, entry in wanted.entries.items() if entry.get("required") is True}
    standings = [_configured(_one(one, wanted, providers_used, found), wrong or {}) for one in found]
    standings = [replace(one, required=True) if one.id in required else one for one in standings]
    usable = {standing.id for standing in standings if standing.state in (LOADED, IDLE)}
    mends = {standing.id: standing.mend for standing in standings}
    standings = [_with_needs(standing, usable, mends) for standing in standings]
    for plugin in wanted.entries:
        if plugin in required - ids:
            nobody = Found(plugin, "", "", "")
            why = say("it is not installed")
            mend = say("claw plugins install claw-{id}, or remove plugins.entries.{id}", id=plugin)
            standings.append(Standing(nobody, QUARANTINED, why, "find", mend, required=True))
    return tuple(standings)


def _one(found: Found, wanted: Wanted, providers_used: Sequence[str], all_found: Sequence[Found]) -> Standing:
    if wanted.entries.get(found.id, {}).get("enabled") is False:
        why = say("plugins.entries.{id}.enabled is false", id=found.id)
        mend = say("claw config set plugins.entries.{id}.enabled true", id=found.id)
        return Standing(found, DISABLED, why, mend=mend)
    if found.id in wanted.deny:
        return Standing(found, BLOCKED, say("plugins.deny names it"), mend=say("remove it from plugins.deny"))
    if wanted.allow is not None and found.id not in wanted.allow:
        mend = say("claw config set 'plugins.allow[]' {id}", id=found.id)
        return Standing(found, BLOCKED, say("plugins.allow does not name it"), mend=mend)
    if fault := found.fault:
        return Standing(found, QUARANTINED, fault.problem, fault.stage, fault.fix)
    if found.manifest and not fits(found.manifest.api):
        api, version = found.manifest.api, API_VERSION[0]
        why = say("it was made for plugin API {range}, this is {version}", range=api, version=version)
        mend = say("claw plugins update {id}, if it has a release for this claw", id=found.id)
        return Standing(found, INCOMPATIBLE, why, "find", mend)
    return _use(found, wanted, providers_used, all_found)


def _configured(standing: Standing, wrong: Mapping[str, ConfigError]) -> Standing:
    """A plugin that would be used is set aside when its own section is wrong."""
    error = wrong.get(standing.id)
    if error is None or standing.state not in (LOADED, IDLE):
        return standing
    why = f"{error.where}: {error.problem}"
    return replace(standing, state=QUARANTINED, why=why, stage="config", mend=error.fix, eager=False)


def _use(found: Found, wanted: Wanted, providers_used: Sequence[str], all_found: Sequence[Found]) -> Standing:
    """Whether anything of the configuration uses it."""
    manifest = found.manifest
    if manifest is None:
        why = say("it has no manifest, so it is imported at every start")
        return Standing(found, LOADED, why, eager=True)
    reasons: list[str] = []
    eager = manifest.speaks_in_turns
    for channel in manifest.channels:
        if channel in wanted.channels:
            reasons.append(say("channel {name} is configured", name=channel))
            eager = True
    for provider in _providers_served(manifest, providers_used, wanted, all_found):
        reasons.append(say("a model of {name} is in use", name=provider))
        eager = True
    if manifest.speaks_in_turns:
        reasons.append(say("it takes part in every turn"))
    if any(not tool.optional for tool in manifest.tools) or _opted_in(manifest, wanted):
        reasons.append(say("its tools are offered"))
    if why := _tools_told_later(found, wanted, all_found):
        reasons.append(why)
        eager = True
    if reasons:
        return Standing(found, LOADED, "; ".join(reasons), eager=eager)
    return Standing(found, IDLE, _why_idle(manifest), mend=_how_to_use(manifest))


def _providers_served(
    manifest: Manifest, used: Sequence[str], wanted: Wanted, all_found: Sequence[Found]
) -> list[str]:
    own = {line.name for line in manifest.providers}
    served = [name for name in used if name in own]
    if ANY_ENDPOINT in own:
        others = {line.name for line in providers_of(all_found)}
        served += [name for name in used if name not in others and name in wanted.providers]
    return served


def _opted_in(manifest: Manifest, wanted: Wanted) -> bool:
    named = {"group:plugins", manifest.id, *(tool.name for tool in manifest.tools)}
    return bool(manifest.tools) and not named.isdisjoint(wanted.opt_ins)


def _tools_told_later(found: Found, wanted: Wanted, all_found: Sequence[Found]) -> str:
    """Why a plugin of the kind tool that declares none is loaded: what it brings depends on its settings, or on what
    else is installed, and the file has settings for it, or names it, or names a tool that nobody declares."""
    manifest = found.manifest
    if manifest is None or "tool" not in manifest.kinds or manifest.tools:
        return ""
    settings = wanted.entries.get(found.id, {}).get("config")
    if isinstance(settings, Mapping) and any(settings.values()):
        return say("it is configured")
    if not wanted.opt_ins.isdisjoint({found.id, PLUGINS_GROUP}):
        return say("an allow list names it")
    declared = {line.name.lower() for one in all_found if one.manifest for line in one.manifest.tools}
    known = declared | CORE_TOOLS.keys() | {one.id for one in all_found}
    strange = (word for word in wanted.opt_ins - known if ":" not in word and not is_pattern(word))
    word = min(strange, default="")
    return say("an allow list names {word}, which no manifest declares", word=word) if word else ""


def _why_idle(manifest: Manifest) -> str:
    if manifest.tools:
        return say("its tools are optional and no allow list names one")
    if manifest.channels:
        return say("channel {name} is not configured", name=", ".join(manifest.channels))
    if manifest.providers:
        names = ", ".join(line.name for line in manifest.providers if line.name != ANY_ENDPOINT)
        return say("no model of {name} is in use", name=names)
    if "tool" in manifest.kinds:
        return say("no settings and no allow list name it")
    if manifest.commands:
        return say("it is loaded when one of its commands is typed")
    return say("nothing uses it")


def _how_to_use(manifest: Manifest) -> str:
    needs_settings = (manifest.config_schema or {}).get("required")
    if manifest.tools or ("tool" in manifest.kinds and not needs_settings):
        return say("claw config set 'tools.alsoAllow[]' {id}", id=manifest.id)
    return ""


def _with_needs(standing: Standing, usable: Set[str], mends: Mapping[str, str]) -> Standing:
    """A plugin whose need is absent or out of use is set aside; what mends the need mends it.

    :param mends: plugin id → what to do about that one, of all that are installed.
    """
    manifest = standing.found.manifest
    if standing.state not in (LOADED, IDLE) or manifest is None:
        return standing
    missing = [need for need in manifest.requires if need not in usable]
    if not missing:
        return standing
    mend = mends.get(missing[0], say("claw plugins install claw-{id}", id=missing[0]))
    why = say("it needs plugin {id}", id=missing[0])
    return replace(standing, state=QUARANTINED, why=why, stage="find", mend=mend, eager=False)


def choose_model(
    found: Sequence[Found], wanted: Wanted, environ: Mapping[str, str], raw: Mapping[str, Any]
) -> str:
    """The model to use when the configuration names none: of the first provider that has a key, else the offline rules.

    A provider counts when it is ready with what the environment holds, or its section holds a key or a ``baseUrl``
    and names a ``defaultModel``.
    """
    sections = raw.get("providers")
    for name, section in sections.items() if isinstance(sections, dict) else ():
        if isinstance(section, dict):
            model = section.get("defaultModel") or section.get("default_model") or _default_of(found, name)
            if model:
                return f"{name}/{model}"
    for one in found:
        if wanted.entries.get(one.id, {}).get("enabled") is False or one.id in wanted.deny:
            continue
        for line in one.manifest.providers if one.manifest else ():
            if line.ready(environ):
                return f"{line.name}/{line.default_model}"
    return "offline/rules"


def _default_of(found: Sequence[Found], provider: str) -> str:
    return next((line.default_model for line in providers_of(found) if line.name == provider), "")


def refuse_missing(standings: Sequence[Standing]) -> None:
    """Go no further without a plugin that the file requires.

    :raises PluginError: one is not there, or was set aside; with its cause and mend.
    """
    for one in standings:
        if one.required and one.state not in (LOADED, IDLE):
            stage, problem, mend = one.fault_parts()
            raise PluginError(one.id, stage, "is required, and {why}", "{mend}", why=problem, mend=mend)
