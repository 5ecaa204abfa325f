"""The fold: nine layers over the tools, with the gates before and after."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from claw.catalog import CORE_TOOLS, OWNER_ONLY, PLUGINS_GROUP, UNFIT, normalise
from claw.policy.facts import Run, ToolFact
from claw.policy.layers import Entry, Layer, layers_for
from claw.policy.reach import Reach
from claw.policy.ruling import STANDS, Conflict, Judgement, Ruling

OPENING = ("optional", "name")
"""The gates before the layers, in order: is it switched on, and is its name its own."""


def resolve(config: Any, run: Run, facts: Sequence[ToolFact], spares: Iterable[str] = ()) -> Judgement:
    """Which tools this run has, and why each other one fell. Everybody who wants to know asks this function.

    :param config: a ``claw.config.Config``.
    :param run: with the model that answers first.
    :param spares: the models it may fall over to, as ``provider/model``; a tool must stand with each of them.
    """
    return judge_all(facts, [(one, layers_for(config, one)) for one in (run, *map(run.on, spares))])


def judge_all(facts: Sequence[ToolFact], runs: Sequence[tuple[Run, Sequence[Layer]]]) -> Judgement:
    """Judge each run with its layers; the first one answers, and loses what any other one would not have."""
    first, *others = (judge(facts, layers, run) for run, layers in runs)
    rulings, positions = dict(first.rulings), first.positions
    for other in others:
        model = f"{other.run.provider}/{other.run.model}"
        lost = set(positions) - set(other.positions)
        for at in lost:
            name = facts[at].name
            why = other.rulings[name]
            if why.allowed:  # another plugin's tool of this name stands there: neither can be relied on
                why = next(lost.ruling for lost in other.conflicts if lost.fact is facts[at])
            rulings[name] = replace(why, spare=model)
        positions = tuple(at for at in positions if at not in lost)
    return replace(first, rulings=rulings, positions=positions, spares=tuple(others))


def judge(facts: Sequence[ToolFact], layers: Sequence[Layer], run: Run) -> Judgement:
    """Rule on every tool: gates, nine layers, gates. The first reason a tool fell is the one that is told."""
    rulings: dict[str, Ruling] = {}
    conflicts: list[Conflict] = []
    kept = _name_owners(facts, [*_opted_in(facts, layers, rulings)], rulings, conflicts)
    loaded = tuple(facts[at] for at in kept)
    reach = Reach(loaded)
    standing, fell = reach.names, dict[str, Ruling]()
    for layer in layers:
        standing, fallen = narrow(standing, layer, reach)
        fell |= fallen
    positions = []
    for at in kept:
        fact = facts[at]
        ruling = fell.get(normalise(fact.name)) or closing(fact, run) or STANDS
        rulings[fact.name] = ruling
        if ruling.allowed:
            positions.append(at)
    return Judgement(
        run=run,
        facts=tuple(facts),
        layers=tuple(layers),
        rulings=rulings,
        positions=tuple(positions),
        loaded=loaded,
        conflicts=tuple(conflicts),
        unknown=_unknown(layers, reach),
    )


def narrow(names: frozenset[str], layer: Layer, reach: Reach) -> tuple[frozenset[str], dict[str, Ruling]]:
    """Apply one layer: the names that still stand, and why each other one fell.

    A layer can only take away, so the order of the layers decides which key is blamed, never what is allowed.
    """
    fell: dict[str, Ruling] = {}
    for entry in layer.deny:
        if hit := (reach.of(entry.word) & names) - fell.keys():
            fell |= dict.fromkeys(hit, _denied(layer, entry))
    if restricts(layer, reach):
        allowed = frozenset().union(*(reach.of(entry.word) for entry in layer.allow or ()))
        if unlisted := names - allowed - fell.keys():
            fell |= dict.fromkeys(unlisted, _unlisted(layer))
    return names - fell.keys(), fell


def restricts(layer: Layer, reach: Reach) -> bool:
    """Whether the layer's allow list takes anything away: outside of sandbox and sub-agents, a list of nothing but
    plugin tools is how an operator switches them on."""
    if layer.allow is None:
        return False
    return layer.strict or not all(reach.is_opt_in(entry.word) for entry in layer.allow)


def closing(fact: ToolFact, run: Run) -> Ruling | None:
    """The first of the gates behind the layers that the tool does not pass; None when it passes them all."""
    return next(filter(None, (gate(fact, run) for gate in CLOSING.values())), None)


def _owner_only(fact: ToolFact, run: Run) -> Ruling | None:
    if run.owner or not (fact.owner_only or normalise(fact.name) in OWNER_ONLY):
        return None
    return Ruling(False, "owner-only", "owners", template="it is for owners only ({key})")


def _channel_fit(fact: ToolFact, run: Run) -> Ruling | None:
    if fact.name not in _SOMEWHERE_UNFIT:  # asked for every tool, so the cheap question comes first
        return None
    channel = run.channel.strip().lower()
    if fact.name not in UNFIT.get(channel, ()):
        return None
    template = "it makes no sense on the channel {channel}"
    return Ruling(False, "channel-fit", template=template, values={"channel": channel})


_SOMEWHERE_UNFIT = frozenset[str]().union(*UNFIT.values())


def _missing_setting(fact: ToolFact, run: Run) -> Ruling | None:
    if not fact.lacks:
        return None
    return Ruling(False, "missing-setting", fact.lacks, template="it needs the setting {key}")


def _provider_schema(fact: ToolFact, run: Run) -> Ruling | None:
    if not run.refused:
        return None
    name = normalise(fact.name)
    why = next((why for tool, why in run.refused if normalise(tool) == name), None)
    if why is None:
        return None
    template = "the provider {provider} does not take its parameters: {why}"
    return Ruling(False, "provider-schema", template=template, values={"provider": run.provider, "why": why})


CLOSING = {
    "owner-only": _owner_only,
    "channel-fit": _channel_fit,
    "missing-setting": _missing_setting,
    "provider-schema": _provider_schema,
}
"""The gates behind the layers, in order."""


def opt_in_words(fact: ToolFact) -> frozenset[str]:
    """The words of an allow list that switch an optional tool on."""
    words = {normalise(fact.name), normalise(fact.plugin or fact.supplier)} - {""}
    return frozenset(words if fact.plugin is None else {*words, PLUGINS_GROUP})


def _opted_in(
    facts: Sequence[ToolFact], layers: Sequence[Layer], rulings: dict[str, Ruling]
) -> Iterable[int]:
    opened = {entry.word for layer in layers for entry in layer.opens}
    for at, fact in enumerate(facts):
        if not fact.optional or opt_in_words(fact) & opened:
            yield at
        else:
            rulings.setdefault(fact.name, _NOT_OPTED_IN)


def _name_owners(
    facts: Sequence[ToolFact],
    candidates: Sequence[int],
    rulings: dict[str, Ruling],
    conflicts: list[Conflict],
) -> list[int]:
    """The first plugin that brings a name has it; names of core tools are kept for them."""
    core = {normalise(facts[at].name): facts[at] for at in candidates if facts[at].plugin is None}
    taken: dict[str, ToolFact] = {}
    kept = []
    for at in candidates:
        fact = facts[at]
        name = normalise(fact.name)
        conflict = _conflict(fact, name, core, taken)
        if conflict is None:
            kept.append(at)
            taken.setdefault(name, fact)
        else:
            conflicts.append(conflict)
            rulings.setdefault(fact.name, conflict.ruling)
    return kept


def _conflict(
    fact: ToolFact, name: str, core: Mapping[str, ToolFact], taken: Mapping[str, ToolFact]
) -> Conflict | None:
    if fact.plugin is None:
        twice = name in taken and taken[name].name == fact.name
        return Conflict(fact, "taken", taken[name].supplier) if twice else None
    plugin = normalise(fact.plugin)
    if plugin in core or plugin in CORE_TOOLS:
        return Conflict(fact, "plugin-id", plugin)
    if fact.lost_to:
        return Conflict(fact, "handed", fact.lost_to)
    if name in core or name in CORE_TOOLS:
        return Conflict(fact, "reserved", core[name].supplier if name in core else CORE_TOOLS[name])
    if name in taken:
        return Conflict(fact, "taken", taken[name].plugin or "")
    return None


def _unknown(layers: Sequence[Layer], reach: Reach) -> dict[str, tuple[str, ...]]:
    """The words of allow lists that name nothing; sandbox and sub-agent lists serve many agents and are not asked."""
    found = {}
    for layer in layers:
        if layer.strict:
            continue
        words = {e.word for e in layer.opens if e.word not in (PLUGINS_GROUP, "*") and not reach.of(e.word)}
        if words:
            found[layer.name] = tuple(sorted(words))
    return found


_NOT_OPTED_IN = Ruling(
    False, "optional", template="it is optional, and no allow list that applies here names it or its plugin"
)


def _denied(layer: Layer, entry: Entry) -> Ruling:
    template = "{key} denies it ({pattern})" if entry.key else _OWN_DENIAL[layer.name]
    return Ruling(False, layer.name, entry.key, entry, entry.whose, template)


def _unlisted(layer: Layer) -> Ruling:
    if layer.profile:
        template, values = "the profile {profile} ({key}) does not hold it", {"profile": layer.profile}
        return Ruling(False, layer.name, layer.key, None, layer.whose, template, values)
    template = "{key} does not list it" if layer.key else "it is not among the tools a sandbox has by default"
    return Ruling(False, layer.name, layer.key, None, layer.whose, template)


_OWN_DENIAL = {
    "sandbox": "a sandbox never has it by default",
    "subagent": "a sub-agent of this depth never has it",
}
