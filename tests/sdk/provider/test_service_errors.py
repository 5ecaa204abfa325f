"""Recall and false alarms of the classification over real error messages of services, split by service.

``tests/cases/data/service_errors.jsonl``: status, code, type and text as a service sent them, with the thread or page that
shows them (ids, keys and addresses in a text are changed or left out), and the class that they mean. The rules were written
from the services marked ``build``; those marked ``held-out`` were collected afterwards, to measure them.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from claw import ProviderError
from claw_google.refusal import refused as refused_by_google
from claw_mistral.refusal import refused as refused_by_mistral
from claw_provider_sdk.errors import failure_said

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "cases/data/service_errors.jsonl").read_text().splitlines()
]
# Floors are what was measured, rounded down to the next 0.05. bench/README.md has the whole table.
RECALL = {"context_overflow": 0.9, "rate_limit": 0.9, "billing": 0.9, "auth": 0.9}
FALSE_ALARMS = 0.02


def classified(row: dict[str, Any]) -> ProviderError:
    """The error as the provider plugin of the row's service makes it."""
    status = row["status"]
    if row["service"] in ("gemini", "vertex"):
        body = {"error": {"code": status, "message": row["text"], "status": row["type"]}}
        return refused_by_google("s/m", body, status or 200, {})
    body = {"message": row["text"], "type": row["type"] or None, "code": row["code"] or None}
    if row["service"] == "mistral":
        return refused_by_mistral("s/m", body, status or 200, {})
    return failure_said("s/m", {"error": body}, status=status)


def class_of(row: dict[str, Any]) -> str:
    """The class of the classification, in the table's words."""
    reason = classified(row).reason
    return "auth" if reason == "auth_permanent" else reason


def measured(which: str) -> dict[str, tuple[int, float, float]]:
    """Rows, recall and rate of false alarms for each class of one set."""
    rows = [row for row in ROWS if row["set"] == which]
    wanted = Counter(row["class"] for row in rows)
    found, false = Counter[str](), Counter[str]()
    for row in rows:
        got = class_of(row)
        if got in (row["class"], *row.get("also_ok", ())):
            found[row["class"]] += 1
        else:
            false[got] += 1
    return {
        name: (wanted[name], found[name] / max(1, wanted[name]), false[name] / (len(rows) - wanted[name]))
        for name in sorted({*wanted, *false})
    }


@pytest.mark.parametrize("which", ["build", "held-out"])
@pytest.mark.parametrize("name", sorted(RECALL))
def test_the_classes_that_claw_reacts_to_are_recognised(which: str, name: str) -> None:
    rows, recall, false = measured(which)[name]

    assert rows >= 10
    assert recall >= RECALL[name]
    assert false <= FALSE_ALARMS


def test_no_service_is_in_both_sets_and_every_row_has_a_source() -> None:
    sets: dict[str, set[str]] = {}
    for row in ROWS:
        sets.setdefault(row["service"], set()).add(row["set"])
    assert {name for name, which in sets.items() if len(which) > 1} == set()
    assert [row["id"] for row in ROWS if not row["source"].startswith(("https://", "http://"))] == []


def test_a_content_filter_is_no_fault_of_the_settings() -> None:
    error = failure_said("gate/m", {"error": {"message": "x", "code": "DataInspectionFailed"}}, status=400)

    assert error.reason == "content_filter"
    assert not error.retryable
    assert "rephrase it, or use another model" in str(error)


if __name__ == "__main__":  # the table of bench/README.md
    for which in ("build", "held-out"):
        for name, (rows, recall, false) in measured(which).items():
            print(f"| {which} | {name} | {rows} | {recall:.2f} | {false:.3f} |")
