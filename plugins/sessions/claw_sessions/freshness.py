"""Session freshness: the decision to continue or to reset a conversation (pure).

Settings: ``session.reset`` and its siblings. The decision is made when a message of a person comes in. Turns
of the clock or a heartbeat neither reset nor count as an update.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from claw_sessions.settings import ResetSettings

_DEFAULT_HOUR, _DEFAULT_IDLE = 4, 60  # defaults (spec runtime E6)


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """The rule that resets conversations of one kind.

    :param mode: off, daily (at ``at_hour``, when the new day begins) or idle.
    :param at_hour: 0 to 23.
    :param idle_minutes: with idle; with daily it is a second limit. None = no such limit.
    """

    mode: str = "off"
    at_hour: int = _DEFAULT_HOUR
    idle_minutes: int | None = None


def reset_policy(session: ResetSettings, kind: str, channel: str = "") -> ResetPolicy:
    """Return the policy of one conversation: each key from the channel's reset, else the kind's, else base.

    A reset without a mode is daily when it has an hour, else idle when it has minutes, else off. The bare
    ``session.idleMinutes`` is the last default of all of them.

    :param kind: direct, group or thread; a channel counts as a group.
    """
    kind = {"dm": "direct", "channel": "group"}.get(kind, kind)
    scopes = (session.reset_by_channel.get(channel), session.reset_by_type.get(kind), session.reset)
    keys: dict[str, Any] = {}
    for scope in scopes:
        if scope is not None:
            keys = {name: getattr(scope, name) for name in scope.model_fields_set} | keys
    minutes = keys.get("idle_minutes")
    if minutes is None:
        minutes = session.idle_minutes
    mode = keys.get("mode") or ("daily" if "at_hour" in keys else "idle" if minutes is not None else "off")
    if mode == "idle" and minutes is None:
        minutes = _DEFAULT_IDLE
    return ResetPolicy(mode, min(max(keys.get("at_hour", _DEFAULT_HOUR), 0), 23), minutes)


def is_fresh(policy: ResetPolicy, updated_at: float, now: float, zone: tzinfo | None = None) -> bool:
    """Return true if the conversation continues.

    :param updated_at: when a person last wrote in it; seconds since 1970, as ``now``.
    :param zone: of ``at_hour``; None = this machine's.
    """
    if policy.mode == "off":
        return True
    idle = policy.idle_minutes
    if idle is not None and now > updated_at + 60 * idle:
        return False
    return policy.mode != "daily" or updated_at >= _day_began(policy.at_hour, now, zone)


def _day_began(hour: int, now: float, zone: tzinfo | None) -> float:
    """Return the latest moment at which the local time was ``hour``."""
    local_now = datetime.fromtimestamp(now, zone)
    began = local_now.replace(hour=hour, minute=0, second=0, microsecond=0)
    if began > local_now:
        began -= timedelta(days=1)
    return began.timestamp()
