"""Freshness of a conversation: it continues or starts over. The host's zone is UTC in the table.

An hour that our file refuses is put into the settings behind the loader's back: the pure function answers for it too.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from claw_sessions.freshness import is_fresh, reset_policy
from claw_sessions.settings import Reset, ResetSettings

FUNCTIONS = ("claw_sessions.freshness:is_fresh", "claw_sessions.freshness:reset_policy")


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given, expect = case["input"], case["expect"]
    session = ResetSettings(
        reset=written(given["reset"]),
        reset_by_type={kind: written(reset) for kind, reset in (given["reset_by_type"] or {}).items()},
        reset_by_channel={},
        idle_minutes=given["idle_minutes_legacy"],
    )
    policy = reset_policy(session, given["session_kind"])

    fresh = is_fresh(policy, moment(given["updated_at"]), moment(given["now"]), UTC)

    found = {
        "fresh": fresh,
        "mode": policy.mode,
        "at_hour": policy.at_hour,
        "idle_minutes": policy.idle_minutes,
    }
    assert {key: found[key] for key in expect} == expect


def written(reset: dict[str, Any] | None) -> Reset:
    names = {"mode": "mode", "atHour": "at_hour", "idleMinutes": "idle_minutes"}
    return Reset.model_construct(**{names[key]: value for key, value in (reset or {}).items()})


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
