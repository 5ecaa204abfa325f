"""Fixes: the config edits that let a tool pass what stopped it (pure). Every edit can be applied as it is."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from claw.runtime import (
    SANDBOX_ALLOW,
    SANDBOX_DENY,
    TOOL_GROUPS,
    Judgement,
    Layer,
    ListScope,
    PolicySections,
    Ruling,
    RunFacts,
    ToolFact,
    ToolMatcher,
    format_key,
    normalise_tool_name,
    restricts,
)

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_:-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
PLACEHOLDER = "VALUE"


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """One change, as data and as the command that makes it.

    :param action: set or unset a key of the file, or install a distribution.
    :param key: dotted; ``[]`` at its end appends to a list.
    :param value: for set; for install the distribution. ``PLACEHOLDER`` when only the operator knows it.
    """

    action: Literal["set", "unset", "install"]
    key: str = ""
    value: Any = None

    @property
    def command(self) -> str:
        """The command line to type."""
        if self.action == "install":
            return shlex.join(["claw", "plugins", "install", str(self.value)])
        value = [_as_typed(self.value)] if self.action == "set" else []
        return shlex.join(["claw", "config", self.action, self.key, *value])


def _as_typed(value: Any) -> str:
    """Return a value as one types it: a plain word as it is, anything else as JSON."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


def edits_for(
    fact: ToolFact, ruling: Ruling, judged: Judgement, matcher: ToolMatcher, sections: PolicySections
) -> tuple[ConfigEdit, ...]:
    """Return the smallest change that gets the tool past this ruling: mostly one edit, sometimes two.

    Empty when no change of the file can: a tool that does not fit the channel, a plugin named like a core
    tool.

    :param judged: the judgement that the ruling comes from, with its own model.
    :param matcher: the lookup of list words among the tools of that judgement and this one.
    :param sections: what the layers of that judgement were built from.
    """
    layers = {layer.name: layer for layer in judged.layers}
    if ruling.stage in layers:
        return _unblock(fact, layers[ruling.stage], sections, matcher, judged.run.depth)
    if ruling.stage == "optional":
        return _opt_in(fact, layers, sections, matcher)
    if ruling.stage == "name":
        return edit_for_name(fact) if ruling.values.get("kind") not in ("plugin-id", "twice") else ()
    if ruling.stage == "owner-only":
        return _add_owner(judged.run)
    if ruling.stage == "missing-setting":
        return (ConfigEdit("set", fact.missing_setting, PLACEHOLDER),)
    return ()


def edit_for_name(fact: ToolFact) -> tuple[ConfigEdit, ...]:
    """Give a name to the plugin that lost it."""
    if fact.plugin is None:
        return ()
    key = format_key(("tools", "suppliers", normalise_tool_name(fact.name)))
    return (ConfigEdit("set", key, fact.plugin),)


def _add_owner(run: RunFacts) -> tuple[ConfigEdit, ...]:
    """Return the edit that makes the sender an owner; nothing when the run has no sender."""
    channel, sender = run.channel.strip().lower(), run.sender.id.strip() if run.sender else ""
    return (ConfigEdit("set", "owners[]", f"{channel}:{sender}"),) if channel and sender else ()


def _unblock(
    fact: ToolFact, layer: Layer, sections: PolicySections, matcher: ToolMatcher, depth: int
) -> tuple[ConfigEdit, ...]:
    """Return the edits that this layer needs: for each list that denies the tool, and for the one that
    leaves it out."""
    name = normalise_tool_name(fact.name)
    edits: list[ConfigEdit] = []
    for key in dict.fromkeys(entry.key for entry in layer.deny if name in matcher.match(entry.word)):
        lifted = (_undeny(name, key, sections, matcher),) if key else _lift(name, layer.name, sections, depth)
        if not lifted:
            return ()
        edits += lifted
    if restricts(layer, matcher) and not _allows(layer, fact, matcher):
        edits += _allow(fact, layer, sections)
    return tuple(edits)


def _allow(fact: ToolFact, layer: Layer, sections: PolicySections) -> tuple[ConfigEdit, ...]:
    """Return the edit that adds the tool to the allow list that leaves it out."""
    if layer.name == "profile":
        return _widen(fact, layer, sections.agent, sections.tools)
    if layer.name == "providerProfile":
        return _widen(fact, layer, sections.agent_provider, sections.tools_provider)
    if not layer.key:  # a sandbox with claw's own list: writing one replaces it
        return (ConfigEdit("set", f"{sections.sandboxes[-1].key}.allow", [*SANDBOX_ALLOW, fact.name]),)
    return (ConfigEdit("set", f"{layer.key}[]", fact.name),)


