"""The Responses API, as its reference says it: requests checked, replies told as a response or as events."""

import json
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from claw.testing.protocols.chat import check_function, check_key, error, halves, want

FIELDS = frozenset(
    {
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "stream",
        "store",
        "include",
    }
    | {"max_output_tokens", "reasoning", "temperature", "top_p", "metadata", "user", "text", "truncation"}
)
__all__ = ["check", "error", "stream", "whole"]


def check(headers: Mapping[str, str], body: Any) -> None:
    """Refuse what the service refuses. :raises Refusal:"""
    check_key(headers)
    want(isinstance(body, dict), "We could not parse the JSON body of your request.")
    for name in body:
        want(name in FIELDS, f"Unknown parameter: '{name}'.")
    want(isinstance(body.get("model"), str) and body["model"], "Missing required parameter: 'model'.")
    names = [check_function(tool) for tool in body.get("tools", ())]
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        want(
            choice.get("type") == "function" and choice.get("name") in names,
            "Tool choice was not found in 'tools'.",
        )
    elif choice is not None:
        want(choice in ("auto", "none", "required"), "Invalid value: 'tool_choice'.")
    items = body.get("input")
    want(items, "Missing required parameter: 'input'.")
    if isinstance(items, list):
        _check_items(items)


def _check_items(items: list[dict[str, Any]]) -> None:
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for call in answered:
        want(call in asked, f"No tool call found for function call output with call_id {call}.")
    for call in asked:
        want(call in answered, f"No tool output found for function call {call}.")
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        want(
            kind in ("message", "function_call", "function_call_output", "reasoning"),
            f"Invalid value: input[{index}].type",
        )
        want(
            kind != "message" or item.get("role") in ("user", "assistant", "system", "developer"),
            f"input[{index}].role",
        )
        want(kind != "reasoning" or item.get("id"), f"Missing required parameter: 'input[{index}].id'.")


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The reply as one response."""
    cut = reply.stop == "max_output_tokens"
    return {
        **_begun(body, number),
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": reply.stop} if cut else None,
        "output": _items(reply, number),
        "usage": _usage(reply),
    }


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """The reply as events; text and arguments in two pieces each."""
    places = count()

    def event(kind: str, /, **data: Any) -> bytes:
        told = {"type": kind, **data, "sequence_number": next(places)}
        return f"event: {kind}\ndata: {json.dumps(told, ensure_ascii=False)}\n\n".encode()

    yield event("response.created", response=_begun(body, number))
    for place, item in enumerate(_items(reply, number)):
        yield event("response.output_item.added", output_index=place, item=_opened(item))
        for name, data in _grown(reply, item):
            yield event(name, item_id=item["id"], output_index=place, **data)
        yield event("response.output_item.done", output_index=place, item=item)
    ended = whole(reply, body, number)
    yield event(f"response.{ended['status']}", response=ended)


def _opened(item: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {"status": "in_progress", "arguments": "", "content": [], "summary": []}
    return {key: empty.get(key, value) for key, value in item.items()}


def _grown(reply: Any, item: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events between the beginning and the end of one item."""
    if item["type"] == "message":
        part = item["content"][0]
        yield "response.content_part.added", {"content_index": 0, "part": {**part, "text": ""}}
        for half in halves(reply.text):
            yield "response.output_text.delta", {"content_index": 0, "delta": half, "logprobs": []}
        yield "response.output_text.done", {"content_index": 0, "text": reply.text, "logprobs": []}
        yield "response.content_part.done", {"content_index": 0, "part": part}
    elif item["type"] == "reasoning":
        yield (
            "response.reasoning_summary_part.added",
            {"summary_index": 0, "part": {"type": "summary_text", "text": ""}},
        )
        for half in halves(reply.thinking):
            yield "response.reasoning_summary_text.delta", {"summary_index": 0, "delta": half}
        yield "response.reasoning_summary_part.done", {"summary_index": 0, "part": item["summary"][0]}
    else:
        for half in halves(item["arguments"]):
            yield "response.function_call_arguments.delta", {"delta": half}
        yield "response.function_call_arguments.done", {"name": item["name"], "arguments": item["arguments"]}


def _begun(body: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_781_534_000,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "usage": None,
    }


def _items(reply: Any, number: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        items.append(
            {
                "type": "reasoning",
                "id": f"rs_{number}",
                "summary": summary,
                "encrypted_content": f"sealed-{number}",
            }
        )
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": [], "logprobs": []}
        items.append(
            {
                "type": "message",
                "id": f"msg_{number}",
                "status": "completed",
                "role": "assistant",
                "content": [part],
            }
        )
    for place, (name, arguments) in enumerate(reply.calls):
        ids = {"id": f"fc_{number}_{place}", "call_id": f"call_{number:08d}_{place}"}
        written = json.dumps(arguments, ensure_ascii=False)
        items.append(
            {"type": "function_call", **ids, "status": "completed", "name": name, "arguments": written}
        )
    return items


def _usage(reply: Any) -> dict[str, Any]:
    used = reply.usage
    read, wrote = used.get("cache_read", 0), used.get("cache_write", 0)
    given, output = used.get("input", 10) + read + wrote, used.get("output", 5)
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": wrote},
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + output,
    }
