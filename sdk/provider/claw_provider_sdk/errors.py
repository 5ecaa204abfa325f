"""Classification of failed model calls: what a service, its SDK or the network reported, as one
``ProviderError``."""

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec
from claw import ProviderError
from claw.runtime import SYSTEM_CLOCK, with_ellipsis

MIN_SECRET_CHARS = 4

_TRY_LATER = "try again later, or name a second model under agents.defaults.model.fallbacks"
_WAIT_LONGER = "try again later, or wait longer: providers.{name}.timeoutSeconds"
_BEGIN_NEW = "begin a new one (/new), or use a model with a larger window"
_CHECK_SETTINGS = "check the settings of the model and of providers.{name}"
# The problem and its fix; the service's own text is appended to the problem.
_PROBLEMS = {
    "auth": ("the service rejected the key{said}", "check the key: providers.{name}.apiKey, or its environment variable"),
    "auth_permanent": ("the service rejected the key permanently{said}", "add another key: claw auth add {name}"),
    "session_expired": ("the service no longer knows the conversation{said}", _BEGIN_NEW),
    "permission": ("this key may not use the model{said}", "use another model, or a key that may use it"),
    "billing": ("the account has no credit left{said}", "check the plan and billing of this account"),
    "rate_limit": ("the service is rate limiting requests{said}", _TRY_LATER),
    "overloaded": ("the service is overloaded{said}", _TRY_LATER),
    "server": ("the service failed{said}", _TRY_LATER),
    "network": ("the connection to the service failed{said}", "check the network and providers.{name}.baseUrl"),
    "truncated": ("the answer was cut off{said}", _TRY_LATER),
    "timeout": ("the service did not answer in time{said}", _WAIT_LONGER),
    "context_overflow": ("the conversation is too long for this model{said}", _BEGIN_NEW),
    "request_too_large": ("the request is too large{said}", "begin a new conversation (/new), or send less"),
    "bad_request": ("the service rejected the request{said}", _CHECK_SETTINGS),
    "model_not_found": ("the service does not know this model{said}", "check its name, and providers.{name}.baseUrl"),
    "no_path": (
        "the service does not know this address{said}",
        "check providers.{name}.baseUrl: write it as in the service's documentation, with /v1 "
        "once if it has one",
    ),
    "empty": ("the model gave an empty answer{said}", "Ask again, or choose another model with /model"),
    "unknown": ("the model call failed{said}", _TRY_LATER),
}  # fmt: skip
_RETRYABLE = frozenset({"rate_limit", "overloaded", "server", "network", "truncated", "timeout", "empty"})

_TRUSTED_CHARS = 512
"""A longer text about money, or with a number in it, is prose and proves nothing."""
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
_PERMANENT = (
    r"revoked|deactivated|(?:key|account) has been disabled|^\s*(?:\w+ )?invalid_api_key\s*$|could not authenticate"
    r"|permission_error|invalid_grant"
)
_SESSION = (
    r"\b(?:session|conversation) (?:(?:id|was|has|is) )*(?:not found|expired|does not exist|invalid)"
    r"|no such session"
)
_NUMBER = r"(?:^\W*|\b(?:http|code|status)[\"']?[\s:=]+)([45]\d\d)\b"
_NO_MEDIA = r"\b(?:image|audio|video) input is not supported"  # llama.cpp's server sends it with a 500
_NO_PATH = (
    r"^\W*(?:(?:404|file|page|resource|path|route|url|the|requested)\W+)*not[ _]found\W*$|invalid url"
    r"|unknown (?:request )?(?:url|path|route|endpoint)|unexpected endpoint|cannot (?:post|get)\b|no (?:such )?route"
    r"|^\W*method not allowed"
)
_IMAGE = r"\bimage\b.{0,80}\b(?:dimensions?|exceeds?|too large)"
_BY_TEXT = (
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
    ("auth_permanent", _PERMANENT),
    ("auth", rf"{_KEY_REFUSED}|api key\b.{{0,30}}\binvalid|invalid token|authenticat|unauthorized|forbidden"
     r"|access denied|\b(?:token|key|credential)s?\b.{0,30}\bexpired|no (?:auth )?(?:credentials|api key)"
     r"|missing scopes|insufficient permissions"),
    ("bad_request", r"invalid_request|BadRequest"),
)  # fmt: skip
_BY_STATUS = {
    402: "billing", 404: "model_not_found", 408: "timeout", 413: "request_too_large", 429: "rate_limit",
    529: "overloaded",
}  # fmt: skip
_CONFLICT = ("unknown", 409)  # a conflict with another request: the vendors' own clients retry
_AMBIGUOUS = frozenset({409, 499})


def _match(pattern: str, text: str) -> re.Match[str] | None:
    return re.search(pattern, text, re.IGNORECASE | re.DOTALL)


