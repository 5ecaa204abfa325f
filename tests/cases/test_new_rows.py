"""Rows that are in no table: an adapter knows rows by their fields, and a row that fails says what was compared."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cases.adapters import plugin_bad

GOES_ON = {"gateway_up": True, "other_plugins_ok": True, "message_round_trip_ok": True}


def row(at: str, does: str, python: str | None, **expect: Any) -> dict[str, Any]:
    return {"id": "new-row", "at": at, "does": does, "python": python, "expect": GOES_ON | expect}


@pytest.mark.parametrize(
    "case",
    [
        row("import", "divides by zero", "1 / 0", plugin_state="failed", log_names_plugin=True),
        row("import", "does nothing", "x = 1", plugin_state="active", extra={"tool_count": 1}),
        row("register", "returns a number", "return 7", plugin_state="failed", log_names_plugin=True),
        row("tool", "fails", "raise KeyError('k')", plugin_state="active", turn_ends=True, tool_error=True),
        row("metadata", "has an id with a blank in it (a b)", None, plugin_state="failed"),
        row("channel send", "says nothing", "return None", plugin_state="active"),
    ],
    ids=lambda case: f"{case['at']}: {case['does']}",
)
async def test_a_plugin_is_built_from_the_fields_of_a_row_that_nobody_has_seen(
    case: dict[str, Any], tmp_path: Path
) -> None:
    await plugin_bad.check(case, tmp_path)


@pytest.mark.parametrize(
    ("case", "said"),
    [
        (row("import", "divides by zero", "1 / 0", plugin_state="active"), "failed"),
        (
            row("tool", "returns a text", "return 'x'", plugin_state="active", tool_error=True),
            "_has_failed_call",
        ),
        (row("tool", "sings", None, plugin_state="active"), "nothing is known that 'sings' at 'tool'"),
        (row("kitchen", "burns", "pass", plugin_state="active"), "no code can stand at 'kitchen'"),
        (
            row("import", "waves", "x = 1", plugin_state="active", extra={"waves": 1}),
            "nothing looks at waves",
        ),
    ],
    ids=lambda case: case["does"] if isinstance(case, dict) else "",
)
async def test_an_expectation_that_does_not_hold_fails(
    case: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        await plugin_bad.check(case, tmp_path)


def test_a_row_that_fails_says_its_id_what_was_expected_and_what_came(tmp_path: Path) -> None:
    wrong = {"id": "ow-x1", "input": {"value": "Team Ops"}, "expect": {"agent_id": "another"}}
    (tmp_path / "agent_id_normalize.jsonl").write_text(json.dumps(wrong))
    here = Path(__file__).with_name("test_cases.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        f"--cases={tmp_path}",
        here,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=here.parents[2],
        env={"PATH": "/usr/bin:/bin", "PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
    )  # fmt: skip

    assert done.returncode == 1
    assert "agent_id_normalize ow-x1" in done.stdout
    assert "'team-ops' == 'another'" in done.stdout
