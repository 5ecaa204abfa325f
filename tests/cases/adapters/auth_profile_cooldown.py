"""auth_profile_cooldown: one more failure on what is known of a key, with the cap of five minutes off."""

from math import inf
from pathlib import Path
from typing import Any

from claw_models.cooldown import CooldownRules, KeyState, after_failure

FUNCTIONS = ("claw_models.cooldown:after_failure",)
_HOUR = 3600.0


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    known, config, now = given["existing"], given["config"], given["now_ms"] / 1000
    hours = {
        "disabled_seconds": "billing_backoff_hours",
        "disabled_most_seconds": "billing_max_hours",
        "window_seconds": "failure_window_hours",
    }
    rules = CooldownRules(
        slow_down_most_seconds=inf,
        **{name: config[key] * _HOUR for name, key in hours.items() if key in config},
    )
    use = after_failure(use_of(known), given["reason"], now, rules)
    assert {
        "error_count": use.failures,
        "cooldown_ms": left(use.cools_until, now),
        "disabled_ms": left(use.disabled_until, now),
        "disabled_reason": use.disabled_for or None,
    } == case["expect"]


def use_of(known: dict[str, Any]) -> KeyState:
    """The table's counters as ours."""
    return KeyState(
        last_used=known.get("last_used", 0) / 1000,
        failures=known.get("error_count", 0),
        counts=known.get("failure_counts", {}),
        failed_at=known.get("last_failure_at", 0) / 1000,
        cools_until=known.get("cooldown_until", 0) / 1000,
        disabled_until=known.get("disabled_until", 0) / 1000,
        disabled_for=known.get("disabled_reason", ""),
    )


def left(until: float, now: float) -> int | None:
    return round((until - now) * 1000) if until > now else None
