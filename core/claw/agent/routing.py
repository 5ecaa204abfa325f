"""Routing: the agent and the session of a message. Pure.

A session key is ``agent:AGENT:REST``, in lower case; REST is ``main``, ``direct:P``, ``CHANNEL:direct:P``,
``CHANNEL:group:ID``, ``subagent:UUID``, ``cron:JOB[:run:RUN]`` and the like (spec runtime E5).
"""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from claw.config.paths import normalise_agent_id
from claw.contracts.messages import Address, Inbound, Sender
from claw.contracts.provider import CallAccount
from claw.security.admission import TERMINAL, configured_owners, decide_admission, is_owner

if TYPE_CHECKING:
    from claw.config.loader import Config

Scope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]

LOCAL_SENDER = Sender("local", name="you")
"""The person at the terminal."""

_SPACE = re.compile(r":guild-[^:]+:channel-[^:]+$")  # of keys that other hosts wrote
_SUFFIX = re.compile(r":(?=(?:thread|topic):)", re.I)
_THREAD = re.compile(r":(?:thread|topic):[^:]*$")


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The parts of a session key.

    :param agent_id: as written in the key; None when it names no agent.
    :param rest: the part behind the agent; None likewise.
    :param shape: agent, malformed_agent, legacy_or_alias or missing.
    :param resolved_agent_id: an id that can be looked up; the default agent's when the key names none.
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
    """Parse a session key; any text is accepted, ``shape`` classifies it.

    :param default_agent: the id for a key without an agent.
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
    if "channel" in parts or _SPACE.search(rest):
        return "channel"
    return "direct" if "direct" in parts or "dm" in parts else "unknown"


@dataclass(frozen=True, slots=True)
class SessionRules:
    """The rules that choose the session of a direct chat (``session`` in the config file).

    :param scope: says which direct chats share a session; groups never do.
    :param identity_links: the addresses of one person, ``name → channel:peer``; the name then replaces the
        peer.
    """

    scope: Scope = "per-channel-peer"
    main_key: str = "main"
    identity_links: Mapping[str, Iterable[str]] = field(default_factory=dict)


def build_key(
    agent_id: str,
    channel: str,
    peer_kind: str,
    peer_id: str | None,
    *,
    account: str | None = None,
    thread: str | None = None,
    rules: SessionRules = SessionRules(),
) -> str:
    """Return the key of the session that a message belongs to.

    :param agent_id: as :func:`claw.config.paths.normalise_agent_id` returns it.
    :param peer_kind: direct, group or channel; ``peer_id`` is the person or the chat.
    """
    head = f"agent:{agent_id}"
    place, peer = (channel or "").strip().lower() or "unknown", (peer_id or "").strip()
    peer = _SUFFIX.sub("%3a", peer.replace("%", "%25"))  # an id must not read as another id with a thread
    tail = f":thread:{_escaped(thread)}" if thread and thread.strip() else ""
    if peer_kind not in ("direct", "dm"):
        return f"{head}:{place}:{peer_kind}:{peer.lower() or 'unknown'}{tail}"
    if not peer or rules.scope == "main":
        return f"{head}:{rules.main_key.strip().lower() or 'main'}{tail}"
    peer = _person(place, peer, rules.identity_links).lower()
    between = {
        "per-peer": "",
        "per-channel-peer": f"{place}:",
        "per-account-channel-peer": f"{place}:{(account or '').strip().lower() or 'default'}:",
    }[rules.scope]
    return f"{head}:{between}direct:{peer}{tail}"


def _person(channel: str, peer: str, links: Mapping[str, Iterable[str]]) -> str:
    address = f"{channel}:{peer}".lower()
    for name, addresses in links.items():
        if any(address == written.strip().lower() for written in addresses):
            return name
    return peer


@dataclass(frozen=True, slots=True)
class Route:
    """The destination of a message.

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
    config: "Config",
    agent_id: str | None = None,
    session: str | None = None,
    paired: Container[str] = (),
) -> Route | None:
    """Admit and route a message; None when it is not answered.

    :raises UsageError: there is no agent of that name.
    """
    if decide_admission(inbound, config, paired).kind != "admitted":
        return None
    return route_message(inbound, config, agent_id or "", session or "")


