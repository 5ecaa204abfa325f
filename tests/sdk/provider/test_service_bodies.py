"""Recall and false alarms over whole bodies, in the form in which services send them.

``service_bodies.jsonl`` has status and JSON body with the thread or page that shows them (ids and keys are changed).
The rows marked ``held-out`` were collected before the rules were measured with them; no rule was written from them. A
service is ``build`` when a rule was written from any message of it, in this table or in
``tests/cases/data/service_errors.jsonl``; bench/README.md has the figures of the first measurements.
``text_only``: the source shows the text or the code, and the form of the body is the service's usual one. ``http_only``:
nothing but the status says that the body is an error.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from claw.contracts.errors import ProviderError
from claw_openai.chat import ChatParser
from claw_provider_sdk.errors import failure_said

TABLE = Path(__file__).with_name("service_bodies.jsonl")
SHORT = Path(__file__).parents[2] / "cases/data/service_errors.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in TABLE.read_text(encoding="utf-8").splitlines()]
MESSAGES = [json.loads(line) for line in SHORT.read_text(encoding="utf-8").splitlines()]
FLOORS = {"build": 1.0, "held-out": 0.9}
MOST_FALSE_ALARMS = 0.03
SILENT = {"id": "x", "object": "chat.completion.chunk", "usage": None}


def class_of(row: dict[str, Any]) -> str:
    reason = failure_said("s/m", row["body"], status=row["status"]).reason
    return "auth" if reason == "auth_permanent" else reason


def as_body(row: dict[str, Any]) -> dict[str, Any]:
    """A message of the other table in the usual form of a body."""
    return {**row, "body": {"error": {"message": row["text"], "type": row["type"], "code": row["code"]}}}


def is_right(row: dict[str, Any], name: str) -> bool:
    return name in (row["class"], *row.get("also_ok", ()))


def measured(rows: list[dict[str, Any]]) -> dict[str, tuple[int, float, float]]:
    """Rows, recall and the rate of false alarms for each class."""
    wanted, found, false = Counter(row["class"] for row in rows), Counter[str](), Counter[str]()
    for row in rows:
        name = class_of(row)
        (found if is_right(row, name) else false)[row["class"] if is_right(row, name) else name] += 1
    return {
        name: (wanted[name], found[name] / max(1, wanted[name]), false[name] / (len(rows) - wanted[name]))
        for name in sorted({*wanted, *false})
    }


@pytest.mark.parametrize("which", sorted(FLOORS))
def test_whole_bodies_are_recognised_and_their_text_is_shown(which: str) -> None:
    rows = [row for row in ROWS if row["set"] == which]
    missed = [
        f"{row['id']}: {class_of(row)}, not {row['class']}"
        for row in rows
        if not is_right(row, class_of(row))
    ]

    assert 1 - len(missed) / len(rows) >= FLOORS[which], missed
    assert [
        row["id"] for row in rows if not failure_said("s/m", row["body"], status=200)._values["said"]
    ] == []


@pytest.mark.parametrize("which", sorted(FLOORS))
def test_each_class_with_ten_bodies_is_recognised_and_none_is_given_wrongly(which: str) -> None:
    figures = measured([row for row in ROWS if row["set"] == which])

    assert {name: recall for name, (rows, recall, _) in figures.items() if rows >= 10 and recall < 0.9} == {}
    assert {name: false for name, (*_, false) in figures.items() if false > MOST_FALSE_ALARMS} == {}


def test_the_sets_are_large_and_every_row_has_a_source() -> None:
    assert sum(row["set"] == "held-out" for row in ROWS) >= 80
    assert [row["id"] for row in ROWS if not row["source"].startswith("https://")] == []


def test_what_no_rule_was_written_from_is_recognised() -> None:
    """Both tables, split by service: a service that is ``build`` in one of them is held out in neither."""
    build = {row["service"] for row in (*ROWS, *MESSAGES) if row["set"] == "build"}
    bodies = [row for row in ROWS if row["service"] not in build]
    figures = measured(bodies + [as_body(row) for row in MESSAGES if row["service"] not in build])

    assert [row["id"] for row in ROWS if (row["set"] == "build") != (row["service"] in build)] == []
    assert sum(rows for rows, _, _ in figures.values()) >= 160
    assert figures.keys() >= {"context_overflow", "rate_limit", "billing", "auth"}
    assert {name: recall for name, (rows, recall, _) in figures.items() if rows >= 10 and recall < 0.9} == {}
    assert {name: false for name, (*_, false) in figures.items() if false > MOST_FALSE_ALARMS} == {}


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if isinstance(row["body"], dict) and not row.get("http_only")],
    ids=lambda row: row["id"],
)
@pytest.mark.parametrize("whole", [True, False])
def test_an_error_body_with_status_200_is_an_error_and_no_empty_answer(
    row: dict[str, Any], whole: bool
) -> None:
    parser = ChatParser("s", "m")
    with pytest.raises(ProviderError) as wrong:
        list(parser.take_body(row["body"]) if whole else parser.take("", row["body"]))
    assert wrong.value.reason not in ("truncated", "empty")


@pytest.mark.parametrize(
    "chunk",
    [
        SILENT,
        {**SILENT, "choices": []},
        {"choices": [], "usage": {"prompt_tokens": 1}, "base_resp": {"status_code": 0, "status_msg": ""}},
        {"choices": [], "prompt_filter_results": [{"content_filter_results": {"hate": {"filtered": False}}}]},
        {"id": "x", "model": "m", "code": 0, "message": "Success", "choices": []},
        {"id": "gen-x", "provider": "OpenAI", "created": 1, "choices": None},
        {"x_groq": {"id": "req_x"}, "choices": []},
        {"success": True, "errors": [], "result": {}},
        {"choices": [], "metadata": {"type": "route", "description": "the nearest region"}},
        {"id": "x", "choices": [], "status": "queued", "message": {"role": "assistant"}},
    ],
)
def test_a_chunk_without_choices_that_reports_no_failure_is_none(chunk: dict[str, Any]) -> None:
    assert list(ChatParser("s", "m").take("", chunk)) == []


if __name__ == "__main__":  # the table of bench/README.md
    used = {row["service"] for row in (*ROWS, *MESSAGES) if row["set"] == "build"}
    every = ROWS + [as_body(row) for row in MESSAGES]
    for which, wanted in (("build", True), ("held-out", False)):
        for name, (rows, recall, false) in measured(
            [r for r in every if (r["service"] in used) is wanted]
        ).items():
            print(f"| {which} | {name} | {rows} | {recall:.2f} | {false:.3f} |")
