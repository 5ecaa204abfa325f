"""What policy answers: a ruling for each tool, and the judgement they were made in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from claw.catalog import normalise
from claw.policy.facts import Run, ToolFact
from claw.policy.layers import Entry, Layer
from claw.policy.reach import Reach
from claw.words import say


@dataclass(frozen=True, slots=True)
class Ruling:
    """What was decided about one tool, and by what.

    :param stage: the gate or layer that took it away; empty when it stands.
    :param key: dotted key of the list (or setting) that decided; empty when claw's own tables did.
    :param entry: the list entry that hit, for a denial.
    :param whose: the id behind a list index in ``key``: an agent's or a group's.
    :param template: English template of the reason, ``values`` what it names.
    :param spare: the fallback model (``provider/model``) because of which it fell.
    """

    allowed: bool
    stage: str = ""
    key: str = ""
    entry: Entry | None = None
    whose: str = ""
    template: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    spare: str = ""

    @property
    def pattern(self) -> str | None:
        """The word in a deny list that hit."""
        return self.entry.word if self.entry else None

    @property
    def place(self) -> str:
        """The key as people read it: ``agents.list[0].tools.allow (coder)``."""
        return f"{self.key} ({self.whose})" if self.whose else self.key

    @property
    def reason(self) -> str:
        """Why it fell, in the language in use; names the key. Empty when it stands."""
        if not self.template:
            return ""
        text = say(self.template, key=self.place, pattern=self.pattern or "", **self.values)
        if not self.spare:
            return text
        return say("{reason}, because of fallback {model}", reason=text, model=self.spare)


STANDS = Ruling(True)


_CONFLICTS = {
    "reserved": "its name {name} is kept for a core tool (supplied by {holder})",
    "taken": "plugin {holder} brought the name {name} before",
    "plugin-id": "its plugin is called like the core tool {holder}, so none of its tools is taken",
    "handed": "{key} gives its name {name} to the plugin {holder}",
}


@dataclass(frozen=True, slots=True)
class Conflict:
    """A tool that was set aside because its name belongs to somebody else.

    :param kind: ``reserved`` (kept for a core tool), ``taken`` (another plugin was first), ``plugin-id`` (the plugin
        is called like a core tool) or ``handed`` (``tools.suppliers`` gives the name to another plugin).
    :param holder: the plugin that has the name, or would; empty when nobody supplies it.
    """

    fact: ToolFact
    kind: str
    holder: str

    @property
    def ruling(self) -> Ruling:
        """The refusal of this tool."""
        key = "tools.suppliers" if self.kind == "handed" else ""
        values = {"name": self.fact.name, "holder": self.holder or say("nobody yet"), "kind": self.kind}
        return Ruling(False, "name", key, template=_CONFLICTS[self.kind], values=values)

    def __str__(self) -> str:
        names = {"name": self.fact.name, "id": self.fact.plugin or self.fact.supplier}
        return say("tool {name} of plugin {id} is skipped: {why}", why=self.ruling.reason, **names)


@dataclass(frozen=True)
class Judgement:
    """The rulings on every tool of a run, and what they were made from.

    :param positions: of the standing tools in the facts that were judged, in their order.
    :param loaded: the facts that were judged by the layers: opted in, and owners of their names.
    :param unknown: per layer the allow-list entries that name nothing, normalised and sorted.
    :param spares: the judgements for the other models of this run, whose layers count as well.
    """

    run: Run
    facts: tuple[ToolFact, ...]
    layers: tuple[Layer, ...]
    rulings: Mapping[str, Ruling]
    positions: tuple[int, ...]
    loaded: tuple[ToolFact, ...]
    conflicts: tuple[Conflict, ...] = ()
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spares: tuple["Judgement", ...] = ()

    @property
    def standing(self) -> tuple[str, ...]:
        """Names of the tools that may be used, in order of registration."""
        return tuple(self.facts[at].name for at in self.positions)

    @cached_property
    def named(self) -> Mapping[str, tuple[ToolFact, ...]]:
        """Normalised name → the tools of that name: first the one that stands, then those that were loaded."""
        names: dict[str, dict[int, ToolFact]] = {}
        for fact in (*map(self.facts.__getitem__, self.positions), *self.loaded, *self.facts):
            names.setdefault(normalise(fact.name), {}).setdefault(id(fact), fact)
        return {name: tuple(facts.values()) for name, facts in names.items()}

    def reach(self, fact: ToolFact) -> Reach:
        """What the words of lists stand for among the loaded tools and ``fact``."""
        return self._reach if id(fact) in self._kept else Reach((*self.loaded, fact))

    @cached_property
    def _reach(self) -> Reach:
        return Reach(self.loaded)

    @cached_property
    def _kept(self) -> frozenset[int]:
        return frozenset(map(id, self.loaded))

    @property
    def owners(self) -> tuple[str | None, ...]:
        """For each standing tool its plugin, or None for a core tool."""
        return tuple(self.facts[at].plugin for at in self.positions)
