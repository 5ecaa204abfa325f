"""Google's error bodies as ``ProviderError``. Pure.

Facts: google.rpc ``Status`` (code, status, details: ``ErrorInfo``, ``RetryInfo``); ai.google.dev,
"Troubleshooting". A wrong key is a 400, and every 429 mentions quota and billing, even when only a limit per
minute is reached.
"""

from collections.abc import Mapping
from typing import Any

from claw import ProviderError
from claw_provider_sdk import failure_said, provider_error

_REASONS = {
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAUTHENTICATED": "auth",
    "PERMISSION_DENIED": "permission",
    "NOT_FOUND": "model_not_found",
    "UNAVAILABLE": "overloaded",
    "DEADLINE_EXCEEDED": "timeout",
    "INTERNAL": "server",
}
_KEY_WORDS = (
    "api key not valid",
    "api key expired",
    "api_key_invalid",
    "api key not found",
    "unregistered callers",
)
_PLACE_WORDS = ("location is not supported",)
_CREDIT_WORDS = ("credits are depleted", "billing account", "enable billing")


def refusal_error(service: str, body: Any, status: int, headers: Mapping[str, str]) -> ProviderError:
    """Return the error for an error body.

    :param body: parsed JSON, or text.
    :param status: of the answer; 200 inside a stream.
    """
    first = body[0] if isinstance(body, list) and body else body
    inner = first.get("error") if isinstance(first, Mapping) else None
    if not isinstance(inner, Mapping):
        return failure_said(service, first, status=status, headers=headers)
    word, text = str(inner.get("status") or ""), str(inner.get("message") or "")
    code = inner.get("code")
    if status == 200 and isinstance(code, int):
        status = code
    details = [one for one in inner.get("details") or () if isinstance(one, Mapping)]
    return provider_error(
        service,
        reason=_reason(word, text, details),
        status=status,
        kind=word,
        text=text,
        headers={**_wait(details), **headers},
    )


def _reason(word: str, text: str, details: list[Mapping[str, Any]]) -> str:
    """Return the certain reason; empty when the general rules for status and text apply."""
    low = text.lower()
    delay = " ".join(str(one.get("reason") or "") for one in details).lower()
    if any(words in low or words in delay for words in _KEY_WORDS):
        return "auth"
    if any(words in low for words in _CREDIT_WORDS):
        return "billing"
    if any(words in low for words in _PLACE_WORDS):
        return "permission"
    return _REASONS.get(word, "")


def _wait(details: list[Mapping[str, Any]]) -> dict[str, str]:
    """Return ``RetryInfo`` as the usual retry header: ``"9.5s"``."""
    delay = next((str(one["retryDelay"]) for one in details if one.get("retryDelay")), "")
    return {"retry-after": delay.removesuffix("s")} if delay.endswith("s") else {}
