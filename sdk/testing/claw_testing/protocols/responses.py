"""Protocol of OpenAI's Responses API, from its reference: request checks, replies as a response or as events."""

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from claw_testing.protocols import CREATED, check_shape, encode_sse, in_two_pieces, require
from claw_testing.protocols.chat import check_functions, check_key, error, usage

__all__ = ["check", "error", "stream", "whole"]


def check(headers: Mapping[str, str], body: Any) -> None:
    """Check a request.

    :raises RequestRefused: the service would refuse it.
    """
    check_key(headers)
    check_shape("responses", body)
    check_functions([tool for tool in body.get("tools", ()) if tool.get("type") == "function"])
    items = body["input"] if isinstance(body["input"], list) else []
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for call in answered:
        require(call in asked, f"No tool call found for function call output with call_id {call}.")
    for call in asked:
        require(call in answered, f"No tool output found for function call {call}.")


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Encode the reply as one response."""
    cut = reply.stop == "max_output_tokens"
    return {
        **_initial_response(body, number),
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": reply.stop} if cut else None,
        "output": _items(reply, number),
        "usage": usage(reply, "input_tokens", "output_tokens"),
    }


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """Encode the reply as events; text and arguments in two pieces each."""
    places = count()

    def event(kind: str, /, **data: Any) -> bytes:
        return encode_sse({"type": kind, **data, "sequence_number": next(places)}, kind)

    yield event("response.created", response=_initial_response(body, number))
    for place, item in enumerate(_items(reply, number)):
        yield event("response.output_item.added", output_index=place, item=_empty_item(item))
        for name, data in _item_events(item):
            yield event(f"response.{name}", item_id=item["id"], output_index=place, **data)
        yield event("response.output_item.done", output_index=place, item=item)
    ended = whole(reply, body, number)
    yield event(f"response.{ended['status']}", response=ended)


def _empty_item(item: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"status": "in_progress", "arguments": "", "content": [], "summary": []}
    return {key: empty.get(key, value) for key, value in item.items()}


def _item_events(item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the events between the beginning and the end of one item."""
    if item["type"] == "function_call":
        for half in in_two_pieces(item["arguments"]):
            yield "function_call_arguments.delta", {"delta": half}
        yield "function_call_arguments.done", {"name": item["name"], "arguments": item["arguments"]}
        return
    is_message = item["type"] == "message"
    part, index = (
        (item["content"][0], "content_index") if is_message else (item["summary"][0], "summary_index")
    )
    holder, text = (
        ("content_part", "output_text")
        if is_message
        else ("reasoning_summary_part", "reasoning_summary_text")
    )
    yield f"{holder}.added", {index: 0, "part": {**part, "text": ""}}
    for half in in_two_pieces(part["text"]):
        yield f"{text}.delta", {index: 0, "delta": half, "logprobs": []}
    yield f"{text}.done", {index: 0, "text": part["text"], "logprobs": []}
    yield f"{holder}.done", {index: 0, "part": part}


def _initial_response(body: Mapping[str, Any], number: int) -> dict[str, Any]:
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
