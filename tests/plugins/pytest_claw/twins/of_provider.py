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
    Thinking,
    ToolCall,
    Usage,
    User,
    hookimpl,
)
from claw.contracts.transcript import ToolResultMessage
from claw_provider_sdk import CallIds, provider_error
from claw_testing.services import OpenAIService
from pytest_claw import ProviderSuite


class Plain:
    """As little as a provider can be; its flaws are switched on by name."""

    flaw: ClassVar[str] = ""
    name = "plain"

    def __init__(self, url: str, key: str, http: Any, begin_seconds: float) -> None:
        self._url, self._http = url, http
        self._key, self._heard, self._begin_seconds = Credential("default", key), "", begin_seconds
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
        events: asyncio.Queue[Any] = asyncio.Queue()
        self._reading = asyncio.ensure_future(self._read_on(request, events))
        while not isinstance(event := await events.get(), Exception | None):
            yield event
        if event:
            raise event

    async def _read_on(self, request: Request, events: asyncio.Queue[Any]) -> None:
        """Reads to the end whoever still listens."""
        end = None
        try:
            async for event in self._tries(request):
                events.put_nowait(event)
        except ProviderError as why:
            end = why
        events.put_nowait(end)

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
        asking = self._http(self._url).build_request(
            "POST",
            f"{self._url}/chat/completions",
            json=self._body(request),
            headers={"authorization": f"Bearer {key}"},
        )
        try:
            async with asyncio.timeout(None if self.flaw == "patience" else self._begin_seconds):
                answer = await self._http(self._url).send(asking, stream=True)
            try:
                if answer.status_code != 200:
                    await answer.aread()
                    raise self._refused(answer, key)
                async for event in self._events(answer):
                    yield event
            finally:
                await answer.aclose()
        except TimeoutError:
            raise provider_error(self.name, reason="timeout") from None
        except httpx2.TransportError as why:
            raise provider_error(self.name, reason="network", text=type(why).__name__) from None

    def _body(self, request: Request) -> dict[str, Any]:
        rows = [] if self.flaw == "orders" else [{"role": "system", "content": request.system.whole}]
        ids = CallIds()
        for message in request.messages:
            rows.extend(self._rows(message, ids))
        body: dict[str, Any] = {"model": request.model, "messages": rows, "stream": True}
        body["stream_options"] = {"include_usage": True}
        if request.max_tokens and self.flaw != "longest":
            body["max_tokens"] = request.max_tokens
        if request.tools:
            tools = [
                {"name": t.name, "description": t.description, "parameters": t.parameters}
                for t in request.tools
            ]
            body["tools"] = [{"type": "function", "function": tool} for tool in tools]
            if request.tool_choice != "auto" and self.flaw != "choice":
                body["tool_choice"] = _choice(request.tool_choice)
        return body

    def _rows(self, message: Any, ids: CallIds) -> list[dict[str, Any]]:
        if isinstance(message, ToolResultMessage):
            content = "" if self.flaw == "results" else message.text
            return [{"role": "tool", "tool_call_id": ids.of_result(message.call_id), "content": content}]
        said = "".join(part.text for part in message.content if isinstance(part, Text))
        if isinstance(message, User):
            if self.flaw == "pictures" and not isinstance(message.content[-1], Text):
                raise provider_error(self.name, reason="unknown")
            return [{"role": "user", "content": said}]
        if self.flaw == "thoughts":
            said += "".join(part.text for part in message.content if isinstance(part, Thinking))
        calls = [
            {
                "id": ids.of_call(call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
        return [{"role": "assistant", "content": said, **({"tool_calls": calls} if calls else {})}]

    def _refused(self, answer: Any, key: str) -> ProviderError:
        text = "" if self.flaw != "keys" else answer.text
        if self.flaw != "length" and b"too long" in answer.content:
            return provider_error(self.name, reason="context_overflow", status=answer.status_code)
        if self.flaw == "classes":
            return provider_error(self.name, reason="unknown", status=answer.status_code)
        return provider_error(self.name, status=answer.status_code, text=text, headers=dict(answer.headers))

    async def _events(self, answer: Any) -> AsyncIterator[Any]:
        text, calls, usage, ended = "", {}, Usage(), False
        self._heard = ""
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
                    self._heard += delta["content"]
                    yield TextDelta(delta["content"])
                for part in delta.get("tool_calls") or ():
                    call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                    call["id"] = part.get("id") or call["id"]
                    call["name"] = part["function"].get("name") or call["name"]
                    call["arguments"] += part["function"].get("arguments") or ""
        if not ended and self.flaw != "breaks":
            raise provider_error(self.name, reason="truncated")
        made = tuple(ToolCall(c["id"], c["name"], json.loads(c["arguments"] or "{}")) for c in calls.values())
        text = self._heard if self.flaw == "mixing" else text
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


def _choice(choice: str) -> Any:
    return choice if choice in ("none", "required") else {"type": "function", "function": {"name": choice}}


class Plugin:
    """A plugin with one provider; ``asked`` takes any object with hooks."""

    def __init__(self, flaw: str = "") -> None:
        self._made = type("Plain", (Plain,), {"flaw": flaw})

    @hookimpl
    def register_providers(self, config: Any) -> list[Plain]:
        section = config.provider("plain", ProviderConfig)
        return [
            self._made(section.base_url, section.api_key.reveal(), config.http, section.begin_timeout_seconds)
        ]


class TestSound(ProviderSuite):
    plugin, name, service = Plugin(), "plain", OpenAIService
    limit_seconds = 0.5
    breaks = ""


class TestLosesPieces(TestSound):
    plugin, breaks = Plugin("pieces"), "test_text_and_calls_survive_any_chunking"


class TestCountsNothing(TestSound):
    plugin, breaks = Plugin("usage"), "test_the_usage_of_a_call_is_reported"


class TestKnowsNoClasses(TestSound):
    plugin, breaks = Plugin("classes"), "test_an_error_has_the_reason_of_its_status"


class TestTakesHalfForWhole(TestSound):
    plugin, breaks = Plugin("breaks"), "test_an_answer_that_breaks_off_is_an_error"


class TestHoldsTheLine(TestSound):
    plugin, breaks = Plugin("leaving"), "test_closing_the_stream_closes_the_connection"


class TestTriesAgain(TestSound):
    plugin, breaks = Plugin("attempts"), "test_one_attempt_is_one_request"


class TestShowsItsKey(TestSound):
    plugin, breaks = Plugin("keys"), "test_a_key_is_never_shown"


class TestCallsNothing(TestSound):
    plugin, breaks = Plugin("choice"), "test_a_tool_that_must_be_called_is_called"


class TestForgetsResults(TestSound):
    plugin, breaks = Plugin("results"), "test_a_call_and_its_result_are_sent_back"


class TestForgetsItsOrders(TestSound):
    plugin, breaks = Plugin("orders"), "test_the_instructions_reach_the_model"


class TestHasNoEnd(TestSound):
    plugin, breaks = Plugin("longest"), "test_max_tokens_is_obeyed"


class TestMixesAnswers(TestSound):
    plugin, breaks = Plugin("mixing"), "test_two_calls_at_once_do_not_mix"


class TestFailsAtPictures(TestSound):
    plugin, breaks = Plugin("pictures"), "test_a_picture_is_read_or_refused_as_a_bad_request"


class TestTellsThoughts(TestSound):
    plugin, breaks = Plugin("thoughts"), "test_a_history_of_other_providers_is_accepted"


class TestKnowsNoLength(TestSound):
    plugin, breaks = Plugin("length"), "test_a_conversation_that_is_too_long_is_reported_as_that"


class TestWaitsForEver(TestSound):
    plugin, breaks = Plugin("patience"), "test_a_silent_service_times_out"
