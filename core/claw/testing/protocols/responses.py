"""The Responses API, as its reference says it: requests checked, replies told as a response or as events."""

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from claw.testing.protocols import CREATED, check_shape, halves, sse, want
from claw.testing.protocols.chat import check_key, error, usage

__all__ = ["check", "error", "stream", "whole"]


def check(headers: Mapping[str, str], body: Any) -> None:
    """Refuse what the service refuses. :raises Refusal:"""
    check_key(headers)
    check_shape("responses", body)
    items = body["input"] if isinstance(body["input"], list) else []
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for call in answered:
        want(call in asked, f"No tool call found for function call output with call_id {call}.")
    for call in asked:
        want(call in answered, f"No tool output found for function call {call}.")


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The reply as one response."""
    cut = reply.stop == "max_output_tokens"
    return {
        **_begun(body, number),
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": reply.stop} if cut else None,
        "output": _items(reply, number),
        "usage": usage(reply, "input_tokens", "output_tokens"),
    }


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """The reply as events; text and arguments in two pieces each."""
    places = count()

    def event(kind: str, /, **data: Any) -> bytes:
        return sse({"type": kind, **data, "sequence_number": next(places)}, kind)

    yield event("response.created", response=_begun(body, number))
    for place, item in enumerate(_items(reply, number)):
        yield event("response.output_item.added", output_index=place, item=_opened(item))
        for name, data in _grown(item):
            yield event(f"response.{name}", item_id=item["id"], output_index=place, **data)
        yield event("response.output_item.done", output_index=place, item=item)
    ended = whole(reply, body, number)
    yield event(f"response.{ended['status']}", response=ended)


def _opened(item: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"status": "in_progress", "arguments": "", "content": [], "summary": []}
    return {key: empty.get(key, value) for key, value in item.items()}


def _grown(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events between the beginning and the end of one item."""
    if item["type"] == "function_call":
        for half in halves(item["arguments"]):
            yield "function_call_arguments.delta", {"delta": half}
        yield "function_call_arguments.done", {"name": item["name"], "arguments": item["arguments"]}
        return
    said = item["type"] == "message"
    part, index = (item["content"][0], "content_index") if said else (item["summary"][0], "summary_index")
    holder, text = (
        ("content_part", "output_text") if said else ("reasoning_summary_part", "reasoning_summary_text")
    )
    yield f"{holder}.added", {index: 0, "part": {**part, "text": ""}}
    for half in halves(part["text"]):
        yield f"{text}.delta", {index: 0, "delta": half, "logprobs": []}
    yield f"{text}.done", {index: 0, "text": part["text"], "logprobs": []}
    yield f"{holder}.done", {index: 0, "part": part}


def _begun(body: Mapping[str, Any], number: int) -> dict[str, Any]:
    head = {"id": f"resp_{number}", "object": "response", "created_at": CREATED, "model": body["model"]}
    none = dict.fromkeys(("error", "incomplete_details", "usage"))
    asked = {key: body.get(key) for key in ("instructions", "tools", "tool_choice")}
    return {**head, **none, **asked, "status": "in_progress", "output": [], "parallel_tool_calls": True}


def _items(reply: Any, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.thinking:
        summary = {"type": "summary_text", "text": reply.thinking}
        item = {"type": "reasoning", "id": f"rs_{number}", "summary": [summary]}
        items.append({**item, "encrypted_content": f"sealed-{number}"})
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        item = {"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant"}
        items.append({**item, "content": [part]})
    for place, (name, given) in enumerate(reply.calls):
        item = {
            "type": "function_call",
            "id": f"fc_{number}_{place}",
            "call_id": f"call_{number:08d}_{place}",
        }
        called = {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
        items.append({**item, "status": "completed", **called})
    return items
