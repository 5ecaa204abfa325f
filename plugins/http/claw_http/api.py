"""Claw's own routes: health, models, and completions and responses, each one turn of an agent."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote

from claw import PluginConfig
from claw_channel_sdk import WebAnswer, WebRequest

from claw_http import openai, responses
from claw_http.agent_request import AgentRequest, Answer, RequestRules
from claw_http.app import MODEL_HEAD, OwnRoute, StreamedAnswer, as_json
from claw_http.calls import AgentCalls
from claw_http.failures import BadRequest, is_repeatable
from claw_http.pending_requests import CHAT_HEAD, RESPONSE_HEAD, PendingRequest
from claw_http.repeats import RequestLine, request_line
from claw_http.settings import HttpSettings

STILL_HERE = b": still working\n\n"
_SMALL_BYTES = 32 << 10


class StreamEvents(Protocol):
    """The events of one streamed answer."""

    def begin(self) -> Iterator[bytes]:
        """Yield the events before the first text."""
        ...

    def piece(self, text: str) -> Iterator[bytes]:
        """Yield the events for a piece of the text."""
        ...

    def end(self) -> Iterator[bytes]:
        """Yield the events of the end of the answer."""
        ...

    def failed(self, why: BadRequest) -> Iterator[bytes]:
        """Yield the events of a failure."""
        ...


@dataclass(frozen=True)
class WireProtocol:
    """A protocol in which an agent can be called.

    :param head: the beginning of the ids of its answers.
    :param read: parses a body; raises BadRequest.
    :param whole: formats an ended answer; ``events`` those of a stream. Their second argument is the time of the call.
    """

    head: str
    read: Callable[[bytes, RequestRules], AgentRequest]
    whole: Callable[[Answer, int, AgentRequest], dict[str, Any]]
    events: Callable[[Answer, int, AgentRequest], StreamEvents]


_CHAT = WireProtocol(CHAT_HEAD, openai.read, openai.completion, openai.CompletionEvents)
_RESPONSES = WireProtocol(RESPONSE_HEAD, responses.read, responses.whole, responses.ResponseEvents)


def agents_of(config: PluginConfig) -> tuple[str, ...]:
    """Return the ids of the agents, in file order."""
    return tuple(entry.id for entry in config.settings.agents.list)


class OpenAIApi:
    """The routes for callers with the token.

    :param quiet_seconds: a stream sends a keep-alive after this time without text.
    """

    def __init__(
        self,
        config: PluginConfig,
        settings: HttpSettings,
        calls: AgentCalls,
        quiet_seconds: float = 15.0,
    ) -> None:
        self._config, self._settings, self._calls, self._quiet = config, settings, calls, quiet_seconds
        self._since = time.monotonic()
        self._rules = RequestRules(
            agents_of(config), settings.ignore_fields, settings.caller_instructions, settings.max_text_chars
        )

    def take_over(self, before: "OpenAIApi") -> None:
        """Continue the requests of the API with the settings before."""
        self._since = before._since
        self._calls.take_over(before._calls)

    @property
    def paths(self) -> dict[str, OwnRoute]:
        """The handlers of claw's own paths."""
        get, post = frozenset({"GET", "HEAD"}), frozenset({"POST"})
        return {
            "/health": OwnRoute(get, self._health, open=True),
            "/v1/models": OwnRoute(get, self._models),
            **{path: OwnRoute(get, self._model) for path in self._model_paths()},
            "/v1/chat/completions": OwnRoute(post, partial(self._call, protocol=_CHAT)),
            "/v1/responses": OwnRoute(post, partial(self._call, protocol=_RESPONSES)),
        }

    async def _health(self, request: WebRequest, known: bool) -> WebAnswer:
        more = {"uptimeSeconds": round(time.monotonic() - self._since), "waiting": self._calls.waiting}
        return as_json({"status": "ok"} | (more if known else {}))

    async def _models(self, request: WebRequest, known: bool) -> WebAnswer:
        return as_json(openai.models(agents_of(self._config), 0))

    def _model_paths(self) -> dict[str, dict[str, Any]]:
        """Return the models by path; the id is in the path as it is, or encoded as by OpenAI's SDKs."""
        listed = openai.models(agents_of(self._config), 0)["data"]
        ids = {model["id"]: model for model in listed}
        return {MODEL_HEAD + path: ids[id] for id in ids for path in (id, quote(id, safe=""))}

    async def _model(self, request: WebRequest, known: bool) -> WebAnswer:
        return as_json(self._model_paths()[request.path])

    async def _call(
        self, request: WebRequest, known: bool, *, protocol: WireProtocol
    ) -> WebAnswer | StreamedAnswer:
        """Answer a request with one turn of an agent, in the form of a protocol."""
        if not self._settings.admits_callers:
            problem = "channels.http admits no caller: see its dmPolicy and allowFrom"
            raise BadRequest(403, problem, "permission_error", code="channel_closed")
        if len(request.body) <= _SMALL_BYTES:  # faster than a worker thread
            asked = protocol.read(request.body, self._rules)
        else:
            asked = await asyncio.to_thread(protocol.read, request.body, self._rules)
        said = {"x-claw-dropped-messages": str(asked.dropped)} if asked.dropped else {}
        line = request_line(request, asked.user or asked.previous, time.monotonic())
        call, created = await self._calls.open(request, asked, protocol.head, line), int(time.time())
        delivered = is_streaming = False
        try:
            if asked.stream:
                await self._until_begun(call)
                is_streaming = True
                events = protocol.events(call, created, asked)
                return StreamedAnswer(self._streamed(call, events, line), said)
            await self._calls.finished(call)
            delivered = True
            return as_json(protocol.whole(call, created, asked), said)
        except BadRequest as why:
            delivered = not is_repeatable(why)
            raise
        finally:
            if not is_streaming:
                self._calls.close(call, delivered, line)

    async def _until_begun(self, call: PendingRequest) -> None:
        """Wait for the first text of a stream: a failure before it has a status of its own.

        :raises BadRequest: there is no answer.
        """
        try:
            await asyncio.wait_for(call.until_begun(), min(self._quiet, self._settings.answer_seconds))
        except TimeoutError:
            return
        if call.failure and not call.has_begun:
            raise call.failure

    async def _streamed(
        self, call: PendingRequest, events: StreamEvents, line: RequestLine
    ) -> AsyncIterator[bytes]:
        delivered, deadline = False, time.monotonic() + self._settings.answer_seconds
        try:
            for event in events.begin():
                yield event
            async for piece in call.pieces(self._quiet, deadline):
                for event in events.piece(piece) if piece else (STILL_HERE,):
                    yield event
            if call.failure:
                raise call.failure
            for event in events.end():
                yield event
            delivered = True
        except BadRequest as why:
            delivered = not is_repeatable(why)
            for event in events.failed(why):
                yield event
        finally:
            self._calls.close(call, delivered, line)
