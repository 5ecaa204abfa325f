"""service_errors: what a service sent → the class of the failure, as the provider plugin of that service decides it."""

from pathlib import Path
from typing import Any

from claw_google.refusal import refusal_error as refused_by_google
from claw_mistral.refusal import refusal_error as refused_by_mistral
from claw_provider_sdk.errors import failure_said

FUNCTIONS = (
    "claw_provider_sdk.errors:failure_said",
    "claw_google.refusal:refusal_error",
    "claw_mistral.refusal:refusal_error",
)
UNUSED = {"source": "the page on which the error stands"}


def class_of(case: dict[str, Any]) -> str:
    """The class of the failure, in the table's words: a refused key is ``auth``, permanent or not."""
    status, text = case["status"], case["text"]
    body: dict[str, Any] = {"message": text, "type": case["type"] or None, "code": case["code"] or None}
    if case["service"] in ("gemini", "vertex"):
        body = {"error": {"code": status, "message": text, "status": case["type"]}}
        reason = refused_by_google("s/m", body, status or 200, {}).reason
    elif case["service"] == "mistral":
        reason = refused_by_mistral("s/m", body, status or 200, {}).reason
    else:
        reason = failure_said("s/m", {"error": body}, status=status).reason
    return "auth" if reason == "auth_permanent" else reason


def is_right(case: dict[str, Any], name: str) -> bool:
    """Return true for the class of a row, and for another class that fits its text and status as well."""
    return name in (case["class"], *case.get("also_ok", ()))


def check(case: dict[str, Any], tmp_path: Path) -> None:
    name = class_of(case)
    assert is_right(case, name), f"{case['text']!r} is {case['class']}, not {name}"
