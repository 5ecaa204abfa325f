"""Route: may this sender talk, to which agent, in which session. Pure.

A session key is ``agent:AGENT:REST``, in lower case; REST is ``main``, ``direct:P``, ``CHANNEL:direct:P``,
``CHANNEL:group:ID``, ``subagent:UUID``, ``cron:JOB[:run:RUN]`` and the like (spec runtime E5).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from claw.config.names import normalise_agent_id
from claw.guard.admission import is_listed, is_owner
from claw.message import Inbound, Sender

Scope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]

TERMINAL = "terminal"
LOCAL = Sender("local", name="you")
"""The person at the terminal."""

_OLD_DISCORD = re.compile(r"discord:(?:[^:]+:)?guild-[^:]+:channel-[^:]+")
_THREAD = re.compile(r":(?:thread|topic):[^:]*$")


@dataclass(frozen=True, slots=True)
class SessionKey:
    """What a session key says.

    :param agent_id: as written in the key; None when it names no agent.
    :param rest: behind the agent; None likewise.
    :param shape: agent, malformed_agent, legacy_or_alias or missing.
    :param resolved_agent_id: an id that can be looked up, the default's when the key names none.
    :param thread_parent: the key without its thread or topic; None when it has none.
    """

    agent_id: str | None
    rest: str | None
    shape: str
    resolved_agent_id: str
    chat_type: str = "unknown"
    is_subagent: bool = False
    subagent_depth: int = 0
    is_cron: bool = False
    is_cron_run: bool = False
    is_acp: bool = False
    thread_parent: str | None = None


def parse_key(key: str, default_agent: str = "default") -> SessionKey:
    """Read a session key; anything is accepted, ``shape`` says what it was.

    :param default_agent: the id that a key without an agent resolves to.
    """
    text = (key or "").strip().lower()
    parts = [part for part in text.split(":") if part]
    if not text:
        return SessionKey(None, None, "missing", default_agent)
    if not text.startswith("agent:") or not parts or parts[0] != "agent":
        return SessionKey(
            None, None, "legacy_or_alias", default_agent, _chat_type(text), text.startswith("subagent:")
        )
    if len(parts) < 3:
        return SessionKey(None, None, "malformed_agent", default_agent)
    agent, rest = parts[1], ":".join(parts[2:])
    thread = _THREAD.search(rest)
    return SessionKey(
        agent_id=agent,
        rest=rest,
        shape="agent",
        resolved_agent_id=normalise_agent_id(agent, default_agent),
        chat_type=_chat_type(rest),
        is_subagent=rest.startswith("subagent:"),
        subagent_depth=f":{rest}".count(":subagent:"),
        is_cron=rest.startswith("cron:"),
        is_cron_run=re.fullmatch(r"cron:[^:]+:run:[^:]+", rest) is not None,
        is_acp=rest.startswith("acp:"),
        thread_parent=f"agent:{agent}:{rest[: thread.start()]}" if thread else None,
    )


def _chat_type(rest: str) -> str:
    parts = rest.split(":")
    if "group" in parts:
        return "group"
    if "channel" in parts or _OLD_DISCORD.fullmatch(rest):
        return "channel"
    return "direct" if "direct" in parts or "dm" in parts else "unknown"


def build_key(
    agent_id: str,
    channel: str,
    peer_kind: str,
    peer_id: str | None,
    *,
    account: str | None = None,
    scope: Scope = "per-channel-peer",
    main_key: str = "main",
    identity_links: Mapping[str, Iterable[str]] | None = None,
    thread: str | None = None,
    default_agent: str = "default",
) -> str:
    """The key of the session that a message belongs to.

    :param peer_kind: direct, group or channel; ``peer_id`` is the person or the chat.
    :param scope: which direct chats share a session; groups never do.
    :param identity_links: one person's addresses, ``name → channel:peer``; the name then stands for the peer.
    """
    head = f"agent:{normalise_agent_id(agent_id, default_agent)}"
    place, peer = (channel or "").strip().lower() or "unknown", (peer_id or "").strip()
    tail = f":thread:{thread.strip().lower()}" if thread and thread.strip() else ""
    if peer_kind not in ("direct", "dm"):
        return f"{head}:{place}:{peer_kind}:{peer.lower() or 'unknown'}{tail}"
    if not peer or scope == "main":
        return f"{head}:{main_key.strip().lower() or 'main'}{tail}"
    peer = _person(place, peer, identity_links or {}).lower()
    between = {
        "per-peer": "",
        "per-channel-peer": f"{place}:",
        "per-account-channel-peer": f"{place}:{(account or '').strip().lower() or 'default'}:",
    }[scope]
    return f"{head}:{between}direct:{peer}{tail}"


def _person(channel: str, peer: str, links: Mapping[str, Iterable[str]]) -> str:
    address = f"{channel}:{peer}".lower()
    for name, addresses in links.items():
        if any(address == written.strip().lower() for written in addresses):
            return name
    return peer


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message goes.

    :param owner: the sender is an owner.
    :param chat_type: direct, group or channel.
    """

    agent_id: str
    session_key: str
    owner: bool
    chat_type: str


