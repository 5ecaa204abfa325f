"""Tool calls as a service sent them: read, repaired where the meaning is certain, else passed on as unreadable.

An unreadable call is kept in the answer like any other: the model gets an error result for it, and the sound calls of the
same answer run.
"""

import json
from collections.abc import Mapping
from typing import Any

from claw import UNREADABLE_CALL, ToolCall, Usage

from claw_provider_sdk.json_repair import parse_lenient_json
from claw_provider_sdk.stream import new_call_id, tool_arguments

MAX_WRITTEN_CHARS = 2000
"""Maximum length of the kept text of an unreadable call."""


def read_call(
    call_id: str, name: str, written: str, schemas: Mapping[str, Mapping[str, Any]], cut_off: str = ""
) -> ToolCall:
    """Return a call of a model, or the placeholder of one that cannot be read.

    :param call_id: the service's id; empty = a new one is made.
    :param written: the arguments as JSON. Broken JSON is repaired, but never when the answer may be cut inside it.
    :param schemas: the JSON Schemas of the tools, by name.
    :param cut_off: the reason when the token limit may have cut this call, from :func:`limit_reason`; else empty.
    """
    call_id = call_id or new_call_id()
    schema = schemas.get(name)
    if name and (written.strip() or not cut_off):
        arguments = tool_arguments(written, schema)
        if arguments is None and not cut_off:
            arguments = tool_arguments(_repaired(written), schema)
        if arguments is not None:
            return ToolCall(call_id, name, arguments)
    return unreadable_call(call_id, written, cut_off or _fault(name, written), name)


def unreadable_call(call_id: str, written: str, why: str, tool: str = "") -> ToolCall:
    """Return the placeholder of a call that could not be read: the model gets ``why`` as its error result.

    :param tool: its name in a native call; empty for one found in text.
    """
    kept = written if len(written) <= MAX_WRITTEN_CHARS else written[:MAX_WRITTEN_CHARS] + "…"
    arguments = {"written": kept, "why": why} | ({"tool": tool} if tool else {})
    return ToolCall(call_id, UNREADABLE_CALL, arguments)


def limit_reason(name: str, usage: Usage) -> str:
    """Return why the last call of an answer is incomplete: the answer has reached its token limit."""
    tokens = f"{usage.output:,} tokens" if usage.output else "its token limit"
    return (
        f"the answer was cut off at {tokens} inside the call of {name or 'a tool'}; write it in parts, "
        "in several smaller calls"
    )


def _repaired(written: str) -> str:
    """Return the arguments as sound JSON; unchanged when they cannot be repaired."""
    try:
        return json.dumps(parse_lenient_json(written))
    except ValueError:
        return written


def _fault(name: str, written: str) -> str:
    if not name:
        return "it names no tool"
    try:
        value = parse_lenient_json(written)
    except ValueError as why:
        return f"the JSON of its arguments is broken: {why}"
    return (
        "its arguments are nested too deeply"
        if isinstance(value, dict)
        else "its arguments are not an object"
    )
