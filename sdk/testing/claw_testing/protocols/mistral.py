"""Protocol of Mistral's chat completions, from its reference: request checks, replies as a completion or as chunks.

Facts: docs.mistral.ai, "Chat", "Function calling", "Reasoning"; the order of roles and the form of ids come
from the service's own errors (codes 3230 and 3280).
"""

import json
import string
from collections.abc import Iterator, Mapping
from typing import Any

from claw_testing.protocols import (
    CREATED,
    RequestRefused,
    bearer_token,
    check_shape,
    encode_sse,
    in_two_pieces,
    require,
)
from claw_testing.protocols.tool_schemas import check_draft

_NEXT_ROLES = {
    "": ("system", "user"),
    "system": ("system", "user", "assistant"),
    "user": ("user", "system", "assistant"),
    "assistant": ("user", "assistant", "tool"),
    "tool": ("tool", "assistant"),
}
_ID_CHARS = string.digits + string.ascii_letters


def error(kind: str, message: str) -> dict[str, Any]:
    """Build the body of an error."""
    return {"object": "error", "message": message, "type": kind, "param": None, "code": None}


def check(headers: Mapping[str, str], body: Any) -> None:
    """Check a request.

    :raises RequestRefused: the service would refuse it.
    """
    if not bearer_token(headers):
        raise RequestRefused("Unauthorized", "authentication_error", 401)
    check_shape("mistral", body)
    for tool in body.get("tools", ()):
        check_draft(tool["function"]["parameters"], f"tools.{tool['function']['name']}")
    before, open_calls = "", list[str]()
    for message in body["messages"]:
        role = message["role"]
        require(role in _NEXT_ROLES[before], f"Unexpected role '{role}' after role '{before}'")
        before = role
        if role == "tool":
            require(message["tool_call_id"] in open_calls, "Unexpected tool call id in tool results")
            open_calls.remove(message["tool_call_id"])
            continue
        require(not open_calls, "Not the same number of function calls and responses")
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        require(len(set(open_calls)) == len(open_calls), "Duplicate tool call id in assistant message")
    require(not open_calls, "Not the same number of function calls and responses")
    goes_on = before == "assistant" and body["messages"][-1].get("prefix")
    wanted = "Expected last role User or Tool (or Assistant with prefix True)"
    require(before in ("user", "tool") or goes_on, f"{wanted} for serving but got {before}")


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Encode the reply as one completion."""
    thought = [_thinking_block(reply.thinking)] if reply.thinking else []
    said = [*thought, *([{"type": "text", "text": reply.text}] if reply.text else [])]
    message: dict[str, Any] = {"role": "assistant", "content": said if thought else reply.text}
    if calls := _calls(reply, number):
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    head = {"id": f"{number:032x}", "object": "chat.completion", "created": CREATED, "model": body["model"]}
    return {**head, "choices": [choice], "usage": _usage(reply)}


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """Encode the reply as chunks: text and thinking in two pieces each, a call whole, usage with the stop reason."""
    base = {
        "id": f"{number:032x}",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": body["model"],
    }

    def chunk(delta: Mapping[str, Any], **more: Any) -> bytes:
        finish = more.pop("finish", None)
        return encode_sse(
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
        )

    yield chunk({"role": "assistant", "content": ""})
    for half in in_two_pieces(reply.thinking):
        yield chunk({"content": [_thinking_block(half)]})
    for half in in_two_pieces(reply.text):
        yield chunk({"content": half})
    for call in _calls(reply, number):
        yield chunk({"tool_calls": [call]})
    yield chunk({"content": ""}, finish=_finish(reply), usage=_usage(reply))
    yield b"data: [DONE]\n\n"


def _thinking_block(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _calls(reply: Any, number: int) -> list[dict[str, Any]]:
    """Build the calls, with ids of nine letters and digits like those of the service."""
    calls = []
    for at, (name, given) in enumerate(reply.calls):
        function = {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
        calls.append({"id": f"call{number % 10_000:04d}{_ID_CHARS[at]}", "function": function, "index": at})
    return calls


def _finish(reply: Any) -> str:
    return reply.stop or ("tool_calls" if reply.calls else "stop")


def _usage(reply: Any) -> dict[str, Any]:
    used = reply.usage
    read, after = used.get("cache_read", 0), used.get("output", 5)
    before = used.get("input", 10) + read
    counted = {"prompt_tokens": before, "completion_tokens": after, "total_tokens": before + after}
    return counted | {"prompt_tokens_details": {"cached_tokens": read}}
