"""The provider: it sends the person's last message to the engine, and streams the answer.

A model of this size reads about 100 tokens a second and cannot choose tools (measured: 3 of 8), so it gets one
line of instructions and the last message only; neither the agent's system prompt nor tools.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw import Assistant, Credential, ModelEvent, ProviderConfig, Request, Text, TextDelta, Usage, User
from claw_provider_sdk import STREAM_DONE, Price, StreamTimeouts, failure_said, provider_error, stream_answer
from pydantic import Field, PositiveInt

from claw_local import engine

if TYPE_CHECKING:
    import httpx2

INSTRUCTIONS = "You are a small, helpful assistant. Answer briefly."
# About 200 tokens of English, or 150 of Chinese: two seconds of reading.
PROMPT_BYTES = 700


class LocalSettings(ProviderConfig):
    """``providers.local`` in the config file; ``models`` names GGUF files: ``NAME: {path:
    /path/model.gguf}``.
    """

    context_tokens: PositiveInt = Field(2048, description="How much the engine reads at once, in tokens.")
    max_tokens: PositiveInt = Field(256, description="Length of an answer, in tokens.")
    threads: PositiveInt = Field(
        default_factory=engine.default_threads,
        description="Threads of the engine; half of the cores by default.",
    )


class Local:
    """A model on this machine. Its server starts at the first question and runs until the provider is
    closed.
    """

    name = "local"

    def __init__(self, settings: LocalSettings, http: Callable[[str], "httpx2.AsyncClient"]) -> None:
        self._settings, self._http = settings, http
        self._servers: dict[Path, asyncio.Future[engine.EngineServer]] = {}

    def context_tokens(self, model: str) -> int:
        """Return ``providers.local.contextTokens``, for any model."""
        return self._settings.context_tokens

    def credentials(self) -> tuple[Credential, ...]:
        """Return one empty credential: no key is needed."""
        return (Credential("local", ""),)

    def tool_mode(self, model: str) -> str:
        """Return "none": the model cannot choose tools."""
        return "none"

    def price(self, model: str) -> Price:
        """Return a price of zero: it runs on this machine."""
        return Price(0.0, 0.0)

    def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Stream the answer to the last message of a person.

        :raises ProviderError: the engine or the model is missing, or the engine failed.
        """
        service = f"local/{request.model}"

        async def ask() -> "httpx2.Response":
            server = await self._server(request.model)
            client = self._http(server.address)
            wire = client.build_request(
                "POST",
                f"{server.address}/v1/chat/completions",
                headers={"Authorization": f"Bearer {server.key}"},
                json=body_of(request, self._settings.max_tokens),
                timeout=None,  # the stream timeouts below apply
            )
            response = await client.send(wire, stream=True)
            if response.is_error:
                await response.aread()
                response.raise_for_status()
            return response

        return stream_answer(
            ask, EngineParser(service), service=service, timeouts=StreamTimeouts.of(self._settings)
        )

    async def close(self) -> None:
        """Stop the servers, also those that are starting."""
        starts, self._servers = [*self._servers.values()], {}
        servers = await asyncio.gather(*starts, return_exceptions=True)
        starts.clear()
        await asyncio.to_thread(servers.clear)

    async def _server(self, model: str) -> engine.EngineServer:
        """Return the server of a model. One that starts goes on when its question is cancelled: the next one needs it."""
        settings = self._settings
        file = engine.model_file(model, settings.models)
        if file not in self._servers:
            tokens, threads = settings.context_tokens, settings.threads
            start = asyncio.to_thread(engine.start, file, context_tokens=tokens, threads=threads)
            self._servers[file] = asyncio.ensure_future(start)
            self._servers[file].add_done_callback(lambda done: self._forget_failed(file, done))
        return await asyncio.shield(self._servers[file])

    def _forget_failed(self, file: Path, done: "asyncio.Future[engine.EngineServer]") -> None:
        if done.cancelled() or done.exception():  # the next question tries again
            self._servers.pop(file, None)


class EngineParser:
    """The answer while it is streamed: chunks of ``/v1/chat/completions``."""

    def __init__(self, service: str) -> None:
        self._service, self._text, self._reason, self._usage = service, "", "", Usage()
        self.received, self.done = 0, False

    @property
    def whole(self) -> bool:
        """True after a finish reason; the token counts still follow."""
        return bool(self._reason)

    def take(self, name: str, data: Any) -> Iterator[TextDelta]:
        """Process one chunk."""
        if name == STREAM_DONE:
            self.done = True
        elif "error" in data:
            raise failure_said(self._service, data, status=200)
        else:
            yield from self._words(data, "delta")

    def take_body(self, body: Any) -> Iterator[TextDelta]:
        """Process the whole answer at once."""
        yield from self._words(body, "message")

    def finish(self) -> Assistant:
        """Return the whole answer."""
        if not self._reason:
            raise provider_error(self._service, reason="truncated")
        stop = "length" if self._reason == "length" else "stop"
        return Assistant((Text(self._text),), model=self._service, stop_reason=stop, usage=self._usage)

    def _words(self, data: Mapping[str, Any], part: str) -> Iterator[TextDelta]:
        if usage := data.get("usage"):
            self._usage = usage_of(usage)
        for choice in data.get("choices", ()):
            self.received += choice.get("finish_reason") not in (None, self._reason)
            self._reason = choice.get("finish_reason") or self._reason
            if piece := (choice.get(part) or {}).get("content"):
                self._text += piece
                self.received += len(piece)
                yield TextDelta(piece)


def body_of(request: Request, max_tokens: int) -> dict[str, Any]:
    """Return the request body: one line of instructions, the last words of the person, truncated to fit."""
    people = (message for message in reversed(request.messages) if isinstance(message, User))
    said = (message for message in people if message.kind != "tool_results")
    words = "\n".join(block.text for block in next(said, User(())).content if isinstance(block, Text))
    clipped = words.encode()[-PROMPT_BYTES:].decode(errors="ignore")
    return {
        "messages": [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": clipped}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": min(request.max_tokens or max_tokens, max_tokens),
    }


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """Convert the engine's token counts; the cached part of the prompt is counted apart."""
    cached = (raw.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    prompt = raw.get("prompt_tokens")
    return Usage(
        input=None if prompt is None else prompt - cached,
        output=raw.get("completion_tokens"),
        cache_read=cached,
        total=raw.get("total_tokens"),
    )
