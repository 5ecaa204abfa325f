"""Text formats of tool calls, and their parsing (pure).

``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` is the requested format (spec/channels.md 5.5), on which
Hermes and Qwen were trained. The others appear when a server does not parse a model's own format: the chat templates
of Mistral, Llama, Kimi, DeepSeek, Granite, Qwen-Coder and GLM, as published with their weights.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claw import check_arguments
from claw_provider_sdk import parse_lenient_json

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
RESULT_OPEN = "<tool_result"

CALL_MARKS: dict[str, str] = {
    CALL_OPEN: CALL_CLOSE,
    "<tool_calls>": "</tool_calls>",
    "<function_call>": "</function_call>",
    "<function=": "</function>",
    "<invoke name=": "</invoke>",
    "<|tool_call|>": "<|/tool_call|>",
    "<|tool_call_begin|>": "<|tool_call_end|>",
    "<\uff5ctool\u2581call\u2581begin\uff5c>": "<\uff5ctool\u2581call\u2581end\uff5c>",
    "[TOOL_CALLS]": "",
    "<|python_tag|>": "",
}
"""Opening mark of a call → its closing mark; empty: the call ends with its JSON."""

SECTION_MARKS = (
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<\uff5ctool\u2581calls\u2581begin\uff5c>",
    "<\uff5ctool\u2581calls\u2581end\uff5c>",
    "<function_calls>",
    "</function_calls>",
)
"""Marks that some models put around all calls of an answer."""

MAX_HEAD_CHARS = 200
"""Maximum length of a name, a code fence and blanks before the JSON of a call."""

_NAME = r"[A-Za-z0-9_-]{1,64}"
_NAME_BEFORE_JSON = re.compile(
    rf"\s*(?:function\s*<\uff5ctool\u2581sep\uff5c>\s*)?[\"']?(?:functions?\.)?({_NAME})(?::\d+)?[\"']?\s*"
    r"(?:>|\[ARGS\]|<\|tool_call_argument_begin\|>)?\s*(?:```[a-z]*\s*)?"
)
_FENCE = re.compile(r"[\s\[]*(?:```[A-Za-z_]*\s*)?[\s\[]*")
_PARAMETER = re.compile(r"<parameter(?:=| name=)[\"']?([^\"'>\s]+)[\"']?[^>]*>(.*?)</parameter>", re.DOTALL)
_ARG_PAIR = re.compile(r"<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_TAG_HEAD = re.compile(
    rf"\s*(?:<function=|<invoke name=)?[\"']?(?:functions?\.)?({_NAME})[\"']?\s*(?:>|\n|(?=<)|\Z)"
)
_TAG = re.compile(r"</?[a-z_]+>")
_LOOKS_LIKE_CALL = re.compile(rf"[{{<]|\s*{_NAME}\s*\(")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")
_NAME_KEYS = ("name", "tool", "tool_name", "function")

Schemas = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call found in text; ``raw`` is its original text."""

    name: str
    arguments: dict[str, Any]
    raw: str


@dataclass(frozen=True, slots=True)
class UnreadableCall:
    """An unreadable attempt at a call; ``why`` is the reason, a text for the model."""

    raw: str
    reason: str


def find_call_json(text: str) -> tuple[int, str] | None:
    """Find the JSON of a call in the text after an opening mark, and the tool's name if it precedes the JSON.

    :returns: the position of the first ``{`` and the name; None when the text is not the head of a call.
    """
    at = text.find("{")
    if not 0 <= at <= MAX_HEAD_CHARS:
        return None
    before = text[:at]
    if _FENCE.fullmatch(before):
        return at, ""
    if match := _NAME_BEFORE_JSON.fullmatch(before):
        return at, match[1]
    return None


def parse_json_call(raw: str, written: str, named: str = "") -> ParsedCall | UnreadableCall:
    """Parse a call from its JSON.

    :param raw: the whole original text, for the record.
    :param named: the tool, when its name precedes the JSON.
    """
    try:
        value = parse_lenient_json(written)
        name, arguments = _name_and_arguments(value, named)
        if isinstance(arguments, str):
            arguments = parse_lenient_json(arguments) if arguments.strip() else {}
    except ValueError as why:
        return UnreadableCall(raw, f"its JSON is broken: {why}")
    name = name.strip().removeprefix("functions.") if isinstance(name, str) else ""
    if not re.fullmatch(_NAME, name):
        return UnreadableCall(raw, "it names no tool")
    if not isinstance(arguments, dict):
        return UnreadableCall(raw, "its arguments are not an object")
    return ParsedCall(name, arguments, raw)


def _name_and_arguments(value: Any, named: str) -> tuple[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    if isinstance(value.get("function"), dict):  # the format of OpenAI's API
        value = value["function"]
    name = next((value[key] for key in _NAME_KEYS if isinstance(value.get(key), str)), "")
    given = next((key for key in _ARGUMENT_KEYS if key in value), "")
    if named and not (name == named and given):
        return named, value
    return name, {} if value.get(given) is None else value[given]


def is_call(written: str, schemas: Schemas) -> bool:
    """Return true if a JSON object without any mark around it is a call of one of these tools."""
    try:
        name, _ = parts = _name_and_arguments(parse_lenient_json(written), "")
    except ValueError:
        return False
    return (
        name in schemas
        and any(f'"{key}"' in written for key in _ARGUMENT_KEYS)
        and isinstance(parts[1], dict | str)
    )


def parse_valid_call(written: str, schemas: Schemas) -> ParsedCall | None:
    """Parse a JSON object without marks as a call; None when the tool would refuse its arguments."""
    part = parse_json_call(written, written) if is_call(written, schemas) else None
    if isinstance(part, ParsedCall) and not check_arguments(schemas[part.name], part.arguments)[1]:
        return part
    return None


def looks_like_call(body: str, schemas: Schemas) -> bool:
    """Return true if the text between call tags is an attempt at a call, not prose about such tags."""
    return bool(_LOOKS_LIKE_CALL.search(body)) or body.strip() in schemas


def parse_tagged_call(raw: str, body: str, schemas: Schemas) -> ParsedCall | UnreadableCall:
    """Parse a call whose arguments are in tags of their own; ``UnreadableCall`` when it cannot be read."""
    head = _TAG_HEAD.match(body)
    pairs = [
        *_PARAMETER.findall(_cut_after_last("</parameter>", body)),
        *_ARG_PAIR.findall(_cut_after_last("</arg_value>", body)),
    ]
    if head is None or not (pairs or (head[1] in schemas and not _TAG.sub("", body[head.end() :]).strip())):
        return UnreadableCall(raw, "it is not a JSON object")
    known = schemas.get(head[1], {}).get("properties", {})
    return ParsedCall(head[1], {name: _convert(value, known.get(name, {})) for name, value in pairs}, raw)


def _cut_after_last(last: str, body: str) -> str:
    """Cut after the last closing tag: each later opening tag would make the pattern search to the end of the text."""
    return body[: body.rfind(last) + len(last)] if last in body else ""


def _convert(value: str, schema: Any) -> Any:
    """Convert the text of a tag to the type that the schema wants."""
    text = value.removeprefix("\n").removesuffix("\n")
    if not isinstance(schema, Mapping) or schema.get("type") in (None, "string"):
        return text
    try:
        return parse_lenient_json(text)
    except ValueError:
        return text
