"""The protocols of the loopback model services: what each refuses, and how it says a reply. Pure.

A protocol is a module with ``check(headers, body)``, ``whole(reply, body, number)``, ``stream(reply, body, number)``
and ``error(kind, message)``. The shape of a request is a JSON Schema in ``requests.json``, as the service's reference
says it; what a schema cannot say (which call a result belongs to) is in ``check``.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

CREATED = 1_781_534_000
"""When every answer was made, in Unix seconds."""


class Refusal(Exception):
    """The service would answer this request with an error of this ``kind``."""

    def __init__(self, message: str, kind: str = "invalid_request_error", status: int = 400) -> None:
        super().__init__(f"{status}: {message}")
        self.message, self.kind, self.status = message, kind, status


def want(condition: object, message: str) -> None:
    """:raises Refusal: 400, unless ``condition``."""
    if not condition:
        raise Refusal(message)


def bearer(headers: Mapping[str, str]) -> str:
    """The key in the header ``authorization``."""
    return headers.get("authorization", "").removeprefix("Bearer").strip()


def check_fields(protocol: str, body: Any) -> None:
    """The fields of a request. :raises Refusal:"""
    for found in _shape(protocol).iter_errors(body):
        raise Refusal(f"{'.'.join(map(str, found.absolute_path))}: {found.message}")


def check_shape(protocol: str, body: Any) -> None:
    """The fields of a request, and that a tool that must be called is there. :raises Refusal:"""
    check_fields(protocol, body)
    choice = body.get("tool_choice")
    named = choice.get("function", choice).get("name") if isinstance(choice, dict) else None
    names = [tool.get("function", tool)["name"] for tool in body.get("tools", ())]
    want(named is None or named in names, "tool_choice: the tool is not among the tools")


@cache
def _shape(protocol: str) -> Draft202012Validator:
    return Draft202012Validator(
        json.loads(files(__name__).joinpath("requests.json").read_text("utf-8"))[protocol]
    )


def halves(text: str) -> list[str]:
    """Two pieces, neither of them empty."""
    middle = (len(text) + 1) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def sse(data: Any, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
