"""Claw's own routes: health, models, and a chat completion that is one turn of an agent."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from claw import PluginConfig
from claw_channel_sdk import WebAnswer, WebRequest

from claw_http import openai
from claw_http.agent_request import AgentRequest, RequestRules
from claw_http.app import MODEL_HEAD, OwnRoute, StreamedAnswer, as_json
from claw_http.calls import AgentCalls
from claw_http.failures import BadRequest, is_repeatable
from claw_http.pending_requests import CHAT_HEAD, PendingRequest
from claw_http.settings import HttpSettings

_SMALL_BYTES = 32 << 10


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
        get = frozenset({"GET", "HEAD"})
        return {
            "/health": OwnRoute(get, self._health, open=True),
            "/v1/models": OwnRoute(get, self._models),
            **{path: OwnRoute(get, self._model) for path in self._model_paths()},
            "/v1/chat/completions": OwnRoute(frozenset({"POST"}), self._chat),
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

    async def _chat(self, request: WebRequest, known: bool) -> WebAnswer | StreamedAnswer:
        if not self._settings.admits_callers:
            problem = "channels.http admits no caller: see its dmPolicy and allowFrom"
            raise BadRequest(403, problem, "permission_error", code="channel_closed")
        if len(request.body) <= _SMALL_BYTES:  # faster than a worker thread
            asked = openai.read(request.body, self._rules)
        else:
            asked = await asyncio.to_thread(openai.read, request.body, self._rules)
        said = {"x-claw-dropped-messages": str(asked.dropped)} if asked.dropped else {}
        call, created = await self._calls.open(request, asked, CHAT_HEAD), int(time.time())
        delivered = is_streaming = False
        try:
            if asked.stream:
                await self._until_begun(call)
                is_streaming = True
                return StreamedAnswer(self._streamed(call, asked, created), said)
            await self._calls.finished(call)
            delivered = True
            return as_json(openai.completion(call, created, asked.model), said)
        except BadRequest as why:
            delivered = not is_repeatable(why)
            raise
        finally:
            if not is_streaming:
                self._calls.close(call, delivered)

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
        self, call: PendingRequest, asked: AgentRequest, created: int
    ) -> AsyncIterator[bytes]:
        def chunk(delta: dict[str, str] | None, end: str | None = None) -> bytes:
            return openai.chunk(call, created, asked.model, delta, end)

        delivered, deadline = False, time.monotonic() + self._settings.answer_seconds
        try:
            yield chunk({"role": "assistant", "content": ""})
            async for piece in call.pieces(self._quiet, deadline):
                yield chunk({"content": piece}) if piece else openai.STILL_HERE
            if call.failure:
                raise call.failure
            if call.refusal:
                yield chunk({"refusal": call.refusal})
            yield chunk({}, call.stop_reason)
            if asked.counts:
                yield chunk(None)
            yield openai.DONE
            delivered = True
        except BadRequest as why:
            delivered = not is_repeatable(why)
            yield openai.event({"error": why.error_object})
            yield openai.DONE
        finally:
            self._calls.close(call, delivered)
