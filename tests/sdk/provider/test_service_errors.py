"""Recall and false alarms of the classification over real error messages of services, split by service.

``tests/cases/data/service_errors.jsonl`` has status, code, type and text as a service sent them, with the thread or page
that shows them (ids, keys and addresses in a text are changed or left out), and the class that they mean. No rule was
written from a message of a service marked ``held-out``. bench/README.md has the figures of the first measurements.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from cases.adapters.service_errors import class_of, is_right
from claw_provider_sdk.errors import failure_said

TABLE = Path(__file__).parents[2] / "cases/data/service_errors.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
SETS = ("build", "held-out")
FLOOR, ROWS_FOR_A_FLOOR = 0.9, 10
REACTED_TO = {"context_overflow", "rate_limit", "billing", "auth"}
MOST_FALSE_ALARMS = 0.02


def measured(which: str) -> dict[str, tuple[int, float, float]]:
    """Rows, recall and the rate of false alarms for each class of one set."""
    rows = [row for row in ROWS if row["set"] == which]
    wanted = Counter(row["class"] for row in rows)
    found, false = Counter[str](), Counter[str]()
    for row in rows:
        name = class_of(row)
        if is_right(row, name):
            found[row["class"]] += 1
        else:
            false[name] += 1
    return {
        name: (wanted[name], found[name] / max(1, wanted[name]), false[name] / (len(rows) - wanted[name]))
        for name in sorted({*wanted, *false})
    }


@pytest.mark.parametrize("which", SETS)
def test_every_class_with_enough_messages_is_recognised(which: str) -> None:
    figures = measured(which)
    many = {name: recall for name, (rows, recall, _) in figures.items() if rows >= ROWS_FOR_A_FLOOR}

    assert many.keys() >= REACTED_TO
    assert {name: recall for name, recall in many.items() if recall < FLOOR} == {}


@pytest.mark.parametrize("which", SETS)
def test_no_class_is_given_to_what_means_another(which: str) -> None:
    rates = {name: false for name, (_, _, false) in measured(which).items()}

    assert {name: rate for name, rate in rates.items() if rate > MOST_FALSE_ALARMS} == {}


def test_the_table_is_large_its_sets_are_apart_and_every_row_has_a_source() -> None:
    services = {which: {row["service"] for row in ROWS if row["set"] == which} for which in SETS}

    assert len(ROWS) >= 400
    assert services["build"] & services["held-out"] == set()
    assert [row["id"] for row in ROWS if not row["source"].startswith(("https://", "http://"))] == []


def test_a_content_filter_is_no_fault_of_the_settings() -> None:
    error = failure_said("gate/m", {"error": {"message": "x", "code": "DataInspectionFailed"}}, status=400)

    assert (error.reason, error.retryable) == ("content_filter", False)
    assert "rephrase it, or use another model" in str(error)


if __name__ == "__main__":  # the table of bench/README.md
    for which in SETS:
        for name, (rows, recall, false) in measured(which).items():
            print(f"| {which} | {name} | {rows} | {recall:.2f} | {false:.3f} |")
