"""Why a model call failed: what a service, its SDK or the network said, as one ``ProviderError``."""

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from claw.clock import SYSTEM
from claw.errors import ProviderError

MIN_SECRET_CHARS = 4

_LATER = "try again later, or name a second model under agents.defaults.model.fallbacks"
_LONGER = "try again later, or wait longer: providers.{name}.timeoutSeconds"
_ANEW = "begin a new one (/new), or use a model with a larger window"
_SETTINGS = "check the settings of the model and of providers.{name}"
# What went wrong, in our words; the service's own words stand behind.
_WORDS = {
    "auth": ("the service refused the key{said}", "check the key: providers.{name}.apiKey, or its environment variable"),
    "permission": ("this key may not use the model{said}", "use another model, or a key that may use it"),
    "billing": ("the account has no credit left{said}", "check the plan and billing of this account"),
    "rate_limit": ("the service asks us to slow down{said}", _LATER),
    "overloaded": ("the service is overloaded{said}", _LATER),
    "server": ("the service failed{said}", _LATER),
    "network": ("the connection to the service failed{said}", "check the network and providers.{name}.baseUrl"),
    "truncated": ("the answer was cut off{said}", _LATER),
    "timeout": ("the service did not answer in time{said}", _LONGER),
    "context_overflow": ("the conversation is too long for this model{said}", _ANEW),
    "request_too_large": ("the request is too large{said}", "begin a new conversation (/new), or send less"),
    "bad_request": ("the service did not accept the request{said}", _SETTINGS),
    "model_not_found": ("the service does not know this model{said}", "check its name, and providers.{name}.baseUrl"),
    "unknown": ("the model call failed{said}", _LATER),
}  # fmt: skip
_RETRYABLE = frozenset({"rate_limit", "overloaded", "server", "network", "truncated", "timeout"})

_OVERFLOW = re.compile(
    r"context[ _]length[ _]exceeded|context (?:window|size|length)|context overflow|上下文(?:过长|长度超)"
    r"|(?:prompt|input)\b.{0,40}\btoo (?:long|large)"
    r"|(?:prompt|input|request)\b.{0,60}\bexceed\w*\b.{0,40}\b(?:tokens?|limit|maximum|window|context)"
    r"|token limit|tokens? > \d+",
    re.IGNORECASE | re.DOTALL,
)
_NOT_OVERFLOW = re.compile(
    r"rate.?limit|tokens? per minute|\btpm\b|too many requests|quota|window too small", re.IGNORECASE
)
_BILLING = re.compile(
    r"insufficient[ _](?:quota|balance|credits?)|credit balance|exceeded your current quota", re.IGNORECASE
)


def failed(
    service: str,
    *,
    reason: str = "",
    status: int | None = None,
    kind: str = "",
    text: str = "",
    headers: Mapping[str, str] | None = None,
) -> ProviderError:
    """The error for what a service said.

    :param service: ``provider/model``.
    :param reason: when it is known; else judged from the rest.
    :param kind: the service's own words for it: error type and code.
    :param text: the service's message, already without secrets.
    """
    reason = reason or reason_of(status, kind, text)
    problem, fix = _WORDS[reason]
    return ProviderError(
        problem,
        fix=fix,
        reason=reason,
        retryable=reason in _RETRYABLE,
        status=status,
        retry_after_seconds=retry_after(headers or {}, SYSTEM.now()),
        where=service,
        name=service.partition("/")[0],
        said=f" ({_short(text)})" if text else f" (HTTP {status})" if status else "",
    )


def reason_of(status: int | None, kind: str, text: str) -> str:
    """Which kind of failure it is. Order matters: the first that fits.

    Sources: the error pages of both vendors' API references; what compatible servers send (``tests/fixtures``).
    """
    text = text[:4000]
    words = f"{kind} {text}"
    if status == 402 or "billing_error" in kind or (_BILLING.search(words) and len(text) <= 512):
        return "billing"
    if status == 413 or "request_too_large" in kind:
        return "request_too_large"
    if status == 429 or "rate_limit" in kind:
        return "rate_limit"
    if status in (None, 200, 400, 422, 500) and _OVERFLOW.search(words) and not _NOT_OVERFLOW.search(words):
        return "context_overflow"
    if (
        status == 529
        or "overloaded_error" in kind
        or ((status or 500) >= 500 and "overloaded" in text.lower())
    ):
        return "overloaded"
    if status == 401 or "authentication_error" in kind or "invalid_api_key" in kind:
        return "auth"
    if status == 403 or "permission" in kind:
        return "permission"
    if status == 408 or "timeout" in kind:
        return "timeout"
    if "model_not_found" in kind or "not_found_error" in kind or status == 404:
        return "model_not_found"
    if (status or 0) >= 500 or "server_error" in kind or "api_error" in kind:
        return "server"
    if (status or 0) >= 400 or "invalid_request" in kind or "BadRequest" in kind:
        return "bad_request"
    return "unknown"


def said(
    service: str, body: Any, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> ProviderError:
    """The error for an error body of any of the forms seen: ``{"error": {…}}``, ``{"message": …}``, text, a web page."""
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(inner, Mapping):
        text = "" if str(inner).lstrip()[:1] == "<" else str(inner or "")
        return failed(service, status=status, text=text, headers=headers)
    code = inner.get("code")
    if status in (None, 200) and str(code).isdecimal() and 400 <= int(str(code)) < 600:
        status = int(str(code))
    text = inner.get("message") or inner.get("detail") or ""
    return failed(service, status=status, kind=f"{inner.get('type')} {code}", text=str(text), headers=headers)


def told(error: Exception, service: str) -> ProviderError:
    """The error for what a vendor's SDK (or its HTTP library) raised; the same shape in all SDKs made by Stainless."""
    response = getattr(error, "response", None)
    if response is not None:
        raw = bytes(response.content)
        try:
            body = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            body = raw.decode(errors="replace")
        return said(service, body, status=response.status_code, headers=response.headers)
    names = " ".join(base.__name__ for base in type(error).__mro__)
    if "Timeout" in names:
        return failed(service, reason="timeout")
    if "ConnectionError" in names or "TransportError" in names or "StreamError" in names:
        return failed(service, reason="network", text=str(error.__cause__ or error))
    return failed(service, reason="unknown", text=type(error).__name__)


def hide(error: ProviderError, secret: str) -> ProviderError:
    """The same error without the key that a service said back to us."""
    if len(secret) >= MIN_SECRET_CHARS:
        values = error._values.items()
        error._values = {
            name: value.replace(secret, "***") if isinstance(value, str) else value for name, value in values
        }
    return error


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the service asks us to wait: ``retry-after-ms``, or ``retry-after`` as seconds or a date."""
    fine, text = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    try:
        if fine:
            seconds = float(fine) / 1000
        elif text[:1].isdigit():
            seconds = float(text)
        else:
            seconds = parsedate_to_datetime(text).timestamp() - now
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _short(text: str, limit: int = 300) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
