"""Chat Completions: conversion of a request to its body, and of its chunks to an answer. Pure.

Facts: platform.openai.com, "Chat Completions"; real answers of compatible servers: ``tests/fixtures/openai``.
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
    is_failure,
    limit_reason,
    provider_error,
    read_call,
    tool_arguments,
    usage_of,
)

from claw_openai.config import Quirks

_WINDOW_FULL = "model_context_window_exceeded"
_STOPS = {
    "stop": "stop", "tool_calls": "tool_use", "function_call": "tool_use", "length": "length",
    "max_tokens": "length", "model_length": "length", _WINDOW_FULL: "length",
}  # fmt: skip
_FILTERED = frozenset({"content_filter", "sensitive"})
_BROKEN_OFF = {
    "error": "server", "network_error": "server", "insufficient_system_resource": "overloaded", "abort": "truncated",
    "function_call_filter": "truncated",
}  # fmt: skip
"""Reasons to stop of OpenRouter, Zhipu, DeepSeek, vLLM and Gemini for an answer that is not whole."""

Row = dict[str, Any]


def body(
    request: Request, rows: "ChatMessages", max_tokens: int | None, quirks: Quirks, thinks: str = ""
) -> Row:
    """Return the whole body of a streamed request.

    :param rows: the request's messages.
    :param thinks: always or never, when the model cannot be configured.
    """
    system = request.system.whole
    head = [{"role": quirks.system_role, "content": system}] if system else []
    wire: Row = {"model": request.model, "stream": True, "messages": [*head, *rows.whole]}
    if quirks.stream_options:
        wire["stream_options"] = {"include_usage": True}
    if most := request.max_tokens or max_tokens:
        wire[quirks.max_tokens_name] = most
    limited = quirks.tool_choice == "auto"
    if request.tools and not (limited and request.tool_choice == "none"):
        wire["tools"] = [{"type": "function", "function": function_schema(spec)} for spec in request.tools]
        wire["tool_choice"] = "auto" if limited else to_tool_choice(request.tool_choice)
    return wire | (thinking(request.thinking, quirks, thinks) if thinks != "never" else {})


def thinking(level: str, quirks: Quirks, thinks: str = "") -> Row:
    """Return the thinking fields; ``adaptive`` leaves it to the service.

    :param thinks: always = it cannot be disabled.
    """
    is_level = level in ("low", "medium", "high")
    fields: Row = {"reasoning_effort": level} if quirks.reasoning_effort and is_level else {}
    if level == "adaptive" or (level == "off" and thinks == "always"):
        return fields
    match quirks.thinking_switch:
        case "thinking":
            fields["thinking"] = {"type": "disabled" if level == "off" else "enabled"}
        case "enable_thinking":
            fields["enable_thinking"] = level != "off"
        case "reasoning" if is_level:
            fields["reasoning"] = {"effort": level}
    return fields


def to_tool_choice(choice: str) -> str | Row:
    """Convert auto, none, required, or the name of a tool."""
    return (
        choice
        if choice in ("auto", "none", "required")
        else {"type": "function", "function": {"name": choice}}
    )


class ChatMessages:
    """The messages of a conversation in the service's form. Pictures in results follow as a user message:
    results are text.

    :param maker: name of this provider.
    """

    def __init__(self, maker: str, quirks: Quirks) -> None:
        self._maker, self._quirks = maker, quirks
        self._ids = CallIds(40)
        self._rows = JsonRows()
        self._pictures: list[Row] = []

    @property
    def whole(self) -> list[msgspec.Raw]:
        """All rows, as JSON."""
        return [*self._rows.rows, *map(raw, self._shown())]

    def add(self, message: Message) -> None:
        """Add a message."""
        if not isinstance(message, User | Assistant):
            call_id = self._ids.of_result(message.call_id)
            self._rows.add({"role": "tool", "tool_call_id": call_id, "content": message.text})
            self._pictures += [picture(part) for part in message.content if isinstance(part, Image)]
            return
        self._write(self._shown())
        self._pictures = []
        if isinstance(message, User):
            self._write([{"role": "user", "content": _content(message.content)}])
        else:
            self._write(_said(message, self._maker, self._ids, self._quirks))

    def fork(self) -> "ChatMessages":
        """Return an independent copy."""
        other = copy(self)
        other._ids, other._rows, other._pictures = self._ids.fork(), self._rows.fork(), [*self._pictures]
        return other

    def _write(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._rows.add(row)

    def _shown(self) -> list[Row]:
        return [{"role": "user", "content": self._pictures}] if self._pictures else []


def raw(row: Row) -> msgspec.Raw:
    """Encode a row once, so that building a body only copies it."""
    return msgspec.Raw(msgspec.json.encode(row))


def picture(image: Image) -> Row:
    """Convert a picture to a part of a message."""
    return {"type": "image_url", "image_url": {"url": f"data:{image.mime};base64,{image.data}"}}


def _content(content: Iterable[Text | Image]) -> str | list[Row]:
    parts = list(content)
    if any(isinstance(part, Image) for part in parts):
        return [
            picture(part) if isinstance(part, Image) else {"type": "text", "text": part.text}
            for part in parts
        ]
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _said(message: Assistant, maker: str, ids: CallIds, quirks: Quirks) -> list[Row]:
    row: Row = {"role": "assistant", "content": message.text or None}
    if calls := message.tool_calls:
        row["tool_calls"] = [
            {
                "id": ids.of_call(call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": msgspec.json.encode(call.arguments).decode()},
            }
            for call in calls
        ]
    if quirks.replay_reasoning:
        own = [part.text for part in message.content if isinstance(part, Thinking) and part.maker == maker]
        row |= {"reasoning_content": "".join(own)} if own else {}
    return [row] if message.text or calls else []


class _ChatCall:
    """A call while it is streamed."""

    def __init__(self, call_id: str) -> None:
        self.id, self.name = call_id, ""
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class ChatParser:
    """One answer while it is streamed; tolerates the deviations of compatible servers."""

    def __init__(self, maker: str, model: str, tools: Iterable[ToolSpec] = ()) -> None:
        self._maker, self._model = maker, f"{maker}/{model}"
        self._schemas = {spec.name: spec.parameters for spec in tools}
        self._text: list[str] = []
        self._thought: list[str] = []
        self._calls: list[_ChatCall] = []
        self._at: dict[int, _ChatCall] = {}
        self._usage: Mapping[str, Any] | None = None
        self._stop: str | None = None
        self.received, self.done = 0, False

    @property
    def whole(self) -> bool:
        """True after a finish reason; usage and the end mark may still follow, or never come."""
        return self._stop is not None

    def take(self, name: str, data: Any) -> Iterator[ModelEvent]:
        """Process one chunk."""
        if name == STREAM_DONE:
            self.done = True
            return
        choices = () if name == "error" else data.get("choices")
        if not choices and (name == "error" or is_failure(data)):
            raise failure_said(self._model, data, status=200)
        self._usage = data.get("usage") or self._usage
        for part in (data, *(choices or ())):
            if part.get("error"):  # OpenRouter, in the middle of an answer
                raise failure_said(self._model, part["error"], status=200)
        for choice in choices or ():
            if choice.get("index") in (0, None):
                yield from self._process_choice(choice, choice.get("delta") or choice.get("message") or {})

    def take_body(self, body: Any) -> Iterator[ModelEvent]:
        """Process a whole completion at once."""
        yield from self.take("", body)
        self.done = bool(body.get("choices"))

    def finish(self) -> Assistant:
        """Return the answer, after a finish reason or the end mark."""
        if not self.done and not self.whole:
            raise provider_error(self._model, reason="truncated")
        usage, said = to_usage(self._usage), (self._stop or "").partition(":")[0]
        if broken := _BROKEN_OFF.get(said):
            raise provider_error(self._model, reason=broken, text=self._stop or "")
        calls = tuple(self._read_calls(usage))
        text, thought = "".join(self._text), "".join(self._thought)
        if said == _WINDOW_FULL and not (calls or text):
            raise provider_error(self._model, reason="context_overflow")
        refused = said in _FILTERED
        stop = "error" if refused else _STOPS.get(said, "stop")
        return Assistant(
            (
                *((Thinking(thought, maker=self._maker),) if thought else ()),
                *((Text(text),) if text else ()),
                *calls,
            ),
            model=self._model,
            stop_reason="tool_use" if calls and stop == "stop" else stop,
            usage=usage,
            error=t("the service's filter stopped this answer") if refused else "",
        )

    def _process_choice(self, choice: Mapping[str, Any], delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(thought, str) and thought:
            self._thought.append(thought)
            self.received += len(thought)
            yield ThinkingDelta(thought)
        for text in _texts(delta.get("content")), delta.get("refusal"):
            if text:
                self._text.append(text)
                self.received += len(text)
                yield TextDelta(text)
        for piece in delta.get("tool_calls") or ():
            self._grow(piece, piece.get("function") or {})
        if old := delta.get("function_call"):  # of older compatible servers
            self._grow({"index": 0}, old)
        self.received += choice.get("finish_reason") not in (None, "", self._stop)
        self._stop = choice.get("finish_reason") or self._stop
        self._usage = choice.get("usage") or self._usage

    def _grow(self, piece: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        """Add a piece of a call. A new id under an old index is a new call; a piece without an index is
        matched by its id.
        """
        index, call_id, given = piece.get("index"), piece.get("id") or "", function.get("arguments")
        name, more = function.get("name") or "", _written(given)
        if isinstance(index, int):
            call = self._at.get(index)
        elif call_id:
            call = next((one for one in self._calls if one.id == call_id), None)
        else:
            call = self._calls[-1] if self._calls else None
        again = (
            call
            and name
            and call.name
            and more
            and not call_id
            and tool_arguments(call.text or "?") is not None
        )
        if call is None or again or (call_id and call.id and call_id != call.id):
            call = _ChatCall(call_id)
            self._calls.append(call)
        if isinstance(index, int):
            self._at[index] = call
        call.id = call.id or call_id
        self.received += len(more) + (len(name) if not call.name else 0)
        call.name = call.name or name
        call.pieces.append(more)

    def _read_calls(self, usage: Usage) -> Iterator[ToolCall]:
        """Yield the calls; only the last one can be cut by the token limit."""
        for call in self._calls:
            is_cut = _STOPS.get(self._stop or "") == "length" and call is self._calls[-1]
            cut_off = limit_reason(call.name, usage) if is_cut else ""
            yield read_call(call.id, call.name, call.text, self._schemas, cut_off)


def _texts(content: Any) -> str:
    """Return a delta's text; some services send a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or () if part.get("type") == "text")


def _written(arguments: Any) -> str:
    """Return arguments as text; some services send an object."""
    return (
        arguments
        if isinstance(arguments, str)
        else msgspec.json.encode(arguments).decode()
        if arguments
        else ""
    )


def to_usage(counts: Mapping[str, Any] | None) -> Usage:
    """Convert the service's token counts. DeepSeek has its own name for cached tokens."""
    said = counts or {}
    return apart(
        said,
        {"cached_tokens": said.get("prompt_cache_hit_tokens"), **(said.get("prompt_tokens_details") or {})},
    )


def apart(counts: Mapping[str, Any], details: Mapping[str, Any] | None) -> Usage:
    """Return usage with the cached tokens (``details``) subtracted from the input."""
    said = usage_of(counts) or Usage()
    read, wrote = (details or {}).get("cached_tokens"), (details or {}).get("cache_write_tokens")
    rest = None if said.input is None else max(0, said.input - (read or 0) - (wrote or 0))
    total = None if said.input is None or said.output is None else said.input + said.output
    return Usage(input=rest, output=said.output, cache_read=read, cache_write=wrote, total=total)
