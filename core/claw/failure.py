"""Why a model call failed: what a service, its SDK or the network said, as one ``ProviderError``."""

import math
import re
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from claw.clock import SYSTEM
from claw.errors import ProviderError
from claw.truncation import shortened

MIN_SECRET_CHARS = 4

_LATER = "try again later, or name a second model under agents.defaults.model.fallbacks"
_LONGER = "try again later, or wait longer: providers.{name}.timeoutSeconds"
_ANEW = "begin a new one (/new), or use a model with a larger window"
_SETTINGS = "check the settings of the model and of providers.{name}"
# What went wrong, in our words; the service's own words stand behind.
_WORDS = {
    "auth": ("the service refused the key{said}", "check the key: providers.{name}.apiKey, or its environment variable"),
    "auth_permanent": ("the service refused the key for good{said}", "put another key in: claw auth add {name}"),
    "session_expired": ("the service no longer knows the conversation{said}", _ANEW),
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
    "no_path": (
        "the service knows no such address{said}",
        "check providers.{name}.baseUrl: it is written as on the service's page, with /v1 once where that has it",
    ),
    "empty": ("the model said nothing{said}", "Ask again, or choose another: /model"),
    "unknown": ("the model call failed{said}", _LATER),
}  # fmt: skip
_RETRYABLE = frozenset({"rate_limit", "overloaded", "server", "network", "truncated", "timeout", "empty"})

_TRUSTED_CHARS = 512
"""Longer than this, a text about money or with a number in it is prose and proves nothing."""
_READ_CHARS = 4000

# Patterns stay text until a call fails: compiling them all would cost a start 10 ms of CPU.
_OVERFLOW = (
    r"context[ _]length[ _]exceeded|context[ _]?window[ _]?exceeded|request_too_large|^\W*413\b"
    r"|context (?:window )?overflow|(?:context|window) exceed|exceeds?\b.{0,40}\bcontext (?:window|size|length)"
    r"|maximum context length|context length of only"
    r"|(?:prompt|input|messages?|context)\b.{0,40}\btoo (?:long|large)"
    r"|(?:prompt|input|request|messages?)\b.{0,60}\b(?:exceed\w*|over|resulted in)\b.{0,60}"
    r"\b(?:tokens?|limit|maximum|window|context)"
    r"|input token count\b.{0,40}\bonly supports|\btoken limit|tokens? > \d+"
    r"|上下文(?:窗口)?(?:过长|长度超|超)|压缩上下文"
)
_NOT_OVERFLOW = (
    r"rate.?limit|tokens? per minute|requests? per minute|\btpm\b|too many requests|throttl|quota|^\W*429\b"
    r"|too small|requires? reasoning|array too long"
)
_BILLING = (
    r"insufficient[ _](?:quota|balance|credits?)|credit balance|exceeded your current quota|requires more credits"
    r"|payment required|billing_error|billing_not_active|余额不足"
)
_KEY_REFUSED = r"\b(?:incorrect|invalid) api key|api[ _]key[ _](?:not valid|invalid)"
_FOR_GOOD = (
    r"revoked|deactivated|(?:key|account) has been disabled|^\s*(?:\w+ )?invalid_api_key\s*$|could not authenticate"
    r"|permission_error|invalid_grant"
)
_SESSION = (
    r"\b(?:session|conversation) (?:(?:id|was|has|is) )*(?:not found|expired|does not exist|invalid)"
    r"|no such session"
)
_NUMBER = r"(?:^\W*|\b(?:http|code|status)[\"']?[\s:=]+)([45]\d\d)\b"
_NO_EYES = r"\b(?:image|audio|video) input is not supported"  # llama.cpp's server says so with a 500
_NO_PATH = (
    r"^\W*(?:(?:404|file|page|resource|path|route|url|the|requested)\W+)*not[ _]found\W*$|invalid url"
    r"|unknown (?:request )?(?:url|path|route|endpoint)|unexpected endpoint|cannot (?:post|get)\b|no (?:such )?route"
    r"|^\W*method not allowed"
)
_IMAGE = r"\bimage\b.{0,80}\b(?:dimensions?|exceeds?|too large)"
_BY_WORDS = (
    ("session_expired", _SESSION),
    ("model_not_found", r"unknown model|model[_ ]not[_ ]found|not_found_error|invalid model(?! reference)\b"
     r"|\bmodels?\b.{0,80}?(?:does not exist|not found)"),
    ("rate_limit", r"rate[ _-]?limit|too many requests|(?<!insufficient_)quota|resource (?:has been )?exhausted"
     r"|resource_exhausted|usage limit|model_cooldown|(?:tokens|requests) per (?:min|day)|\btpm\b|throttl"
     r"|请求过于频繁"),
    ("overloaded", r"overloaded|service unavailable|high demand|\bcapacity\b"),
    ("bad_request", r"string should match pattern|tool_use|tool[ _]call[ _]id|roles must alternate"
     r"|invalid request format"),
    ("billing", rf"{_BILLING}|\bbilling\b"),
    ("truncated", r"without sending (?:any )?chunks|stop reason: (?:abort|error)|^\W*terminated\b"),
    ("server", r"internal server error|\bapi_error|server_error"),
    ("timeout", r"timed out|time-?out|deadline[ _](?:exceeded|expired)"
     r"|^(?:AbortError )?\W*request (?:was )?aborted\W*$"),
    ("network", r"connection error|network (?:error|request failed)|socket hang up|fetch failed|connection failure"
     r"|\bE(?:TIMEDOUT|SOCKETTIMEDOUT|CONN(?:RESET|ABORTED|REFUSED)|NETUNREACH|HOSTUNREACH|NETRESET|AI_AGAIN|PIPE"
     r"|HOSTDOWN)\b|\bENOTFOUND\b"),
    ("auth_permanent", _FOR_GOOD),
    ("auth", rf"{_KEY_REFUSED}|api key\b.{{0,30}}\binvalid|invalid token|authenticat|unauthorized|forbidden"
     r"|access denied|\b(?:token|key|credential)s?\b.{0,30}\bexpired|no (?:auth )?(?:credentials|api key)"
     r"|missing scopes|insufficient permissions"),
    ("bad_request", r"invalid_request|BadRequest"),
)  # fmt: skip
_BY_STATUS = {
    402: "billing", 404: "model_not_found", 408: "timeout", 413: "request_too_large", 429: "rate_limit",
    529: "overloaded",
}  # fmt: skip
_CONFLICT = ("unknown", 409)  # something else was going on: the vendors' own clients ask once more
_SAYS_NOTHING = frozenset({409, 499})


