"""Protocol of Gemini's ``generateContent``, from its reference: request checks, replies as a response or as chunks.

Facts: ai.google.dev, "Generating content", "Function calling", "Thought signatures" (from Gemini 3 on, the first
call of an answer must be sent back with one). Like the classic service it gives calls no ids.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from claw_testing.protocols import RequestRefused, check_fields, encode_sse, in_two_pieces, require

_STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_STRICT = re.compile(r"/models/gemini-(?:[3-9]|\d\d)")


def error(kind: str, message: str) -> dict[str, Any]:
    """Build the body of an error."""
    code = {"authentication_error": 403, "not_found_error": 404}.get(kind, 400)
    return {"error": {"code": code, "message": message, "status": _STATUS[code]}}


def check(headers: Mapping[str, str], body: Any) -> None:
    """Check a request; the header ``:path`` holds its path.

    :raises RequestRefused: the service would refuse it.
    """
    if not headers.get("x-goog-api-key"):
        raise RequestRefused("Method doesn't allow unregistered callers.", "authentication_error", 403)
    check_fields("google", body)
    for at, turn in enumerate(body["contents"]):
        require(
            turn["role"] == ("user", "model")[at % 2], f"contents[{at}]: roles must take turns, user first"
        )
    _check_tools(body)
    _check_calls(body["contents"], strict=bool(_STRICT.search(headers.get(":path", ""))))


def _check_tools(body: Mapping[str, Any]) -> None:
    declared = [one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]
    names = [one["name"] for one in declared]
    require(len(set(names)) == len(names), "tools: Duplicate function declaration found")
    for one in declared:
        _check_schema(one.get("parameters", {}), one["name"])
    config = body.get("toolConfig", {}).get("functionCallingConfig", {})
    allowed = config.get("allowedFunctionNames")
    require(allowed is None or config.get("mode") == "ANY", "allowed_function_names: only with the mode ANY")
    require(set(allowed or ()) <= set(names), "allowed_function_names: not among the declarations")
    require(config.get("mode") != "ANY" or names, "function_calling_config: no function is declared")


def _check_schema(schema: Mapping[str, Any], where: str) -> None:
    """Check the rules of a schema beyond its allowed keys."""
    properties = schema.get("properties", {})
    kind = str(schema.get("type", "")).lower()
    is_text = kind in ("string", "") or "format" not in schema or kind in ("number", "integer")
    fits = kind != "string" or schema.get("format", "enum") in ("enum", "date-time")
    require(is_text and fits, f"{where}.format: only 'enum' and 'date-time' are supported for STRING type")
    require("enum" not in schema or kind == "string", f"{where}.enum: only allowed for STRING type")
    require(set(schema.get("required", ())) <= set(properties), f"{where}: required: property is not defined")
    if schema.get("type") in ("array", "ARRAY"):
        require("items" in schema, f"{where}.items: missing field.")
    inner = [
        *properties.values(),
        *schema.get("anyOf", ()),
        *([schema["items"]] if "items" in schema else ()),
    ]
    for part in inner:
        _check_schema(part, where)


def _check_calls(contents: list[dict[str, Any]], *, strict: bool) -> None:
    """Check that the next turn has a response for every call, with the same names, and that signatures are valid."""
    open_calls: list[tuple[str, str]] = []
    for turn in contents:
        parts = turn["parts"]
        for part in parts:
            _check_signature(part.get("thoughtSignature"))
        answers = [_key(part["functionResponse"]) for part in parts if "functionResponse" in part]
        counts = "the number of function response parts must equal that of the function call parts"
        require(
            answers == open_calls,
            f"Please ensure that {counts} of the function call turn. {answers} {open_calls}",
        )
        calls = [part for part in parts if "functionCall" in part]
        unsigned = strict and calls and not calls[0].get("thoughtSignature")
        require(not unsigned, "Function call is missing a thought_signature in functionCall parts.")
        open_calls = [_key(part["functionCall"]) for part in calls]
    require(not open_calls, "Please ensure that function call turns are followed by their responses")


def _key(part: Mapping[str, Any]) -> tuple[str, str]:
    return part["name"], part.get("id", "")


def _check_signature(signature: str | None) -> None:
    try:
        base64.b64decode((signature or "").replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error:
        raise RequestRefused(
            "Invalid value at 'thought_signature' (TYPE_BYTES), Base64 decoding failed"
        ) from None


def whole(reply: Any, body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Encode the reply as one response."""
    return _response(reply, number, _parts(reply, number), reply.stop or "STOP")


def stream(reply: Any, body: Mapping[str, Any], number: int) -> Iterator[bytes]:
    """Encode the reply as chunks; text and thinking in two pieces each, the stop reason in the last."""
    pieces = [piece for part in _parts(reply, number) for piece in _split_part(part)] or [{"text": ""}]
    for at, piece in enumerate(pieces):
        last = at == len(pieces) - 1
        chunk = _response(reply, number, [piece], (reply.stop or "STOP") if last else "")
        yield encode_sse(chunk).replace(b"\n\n", b"\r\n\r\n")


def _split_part(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**part, "text": half} for half in in_two_pieces(part["text"])] if part.get("text") else [part]


def _parts(reply: Any, number: int) -> list[dict[str, Any]]:
    """Return thinking, text and calls; the signature is in the first call, else in an empty part after the text."""
    parts: list[dict[str, Any]] = []
    if reply.thinking:
        parts.append({"text": reply.thinking, "thought": True})
    if reply.text:
        parts.append({"text": reply.text})
    signature = {"thoughtSignature": base64.b64encode(f"sealed-{number}".encode()).decode()}
    for at, (name, given) in enumerate(reply.calls):
        called = {"functionCall": {"name": name, "args": json.loads(json.dumps(given))}}
        parts.append(called if at else called | signature)
    if reply.thinking and not reply.calls:
        parts.append({"text": ""} | signature)
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
