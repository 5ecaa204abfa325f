"""Provider wrapper for prompted tools.

A model without native tool calling gets the tools in the prompt, and its calls are parsed from its text. The text of
a model with native tool calling is parsed too: a call that it prints is executed, and not shown as text. The parser
is imported at the first call of a model.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

from claw import Finished, ModelEvent, Provider, ProviderError, Request, TextDelta
from claw_provider_sdk import IncrementalCache


class PromptedToolsProvider:
    """A provider with prompted tools; all other attributes are those of the wrapped provider.

    :param mode: returns the mode of a model.
    """

    def __init__(self, provider: Provider, mode: Callable[[str], str]) -> None:
        self.name = provider.name
        self._provider, self._configured_mode = provider, mode
        self._modes: dict[str, str] = {}
        self._rewritten: IncrementalCache[Any] | None = None  # until a model needs the tools in its prompt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)

    def tool_mode(self, model: str) -> str:
        """Return how a model is given tools; asked once for each model."""
        if model not in self._modes:
            self._modes[model] = self._configured_mode(model)
        return self._modes[model]

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer ``request``; the tools are in the prompt when the model has no native tool calling."""
        from claw_prompted_tools.answer import AnswerParser

        mode = self._mode(request.model)
        if mode == "none" and request.tool_choice not in ("auto", "none"):
            raise self._no_tools(request)
        stream: Any = self._provider.stream(self._rewritten_request(request, mode))
        answer = AnswerParser(request, mode)
        try:
            async for event in stream:
                if isinstance(event, TextDelta):
                    if shown := "".join(answer.feed(event.text)):
                        yield TextDelta(shown)
                elif isinstance(event, Finished):
                    if shown := "".join(answer.end(event.message)):
                        yield TextDelta(shown)
                    yield Finished(answer.understood(event.message))
                else:
                    yield event
        finally:
            if close := getattr(stream, "aclose", None):
                await close()

    def _no_tools(self, request: Request) -> ProviderError:
        return ProviderError(
            "{model} is given no tools, and tool choice {choice} asks for a call",
            reason="bad_request",
            fix="set providers.{provider}.tools to native or prompt (or tools of this model there)",
            model=f"{self.name}/{request.model}",
            choice=request.tool_choice,
            provider=self.name,
        )

    def _mode(self, model: str) -> str:
        try:
            return self.tool_mode(model)
        except Exception:  # noqa: BLE001 - a plugin's code; a caller of tool_mode gets the error
            return self._modes.setdefault(model, "native")

    def _rewritten_request(self, request: Request, mode: str) -> Request:
        if mode == "native":
            return request
        from claw_prompted_tools.render import PromptRenderer, to_prompted_request

        self._rewritten = self._rewritten or IncrementalCache(PromptRenderer)
        without_tools = replace(request, tools=()) if mode == "none" else request
        return to_prompted_request(without_tools, self._rewritten.get(request.messages).messages)
