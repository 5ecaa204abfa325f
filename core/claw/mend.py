"""What to change in the file so that a tool gets past what stopped it (pure). Every edit can be carried out as it is."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from claw.catalog import GROUPS, SANDBOX_ALLOW, SANDBOX_DENY, normalise
from claw.config.names import dotted
from claw.policy import Judgement, Layer, Run, ToolFact
from claw.policy.judge import restricts
from claw.policy.layers import Scope, Sections
from claw.policy.reach import Reach
from claw.policy.ruling import Ruling

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_:-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
PLACEHOLDER = "VALUE"


@dataclass(frozen=True, slots=True)
class Edit:
    """One change, as data and as the command that makes it.

    :param action: set or unset a key of the file, or install a distribution.
    :param key: dotted; ``[]`` at its end is the place behind the last entry of a list.
    :param value: for set; for install the distribution. ``PLACEHOLDER`` when only the operator knows it.
    """

    action: Literal["set", "unset", "install"]
    key: str = ""
    value: Any = None

    @property
    def command(self) -> str:
        """What to type."""
        if self.action == "install":
            return shlex.join(["claw", "plugins", "install", str(self.value)])
        value = [_typed(self.value)] if self.action == "set" else []
        return shlex.join(["claw", "config", self.action, self.key, *value])


def _typed(value: Any) -> str:
    """A value as one types it: a plain word as it is, anything else as JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def edits_for(fact: ToolFact, ruling: Ruling, judged: Judgement, sections: Sections) -> tuple[Edit, ...]:
    """The smallest change that gets the tool past this ruling: mostly one edit, two where no single one can.

    Empty when no change of the file can: a tool that does not fit the channel, a plugin named like a core tool.

    :param judged: the judgement that the ruling comes from, with its own model.
    :param sections: what the layers of that judgement were built from.
    """
    layers = {layer.name: layer for layer in judged.layers}
    reach = judged.reach(fact)
    if ruling.stage in layers:
        return _through(fact, layers[ruling.stage], sections, reach, judged.run.depth)
    if ruling.stage == "optional":
        return _opt_in(fact, layers, sections, reach)
    if ruling.stage == "name":
        return hand_over(fact) if ruling.values.get("kind") != "plugin-id" else ()
    if ruling.stage == "owner-only":
        return _own(judged.run)
    if ruling.stage == "missing-setting":
        return (Edit("set", fact.lacks, PLACEHOLDER),)
    return ()


def hand_over(fact: ToolFact) -> tuple[Edit, ...]:
    """Give a name to the plugin that lost it."""
    if fact.plugin is None:
        return ()
    return (Edit("set", dotted(("tools", "suppliers", normalise(fact.name))), fact.plugin),)


def _own(run: Run) -> tuple[Edit, ...]:
    """Make the sender an owner; nobody can be named when the run has none."""
    channel, sender = run.channel.strip().lower(), run.sender.id.strip() if run.sender else ""
    return (Edit("set", "owners[]", f"{channel}:{sender}"),) if channel and sender else ()


def _through(fact: ToolFact, layer: Layer, sections: Sections, reach: Reach, depth: int) -> tuple[Edit, ...]:
    """All that this layer wants changed: each list that denies the tool, and the one that leaves it out."""
    name = normalise(fact.name)
    edits: list[Edit] = []
    for key in dict.fromkeys(entry.key for entry in layer.deny if name in reach.of(entry.word)):
        lifted = (_undeny(name, key, sections, reach),) if key else _lift(name, layer.name, sections, depth)
        if not lifted:
            return ()
        edits += lifted
    if restricts(layer, reach) and not _holds(layer, fact, reach):
        edits += _list(fact, layer, sections)
    return tuple(edits)


