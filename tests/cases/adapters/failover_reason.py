"""failover_reason: an exception → the class of failure, in the table's words."""

from pathlib import Path
from typing import Any

from claw_provider_sdk.errors import reason_of

FUNCTIONS = ("claw_provider_sdk.errors:reason_of",)
UNUSED = {
    "input.provider": "an error is classified by status, code, type and text, whichever service sent it"
}
_NAMES = {
    **dict.fromkeys(
        ("server", "network", "truncated", "timeout"), "timeout"
    ),  # one class of the table, four of ours
    **dict.fromkeys(("context_overflow", "request_too_large"), "unknown"),  # no reason to ask another model
    "permission": "auth",
    "bad_request": "format",
}


def in_table(reason: str) -> str:
    """The table's word for a reason of ours."""
    return _NAMES.get(reason, reason)


def kind_of(given: dict[str, Any]) -> str:
    """Return the reason that the library gives to the error."""
    return f"{given.get('error_name', '')} {given.get('code', '')}".strip()


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    reason = in_table(reason_of(given.get("status"), kind_of(given), given["message"]))
    assert {"reason": reason} in [case["expect"], *case.get("also_ok", [])]
