"""Conversion of a request to the body of a chat completion. Pure.

Facts: docs.mistral.ai, "Chat", "Function calling", "Reasoning". The ids of calls are nine letters and digits; a
user message may not follow a tool result directly; an answer to be continued is marked ``prefix``.
"""

from collections.abc import Iterable
from copy import copy
from typing import Any

import msgspec
from claw import Assistant, Image, Message, Request, Text, Thinking, User
from claw_provider_sdk import CallIds, JsonRows, function_schema

from claw_mistral.models import thinking

Row = dict[str, Any]

_OPENING: Row = {
    "role": "user",
    "content": "(The conversation so far was longer; what follows is how it stands.)",
}
_BETWEEN = "(The results are read.)"


def body(request: Request, rows: "MistralMessages", max_tokens: int | None, how: str) -> Row:
    """Return the whole body of a streamed request.

    :param rows: the request's messages.
    :param how: the thinking style, of :func:`claw_mistral.models.style`.
    """
    system = request.system.whole.strip()
    head = [{"role": "system", "content": system}] if system else []
    wire: Row = {"model": request.model, "stream": True, "messages": [*head, *rows.whole]}
    if most := request.max_tokens or max_tokens:
        wire["max_tokens"] = most
    if request.tools:
        wire["tools"] = [{"type": "function", "function": function_schema(spec)} for spec in request.tools]
        wire["tool_choice"] = to_tool_choice(request.tool_choice)
    return wire | thinking(how, request.thinking)


def to_tool_choice(choice: str) -> str | Row:
    """Convert auto, none, required, or the name of a tool."""
    words = {"auto": "auto", "none": "none", "required": "any"}
    return words.get(choice) or {"type": "function", "function": {"name": choice}}


class MistralMessages:
    """The messages of a conversation in the service's form and order.

    :param maker: name of this provider; thoughts are returned only to the ``model`` that made them.
    """

    def __init__(self, maker: str, model: str) -> None:
        self._maker, self._model = maker, f"{maker}/{model}"
        self._ids = CallIds(9, exact=True)
        self._older = JsonRows()
        self._last: Row = {}

    @property
    def whole(self) -> list[Any]:
        """All rows, the older ones as JSON; a final answer is marked to be continued."""
        last = self._last or _OPENING
        return [*self._older.rows, last | {"prefix": True} if last["role"] == "assistant" else last]

    def add(self, message: Message) -> None:
        """Add a message."""
        if isinstance(message, Assistant):
            row = self._said(message)
        elif isinstance(message, User):
            row = {"role": "user", "content": _content(message.content)}
            if row["content"] and self._last.get("role") == "tool":
                self._put({"role": "assistant", "content": _BETWEEN})
        else:
            call_id = self._ids.of_result(message.call_id)
            content = _content(message.content)
            row = {"role": "tool", "tool_call_id": call_id, "name": message.tool_name, "content": content}
        if row["role"] == "tool" or row.get("content") or row.get("tool_calls"):
            if not self._last and row["role"] != "user":
                self._put(_OPENING)
            self._put(row)

    def fork(self) -> "MistralMessages":
        """Return an independent copy."""
        other = copy(self)
        other._ids, other._older = self._ids.fork(), self._older.fork()
        return other

    def _put(self, row: Row) -> None:
        if self._last:
            self._older.add(self._last)
        self._last = row

    def _said(self, message: Assistant) -> Row:
        row: Row = {"role": "assistant"}
        own_model = message.model in ("", self._model)
        thoughts = [
            _thought(part)
            for part in message.content
            if isinstance(part, Thinking) and part.text and part.maker == self._maker and own_model
        ]
        text = message.text if message.text.strip() else ""
        calls = message.tool_calls
        if thoughts and (text or calls):
            row["content"] = [*thoughts, *([{"type": "text", "text": text}] if text else [])]
        elif text:
            row["content"] = text
        if calls:
            row["tool_calls"] = [
                {
                    "id": self._ids.of_call(call.id),
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": msgspec.json.encode(call.arguments).decode(),
                    },
                }
                for call in calls
            ]
        return row


def _thought(thought: Thinking) -> Row:
    chunk: Row = {"type": "thinking", "thinking": [{"type": "text", "text": thought.text}]}
    return chunk | ({"signature": thought.signature} if thought.signature else {})


def _content(content: Iterable[Text | Image]) -> str | list[Row]:
    """Return text as it is; with pictures a list of chunks."""
    parts = list(content)
    if not any(isinstance(part, Image) for part in parts):
        words = "\n".join(part.text for part in parts if isinstance(part, Text))
        return words if words.strip() else ""
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": f"data:{part.mime};base64,{part.data}"}
        for part in parts
        if isinstance(part, Image) or part.text.strip()
    ]
