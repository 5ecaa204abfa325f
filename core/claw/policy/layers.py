"""The nine layers, read from the config: the words that each layer allows and denies in a run."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from claw.config.paths import format_key
from claw.contracts.messages import Sender
from claw.policy.catalog import PROFILES, SANDBOX_ALLOW, SANDBOX_DENY, normalise_tool_name, subagent_denials
from claw.policy.subjects import RunFacts
from claw.security.admission import AccountRules

if TYPE_CHECKING:
    from claw.config.loader import Config

LAYERS = (
    *("profile", "providerProfile", "global", "globalProvider", "agent", "agentProvider"),
    *("group", "sandbox", "subagent"),
)


class ListEntry(NamedTuple):
    """One word of a list. A named tuple, because long lists create many of them and creation must be fast.

    :param word: normalised.
    :param key: dotted key of the list that contains it; empty for a word of claw's own tables.
    :param at: its index in that list as written.
    :param whose: the id of the list entry that an index in ``key`` refers to.
    """

    word: str
    key: str = ""
    at: int = 0
    owner_id: str = ""


@dataclass(frozen=True, slots=True)
class ListScope:
    """A section of tool lists in the config, as read: None for each key that is absent.

    :param key: dotted key of the section, also when the file does not have it yet.
    """

    key: str
    owner_id: str = ""
    profile: str | None = None
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] | None = None
    also_allow: tuple[str, ...] | None = None

    @property
    def lists(self) -> dict[str, tuple[str, ...] | None]:
        """The lists by key, as written."""
        return {"allow": self.allow, "deny": self.deny, "alsoAllow": self.also_allow}

    def entries(self, name: str) -> tuple[ListEntry, ...]:
        """Return the words of ``allow``, ``deny`` or ``alsoAllow`` without blank ones."""
        key, words = f"{self.key}.{name}", self.lists[name] or ()
        written = ((at, word) for at, word in enumerate(words) if word.strip())
        return tuple(ListEntry(normalise_tool_name(word), key, at, self.owner_id) for at, word in written)

    @property
    def opt_ins(self) -> tuple[ListEntry, ...]:
        """The words that opt in to optional tools."""
        return self.entries("allow") + self.entries("alsoAllow")


@dataclass(frozen=True)
class PolicySections:
    """All config sections that the policy reads for one run.

    :param tools: the global section; ``agent`` is the effective section of the agent.
    :param tools_provider: the global section for the provider and model of the run, likewise ``agent_provider``.
    :param group: the section for the run's group and sender; None outside of groups.
    :param sandboxes, subagents: the agent's section first, then the global one; the first that has a list supplies it.
    :param channels: names of the configured channels.
    :param may_spawn: sub-agents may start sub-agents, down to ``spawn_cap``, which is written at ``spawn_cap_key``.
    """

    tools: ListScope
    agent: ListScope
    tools_provider: ListScope
    agent_provider: ListScope
    group: ListScope | None = None
    sandboxes: tuple[ListScope, ...] = ()
    subagents: tuple[ListScope, ...] = ()
    channels: tuple[str, ...] = ()
    may_spawn: bool = False
    spawn_cap: int = 2
    spawn_cap_key: str = "agents.defaults.subagents.maxSpawnDepth"


@dataclass(frozen=True, slots=True)
class Layer:
    """One of the nine policy layers.

    :param name: one of ``LAYERS``.
    :param key: dotted key of the list (or profile) that decides what is allowed; empty when none does.
    :param allow: None when the layer does not restrict, else only these pass.
    :param deny: these are denied, whatever ``allow`` says.
    :param opt_ins: the words that opt in to optional tools; they are also checked for unknown names.
    :param profile: the profile that ``allow`` comes from.
    :param strict: an allow list of plugin tools alone restricts too; in other layers it is an opt-in.
    """

    name: str
    key: str = ""
    owner_id: str = ""
    allow: tuple[ListEntry, ...] | None = None
    deny: tuple[ListEntry, ...] = ()
    opt_ins: tuple[ListEntry, ...] = ()
    profile: str = ""
    strict: bool = False


def layers_for(config: "Config", run: RunFacts) -> tuple[Layer, ...]:
    """Return the nine layers of a run.

    :raises UsageError: there is no such agent.
    """
    return build_layers(sections_for(config, run), run)


def build_layers(sections: PolicySections, run: RunFacts) -> tuple[Layer, ...]:
    """Build the nine layers, in order, from the sections that apply; a layer that does not restrict is included."""
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


def _profile(name: str, first: ListScope, second: ListScope) -> Layer:
    """Build a profile layer. The agent's ``profile`` and ``alsoAllow`` each override the global one independently."""
    named = first if first.profile is not None else second
    extra = first if first.also_allow is not None else second
    profile = named.profile or ""
    if profile not in PROFILES:
        return Layer(name, f"{named.key}.profile" if profile else "", named.owner_id, profile=profile)
    allow = tuple(ListEntry(word) for word in PROFILES[profile]) + extra.entries("alsoAllow")
    return Layer(name, f"{named.key}.profile", named.owner_id, allow, profile=profile)


