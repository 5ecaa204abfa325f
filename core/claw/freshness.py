"""Freshness: whether a conversation goes on, or starts anew by itself. Pure; settings: ``session.reset`` and its kin.

Asked when a message of a person comes in. What the clock or a heartbeat starts neither asks nor counts as an update.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_HOUR, _IDLE_MINUTES = 4, 60  # where the file says nothing (spec runtime E6)


@dataclass(frozen=True, slots=True)
class ResetPolicy:
    """When a conversation of some kind ends by itself.

    :param mode: off, daily (at ``at_hour``, which begins the new day) or idle.
    :param at_hour: 0 to 23.
    :param idle_minutes: with idle; next to daily it is a second limit. None = no such limit.
    """

    mode: str = "off"
    at_hour: int = _HOUR
    idle_minutes: int | None = None


def reset_policy(session: Any, kind: str, channel: str = "") -> ResetPolicy:
    """The policy for one conversation: each key from the channel's reset, else from that of the kind, else the base.

    A reset that names no mode is daily when it names an hour, else idle when it names minutes, else off. The bare
    ``session.idleMinutes`` stands behind all of them.

    :param session: ``config.settings.session``.
    :param kind: direct, group or thread; a channel counts as a group.
    """
    by_type: Mapping[str, Any] = session.reset_by_type
    kind = {"dm": "direct", "channel": "group"}.get(kind, kind)
    scopes = (session.reset_by_channel.get(channel), by_type.get(kind), session.reset)
    said: dict[str, Any] = {}
    for scope in scopes:
        if scope is not None:
            said = {name: getattr(scope, name) for name in scope.model_fields_set} | said
    minutes = said.get("idle_minutes")
    if minutes is None:
        minutes = session.idle_minutes
    mode = said.get("mode") or ("daily" if "at_hour" in said else "idle" if minutes is not None else "off")
    if mode == "idle" and minutes is None:
        minutes = _IDLE_MINUTES
    return ResetPolicy(mode, min(max(said.get("at_hour", _HOUR), 0), 23), minutes)


@cache
def zone_of(name: str | None) -> tzinfo | None:
    """The zone of that name; None = this machine's, also for a name that nobody knows."""
    try:
        return ZoneInfo(name) if name else None
    except (ZoneInfoNotFoundError, ValueError):
        return None


def is_fresh(policy: ResetPolicy, updated_at: float, now: float, zone: tzinfo | None = None) -> bool:
    """Whether the conversation goes on.

    :param updated_at: when a person last wrote in it; seconds since 1970, as ``now``.
    :param zone: whose hour ``at_hour`` is; None = this machine's.
    """
    if policy.mode == "off":
        return True
    idle = policy.idle_minutes
    if idle is not None and now > updated_at + 60 * idle:
        return False
    return policy.mode != "daily" or updated_at >= _day_began(policy.at_hour, now, zone)


def _day_began(hour: int, now: float, zone: tzinfo | None) -> float:
    """The latest moment at which a clock on the wall showed ``hour``."""
    here = datetime.fromtimestamp(now, zone)
    began = here.replace(hour=hour, minute=0, second=0, microsecond=0)
    if began > here:
        began -= timedelta(days=1)
    return began.timestamp()
