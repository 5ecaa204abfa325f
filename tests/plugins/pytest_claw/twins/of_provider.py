"""One sound provider of Chat Completions, and for each promise a twin that breaks it and no other."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from claw import (
    Assistant,
    Credential,
    Finished,
    ProviderConfig,
    ProviderError,
    Request,
    Text,
    TextDelta,
    ToolCall,
    Usage,
    User,
    failed,
    hookimpl,
)
from claw.testing.services import OpenAIService
from pytest_claw import ProviderSuite


class Plain:
    """As little as a provider can be; its flaws are switched on by name."""

    flaw: ClassVar[str] = ""
    name = "plain"

    def __init__(self, url: str, key: str, http: Any) -> None:
        self._url, self._http = url, http
        self._key = Credential("default", key)
        if self.flaw == "keys":
            self.key = key

    def context_tokens(self, model: str) -> int:
        return 128_000

    def credentials(self) -> tuple[Credential, ...]:
        return (self._key,)

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        if self.flaw != "leaving":
            async for event in self._tries(request):
                yield event
            return
        heard: asyncio.Queue[Any] = asyncio.Queue()
        self._reading = asyncio.ensure_future(self._read_on(request, heard))
        while not isinstance(event := await heard.get(), Exception | None):
            yield event
        if event:
            raise event

    async def _read_on(self, request: Request, heard: asyncio.Queue[Any]) -> None:
        """Reads to the end whoever still listens."""
        end = None
        try:
            async for event in self._tries(request):
                heard.put_nowait(event)
        except ProviderError as why:
            end = why
        heard.put_nowait(end)

    async def _tries(self, request: Request) -> AsyncIterator[Any]:
        for attempt in range(3):
            try:
                async for event in self._attempt(request):
                    yield event
                return
            except ProviderError:
                if self.flaw != "attempts" or attempt == 2:
                    raise

    async def _attempt(self, request: Request) -> AsyncIterator[Any]:
        import httpx2

        key = request.credential.secret if request.credential else ""
        words = [
            {"role": "user", "content": m.content[0].text} for m in request.messages if isinstance(m, User)
        ]
        body: dict[str, Any] = {"model": request.model, "messages": words, "stream": True}
        body["stream_options"] = {"include_usage": True}
        if request.tools:
            tools = [
                {"name": t.name, "description": t.description, "parameters": t.parameters}
                for t in request.tools
            ]
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
        asking = self._http(self._url).build_request(
            "POST", f"{self._url}/chat/completions", json=body, headers={"authorization": f"Bearer {key}"}
        )
        try:
            answer = await self._http(self._url).send(asking, stream=True)
            try:
                if answer.status_code != 200:
                    await answer.aread()
                    raise self._refused(answer, key)
                async for event in self._events(answer):
                    yield event
            finally:
                await answer.aclose()
        except httpx2.TransportError as why:
            raise failed(self.name, reason="network", text=type(why).__name__) from None

    def _refused(self, answer: Any, key: str) -> ProviderError:
        text = "" if self.flaw != "keys" else answer.text
        if self.flaw == "classes":
            return failed(self.name, reason="unknown", status=answer.status_code)
        return failed(self.name, status=answer.status_code, text=text, headers=dict(answer.headers))

    async def _events(self, answer: Any) -> AsyncIterator[Any]:
        text, calls, usage, ended = "", {}, Usage(), False
        async for data in self._data(answer):
            if data == "[DONE]":
                ended = True
                continue
            chunk = json.loads(data)
            if used := chunk.get("usage"):
                cached = (used.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
                usage = Usage(used["prompt_tokens"] - cached, used["completion_tokens"], cached)
            for choice in chunk.get("choices", ()):
                delta = choice["delta"]
                if delta.get("content"):
                    text += delta["content"]
                    yield TextDelta(delta["content"])
                for part in delta.get("tool_calls") or ():
                    call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                    call["id"] = part.get("id") or call["id"]
                    call["name"] = part["function"].get("name") or call["name"]
                    call["arguments"] += part["function"].get("arguments") or ""
        if not ended and self.flaw != "breaks":
            raise failed(self.name, reason="truncated")
        made = tuple(ToolCall(c["id"], c["name"], json.loads(c["arguments"] or "{}")) for c in calls.values())
        said = (Text(text),) if text else ()
        usage = Usage() if self.flaw == "usage" else usage
        yield Finished(Assistant((*said, *made), stop_reason="tool_use" if made else "stop", usage=usage))

    async def _data(self, answer: Any) -> AsyncIterator[str]:
        import httpx2

        rest = b""
        try:
            async for piece in answer.aiter_bytes():
                if self.flaw == "pieces":
                    rest = b""  # what the last piece began is lost
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    if line.startswith(b"data: "):
                        yield line[6:].decode().strip()
        except httpx2.TransportError:
            if self.flaw != "breaks":
                raise


class Plugin:
    """Brings one provider; ``asked`` takes any object with hooks."""

    def __init__(self, flaw: str = "") -> None:
        self._made = type("Plain", (Plain,), {"flaw": flaw})

    @hookimpl
    def register_providers(self, config: Any) -> list[Plain]:
        section = config.provider("plain", ProviderConfig)
        return [self._made(section.base_url, section.api_key.reveal(), config.http)]


class TestSound(ProviderSuite):
    plugin, name, service = Plugin(), "plain", OpenAIService
    patience_seconds = 0.5
    breaks = ""


class TestLosesPieces(TestSound):
    plugin, breaks = Plugin("pieces"), "test_words_and_calls_come_through_in_odd_pieces"


class TestCountsNothing(TestSound):
    plugin, breaks = Plugin("usage"), "test_what_a_call_cost_is_told"


class TestKnowsNoClasses(TestSound):
    plugin, breaks = Plugin("classes"), "test_a_refusal_is_told_by_its_class"


class TestTakesHalfForWhole(TestSound):
    plugin, breaks = Plugin("breaks"), "test_an_answer_that_breaks_off_is_no_answer"


class TestHoldsTheLine(TestSound):
    plugin, breaks = Plugin("leaving"), "test_who_leaves_closes_the_connection"


class TestTriesAgain(TestSound):
    plugin, breaks = Plugin("attempts"), "test_one_attempt_is_one_request"


class TestShowsItsKey(TestSound):
    plugin, breaks = Plugin("keys"), "test_a_key_is_never_shown"
