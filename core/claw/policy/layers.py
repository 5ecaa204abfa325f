"""From the file to nine plain values: what each layer allows and denies in this run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from claw.catalog import PROFILES, SANDBOX_ALLOW, SANDBOX_DENY, normalise, subagent_denials
from claw.config.names import dotted, id_of, value_at
from claw.message import Sender
from claw.policy.facts import Run

LAYERS = (
    *("profile", "providerProfile", "global", "globalProvider", "agent", "agentProvider"),
    *("group", "sandbox", "subagent"),
)


class Entry(NamedTuple):
    """One word of a list. A named tuple: long lists make many of them, and these are made fast.

    :param word: normalised.
    :param key: dotted key of the list it stands in; empty for a word of claw's own tables.
    :param at: its place in that list as written.
    :param whose: the id behind a list index in ``key``.
    """

    word: str
    key: str = ""
    at: int = 0
    whose: str = ""


@dataclass(frozen=True, slots=True)
class Scope:
    """A section of tool lists in the file, as read: None where it has no such key.

    :param key: dotted key of the section, also when nothing is written there yet.
    """

    key: str
    whose: str = ""
    profile: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    also_allow: tuple[str, ...] | None = None

    @property
    def lists(self) -> dict[str, tuple[str, ...] | None]:
        """Its lists by their keys, as written."""
        return {"allow": self.allow, "deny": self.deny, "alsoAllow": self.also_allow}

    def entries(self, name: str) -> tuple[Entry, ...]:
        """The words of ``allow``, ``deny`` or ``alsoAllow``; blank ones are dropped."""
        key, words = f"{self.key}.{name}", self.lists[name] or ()
        written = ((at, word) for at, word in enumerate(words) if word.strip())
        return tuple(Entry(normalise(word), key, at, self.whose) for at, word in written)

    @property
    def opens(self) -> tuple[Entry, ...]:
        """The words that opt in to optional tools."""
        return self.entries("allow") + self.entries("alsoAllow")


@dataclass(frozen=True)
class Sections:
    """All that policy reads from the file for one run.

    :param tools: the house's own; ``agent`` the agent's, in force.
    :param tools_provider: the house's section for the provider and model of the run, likewise ``agent_provider``.
    :param group: what the run's group gives, after its senders; None outside of groups.
    :param sandboxes, subagents: the agent's section first, then the house's; the first that has a list gives it.
    :param channels: names of the channels of the house.
    :param may_spawn: sub-agents may start sub-agents, down to ``spawn_cap``, which is written at ``spawn_cap_key``.
    """

    tools: Scope
    agent: Scope
    tools_provider: Scope
    agent_provider: Scope
    group: Scope | None = None
    sandboxes: tuple[Scope, ...] = ()
    subagents: tuple[Scope, ...] = ()
    channels: tuple[str, ...] = ()
    may_spawn: bool = False
    spawn_cap: int = 2
    spawn_cap_key: str = "agents.defaults.subagents.maxSpawnDepth"

    def list_at(self, key: str) -> tuple[str, ...]:
        """The words of the list at a dotted key, as written; empty when there is none."""
        named = (self.tools, self.agent, self.tools_provider, self.agent_provider, self.group)
        scopes = (scope for scope in (*named, *self.sandboxes, *self.subagents) if scope is not None)
        written = ((f"{scope.key}.{name}", words) for scope in scopes for name, words in scope.lists.items())
        return next((words for name, words in written if name == key and words is not None), ())


@dataclass(frozen=True, slots=True)
class Layer:
    """One of the nine: what it lets through.

    :param name: one of ``LAYERS``.
    :param key: dotted key whose list (or profile) decides what is let through; empty when nothing does.
    :param allow: None when the layer has no opinion, else only these pass.
    :param deny: these fall, whatever ``allow`` says.
    :param opens: the words that opt in to optional tools; they are also checked for names that nobody knows.
    :param profile: the profile behind ``allow``.
    :param strict: an allow list of nothing but plugin tools restricts, too; elsewhere it is an opt-in.
    """

    name: str
    key: str = ""
    whose: str = ""
    allow: tuple[Entry, ...] | None = None
    deny: tuple[Entry, ...] = ()
    opens: tuple[Entry, ...] = ()
    profile: str = ""
    strict: bool = False


def layers_for(config: Any, run: Run) -> tuple[Layer, ...]:
    """The nine layers of a run.

    :param config: a ``claw.config.Config``.
    :raises UsageError: there is no such agent.
    """
    return build(sections_for(config, run), run)


def build(sections: Sections, run: Run) -> tuple[Layer, ...]:
    """Nine layers, in order, from the sections that apply; a layer without opinion is there, too."""
    return (
        _profile("profile", sections.agent, sections.tools),
        _profile("providerProfile", sections.agent_provider, sections.tools_provider),
        _lists("global", sections.tools),
        _lists("globalProvider", sections.tools_provider),
        _lists("agent", sections.agent),
        _lists("agentProvider", sections.agent_provider),
        _lists("group", sections.group) if sections.group else Layer("group"),
        _sandbox(sections) if run.sandboxed else Layer("sandbox"),
        _subagent(sections, run.depth) if run.depth > 0 else Layer("subagent"),
    )


def _profile(name: str, first: Scope, second: Scope) -> Layer:
    """The agent's profile hides the house's, and its alsoAllow the house's, each for itself."""
    named = first if first.profile is not None else second
    wider = first if first.also_allow is not None else second
    profile = named.profile or ""
    if profile not in PROFILES:
        return Layer(name, f"{named.key}.profile" if profile else "", named.whose, profile=profile)
    allow = tuple(Entry(word) for word in PROFILES[profile]) + wider.entries("alsoAllow")
    return Layer(name, f"{named.key}.profile", named.whose, allow, profile=profile)


