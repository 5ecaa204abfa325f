"""The paths of our own: health, models, and a chat that is one turn of an agent."""

import asyncio
import hashlib
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from claw import Address, Attachment, Door, Inbound, PluginConfig, Sender, UsageError, WebAnswer, WebRequest

from claw_http import openai
from claw_http.front import Own, Streamed, as_json
from claw_http.openai import Asked, Picture, Refused
from claw_http.settings import CALLER, HttpSettings
from claw_http.waiting import ID_HEAD, Call, Waiting

_PLAIN = re.compile(r"[a-z0-9_-]{1,48}")
_SMALL_BYTES = 32 << 10


def agents_of(config: PluginConfig) -> tuple[str, ...]:
    """The ids of the agents, as the file lists them."""
    return tuple(entry.id for entry in config.settings.agents.list)


def conversation_of(user: str, fresh: str) -> str:
    """The name of a conversation: one for each ``user``, or a new one. A caller chooses among his own, no key of ours.

    A user that is no plain word is known by a digest, so that nothing in it can be read as a part of a session key.
    """
    if not user:
        return f"once-{fresh}"
    if _PLAIN.fullmatch(user):
        return f"user-{user}"
    return f"user.{hashlib.sha256(user.encode()).hexdigest()[:32]}"


class Api:
    """What a caller with the token may ask.

    :param door: the house's, while the channel runs.
    :param pictures: where the images of a message wait until they are fetched, by message id.
    :param quiet_seconds: after so long without a word a stream says that it still lives.
    """

    def __init__(
        self,
        config: PluginConfig,
        settings: HttpSettings,
        waiting: Waiting,
        door: Callable[[], Door | None],
        pictures: dict[str, Sequence[Picture]],
        quiet_seconds: float = 15.0,
    ) -> None:
        self._config, self._settings, self._waiting, self._door = config, settings, waiting, door
        self._pictures, self._quiet = pictures, quiet_seconds
        self._since = time.monotonic()

    @property
    def paths(self) -> dict[str, Own]:
        """Who answers where."""
        get = frozenset({"GET", "HEAD"})
        return {
            "/health": Own(get, self._health, open=True),
            "/v1/models": Own(get, self._models),
            "/v1/chat/completions": Own(frozenset({"POST"}), self._chat),
        }

    async def _health(self, request: WebRequest, known: bool) -> WebAnswer:
        more = {"uptimeSeconds": round(time.monotonic() - self._since), "waiting": len(self._waiting)}
        return as_json({"status": "ok"} | (more if known else {}))

    async def _models(self, request: WebRequest, known: bool) -> WebAnswer:
        return as_json(openai.models(agents_of(self._config), 0))

    async def _chat(self, request: WebRequest, known: bool) -> WebAnswer | Streamed:
        if not self._settings.admits_callers:
            told = "channels.http lets nobody in: see its dmPolicy and allowFrom"
            raise Refused(403, told, "permission_error", code="channel_closed")
        agents = agents_of(self._config)
        if len(request.body) <= _SMALL_BYTES:  # sooner read than handed to a thread
            asked = openai.read(request.body, agents)
        else:
            asked = await asyncio.to_thread(openai.read, request.body, agents)
        id, created = f"{ID_HEAD}{uuid.uuid4().hex}", int(time.time())
        call = await self._submitted(asked, id)
        if asked.stream:
            return Streamed(self._streamed(call, asked, created))
        try:
            await self._in_time(call.until_ended())
            if call.problem:
                raise Refused(503, call.problem, "server_error", code="stopping")
            return as_json(openai.completion(id, created, asked.model, call.text, _usage(call)))
        finally:
            self._leave(call)

    async def _submitted(self, asked: Asked, id: str) -> Call:
        """Hand the message in; who waits for it is known before anybody can answer."""
        door = self._door()
        place = conversation_of(asked.user, id.removeprefix(ID_HEAD)[:16])
        address = Address("http", chat=place, thread=place)
        files = tuple(
            Attachment(
                "image", f"image-{at}.{picture.mime.partition('/')[2]}", picture.mime, f"{id}:{at}",
                size_bytes=len(picture.data),
            )
            for at, picture in enumerate(asked.pictures)
        )  # fmt: skip
        inbound = Inbound(
            address, asked.text, Sender(CALLER, name=CALLER), message_id=id, event_id=id, sent_at=time.time(),
            mentions_us=True, attachments=files, agent=asked.agent, tool_choice=asked.tool_choice,
        )  # fmt: skip
        call = self._waiting.open(id, address)
        if asked.pictures:
            self._pictures[id] = asked.pictures
        taken = False
        try:
            # Not with the caller: a message is either in the house or not, whenever he leaves.
            taken = door is not None and await asyncio.shield(door.submit(inbound))
        except UsageError as why:
            raise Refused(400, str(why), param="tool_choice", code="unknown_tool") from None
        finally:
            if not taken:
                self._leave(call)
        if not taken:
            headers = {"retry-after": "5"}
            raise Refused(503, "nothing is taken in just now: try again", "server_error", headers=headers)
        return call

    async def _streamed(self, call: Call, asked: Asked, created: int) -> AsyncIterator[bytes]:
        def chunk(delta: dict[str, str] | None, end: str | None = None) -> bytes:
            usage = _usage(call) if delta is None else None
            return openai.chunk(call.message_id, created, asked.model, delta, end, usage)

        late = asyncio.get_running_loop().call_later(
            self._settings.answer_seconds, call.end, _too_late(self._settings)
        )
        try:
            yield chunk({"role": "assistant", "content": ""})
            async for piece in call.pieces(self._quiet):
                yield chunk({"content": piece}) if piece else openai.STILL_HERE
            if call.problem:
                yield openai.event({"error": Refused(503, call.problem, "server_error").told})
            else:
                yield chunk({}, "stop")
                if asked.counts:
                    yield chunk(None)
            yield openai.DONE
        finally:
            late.cancel()
            self._leave(call)

    async def _in_time(self, waiting: Awaitable[None]) -> None:
        try:
            await asyncio.wait_for(waiting, self._settings.answer_seconds)
        except TimeoutError:
            raise Refused(504, _too_late(self._settings), "server_error", code="answer_timeout") from None

    def _leave(self, call: Call) -> None:
        self._waiting.close(call)
        self._pictures.pop(call.message_id, None)


def _too_late(settings: HttpSettings) -> str:
    return f"no answer within {settings.answer_seconds:g} s (channels.http.answerSeconds); the turn goes on"


def _usage(call: Call) -> dict[str, int]:
    """What the models read and wrote for the answer; zeros when their service did not count."""
    read, written = call.tokens
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
