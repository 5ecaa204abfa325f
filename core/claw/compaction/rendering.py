"""A conversation as text, for whoever summarises it. Pure."""

import json
import re
from collections.abc import Sequence

from claw.transcript import Assistant, Image, Message, Text, ToolCall, ToolResult, User
from claw.truncation import truncate

RESULT_CHARS = 2000
"""Of one tool result: what it led to stands in the answers behind it."""

_ARGUMENT_CHARS = 500
_OPENS, _CLOSES = "<conversation>", "</conversation>"
_FORGED = re.compile(r"<(/?)\s*conversation\s*>", re.IGNORECASE)


def told(message: Message, most_chars: int | None = None) -> str:
    """One message as a paragraph: who, then what. Thoughts are left out, pictures named, long results cut.

    :param most_chars: of any message.
    """
    match message:
        case User():
            text = f"[{message.kind or 'user'}] {_words(message)}"
        case Assistant():
            calls = [f"[calls {call.name}] {_arguments(call)}" for call in message.tool_calls]
            text = "\n".join(filter(None, [f"[assistant] {message.text}" if message.text else "", *calls]))
        case ToolResult():
            failed = " failed" if message.is_error else ""
            words = truncate(_words(message), RESULT_CHARS, min_keep=RESULT_CHARS // 4)
            text = f"[result of {message.tool_name}{failed}] {words}"
    text = _FORGED.sub(r"<\1 conversation >", text)
    return text if most_chars is None else truncate(text, most_chars, min_keep=most_chars // 4)


def framed(paragraphs: Sequence[str], previous: str = "") -> str:
    """The paragraphs as data between marks that nothing inside can imitate, behind the summary so far."""
    before = f"<summary>\n{previous}\n</summary>\n\n" if previous else ""
    return before + "\n\n".join((_OPENS, *paragraphs, _CLOSES))


def _words(message: User | ToolResult) -> str:
    return "\n".join("[picture]" if isinstance(block, Image) else block.text for block in message.content)


def _arguments(call: ToolCall) -> str:
    return truncate(json.dumps(call.arguments, ensure_ascii=False), _ARGUMENT_CHARS, min_keep=200)


def texts(message: Message) -> str:
    """All words of a message and of the arguments of its calls, for looking things up."""
    parts = [block.text for block in message.content if isinstance(block, Text)]
    parts += [value for call in getattr(message, "tool_calls", ()) for value in _strings(call.arguments)]
    return "\n".join(parts)


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in _strings(inner)]
    return []