def _lists(name: str, scope: Scope) -> Layer:
    allow = scope.entries("allow")
    opens = allow + scope.entries("alsoAllow")
    return Layer(name, f"{scope.key}.allow", scope.whose, allow or None, scope.entries("deny"), opens)


def _sandbox(sections: Sections) -> Layer:
    """The agent's list, else the house's, else the safe one; an empty list is a list."""
    allowing = next((scope for scope in sections.sandboxes if scope.allow is not None), None)
    denying = next((scope for scope in sections.sandboxes if scope.deny is not None), None)
    allow = allowing.entries("allow") if allowing else _own(SANDBOX_ALLOW)
    deny = denying.entries("deny") if denying else _own((*SANDBOX_DENY, *sections.channels))
    key, whose = (f"{allowing.key}.allow", allowing.whose) if allowing else ("", "")
    opens = allowing.opens if allowing else ()
    return Layer("sandbox", key, whose, allow or None, deny, opens, strict=True)


def _subagent(sections: Sections, depth: int) -> Layer:
    spawns = sections.may_spawn and depth < sections.spawn_cap
    own = [word for word in subagent_denials(depth) if not (spawns and word == "sessions_spawn")]
    allowing = next((scope for scope in sections.subagents if scope.allow is not None), None)
    allow = allowing.opens if allowing and allowing.entries("allow") else ()
    deny = _own(own) + tuple(entry for scope in sections.subagents for entry in scope.entries("deny"))
    opens = tuple(entry for scope in sections.subagents for entry in scope.opens)
    key, whose = (f"{allowing.key}.allow", allowing.whose) if allowing else ("", "")
    return Layer("subagent", key, whose, allow or None, deny, opens, strict=True)


def _own(words: Iterable[str]) -> tuple[Entry, ...]:
    return tuple(Entry(normalise(word)) for word in words)


def sections_for(config: Any, run: Run) -> Sections:
    """Take from the file what applies to this run, each part with the key under which it is written."""
    agent = config.agent(run.agent_id or config.default_agent_id)
    house, mine = config.settings.tools, agent.settings.tools
    whose = agent.id if agent.key.startswith("agents.list") else ""
    here = agent.key_of("tools")
    # A section that all agents share is written without an agent's index, so no id explains it.
    shared = "" if here.startswith("agents.defaults") else whose
    boxes = [
        _scope(f"{here}.sandbox.tools", shared, _part(mine, "sandbox", "tools")),
        _scope(f"{agent.key_of('sandbox')}.tools", whose, agent.settings.sandbox.tools),
        _scope("tools.sandbox.tools", "", _part(house, "sandbox", "tools")),
    ]
    broods = [
        _scope(f"{here}.subagents.tools", shared, _part(mine, "subagents", "tools")),
        _scope("tools.subagents.tools", "", _part(house, "subagents", "tools")),
    ]
    return Sections(
        tools=_scope("tools", "", house),
        agent=_scope(here, shared, mine),
        tools_provider=_for_provider("tools", "", house, run),
        agent_provider=_for_provider(here, shared, mine, run),
        group=for_group(config, run),
        sandboxes=tuple(boxes),
        subagents=tuple(broods),
        channels=tuple(config.settings.channels),
        may_spawn=any(_part(part, "subagents", "tools", "allow_spawn") for part in (mine, house)),
        spawn_cap=agent.settings.subagents.max_spawn_depth,
        spawn_cap_key=f"{agent.key_of('subagents')}.maxSpawnDepth",
    )


