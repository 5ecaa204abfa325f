"""Messages as text for the summarising model. Pure."""

import json
import re
from collections.abc import Sequence

from claw import Assistant, Image, Message, Text, ToolCall, ToolResultMessage, User
from claw.runtime import truncate

MAX_RESULT_CHARS = 2000
"""Maximum length of a tool result: the answers after it hold its conclusions."""

_ARGUMENT_CHARS = 500
_OPEN, _CLOSE = "<conversation>", "</conversation>"
_FRAME_MARK = re.compile(r"<(/?)\s*conversation\s*>", re.IGNORECASE)


def render_message(message: Message, most_chars: int | None = None) -> str:
    """Render a message as a paragraph: author, then text; no thinking, pictures named, long results cut.

    :param most_chars: maximum length of the paragraph; None = no limit.
    """
    match message:
        case User():
            text = f"[{message.kind or 'user'}] {_text(message)}"
        case Assistant():
            calls = [f"[calls {call.name}] {_arguments(call)}" for call in message.tool_calls]
            text = "\n".join(filter(None, [f"[assistant] {message.text}" if message.text else "", *calls]))
        case ToolResultMessage():
            failed = " failed" if message.is_error else ""
            words = truncate(_text(message), MAX_RESULT_CHARS, min_keep=MAX_RESULT_CHARS // 4)
            text = f"[result of {message.tool_name}{failed}] {words}"
    text = _FRAME_MARK.sub(r"<\1 conversation >", text)
    return text if most_chars is None else truncate(text, most_chars, min_keep=most_chars // 4)


def frame(paragraphs: Sequence[str], previous: str = "") -> str:
    """Enclose the paragraphs in marks that their content cannot imitate, after the summary so far."""
    before = f"<summary>\n{previous}\n</summary>\n\n" if previous else ""
    return before + "\n\n".join((_OPEN, *paragraphs, _CLOSE))


def _text(message: User | ToolResultMessage) -> str:
    return "\n".join("[picture]" if isinstance(block, Image) else block.text for block in message.content)


def _arguments(call: ToolCall) -> str:
    return truncate(json.dumps(call.arguments, ensure_ascii=False), _ARGUMENT_CHARS, min_keep=200)


def searchable_text(message: Message) -> str:
    """Return all text of a message and of the arguments of its calls, for searching."""
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
