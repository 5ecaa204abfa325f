"""Search for what a service reports in an error body, by its form and not by vendor. Pure.

Observed forms: ``{"error": {"message", "type", "code"}}``, ``{"errors": [{"code", "message"}]}``,
``{"__type", "message"}``, ``{"error_code", "error_msg"}``, ``{"base_resp": {"status_code", "status_msg"}}``,
``{"title", "detail", "status"}``, ``{"Response": {"Error": {"Code", "Message"}}}``,
``{"name", "errors": ["text"]}``, ``{"fault": {"faultstring"}}``,
and a body in a text of another (``{"error": {"metadata": {"raw": "{…}"}}}``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

_TEXTS = frozenset({
    "message", "msg", "errormsg", "errormessage", "errordescription", "statusmsg", "statusmessage", "returnmsg", "detail",
    "description", "desc", "title", "error", "errors", "raw", "faultstring",
})  # fmt: skip
_KINDS = frozenset({"code", "type", "status", "errorcode", "errortype", "exception", "name", "reason"})
_CODES = frozenset({
    "code", "errorcode", "statuscode", "httpcode", "httpstatuscode", "returncode", "errno", "errcode"
})  # fmt: skip
_NUMBERS = _CODES | {"status"}
_FINE = frozenset({"", "0", "200", "ok", "success", "none", "true"})
_ANSWER = frozenset({"id", "object", "model", "choices", "usage"})
_DEPTH, _MOST = 6, 100


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """Description of a failure, as an error body gives it.

    :param kind: types and codes in the service's words, outermost first.
    :param text: the messages, outermost first, each once.
    :param status: an HTTP status in the body; None when it has none.
    """

    kind: str
    text: str
    status: int | None


def report_of(body: Any) -> ErrorReport:
    """Return what an error body reports."""
    kinds: dict[str, None] = {}
    texts: dict[str, None] = {}
    status = None
    for part in _parts(body):
        for name, value in _fields(part):
            if isinstance(value, str) and name in _TEXTS and value.strip() and _embedded(value) is None:
                texts.setdefault(value.strip())
            elif isinstance(value, str) and name in _KINDS and not value.isdecimal() and value != "error":
                kinds.setdefault(value)
            if name in _NUMBERS and str(value).isdecimal() and 400 <= int(str(value)[:9]) < 600:
                status = status or int(str(value))
    longest = [text for text in texts if not any(text != other and text in other for other in texts)]
    return ErrorReport(" ".join(kinds), ": ".join(longest), status)


def is_failure(body: Any) -> bool:
    """Return true if a body or event without an answer reports a failure: an error, ``success: false``, a code that is
    not 0 beside a text, or a text alone.
    """
    if not isinstance(body, Mapping) or body.get("choices"):
        return False
    if (
        body.get("error")
        or body.get("errors")
        or body.get("fault")
        or body.get("object") == "error"
        or body.get("success") is False
    ):
        return True
    inner = [one for one in body.values() if isinstance(one, Mapping)]
    deep = [one for part in inner for one in part.values() if isinstance(one, Mapping)]
    if any(_has_failed(part) for part in (body, *inner, *deep)):
        return True
    names = {_plain(name) for name, value in body.items() if value}
    return bool(names & _TEXTS) and not names & _ANSWER and not _CODES & dict(_fields(body)).keys()


def _has_failed(part: Mapping[str, Any]) -> bool:
    fields = dict(_fields(part))
    status = str(fields.get("status"))[:9]
    coded = any(str(fields[name]).lower() not in _FINE for name in _CODES & fields.keys())
    coded = coded or (status.isdecimal() and int(status) >= 400)
    return coded and any(isinstance(fields[name], str) and fields[name] for name in _TEXTS & fields.keys())


def _parts(body: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a body, level by level; a text that holds JSON is followed too."""
    level = [body]
    seen = 0
    for _ in range(_DEPTH):
        following: list[Any] = []
        for value in level:
            if isinstance(value, str):
                value = _embedded(value)  # noqa: PLW2901
            if isinstance(value, Mapping):
                yield value
                following += value.values()
            elif isinstance(value, list):
                following += value
            seen += 1
            if seen > _MOST:
                return
        level = following


def _embedded(text: str) -> Any:
    """Return the JSON object inside a text; None when it holds none."""
    begin, end = text.find("{"), text.rfind("}")
    if begin < 0 or end <= begin:
        return None
    try:
        found = msgspec.json.decode(text[begin : end + 1])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _fields(part: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the fields under plain names; each item of a list of texts is a field."""
    named = [(_plain(name), value) for name, value in part.items()]
    listed = [(name, one) for name, value in named if isinstance(value, list) for one in value]
    return [*named, *((name, one) for name, one in listed if isinstance(one, str))]


def _plain(name: Any) -> str:
    return str(name).replace("_", "").replace("-", "").lower()