def _part(section: Any, *names: str) -> Any:
    for name in names:
        section = getattr(section, name, None)
    return section


def _scope(key: str, whose: str, lists: Any) -> Scope:
    """A section as written; ``deny`` is None unless it is there, for an empty list may replace another."""
    if lists is None:
        return Scope(key, whose)
    deny = lists.deny if "deny" in lists.model_fields_set else None
    return Scope(key, whose, getattr(lists, "profile", None), lists.allow, deny, lists.also_allow)


def _for_provider(key: str, whose: str, lists: Any, run: Run) -> Scope:
    """The section for ``provider/model`` if there is one, else the section for ``provider``, never both."""
    by_provider: dict[str, Any] = getattr(lists, "by_provider", None) or {}
    provider, model = run.provider.strip().lower(), run.model.strip().lower()
    written = {name.strip().lower(): name for name in reversed(by_provider)}
    for wanted in (f"{provider}/{model}", provider):
        if provider and wanted in written and not (wanted.endswith("/") and not model):
            name = written[wanted]
            return _scope(f"{key}.byProvider{_step(name)}", whose, by_provider[name])
    return Scope(f"{key}.byProvider{_step(provider)}" if provider else "", whose)


def _step(name: str) -> str:
    text = dotted((name,))
    return text if text.startswith("[") else f".{text}"


def for_group(config: Any, run: Run) -> Scope | None:
    """What the file gives in a group: first hit of a sender in this group, this group, a sender in the default entry, the
    default entry. An account's own groups stand in the place of the channel's; None where nothing is said.
    """
    wanted = run.channel.strip().lower()
    channel = next((name for name in config.settings.channels if name.lower() == wanted), None)
    if run.group is None or channel is None:
        return None
    section, path = config.settings.channels[channel], [channel]
    account = section.accounts.get(run.account.strip())
    if account is not None and "groups" in account.model_fields_set:
        section, path = account, [channel, "accounts", run.account.strip()]
    for name in (run.group, "*"):
        group = section.groups.get(name)
        if group is None:
            continue
        key, whose = _group_key(config.raw, path, name)
        if (sender := sender_key(group.tools_by_sender, run.sender)) is not None:
            return _scope(f"{key}.toolsBySender{_step(sender)}", whose, group.tools_by_sender[sender])
        if group.tools is not None:
            return _scope(f"{key}.tools", whose, group.tools)
    return None


def _group_key(raw: Mapping[str, Any], path: Sequence[str], name: str) -> tuple[str, str]:
    """Where a group is written: below ``channels`` or at the top, in a map or in a list (then its id explains it)."""
    held = raw.get("channels") or {}
    head = ("channels", *path) if path[0] in held else tuple(path)
    groups = value_at(raw, (*head, "groups"))
    ids = [*map(id_of, groups)] if isinstance(groups, list) else []
    if name in ids:
        return dotted((*head, "groups", ids.index(name))), name
    return dotted((*head, "groups", name)), ""


def sender_key(keys: Iterable[str], sender: Sender | None) -> str | None:
    """The key of a by-sender map that fits best: id, then e164, username, name, then ``*``.

    A key without a prefix is an id. Case and outer blanks do not count, nor does an @ before a username or a bare key.
    """
    wanted = dict.fromkeys(("id", "e164", "username", "name"), "")
    if sender is not None:
        wanted = {kind: _person(getattr(sender, kind) or "") for kind in wanted}
    read: dict[tuple[str, str], str] = {}
    for key in keys:
        if key.strip() == "*":
            read.setdefault(("*", ""), key)
            continue
        prefix, _, value = key.partition(":")
        kind = prefix.strip().lower()
        kind, value = (kind, value) if kind in wanted and ":" in key else ("id", key)
        read.setdefault((kind, _person(value)), key)
    for kind, value in wanted.items():
        if value and (kind, value) in read:
            return read[kind, value]
    return read.get(("*", ""))


def _person(text: str) -> str:
    return text.strip().lower().removeprefix("@").strip()
