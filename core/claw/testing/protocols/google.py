"""Gemini's ``generateContent``, as its reference says it: requests checked, replies told as a response or as chunks.

Facts: ai.google.dev, "Generating content", "Function calling", "Thought signatures" (from Gemini 3 on, an answer's first
call must come back with one). Like the classic service it gives calls no ids.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from claw.testing.protocols import Refusal, check_fields, halves, sse, want

_WORDS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_STRICT = re.compile(r"/models/gemini-(?:[3-9]|\d\d)")


def error(kind: str, message: str) -> dict[str, Any]:
    """The body of an error."""
    code = {"authentication_error": 403, "not_found_error": 404}.get(kind, 400)
    return {"error": {"code": code, "message": message, "status": _WORDS[code]}}


def check(headers: Mapping[str, str], body: Any) -> None:
    """Refuse what the service refuses. The path stands in the header ``:path``. :raises Refusal:"""
    if not headers.get("x-goog-api-key"):
        raise Refusal("Method doesn't allow unregistered callers.", "authentication_error", 403)
    check_fields("google", body)
    for at, turn in enumerate(body["contents"]):
        want(turn["role"] == ("user", "model")[at % 2], f"contents[{at}]: roles must take turns, user first")
    _check_tools(body)
    _check_calls(body["contents"], strict=bool(_STRICT.search(headers.get(":path", ""))))


def _check_tools(body: Mapping[str, Any]) -> None:
    declared = [one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]
    names = [one["name"] for one in declared]
    want(len(set(names)) == len(names), "tools: Duplicate function declaration found")
    for one in declared:
        _check_schema(one.get("parameters", {}), one["name"])
    config = body.get("toolConfig", {}).get("functionCallingConfig", {})
    allowed = config.get("allowedFunctionNames")
    want(allowed is None or config.get("mode") == "ANY", "allowed_function_names: only with the mode ANY")
    want(set(allowed or ()) <= set(names), "allowed_function_names: not among the declarations")
    want(config.get("mode") != "ANY" or names, "function_calling_config: no function is declared")


def _check_schema(schema: Mapping[str, Any], where: str) -> None:
    """What a schema must hold besides the keys that it may have."""
    properties = schema.get("properties", {})
    want(set(schema.get("required", ())) <= set(properties), f"{where}: required: property is not defined")
    if schema.get("type") in ("array", "ARRAY"):
        want("items" in schema, f"{where}.items: missing field.")
    inner = [
        *properties.values(),
        *schema.get("anyOf", ()),
        *([schema["items"]] if "items" in schema else ()),
    ]
    for part in inner:
        _check_schema(part, where)


def _check_calls(contents: list[dict[str, Any]], *, strict: bool) -> None:
    """As many responses in the next turn as there were calls, of the same names; seals are whole."""
    owed: list[tuple[str, str]] = []
    for turn in contents:
        parts = turn["parts"]
        for part in parts:
            _check_seal(part.get("thoughtSignature"))
        answers = [_key(part["functionResponse"]) for part in parts if "functionResponse" in part]
        counts = "the number of function response parts must equal that of the function call parts"
        want(answers == owed, f"Please ensure that {counts} of the function call turn. {answers} {owed}")
        calls = [part for part in parts if "functionCall" in part]
        unsealed = strict and calls and not calls[0].get("thoughtSignature")
        want(not unsealed, "Function call is missing a thought_signature in functionCall parts.")
        owed = [_key(part["functionCall"]) for part in calls]
    want(not owed, "Please ensure that function call turns are followed by their responses")


def _key(part: Mapping[str, Any]) -> tuple[str, str]:
    return part["name"], part.get("id", "")


def _check_seal(seal: str | None) -> None:
    try:
        base64.b64decode((seal or "").replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        raise Refusal("Invalid value at 'thought_signature' (TYPE_BYTES), Base64 decoding failed") from None


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The reply as one response."""
    return _response(reply, number, _parts(reply, number), reply.stop or "STOP")


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """The reply as chunks; text and thoughts in two pieces each, the reason to stop in the last."""
    pieces = [piece for part in _parts(reply, number) for piece in _apart(part)] or [{"text": ""}]
    for at, piece in enumerate(pieces):
        last = at == len(pieces) - 1
        chunk = _response(reply, number, [piece], (reply.stop or "STOP") if last else "")
        yield sse(chunk).replace(b"\n\n", b"\r\n\r\n")


def _apart(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**part, "text": half} for half in halves(part["text"])] if part.get("text") else [part]


def _parts(reply: Any, number: int) -> list[dict[str, Any]]:
    """Thoughts, words, calls; a thoughtful answer is sealed in its first call, else behind its words."""
    parts: list[dict[str, Any]] = []
    if reply.thinking:
        parts.append({"text": reply.thinking, "thought": True})
    if reply.text:
        parts.append({"text": reply.text})
    seal = {"thoughtSignature": base64.b64encode(f"sealed-{number}".encode()).decode()}
    for at, (name, given) in enumerate(reply.calls):
        called = {"functionCall": {"name": name, "args": json.loads(json.dumps(given))}}
        parts.append(called if at else called | seal)
    if reply.thinking and not reply.calls:
        parts.append({"text": ""} | seal)
    return parts


def _response(reply: Any, number: int, parts: list[dict[str, Any]], stop: str) -> dict[str, Any]:
    used = reply.usage
    read, after = used.get("cache_read", 0), used.get("output", 5)
    before = used.get("input", 10) + read
    counted = {"promptTokenCount": before, "candidatesTokenCount": after, "totalTokenCount": before + after}
    return {
        "candidates": [
            {"content": {"parts": parts, "role": "model"}, "index": 0}
            | ({"finishReason": stop} if stop else {})
        ],
        "usageMetadata": counted | ({"cachedContentTokenCount": read} if read else {}),
        "modelVersion": "loopback",
        "responseId": f"resp-{number}",
    }
