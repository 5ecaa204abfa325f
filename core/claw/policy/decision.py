"""Results of the policy: a ruling for each tool, and the judgement that contains them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from claw.i18n import t
from claw.policy.layers import Layer, ListEntry
from claw.policy.subjects import RunFacts, ToolFact


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision about one tool, with its cause.

    :param stage: the check or layer that denied it; empty when it is allowed.
    :param key: dotted key of the list (or setting) that decided; empty when claw's own tables did.
    :param entry: the list entry that matched, for a denial.
    :param owner_id: the id that a list index in ``key`` refers to: an agent's or a group's.
    :param template: English template of the reason; ``values`` fills it.
    :param fallback: the fallback model (``provider/model``) for which it was denied.
    """

    allowed: bool
    stage: str = ""
    key: str = ""
    entry: ListEntry | None = None
    owner_id: str = ""
    template: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    fallback: str = ""

    @property
    def pattern(self) -> str | None:
        """The word of a deny list that matched."""
        return self.entry.word if self.entry else None

    @property
    def shown_key(self) -> str:
        """The key as people read it: ``agents.list[0].tools.allow (coder)``."""
        return f"{self.key} ({self.owner_id})" if self.owner_id else self.key

    @property
    def reason(self) -> str:
        """The reason of a denial, in the language in use, with the key. Empty when the tool is allowed."""
        if not self.template:
            return ""
        text = t(self.template, key=self.shown_key, pattern=self.pattern or "", **self.values)
        if not self.fallback:
            return text
        return t("{reason}, because of fallback {model}", reason=text, model=self.fallback)


ALLOWED = Ruling(True)


_CONFLICTS = {
    "reserved": "its name {name} is reserved for a core tool (provided by {holder})",
    "taken": "plugin {holder} already provides the name {name}",
    "twice": "its plugin provides the name {name} more than once",
    "plugin-id": "its plugin has the name of the core tool {holder}, so none of its tools is used",
    "handed": "{key} assigns its name {name} to the plugin {holder}",
}


SKIPPED = "tool {name} of plugin {id} is skipped: {why}"
SKIPPED_FIX = "claw config set tools.suppliers.{name} {id}, or uninstall one of the plugins"


@dataclass(frozen=True, slots=True)
class NameConflict:
    """A tool that is skipped because another plugin owns its name.

    :param kind: ``reserved`` (for a core tool), ``taken`` (another plugin was first), ``twice`` (its own plugin has
        an earlier tool of this name), ``plugin-id`` (the id of the
        plugin is the name of a core tool) or ``handed`` (``tools.suppliers`` assigns the name to another plugin).
    :param holder: the plugin that owns the name or would own it; empty when none supplies it.
    """

    fact: ToolFact
    kind: str
    holder: str

    @property
    def ruling(self) -> Ruling:
        """The ruling that denies this tool."""
        key = "tools.suppliers" if self.kind == "handed" else ""
        values = {"name": self.fact.name, "holder": self.holder or t("none yet"), "kind": self.kind}
        return Ruling(False, "name", key, template=_CONFLICTS[self.kind], values=values)

    def __str__(self) -> str:
        return t(SKIPPED, **self.names)

    @property
    def names(self) -> dict[str, str]:
        """The values of ``SKIPPED`` and ``SKIPPED_FIX``."""
        plugin = self.fact.plugin or self.fact.supplier
        return {"name": self.fact.name, "id": plugin, "why": self.ruling.reason}


@dataclass(frozen=True)
class Judgement:
    """The rulings on every tool of a run, and their input.

    :param positions: indexes of the allowed tools in ``facts``, in order.
    :param loaded: the facts that reached the layers: opted in, and owners of their names.
    :param fallbacks: the judgements for the fallback models of this run, whose layers apply too.
    """

    run: RunFacts
    facts: tuple[ToolFact, ...]
    layers: tuple[Layer, ...]
    rulings: Mapping[str, Ruling]
    positions: tuple[int, ...]
    loaded: tuple[ToolFact, ...]
    conflicts: tuple[NameConflict, ...] = ()
    fallbacks: tuple["Judgement", ...] = ()

    @property
    def allowed_names(self) -> tuple[str, ...]:
        """Names of the allowed tools, in order of registration."""
        return tuple(self.facts[at].name for at in self.positions)