def _widen(fact: ToolFact, layer: Layer, first: ListScope, second: ListScope) -> tuple[ConfigEdit, ...]:
    """Return the edit that widens a profile: by alsoAllow, which may not stand beside a filled allow list."""
    if key := _also_allow(layer, first, second):
        return (ConfigEdit("set", f"{key}[]", fact.name),)
    return (ConfigEdit("set", layer.key, "full"),)


def _also_allow(layer: Layer, first: ListScope, second: ListScope) -> str:
    """Return the key of an alsoAllow that widens, or may widen, this profile; empty when there is none."""
    winner = first if first.also_allow is not None else second
    for_all_agents = first.key.startswith("agents.defaults") and layer.allow is None
    named = second if layer.key == f"{second.key}.profile" or for_all_agents else first
    # An agent's new list would hide the global one, so an existing list is the only choice.
    choices = (winner,) if winner.also_allow is not None else (named, first, second)
    return next((f"{scope.key}.alsoAllow" for scope in choices if not scope.entries("allow")), "")


def _opt_in(
    fact: ToolFact, layers: Mapping[str, Layer], sections: PolicySections, matcher: ToolMatcher
) -> tuple[ConfigEdit, ...]:
    """Return the edit that names the tool where it passes most: a list that would cut it next, else an
    alsoAllow."""
    profile, lists = layers["profile"], (layers["global"], layers["agent"])
    wider = _also_allow(profile, sections.agent, sections.tools)
    cutting = [layer for layer in lists if restricts(layer, matcher) and not _allows(layer, fact, matcher)]
    if wider and profile.allow is not None and not _allows(profile, fact, matcher):
        return (ConfigEdit("set", f"{wider}[]", fact.name),)
    if cutting:
        return (ConfigEdit("set", f"{cutting[0].key}[]", fact.name),)
    if wider:
        return (ConfigEdit("set", f"{wider}[]", fact.name),)
    # A list of plugin tools only would begin to restrict with a core tool in it.
    open_to = [layer for layer in lists if layer.allow and (fact.plugin or restricts(layer, matcher))]
    return (ConfigEdit("set", f"{open_to[0].key}[]", fact.name),) if open_to else ()


def _allows(layer: Layer, fact: ToolFact, matcher: ToolMatcher) -> bool:
    return any(normalise_tool_name(fact.name) in matcher.match(entry.word) for entry in layer.allow or ())


def _undeny(name: str, key: str, sections: PolicySections, matcher: ToolMatcher) -> ConfigEdit:
    """Return the edit that takes the tool out of a deny list. A group that denies more gives way to the
    rest of its tools."""
    written = _list_at(sections, key)
    kept: list[str] = []
    hits: list[int] = []
    for index, word in enumerate(written):
        entry = normalise_tool_name(word)
        hit = matcher.match(entry) if entry else frozenset[str]()
        if name not in hit:
            kept.append(word)
            continue
        hits.append(index)
        kept += sorted((TOOL_GROUPS.get(entry, frozenset()) | hit) - {name})
    if len(hits) == 1 and len(kept) == len(written) - 1 and written != ("*",):
        return ConfigEdit("unset", f"{key}[{hits[0]}]")
    return ConfigEdit("set", key, list(dict.fromkeys(kept)))


def _list_at(sections: PolicySections, key: str) -> tuple[str, ...]:
    """Return the words of the list at a dotted key, as written; empty when there is none."""
    named = (sections.tools, sections.agent, sections.tools_provider, sections.agent_provider, sections.group)
    scopes = (scope for scope in (*named, *sections.sandboxes, *sections.subagents) if scope is not None)
    written = ((f"{scope.key}.{name}", words) for scope in scopes for name, words in scope.lists.items())
    return next((words for name, words in written if name == key and words is not None), ())


def _lift(name: str, layer: str, sections: PolicySections, depth: int) -> tuple[ConfigEdit, ...]:
    """Return the edits that lift a denial of claw's own tables, where that is allowed."""
    if layer == "sandbox":
        rest = [word for word in (*SANDBOX_DENY, *sections.channels) if normalise_tool_name(word) != name]
        return (ConfigEdit("set", f"{sections.sandboxes[-1].key}.deny", rest),)
    if name != "sessions_spawn":
        return ()
    allow = ConfigEdit("set", f"{sections.subagents[-1].key}.allowSpawn", True)
    cap = ConfigEdit("set", sections.spawn_cap_key, depth + 1)
    edits = () if sections.may_spawn else (allow,)
    return edits if depth < sections.spawn_cap else (*edits, cap)
