"""Chat Completions, as its reference says it: requests checked, replies told as a completion or as chunks."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from claw.testing.protocols import Refusal

FIELDS = frozenset(
    {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "stream",
        "stream_options",
        "temperature",
    }
    | {
        "max_completion_tokens",
        "max_tokens",
        "reasoning_effort",
        "stop",
        "top_p",
        "n",
        "user",
        "metadata",
        "store",
    }
)
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ROLES = ("system", "developer", "user", "assistant", "tool")


def error(kind: str, message: str, code: str | None = None) -> dict[str, Any]:
    """The body of an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def check(headers: Mapping[str, str], body: Any) -> None:
    """Refuse what the service refuses. :raises Refusal:"""
    check_key(headers)
    want(isinstance(body, dict), "We could not parse the JSON body of your request.")
    for name in body:
        want(name in FIELDS, f"Unrecognized request argument supplied: {name}")
    want(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter")
    want(
        body.get("stream") or "stream_options" not in body,
        "'stream_options' is only allowed when 'stream' is true.",
    )
    want(
        not {"max_tokens", "max_completion_tokens"} <= body.keys(),
        "max_tokens and max_completion_tokens exclude each other",
    )
    tools = body.get("tools", ())
    want("tools" not in body or tools, "[] is too short - 'tools'")
    names = [check_function(tool.get("function", {})) for tool in tools]
    want(all(tool.get("type") == "function" for tool in tools), "Invalid value: tools[].type")
    choice = body.get("tool_choice")
    if choice is not None:
        want(tools, "'tool_choice' is only allowed when 'tools' are specified.")
        named = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
        want(
            named in names if named else choice in ("auto", "none", "required"),
            "Invalid value: 'tool_choice'",
        )
    _check_messages(body.get("messages"))


def check_key(headers: Mapping[str, str]) -> None:
    """A key must come, whatever it is."""
    if not headers.get("authorization", "").removeprefix("Bearer").strip():
        raise Refusal(
            401, error("invalid_request_error", "You didn't provide an API key.", "invalid_api_key")
        )


def check_function(function: Mapping[str, Any]) -> str:
    """A function tool: its name, its schema. Answers with the name."""
    want(_NAME.fullmatch(function.get("name", "")), "Invalid 'tools[].name': string does not match pattern")
    schema = function.get("parameters", {"type": "object"})
    want(
        schema.get("type") == "object",
        "Invalid schema for function: schema must be a JSON Schema of 'type: \"object\"'",
    )
    return str(function["name"])


def _check_messages(messages: Any) -> None:
    want(isinstance(messages, list) and messages, "[] is too short - 'messages'")
    owed: list[str] = []
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        want(message.get("role") in _ROLES, f"Invalid value: '{where}.role'")
        if message["role"] == "tool":
            want(
                message.get("tool_call_id") in owed,
                f"{where}: 'tool' must follow a message with 'tool_calls'",
            )
            want(isinstance(message.get("content"), str | list), f"{where}.content: expected a string")
            owed.remove(message["tool_call_id"])
            continue
        want(
            not owed,
            f"'tool_calls' must be followed by tool messages responding to each id: {', '.join(owed)}",
        )
        calls = message.get("tool_calls", ())
        want(message["role"] == "assistant" or not calls, f"{where}: only an assistant calls tools")
        want("tool_calls" not in message or calls, f"{where}.tool_calls: [] is too short")
        want(
            message.get("content") is not None or calls,
            f"Invalid value for 'content': expected a string, got null ({where})",
        )
        for call in calls:
            want(
                call.get("type") == "function" and _NAME.fullmatch(call["function"]["name"]),
                f"{where}.tool_calls: invalid",
            )
            want(isinstance(call["function"].get("arguments"), str), f"{where}: arguments: expected a string")
            want(0 < len(call.get("id", "")) <= 40, f"{where}.tool_calls[].id: string too long")
            owed.append(call["id"])
    want(not owed, f"'tool_calls' must be followed by tool messages responding to each id: {', '.join(owed)}")


def want(condition: object, message: str) -> None:
    """:raises Refusal: 400, unless ``condition``."""
    if not condition:
        raise Refusal(400, error("invalid_request_error", message))


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The reply as one completion."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if calls := _calls(reply, number):
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    return {**_envelope("chat.completion", body, number), "choices": [choice], "usage": _usage(reply)}


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """The reply as chunks; text, thoughts and arguments in two pieces each, usage when it was asked for."""
    base = _envelope("chat.completion.chunk", body, number)

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        return sse(
            {**base, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
        )

    yield chunk({"role": "assistant", "content": None if reply.calls and not reply.text else ""})
    for half in halves(reply.thinking):
        yield chunk({"reasoning_content": half})
    for half in halves(reply.text):
        yield chunk({"content": half})
    for index, call in enumerate(_calls(reply, number)):
        head = {**call, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index, **head}]})
        for half in halves(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": half}}]})
    yield chunk({}, _finish(reply))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield sse({**base, "choices": [], "usage": _usage(reply)})
    yield b"data: [DONE]\n\n"


def halves(text: str) -> list[str]:
    """Two pieces, neither of them empty."""
    middle = (len(text) + 1) // 2
    return [half for half in (text[:middle], text[middle:]) if half]


def sse(data: Any) -> bytes:
    """One event without a name."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _envelope(kind: str, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 1_781_534_000, "model": body["model"]}


def _calls(reply: Any, number: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"call_{number:08d}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
        }
        for place, (name, arguments) in enumerate(reply.calls)
    ]


def _finish(reply: Any) -> str:
    return reply.stop or ("tool_calls" if reply.calls else "stop")


def _usage(reply: Any) -> dict[str, Any]:
    """Here cached tokens lie inside of the prompt's."""
    used = reply.usage
    read, wrote = used.get("cache_read", 0), used.get("cache_write", 0)
    prompt, output = used.get("input", 10) + read + wrote, used.get("output", 5)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": wrote},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