def admit(
    inbound: Inbound, config: Any, agent_id: str | None = None, session: str | None = None
) -> Route | None:
    """Decide on one message; None: nobody answers it.

    The person at the terminal may always talk and is the owner. Elsewhere a direct chat needs the sender in
    ``allowFrom`` (or an owner), a group must be listed and must mention us.

    :param config: a ``claw.config.Config``.
    :param agent_id: the agent somebody chose; else a binding's, else the default one.
    :param session: the session key or its last part somebody chose.
    :raises UsageError: no agent is called so.
    """
    place = inbound.address.channel.strip().lower()
    owner = place == TERMINAL or is_owner(place, inbound.sender, owners_of(config.settings))
    if place != TERMINAL and not _may_talk(inbound, config.settings.channels.get(place), owner):
        return None
    named = parse_key(session or "", "").agent_id
    agent = config.agent(agent_id or named or _bound(inbound, config.settings.bindings) or "")
    return Route(agent.id, _session_key(inbound, config, agent.id, session), owner, inbound.chat_type)


def owners_of(settings: Any) -> tuple[str, ...]:
    """Everybody the file calls an owner."""
    return (*settings.owners, *settings.agents.defaults.identity.owner_numbers)


def _may_talk(inbound: Inbound, channel: Any, owner: bool) -> bool:
    """The channel's own rules; a channel without a section admits nobody."""
    if channel is None or not channel.enabled:
        return False
    if inbound.chat_type == "direct":
        if channel.dm_policy == "disabled":
            return False
        if channel.dm_policy == "open" and "*" in channel.allow_from:
            return True
        return owner or is_listed(inbound.address.channel, inbound.sender, channel.allow_from)
    if channel.group_policy == "disabled":
        return False
    group = channel.groups.get(inbound.address.chat, channel.groups.get("*"))
    if group is None or not group.enabled:
        return False
    people = channel.group_allow_from if group.allow_from is None else group.allow_from
    # No list: to list the group was to admit who is in it. An empty list admits nobody.
    listed = people is None or "*" in people or is_listed(inbound.address.channel, inbound.sender, people)
    return (owner or listed) and (inbound.mentions_us or not group.require_mention)


def _bound(inbound: Inbound, bindings: Iterable[Any]) -> str | None:
    """The agent of the first binding that fits."""
    address = inbound.address
    for binding in bindings:
        match, peer = binding.match, binding.match.peer
        wanted = inbound.sender.id if inbound.chat_type == "direct" else address.chat
        kinds = ("direct", "dm") if inbound.chat_type == "direct" else (inbound.chat_type,)
        if (
            match.channel in (None, address.channel)
            and match.account in (None, "*", address.account)
            and (peer is None or (peer.kind in kinds and peer.id == wanted))
        ):
            return str(binding.agent)
    return None


def _session_key(inbound: Inbound, config: Any, agent_id: str, session: str | None) -> str:
    """The session somebody chose, else the message's own; a terminal's is the agent's main one."""
    settings, address = config.settings.session, inbound.address
    if session:
        chosen = parse_key(session)
        rest = chosen.rest if chosen.shape == "agent" else session.strip().lower()
        return f"agent:{agent_id}:{rest}"
    direct = inbound.chat_type == "direct"
    return build_key(
        agent_id,
        address.channel,
        "direct" if direct else inbound.chat_type,
        inbound.sender.id if direct else address.chat,
        account=address.account,
        scope="main" if address.channel == TERMINAL else settings.dm_scope,
        main_key=settings.main_key,
        identity_links=settings.identity_links,
        thread=address.thread,
        default_agent=config.default_agent_id,
    )
