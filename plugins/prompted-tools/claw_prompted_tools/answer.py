"""The parsing of one streamed answer: calls that a model prints become ``ToolCall`` blocks."""

import re
from collections.abc import Sequence

from claw import Assistant, ProviderError, Request, Text, Thinking, ToolCall
from claw_provider_sdk import new_call_id, unreadable_call
from msgspec.structs import replace as replaced

from claw_prompted_tools.formats import ParsedCall, Schemas, UnreadableCall
from claw_prompted_tools.parser import Part, ToolCallParser, has_call_marks, parse_answer
from claw_prompted_tools.render import foreign_text, same

_SPLIT_TOKEN = re.compile(r"(?<=[<\[]) (?=[/<|\uff5c\w])")
"""The blank by which ``wrap_untrusted`` splits the tokens of calls in the text of others."""


class AnswerParser:
    """The parser of one streamed answer."""

    def __init__(self, request: Request, mode: str) -> None:
        self._request, self._mode = request, mode
        self._schemas: Schemas = {spec.name: spec.parameters for spec in request.tools}
        self._forbidden = request.tool_choice == "none" or mode == "none"
        self._parser = ToolCallParser(self._schemas, self._is_quoted)
        self._parts: list[Part] = []
        self._streamed_chars = 0
        self._has_calls = False

    def feed(self, text: str) -> list[str]:
        """Add streamed text; return the text that may be shown."""
        self._streamed_chars += len(text)
        return self._collect(self._parser.feed(text))

    def end(self, message: Assistant) -> list[str]:
        """End the answer; return the text that was held back and may be shown."""
        return self._collect(self._parser.end(_is_whole(message), not message.tool_calls))

    def _collect(self, parts: Sequence[Part]) -> list[str]:
        self._parts += parts
        words = [part for part in parts if isinstance(part, str)]
        self._has_calls = self._has_calls or len(words) < len(parts)
        return words

    def understood(self, message: Assistant) -> Assistant:
        """Return the answer with parsed calls as ``ToolCall`` blocks.

        :raises ProviderError: it has nothing but calls, and calls are forbidden.
        """
        text = message.text
        if self._streamed_chars != len(
            text
        ):  # the service does not stream, or its final text differs from the stream
            alone = not message.tool_calls
            self._parts = parse_answer(text, self._schemas, _is_whole(message), self._is_quoted, alone)
            self._has_calls = not all(isinstance(part, str) for part in self._parts)
        content = self._content(message) if self._has_calls else message.content
        if content is message.content:
            return message
        calls = any(isinstance(block, ToolCall) for block in content)
        stop = "tool_use" if calls and message.stop_reason == "stop" else message.stop_reason
        return replaced(message, content=content, stop_reason=stop)

    def _content(self, message: Assistant) -> tuple[Text | Thinking | ToolCall, ...]:
        is_complete = message.stop_reason not in ("error", "aborted")
        blocks = _blocks(self._parts, with_calls=is_complete and not self._forbidden)
        at = next(at for at, block in enumerate(message.content) if isinstance(block, Text))
        others = [block for block in message.content if not isinstance(block, Text)]
        if is_complete and self._forbidden and not blocks:
            raise ProviderError(
                "the model answered only with a tool call, but tools are not allowed here",
                reason="bad_request",
                fix="ask again, or let it use tools (tool choice auto)",
            )
        return (*others[:at], *blocks, *others[at:])

    def _is_quoted(self, part: ParsedCall | UnreadableCall) -> bool:
        """Return true if the call repeats the text of a file, a page or a person: a quotation, not a call."""
        raw = _SPLIT_TOKEN.sub("", part.raw.strip())
        for text in (_SPLIT_TOKEN.sub("", foreign_text(one)) for one in self._request.messages):
            if raw in text:
                return True
            if isinstance(part, ParsedCall) and has_call_marks(text):
                found = (one for one in parse_answer(text, self._schemas) if isinstance(one, ParsedCall))
                if any(same(part, one) for one in found):
                    return True
        return False


def _is_whole(message: Assistant) -> bool:
    return message.stop_reason != "length"


def _blocks(parts: Sequence[Part], with_calls: bool) -> list[Text | Thinking | ToolCall]:
    blocks: list[Text | Thinking | ToolCall] = []
    for part in parts:
        if isinstance(part, str):
            if blocks and isinstance(blocks[-1], Text):
                blocks[-1] = Text(blocks[-1].text + part)
            elif part.strip():
                blocks.append(Text(part))
        elif with_calls:
            id = new_call_id()
            blocks.append(
                ToolCall(id, part.name, part.arguments)
                if isinstance(part, ParsedCall)
                else unreadable_call(id, part.raw, part.reason)
            )
    return blocks
