"""Protocols of the loopback model services: request checks and reply encoding. Pure.

A protocol is a module with ``check(headers, body)``, ``whole(reply, body, number)``, ``stream(reply, body, number)``
and ``error(kind, message)``. ``requests.json`` holds the JSON Schema of each request, from the service's reference;
``check`` has the rules that a schema cannot express (the call that a result belongs to).
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

CREATED = 1_781_534_000
"""Creation time of every answer, in Unix seconds."""


class RequestRefused(Exception):
    """The error of ``kind`` with which the service refuses a request."""

    def __init__(self, message: str, kind: str = "invalid_request_error", status: int = 400) -> None:
        super().__init__(f"{status}: {message}")
        self.message, self.kind, self.status = message, kind, status


def require(condition: object, message: str) -> None:
    """Require ``condition``.

    :raises RequestRefused: 400, when it is false.
    """
    if not condition:
        raise RequestRefused(message)


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the key in the header ``authorization``."""
    return headers.get("authorization", "").removeprefix("Bearer").strip()


def check_fields(protocol: str, body: Any) -> None:
    """Check the fields of a request.

    :raises RequestRefused: a field is invalid.
    """
    for found in _shape(protocol).iter_errors(body):
        raise RequestRefused(f"{'.'.join(map(str, found.absolute_path))}: {found.message}")


def check_shape(protocol: str, body: Any) -> None:
    """Check the fields of a request, and that a forced tool is among its tools.

    :raises RequestRefused: a field is invalid, or the tool is missing.
    """
    check_fields(protocol, body)
    choice = body.get("tool_choice")
    named = choice.get("function", choice).get("name") if isinstance(choice, dict) else None
    names = [tool.get("function", tool)["name"] for tool in body.get("tools", ())]
    require(named is None or named in names, "tool_choice: the tool is not among the tools")


@cache
def _shape(protocol: str) -> Draft202012Validator:
    return Draft202012Validator(
        json.loads(files(__name__).joinpath("requests.json").read_text("utf-8"))[protocol]
    )


def in_two_pieces(text: str) -> list[str]:
    """Split a text into two pieces; leave out empty ones."""
    middle = (len(text) + 1) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def encode_sse(data: Any, name: str = "") -> bytes:
    """Encode a server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
