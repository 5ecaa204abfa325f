"""The Messages API, as its reference says it: requests checked, replies told as a message or as events."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from claw.testing.protocols import Refusal

FIELDS = frozenset(
    {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "thinking", "metadata"}
    | {"stop_sequences", "temperature", "top_k", "top_p", "service_tier", "output_config"}
)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOOL_FIELDS = frozenset({"name", "description", "input_schema", "cache_control", "type", "strict"})


def error(kind: str, message: str) -> dict[str, Any]:
    """The body of an error."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"}


def check(headers: Mapping[str, str], body: Any) -> None:
    """Refuse what the service refuses. :raises Refusal:"""
    if not (headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer").strip()):
        raise Refusal(401, error("authentication_error", "x-api-key header is required"))
    _want("anthropic-version" in headers, "anthropic-version: header is required")
    _want(isinstance(body, dict), "The request body is not valid JSON")
    for name in ("model", "max_tokens", "messages"):
        _want(name in body, f"{name}: Field required")
    for name in body:
        _want(name in FIELDS, f"{name}: Extra inputs are not permitted")
    _want(body["max_tokens"] >= 1, "max_tokens: must be at least 1")
    _want(
        json.dumps(body).count('"cache_control"') <= 4,
        "A maximum of 4 blocks with cache_control may be provided",
    )
    _check_tools(body)
    _check_thinking(body)
    _check_messages(body["messages"])


def _check_tools(body: Mapping[str, Any]) -> None:
    names = []
    for index, tool in enumerate(body.get("tools", ())):
        _want(_NAME.fullmatch(tool.get("name", "")), f"tools.{index}.name: String should match pattern")
        _want(tool.keys() <= _TOOL_FIELDS, f"tools.{index}: Extra inputs are not permitted")
        schema = tool.get("input_schema")
        _want(isinstance(schema, dict), f"tools.{index}.input_schema: Field required")
        _want(schema.get("type") == "object", f"tools.{index}.input_schema.type: Input should be 'object'")
        names.append(tool["name"])
    _want(len(set(names)) == len(names), "tools: Tool names must be unique.")
    choice = body.get("tool_choice")
    if choice is not None:
        _want(names, "tool_choice: may only be specified while providing tools")
        _want(choice.get("type") in ("auto", "any", "tool", "none"), "tool_choice: Input tag is not valid")
        _want(
            choice["type"] != "tool" or choice.get("name") in names,
            "tool_choice: Tool not found in provided tools",
        )


def _check_thinking(body: Mapping[str, Any]) -> None:
    thinking = body.get("thinking") or {"type": "disabled"}
    _want(
        thinking.get("type") in ("enabled", "disabled", "adaptive", "between_tools"),
        "thinking.type: not valid",
    )
    if thinking["type"] == "disabled":
        return
    forced = (body.get("tool_choice") or {}).get("type") in ("any", "tool")
    _want(not forced, "Thinking may not be enabled when tool_choice forces tool use.")
    if thinking["type"] == "enabled":
        _want(
            thinking.get("budget_tokens", 0) >= 1024,
            "thinking.enabled.budget_tokens: should be at least 1024",
        )
        _want(
            thinking["budget_tokens"] < body["max_tokens"], "`max_tokens` must be above the thinking budget"
        )


def _check_messages(messages: Any) -> None:
    _want(isinstance(messages, list) and messages, "messages: at least one message is required")
    asked: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        _want(message.keys() == {"role", "content"}, f"{where}: Extra inputs are not permitted")
        _want(
            message["role"] == ("user", "assistant")[index % 2], f"{where}: roles must alternate, user first"
        )
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        _want(blocks, f"{where}: all messages must have non-empty content")
        for block in blocks:
            _want(
                block["type"] != "text" or block["text"].strip(),
                f"{where}: text content blocks must be non-empty",
            )
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        missing = [call for call in asked if call not in results]
        _want(
            not missing,
            f"{where}: `tool_use` ids were found without `tool_result` blocks: {', '.join(missing)}.",
        )
        _want(set(results) <= set(asked), f"{where}: unexpected `tool_use_id` found in `tool_result` blocks")
        head = [block["type"] for block in blocks[: len(results)]]
        _want(head == ["tool_result"] * len(results), f"{where}: tool_result blocks must come first")
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in asked:
            _want(_NAME.fullmatch(call), f"{where}: tool_use.id: String should match pattern")
            _want(call not in seen, f"{where}: `tool_use` ids must be unique")
            seen.add(call)
    _want(not asked, "messages: `tool_use` ids were found without `tool_result` blocks")


def _want(condition: object, message: str) -> None:
    if not condition:
        raise Refusal(400, error("invalid_request_error", message))


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The reply as one message."""
    return {
        "id": f"msg_{number:024d}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": _blocks(reply, number),
        "stop_reason": reply.stop or ("tool_use" if reply.calls else "end_turn"),
        "stop_sequence": None,
        "usage": _usage(reply),
    }


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """The reply as events; text, thoughts and arguments in two pieces each."""
    message = whole(reply, body, number)
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield _event("message_start", message=begun)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        empty, deltas = _apart(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage={"output_tokens": message["usage"]["output_tokens"]})
    yield _event("message_stop")


def _blocks(reply: Any, number: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": f"sealed-{number}"})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for place, (name, arguments) in enumerate(reply.calls):
        blocks.append(
            {"type": "tool_use", "id": f"toolu_{number:020d}{place:04d}", "name": name, "input": arguments}
        )
    return blocks


def _apart(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [
            {"type": "text_delta", "text": half} for half in _halves(block["text"])
        ]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": half} for half in _halves(block["thinking"])]
        seal = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*deltas, seal]
    halves = _halves(json.dumps(block["input"], ensure_ascii=False))
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": half} for half in halves]


def _halves(text: str) -> list[str]:
    middle = (len(text) + 1) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def _usage(reply: Any) -> dict[str, int]:
    return {
        "input_tokens": reply.usage.get("input", 10),
        "output_tokens": reply.usage.get("output", 5),
        "cache_read_input_tokens": reply.usage.get("cache_read", 0),
        "cache_creation_input_tokens": reply.usage.get("cache_write", 0),
    }


def _event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **data}, ensure_ascii=False)}\n\n".encode()
