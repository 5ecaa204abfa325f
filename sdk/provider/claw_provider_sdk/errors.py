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

from claw_provider_sdk.error_bodies import ErrorReport, report_of
from claw_provider_sdk.error_families import kind_words, says

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
    "content_filter": ("the service's content filter refused this{said}", "rephrase it, or use another model"),
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

_PERMANENT = (
    r"revoked|deactivated|(?:key|account) has been disabled|^\s*(?:\w+ )?invalid_api_key\s*$|could not authenticate"
    r"|permission[_ ]error|invalid[_ ]grant"
)
_SESSION = (
    r"\b(?:session|conversation) (?:(?:id|was|has|is) )*(?:not found|expired|does not exist|invalid)"
    r"|no such session"
)
_NUMBER = r"(?:^\W*|\b(?:http|code|status)[\"']?[\s:=]+)([45]\d\d)\b"
_NO_MEDIA = r"\b(?:image|audio|video) input is not supported"  # llama.cpp's server sends it with a 500
_NO_PATH = (
    r"^\W*(?:(?:404|file|page|resource|path|route|url|the|requested)\W+)*not[ _]found\W*$|invalid url"
    r"|\burl[._ ](?:was )?not[._ ]found"
    r"|unknown (?:request )?(?:url|path|route|endpoint)|unexpected endpoint|cannot (?:post|get)\b|no (?:such )?route"
    r"|^\W*method not allowed"
)
_IMAGE = r"\bimage\b.{0,80}\b(?:dimensions?|exceeds?|too large)"
_FORMAT = (
    r"string should match pattern|tool_use|tool[ _]call[ _]id|roles must alternate|invalid request format"
)
_TRUNCATED = r"without sending (?:any )?chunks|stop reason: (?:abort|error)|^\W*terminated\b"
_SERVER = r"internal server error|service unavailable|\b(?:api|server)[_ ]error|(?:内部|系统|服务器?)(?:错误|故障|异常)"
_NETWORK = (
    r"connection error|network (?:error|request failed)|socket hang up|fetch failed|connection failure"
    r"|\bE(?:TIMEDOUT|SOCKETTIMEDOUT|CONN(?:RESET|ABORTED|REFUSED)|NETUNREACH|HOSTUNREACH|NETRESET|AI_AGAIN|PIPE"
    r"|HOSTDOWN)\b|\bENOTFOUND\b"
)
# Without a status, the first that fits; a name without a pattern is a family of ``error_families``.
_BY_TEXT = (
    ("session_expired", _SESSION), ("content_filter", ""), ("model_not_found", ""), ("rate_limit", ""),
    ("overloaded", ""), ("bad_request", _FORMAT), ("truncated", _TRUNCATED), ("server", _SERVER),
    ("timeout", ""), ("network", _NETWORK), ("auth_permanent", _PERMANENT), ("auth", ""), ("permission", ""),
    ("bad_request", r"invalid[_ ](?:request|parameter|argument)|bad ?request|parameter error|参数(?:错误|无效|缺失)"),
)  # fmt: skip
_BY_STATUS = {
    402: "billing", 404: "model_not_found", 408: "timeout", 413: "request_too_large", 429: "rate_limit",
    424: "server", 504: "timeout", 524: "timeout", 529: "overloaded",
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
        unknown="address" if no_path else "",
    )


def reason_of(status: int | None, kind: str, text: str) -> str:
    """Classify a failure by its status, the service's name for it, and its text; the first that fits.

    Sources and recall for each class: ``tests/cases/data/service_errors.jsonl`` and bench/README.md.

    :param kind: error type and code, as the service or its library writes them.
    """
    text = text[:_READ_CHARS]
    kind = kind_words(kind)
    words = f"{kind} {text}".strip()
    short = len(text) <= _TRUSTED_CHARS
    if status in (None, 200) and short and (number := _match(_NUMBER, text)):
        status = int(number[1])
    owes = short and says("billing", words) and not says("not_billing", words)
    if status != 404 and (owes or "arrear" in kind):
        return "billing"
    if status == 413 or "request too large" in kind:
        return "request_too_large"
    if status == 429 or "rate limit" in kind:
        return "rate_limit"
    if status in (None, 200, 400, 422, 424, 500) and is_overflow(words):
        return "context_overflow"
    if status is not None and status >= 300 and status not in _AMBIGUOUS:
        return _by_status(status, kind, text)
    if _match(_IMAGE, text):
        return "unknown"
    fits = (reason for reason, own in _BY_TEXT if (_match(own, words) if own else says(reason, words)))
    return next(fits, "unknown")


def _by_status(status: int, kind: str, text: str) -> str:
    words = f"{kind} {text}"
    if status < 400:
        return "bad_request"  # a redirect: the key is not sent on
    if status in (401, 403):
        if status == 403 and (
            found := next((f for f in ("content_filter", "rate_limit") if says(f, words)), "")
        ):
            return found
        plain = "auth" if status == 401 or "authentication" in kind or says("key", words) else "permission"
        return "auth_permanent" if _match(_PERMANENT, words) else plain
    if status >= 500:
        return _by_server_error(status, words)
    if status in (400, 422, 451):
        families = ("content_filter", "key", "model_not_found", "rate_limit", "permission")
        found = next((family for family in families if says(family, words)), "bad_request")
        return "auth" if found == "key" else found
    if status == 404 and says("key", words):
        return "auth"
    if status == 410:
        return "session_expired" if _match(_SESSION, text) else "timeout"
    busy = next((family for family in ("overloaded", "rate_limit") if says(family, words)), "bad_request")
    return _BY_STATUS.get(status, busy)


def _by_server_error(status: int, words: str) -> str:
    if status == 500 and _match(_NO_MEDIA, words):
        return "bad_request"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    families = ("overloaded", "rate_limit", "timeout")
    return next((family for family in families if says(family, words)), "server")


def is_overflow(text: str) -> bool:
    """Return true if a text says that the input is too long for the model, and not about rates or quotas."""
    text = text[:_READ_CHARS]
    return says("context_overflow", text) and not says("not_overflow", text) and not _match(_IMAGE, text)


def failure_said(
    service: str, body: Any, *, status: int | None = None, headers: Mapping[str, str] | None = None
) -> ProviderError:
    """Return the error for an error body in any form, text, or a web page; :mod:`claw_provider_sdk.error_bodies` has the
    forms."""
    plain = "" if not isinstance(body, str) or body.lstrip()[:1] == "<" else body
    found = ErrorReport("", plain, None) if isinstance(body, str) else report_of(body)
    status = found.status if status in (None, 200) and found.status else status
    return provider_error(service, status=status, kind=found.kind, text=found.text, headers=headers)


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
