"""Conversion of the events of a Messages stream to an answer. Pure.

Facts: docs.anthropic.com, "Streaming Messages". Unknown events and deltas are ignored; the counts are
cumulative.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from claw import Assistant, ModelEvent, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, ToolSpec, Usage, t
from claw_provider_sdk import failure_said, limit_reason, provider_error, read_call, usage_of

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_use",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",  # docs.anthropic.com, "Handling stop reasons": the answer is valid
}


class MessagesParser:
    """One answer while it is streamed.

    :param maker: name of the provider, which its thoughts carry.
    :param model: as the request names it.
    """

    def __init__(self, maker: str, model: str, tools: Iterable[ToolSpec] = ()) -> None:
        self._maker, self._model = maker, f"{maker}/{model}"
        self._schemas = {spec.name: spec.parameters for spec in tools}
        self._blocks: list[dict[str, Any]] = []
        self._at: dict[int, dict[str, Any]] = {}
        self._usage: dict[str, int] = {}
        self._stop: str | None = None
        self.received, self.done = 0, False

    @property
    def whole(self) -> bool:
        """True after the end event; nothing follows it."""
        return self.done

    def take(self, name: str, data: Any) -> Iterator[ModelEvent]:
        """Process one event."""
        kind = data["type"] if data else name
        if kind == "content_block_delta":
            yield from self._grow(self._at[data["index"]], data["delta"])
        elif kind == "content_block_start":
            block = self._at[data["index"]] = {**data["content_block"], "pieces": []}
            self._blocks.append(block)
            self.received += len(block.get("name") or block.get("data") or "")
            yield from self._initial_content(block)
        elif kind == "message_start":
            self._count(data["message"].get("usage"))
        elif kind == "message_delta":
            self.received += data["delta"].get("stop_reason") not in (None, self._stop)
            self._stop = data["delta"].get("stop_reason") or self._stop
            self._count(data.get("usage"))
        elif kind == "message_stop":
            self.done = True
        elif kind == "error":
            raise failure_said(self._model, data, status=200)

    def take_body(self, body: Any) -> Iterator[ModelEvent]:
        """Process a whole message at once."""
        if body.get("type") == "error":
            raise failure_said(self._model, body, status=200)
        self._blocks = [{**block, "pieces": []} for block in body["content"]]
        self._count(body.get("usage"))
        self._stop, self.done = body.get("stop_reason"), True
        for block in self._blocks:
            yield from self._initial_content(block)

    def finish(self) -> Assistant:
        """Return the answer, when the service has ended it."""
        if not self.done:
            raise provider_error(self._model, reason="truncated")
        content = tuple(self._content())
        if self._stop == "model_context_window_exceeded" and all(
            isinstance(one, Thinking) for one in content
        ):
            raise provider_error(self._model, reason="context_overflow")
        refused = self._stop == "refusal"
        return Assistant(
            content,
            model=self._model,
            stop_reason="error" if refused else _STOPS.get(self._stop or "", "stop"),
            usage=self._figures(),  # cached tokens are already apart from the input
            error=t("the model refused to answer this") if refused else "",
        )

    def _grow(self, block: dict[str, Any], delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        kind, more = delta["type"], ""
        if kind == "text_delta":
            more = delta["text"]
            yield TextDelta(more)
        elif kind == "input_json_delta":
            more = delta["partial_json"]
        elif kind == "thinking_delta":
            more = delta["thinking"]
            yield ThinkingDelta(more)
        elif kind == "signature_delta":
            block["signature"] = delta["signature"]
            self.received += 1
        if more:
            block["pieces"].append(more)
            self.received += len(more)

    def _initial_content(self, block: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """Yield the content that a block starts with."""
        if text := block.get("text"):
            self.received += len(text)
            yield TextDelta(text)
        if thought := block.get("thinking"):
            self.received += len(thought)
            yield ThinkingDelta(thought)

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        self._usage |= {key: value for key, value in (usage or {}).items() if isinstance(value, int)}

    def _content(self) -> Iterator[Text | Thinking | ToolCall]:
        for block in self._blocks:
            grown = "".join(block["pieces"])
            kind = block["type"]
            if kind == "text" and (text := block.get("text", "") + grown):
                yield Text(text)
            elif kind == "thinking":
                text = block.get("thinking", "") + grown
                yield Thinking(text, signature=block.get("signature", ""), maker=self._maker)
            elif kind == "redacted_thinking":
                yield Thinking(redacted=block["data"], maker=self._maker)
            elif kind == "tool_use":
                yield self._call(block, grown)

    def _call(self, block: Mapping[str, Any], grown: str) -> ToolCall:
        """Return a call; only the last block can be cut by the token limit."""
        if given := block.get("input"):
            grown = grown or msgspec.json.encode(given).decode()
        is_cut = _STOPS.get(self._stop or "") == "length" and block is self._blocks[-1]
        cut_off = limit_reason(block["name"], self._figures()) if is_cut else ""
        return read_call(block.get("id") or "", block["name"], grown, self._schemas, cut_off)

    def _figures(self) -> Usage:
        return usage_of(self._usage) or Usage()
