"""Runs to be judged before they happen: who asks, where, with which model, and the tools that are expected (pure).

Commands describe a run as a scenario; ``judgement_of`` puts it before the function that a turn asks. What came out can
be held against an expectation (``differences``), against another file (``change``), or laid open (``in_force``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

from pydantic import ConfigDict, Field

from claw.catalog import GROUPS, PLUGINS_GROUP, normalise
from claw.config import Config
from claw.config.values import Names, Section
from claw.errors import UsageError
from claw.explain import Explanation, explain
from claw.fallback import candidates
from claw.guard.admission import is_owner
from claw.message import Sender
from claw.policy import LAYERS, Judgement, Layer, Run, ToolFact, fact_of, resolve
from claw.policy.judge import CLOSING, OPENING, restricts
from claw.policy.reach import Reach
from claw.route import LOCAL, TERMINAL, owners_of
from claw.standing import IDLE, LOADED, Standing
from claw.words import say


class Scenario(Section):
    """One run, and what it should have. Words are those of tool lists: names, plugin ids, ``group:NAME``, patterns.

    :param agent: empty = the default agent; likewise an empty ``model`` is the agent's, with its fallbacks.
    :param sender: an id, or ``e164:``, ``username:``, ``name:`` and a value.
    :param owner: None = as the file says of the sender; at the terminal, an owner.
    :param sandbox: None = as the file says of the agent.
    :param expect: these tools and no others; ``has`` and ``lacks`` leave the rest open.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True)  # chat ids are often written as numbers

    name: str = ""
    agent: str = ""
    channel: str = TERMINAL
    account: str = "default"
    group: str = ""
    sender: str = ""
    owner: bool | None = None
    model: str = ""
    sandbox: bool | None = None
    depth: int = Field(default=0, ge=0)
    expect: Names | None = None
    has: Names = ()
    lacks: Names = ()

    def __str__(self) -> str:
        """Its name, else what sets it apart."""
        owner = {None: "", True: say("owner"), False: say("not an owner")}[self.owner]
        place = (
            say("{channel} group {id}", channel=self.channel, id=self.group) if self.group else self.channel
        )
        boxed = say("sandboxed") if self.sandbox else ""
        depth = say("depth {depth}", depth=self.depth) if self.depth else ""
        return self.name or ", ".join(
            part for part in (self.agent, owner, place, self.sender, self.model, boxed, depth) if part
        )


class Scenarios(Section):
    """A file of scenarios."""

    scenarios: tuple[Scenario, ...]


class Ground(Protocol):
    """Where a scenario is judged: what is known when the file and the manifests were read, or when an app runs."""

    @property
    def config(self) -> Config: ...
    @property
    def default_model(self) -> str: ...
    @property
    def facts(self) -> tuple[ToolFact, ...]: ...


def declared(standings: Sequence[Standing], suppliers: Mapping[str, str]) -> tuple[ToolFact, ...]:
    """The tools of every plugin that may be used, by their manifests; core tools first, as an app has them.

    :param suppliers: ``tools.suppliers`` of the file.
    """
    facts = [
        fact_of(line, one.id, suppliers)
        for one in standings
        if one.state in (LOADED, IDLE) and one.found.manifest
        for line in one.found.manifest.tools
    ]
    return tuple(sorted(facts, key=lambda fact: fact.plugin is not None))


def judgement_of(asked: Scenario, ground: Ground) -> Judgement:
    """The judgement of that run, by the function that a turn asks.

    :raises UsageError: there is no such agent.
    """
    config = ground.config
    agent = config.agent(asked.agent)
    choice = agent.settings.model
    models = candidates(
        asked.model,
        (choice and choice.primary) or ground.default_model,
        choice.fallbacks if choice else (),
        config.settings.models.aliases,
        () if asked.model else None,
    )
    person = sender_of(asked)
    listed = person is not None and is_owner(asked.channel, person, owners_of(config.settings))
    owner = asked.channel == TERMINAL or listed
    boxed = agent.settings.sandbox.mode != "off"
    run = Run(
        agent_id=agent.id,
        channel=asked.channel,
        account=asked.account,
        group=asked.group or None,
        sender=person,
        owner=owner if asked.owner is None else asked.owner,
        sandboxed=boxed if asked.sandbox is None else asked.sandbox,
        depth=asked.depth,
    ).on(str(models[0]))
    return resolve(config, run, ground.facts, [str(model) for model in models[1:]])


def sender_of(asked: Scenario) -> Sender | None:
    """The person behind the run; None when nobody is named."""
    if not asked.sender:
        return LOCAL if asked.channel == TERMINAL and asked.owner is not False else None
    kind, _, value = asked.sender.partition(":")
    if value and (kind := kind.strip().lower()) in ("id", "e164", "username", "name"):
        return replace(Sender(""), **{kind: value})  # type: ignore[arg-type]
    return Sender(asked.sender)