def route_message(inbound: Inbound, config: "Config", agent: str = "", session: str = "") -> Route:
    """Route an admitted message.

    :param agent: chosen at the terminal; else the agent that ``session`` names, else the one that an
        authenticated caller asks for (``inbound.agent``, when it exists), else a binding's, else the default
        one.
    :param session: a chosen session key, or its last part. Only the person at the terminal may choose any;
        for others it selects below their own session.
    :raises UsageError: there is no agent of that name.
    """
    here = inbound.address.channel.strip().lower() == TERMINAL
    named = parse_key(session, "").agent_id if here else None
    wanted = agent or named or _asked_agent(inbound, config)
    bound = None if wanted else _best_binding(inbound, config.settings.bindings)
    chosen = config.agent(wanted or (config.settings.bindings[bound].agent if bound is not None else ""))
    return Route(
        chosen.id,
        _session_key(inbound, config, chosen.id, session, here),
        here or is_owner(inbound.address.channel, inbound.sender, configured_owners(config.settings)),
        inbound.chat_type,
        "" if bound is None else f"bindings[{bound}]",
    )


def _asked_agent(inbound: Inbound, config: "Config") -> str:
    """Return the agent that a caller asks for, if it exists."""
    name = normalise_agent_id(inbound.agent, "")
    return name if name in config.agent_ids else ""


def _best_binding(inbound: Inbound, bindings: Sequence[Any]) -> int | None:
    """Return the index of the most specific binding that matches: a thread before a peer, a group, an
    account, a channel. Of two equally specific ones, the first in the file.
    """
    ranks = {at: rank for at, one in enumerate(bindings) if (rank := _rank(inbound, one.match)) is not None}
    return max(ranks, key=lambda at: ranks[at], default=None)


def _rank(inbound: Inbound, match: Any) -> tuple[bool, ...] | None:
    """Return the specificity of a binding, most specific field first; None when it does not match."""
    address, direct = inbound.address, inbound.chat_type in ("direct", "dm")
    kinds = ("direct", "dm") if direct else (inbound.chat_type,)
    account = None if match.account == "*" else match.account
    wanted_and_given = (
        (match.thread, address.thread),
        (match.peer and match.peer.id, inbound.sender.id if direct else address.chat),
        (match.peer and match.peer.kind in kinds, True),
        (match.group, None if direct else address.chat),
        (account, address.account),
        (match.channel and match.channel.strip().lower(), address.channel.strip().lower()),
    )
    if any(wanted not in (None, given) for wanted, given in wanted_and_given):
        return None
    return tuple(wanted is not None for wanted, _ in wanted_and_given)


def _session_key(inbound: Inbound, config: "Config", agent_id: str, session: str, here: bool) -> str:
    """Return the chosen session key, else the message's own; at the terminal, the agent's main one."""
    settings, address = config.settings.session, inbound.address
    if here and session:
        chosen = parse_key(session)
        rest = chosen.rest if chosen.shape == "agent" else session.strip().lower()
        return f"agent:{agent_id}:{rest}"
    direct = inbound.chat_type in ("direct", "dm")
    scope: Scope = "main" if here else settings.dm_scope
    own = build_key(
        normalise_agent_id(agent_id, config.default_agent_id),
        address.channel,
        "direct" if direct else inbound.chat_type,
        inbound.sender.id if direct else address.chat,
        account=address.account,
        thread=address.thread,
        rules=SessionRules(scope, settings.main_key, settings.identity_links),
    )
    return f"{own}:thread:{_escaped(session)}" if session.strip() else own


def _escaped(text: str) -> str:
    """Return a text as one part of a key: its separators are escaped."""
    return text.strip().lower().replace("%", "%25").replace(":", "%3a")


JOB_CHANNELS = frozenset({"clock", "cron", "heartbeat"})
"""Channels of scheduled jobs, without people: their chat is the job."""


def account_of_turn(inbound: Inbound, route: Route, plugin: str, turn: str) -> CallAccount:
    """Return who pays for the model calls of a turn.

    :param plugin: the plugin that registered the channel.
    """
    key, job = route.session_key, ""
    if ":cron:" in key:
        job = key.partition(":cron:")[2].partition(":")[0]
    elif inbound.address.channel in JOB_CHANNELS:
        job = inbound.address.chat or inbound.address.channel
    return CallAccount(route.agent_id, key, "", turn, plugin, job)


def terminal_message(text: str, message_id: str = "") -> Inbound:
    """Return a message of the person at this terminal: the owner, in a direct chat."""
    return Inbound(Address(TERMINAL, "local"), text, LOCAL_SENDER, message_id=message_id, mentions_us=True)
