"""The REST API v10 of Discord, as far as a bot in channels needs it (docs/resources)."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from aiohttp import web

from rigs.platform_rig.discord_gateway import DiscordGateway
from rigs.platform_rig.discord_objects import (
    CreateMessage,
    EditMessage,
    message,
    now,
    snowflake,
    wrong_in_body,
)
from rigs.platform_rig.faults import STATUS, Fault, Faults, cut, page
from rigs.platform_rig.pace import DiscordPace

_READ_SECONDS = 0.01  # in which a bot reads a response
_NONCE_SECONDS = 150.0
"""A nonce is checked "in the past few minutes" (docs/resources/message#create-message); later it is forgotten."""
Shown = Callable[[str, bool], None]


class RestError(Exception):
    """An error response with Discord's JSON code."""

    def __init__(self, status: int, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.code = status, code


class DiscordRest:
    """Messages and channels.

    :ivar channels: by id, channel objects.
    :ivar messages: by channel, message objects by id, in order.
    :ivar on_shown: is called with a text that is shown, before the response (false) and after it (true); ``on_called``
        with the name of each route that our bot calls.
    """

    def __init__(self, gateway: DiscordGateway, bots: Mapping[str, dict[str, Any]], faults: Faults) -> None:
        self._gateway, self._bots, self.faults = gateway, bots, faults
        self.pace = DiscordPace()
        self.channels: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, dict[str, dict[str, Any]]] = {}
        self.on_shown: Shown = lambda text, responded: None
        self.illformed: list[str] = []
        self.calls: dict[str, int] = {}
        self.on_called: Shown = lambda name, responded: None
        self._nonces: dict[tuple[str, str], tuple[str, float]] = {}
        self._commands: list[Any] = []

    def routes(self, app: web.Application) -> None:
        """Add all routes below ``/api/v10``."""
        at, messages = "/api/v10", "/api/v10/channels/{channel}/messages"
        table: list[tuple[str, str, Callable[..., Awaitable[Any]]]] = [
            ("GET", f"{at}/users/@me", self._me),
            ("GET", f"{at}/gateway/bot", self._gateway_bot),
            ("GET", f"{at}/gateway", self._gateway_bot),
            ("GET", f"{at}/oauth2/applications/@me", self._application),
            ("GET", f"{at}/applications/@me", self._application),
            ("GET", f"{at}/applications/{{application}}/commands", self._get_commands),
            ("PUT", f"{at}/applications/{{application}}/commands", self._put_commands),
            ("GET", f"{at}/channels/{{channel}}", self._channel),
            ("POST", f"{at}/channels/{{channel}}/typing", self._nothing),
            ("POST", f"{at}/users/@me/channels", self._direct),
            ("GET", messages, self._history),
            ("POST", messages, self._create),
            ("GET", f"{messages}/{{message}}", self._one),
            ("PATCH", f"{messages}/{{message}}", self._edit),
            ("DELETE", f"{messages}/{{message}}", self._delete),
            ("PUT", f"{messages}/{{message}}/reactions/{{emoji}}/@me", self._nothing),
        ]
        for method, path, handler in table:
            app.router.add_route(method, path, self._handler(f"{method} {path.removeprefix(at)}", handler))

    def _handler(self, name: str, handler: Callable[..., Awaitable[Any]]) -> Callable[[web.Request], Any]:
        async def serve(request: web.Request) -> web.StreamResponse:
            return await self._serve(name, handler, request)

        return serve

    async def _serve(
        self, name: str, handler: Callable[..., Awaitable[Any]], request: web.Request
    ) -> web.StreamResponse:
        self.calls[name] = self.calls.get(name, 0) + 1
        bot = self._bots.get(request.headers.get("Authorization", "").removeprefix("Bot "))
        if bot is None:
            return _error(401, 0, "401: Unauthorized")
        is_ours = bot is next(iter(self._bots.values()))
        fault = self.faults.next(name, is_news=request.method == "GET") if is_ours else Fault.NONE
        if fault is Fault.CUT_BEFORE:
            return cut(request)
        if fault in (Fault.E502, Fault.E404_PAGE):
            return page(Fault.E502)
        if fault is Fault.E500:
            return _error(STATUS[fault], 0, "500: Internal Server Error")
        wait, is_global, headers = 0.0, False, dict[str, str]()
        if "/messages" in name:
            wait, is_global, headers = self.pace.ask(f"{name} {request.match_info['channel']}")
        if fault is Fault.E429 and request.method != "GET":  # of the resource, which others use too
            wait, headers = 1.5, {"Retry-After": "2", "X-RateLimit-Scope": "shared"}
        if wait > 0:
            body = {
                "message": "You are being rate limited.",
                "retry_after": round(wait, 3),
                "global": is_global,
            }
            return _json(body, status=429, headers=headers)
        try:
            result, status = await handler(request, bot, await _body(request)), 200
        except RestError as why:
            return _error(why.status, why.code, str(why))
        is_shown = name.startswith(("POST", "PATCH")) and isinstance(result, dict)
        text = str(result.get("content") or "") if is_shown else ""
        if text:
            self.on_shown(text, False)
        if is_ours:
            self.on_called(name, False)
            asyncio.get_running_loop().call_later(_READ_SECONDS, self.on_called, name, True)
        if fault is Fault.CUT_AFTER:
            return cut(request)
        if result is None:
            return web.Response(status=204, headers=headers)
        response = _json(result, status=status, headers=headers)
        if text:
            with suppress(ConnectionError):  # the gateway may be dead already
                await response.prepare(request)
                await response.write_eof()
            asyncio.get_running_loop().call_later(_READ_SECONDS, self.on_shown, text, True)
        return response

    def add_message(self, channel: str, made: dict[str, Any]) -> None:
        """Add a message to a channel."""
        self.messages.setdefault(channel, {})[made["id"]] = made
        self.channels[channel]["last_message_id"] = made["id"]

    async def tell(self, event: str, data: Mapping[str, Any]) -> None:
        """Dispatch an event of a message to those who may see it."""
        channel = self.channels[data["channel_id"]]
        guild = {"guild_id": channel["guild_id"]} if "guild_id" in channel else {}
        await self._gateway.dispatch(event, {**data, **guild}, is_direct_with=channel.get("_bot", ""))

    def _at(self, request: web.Request) -> dict[str, Any]:
        try:
            return self.channels[request.match_info["channel"]]
        except KeyError:
            raise RestError(404, 10003, "Unknown Channel") from None

    def _message_at(self, request: web.Request) -> dict[str, Any]:
        try:
            return self.messages[self._at(request)["id"]][request.match_info["message"]]
        except KeyError:
            raise RestError(404, 10008, "Unknown Message") from None

    async def _me(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        return bot

    async def _gateway_bot(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        limit = {"total": 1000, "remaining": 999, "reset_after": 14400000, "max_concurrency": 1}
        return {"url": self._gateway.url, "shards": 1, "session_start_limit": limit}

    async def _application(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        return {
            "id": bot["id"], "name": bot["username"], "icon": None, "description": "", "bot_public": False,
            "bot_require_code_grant": False, "verify_key": "00" * 32, "flags": 1 << 18, "team": None,
            "owner": {**bot, "bot": False}, "summary": "",
        }  # fmt: skip

    async def _get_commands(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        return self._commands

    async def _put_commands(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        listed = body if isinstance(body, list) else []
        common = {"application_id": bot["id"], "version": "1", "default_member_permissions": None}
        self._commands = [
            {"type": 1, **one, **common, "id": str(10**17 + at)} for at, one in enumerate(listed)
        ]
        return self._commands

    async def _channel(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        return {name: value for name, value in self._at(request).items() if not name.startswith("_")}

    async def _direct(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        for channel in self.channels.values():
            people = [one["id"] for one in channel.get("recipients", ())]
            if channel.get("_bot") == bot["id"] and str(body.get("recipient_id")) in people:
                return {name: value for name, value in channel.items() if not name.startswith("_")}
        raise RestError(400, 50033, "Invalid Recipient(s)")

    async def _nothing(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        self._at(request)

    async def _history(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        listed = list(self.messages.get(self._at(request)["id"], {}).values())
        limit = int(request.query.get("limit", 50))
        if not 1 <= limit <= 100:
            raise RestError(400, 50035, "Invalid Form Body")
        if "after" in request.query:
            listed = [one for one in listed if int(one["id"]) > int(request.query["after"])][:limit]
        elif "before" in request.query:
            listed = [one for one in listed if int(one["id"]) < int(request.query["before"])]
        return list(reversed(listed[-limit:]))

    async def _create(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        channel = self._at(request)
        self._judge(CreateMessage, body)
        nonce = str(body.get("nonce") or "")
        again, since = self._nonces.get((channel["id"], nonce), ("", 0.0))
        if not body.get("enforce_nonce") or time.monotonic() > since + _NONCE_SECONDS:
            again = ""
        if again in self.messages.get(channel["id"], {}):
            return self.messages[channel["id"]][again]
        fields: dict[str, Any] = {"nonce": body["nonce"]} if nonce else {}
        reference = body.get("message_reference")
        if reference and str(reference["message_id"]) not in self.messages.get(channel["id"], {}):
            if reference.get("fail_if_not_exists", True):
                raise RestError(400, 50035, "Invalid Form Body")
            reference = None
        if reference:
            fields |= {"type": 19, "message_reference": {**reference, "channel_id": channel["id"]}}
        files = [
            {"id": snowflake(), "filename": one["filename"], "size": 9, "url": "https://cdn.discordapp.com/x",
             "proxy_url": "https://media.discordapp.net/x"}
            for one in body.get("attachments") or ()
        ]  # fmt: skip
        words, shown = str(body.get("content") or ""), body.get("components") or []
        made = message(channel, bot, words, **fields, components=shown, attachments=files)
        self.add_message(channel["id"], made)
        if nonce:
            self._nonces[channel["id"], nonce] = made["id"], time.monotonic()
        await self.tell("MESSAGE_CREATE", made)
        return made

    def _judge(self, model: type[EditMessage], body: Any) -> None:
        wrong = wrong_in_body(model, body)
        self.illformed += wrong
        if wrong:
            raise RestError(400, 50035, "Invalid Form Body")
        words = str(body.get("content") or "").strip()
        if model is CreateMessage and not words and not body.get("attachments"):
            raise RestError(400, 50006, "Cannot send an empty message")

    async def _one(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        return self._message_at(request)

    async def _edit(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        found = self._message_at(request)
        self._judge(EditMessage, body)
        if found["author"]["id"] != bot["id"]:
            raise RestError(403, 50005, "Cannot edit a message authored by another user")
        found |= {
            name: body[name]
            for name in ("content", "components", "embeds", "flags")
            if body.get(name) is not None
        }
        found["edited_timestamp"] = now()
        await self.tell("MESSAGE_UPDATE", found)
        return found

    async def _delete(self, request: web.Request, bot: dict[str, Any], body: Any) -> Any:
        found = self._message_at(request)
        del self.messages[found["channel_id"]][found["id"]]
        await self.tell("MESSAGE_DELETE", {"id": found["id"], "channel_id": found["channel_id"]})


async def _body(request: web.Request) -> Any:
    if not request.can_read_body:
        return {}
    if request.content_type == "application/json":
        return await request.json()
    form = await request.post()
    return json.loads(str(form.get("payload_json", "{}")))


def _json(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response; its content type has no charset, as Discord's."""
    body = json.dumps(document).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _error(status: int, code: int, text: str) -> web.Response:
    return _json({"message": text, "code": code}, status=status)