def _has(pattern: str, text: str) -> re.Match[str] | None:
    return re.search(pattern, text, re.IGNORECASE | re.DOTALL)


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
    no_path = status in (404, 405) and (not text or _has(_NO_PATH, text[:_READ_CHARS]))
    problem, fix = _WORDS["no_path" if no_path else reason]
    return ProviderError(
        problem,
        fix=fix,
        reason=reason,
        retryable=reason in _RETRYABLE or (reason, status) == _CONFLICT,
        status=status,
        retry_after_seconds=retry_after(headers or {}, SYSTEM.now()),
        where=service,
        name=service.partition("/")[0],
        said=f" ({_short(text)})" if text else f" (HTTP {status})" if status else "",
    )


def reason_of(status: int | None, kind: str, text: str) -> str:
    """Which kind of failure it is: by its number, by what the service calls it, by its words; the first that fits.

    Sources: the error pages of both vendors' API references; what compatible servers send (``tests/fixtures``).

    :param kind: error type and code, as the service or its library writes them.
    """
    text = text[:_READ_CHARS]
    words = f"{kind} {text}".strip()
    short = len(text) <= _TRUSTED_CHARS
    if status in (None, 200) and short and (number := _has(_NUMBER, text)):
        status = int(number[1])
    if short and _has(_BILLING, words) and status not in (401, 403, 404):
        return "billing"
    if status == 413 or "request_too_large" in kind:
        return "request_too_large"
    if status == 429 or "rate_limit" in kind:
        return "rate_limit"
    if status in (None, 200, 400, 422, 500) and is_overflow(words):
        return "context_overflow"
    if status is not None and status >= 300 and status not in _SAYS_NOTHING:
        return _by_status(status, kind, text)
    if _has(_IMAGE, text):
        return "unknown"
    found = (reason for reason, pattern in _BY_WORDS if _has(pattern, words))
    return next((reason for reason in found if reason != "billing" or short), "unknown")


def _by_status(status: int, kind: str, text: str) -> str:
    words = f"{kind} {text}"
    if status < 400:
        return "bad_request"  # sent elsewhere: a key does not follow
    if status in (401, 403):
        plain = "auth" if status == 401 or "authentication" in kind else "permission"
        return "auth_permanent" if _has(_FOR_GOOD, words) else plain
    if status == 500 and _has(_NO_EYES, text):
        return "bad_request"
    if status >= 500:
        return "overloaded" if status == 529 or "overloaded" in words.lower() else "server"
    if status in (400, 422) and _has(_KEY_REFUSED, words):
        return "auth"
    if status == 410:
        return "session_expired" if _has(_SESSION, text) else "timeout"
    return _BY_STATUS.get(status, "bad_request")


def is_overflow(text: str) -> bool:
    """Whether a text says that what was sent is longer than the model takes: never when it speaks of rates or quotas."""
    text = text[:_READ_CHARS]
    return bool(_has(_OVERFLOW, text)) and not _has(_NOT_OVERFLOW, text) and not _has(_IMAGE, text)


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
    reason = "server" if "DecodingError" in names else "unknown"
    return failed(service, reason=reason, text=type(error).__name__)


def all_failed(failures: Sequence[tuple[object, ProviderError]]) -> ProviderError:
    """The error of a call that no model answered: what each one said, and behind it what to do about that one.

    :param failures: ``provider/model`` and what was met there, in order.
    """
    if len(failures) == 1:
        return failures[0][1]
    fixes = {error.fix for _, error in failures}
    shared = fixes.pop() if len(fixes) == 1 else ""
    told = "; ".join(
        f"{model}: {error.problem} ({error.reason})" + (f" → {error.fix}" if error.fix and not shared else "")
        for model, error in failures
    )
    whole = ProviderError(
        "no model answered ({count} attempts): {told}",
        reason=failures[-1][1].reason if failures else "unknown",
        retryable=any(error.retryable for _, error in failures),
        fix=shared.replace("{", "{{").replace("}", "}}"),
        count=len(failures),
        told=told,
    )
    whole.failures = tuple(error for _, error in failures)
    return whole


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
    return shortened(" ".join(text.split()), limit)
