"""Judgements of scenarios, compared with an expectation (``differences``) or with another config file
(``tool_changes``), or listed by rule (``active_rules``). Pure.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from claw import Section, UsageError, t
from claw.runtime import (
    CLOSING_CHECKS,
    LAYERS,
    OPENING_CHECKS,
    PLUGINS_GROUP,
    TERMINAL,
    TOOL_GROUPS,
    Config,
    Judgement,
    Layer,
    Names,
    PluginState,
    ToolMatcher,
    normalise_tool_name,
    restricts,
)
from claw_config_sdk import Scenario

from claw_admin.policy.explain import Explanation, JudgedTools, explain_tool
from claw_admin.policy.judged_run import PolicyContext, judge_scenario, model_of


class PolicyScenario(Scenario):
    """A run and the tools that it should have. Words are those of tool lists: names, plugin ids, ``group:NAME``,
    patterns.

    :param expect: these tools and no others; ``has`` and ``lacks`` leave the rest open.
    """

    name: str = ""
    expect: Names | None = None
    has: Names = ()
    lacks: Names = ()

    def __str__(self) -> str:
        """Return its name, else the fields that identify it."""
        owner = {None: "", True: t("owner"), False: t("not an owner")}[self.owner]
        place = t("{channel} group {id}", channel=self.channel, id=self.group) if self.group else self.channel
        boxed = t("sandboxed") if self.sandbox else ""
        depth = t("depth {depth}", depth=self.depth) if self.depth else ""
        return self.name or ", ".join(
            part for part in (self.agent, owner, place, self.sender, self.model, boxed, depth) if part
        )


class Scenarios(Section):
    """A file of scenarios."""

    scenarios: tuple[PolicyScenario, ...]


def differences(
    asked: PolicyScenario, found: Judgement, config: Config, plugin_states: Sequence[PluginState]
) -> tuple[Explanation, ...]:
    """Return the tools that are available and should not be, or the other way round; each with the reason.

    An unknown name never counts as expected, because it may be misspelt.
    """
    matcher, allowed = ToolMatcher(found.facts), {normalise_tool_name(name) for name in found.allowed_names}

    def named(words: Iterable[str]) -> set[str]:
        sets = (
            matcher.match(word) | TOOL_GROUPS.get(word, frozenset()) or {word}
            for word in map(normalise_tool_name, words)
        )
        return set().union(*sets) - {PLUGINS_GROUP}

    wanted = dict.fromkeys(named(asked.has), True) | dict.fromkeys(named(asked.lacks), False)
    if asked.expect is not None:
        exact = named(asked.expect)
        wanted |= dict.fromkeys(allowed - exact, False) | dict.fromkeys(exact, True)
    known = JudgedTools(found)
    answers = (
        (expected, explain_tool(name, config, known, plugin_states))
        for name, expected in sorted(wanted.items())
    )
    return tuple(one for expected, one in answers if expected != one.available or one.stage == "unknown")


Tools = frozenset[tuple[str, str]]
"""Tools by name and by the plugin that registers them: the same name from another plugin is another tool."""


def tool_changes(asked: Scenario, old: PolicyContext, new: PolicyContext) -> tuple[Tools, Tools]:
    """Return the tools that the run gains, and those that it loses, when ``old`` becomes ``new``.

    An agent that exists in only one of them has no tools in the other.

    :raises UsageError: neither has the agent.
    """
    had, has = _tools(asked, old), _tools(asked, new)
    if had is None and has is None:
        new.config.agent(asked.agent)
    had, has = had or Tools(), has or Tools()
    return has - had, had - has


def _tools(asked: Scenario, ground: PolicyContext) -> Tools | None:
    try:
        found = judge_scenario(asked, ground)
    except UsageError:
        return None
    return Tools((found.facts[at].name, found.facts[at].supplier) for at in found.positions)


def derive_scenarios(*configs: Config) -> tuple[PolicyScenario, ...]:
    """Return the runs that the files distinguish: agent × owner or not × chat and sender × model × sandbox ×
    depth.
    """
    agents = dict.fromkeys(agent for config in configs for agent in config.agent_ids)
    places = dict.fromkeys([(TERMINAL, "", ""), *(place for config in configs for place in _places(config))])
    models = dict.fromkeys(["", *(model for config in configs for model in _models(config))])
    return tuple(
        PolicyScenario(
            agent=agent, owner=owner, channel=channel, group=group, sender=sender, model=model, sandbox=boxed, depth=depth
        )
        for agent, (channel, group, sender), model, owner, boxed, depth in product(
            agents, places, models, (True, False), (False, True), (0, 1, 2)
        )
    )  # fmt: skip


def _places(config: Config) -> Iterator[tuple[str, str, str]]:
    """Yield channel, group and sender; the sender is empty for one that no list names."""
    for channel, section in config.settings.channels.items():
        yield channel, "", ""
        others = section.groups.get("*")
        for id, group in section.groups.items():
            for sender in ("", *group.tools_by_sender, *(others.tools_by_sender if others else ())):
                yield channel, id, sender


def _models(config: Config) -> Iterator[str]:
    """Yield a model for each section of ``byProvider``; a star where any model of that provider will do."""
    for tools in (config.settings.tools, *(config.agent(id).settings.tools for id in config.agent_ids)):
        for key in tools.by_provider if tools else ():
            yield key if "/" in key else f"{key}/*"


@dataclass(frozen=True, slots=True)
class ActiveRule:
    """A list of tool words in force, or a profile.

    :param kind: profile, allow, deny or alsoAllow.
    :param key: dotted key; empty for claw's own tables. ``whose`` is the id behind a list index in it.
    :param restricts: false for an allow list of nothing but plugin tools: it only switches them on.
    :param model: the fallback model for which alone it is in force.
    """

    kind: str
    words: tuple[str, ...]
    key: str
    whose: str
    line: int | None
    restricts: bool = True
    model: str = ""


def active_rules(
    found: Judgement, config: Config
) -> Iterator[tuple[str, tuple[ActiveRule, ...], tuple[str, ...]]]:
    """Yield every gate and layer of a run, in order: its name, its rules, and the tools that it removes."""
    layers: dict[str, tuple[ActiveRule, ...]] = {}
    for one in (found, *found.fallbacks):
        matcher, model = ToolMatcher(one.loaded), "" if one is found else model_of(one)
        for layer in one.layers:
            known = layers.setdefault(layer.name, ())
            rules = [rule for rule in _rules(layer, matcher, config) if rule not in known]
            layers[layer.name] = (*known, *(replace(rule, model=model) for rule in rules))
    for stage in (*OPENING_CHECKS, *LAYERS, *CLOSING_CHECKS):
        takes = tuple(name for name, ruling in found.rulings.items() if ruling.stage == stage)
        yield stage, layers.get(stage, ()), takes


def _rules(layer: Layer, matcher: ToolMatcher, config: Config) -> Iterator[ActiveRule]:
    if layer.profile:
        yield ActiveRule("profile", (layer.profile,), layer.key, layer.owner_id, config.line(layer.key))
    lists: dict[tuple[str, str, str], dict[str, None]] = {}
    for kind, entries in (("allow", layer.allow or ()), ("deny", layer.deny), ("alsoAllow", layer.opt_ins)):
        for entry in entries:
            if entry.key or not layer.profile:  # the profile's name represents its words
                kept = entry.key.rpartition(".")[2] or kind
                lists.setdefault((kept, entry.key, entry.owner_id), {})[entry.word] = None
    for (kind, key, whose), words in lists.items():
        narrows = kind != "allow" or restricts(layer, matcher)
        yield ActiveRule(kind, tuple(words), key, whose, config.line(key) if key else None, narrows)
