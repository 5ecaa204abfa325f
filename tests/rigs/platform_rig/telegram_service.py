"""A Bot API server (core.telegram.org/bots/api): long polling, methods, rate limits, faults of lines."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from aiohttp import web

from rigs.platform_rig.facts import Visible
from rigs.platform_rig.faults import STATUS, Fault, Faults, cut, page
from rigs.platform_rig.pace import TelegramPace
from rigs.platform_rig.telegram_methods import BOT, SECOND_BOT, ChatMessage, Messages, Refused
from rigs.platform_rig.telegram_push import Push
from rigs.platform_rig.telegram_types import wrong_in_request, wrong_in_update

TOKEN = f"{BOT['id']}:AAF4c1-2kz8Qw7LrN0v9XyT3sHbJmPeDaUo"
SECOND_TOKEN = f"{SECOND_BOT['id']}:AAH7x9-5pd3Lw2KrV8t6ZcR1qGnMyBsEjIu"
_NEW_MESSAGES = {"sendMessage", "sendDocument", "copyMessage", "forwardMessage"}
_SHOWING = {"sendMessage", "editMessageText"}
_READ_SECONDS = 0.01  # in which the bot reads the response
_PACED = _NEW_MESSAGES | {"editMessageText", "deleteMessage"}
_BASIC_GROUPS = -1000
_NOT_FOUND = {"ok": False, "error_code": 404, "description": "Not Found"}
_MOST_PAUSE_SECONDS = 3
Shown = Callable[[str, bool], None]
"""Is called with the text that is shown, before a call is responded to (false) and just after (true)."""
Called = Callable[[str, bool], None]
"""Is called with each method that a call names, before it is responded to (false) and just after (true)."""


class TelegramService:
    """The service for one bot; ``async with``.

    :param name: of the bot's chats in the records of a run.
    :ivar illformed: what is wrong in requests of the bot.
    :ivar records: method and fields of each request, and each update, for a judge of another process.
    :ivar on_shown: see ``Shown``; ``on_called``: see ``Called``.
    :ivar polls: successful calls of ``getUpdates``.
    :ivar delay_seconds: time until a call other than that is processed, and again until it is responded to.
    """

    def __init__(
        self, faults: Faults, pace: TelegramPace | None = None, name: str = "telegram", token: str = TOKEN
    ) -> None:
        self.faults, self.pace, self.name, self.token = faults, pace or TelegramPace(), name, token
        self.messages = Messages(BOT if token == TOKEN else SECOND_BOT)
        self.push = Push(self)
        self.illformed: list[str] = []
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.on_shown: Shown = lambda text, responded: None
        self.on_called: Called = lambda method, responded: None
        self.calls: dict[str, int] = {}
        self.polls, self.delay_seconds = 0, 0.0
        self.last_poll = 0.0
        self.updates: dict[int, dict[str, Any]] = {}
        self._question: dict[int, str] = {}
        self.confirmed: set[str] = set()
        self._next = 900_000_001
        self._news = asyncio.Condition()
        self._poll = 0
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/bot{token}/{method}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        async with self._news:
            self._poll += 1
            self._news.notify_all()
        await self.push.end()
        await self._runner.cleanup()

    def add_chat(self, chat: int, topics: tuple[int, ...] = ()) -> None:
        """Add a private chat (positive id), a basic group (negative id), or a supergroup (below ``_BASIC_GROUPS``).

        :param topics: ids of the topics of a forum.
        """
        if chat > 0:
            self.messages.chats[chat] = {"id": chat, "type": "private", "first_name": f"Person {chat}"}
        else:
            kind = "group" if chat > _BASIC_GROUPS else "supergroup"
            self.messages.chats[chat] = {"id": chat, "type": kind, "title": f"Group {-chat}"}
        if topics:
            self.messages.chats[chat]["is_forum"] = True
            self.messages.topics[chat] = topics

    async def say(self, chat: str, question: str, text: str, person: int = 5000001) -> int:
        """Let a person write; return the message id.

        :param chat: id of the chat; ``FORUM/TOPIC`` is a topic of a forum.
        :param person: who writes in a group.
        """
        id, topic = _place(chat)
        person = id if id > 0 else person
        sender = {"id": person, "is_bot": False, "first_name": f"Person {person}", "language_code": "en"}
        fields: dict[str, Any] = {"from": sender}
        if topic:
            fields |= {"message_thread_id": topic, "is_topic_message": True}
        if id < 0:
            name = f"@{self.messages.bot['username']}"
            fields["entities"] = [{"type": "mention", "offset": 0, "length": len(name)}]
            text = f"{name} {text}"
        message = self.messages.add(id, text, from_bot=False, **fields)
        await self._tell("message", message, question)
        return message.id

    async def change(self, chat: str, id: int, more: str) -> None:
        """Let a person edit a message."""
        message = self.messages.standing.get((_place(chat)[0], id))
        if message is not None:
            message.text += more
            message.fields["edit_date"] = int(time.time())
            await self._tell("edited_message", message)

    def remove(self, chat: str, id: int) -> None:
        """Let a person delete a message, of which a bot is not told."""
        self.messages.standing.pop((_place(chat)[0], id), None)

    async def _tell(self, kind: str, message: ChatMessage, question: str = "") -> None:
        update = {"update_id": self._next, kind: self.messages.document(message)}
        assert wrong_in_update(update) == []
        self.records.append(("update", json.loads(json.dumps(update))))
        self.updates[self._next] = json.loads(json.dumps(update))
        self._question[self._next] = question
        self._next += 1
        async with self._news:
            self._news.notify_all()
        self.push.update()

    def confirm(self, id: int) -> None:
        """Note that an update will not be delivered again."""
        if self.updates.pop(id, None) is not None:
            self.confirmed.add(self._question[id])

    def visible(self) -> list[Visible]:
        """Return the bot's messages that stand in the chats."""
        found: list[Visible] = []
        for one in self.messages.standing.values():
            topic = one.fields.get("message_thread_id")
            if one.from_bot:
                chat = f"{one.chat}/{topic}" if topic else str(one.chat)
                text = f"{one.text} {one.fields.get('document', {}).get('file_name', '')}".strip()
                found.append(Visible(self.name, chat, one.id, text))
        return found

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        self.calls[method] = self.calls.get(method, 0) + 1
        fault = self.faults.next(method, is_news=method == "getUpdates")
        if fault is Fault.CUT_BEFORE:
            return cut(request)
        if fault in (Fault.E502, Fault.E404_PAGE):
            return page(fault)
        if fault is Fault.E429:
            seconds = self.faults.dice.randint(1, _MOST_PAUSE_SECONDS)
            refused = Refused(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
            return web.json_response(refused.document(), status=429)
        if fault in STATUS:
            names = {500: "Internal Server Error", 401: "Unauthorized"}
            code = STATUS[fault]
            return web.json_response(
                {"ok": False, "error_code": code, "description": names[code]}, status=code
            )
        if request.match_info["token"] != self.token:
            return web.json_response(
                {"ok": False, "error_code": 401, "description": "Unauthorized"}, status=401
            )
        fields = await self._fields(request)
        delay = self.delay_seconds if method != "getUpdates" else 0.0
        await asyncio.sleep(delay)
        self.illformed += wrong_in_request(method, fields)
        self.records.append((method, fields))
        try:
            body, status = {"ok": True, "result": await self._call(method, fields)}, 200
        except Refused as refused:
            body, status = refused.document(), refused.code
        except KeyError:
            body, status = _NOT_FOUND, 404
        shows = status == 200 and method in _SHOWING
        if shows:
            self.on_shown(str(fields.get("text", "")), False)
        self.on_called(method, False)
        await asyncio.sleep(delay)
        if fault is Fault.CUT_AFTER:
            return cut(request)
        response = web.json_response(body, status=status)
        if shows:
            with suppress(ConnectionError):  # the gateway may be dead already
                await response.prepare(request)
                await response.write_eof()
            asyncio.get_running_loop().call_later(
                _READ_SECONDS, self.on_shown, str(fields.get("text", "")), True
            )
        asyncio.get_running_loop().call_later(_READ_SECONDS, self.on_called, method, True)
        return response

    @staticmethod
    async def _fields(request: web.Request) -> dict[str, Any]:
        fields: dict[str, Any] = dict(request.query)
        if request.content_type == "application/json":
            if request.can_read_body:
                fields |= await request.json()
        else:
            form = await request.post()
            fields |= {
                name: f"attach://{value.filename}" if isinstance(value, web.FileField) else value
                for name, value in form.items()
            }
        for name, value in fields.items():
            if isinstance(value, str) and value[:1] in ("{", "["):
                try:
                    fields[name] = json.loads(value)
                except ValueError:
                    continue
        return fields

    async def _call(self, method: str, fields: dict[str, Any]) -> Any:
        if method == "getUpdates":
            return await self._get_updates(fields)
        if method == "getMe":
            rights = {
                "can_join_groups": True,
                "can_read_all_group_messages": False,
                "supports_inline_queries": False,
            }
            return {**self.messages.bot, **rights}
        if method == "getWebhookInfo":
            return {
                "url": self.push.url,
                "has_custom_certificate": False,
                "pending_update_count": len(self.updates),
            }
        if method in ("getMyCommands",):
            return []
        if method in ("setWebhook", "deleteWebhook"):
            self.push.set(fields if method == "setWebhook" else {})
            return True
        if method in ("setMyCommands", "deleteMyCommands", "answerCallbackQuery"):
            return True
        if method == "getChat":
            return self.messages.chats[self.messages._chat(fields)]
        if method in _PACED and str(fields.get("chat_id", "")).lstrip("-").isdigit():
            chat = int(fields["chat_id"])
            if seconds := self.pace.retry_after(chat, is_new_message=method in _NEW_MESSAGES):
                text = f"Too Many Requests: retry after {seconds}"
                raise Refused(429, text, retry_after=seconds)
        return self.messages.call(method, fields)

    async def _get_updates(self, fields: dict[str, Any]) -> list[dict[str, Any]]:
        offset, limit = int(fields.get("offset") or 0), int(fields.get("limit") or 100)
        ends = time.monotonic() + min(int(fields.get("timeout") or 0), 50)
        if self.push.url:
            text = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete it first"
            raise Refused(409, text)
        for id in [id for id in self.updates if id < offset]:
            self.confirm(id)
        async with self._news:
            self._poll += 1
            mine = self._poll
            self._news.notify_all()
            while True:
                waiting = [self.updates[id] for id in sorted(self.updates) if id >= offset]
                if mine != self._poll:
                    text = "Conflict: terminated by other getUpdates request; make sure that only one bot instance runs"
                    raise Refused(409, text)
                if waiting or (left := ends - time.monotonic()) <= 0:
                    self.polls, self.last_poll = self.polls + 1, time.monotonic()
                    return waiting[:limit]
                try:
                    await asyncio.wait_for(self._news.wait(), left)
                except TimeoutError:
                    continue


def _place(chat: str) -> tuple[int, int]:
    """Return the ids of chat and topic; 0 = none."""
    id, _, topic = chat.partition("/")
    return int(id), int(topic or 0)
