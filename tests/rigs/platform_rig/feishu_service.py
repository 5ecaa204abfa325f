"""The Open API of Feishu for one app (open.feishu.cn): token, messages, cards, files, reactions; events are pushed."""

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from aiohttp import web

from rigs.platform_rig.facts import Visible
from rigs.platform_rig.faults import Fault, Faults, cut, page
from rigs.platform_rig.feishu_cards import Refused, too_many
from rigs.platform_rig.feishu_messages import APP, BOT, SECRET, TENANT, ChatMessage, Messages
from rigs.platform_rig.feishu_push import FeishuPush
from rigs.platform_rig.feishu_types import wrong_in_request, wrong_in_response
from rigs.platform_rig.pace import FeishuPace

_PREFIX = "/open-apis"
_READ_SECONDS = 0.01  # in which the bot reads the response
_MOST_PAUSE_SECONDS, _TOKEN_SECONDS = 3, 7140
_TOPIC = "omt_9b6ef2a4c80d1357"
_PEOPLE = {"301": "ou_3010c7e91d3b24f68a2c4e6f80b1d3f5", "302": "ou_3020c7e91d3b24f68a2c4e6f80b1d3f5"}
_CHATS = {
    "301": "oc_3017654321098765432109876543210a", "302": "oc_3027654321098765432109876543210a",
    "-3001": "oc_3001654321098765432109876543210a", "-3002": "oc_3002654321098765432109876543210a",
}  # fmt: skip
"""Two people, a group, and a topic in another group."""
Answer = dict[str, Any] | None