def _lists(name: str, scope: ListScope) -> Layer:
    allow = scope.entries("allow")
    opens = allow + scope.entries("alsoAllow")
    return Layer(name, f"{scope.key}.allow", scope.owner_id, allow or None, scope.entries("deny"), opens)


def _sandbox(sections: PolicySections) -> Layer:
    """Build the sandbox layer: the agent's list, else the global one, else the safe default. An empty list counts."""
    allowing, denying = _first_with("allow", sections.sandboxes), _first_with("deny", sections.sandboxes)
    allow = allowing.entries("allow") if allowing.key else _builtin_entries(SANDBOX_ALLOW)
    own = (*SANDBOX_DENY, *sections.channels)
    deny = denying.entries("deny") if denying.key else _builtin_entries(own)
    key = f"{allowing.key}.allow" if allowing.key else ""
    return Layer("sandbox", key, allowing.owner_id, allow or None, deny, allowing.opt_ins, strict=True)


def _subagent(sections: PolicySections, depth: int) -> Layer:
    may_spawn = sections.may_spawn and depth < sections.spawn_cap
    own = [word for word in subagent_denials(depth) if not (may_spawn and word == "sessions_spawn")]
    allowing = _first_with("allow", sections.subagents)
    allow = allowing.opt_ins if allowing.entries("allow") else None
    denied = (entry for scope in sections.subagents for entry in scope.entries("deny"))
    opens = tuple(entry for scope in sections.subagents for entry in scope.opt_ins)
    key, deny = f"{allowing.key}.allow" if allowing.key else "", (*_builtin_entries(own), *denied)
    return Layer("subagent", key, allowing.owner_id, allow, deny, opens, strict=True)


def _first_with(name: str, scopes: Iterable[ListScope]) -> ListScope:
    """Return the first section that has a list of this name; one without a key and without lists if none has."""
    return next((scope for scope in scopes if scope.lists[name] is not None), ListScope(""))


def _builtin_entries(words: Iterable[str]) -> tuple[ListEntry, ...]:
    return tuple(ListEntry(normalise_tool_name(word)) for word in words)


def sections_for(config: "Config", run: RunFacts) -> PolicySections:
    """Read the config sections that apply to this run, each with the key where it is written."""
    agent = config.agent(run.agent_id or config.default_agent_id)
    global_tools, agent_tools = config.settings.tools, agent.settings.tools
    whose = agent.id if agent.key.startswith("agents.list") else ""
    agent_tools_key = agent.key_of("tools")
    # The key of a section that all agents share has no agent's index, so there is no id to show beside it.
    shared = "" if agent_tools_key.startswith("agents.defaults") else whose
    sandboxes = (
        _scope(f"{agent_tools_key}.sandbox.tools", shared, _nested(agent_tools, "sandbox", "tools")),
        _scope(f"{agent.key_of('sandbox')}.tools", whose, agent.settings.sandbox.tools),
        _scope("tools.sandbox.tools", "", _nested(global_tools, "sandbox", "tools")),
    )
    subagents = (
        _scope(f"{agent_tools_key}.subagents.tools", shared, _nested(agent_tools, "subagents", "tools")),
        _scope("tools.subagents.tools", "", _nested(global_tools, "subagents", "tools")),
    )
    spawns = (_nested(one, "subagents", "tools", "allow_spawn") for one in (agent_tools, global_tools))
    return PolicySections(
        tools=_scope("tools", "", global_tools),
        agent=_scope(agent_tools_key, shared, agent_tools),
        tools_provider=_for_provider("tools", "", global_tools, run),
        agent_provider=_for_provider(agent_tools_key, shared, agent_tools, run),
        group=group_scope(config, run),
        sandboxes=sandboxes,
        subagents=subagents,
        channels=tuple(config.settings.channels),
        may_spawn=any(spawns),
        spawn_cap=agent.settings.subagents.max_spawn_depth,
        spawn_cap_key=f"{agent.key_of('subagents')}.maxSpawnDepth",
    )


