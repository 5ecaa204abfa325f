"""Conversion of the chunks of a ``streamGenerateContent`` answer to claw's messages. Pure.

Facts: ai.google.dev, "Generating content": a chunk is a whole response with some of its parts; the counts are of
the whole so far, cached tokens and those of tools are included in the prompt's, thoughts apart from the answer's;
the only end mark is a finish reason.
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
from claw_provider_sdk import new_call_id, provider_error, read_call, unreadable_call

from claw_google.refusal import refusal_error
from claw_google.request import wire_name

_STOPS = {"STOP": "stop", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_BROKEN = {"MALFORMED_RESPONSE", "TOO_MANY_TOOL_CALLS"}
"""Malformed answers: a retry may succeed."""
_BROKEN_CALL = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"}
"""The answer ends with a call that the service could not read; the finish message holds it, if anything does."""


class _GeminiText:
    """A text, or a thought, while it is streamed."""

    def __init__(self, *, thought: bool) -> None:
        self.thought, self.signature = thought, ""
        self.pieces: list[str] = []


class GeminiParser:
    """One answer while it is streamed.

    :param maker: name of the provider, which its thoughts and signatures carry.
    :param model: as the request names it.
    """

    def __init__(self, maker: str, model: str, tools: Iterable[ToolSpec] = ()) -> None:
        self._maker, self._model = maker, f"{maker}/{model}"
        self._specs = {wire_name(spec.name): spec for spec in tools}
        self._blocks: list[_GeminiText | Thinking | ToolCall] = []
        self._usage: Mapping[str, Any] = {}
        self._stop = self._why = ""
        self.received, self.done = 0, False

    @property
    def whole(self) -> bool:
        """True after a finish reason; the service then closes."""
        return bool(self._stop)

    def take(self, name: str, data: Any) -> Iterator[ModelEvent]:
        """Process one chunk."""
        if not data:
            return
        if data.get("error"):
            raise refusal_error(self._model, data, 200, {})
        self._usage = data.get("usageMetadata") or self._usage
        feedback = data.get("promptFeedback") or {}
        if blocked := feedback.get("blockReason"):
            self._stop, self._why = blocked, feedback.get("blockReasonMessage") or ""
        for candidate in data.get("candidates") or ():
            if candidate.get("index", 0) == 0:
                for part in (candidate.get("content") or {}).get("parts") or ():
                    yield from self._process_part(part)
                self.received += candidate.get("finishReason") not in (None, "", self._stop)
                self._stop = candidate.get("finishReason") or self._stop
                self._why = candidate.get("finishMessage") or self._why

    def take_body(self, body: Any) -> Iterator[ModelEvent]:
        """Process a whole response at once, or a list of chunks."""
        for data in body if isinstance(body, list) else [body]:
            yield from self.take("", data)
        self.done = True

    def finish(self) -> Assistant:
        """Return the answer, when a finish reason was given."""
        if not self._stop:
            raise provider_error(self._model, reason="truncated")
        said = f"{self._stop}: {self._why}" if self._why else self._stop
        unreadable = self._stop in _BROKEN_CALL
        if self._stop in _BROKEN or (unreadable and not self._specs):
            raise provider_error(self._model, reason="truncated", text=said)
        content = tuple(self._content())
        if unreadable:
            why = f"the service could not read it ({self._stop})"
            content = (*content, unreadable_call(new_call_id(), self._why, why, "a tool"))
        calls = any(isinstance(block, ToolCall) for block in content)
        stop = "stop" if unreadable else _STOPS.get(self._stop, "error")
        return Assistant(
            content,
            model=self._model,
            stop_reason="tool_use" if calls and stop == "stop" else stop,
            usage=to_usage(self._usage),
            error=t("the service stopped this answer: {why}", why=said) if stop == "error" else "",
        )

    def _process_part(self, part: Mapping[str, Any]) -> Iterator[ModelEvent]:
        signature, text = part.get("thoughtSignature") or "", part.get("text")
        if called := part.get("functionCall"):
            self._add_signature(signature)
            self._blocks.append(self._call(called))
        elif isinstance(text, str):
            thought = bool(part.get("thought"))
            if signature and not (thought and text):
                self._add_signature(signature)
                signature = ""
            if text:
                self._grow(text, signature, thought=thought)
                yield ThinkingDelta(text) if thought else TextDelta(text)

    def _grow(self, text: str, signature: str, *, thought: bool) -> None:
        last = self._blocks[-1] if self._blocks else None
        if not isinstance(last, _GeminiText) or last.thought is not thought or last.signature:
            last = _GeminiText(thought=thought)
            self._blocks.append(last)
        last.pieces.append(text)
        self.received += len(text)
        last.signature = signature

    def _add_signature(self, signature: str) -> None:
        """Keep the signature for the next part."""
        if signature:
            self.received += 1
            self._blocks.append(Thinking(signature=signature, maker=self._maker))

    def _call(self, called: Mapping[str, Any]) -> ToolCall:
        """Return a call, with a generated id when the service gave none."""
        name = str(called.get("name") or "")
        spec = self._specs.get(name)
        written = msgspec.json.encode(called.get("args") or {}).decode()
        self.received += len(name) + len(written)
        name = spec.name if spec else name
        return read_call(called.get("id") or "", name, written, {name: spec.parameters} if spec else {})

    def _content(self) -> Iterator[Text | Thinking | ToolCall]:
        for block in self._blocks:
            if not isinstance(block, _GeminiText):
                yield block
            elif block.thought:
                yield Thinking("".join(block.pieces), signature=block.signature, maker=self._maker)
            else:
                yield Text("".join(block.pieces))


def to_usage(counts: Mapping[str, Any]) -> Usage:
    """Convert the service's token counts: cached tokens apart, thoughts with the answer."""

    def figure(*names: str) -> int | None:
        found = [counts[name] for name in names if isinstance(counts.get(name), int)]
        return sum(found) if found else None

    given, read = figure("promptTokenCount", "toolUsePromptTokenCount"), figure("cachedContentTokenCount")
    return Usage(
        input=None if given is None else max(0, given - (read or 0)),
        output=figure("candidatesTokenCount", "thoughtsTokenCount"),
        cache_read=read,
        total=figure("totalTokenCount"),
    )
