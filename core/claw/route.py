"""Route: to which agent a message goes, and in which session. Whether it may (``guard.admission``) is at hand here too.
Pure.

A session key is ``agent:AGENT:REST``, in lower case; REST is ``main``, ``direct:P``, ``CHANNEL:direct:P``,
``CHANNEL:group:ID``, ``subagent:UUID``, ``cron:JOB[:run:RUN]`` and the like (spec runtime E5).
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from claw.config.names import normalise_agent_id
from claw.guard.admission import TERMINAL, Verdict, admission, is_owner, owners_of
from claw.lane import CLOCK, MAIN, SUBAGENT
from claw.message import Inbound, Sender

__all__ = [
    "LOCAL", "TERMINAL", "Route", "SessionKey", "Verdict", "admission", "admit", "build_key", "lane_of", "owners_of",
    "parse_key", "route",
]  # fmt: skip

Scope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]

LOCAL = Sender("local", name="you")
"""The person at the terminal."""

_OLD_DISCORD = re.compile(r"discord:(?:[^:]+:)?guild-[^:]+:channel-[^:]+")
_BEHIND = re.compile(r":(?=(?:thread|topic):)", re.I)
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


def lane_of(key: str) -> str:
    """The kind of lane that the turns of a session run in: sub-agents and scheduled tasks leave people room."""
    known = parse_key(key)
    return SUBAGENT if known.is_subagent else CLOCK if known.is_cron else MAIN


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
    peer = _BEHIND.sub("%3a", peer)  # an id cannot pass for another id and a thread of it
    tail = f":thread:{_one_part(thread)}" if thread and thread.strip() else ""
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
    :param binding: the key of the binding that chose the agent, ``bindings[1]``; empty when none did.
    """

    agent_id: str
    session_key: str
    owner: bool
    chat_type: str
    binding: str = ""


def admit(
    inbound: Inbound,
    config: Any,
    agent_id: str | None = None,
    session: str | None = None,
    paired: Container[str] = (),
) -> Route | None:
    """Both decisions on one message: where it goes, or None when nobody answers it.

    :raises UsageError: no agent is called so.
    """
    if admission(inbound, config, paired).kind != "admitted":
        return None
    return route(inbound, config, agent_id or "", session or "")


def route(inbound: Inbound, config: Any, agent: str = "", session: str = "") -> Route:
    """Where a message goes that was admitted.

    :param config: a ``claw.config.Config``.
    :param agent: the one somebody at the terminal chose; else what ``session`` names, else what an authenticated caller
        asks for (``inbound.agent``, when there is one of that name), else a binding's, else the default one.
    :param session: the session key, or its last part, that somebody chose. Only the person at the terminal may choose
        any; for others it selects below their own session.
    :raises UsageError: no agent is called so.
    """
    here = inbound.address.channel.strip().lower() == TERMINAL
    named = parse_key(session, "").agent_id if here else None
    wanted = agent or named or _asked(inbound, config)
    bound = None if wanted else _bound(inbound, config.settings.bindings)
    chosen = config.agent(wanted or (config.settings.bindings[bound].agent if bound is not None else ""))
    return Route(
        chosen.id,
        _session_key(inbound, config, chosen.id, session, here),
        here or is_owner(inbound.address.channel, inbound.sender, owners_of(config.settings)),
        inbound.chat_type,
        "" if bound is None else f"bindings[{bound}]",
    )


def _asked(inbound: Inbound, config: Any) -> str:
    """The agent that a caller asks for, when there is one of that name."""
    name = normalise_agent_id(inbound.agent, "")
    return name if name in config.agent_ids else ""


def _bound(inbound: Inbound, bindings: Sequence[Any]) -> int | None:
    """The place of the binding that fits and says most: a thread before a peer, a group, an account, a channel. Of two
    that say as much, the first in the file.
    """
    ranks = {
        at: rank for at, binding in enumerate(bindings) if (rank := _rank(inbound, binding.match)) is not None
    }
    return max(ranks, key=lambda at: ranks[at], default=None)


def _rank(inbound: Inbound, match: Any) -> tuple[bool, ...] | None:
    """What a binding names, the most telling first; None when it does not fit."""
    address, direct = inbound.address, inbound.chat_type in ("direct", "dm")
    kinds = ("direct", "dm") if direct else (inbound.chat_type,)
    account = None if match.account == "*" else match.account
    said = (
        (match.thread, match.thread == address.thread),
        (
            match.peer,
            match.peer
            and match.peer.kind in kinds
            and match.peer.id == (inbound.sender.id if direct else address.chat),
        ),
        (match.group, not direct and match.group == address.chat),
        (account, account == address.account),
        (match.channel, (match.channel or "").strip().lower() == address.channel.strip().lower()),
    )
    if not all(fits for named, fits in said if named is not None):
        return None
    return tuple(named is not None for named, _ in said)


def _session_key(inbound: Inbound, config: Any, agent_id: str, session: str, here: bool) -> str:
    """The session somebody chose, else the message's own; a terminal's is the agent's main one."""
    settings, address = config.settings.session, inbound.address
    if here and session:
        chosen = parse_key(session)
        rest = chosen.rest if chosen.shape == "agent" else session.strip().lower()
        return f"agent:{agent_id}:{rest}"
    direct = inbound.chat_type in ("direct", "dm")
    own = build_key(
        agent_id,
        address.channel,
        "direct" if direct else inbound.chat_type,
        inbound.sender.id if direct else address.chat,
        account=address.account,
        scope="main" if here else settings.dm_scope,
        main_key=settings.main_key,
        identity_links=settings.identity_links,
        thread=address.thread,
        default_agent=config.default_agent_id,
    )
    return f"{own}:thread:{_one_part(session)}" if session.strip() else own


def _one_part(text: str) -> str:
    """A text as one part of a key: nothing in it reads as another part."""
    return text.strip().lower().replace("%", "%25").replace(":", "%3a")
