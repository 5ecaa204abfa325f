"""Why Mistral refused a request: its error bodies as ``ProviderError``. Pure.

Forms seen: ``{"object": "error", "message": …, "type": …, "code": "3230"}``, whose message may itself hold a ``detail``;
``{"detail": "Unauthorized"}``; and the list of faults that the service's gate answers with 422.
"""

from collections.abc import Mapping
from typing import Any

from claw import ProviderError, failed, failure_said


def refused(service: str, body: Any, status: int, headers: Mapping[str, str]) -> ProviderError:
    """The error for an error body.

    :param body: parsed JSON, or text.
    :param status: of the answer; 200 inside a stream.
    """
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(inner, Mapping):
        return failure_said(service, inner, status=status, headers=headers)
    kind, text = str(inner.get("type") or ""), _text(inner.get("message") or inner.get("detail"))
    if "capacity" in kind or "capacity exceeded" in text.lower():
        return failed(service, reason="overloaded", status=status, text=text, headers=headers)
    plain = {"message": text, "type": kind, "code": inner.get("raw_status_code") or inner.get("code")}
    return failure_said(service, plain, status=status, headers=headers)


def _text(told: Any) -> str:
    """What a message says: a text, or a list of faults with their places."""
    if isinstance(told, Mapping):
        told = told.get("detail") or told.get("message") or ""
    if isinstance(told, list):
        faults = [one for one in told if isinstance(one, Mapping)]
        return "; ".join(
            f"{'.'.join(map(str, one.get('loc') or ()))}: {one.get('msg') or ''}".strip(": ")
            for one in faults
        )
    return str(told or "")
