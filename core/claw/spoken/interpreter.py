"""Between a house that calls tools and a model that may have only words: every provider is heard through it.

A model without tools of its own is told of them in the prompt, and its calls are taken out of its words. A model that
has them is heard in the same way: what it prints instead of calling is a call all the same, and no person sees it. The
secrets of this house are taken out of every answer here, before anybody hears of it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal

from msgspec.structs import replace as replaced

from claw.errors import ProviderError
from claw.growing import Growing
from claw.guard.redact import Redactor, Said, Veil
from claw.provider import Finished, ModelEvent, Provider, Request, TextDelta, ThinkingDelta
from claw.spoken.ear import Ear, Part, has_marks, listen
from claw.spoken.forms import Garbled, Schemas, Spoken
from claw.spoken.told import Rewriting, garbled_call, in_words, not_called, said_in, same
from claw.transcript import Assistant, Text, Thinking, ToolCall
from claw.wire import mint_call_id

Mode = Literal["native", "prompt", "none"]


def mode_of(provider: Provider, model: str, written: str | None = None) -> Mode:
    """How a model is told of tools.

    :param written: what the settings say; else its provider is asked (``tool_mode(model)``), else it has its own.
    """
    known = getattr(provider, "tool_mode", None)
    found = written or (known(model) if callable(known) else "native")
    return "prompt" if found == "prompt" else "none" if found == "none" else "native"


class Interpreter:
    """A provider, heard through. What it is asked besides goes to it as it is.

    :param mode: of each of its models.
    :param admit: raises ``ProviderError`` for a model that must not be given tools.
    :param redactor: knows what no answer may hold.
    """

    def __init__(
        self,
        provider: Provider,
        mode: Callable[[str], Mode],
        admit: Callable[[str], None] = lambda model: None,
        redactor: Redactor | None = None,
    ) -> None:
        self.name = provider.name
        self._provider, self._mode, self._admit = provider, mode, admit
        self._redactor = redactor or Redactor()
        self._rewritten = Growing(Rewriting)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer ``request``; its tools stand in the prompt where the model takes no others."""
        mode = self._mode(request.model)
        if request.tools and mode != "none":
            self._admit(request.model)
        stream: Any = self._provider.stream(self._asked(request, mode))
        hearing, said = _Hearing(request, mode), self._redactor.said
        words, thoughts = Veil(said), Veil(said)
        async with aclosing(stream) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    if shown := "".join(map(words.feed, hearing.feed(event.text))):
                        yield TextDelta(shown)
                elif isinstance(event, ThinkingDelta):
                    if shown := thoughts.feed(event.text):
                        yield ThinkingDelta(shown)
                elif isinstance(event, Finished):
                    if shown := thoughts.end():
                        yield ThinkingDelta(shown)
                    if shown := "".join(map(words.feed, hearing.end(event.message))) + words.end():
                        yield TextDelta(shown)
                    yield Finished(_without_secrets(hearing.understood(event.message), said))
                else:
                    yield event

    def _asked(self, request: Request, mode: Mode) -> Request:
        if mode == "native":
            return request
        told = replace(request, tools=()) if mode == "none" else request
        return in_words(told, self._rewritten.of(request.messages).messages)


class _Hearing:
    """One answer while it comes."""

    def __init__(self, request: Request, mode: Mode) -> None:
        self._request, self._mode = request, mode
        self._schemas: Schemas = {spec.name: spec.parameters for spec in request.tools}
        self._forbidden = request.tool_choice == "none" or mode == "none"
        self._ear = Ear(self._schemas, self._is_quoted)
        self._parts: list[Part] = []
        self._heard_chars = 0
        self._caught = False

    def feed(self, text: str) -> list[str]:
        """What of the next words may be shown."""
        self._heard_chars += len(text)
        return self._shown(self._ear.feed(text))

    def end(self, message: Assistant) -> list[str]:
        """What was held back, and may be shown after all."""
        return self._shown(self._ear.end(_is_whole(message), not message.tool_calls))

    def _shown(self, parts: Sequence[Part]) -> list[str]:
        self._parts += parts
        words = [part for part in parts if isinstance(part, str)]
        self._caught = self._caught or len(words) < len(parts)
        return words

    def understood(self, message: Assistant) -> Assistant:
        """The answer with its calls as calls.

        :raises ProviderError: it is nothing but calls that may not be made.
        """
        text = message.text
        if self._heard_chars != len(text):  # a service that does not stream, or says it otherwise in the end
            alone = not message.tool_calls
            self._parts = listen(text, self._schemas, _is_whole(message), self._is_quoted, alone)
            self._caught = not all(isinstance(part, str) for part in self._parts)
        content = self._content(message) if self._caught else message.content
        calls = [block for block in content if isinstance(block, ToolCall)]
        if self._is_owed_a_call(message, calls):
            nudge = garbled_call(mint_call_id(), "", not_called(self._request.tool_choice))
            content, calls = (*content, nudge), [*calls, nudge]
        if content is message.content:
            return message
        stop = "tool_use" if calls and message.stop_reason == "stop" else message.stop_reason
        return replaced(message, content=content, stop_reason=stop)

    def _content(self, message: Assistant) -> tuple[Text | Thinking | ToolCall, ...]:
        lasting = message.stop_reason not in ("error", "aborted")
        spoken = _blocks(self._parts, with_calls=lasting and not self._forbidden)
        at = next(at for at, block in enumerate(message.content) if isinstance(block, Text))
        others = [block for block in message.content if not isinstance(block, Text)]
        if lasting and self._forbidden and not spoken:
            raise ProviderError(
                "the model answered with nothing but a tool call, and may call no tool here", reason="bad_request",
                fix="ask again, or let it use tools (tool choice auto)",
            )  # fmt: skip
        return (*others[:at], *spoken, *others[at:])

    def _is_owed_a_call(self, message: Assistant, calls: Sequence[ToolCall]) -> bool:
        """Whether a call was asked for that nobody but us can insist on."""
        choice = self._request.tool_choice
        if (
            self._mode != "prompt"
            or choice in ("auto", "none")
            or message.stop_reason not in ("stop", "tool_use")
        ):
            return False
        return not any(choice in ("required", call.name) for call in calls)

    def _is_quoted(self, part: Spoken | Garbled) -> bool:
        """Whether somebody else wrote it first: a file, a page or a person. To repeat it is to quote, not to call."""
        raw = part.raw.strip()
        for text in map(said_in, self._request.messages):
            if raw in text:
                return True
            if isinstance(part, Spoken) and has_marks(text):
                found = (one for one in listen(text, self._schemas) if isinstance(one, Spoken))
                if any(same(part, one) for one in found):
                    return True
        return False


def _without_secrets(message: Assistant, said: Said) -> Assistant:
    """What people read of it; calls stay as they were made, and so does what its maker has sealed."""
    content = tuple(
        replaced(block, text=masked)
        if (isinstance(block, Text) or (isinstance(block, Thinking) and not block.signature))
        and (masked := said.masked(block.text)) != block.text
        else block
        for block in message.content
    )
    return message if content == message.content else replaced(message, content=content)


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
            id = mint_call_id()
            blocks.append(
                ToolCall(id, part.name, part.arguments)
                if isinstance(part, Spoken)
                else garbled_call(id, part.raw, part.why)
            )
    return blocks
