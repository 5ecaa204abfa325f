"""Faults in the content of a response, and the errors of a service."""

from collections.abc import Callable
from email.utils import formatdate
from time import time
from typing import Any

from claw_testing import ServiceConnection, ServiceReply

from pytest_claw.faults.building_blocks import BIG, TICKS, for_ever, gzipped, twisted
from pytest_claw.faults.record import ANSWER, CALLS, KEY, TEXT, UNREADABLE, Data, add, fault

# --- content


def _add_changed(name: str, ends: str, change: Callable[[Data], Data], **said: Any) -> None:
    """Add a fault that changes every JSON object of the stream."""

    async def play(line: ServiceConnection) -> None:
        await line.send_head()
        await line.send(*twisted(line.events, change))

    add(name, ends, ServiceReply(**{"text": TEXT, "calls": CALLS, **said}, play=play))


def _without(*names: str) -> Callable[[Data], Data]:
    return lambda data: {name: value for name, value in data.items() if name not in names}


def _instead(value: Any, *names: str) -> Callable[[Data], Data]:
    return lambda data: {name: value if name in names and old else old for name, old in data.items()}


def _of_calls(change: Callable[[Data], Data]) -> Callable[[Data], Data]:
    """Return a change of tool calls only."""

    def only(data: Data) -> Data:
        named = "function" in data and "arguments" in (data["function"] or {}) and "id" in data
        return change(data) if named or data.get("type") in ("tool_use", "function_call") else data

    return only


_STOPS = ("stop_reason", "finish_reason", "finishReason")
_add_changed("no figures", ANSWER, _without("usage", "usageMetadata"))
_add_changed("no reason to stop", "truncated answer", _without(*_STOPS))
_add_changed("an unknown reason to stop", ANSWER, _instead("because", *_STOPS))
_add_changed("another model than was asked", ANSWER, _instead("another-model", "model", "modelVersion"))
_add_changed("calls without an id", ANSWER, _of_calls(_without("id", "call_id")))
_add_changed("two calls of one id", ANSWER, _of_calls(_instead("callsame1", "id", "call_id")))
_add_changed(
    "everything at one index",
    ANSWER,
    lambda data: {name: 0 if name in ("index", "output_index") else value for name, value in data.items()},
)
_add_changed(
    "arguments that are not JSON",
    UNREADABLE,
    lambda data: (
        _instead("{oops", "arguments", "partial_json")(data) | ({"args": "oops"} if "args" in data else {})
    ),
)
# A provider passes these on; claw asks once more, and informs the person (claw.agent.outcome).
add("nothing said", ANSWER, ServiceReply())
add("only thoughts", ANSWER, ServiceReply(thinking="hm, hm"))


# --- refusals

_CLASSES = {
    400: "bad_request", 401: "auth", 402: "billing", 403: "permission", 404: "model_not_found", 408: "timeout",
    409: "server unknown", 413: "request_too_large", 422: "bad_request", 500: "server", 502: "server",
    503: "server overloaded", 504: "server timeout", 529: "overloaded",
}  # fmt: skip
PAGE = b"<html><body>Sorry, " + KEY.encode() + b"</body></html>"
_BODY = {"error": {"message": f"not now, {KEY}"}}
for _status, _ends in _CLASSES.items():
    add(f"{_status}", _ends, ServiceReply(status=_status, body=_BODY))
add("500 with a web page", "server", ServiceReply(status=500, body=PAGE, content_type="text/html"))
add("503 with nothing", "server overloaded", ServiceReply(status=503, body=b""))
add("500 with bytes that are no text", "server", ServiceReply(status=500, body=b"\xff" + KEY.encode()))


@fault("server timeout")
async def an_error_whose_words_never_end(line: ServiceConnection) -> None:
    await line.send_head(500, "application/json", content_length="1000")
    await line.send(b'{"error": ')
    await line.hang()


@fault("server")
async def an_error_without_end(line: ServiceConnection) -> None:
    await line.send_head(500, "application/json")
    await line.send(b'{"error": {"message": "not now')
    while True:
        await line.send(b" " * 65536)


@fault("server timeout")
async def an_error_that_drips(line: ServiceConnection) -> None:
    await line.send_head(500, "application/json", content_length="200000000")
    await for_ever(line, [b"x"] * TICKS)


@fault("server")
async def an_error_that_is_a_gzip_bomb(line: ServiceConnection) -> None:
    await line.send_head(500, "application/json", content_encoding="gzip")
    await line.send(gzipped(b'{"error": "' + b" " * BIG))


_PAUSES: dict[str, tuple[dict[str, str], tuple[float, float] | None]] = {
    "no pause given": ({}, None),
    "a pause in seconds": ({"retry-after": "9"}, (9, 9)),
    "a pause in milliseconds": ({"retry-after-ms": "1500"}, (1.5, 1.5)),
    "a pause until a date": ({"retry-after": formatdate(time() + 3600, usegmt=True)}, (1, 3600)),
    "a pause until a date gone by": ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, (0, 0)),
    "a negative pause": ({"retry-after": "-5"}, None),
    "a pause of years": ({"retry-after": "99999999"}, (99999999, 99999999)),
    "a pause in words": ({"retry-after": "soon"}, None),
}
for _name, (_headers, _wait) in _PAUSES.items():
    add(f"429, {_name}", "rate_limit", ServiceReply(status=429, headers=_headers, body=_BODY), wait=_wait)
