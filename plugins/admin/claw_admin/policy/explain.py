"""Explain why a tool is available or not (pure): each gate and layer in order, the rule that decides, the fix.

It reads the judgement that a turn would get from ``resolve_tools``; a tool that policy never saw, because no plugin
registered it, is explained from the states of the installed plugins.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from claw import nearest, t
from claw.runtime import (
    ALLOWED,
    BLOCKED,
    CLOSING_CHECKS,
    CORE_TOOLS,
    DISABLED,
    IDLE,
    INCOMPATIBLE,
    LOADED,
    QUARANTINED,
    Config,
    Judgement,
    Layer,
    NameConflict,
    PluginState,
    Ruling,
    ToolFact,
    ToolMatcher,
    apply_layer,
    format_key,
    normalise_tool_name,
    opt_in_words,
    package_of,
    plugins_that_bring,
    sections_for,
)

from claw_admin.policy.fixes import ConfigEdit, edit_for_name, edits_for


@dataclass(frozen=True, slots=True)
class ExplanationStep:
    """One gate or layer.

    :param stage: as in ``Ruling``.
    :param passes: the tool passes this step, whatever the others decide.
    :param note: the rule that decided, in the language in use; for a layer without a rule, that it has none.
    """

    stage: str
    passes: bool
    note: str
    key: str = ""
    line: int | None = None


@dataclass(frozen=True)
class Explanation:
    """The explanation of one tool.

    :param name: as registered; as asked when no plugin registers it.
    :param plugin: the plugin that registers it, or would; empty when there is none.
    :param stage: the gate or layer that removed it, or the reason why policy never saw it (``unknown``,
        ``not-installed``, ``no-supplier``, ``not-brought``, or the state of its plugin); empty when it is available.
    :param why: the reason in the language in use, with the key.
    :param key: of the deciding rule; ``whose`` the id behind a list index in it, ``file`` and ``line`` its place.
    :param edits: the changes to make; all of them are needed. ``fix`` is the instruction where no edit can help.
    :param steps: gates and layers in order; empty for a tool that policy never saw.
    :param spare: the fallback model that causes the refusal; the name is that of the JSON key.
    :param rivals: other plugins' tools of this name, each with the edits that hand the name over.
    """

    name: str
    available: bool
    plugin: str = ""
    core: bool = False
    stage: str = ""
    why: str = ""
    key: str = ""
    whose: str = ""
    file: str = ""
    line: int | None = None
    edits: tuple[ConfigEdit, ...] = ()
    fix: str = ""
    steps: tuple[ExplanationStep, ...] = ()
    spare: str = ""
    tokens: int = 0
    rivals: tuple[tuple[str, tuple[ConfigEdit, ...]], ...] = ()


@dataclass(frozen=True)
class JudgedTools:
    """The tools of a judgement, by name and by the words of lists."""

    judgement: Judgement

    @cached_property
    def by_name(self) -> Mapping[str, tuple[ToolFact, ...]]:
        """Normalised name → the tools of that name: first the allowed one, then the loaded ones, then the others."""
        judged, names = self.judgement, dict[str, dict[int, ToolFact]]()
        for fact in (*map(judged.facts.__getitem__, judged.positions), *judged.loaded, *judged.facts):
            names.setdefault(normalise_tool_name(fact.name), {}).setdefault(id(fact), fact)
        return {name: tuple(facts.values()) for name, facts in names.items()}

    def matcher(self, fact: ToolFact) -> ToolMatcher:
        """Return the lookup of list words among the loaded tools and ``fact``."""
        loaded = self.judgement.loaded
        return self._matcher if id(fact) in self._loaded_ids else ToolMatcher((*loaded, fact))

    @cached_property
    def _matcher(self) -> ToolMatcher:
        return ToolMatcher(self.judgement.loaded)

    @cached_property
    def _loaded_ids(self) -> frozenset[int]:
        return frozenset(map(id, self.judgement.loaded))


def explain_tool(
    name: str, config: Config, tools: JudgedTools, plugin_states: Sequence[PluginState] = ()
) -> Explanation:
    """Explain if the tool ``name`` is available in the run of ``tools``, and why not.

    :param config: that of the judgement of ``tools``.
    :param plugin_states: the states of the installed plugins.
    """
    wanted, judgement = normalise_tool_name(name), tools.judgement
    found = tools.by_name.get(wanted, ())
    if not found:
        return _not_registered(name, wanted, config, judgement, plugin_states)
    fact = found[0]
    ruling = ALLOWED if fact.name in judgement.allowed_names else judgement.rulings[fact.name]
    deciding = _deciding(judgement, ruling)
    matcher = (tools if deciding is judgement else JudgedTools(deciding)).matcher(fact)
    sections = sections_for(config, deciding.run)
    key = ruling.key
    place = f"{key}[{ruling.entry.at}]" if ruling.entry and key else key
    return Explanation(
        name=fact.name,
        available=ruling.allowed,
        plugin=fact.supplier,
        core=fact.plugin is None,
        stage=ruling.stage,
        why=ruling.reason,
        key=place,
        whose=ruling.owner_id,
        file=config.file if key else "",
        line=config.line(place) if key else None,
        edits=() if ruling.allowed else edits_for(fact, ruling, deciding, matcher, sections),
        fix="" if ruling.allowed else _fix(ruling, fact, deciding),
        steps=_steps(fact, config, deciding, matcher),
        spare=ruling.fallback,
        tokens=fact.tokens,
        rivals=tuple(
            _rival(lost) for lost in judgement.conflicts if lost.fact in found and lost.fact is not fact
        ),
    )


def _rival(conflict: NameConflict) -> tuple[str, tuple[ConfigEdit, ...]]:
    fact = conflict.fact
    plugin = fact.plugin or fact.supplier
    text = t("plugin {id} also provides a tool with this name and was not used", id=plugin)
    return text, () if conflict.kind in ("plugin-id", "twice") else edit_for_name(fact)


def _deciding(judgement: Judgement, ruling: Ruling) -> Judgement:
    """Return the judgement of the model that the ruling comes from."""
    for fallback in judgement.fallbacks:
        if ruling.fallback == f"{fallback.run.provider}/{fallback.run.model}":
            return fallback
    return judgement


def _fix(ruling: Ruling, fact: ToolFact, judged: Judgement) -> str:
    """Return the instruction where no edit of the file can be named."""
    if ruling.stage == "owner-only" and not (judged.run.sender and judged.run.sender.id):
        return t("give the person with --sender to see the edit that makes them an owner")
    if ruling.stage == "channel-fit":
        return t("use it from another channel")
    if ruling.stage == "provider-schema" and fact.schema_problem:
        return t("update the plugin, or ask its author for a sound schema")
    if ruling.stage == "provider-schema":
        return t("use another model, or ask the plugin's author for a simpler schema")
    if ruling.stage == "subagent" and not ruling.key and normalise_tool_name(fact.name) != "sessions_spawn":
        return t("use it in the main agent, not in a sub-agent")
    if ruling.stage == "name" and ruling.values.get("kind") == "plugin-id":
        return t("ask its author for another plugin id")
    return ""


def _steps(
    fact: ToolFact, config: Config, judged: Judgement, matcher: ToolMatcher
) -> tuple[ExplanationStep, ...]:
    """Return the result of each gate and layer for this tool alone."""
    steps = [_optional_step(fact, config, judged), _name_step(fact, judged)]
    for layer in judged.layers:
        _, denied = apply_layer(frozenset((normalise_tool_name(fact.name),)), layer, matcher)
        steps.append(_step(layer.name, next(iter(denied.values()), None), _rule_of(layer), config))
    for stage, gate in CLOSING_CHECKS.items():
        steps.append(_step(stage, gate(fact, judged.run), "", config))
    return tuple(steps)


def _step(stage: str, ruling: Ruling | None, note: str, config: Config) -> ExplanationStep:
    if ruling is None:
        return ExplanationStep(stage, True, note)
    key = f"{ruling.key}[{ruling.entry.at}]" if ruling.entry and ruling.key else ruling.key
    return ExplanationStep(stage, False, ruling.reason, key, config.line(key) if key else None)


def _rule_of(layer: Layer) -> str:
    """Describe the rule of a layer that lets the tool through."""
    if layer.profile and layer.allow is not None:
        return t("the profile {profile} ({key}) includes it", profile=layer.profile, key=layer.key)
    if layer.allow is None and not layer.deny:
        return t("no rule")
    if layer.allow is None:
        return t("no rule mentions it")
    return t("{key} allows it", key=layer.key or t("claw's built-in list"))


def _optional_step(fact: ToolFact, config: Config, judged: Judgement) -> ExplanationStep:
    if not fact.optional:
        return ExplanationStep("optional", True, t("it is not optional"))
    words = opt_in_words(fact)
    for layer in judged.layers:
        for entry in layer.opt_ins:
            if entry.word in words:
                key = f"{entry.key}[{entry.at}]"
                note = t("{key} enables it ({pattern})", key=entry.key, pattern=entry.word)
                return ExplanationStep("optional", True, note, key, config.line(key))
    return ExplanationStep("optional", False, t("no allow list that applies here includes it or its plugin"))


def _name_step(fact: ToolFact, judged: Judgement) -> ExplanationStep:
    lost = next((conflict for conflict in judged.conflicts if conflict.fact is fact), None)
    if lost is None:
        return ExplanationStep("name", True, t("the name is its own"))
    reason = judged.rulings[fact.name].reason if fact not in judged.loaded else ""
    return ExplanationStep("name", False, reason)


def _not_registered(
    name: str, wanted: str, config: Config, judgement: Judgement, plugin_states: Sequence[PluginState]
) -> Explanation:
    """Explain a tool that no plugin registers in this run."""
    supplier = plugins_that_bring("tools").get(wanted, "")
    handed = next(
        (key for key in config.settings.tools.suppliers if normalise_tool_name(key) == wanted), None
    )
    if handed is not None:
        supplier = config.settings.tools.suppliers[handed]
    candidates = [
        one
        for one in plugin_states
        if wanted in map(normalise_tool_name, _tools_of(one)) or one.id == supplier
    ]
    if candidates:
        best = next((one for one in candidates if one.id == supplier), candidates[0])
        return replace(plugin_not_in_use(name, best, config), core=wanted in CORE_TOOLS)
    if handed is not None:
        key = format_key(("tools", "suppliers", handed))
        return Explanation(
            name, False, supplier, wanted in CORE_TOOLS, "not-installed",
            t("{key} assigns it to the plugin {id}, which is not installed", key=key, id=supplier),
            key, "", config.file, config.line(key), (ConfigEdit("unset", key),),
        )  # fmt: skip
    if package := package_of(supplier):
        why = t("it comes with the plugin {id}, which is not installed", id=supplier)
        install = ConfigEdit("install", value=package)
        return Explanation(name, False, supplier, True, "not-installed", why, edits=(install,))
    if wanted in CORE_TOOLS:
        fix = t("tools.suppliers.{name} assigns the name to a plugin that provides it", name=wanted)
        why = t("its name is reserved for a core tool that no plugin provides yet")
        return Explanation(name, False, "", True, "no-supplier", why, fix=fix)
    if fault := _fault_of_source(name, plugin_states):
        return fault
    near = nearest(wanted, _known_names(judgement, plugin_states))
    fix = t("did you mean {near}?", near=near) if near else t("claw tools list --all shows every tool")
    why = t("no installed plugin provides a tool with this name")
    if broken := [one.id for one in plugin_states if one.state == QUARANTINED and not one.found.manifest]:
        why = t("no plugin that loads provides it; not loaded: {ids}", ids=[*broken])
    return Explanation(name, False, stage="unknown", why=why, fix=fix)


def _fault_of_source(name: str, plugin_states: Iterable[PluginState]) -> Explanation | None:
    """Return the fault that a plugin reports of the source of a tool, as an MCP server is one: its name before the
    two underscores of the tool's.
    """
    source, of_source, _ = name.partition("__")
    named = re.compile(rf"(?<![\w-]){re.escape(source)}(?![\w-])")
    for state in plugin_states if of_source else ():
        if faults := [fault for fault in state.why.split("; ") if named.search(fault)]:
            fixes = [fix for fix in state.fix.split("; ") if named.search(fix)] or [state.fix]
            return Explanation(name, False, state.id, stage="not-brought", why=faults[0], fix=fixes[0])
    return None


def _tools_of(state: PluginState) -> Iterable[str]:
    manifest = state.found.manifest
    return [line.name for line in manifest.tools] if manifest else ()


def _known_names(judgement: Judgement, plugin_states: Sequence[PluginState]) -> set[str]:
    declared = {name for one in plugin_states for name in _tools_of(one)}
    return declared | {fact.name for fact in judgement.facts} | set(CORE_TOOLS)


def plugin_not_in_use(name: str, plugin: PluginState, config: Config) -> Explanation:
    """Explain a tool or a channel whose plugin is installed and not in use."""
    plugins, stage, key = config.settings.plugins, plugin.state, ""
    edits: tuple[ConfigEdit, ...] = ()
    if plugin.state == DISABLED:
        why = t("its plugin {id} is disabled", id=plugin.id)
        key = format_key(("plugins", "entries", plugin.id, "enabled"))
        edits = (ConfigEdit("set", key, True),)
    elif plugin.state == BLOCKED and plugin.id in plugins.deny:
        why = t("its plugin {id} is blocked by {key}", id=plugin.id, key="plugins.deny")
        key = f"plugins.deny[{plugins.deny.index(plugin.id)}]"
        edits = (ConfigEdit("unset", key),)
    elif plugin.state == BLOCKED:
        key = "plugins.allow"
        why = t("its plugin {id} is blocked by {key}", id=plugin.id, key=key)
        edits = (ConfigEdit("set", "plugins.allow[]", plugin.id),)
    elif plugin.state in (LOADED, IDLE):
        why, stage = t("its plugin {id} is installed, but does not provide it", id=plugin.id), "not-brought"
    elif plugin.state == INCOMPATIBLE:
        why = t("its plugin {id} is not compatible with this claw: {why}", id=plugin.id, why=plugin.why)
    else:
        names = {"id": plugin.id, "stage": t(plugin.stage), "why": plugin.why}
        why = t("its plugin {id} was disabled at {stage}: {why}", **names)
    return Explanation(
        name, False, plugin.id, False, stage, why, key, "", config.file if key else "",
        config.line(key) if key else None, edits, "" if edits else plugin.fix,
    )  # fmt: skip
