"""The Responses API: conversion of a request to its body, and of its events to an answer. Pure.

Facts: platform.openai.com, "Responses", "Streaming events": nothing is stored with the vendor, so reasoning is
encrypted and returned before the calls it led to; a call is answered by its ``call_id``, not by the item's id.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any

import msgspec
from claw import (
    Assistant,
    Image,
    Message,
    ModelEvent,
    Request,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolSpec,
    Usage,
    User,
    t,
)
from claw_provider_sdk import (
    STREAM_DONE,
    CallIds,
    JsonRows,
    failure_said,
    function_schema,
    limit_reason,
    provider_error,
    read_call,
)

from claw_openai.chat import Row, apart

_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")


def body(request: Request, items: "ResponseItems", max_tokens: int | None, thinks: str = "") -> Row:
    """Return the whole body of a streamed request.

    :param items: the request's messages.
    :param thinks: never, when the model refuses thinking.
    """
    wire: Row = {
        "model": request.model,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": items.whole,
    }
    if whole := request.system.whole:
        wire["instructions"] = whole
    if most := request.max_tokens or max_tokens:
        wire["max_output_tokens"] = most
    if request.tools:
        wire["tools"] = [
            {"type": "function", "strict": False, **function_schema(spec)} for spec in request.tools
        ]
        wire["tool_choice"] = to_tool_choice(request.tool_choice)
    if request.thinking in ("low", "medium", "high") and thinks != "never":
        wire["reasoning"] = {"effort": request.thinking, "summary": "auto"}
    return wire


def to_tool_choice(choice: str) -> str | Row:
    """Convert auto, none, required, or the name of a tool."""
    return choice if choice in ("auto", "none", "required") else {"type": "function", "name": choice}


class ResponseItems:
    """The messages of a conversation in the service's form.

    :param maker: name of this provider; thoughts are returned only to the ``model`` that made them.
    """

    def __init__(self, maker: str, model: str) -> None:
        self._maker, self._model = maker, f"{maker}/{model}"
        self._ids = CallIds(64)
        self._rows = JsonRows()

    @property
    def whole(self) -> list[msgspec.Raw]:
        """All items, as JSON."""
        return self._rows.rows

    def add(self, message: Message) -> None:
        """Add a message."""
        if isinstance(message, User):
            self._rows.add({"role": "user", "content": _parts(message.content)})
        elif isinstance(message, Assistant):
            for row in _said(message, self._maker, self._model, self._ids):
                self._rows.add(row)
        else:
            pictures = any(isinstance(part, Image) for part in message.content)
            output = _parts(message.content) if pictures else message.text
            call_id = self._ids.of_result(message.call_id)
            self._rows.add({"type": "function_call_output", "call_id": call_id, "output": output})

    def fork(self) -> "ResponseItems":
        """Return an independent copy."""
        other = copy(self)
        other._ids, other._rows = self._ids.fork(), self._rows.fork()
        return other


def _parts(content: Iterable[Text | Image]) -> list[Row]:
    return [
        {"type": "input_text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "input_image", "image_url": f"data:{part.mime};base64,{part.data}"}
        for part in content
    ]


def _said(message: Assistant, maker: str, model: str, ids: CallIds) -> Iterator[Row]:
    for part in message.content:
        if isinstance(part, Text):
            yield {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": part.text}],
            }
        elif isinstance(part, ToolCall):
            arguments = msgspec.json.encode(part.arguments).decode()
            yield {
                "type": "function_call",
                "call_id": ids.of_call(part.id),
                "name": part.name,
                "arguments": arguments,
            }
        elif part.maker == maker and message.model in ("", model) and part.redacted:
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            sealed = {"id": part.signature, "summary": summary, "encrypted_content": part.redacted}
            yield {"type": "reasoning", **sealed}


class ResponsesParser:
    """One answer while it is streamed."""

    def __init__(self, maker: str, model: str, tools: Iterable[ToolSpec] = ()) -> None:
        self._maker, self._model = maker, f"{maker}/{model}"
        self._schemas = {spec.name: spec.parameters for spec in tools}
        self._items: list[Mapping[str, Any]] = []
        self._end: Mapping[str, Any] | None = None
        self.received = 0

    @property
    def done(self) -> bool:
        """True after the end of the response."""
        return self._end is not None

    whole = done

    def take(self, name: str, data: Any) -> Iterator[ModelEvent]:
        """Process one event."""
        if name == STREAM_DONE:
            return
        kind, more = data["type"], data.get("delta")
        if isinstance(more, str):
            self.received += len(more)
        if kind in ("response.output_text.delta", "response.refusal.delta"):
            yield TextDelta(more)
        elif kind in _THOUGHTS:
            yield ThinkingDelta(more)
        elif kind == "response.output_item.done":
            self._items.append(data["item"])
            self.received += 1
        elif kind in ("response.completed", "response.incomplete"):
            self._end = data["response"]
        elif kind in ("response.failed", "error"):
            raise failure_said(self._model, data.get("response") or data, status=200)

    def take_body(self, body: Any) -> Iterator[ModelEvent]:
        """Process a whole response at once."""
        if body.get("error"):
            raise failure_said(self._model, body, status=200)
        self._items, self._end = list(body["output"]), body
        for item in self._items:
            if item["type"] == "message" and (text := _text(item)):
                yield TextDelta(text)

    def finish(self) -> Assistant:
        """Return the answer, when the service has ended it."""
        if self._end is None:
            raise provider_error(self._model, reason="truncated")
        why = (self._end.get("incomplete_details") or {}).get("reason")
        usage = _usage(self._end.get("usage"))
        content = tuple(self._content(usage, cut=why is not None))
        calls = any(isinstance(part, ToolCall) for part in content)
        refused = why == "content_filter"
        return Assistant(
            content,
            model=self._model,
            stop_reason="error" if refused else "length" if why else "tool_use" if calls else "stop",
            usage=usage,
            error=t("the service's filter stopped this answer") if refused else "",
        )

    def _content(self, usage: Usage, *, cut: bool) -> Iterator[Text | Thinking | ToolCall]:
        for item in self._items:
            if item["type"] == "message" and (text := _text(item)):
                yield Text(text)
            elif item["type"] == "reasoning":
                text = "\n\n".join(part["text"] for part in item.get("summary") or ())
                sealed = item.get("encrypted_content") or ""
                yield Thinking(text, signature=item.get("id") or "", redacted=sealed, maker=self._maker)
            elif item["type"] == "function_call":
                is_cut = item.get("status") == "incomplete" or (cut and item is self._items[-1])
                cut_off = limit_reason(item["name"], usage) if is_cut else ""
                yield read_call(
                    item.get("call_id") or "", item["name"], item["arguments"], self._schemas, cut_off
                )


def _text(item: Mapping[str, Any]) -> str:
    return "".join(part.get("text") or part.get("refusal") or "" for part in item["content"])


def _usage(counts: Mapping[str, Any] | None) -> Usage:
    return apart(counts or {}, (counts or {}).get("input_tokens_details"))
