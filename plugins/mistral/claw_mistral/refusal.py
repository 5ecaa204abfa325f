"""Mistral's error bodies as ``ProviderError``. Pure.

Observed forms: ``{"object": "error", "message": …, "type": …, "code": "3230"}``, whose message may itself hold a
``detail``; ``{"detail": "Unauthorized"}``; and the list of validation errors with status 422.
"""

from collections.abc import Mapping
from typing import Any

from claw import ProviderError
from claw_provider_sdk import failure_said, provider_error


def refusal_error(service: str, body: Any, status: int, headers: Mapping[str, str]) -> ProviderError:
    """Return the error for an error body.

    :param body: parsed JSON, or text.
    :param status: of the answer; 200 inside a stream.
    """
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(inner, Mapping):
        return failure_said(service, inner, status=status, headers=headers)
    kind, text = str(inner.get("type") or ""), _text(inner.get("message") or inner.get("detail"))
    if "capacity" in kind or "capacity exceeded" in text.lower():
        return provider_error(service, reason="overloaded", status=status, text=text, headers=headers)
    plain = {"message": text, "type": kind, "code": inner.get("raw_status_code") or inner.get("code")}
    return failure_said(service, plain, status=status, headers=headers)


def _text(detail: Any) -> str:
    """Return the text of a message: a text, or a list of validation errors with their fields."""
    if isinstance(detail, Mapping):
        detail = detail.get("detail") or detail.get("message") or ""
    if isinstance(detail, list):
        faults = [one for one in detail if isinstance(one, Mapping)]
        return "; ".join(
            f"{'.'.join(map(str, one.get('loc') or ()))}: {one.get('msg') or ''}".strip(": ")
            for one in faults
        )
    return str(detail or "")