def differences(
    asked: Scenario, found: Judgement, config: Config, standings: Sequence[Standing]
) -> tuple[Explanation, ...]:
    """The tools that are there and should not be, or the other way round; each with the reason.

    A name that nobody knows is never as expected, for it may be misspelt.
    """
    reach, standing = Reach(found.facts), {normalise(name) for name in found.standing}

    def named(words: Iterable[str]) -> set[str]:
        sets = (reach.of(word) | GROUPS.get(word, frozenset()) or {word} for word in map(normalise, words))
        return set().union(*sets) - {PLUGINS_GROUP}

    wanted = dict.fromkeys(named(asked.has), True) | dict.fromkeys(named(asked.lacks), False)
    if asked.expect is not None:
        exact = named(asked.expect)
        wanted |= dict.fromkeys(standing - exact, False) | dict.fromkeys(exact, True)
    answers = (
        (expected, explain(name, config, found, standings)) for name, expected in sorted(wanted.items())
    )
    return tuple(one for expected, one in answers if expected != one.available or one.stage == "unknown")


Tools = frozenset[tuple[str, str]]
"""Tools by name and by the plugin that brings them: another plugin's tool is another tool."""


def change(asked: Scenario, old: Ground, new: Ground) -> tuple[Tools, Tools]:
    """The tools that the run gains, and those that it loses, when ``old`` becomes ``new``.

    An agent that one of them does not have has no tools there.

    :raises UsageError: neither has the agent.
    """
    had, has = _tools(asked, old), _tools(asked, new)
    if had is None and has is None:
        new.config.agent(asked.agent)
    had, has = had or Tools(), has or Tools()
    return has - had, had - has


def _tools(asked: Scenario, ground: Ground) -> Tools | None:
    try:
        found = judgement_of(asked, ground)
    except UsageError:
        return None
    return Tools((found.facts[at].name, found.facts[at].supplier) for at in found.positions)


def derived(*configs: Config) -> tuple[Scenario, ...]:
    """The runs that the files tell apart: each agent × owner or not × each place and person × model × sandbox × depth."""
    agents = dict.fromkeys(agent for config in configs for agent in config.agent_ids)
    places = dict.fromkeys([(TERMINAL, "", ""), *(place for config in configs for place in _places(config))])
    models = dict.fromkeys(["", *(model for config in configs for model in _models(config))])
    return tuple(
        Scenario(
            agent=agent, owner=owner, channel=channel, group=group, sender=sender, model=model, sandbox=boxed, depth=depth
        )
        for agent, (channel, group, sender), model, owner, boxed, depth in product(
            agents, places, models, (True, False), (False, True), (0, 1, 2)
        )
    )  # fmt: skip


def _places(config: Config) -> Iterator[tuple[str, str, str]]:
    """Channel, group and sender; the sender is empty for one whom no list names."""
    for channel, section in config.settings.channels.items():
        yield channel, "", ""
        others = section.groups.get("*")
        for id, group in section.groups.items():
            for sender in ("", *group.tools_by_sender, *(others.tools_by_sender if others else ())):
                yield channel, id, sender


def _models(config: Config) -> Iterator[str]:
    """A model for each section of ``byProvider``; a star where any of that provider will do."""
    for tools in (config.settings.tools, *(config.agent(id).settings.tools for id in config.agent_ids)):
        for key in tools.by_provider if tools else ():
            yield key if "/" in key else f"{key}/*"


@dataclass(frozen=True, slots=True)
class Rule:
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


def in_force(found: Judgement, config: Config) -> Iterator[tuple[str, tuple[Rule, ...], tuple[str, ...]]]:
    """Every gate and layer of a run, in order: its name, its rules, and the tools that it takes away."""
    layers: dict[str, tuple[Rule, ...]] = {}
    for one in (found, *found.spares):
        reach, model = Reach(one.loaded), "" if one is found else model_of(one)
        for layer in one.layers:
            known = layers.setdefault(layer.name, ())
            rules = [rule for rule in _rules(layer, reach, config) if rule not in known]
            layers[layer.name] = (*known, *(replace(rule, model=model) for rule in rules))
    for stage in (*OPENING, *LAYERS, *CLOSING):
        takes = tuple(name for name, ruling in found.rulings.items() if ruling.stage == stage)
        yield stage, layers.get(stage, ()), takes


def model_of(found: Judgement) -> str:
    """The model of a judgement, as ``provider/model``."""
    return f"{found.run.provider}/{found.run.model}"


def _rules(layer: Layer, reach: Reach, config: Config) -> Iterator[Rule]:
    if layer.profile:
        yield Rule("profile", (layer.profile,), layer.key, layer.whose, config.line(layer.key))
    lists: dict[tuple[str, str, str], dict[str, None]] = {}
    for kind, entries in (("allow", layer.allow or ()), ("deny", layer.deny), ("alsoAllow", layer.opens)):
        for entry in entries:
            if entry.key or not layer.profile:  # a profile's own words are known by its name
                kept = entry.key.rpartition(".")[2] or kind
                lists.setdefault((kept, entry.key, entry.whose), {})[entry.word] = None
    for (kind, key, whose), words in lists.items():
        narrows = kind != "allow" or restricts(layer, reach)
        yield Rule(kind, tuple(words), key, whose, config.line(key) if key else None, narrows)
