"""Protocol of OpenAI's Chat Completions, from its reference: request checks, replies as a completion or as chunks."""

import json
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
from claw_testing.protocols.tool_schemas import check_function

MOST_TOOLS = 128
DESCRIPTION_CHARS = 1024
_NOT_AT_TOP = {"oneOf", "anyOf", "allOf", "enum", "not"}


def error(kind: str, message: str) -> dict[str, Any]:
    """Build the body of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def check(headers: Mapping[str, str], body: Any) -> None:
    """Check a request.

    :raises RequestRefused: the service would refuse it.
    """
    check_key(headers)
    check_shape("chat", body)
    check_functions([tool["function"] for tool in body.get("tools", ())])
    open_calls: list[str] = []
    for index, message in enumerate([*body["messages"], {"role": "end"}]):
        if message["role"] == "tool":
            fits = message["tool_call_id"] in open_calls
            require(fits, f"messages[{index}]: 'tool' must follow a message with 'tool_calls'")
            open_calls.remove(message["tool_call_id"])
            continue
        late = ", ".join(open_calls)
        require(
            not open_calls, f"'tool_calls' must be followed by tool messages responding to each id: {late}"
        )
        open_calls = [call["id"] for call in message.get("tool_calls", ())]


def check_functions(functions: list[Any]) -> None:
    """Check the tools of a request: their number, and the top of each schema."""
    count = len(functions)
    require(
        count <= MOST_TOOLS,
        f"Invalid 'tools': array too long. Expected an array with maximum length {MOST_TOOLS}, but got an array with "
        f"length {count} instead.",
    )
    for at, one in enumerate(functions):
        length = len(one.get("description", ""))
        require(
            length <= DESCRIPTION_CHARS,
            f"Invalid 'tools[{at}].function.description': string too long. Expected a string with maximum length "
            f"{DESCRIPTION_CHARS}, but got a string with length {length} instead.",
        )
        schema = one.get("parameters") or {"type": "object"}
        fits = schema.get("type") == "object" and not _NOT_AT_TOP & schema.keys()
        require(
            fits,
            f"Invalid schema for function '{one['name']}': schema must have type 'object' and not have "
            "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        )
        check_function(schema, one["name"])


def check_key(headers: Mapping[str, str]) -> None:
    """Require a key; any value is accepted."""
    if not bearer_token(headers):
        raise RequestRefused("You didn't provide an API key.", status=401)


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Encode the reply as one completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if calls := _calls(reply, number):
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    counted = usage(reply, "prompt_tokens", "completion_tokens")
    return {**_envelope("chat.completion", body, number), "choices": [choice], "usage": counted}


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """Encode the reply as chunks; text, thinking and arguments in two pieces each, usage when requested."""
    base = _envelope("chat.completion.chunk", body, number)

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return encode_sse({**base, "choices": [choice]})

    yield chunk({"role": "assistant", "content": None if reply.calls and not reply.text else ""})
    for half in in_two_pieces(reply.thinking):
        yield chunk({"reasoning_content": half})
    for half in in_two_pieces(reply.text):
        yield chunk({"content": half})
    for index, call in enumerate(_calls(reply, number)):
        head = {**call, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index, **head}]})
        for half in in_two_pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    yield chunk({}, _finish(reply))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield encode_sse({**base, "choices": [], "usage": usage(reply, "prompt_tokens", "completion_tokens")})
    yield b"data: [DONE]\n\n"


def _envelope(kind: str, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": CREATED, "model": body["model"]}


def _calls(reply: Any, number: int) -> list[dict[str, Any]]:
    called = [
        {"name": name, "arguments": json.dumps(given, ensure_ascii=False)} for name, given in reply.calls
    ]
    ids = (f"call_{number:08d}_{place}" for place in range(len(called)))
    return [{"id": id, "type": "function", "function": one} for id, one in zip(ids, called, strict=True)]


def _finish(reply: Any) -> str:
    return reply.stop or ("tool_calls" if reply.calls else "stop")


def usage(reply: Any, given: str, made: str) -> dict[str, Any]:
    """Build the usage; ``given`` and ``made`` name its fields. The input tokens include the cached ones."""
    used = reply.usage
    read, wrote = used.get("cache_read", 0), used.get("cache_write", 0)
    before, after = used.get("input", 10) + read + wrote, used.get("output", 5)
    details = {"cached_tokens": read, "cache_write_tokens": wrote}
    sums = {given: before, made: after, "total_tokens": before + after}
    return {**sums, f"{given}_details": details, f"{made}_details": {"reasoning_tokens": 0}}
