"""The provider: the last thing the person said goes to the engine, its words come back as they are made.

A model of this size reads about 100 tokens a second and cannot choose tools (measured: 3 of 8), so it is sent one line
of instructions and the last message only; neither the house's system prompt nor tools.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
from claw import (
    Assistant,
    Credential,
    Finished,
    ModelEvent,
    ProviderConfig,
    ProviderError,
    Request,
    Text,
    TextDelta,
    Usage,
    User,
)
from pydantic import Field, PositiveInt

from claw_local import engine

INSTRUCTIONS = "You are a small, helpful assistant. Answer briefly."
# About 200 tokens of English, or 150 of Chinese: two seconds of reading.
PROMPT_BYTES = 700
STOP_REASONS = {"stop": "stop", "length": "length"}


class LocalSettings(ProviderConfig):
    """``providers.local`` in the config file; ``models`` names GGUF files: ``NAME: {path: /path/model.gguf}``."""

    context_tokens: PositiveInt = Field(2048, description="How much the engine reads at once, in tokens.")
    max_tokens: PositiveInt = Field(256, description="Length of an answer, in tokens.")
    threads: PositiveInt = Field(
        default_factory=engine.default_threads,
        description="Threads of the engine; half of the cores by default.",
    )


class Local:
    """A model on this machine. Its server starts at the first question and lives as long as the house."""

    name = "local"

    def __init__(self, settings: LocalSettings, http: Callable[[str], httpx2.AsyncClient]) -> None:
        self._settings, self._http = settings, http
        self._servers: dict[Path, engine.Server] = {}
        self._starting = asyncio.Lock()

    def context_tokens(self, model: str) -> int:
        """The same for all of them: ``providers.local.contextTokens``."""
        return self._settings.context_tokens

    def credentials(self) -> tuple[Credential, ...]:
        """One, empty: no key is needed."""
        return (Credential("local", ""),)

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Answer the last message of a person in words.

        :raises ProviderError: the engine or the model is not there, or the engine failed.
        """
        server = await self._server(request.model)
        client = self._http(server.address)
        try:
            async with client.stream(
                "POST",
                f"{server.address}/v1/chat/completions",
                headers={"Authorization": f"Bearer {server.key}"},
                json=body_of(request, self._settings.max_tokens),
                timeout=httpx2.Timeout(300, connect=10),
            ) as response:
                if response.status_code != 200:
                    raise _refused(response.status_code, await response.aread())
                answer = Answer(f"local/{request.model}")
                async for line in response.aiter_lines():
                    if piece := answer.add(line):
                        yield TextDelta(piece)
                yield Finished(answer.message())
        except httpx2.HTTPError as why:
            raise ProviderError(
                "the local engine broke off: {why}", reason="network", retryable=True, why=why
            ) from why

    async def close(self) -> None:
        """Stop the servers."""
        servers, self._servers = self._servers, {}
        await asyncio.to_thread(servers.clear)

    async def _server(self, model: str) -> engine.Server:
        settings = self._settings
        file = engine.model_file(model, settings.models)
        async with self._starting:
            if file not in self._servers:
                self._servers[file] = await asyncio.to_thread(
                    engine.start, file, context_tokens=settings.context_tokens, threads=settings.threads
                )
        return self._servers[file]


class Answer:
    """The answer as it comes in: server-sent events of ``/v1/chat/completions``, a line at a time."""

    def __init__(self, model: str) -> None:
        self._model, self._text, self._reason, self._usage = model, "", "", Usage()

    def add(self, line: str) -> str:
        """Take one line; the words in it, if any."""
        if not line.startswith("data:") or line.endswith("[DONE]"):
            return ""
        chunk = json.loads(line[5:])
        if error := chunk.get("error"):
            raise ProviderError(
                "the local engine failed: {why}", reason="server", why=error.get("message", error)
            )
        if usage := chunk.get("usage"):
            self._usage = usage_of(usage)
        piece = ""
        for choice in chunk.get("choices", ()):
            piece += choice.get("delta", {}).get("content") or ""
            self._reason = choice.get("finish_reason") or self._reason
        self._text += piece
        return piece

    def message(self) -> Assistant:
        """The whole answer.

        :raises ProviderError: the stream ended before the engine said that it was done.
        """
        if not self._reason:
            raise ProviderError(
                "the local engine broke off in the middle", reason="truncated", retryable=True
            )
        stop = STOP_REASONS.get(self._reason, "stop")
        return Assistant((Text(self._text),), model=self._model, stop_reason=stop, usage=self._usage)


def body_of(request: Request, max_tokens: int) -> dict[str, Any]:
    """The request on the wire: one line of instructions, the last words of the person, clipped to fit."""
    said = (message for message in reversed(request.messages) if isinstance(message, User))
    words = "\n".join(block.text for block in next(said, User(())).content if isinstance(block, Text))
    clipped = words.encode()[-PROMPT_BYTES:].decode(errors="ignore")
    return {
        "messages": [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": clipped}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": min(request.max_tokens or max_tokens, max_tokens),
    }


def usage_of(raw: Mapping[str, Any]) -> Usage:
    """Token counts of the engine; the cached part of the prompt is told apart."""
    cached = (raw.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    prompt = raw.get("prompt_tokens")
    return Usage(
        input=None if prompt is None else prompt - cached,
        output=raw.get("completion_tokens"),
        cache_read=cached,
        total=raw.get("total_tokens"),
    )


def _refused(status: int, body: bytes) -> ProviderError:
    try:
        told = json.loads(body)["error"]
        why, kind = str(told["message"]), str(told.get("type", ""))
    except (ValueError, KeyError, TypeError):
        why, kind = body.decode(errors="replace")[:200], ""
    reason = "context_overflow" if "context_size" in kind else "bad_request" if status < 500 else "server"
    return ProviderError("the local engine refused: {why}", reason=reason, status=status, why=why)
