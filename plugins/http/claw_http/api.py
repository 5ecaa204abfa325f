"""Claw's own routes: health, models, and a chat completion that is one turn of an agent."""

import asyncio
import hashlib
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from claw import Address, Attachment, Inbound, Inbox, PluginConfig, Sender, UsageError
from claw_channel_sdk import WebAnswer, WebRequest

from claw_http import openai
from claw_http.front import OwnRoute, StreamedAnswer, as_json
from claw_http.openai import BadRequest, CompletionRequest, Picture
from claw_http.settings import CALLER, HttpSettings
from claw_http.waiting import ID_HEAD, PendingRequest, PendingRequests

_PLAIN = re.compile(r"[a-z0-9_-]{1,48}")
_SMALL_BYTES = 32 << 10


def agents_of(config: PluginConfig) -> tuple[str, ...]:
    """Return the ids of the agents, in file order."""
    return tuple(entry.id for entry in config.settings.agents.list)


def conversation_of(user: str, fresh: str) -> str:
    """Return the name of a conversation: one for each ``user``, or a new one. A caller cannot name a session
    key of claw.

    A user that is not a plain word is replaced by a digest, so that nothing in it can be parsed as a part of
    a session key.
    """
    if not user:
        return f"once-{fresh}"
    if _PLAIN.fullmatch(user):
        return f"user-{user}"
    return f"user.{hashlib.sha256(user.encode()).hexdigest()[:32]}"


class OpenAIApi:
    """The routes for callers with the token.

    :param inbox: claw's inbox, while the channel runs.
    :param pictures: the images of a message until they are fetched, by message id.
    :param quiet_seconds: a stream sends a keep-alive after this time without text.
    """

    def __init__(
        self,
        config: PluginConfig,
        settings: HttpSettings,
        waiting: PendingRequests,
        inbox: Callable[[], Inbox | None],
        pictures: dict[str, Sequence[Picture]],
        quiet_seconds: float = 15.0,
    ) -> None:
        self._config, self._settings, self._waiting, self._inbox = config, settings, waiting, inbox
        self._pictures, self._quiet = pictures, quiet_seconds
        self._since = time.monotonic()

    @property
    def paths(self) -> dict[str, OwnRoute]:
        """The handlers of claw's own paths."""
        get = frozenset({"GET", "HEAD"})
        return {
            "/health": OwnRoute(get, self._health, open=True),
            "/v1/models": OwnRoute(get, self._models),
            "/v1/chat/completions": OwnRoute(frozenset({"POST"}), self._chat),
        }

    async def _health(self, request: WebRequest, known: bool) -> WebAnswer:
        more = {"uptimeSeconds": round(time.monotonic() - self._since), "waiting": len(self._waiting)}
        return as_json({"status": "ok"} | (more if known else {}))

    async def _models(self, request: WebRequest, known: bool) -> WebAnswer:
        return as_json(openai.models(agents_of(self._config), 0))

    async def _chat(self, request: WebRequest, known: bool) -> WebAnswer | StreamedAnswer:
        if not self._settings.admits_callers:
            problem = "channels.http admits no caller: see its dmPolicy and allowFrom"
            raise BadRequest(403, problem, "permission_error", code="channel_closed")
        agents = agents_of(self._config)
        if len(request.body) <= _SMALL_BYTES:  # faster than a worker thread
            asked = openai.read(request.body, agents)
        else:
            asked = await asyncio.to_thread(openai.read, request.body, agents)
        id, created = f"{ID_HEAD}{uuid.uuid4().hex}", int(time.time())
        call = await self._submitted(asked, id)
        if asked.stream:
            return StreamedAnswer(self._streamed(call, asked, created))
        try:
            await self._with_timeout(call.until_ended())
            if call.problem:
                raise BadRequest(503, call.problem, "server_error", code="stopping")
            return as_json(
                openai.completion(id, created, asked.model, call.text, call.stop_reason, _usage(call))
            )
        finally:
            self._forget_call(call)

    async def _submitted(self, asked: CompletionRequest, id: str) -> PendingRequest:
        """Submit the message; register the waiting request before an answer can arrive."""
        inbox = self._inbox()
        place = conversation_of(asked.user, id.removeprefix(ID_HEAD)[:16])
        address = Address("http", chat=place, thread=place)
        files = tuple(
            Attachment(
                "image",
                f"image-{at}.{picture.mime.partition('/')[2]}",
                picture.mime,
                f"{id}:{at}",
                size_bytes=len(picture.data),
            )
            for at, picture in enumerate(asked.pictures)
        )
        inbound = Inbound(
            address,
            asked.text,
            Sender(CALLER, name=CALLER),
            message_id=id,
            event_id=id,
            sent_at=time.time(),
            mentions_us=True,
            attachments=files,
            agent=asked.agent,
            tool_choice=asked.tool_choice,
        )
        call = self._waiting.open(id, address)
        if asked.pictures:
            self._pictures[id] = asked.pictures
        taken = False
        try:
            # Shielded: a caller that disconnects must not leave a message half submitted.
            taken = inbox is not None and await asyncio.shield(inbox.submit(inbound))
        except UsageError as why:
            raise BadRequest(400, str(why), param="tool_choice", code="unknown_tool") from None
        finally:
            if not taken:
                self._forget_call(call)
        if not taken:
            headers = {"retry-after": "5"}
            raise BadRequest(503, "nothing is taken in just now: try again", "server_error", headers=headers)
        return call

    async def _streamed(
        self, call: PendingRequest, asked: CompletionRequest, created: int
    ) -> AsyncIterator[bytes]:
        def chunk(delta: dict[str, str] | None, end: str | None = None) -> bytes:
            usage = _usage(call) if delta is None else None
            return openai.chunk(call.message_id, created, asked.model, delta, end, usage)

        late = asyncio.get_running_loop().call_later(
            self._settings.answer_seconds, call.end, _timeout_text(self._settings)
        )
        try:
            yield chunk({"role": "assistant", "content": ""})
            async for piece in call.pieces(self._quiet):
                yield chunk({"content": piece}) if piece else openai.STILL_HERE
            if call.problem:
                yield openai.event({"error": BadRequest(503, call.problem, "server_error").error_object})
            else:
                yield chunk({}, call.stop_reason)
                if asked.counts:
                    yield chunk(None)
            yield openai.DONE
        finally:
            late.cancel()
            self._forget_call(call)

    async def _with_timeout(self, waiting: Awaitable[None]) -> None:
        try:
            await asyncio.wait_for(waiting, self._settings.answer_seconds)
        except TimeoutError:
            raise BadRequest(
                504, _timeout_text(self._settings), "server_error", code="answer_timeout"
            ) from None

    def _forget_call(self, call: PendingRequest) -> None:
        self._waiting.close(call)
        self._pictures.pop(call.message_id, None)


def _timeout_text(settings: HttpSettings) -> str:
    return f"no answer within {settings.answer_seconds:g} s (channels.http.answerSeconds); the turn continues"


def _usage(call: PendingRequest) -> dict[str, int]:
    """Return the tokens that the models read and wrote for the answer; zeros when the service did not
    count.
    """
    read, written = call.tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
