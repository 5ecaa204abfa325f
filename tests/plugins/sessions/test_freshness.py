"""Automatic start of a new conversation."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from claw.testing import plugin_config
from claw_sessions.freshness import ResetPolicy, is_fresh, reset_policy
from claw_sessions.settings import ResetSettings
from hypothesis import given, strategies as st

MOMENTS = st.integers(0, 4_000_000_000)


def session(**tree: Any) -> Any:
    return ResetSettings.of(plugin_config({"session": tree}))


@given(MOMENTS, MOMENTS)
def test_unless_the_file_asks_for_it_no_conversation_ends(updated, now):
    assert is_fresh(reset_policy(session(), "direct"), updated, now, UTC)


@given(MOMENTS, st.integers(0, 23), st.integers(0, 86_399))
def test_a_daily_conversation_outlives_no_day(now, hour, age):
    policy = ResetPolicy("daily", hour)
    assert not is_fresh(policy, now - 86_400 - age, now, UTC)
    assert is_fresh(policy, now, now, UTC)


def test_the_day_begins_by_the_wall_clock_also_when_clocks_change():
    zone = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 3, 29, 5, 0, tzinfo=zone).timestamp()  # two o'clock became three that night
    before, after = (datetime(2026, 3, 29, hour, 30, tzinfo=zone).timestamp() for hour in (3, 4))
    assert [is_fresh(ResetPolicy("daily", 4), at, now, zone) for at in (before, after)] == [False, True]


def test_idle_ends_only_after_its_minutes():
    policy = ResetPolicy("idle", idle_minutes=5)
    assert is_fresh(policy, 0, 300, UTC) and not is_fresh(policy, 0, 301, UTC)


@pytest.mark.parametrize(
    ("tree", "kind", "channel", "policy"),
    [
        ({"reset": {"mode": "daily"}}, "direct", "telegram", ResetPolicy("daily", 4)),
        ({"reset": {"atHour": 6}}, "direct", "", ResetPolicy("daily", 6)),
        ({"reset": {"idleMinutes": 9}}, "direct", "", ResetPolicy("idle", 4, 9)),
        ({"reset": {"mode": "idle"}}, "direct", "", ResetPolicy("idle", 4, 60)),
        ({"idleMinutes": 9}, "thread", "", ResetPolicy("idle", 4, 9)),
        ({"idleMinutes": 9, "reset": {"mode": "daily"}}, "direct", "", ResetPolicy("daily", 4, 9)),
        (
            {"resetByType": {"dm": {"mode": "daily"}}, "idleMinutes": 9, "reset": {"mode": "off"}},
            "direct",
            "",
            ResetPolicy("daily", 4, 9),
        ),
        (
            {"reset": {"mode": "daily", "atHour": 2}, "resetByType": {"group": {"idleMinutes": 5}}},
            "channel",
            "",
            ResetPolicy("daily", 2, 5),
        ),
        (
            {"resetByChannel": {"telegram": {"mode": "off"}}, "reset": {"mode": "daily"}},
            "direct",
            "telegram",
            ResetPolicy("off", 4),
        ),
        (
            {"resetByChannel": {"telegram": {"mode": "off"}}, "resetByType": {"group": {"mode": "daily"}}},
            "group",
            "discord",
            ResetPolicy("daily", 4),
        ),
    ],
)  # fmt: skip
def test_the_channel_goes_before_the_kind_of_chat_and_that_before_the_rest(tree, kind, channel, policy):
    assert reset_policy(session(**tree), kind, channel) == policy
