"""How models write a call into their words, and reading one (pure).

``<tool_call>{"name": …, "arguments": {…}}</tool_call>`` is what we ask for (spec/channels.md 5.5) and what Hermes and
Qwen were taught. The others are what came out of models whose server did not understand them: the chat templates of
Mistral, Llama, Kimi, DeepSeek, Granite, Qwen-Coder and GLM, as published with their weights.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claw.arguments import check
from claw.spoken.mended import read_json

OPEN, CLOSE = "<tool_call>", "</tool_call>"
RESULT = "<tool_result"

FORMS: dict[str, str] = {
    OPEN: CLOSE,
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
"""What a call begins with → what it ends with; nothing: it ends with its JSON."""

AROUND = (
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<\uff5ctool\u2581calls\u2581begin\uff5c>",
    "<\uff5ctool\u2581calls\u2581end\uff5c>",
    "<function_calls>",
    "</function_calls>",
)
"""What some put round all calls of an answer."""

HEAD_CHARS = 200
"""A name, a fence and blanks take no more."""

_NAME = r"[A-Za-z0-9_-]{1,64}"
_BEFORE = re.compile(
    rf"\s*(?:function\s*<\uff5ctool\u2581sep\uff5c>\s*)?[\"']?(?:functions?\.)?({_NAME})(?::\d+)?[\"']?\s*"
    r"(?:>|\[ARGS\]|<\|tool_call_argument_begin\|>)?\s*(?:```[a-z]*\s*)?"
)
_FENCE = re.compile(r"[\s\[]*(?:```[A-Za-z_]*\s*)?[\s\[]*")
_PARAMETER = re.compile(r"<parameter(?:=| name=)[\"']?([^\"'>\s]+)[\"']?[^>]*>(.*?)</parameter>", re.DOTALL)
_PAIR = re.compile(r"<arg_key>\s*(.*?)\s*</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_HEAD = re.compile(
    rf"\s*(?:<function=|<invoke name=)?[\"']?(?:functions?\.)?({_NAME})[\"']?\s*(?:>|\n|(?=<)|\Z)"
)
_TAG = re.compile(r"</?[a-z_]+>")
_LIKE_A_CALL = re.compile(rf"[{{<]|\s*{_NAME}\s*\(")
_ARGUMENTS = ("arguments", "parameters", "args", "input")
_NAMES = ("name", "tool", "tool_name", "function")

Schemas = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Spoken:
    """A call that was found in words. ``raw`` is how it stands there."""

    name: str
    arguments: dict[str, Any]
    raw: str


@dataclass(frozen=True, slots=True)
class Garbled:
    """What was meant as a call, and cannot be read. ``why`` in words for the model."""

    raw: str
    why: str


def head_of(text: str) -> tuple[int, str] | None:
    """Where the JSON of a call begins in what follows an opening, and the tool's name if that stands before it.

    :returns: None when this is not the head of a call's JSON; the place is that of its first ``{``.
    """
    at = text.find("{")
    if not 0 <= at <= HEAD_CHARS:
        return None
    before = text[:at]
    if _FENCE.fullmatch(before):
        return at, ""
    if match := _BEFORE.fullmatch(before):
        return at, match[1]
    return None


def read_call(raw: str, written: str, named: str = "") -> Spoken | Garbled:
    """A call out of its JSON.

    :param raw: all of it, for the record. ``named``: the tool, when its name stood before the JSON.
    """
    try:
        value = read_json(written)
        name, arguments = _parts(value, named)
        if isinstance(arguments, str):
            arguments = read_json(arguments) if arguments.strip() else {}
    except ValueError as why:
        return Garbled(raw, f"its JSON is broken: {why}")
    name = name.strip().removeprefix("functions.") if isinstance(name, str) else ""
    if not re.fullmatch(_NAME, name):
        return Garbled(raw, "it names no tool")
    if not isinstance(arguments, dict):
        return Garbled(raw, "its arguments are not an object")
    return Spoken(name, arguments, raw)


def _parts(value: Any, named: str) -> tuple[Any, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    if isinstance(value.get("function"), dict):  # the way of OpenAI's wire
        value = value["function"]
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), "")
    given = next((key for key in _ARGUMENTS if key in value), "")
    if named and not (name == named and given):
        return named, value
    return name, {} if value.get(given) is None else value[given]


def is_call(written: str, schemas: Schemas) -> bool:
    """Whether a bare object, without any mark around it, is a call of one of these tools."""
    try:
        name, _ = parts = _parts(read_json(written), "")
    except ValueError:
        return False
    return (
        name in schemas
        and any(f'"{key}"' in written for key in _ARGUMENTS)
        and isinstance(parts[1], dict | str)
    )


def sound_call(written: str, schemas: Schemas) -> Spoken | None:
    """The call that an object without any mark around it is, when the tool would take its arguments."""
    part = read_call(written, written) if is_call(written, schemas) else None
    if isinstance(part, Spoken) and not check(schemas[part.name], part.arguments)[1]:
        return part
    return None


def is_meant(body: str, schemas: Schemas) -> bool:
    """Whether what stands between the tags of a call is an attempt at one, and not a word about such tags."""
    return bool(_LIKE_A_CALL.search(body)) or body.strip() in schemas


def read_tags(raw: str, body: str, schemas: Schemas) -> Spoken | Garbled:
    """A call whose arguments stand in tags of their own, or nothing that can be read."""
    head = _HEAD.match(body)
    pairs = [*_PARAMETER.findall(_up_to("</parameter>", body)), *_PAIR.findall(_up_to("</arg_value>", body))]
    if head is None or not (pairs or (head[1] in schemas and not _TAG.sub("", body[head.end() :]).strip())):
        return Garbled(raw, "it is not a JSON object")
    known = schemas.get(head[1], {}).get("properties", {})
    return Spoken(head[1], {name: _typed(value, known.get(name, {})) for name, value in pairs}, raw)


def _up_to(last: str, body: str) -> str:
    """Not what is opened behind the last closing: each opening would search to the end for its own."""
    return body[: body.rfind(last) + len(last)] if last in body else ""


def _typed(value: str, schema: Any) -> Any:
    """Tags hold text alone: it is read as what the tool wants there."""
    text = value.removeprefix("\n").removesuffix("\n")
    if not isinstance(schema, Mapping) or schema.get("type") in (None, "string"):
        return text
    try:
        return read_json(text)
    except ValueError:
        return text
