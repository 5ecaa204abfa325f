"""Validation of requests: unknown, missing or wrongly typed fields are refused.

The real service ignores unknown fields; here they are refused, because every unknown field is a mistake.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from claw_feishu.fake.cards import ok, refusal
from claw_feishu.fake.server import FakeAnswer, FakeCall

Shape = Any
"""``str``, ``int`` …; a tuple of the allowed values; ``[shape]`` for lists; a dict for objects, where a name that ends
in ``?`` may be left out and ``*`` matches any name; ``object`` for anything."""

Route = tuple[str, str, Callable[[FakeCall, "re.Match[str]"], FakeAnswer]]
"""A route: method, path as a regular expression, and handler."""

FIELDS_WRONG = 99992402
"""Error code of the platform's gateway for invalid fields ("field validation failed"), with the fields in
``field_violations``."""


def misfit(value: Any, shape: Shape, where: str = "") -> str:
    """Return the mismatch of a value as ``where: why``; empty when it fits."""
    if isinstance(shape, dict):
        return _misfit_object(value, shape, where)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where}: is no list"
        return next(
            (fault for at, one in enumerate(value) if (fault := misfit(one, shape[0], f"{where}[{at}]"))), ""
        )
    if isinstance(shape, tuple):
        return "" if value in shape else f"{where}: {value!r} is none of {', '.join(map(str, shape))}"
    right = isinstance(value, shape) and (shape is object or shape is bool or not isinstance(value, bool))
    return "" if right else f"{where}: is no {shape.__name__}"


def _misfit_object(value: Any, shape: Mapping[str, Shape], where: str) -> str:
    if not isinstance(value, dict):
        return f"{where}: is no object"
    known = {name.removesuffix("?"): inner for name, inner in shape.items()}
    for name in shape:
        if not name.endswith("?") and name != "*" and name not in value:
            return f"{_at(where, name)}: is required"
    for name, one in value.items():
        if name not in known and "*" not in known:
            return f"{_at(where, name)}: is unknown"
        if fault := misfit(one, known.get(name, known.get("*")), _at(where, name)):
            return fault
    return ""


def _at(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


def unfit(
    call: FakeCall, *, query: Mapping[str, Shape] | None = None, body: Shape = None
) -> FakeAnswer | None:
    """Return the service's answer to a request that does not fit; None when it fits.

    :param query: shapes of the query; values arrive as text and numbers are parsed.
    :param body: shape of the body; None = no body.
    """
    given = {
        name: int(text) if text.isdigit() and (query or {}).get(f"{name}?") is int else text
        for name, text in call.query.items()
    }
    problem = misfit(given, query or {})
    if not problem:
        problem = misfit(call.body, body) if body is not None else ("body: is unknown" if call.body else "")
    if not problem:
        return None
    field, _, why = problem.partition(": ")
    answer = refusal(FIELDS_WRONG, "field validation failed")
    answer.body["error"]["field_violations"] = [{"field": field, "description": why}]
    return answer


def page(call: FakeCall, name: str, items: list[Any], most: int) -> FakeAnswer:
    """Return one page of a list in the service's form: the page token is the start index of the next page."""
    size = int(call.query.get("page_size", 20))
    if not 1 <= size <= most:
        return refusal(FIELDS_WRONG, f"field validation failed: page_size is not between 1 and {most}")
    start = int(call.query.get("page_token") or 0)
    more = start + size < len(items)
    data = {name: items[start : start + size], "has_more": more, "total": len(items)}
    return ok({**data, "page_token": str(start + size) if more else ""})


class Repeats:
    """Cache of answers by the caller's idempotency token: a repeat gets the same answer without a new effect."""

    def __init__(self) -> None:
        self._answered: dict[str, Any] = {}

    def answer(self, token: str, make: Callable[[], dict[str, Any]]) -> FakeAnswer:
        """Return the stored answer of a token, or the result of ``make``."""
        if not token:
            return ok(make())
        if token not in self._answered:
            self._answered[token] = make()
        return ok(self._answered[token])
