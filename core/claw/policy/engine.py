"""Application of the nine layers to the tools, with the checks before and after them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from claw.config.summary import plugins_that_bring
from claw.policy.catalog import CHANNEL_DENY, CORE_TOOLS, OWNER_ONLY, PLUGINS_GROUP, normalise_tool_name
from claw.policy.decision import ALLOWED, Judgement, NameConflict, Ruling
from claw.policy.layers import Layer, ListEntry, layers_for
from claw.policy.matching import ToolMatcher
from claw.policy.subjects import RunFacts, ToolFact

if TYPE_CHECKING:
    from claw.config.loader import Config

OPENING_CHECKS = ("optional", "name")
"""The checks before the layers, in order: the tool is opted in, and its plugin owns its name."""


def resolve_tools(
    config: "Config", run: RunFacts, facts: Sequence[ToolFact], fallbacks: Iterable[str] = ()
) -> Judgement:
    """Return the tools that this run may use, and the reason for each denied one. The only entry point for callers.

    :param run: with the model that answers first.
    :param fallbacks: the fallback models, as ``provider/model``; a tool must be allowed with each of them.
    """
    return judge_runs(facts, [(r, layers_for(config, r)) for r in (run, *map(run.with_model, fallbacks))])


def judge_runs(facts: Sequence[ToolFact], runs: Sequence[tuple[RunFacts, Sequence[Layer]]]) -> Judgement:
    """Judge each run with its layers, and return the first judgement without the tools that any other run denies."""
    first, *others = (judge_tools(facts, layers, run) for run, layers in runs)
    rulings, positions = dict(first.rulings), first.positions
    for other in others:
        model = f"{other.run.provider}/{other.run.model}"
        lost = set(positions) - set(other.positions)
        for at in lost:
            name = facts[at].name
            why = other.rulings[name]
            if why.allowed:  # by a tool of another plugin, so neither tool fits all runs
                why = next(lost.ruling for lost in other.conflicts if lost.fact is facts[at])
            rulings[name] = replace(why, fallback=model)
        positions = tuple(at for at in positions if at not in lost)
    return replace(first, rulings=rulings, positions=positions, fallbacks=tuple(others))


def judge_tools(facts: Sequence[ToolFact], layers: Sequence[Layer], run: RunFacts) -> Judgement:
    """Rule on every tool: opening checks, nine layers, closing checks. The first denial of a tool is its ruling."""
    opened = {entry.word for layer in layers for entry in layer.opt_ins}
    opted_in = [not fact.optional or bool(opt_in_words(fact) & opened) for fact in facts]
    rulings = {fact.name: _NOT_OPTED_IN for fact, is_in in zip(facts, opted_in, strict=True) if not is_in}
    kept, conflicts = _name_owners(facts, [at for at, is_in in enumerate(opted_in) if is_in])
    for conflict in conflicts:
        rulings.setdefault(conflict.fact.name, conflict.ruling)
    loaded = tuple(facts[at] for at in kept)
    matcher = ToolMatcher(loaded)
    allowed_names, denied = matcher.names, dict[str, Ruling]()
    for layer in layers:
        allowed_names, denied_here = apply_layer(allowed_names, layer, matcher)
        denied |= denied_here
    positions = []
    for at in kept:
        fact = facts[at]
        ruling = denied.get(normalise_tool_name(fact.name)) or closing_check(fact, run) or ALLOWED
        rulings[fact.name] = ruling
        if ruling.allowed:
            positions.append(at)
    return Judgement(run, tuple(facts), tuple(layers), rulings, tuple(positions), loaded, tuple(conflicts))


def apply_layer(
    names: frozenset[str], layer: Layer, matcher: ToolMatcher
) -> tuple[frozenset[str], dict[str, Ruling]]:
    """Apply one layer, and return the names that are still allowed and the ruling of each name it denies.

    A layer can only remove names, so the order of the layers decides which key is reported, never what is allowed.
    """
    denied: dict[str, Ruling] = {}
    for entry in layer.deny:
        if hit := (matcher.match(entry.word) & names) - denied.keys():
            denied |= dict.fromkeys(hit, _denied(layer, entry))
    if restricts(layer, matcher):
        allowed = frozenset().union(*(matcher.match(entry.word) for entry in layer.allow or ()))
        if unlisted := names - allowed - denied.keys():
            denied |= dict.fromkeys(unlisted, _unlisted(layer))
    return names - denied.keys(), denied


def restricts(layer: Layer, matcher: ToolMatcher) -> bool:
    """Return true if the layer's allow list restricts. Outside of the sandbox and subagent layers, a list of plugin
    tools alone does not: operators use it to opt in to them."""
    if layer.allow is None:
        return False
    return layer.strict or not all(matcher.is_opt_in(entry.word) for entry in layer.allow)


def closing_check(fact: ToolFact, run: RunFacts) -> Ruling | None:
    """Return the ruling of the first closing check that denies the tool; None when it passes all of them."""
    return next(filter(None, (gate(fact, run) for gate in CLOSING_CHECKS.values())), None)


def _owner_only(fact: ToolFact, run: RunFacts) -> Ruling | None:
    if run.owner or not (fact.owner_only or normalise_tool_name(fact.name) in OWNER_ONLY):
        return None
    return Ruling(False, "owner-only", "owners", template="it is for owners only ({key})")


def _channel_fit(fact: ToolFact, run: RunFacts) -> Ruling | None:
    channel = run.channel.strip().lower()
    if fact.name not in CHANNEL_DENY.get(channel, ()):
        return None
    template = "it does not work on the channel {channel}"
    return Ruling(False, "channel-fit", template=template, values={"channel": channel})


def _missing_setting(fact: ToolFact, run: RunFacts) -> Ruling | None:
    if not fact.missing_setting:
        return None
    return Ruling(False, "missing-setting", fact.missing_setting, template="it needs the setting {key}")


def _provider_schema(fact: ToolFact, run: RunFacts) -> Ruling | None:
    if fact.schema_problem:
        template = "model services do not accept its parameters: {why}"
        return Ruling(False, "provider-schema", template=template, values={"why": fact.schema_problem})
    why = dict(fact.refused_by).get(run.provider)
    if why is None:
        return None
    template = "the provider {provider} does not accept its parameters: {why}"
    return Ruling(False, "provider-schema", template=template, values={"provider": run.provider, "why": why})


CLOSING_CHECKS = {
    "owner-only": _owner_only,
    "channel-fit": _channel_fit,
    "missing-setting": _missing_setting,
    "provider-schema": _provider_schema,
}
"""The checks after the layers, in order."""


def opt_in_words(fact: ToolFact) -> frozenset[str]:
    """Return the words of an allow list that opt in to an optional tool."""
    words = {normalise_tool_name(fact.name), normalise_tool_name(fact.plugin or fact.supplier)} - {""}
    return frozenset(words if fact.plugin is None else {*words, PLUGINS_GROUP})


def _name_owners(
    facts: Sequence[ToolFact], candidates: Sequence[int]
) -> tuple[list[int], list[NameConflict]]:
    """Return the positions of the tools that own their names, and the conflicts of the others. The first plugin to
    register a name owns it; names of core tools are reserved."""
    core = {normalise_tool_name(facts[at].name): facts[at] for at in candidates if facts[at].plugin is None}
    taken: dict[str, ToolFact] = {}
    kept, conflicts = list[int](), list[NameConflict]()
    for at in candidates:
        name = normalise_tool_name(facts[at].name)
        if conflict := _conflict(facts[at], name, core, taken):
            conflicts.append(conflict)
        else:
            kept.append(at)
            taken.setdefault(name, facts[at])
    return kept, conflicts


def _conflict(
    fact: ToolFact, name: str, core: Mapping[str, ToolFact], taken: Mapping[str, ToolFact]
) -> NameConflict | None:
    if fact.plugin is None:
        twice = name in taken and taken[name].name == fact.name
        return NameConflict(fact, "taken", taken[name].supplier) if twice else None
    plugin = normalise_tool_name(fact.plugin)
    if plugin in core or plugin in CORE_TOOLS:
        return NameConflict(fact, "plugin-id", plugin)
    if fact.assigned_to:
        return NameConflict(fact, "handed", fact.assigned_to)
    if name in core or name in CORE_TOOLS:
        holder = core[name].supplier if name in core else plugins_that_bring("tools").get(name, "")
        return NameConflict(fact, "reserved", holder)
    if name in taken:
        owner = taken[name].plugin or ""
        return NameConflict(fact, "twice" if owner == fact.plugin else "taken", owner)
    return None


_NOT_OPTED_IN = Ruling(
    False,
    "optional",
    template="it is optional, and no allow list that applies here includes it or its plugin",
)


def _denied(layer: Layer, entry: ListEntry) -> Ruling:
    template = "{key} denies it ({pattern})" if entry.key else _OWN_DENIAL[layer.name]
    return Ruling(False, layer.name, entry.key, entry, entry.owner_id, template)


def _unlisted(layer: Layer) -> Ruling:
    if layer.profile:
        template, values = "the profile {profile} ({key}) does not include it", {"profile": layer.profile}
        return Ruling(False, layer.name, layer.key, None, layer.owner_id, template, values)
    template = "{key} does not list it" if layer.key else "it is not one of a sandbox's default tools"
    return Ruling(False, layer.name, layer.key, None, layer.owner_id, template)


_OWN_DENIAL = {
    "sandbox": "a sandbox does not have it by default",
    "subagent": "a sub-agent of this depth never has it",
}