class FeishuService:
    """The service; ``async with``.

    :ivar calls: by method, how often it was called: ``GET /bot/v3/info``.
    :ivar confirmed: questions that will not be pushed again because they were not taken.
    :ivar on_shown: is called with a text that is shown, before the response (false) and just after it (true).
    :ivar on_called: is called so with each method.
    """

    def __init__(self, faults: Faults, pace: FeishuPace | None = None) -> None:
        self.faults, self.pace = faults, pace or FeishuPace()
        self.messages = Messages()
        self.messages.chats = {id: "p2p" if name in _PEOPLE else "group" for name, id in _CHATS.items()}
        self.messages.direct = {person: _CHATS[name] for name, person in _PEOPLE.items()}
        self.confirmed: set[str] = set()
        self.push = FeishuPush(APP, TENANT, faults, self.confirmed.add)
        self.calls: dict[str, int] = {}
        self.on_shown: Callable[[str, bool], None] = lambda text, responded: None
        self.on_called: Callable[[str, bool], None] = lambda method, responded: None
        self._wrong: list[str] = []
        self._token = _new_token()
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        for method, path, call in self._routes():
            app.router.add_route(method, _PREFIX + path, self._handler(f"{method} {path}", call))
        app.router.add_route("*", "/{path:.*}", self._handler("unknown", self._unknown))
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self.push.end()
        await self._runner.cleanup()

    @property
    def chats(self) -> tuple[str, ...]:
        """The names of the chats."""
        return tuple(_CHATS)

    @property
    def illformed(self) -> list[str]:
        """Faults in requests of the bot, and in events and responses of the rig."""
        return [*self._wrong, *self.messages.cards.illformed, *self.push.illformed]

    @property
    def reactions_left(self) -> int:
        """Number of the bot's reactions that stand at messages."""
        return sum(len(one.reactions) for one in self.messages.all.values())

    async def say(self, chat: str, question: str, text: str) -> int:
        """Let a person write; return the position."""
        person = _PEOPLE.get(chat, _PEOPLE["301"])
        topic = _TOPIC if chat == "-3002" else ""
        is_group = chat not in _PEOPLE
        text = f"@_user_1 {text}" if is_group else text
        message = self.messages.add(
            ChatMessage(len(self.messages.all) + 1, _CHATS[chat], "text", {"text": text}, person, topic)
        )
        known = self.messages.document(message)
        named = {name: known[name] for name in ("message_id", "create_time", "update_time", "chat_id")}
        event: dict[str, Any] = {
            **named, "chat_type": "group" if is_group else "p2p", "message_type": "text",
            "content": known["body"]["content"], "user_agent": "Mozilla/5.0 Lark/7.40.6",
        }  # fmt: skip
        if topic:
            event["thread_id"] = topic
        if is_group:
            ids = {"open_id": BOT, "union_id": f"on_{BOT[3:]}", "user_id": ""}
            event["mentions"] = [
                {"key": "@_user_1", "id": ids, "name": "Rig", "mentioned_type": "bot", "tenant_key": TENANT}
            ]
        ids = {"open_id": person, "union_id": f"on_{person[3:]}", "user_id": person[3:11]}
        sender = {"sender_id": ids, "sender_type": "user", "tenant_key": TENANT}
        self.push.tell("im.message.receive_v1", message.chat, {"sender": sender, "message": event}, question)
        return message.position

    async def change(self, chat: str, position: int, more: str) -> None:
        """Let a person edit a message, of which a bot is not told."""
        message = self._at(chat, position)
        if message is not None and message.kind == "text":
            message.content["text"] += more

    async def remove(self, chat: str, position: int) -> None:
        """Let a person withdraw a message; not the only one of a topic, in which nobody could answer then."""
        message = self._at(chat, position)
        standing = [one for one in self.messages.all.values() if not one.is_withdrawn]
        is_last = (
            message is not None
            and message.thread
            and not any(one.thread == message.thread and one is not message for one in standing)
        )
        if message is not None and not message.is_withdrawn and not is_last:
            message.is_withdrawn = True
            stamp = self.messages.document(message)["update_time"]
            event = {"message_id": message.id, "chat_id": message.chat, "recall_time": stamp}
            event["recall_type"] = "message_owner"
            self.push.tell("im.message.recalled_v1", message.chat, event)

    def _at(self, chat: str, position: int) -> ChatMessage | None:
        found = (one for one in self.messages.all.values() if one.position == position)
        return next((one for one in found if one.chat == _CHATS[chat]), None)

    def visible(self) -> list[Visible]:
        """Return the bot's messages that stand in the chats."""
        names = {id: name for name, id in _CHATS.items()}
        found: list[Visible] = []
        for one in self.messages.standing():
            name = names[one.chat]
            is_in_place = one.thread == (_TOPIC if name == "-3002" else "")
            chat = name if is_in_place else f"{name}/{one.thread or 'no topic'}"
            found.append(Visible("feishu", chat, one.position, self.messages.text(one)))
        return found

    # --- requests

    def _routes(self) -> tuple[tuple[str, str, Callable[..., Answer]], ...]:
        sent, cards = self.messages, self.messages.cards
        message, card = "/im/v1/messages/{message}", "/cardkit/v1/cards/{card}"
        return (
            ("GET", "/bot/v3/info", lambda body: None),
            ("POST", "/auth/v3/tenant_access_token/internal", lambda body: None),
            ("POST", "/im/v1/messages", self._send),
            ("GET", "/im/v1/messages", sent.of_thread),
            ("POST", f"{message}/reply", self._reply),
            (
                "GET",
                message,
                lambda body, message: {"items": [sent.document(sent.found(message, withdrawn=True))]},
            ),
            ("PUT", message, lambda body, message: sent.document(sent.edit(message, body))),
            ("DELETE", message, lambda body, message: sent.delete(message)),
            ("POST", f"{message}/reactions", lambda body, message: sent.react(message, body)),
            ("GET", f"{message}/reactions", lambda body, message: sent.reactions(message)),
            (
                "DELETE",
                f"{message}/reactions/{{reaction}}",
                lambda body, message, reaction: sent.take_off(message, reaction),
            ),
            ("POST", "/im/v1/files", lambda body: {"file_key": self._keep("file_v3_", body, "file_name")}),
            ("POST", "/im/v1/images", lambda body: {"image_key": self._keep("img_v3_", body, "image_type")}),
            ("POST", "/cardkit/v1/cards", lambda body: {"card_id": cards.add(str(body["data"])).id}),
            (
                "POST",
                "/cardkit/v1/cards/id_convert",
                lambda body: {"card_id": cards.of_message(sent.found(str(body["message_id"])).id).id},
            ),
            (
                "PUT",
                f"{card}/elements/{{element}}/content",
                lambda body, card, element: self._on_card(card, lambda: cards.write(card, element, body)),
            ),
            (
                "PATCH",
                f"{card}/settings",
                lambda body, card: self._on_card(card, lambda: cards.set(card, body)),
            ),
            ("PUT", card, lambda body, card: self._on_card(card, lambda: cards.replace(card, body))),
            (
                "GET",
                "/contact/v3/users/{person}",
                lambda body, person: {"user": {"open_id": person, "name": "Ada"}},
            ),
            ("GET", "/im/v1/chats/{chat}", lambda body, chat: {"name": "Rig", "chat_mode": sent.chats[chat]}),
        )

    def _send(self, body: Mapping[str, Any]) -> Answer:
        receiver = str(body["receive_id"])
        chat = self.messages.direct.get(receiver, receiver)
        if chat not in self.messages.chats:
            raise Refused(230002, "Bot/User can NOT be out of the chat.")
        self._count_message(chat)
        return self.messages.document(self.messages.send(body, chat))

    def _reply(self, body: Mapping[str, Any], message: str) -> Answer:
        self._count_message(self.messages.found(message).chat)
        return self.messages.document(self.messages.reply(message, body))

    def _count_message(self, chat: str) -> None:
        if self.pace.message(chat):
            raise Refused(230020, "This operation triggers the frequency limit, ext=chat rate limit")

    def _on_card(self, card: str, act: Callable[[], None]) -> Answer:
        if seconds := self.pace.card(card):
            raise too_many(seconds)
        act()
        return None

    def _keep(self, prefix: str, body: Mapping[str, Any], name: str) -> str:
        key = f"{prefix}{uuid.uuid4()}"
        self.messages.files[key] = str(body[name])
        return key

    def _unknown(self, body: Any, path: str = "") -> Answer:
        raise Refused(404, "404 page not found", 404)

    def _handler(self, method: str, call: Callable[..., Answer]) -> Callable[[web.Request], Any]:
        name = method.replace(" /im/v1", " ").replace(" /cardkit/v1", " ")

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._serve(request, name.replace("  ", " "), call)

        return handle

    async def _serve(
        self, request: web.Request, name: str, call: Callable[..., Answer]
    ) -> web.StreamResponse:
        self.calls[name] = self.calls.get(name, 0) + 1
        is_token = request.path.endswith("/tenant_access_token/internal")
        fault = self.faults.next(name, is_news=is_token or request.method == "GET")
        if fault is Fault.CUT_BEFORE:
            return cut(request)
        if fault in (Fault.E502, Fault.E404_PAGE):
            return page(fault)
        body = await _body(request)
        self._wrong += wrong_in_request(request.method, request.path, request.query, body)
        try:
            self._check(request, fault, name, is_token=is_token)
            known = self._known(name, body) or {
                "data": call(request.query if body is None else body, **request.match_info) or {}
            }
            if "data" in known:
                self._wrong += wrong_in_response(request.method, request.path, known["data"])
            document, status, headers = {"code": 0, "msg": "success", **known}, 200, {}
        except Refused as refused:
            document, status, headers = refused.document(), refused.status, refused.headers
        shown = self._shown(document, request, body) if status == 200 else ""
        if shown:
            self.on_shown(shown, False)
        self.on_called(name, False)
        if fault is Fault.CUT_AFTER:
            return cut(request)
        response = web.json_response(document, status=status, headers=headers)
        with suppress(ConnectionError):  # the gateway may be dead already
            await response.prepare(request)
            await response.write_eof()
        loop = asyncio.get_running_loop()
        if shown:
            loop.call_later(_READ_SECONDS, self.on_shown, shown, True)
        loop.call_later(_READ_SECONDS, self.on_called, name, True)
        return response

    def _check(self, request: web.Request, fault: Fault, name: str, *, is_token: bool) -> None:
        """Refuse what the platform refuses before it looks at a call."""
        if fault is Fault.E500:
            raise Refused(2200, "Internal Error", 500)
        if fault is Fault.E429:
            raise too_many(self.faults.dice.randint(1, _MOST_PAUSE_SECONDS))
        if fault is Fault.E401:
            self._token = _new_token()
        if not is_token and request.headers.get("Authorization") != f"Bearer {self._token}":
            raise Refused(99991663, "Invalid access token for authorization.")
        if seconds := self.pace.call(name):
            raise too_many(seconds)

    def _known(self, name: str, body: Any) -> dict[str, Any] | None:
        """Return the answers that are not under ``data``."""
        if name.endswith("/tenant_access_token/internal"):
            if (body["app_id"], body["app_secret"]) != (APP, SECRET):
                raise Refused(10014, "app secret invalid", 200)
            return {"tenant_access_token": self._token, "expire": _TOKEN_SECONDS}
        if name.endswith("/bot/v3/info"):
            return {"bot": {"activate_status": 2, "app_name": "Rig", "ip_white_list": [], "open_id": BOT}}
        return None

    def _shown(self, document: Mapping[str, Any], request: web.Request, body: Any) -> str:
        """Return the text that a call has shown."""
        if request.method == "PUT" and "card" in request.match_info:
            card = self.messages.cards.cards[request.match_info["card"]]
            return card.text if card.message else ""
        id = str(document.get("data", {}).get("message_id", ""))
        return self.messages.text(self.messages.all[id]) if id and request.method != "GET" else ""


def _new_token() -> str:
    return f"t-rig{uuid.uuid4().hex}"


async def _body(request: web.Request) -> Any:
    """Return the JSON of a request, or the fields of its form."""
    if request.content_type.startswith("multipart/"):
        form = await request.post()
        return {
            name: value.file.read() if isinstance(value, web.FileField) else value
            for name, value in form.items()
        }
    text = await request.text()
    return json.loads(text) if text else None
