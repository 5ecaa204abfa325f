"""Protocol of Anthropic's Messages API, from its reference: request checks, replies as a message or as events."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from claw_testing.protocols import (
    RequestRefused,
    bearer_token,
    check_shape,
    encode_sse,
    in_two_pieces,
    require,
)
from claw_testing.protocols.tool_schemas import check_draft, check_keys

IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def error(kind: str, message: str) -> dict[str, Any]:
    """Build the body of an error."""
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_loopback"}


def check(headers: Mapping[str, str], body: Any) -> None:
    """Check a request.

    :raises RequestRefused: the service would refuse it.
    """
    if not (headers.get("x-api-key") or bearer_token(headers)):
        raise RequestRefused("x-api-key header is required", "authentication_error", 401)
    require("anthropic-version" in headers, "anthropic-version: header is required")
    check_shape("anthropic", body)
    require(
        json.dumps(body).count('"cache_control"') <= 4,
        "A maximum of 4 blocks with cache_control may be provided",
    )
    names = [tool["name"] for tool in body.get("tools", ())]
    for at, tool in enumerate(body.get("tools", ())):
        where, schema = f"tools.{at}.custom.input_schema", tool["input_schema"]
        require(schema.get("type") == "object", f"{where}.type: Input should be 'object'")
        require(
            not {"oneOf", "allOf", "anyOf"} & schema.keys(),
            f"{where}: input_schema does not support oneOf, allOf, or anyOf at the top level",
        )
        check_draft(schema, where)
        check_keys(schema, where)
    require(len(set(names)) == len(names), "tools: Tool names must be unique.")
    thinking = body.get("thinking", {})
    if thinking.get("type", "disabled") != "disabled":
        forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
        require(not forced, "Thinking may not be enabled when tool_choice forces tool use.")
        budget = thinking.get("budget_tokens", 0)
        require(budget < body["max_tokens"], "`max_tokens` must be above the thinking budget")
        require(
            body.get("temperature", 1) == 1,
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
        )
    _check_blocks(body)
    _check_pairs(body["messages"])


def _check_blocks(body: Mapping[str, Any]) -> None:
    """Check the kinds of pictures, the blocks that may be cached, and the end of an answer that is continued."""
    system = body.get("system", ())
    lists = [system, *(message["content"] for message in body["messages"])]
    for block in (block for blocks in lists if isinstance(blocks, list) for block in blocks):
        empty = block.get("text") == "" and "cache_control" in block
        require(not empty, "cache_control cannot be set for empty text blocks")
        kind = block.get("source", {}).get("media_type") if block["type"] == "image" else "image/png"
        message = "image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"
        require(kind is None or kind in IMAGES, message)
    last = body["messages"][-1]
    content = last["content"]
    text = content if isinstance(content, str) else content[-1].get("text", "") if content else ""
    require(
        last["role"] != "assistant" or text == text.rstrip(),
        "messages: final assistant content cannot end with trailing whitespace",
    )


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """Check that roles alternate and that the next message begins with the result of every call."""
    asked: list[str] = []
    seen: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        require(
            message["role"] == ("user", "assistant")[index % 2], f"{where}: roles must alternate, user first"
        )
        blocks = message["content"] if isinstance(message["content"], list) else []
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        missing = ", ".join(call for call in asked if call not in results)
        require(not missing, f"{where}: `tool_use` ids were found without `tool_result` blocks: {missing}.")
        require(
            set(results) <= set(asked), f"{where}: unexpected `tool_use_id` found in `tool_result` blocks"
        )
        behind = [block for block in blocks[len(results) :] if block["type"] == "tool_result"]
        require(not behind, f"{where}: tool_result blocks must come first")
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        is_unique = seen.isdisjoint(asked) and len(set(asked)) == len(asked)
        require(is_unique, f"{where}: `tool_use` ids must be unique")
        seen.update(asked)
    require(not asked, "messages: `tool_use` ids were found without `tool_result` blocks")


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Encode the reply as one message."""
    used = reply.usage
    head = {"id": f"msg_{number:024d}", "type": "message", "role": "assistant", "model": body["model"]}
    usage = {
        "input_tokens": used.get("input", 10),
        "output_tokens": used.get("output", 5),
        "cache_read_input_tokens": used.get("cache_read", 0),
        "cache_creation_input_tokens": used.get("cache_write", 0),
    }
    stop = reply.stop or ("tool_use" if reply.calls else "end_turn")
    content = _blocks(reply, number)
    return {**head, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """Encode the reply as events; text, thinking and arguments in two pieces each."""
    message = whole(reply, body, number)
    usage = message["usage"]
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield _event("message_start", message=begun)
    yield _event("ping")
    for index, block in enumerate(message["content"]):
        empty, deltas = _initial_and_deltas(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for kind, name, piece in deltas:
            yield _event("content_block_delta", index=index, delta={"type": f"{kind}_delta", name: piece})
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage={"output_tokens": usage["output_tokens"]})
    yield _event("message_stop")


def _blocks(reply: Any, number: int) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": f"sealed-{number}"})
    if reply.text:
        blocks.append({"type": "text", "text": reply.text})
    for place, (name, arguments) in enumerate(reply.calls):
        call = f"toolu_{number:020d}{place:04d}"
        blocks.append({"type": "tool_use", "id": call, "name": name, "input": arguments})
    return blocks


def _initial_and_deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Split a block into its initial form and its deltas (kind, field, piece)."""
    if block["type"] == "tool_use":
        written = json.dumps(block["input"], ensure_ascii=False)
        return {**block, "input": {}}, [
            ("input_json", "partial_json", half) for half in in_two_pieces(written)
        ]
    kind = block["type"]
    deltas = [(kind, kind, half) for half in in_two_pieces(block[kind])]
    if kind == "text":
        return {**block, "text": ""}, deltas
    return {**block, "thinking": "", "signature": ""}, [
        *deltas,
        ("signature", "signature", block["signature"]),
    ]


def _event(name: str, **data: Any) -> bytes:
    return encode_sse({"type": name, **data}, name)