def provider_error(
    service: str,
    *,
    reason: str = "",
    status: int | None = None,
    kind: str = "",
    text: str = "",
    headers: Mapping[str, str] | None = None,
) -> ProviderError:
    """Return the error for a service's report.

    :param service: ``provider/model``.
    :param reason: when it is known; else it is classified from the rest.
    :param kind: the service's own terms: error type and code.
    :param text: the service's message, already without secrets.
    """
    reason = reason or reason_of(status, kind, text)
    no_path = status in (404, 405) and (not text or _match(_NO_PATH, text[:_READ_CHARS]))
    problem, fix = _PROBLEMS["no_path" if no_path else reason]
    return ProviderError(
        problem,
        fix=fix,
        reason=reason,
        retryable=reason in _RETRYABLE or (reason, status) == _CONFLICT,
        status=status,
        retry_after_seconds=retry_after(headers or {}, SYSTEM_CLOCK.now()),
        where=service,
        name=service.partition("/")[0],
        said=f" ({_short(text)})" if text else f" (HTTP {status})" if status else "",
    )


def reason_of(status: int | None, kind: str, text: str) -> str:
    """Classify a failure by its status, the service's name for it, and its text; the first that fits.

    Sources: the error pages of both vendors' API references; what compatible servers send
    (``tests/fixtures``).

    :param kind: error type and code, as the service or its library writes them.
    """
    text = text[:_READ_CHARS]
    words = f"{kind} {text}".strip()
    short = len(text) <= _TRUSTED_CHARS
    if status in (None, 200) and short and (number := _match(_NUMBER, text)):
        status = int(number[1])
    if short and _match(_BILLING, words) and status not in (401, 403, 404):
        return "billing"
    if status == 413 or "request_too_large" in kind:
        return "request_too_large"
    if status == 429 or "rate_limit" in kind:
        return "rate_limit"
    if status in (None, 200, 400, 422, 500) and is_overflow(words):
        return "context_overflow"
    if status is not None and status >= 300 and status not in _AMBIGUOUS:
        return _by_status(status, kind, text)
    if _match(_IMAGE, text):
        return "unknown"
    found = (reason for reason, pattern in _BY_TEXT if _match(pattern, words))
    return next((reason for reason in found if reason != "billing" or short), "unknown")


def _by_status(status: int, kind: str, text: str) -> str:
    words = f"{kind} {text}"
    if status < 400:
        return "bad_request"  # a redirect: the key is not sent on
    if status in (401, 403):
        plain = "auth" if status == 401 or "authentication" in kind else "permission"
        return "auth_permanent" if _match(_PERMANENT, words) else plain
    if status == 500 and _match(_NO_MEDIA, text):
        return "bad_request"
    if status >= 500:
        return "overloaded" if status == 529 or "overloaded" in words.lower() else "server"
    if status in (400, 422) and _match(_KEY_REFUSED, words):
        return "auth"
    if status == 410:
        return "session_expired" if _match(_SESSION, text) else "timeout"
    return _BY_STATUS.get(status, "bad_request")


def is_overflow(text: str) -> bool:
    """Return true if a text says that the input is too long for the model, and not about rates or quotas."""
    text = text[:_READ_CHARS]
    return bool(_match(_OVERFLOW, text)) and not _match(_NOT_OVERFLOW, text) and not _match(_IMAGE, text)


def failure_said(
    service: str, body: Any, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> ProviderError:
    """Return the error for an error body in any known form: ``{"error": {…}}``, ``{"message": …}``, text,
    a web page."""
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(inner, Mapping):
        text = "" if str(inner).lstrip()[:1] == "<" else str(inner or "")
        return provider_error(service, status=status, text=text, headers=headers)
    code = inner.get("code")
    if status in (None, 200) and str(code).isdecimal() and 400 <= int(str(code)) < 600:
        status = int(str(code))
    text = inner.get("message") or inner.get("detail") or ""
    return provider_error(
        service, status=status, kind=f"{inner.get('type')} {code}", text=str(text), headers=headers
    )


def error_from_exception(error: Exception, service: str) -> ProviderError:
    """Return the error for an exception of a vendor's SDK or its HTTP library.

    All SDKs made by Stainless raise the same shape.
    """
    response = getattr(error, "response", None)
    if response is not None:
        raw = bytes(response.content)
        try:
            body = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            body = raw.decode(errors="replace")
        return failure_said(service, body, status=response.status_code, headers=response.headers)
    names = " ".join(base.__name__ for base in type(error).__mro__)
    if "Timeout" in names:
        return provider_error(service, reason="timeout")
    if "ConnectionError" in names or "TransportError" in names or "StreamError" in names:
        return provider_error(service, reason="network", text=str(error.__cause__ or error))
    reason = "server" if "DecodingError" in names else "unknown"
    return provider_error(service, reason=reason, text=type(error).__name__)


def mask_secret(error: ProviderError, secret: str) -> ProviderError:
    """Mask a key that a service repeated in its message; return the same error."""
    if len(secret) >= MIN_SECRET_CHARS:
        values = error._values.items()
        error._values = {
            name: value.replace(secret, "***") if isinstance(value, str) else value for name, value in values
        }
    return error


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the service asks to wait: ``retry-after-ms``, or ``retry-after`` as seconds
    or a date."""
    milliseconds, text = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    try:
        if milliseconds:
            seconds = float(milliseconds) / 1000
        elif text[:1].isdigit():
            seconds = float(text)
        else:
            seconds = parsedate_to_datetime(text).timestamp() - now
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _short(text: str, limit: int = 300) -> str:
    return with_ellipsis(" ".join(text.split()), limit)


def decoded_body(content: bytes) -> Any:
    """Decode the body of an error: its JSON, or its text where it is none."""
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return content.decode(errors="replace")