def _nested(section: Any, *names: str) -> Any:
    for name in names:
        section = getattr(section, name, None)
    return section


def _scope(key: str, whose: str, lists: Any) -> ListScope:
    """Return a section as written. ``deny`` is None unless the file has it, as an empty list may override another."""
    if lists is None:
        return ListScope(key, whose)
    deny = lists.deny if "deny" in lists.model_fields_set else None
    return ListScope(key, whose, getattr(lists, "profile", None), lists.allow, deny, lists.also_allow)


def _for_provider(key: str, whose: str, lists: Any, run: RunFacts) -> ListScope:
    """Return the section for ``provider/model`` if there is one, else the section for ``provider``, never both."""
    by_provider: dict[str, Any] = getattr(lists, "by_provider", None) or {}
    provider, model = run.provider.strip().lower(), run.model.strip().lower()
    written = {name.strip().lower(): name for name in reversed(by_provider)}
    for wanted in (f"{provider}/{model}", provider) if model else (provider,):
        if provider and wanted in written:
            name = written[wanted]
            return _scope(f"{key}.byProvider{_key_step(name)}", whose, by_provider[name])
    return ListScope(f"{key}.byProvider{_key_step(provider)}" if provider else "", whose)


def _key_step(name: str) -> str:
    text = format_key((name,))
    return text if text.startswith("[") else f".{text}"


def group_scope(config: "Config", run: RunFacts) -> ListScope | None:
    """Return the section for a group: the first match of a sender in this group, this group, a sender in the default
    entry, the default entry. Groups of an account replace those of the channel. None when no entry matches.
    """
    rules = AccountRules.of(config, run.channel.strip().lower(), run.account.strip())
    groups = rules.get("groups") if rules.channel and run.group is not None else {}
    for name in (run.group or "", "*"):
        group = groups.get(name)
        if group is None:
            continue
        place = rules.place("groups", name)
        key, whose = format_key(place), name if isinstance(place[-1], int) else ""
        if (sender := sender_key(group.tools_by_sender, run.sender)) is not None:
            return _scope(f"{key}.toolsBySender{_key_step(sender)}", whose, group.tools_by_sender[sender])
        if group.tools is not None:
            return _scope(f"{key}.tools", whose, group.tools)
    return None


def sender_key(keys: Iterable[str], sender: Sender | None) -> str | None:
    """Return the best matching key of a by-sender map: id, then e164, username, name, then ``*``.

    A key without a prefix is an id. Case, outer blanks, and an @ before a username or a bare key are ignored.
    """
    kinds = ("id", "e164", "username", "name")
    wanted = {kind: _normalise_person(getattr(sender, kind, None) or "") for kind in kinds}
    read: dict[tuple[str, str], str] = {}
    for key in keys:
        if key.strip() == "*":
            read.setdefault(("*", ""), key)
            continue
        prefix, _, value = key.partition(":")
        kind = prefix.strip().lower()
        kind, value = (kind, value) if kind in wanted and ":" in key else ("id", key)
        read.setdefault((kind, _normalise_person(value)), key)
    for kind, value in wanted.items():
        if value and (kind, value) in read:
            return read[kind, value]
    return read.get(("*", ""))


def _normalise_person(text: str) -> str:
    return text.strip().lower().removeprefix("@").strip()