def _list(fact: ToolFact, layer: Layer, sections: Sections) -> tuple[Edit, ...]:
    """Add the tool to the allow list that leaves it out."""
    if layer.name == "profile":
        return _widen(fact, layer, sections.agent, sections.tools)
    if layer.name == "providerProfile":
        return _widen(fact, layer, sections.agent_provider, sections.tools_provider)
    if not layer.key:  # a sandbox with claw's own list: writing one replaces it
        return (Edit("set", f"{sections.sandboxes[-1].key}.allow", [*SANDBOX_ALLOW, fact.name]),)
    return (Edit("set", f"{layer.key}[]", fact.name),)


def _widen(fact: ToolFact, layer: Layer, first: Scope, second: Scope) -> tuple[Edit, ...]:
    """A profile is widened by alsoAllow, which may not stand beside a filled allow list."""
    if key := _wider(layer, first, second):
        return (Edit("set", f"{key}[]", fact.name),)
    return (Edit("set", layer.key, "full"),)


def _wider(layer: Layer, first: Scope, second: Scope) -> str:
    """Where alsoAllow is, or may be, written so that it widens the profile of this layer; empty when nowhere."""
    winner = first if first.also_allow is not None else second
    everybody = first.key.startswith("agents.defaults") and layer.allow is None
    named = second if layer.key == f"{second.key}.profile" or everybody else first
    # An agent's new list would hide the house's, so a list that is there is the only choice.
    choices = (winner,) if winner.also_allow is not None else (named, first, second)
    return next((f"{scope.key}.alsoAllow" for scope in choices if not scope.entries("allow")), "")


def _opt_in(
    fact: ToolFact, layers: Mapping[str, Layer], sections: Sections, reach: Reach
) -> tuple[Edit, ...]:
    """Name the tool where it passes most: in a list that would cut it next, else in an alsoAllow."""
    profile, lists = layers["profile"], (layers["global"], layers["agent"])
    wider = _wider(profile, sections.agent, sections.tools)
    cutting = [layer for layer in lists if restricts(layer, reach) and not _holds(layer, fact, reach)]
    if wider and profile.allow is not None and not _holds(profile, fact, reach):
        return (Edit("set", f"{wider}[]", fact.name),)
    if cutting:
        return (Edit("set", f"{cutting[0].key}[]", fact.name),)
    if wider:
        return (Edit("set", f"{wider}[]", fact.name),)
    # A list of nothing but plugin tools must not become one that restricts: no core tool goes in there.
    open_to = [layer for layer in lists if layer.allow and (fact.plugin or restricts(layer, reach))]
    return (Edit("set", f"{open_to[0].key}[]", fact.name),) if open_to else ()


def _holds(layer: Layer, fact: ToolFact, reach: Reach) -> bool:
    return any(normalise(fact.name) in reach.of(entry.word) for entry in layer.allow or ())


def _undeny(name: str, key: str, sections: Sections, reach: Reach) -> Edit:
    """Take the tool out of a deny list. A word that denies more gives way to what else it denies."""
    written = sections.list_at(key)
    kept: list[str] = []
    hits: list[int] = []
    for index, word in enumerate(written):
        entry = normalise(word)
        hit = reach.of(entry) if entry else frozenset[str]()
        if name not in hit:
            kept.append(word)
            continue
        hits.append(index)
        kept += sorted((GROUPS.get(entry, frozenset()) | hit) - {name})
    if len(hits) == 1 and len(kept) == len(written) - 1 and written != ("*",):
        return Edit("unset", f"{key}[{hits[0]}]")
    return Edit("set", key, list(dict.fromkeys(kept)))


def _lift(name: str, layer: str, sections: Sections, depth: int) -> tuple[Edit, ...]:
    """Lift a denial of claw's own tables, where one may."""
    if layer == "sandbox":
        rest = [word for word in (*SANDBOX_DENY, *sections.channels) if normalise(word) != name]
        return (Edit("set", f"{sections.sandboxes[-1].key}.deny", rest),)
    if name != "sessions_spawn":
        return ()
    allow = Edit("set", f"{sections.subagents[-1].key}.allowSpawn", True)
    cap = Edit("set", sections.spawn_cap_key, depth + 1)
    edits = () if sections.may_spawn else (allow,)
    return edits if depth < sections.spawn_cap else (*edits, cap)
