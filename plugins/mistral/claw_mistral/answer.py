"""Conversion of the chunks of a chat completion to an answer. Pure.

Facts: docs.mistral.ai, "Chat" and "Reasoning": content is a text or a list of chunks; calls come whole, or grow
under one index; usage comes with the finish reason, cached tokens included in the prompt's.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from claw import (
    Assistant,
    ModelEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolSpec,
    Usage,
    t,
)
from claw_provider_sdk import STREAM_DONE, limit_reason, provider_error, read_call

from claw_mistral.refusal import refusal_error

_STOPS = {"stop": "stop", "tool_calls": "tool_use", "length": "length", "model_length": "length"}
_NO_ID = ("", "null")
"""Values that the service and its SDK write for a call without an id."""


class _MistralText:
    """A text, or a thought, while it is streamed."""

    def __init__(self, *, thought: bool) -> None:
        self.thought, self.signature = thought, ""
        self.pieces: list[str] = []


class _MistralCall:
    """A call while it is streamed."""

    def __init__(self, call_id: str, name: str) -> None:
        self.id, self.name = call_id, name
        self.pieces: list[str] = []


class MistralParser:
    """One answer while it is streamed.

    :param maker: name of the provider, which its thoughts carry.
    :param model: as the request names it.
    """

    def __init__(self, maker: str, model: str, tools: Iterable[ToolSpec] = ()) -> None:
        self._maker, self._model = maker, f"{maker}/{model}"
        self._schemas = {spec.name: spec.parameters for spec in tools}
        self._words: list[_MistralText] = []
        self._calls: list[_MistralCall] = []
        self._at: dict[int, _MistralCall] = {}
        self._usage: Mapping[str, Any] = {}
        self._stop = ""
        self.received, self.done = 0, False

    @property
    def whole(self) -> bool:
        """True after a finish reason; the end mark may still follow."""
        return bool(self._stop)

    def take(self, name: str, data: Any) -> Iterator[ModelEvent]:
        """Process one chunk."""
        if name == STREAM_DONE:
            self.done = True
            return
        if data.get("error") or data.get("object") == "error" or name == "error":
            raise refusal_error(self._model, data, 200, {})
        self._usage = data.get("usage") or self._usage
        for choice in data.get("choices") or ():
            if choice.get("index", 0) == 0:
                delta = choice.get("delta") or choice.get("message") or {}
                yield from self._process_content(delta.get("content"))
                for piece in delta.get("tool_calls") or ():
                    self._grow(piece, piece.get("function") or {})
                self.received += choice.get("finish_reason") not in (None, "", self._stop)
                self._stop = choice.get("finish_reason") or self._stop

    def take_body(self, body: Any) -> Iterator[ModelEvent]:
        """Process a whole completion at once."""
        yield from self.take("", body)
        self.done = True

    def finish(self) -> Assistant:
        """Return the answer, when it has ended."""
        if not self._stop:
            raise provider_error(self._model, reason="truncated")
        usage = to_usage(self._usage)
        calls = tuple(self._read_calls(usage))
        stop = _STOPS.get(self._stop, "error")
        return Assistant(
            (*self._said(), *calls),
            model=self._model,
            stop_reason="tool_use" if calls and stop == "stop" else stop,
            usage=usage,
            error=t("the service stopped this answer: {why}", why=self._stop) if stop == "error" else "",
        )

    def _process_content(self, content: Any) -> Iterator[ModelEvent]:
        chunks = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        for chunk in chunks:
            if chunk.get("type") == "thinking":
                inner = chunk.get("thinking") or ()
                text = inner if isinstance(inner, str) else "".join(part.get("text") or "" for part in inner)
                words = self._open(thought=True)
                words.signature = chunk.get("signature") or words.signature
            elif chunk.get("type") == "text":
                text = chunk.get("text") or ""
                words = self._open(thought=False) if text else None
            else:
                continue
            if text and words:
                words.pieces.append(text)
                self.received += len(text)
                yield ThinkingDelta(text) if words.thought else TextDelta(text)

    def _open(self, *, thought: bool) -> _MistralText:
        if not self._words or self._words[-1].thought is not thought:
            self._words.append(_MistralText(thought=thought))
        return self._words[-1]

    def _grow(self, piece: Mapping[str, Any], function: Mapping[str, Any]) -> None:
        """Add a piece of a call. A new id, or a new name, under an old index is a new call."""
        index, call_id, name = piece.get("index"), piece.get("id") or "", function.get("name") or ""
        call_id = "" if call_id in _NO_ID else call_id
        call = self._at.get(index) if isinstance(index, int) else None
        if call is None or (call_id and call_id != call.id) or (name and name != call.name):
            call = _MistralCall(call_id, name)
            self._calls.append(call)
            self.received += len(name)
        if isinstance(index, int):
            self._at[index] = call
        given = function.get("arguments")
        more = given if isinstance(given, str) else msgspec.json.encode(given).decode() if given else ""
        call.pieces.append(more)
        self.received += len(more)

    def _said(self) -> Iterator[Text | Thinking]:
        for words in self._words:
            text = "".join(words.pieces)
            if words.thought and (text or words.signature):
                yield Thinking(text, signature=words.signature, maker=self._maker)
            elif text:
                yield Text(text)

    def _read_calls(self, usage: Usage) -> Iterator[ToolCall]:
        """Yield the calls; only the last one can be cut by the token limit."""
        for call in self._calls:
            is_cut = _STOPS.get(self._stop) == "length" and call is self._calls[-1]
            cut_off = limit_reason(call.name, usage) if is_cut else ""
            yield read_call(call.id, call.name, "".join(call.pieces), self._schemas, cut_off)


def to_usage(counts: Mapping[str, Any]) -> Usage:
    """Convert the service's token counts: cached tokens apart."""

    def figure(source: Mapping[str, Any], name: str) -> int | None:
        value = source.get(name)
        return value if isinstance(value, int) else None

    details = counts.get("prompt_tokens_details") or counts.get("prompt_token_details") or {}
    read = figure(details, "cached_tokens")
    read = figure(counts, "num_cached_tokens") if read is None else read
    given = figure(counts, "prompt_tokens")
    return Usage(
        input=None if given is None else max(0, given - (read or 0)),
        output=figure(counts, "completion_tokens"),
        cache_read=read,
        total=figure(counts, "total_tokens"),
    )
