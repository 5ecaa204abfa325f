"""Messages as text for the summarising model. Pure."""

import json
import re
from collections.abc import Iterator, Sequence

from claw import Assistant, Image, Message, Text, ToolCall, ToolResultMessage, User
from claw.runtime import truncate

_LEAST_RESULT_CHARS = 2000  # enough of a result: the answers after it hold its conclusions
_ARGUMENT_SHARE = 4  # the arguments of a call get a quarter of the characters of a result
_STEP = 0.85
_OPEN, _CLOSE = "<conversation>", "</conversation>"
_FRAME_MARK = re.compile(r"<(/?)\s*conversation\s*>", re.IGNORECASE)


def result_limit(messages: Sequence[Message], most_chars: int) -> int | None:
    """Return the length to cut tool results to so that all messages take ``most_chars``; the longest are cut first.

    :returns: for :func:`render_message`; None when nothing has to be cut, at least 2,000.
    """
    over = sum(len(render_message(message)) for message in messages) - most_chars
    cuttable = [one for message in messages for one in _cuttable(message) if one[0] > _LEAST_RESULT_CHARS]
    if over <= 0 or not cuttable:
        return None
    limit = max(cuttable)[0]

    def saved(limit: int) -> float:
        return sum(max(0, size - limit) / share for size, share in cuttable)

    while limit > _LEAST_RESULT_CHARS and saved(limit) < over:
        limit = max(_LEAST_RESULT_CHARS, int(limit * _STEP))
    return limit


def _cuttable(message: Message) -> Iterator[tuple[int, int]]:
    """Yield the length of a result, and that of a result that is cut with these arguments, each with its share."""
    if isinstance(message, ToolResultMessage):
        yield len(_text(message)), 1
    elif isinstance(message, Assistant):
        yield from ((len(_arguments(call)) * _ARGUMENT_SHARE, _ARGUMENT_SHARE) for call in message.tool_calls)


def render_message(message: Message, most_chars: int | None = None) -> str:
    """Render a message as a paragraph: author, then text; no thinking, pictures named.

    :param most_chars: maximum length of a tool result, four times that of the arguments of a call; None = no limit.
    """
    match message:
        case User():
            text = f"[{message.kind or 'user'}] {_text(message)}"
        case Assistant():
            most = most_chars and most_chars // _ARGUMENT_SHARE
            calls = [f"[calls {call.name}] {cut_text(_arguments(call), most)}" for call in message.tool_calls]
            text = "\n".join(filter(None, [f"[assistant] {message.text}" if message.text else "", *calls]))
        case ToolResultMessage():
            failed = " failed" if message.is_error else ""
            text = f"[result of {message.tool_name}{failed}] {cut_text(_text(message), most_chars)}"
    return _FRAME_MARK.sub(r"<\1 conversation >", text)


def cut_text(text: str, most: int | None) -> str:
    """Cut a text to ``most`` characters, of which a tail may take a part; None = no limit."""
    return text if most is None else truncate(text, most, min_keep=most // 4)


def frame(paragraphs: Sequence[str], previous: str = "") -> str:
    """Enclose the paragraphs in marks that their content cannot imitate, after the summary so far."""
    before = f"<summary>\n{previous}\n</summary>\n\n" if previous else ""
    return before + "\n\n".join((_OPEN, *paragraphs, _CLOSE))


def _text(message: User | ToolResultMessage) -> str:
    return "\n".join("[picture]" if isinstance(block, Image) else block.text for block in message.content)


def _arguments(call: ToolCall) -> str:
    return json.dumps(call.arguments, ensure_ascii=False)


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
