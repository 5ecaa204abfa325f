"""Lookups of data that events lack: names of people and chats, quoted text, the chat of a reaction.

All of it is optional: a lookup that fails or takes too long leaves the message unchanged.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from claw import DeliveryError, Inbound, QuotedMessage

from claw_feishu.inbound import FeishuBot, read_content
from claw_feishu.richtext import Mentions
from claw_feishu.tenant import FeishuError, Tenant

T = TypeVar("T")
SECONDS = 1.5
"""Time limit of the lookups, out of the three seconds that the service waits for its acknowledgement."""
KEPT = 5000
UNKNOWN_SECONDS = 300.0
"""Time for which a failed lookup is not repeated."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat: its title, and true for a direct chat or one with topics."""

    name: str = ""
    direct: bool = False
    forum: bool = False


class AnswerCache(Generic[T]):
    """Cache of the newest answers, by id."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[T | None, float]] = OrderedDict()

    def put(self, key: str, value: T | None) -> None:
        """Store an answer; None = the lookup failed."""
        until = float("inf") if value is not None else _now() + UNKNOWN_SECONDS
        self._answers[key] = (value, until)
        self._answers.move_to_end(key)
        if len(self._answers) > KEPT:
            self._answers.popitem(last=False)

    def get(self, key: str) -> T | None:
        """Return the stored answer, if any."""
        return self._answers.get(key, (None, 0.0))[0]

    async def ask(self, key: str, question: Callable[[str], Awaitable[T]]) -> T | None:
        """Return the stored answer or look it up. A lookup that takes too long counts as failed."""
        value, until = self._answers.get(key, (None, 0.0))
        if _now() < until:
            return value
        value = None
        try:
            with suppress(DeliveryError, KeyError, TypeError, ValueError):
                value = await question(key)
        finally:
            self.put(key, value)
        return value


class Directory:
    """Answers from the service, cached in memory.

    :ivar places: message id → its (chat, thread), for messages seen or sent lately.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._people: AnswerCache[str] = AnswerCache()
        self._chats: AnswerCache[Chat] = AnswerCache()
        self.places: AnswerCache[tuple[str, str | None]] = AnswerCache()
        self._latest: AnswerCache[str] = AnswerCache()  # thread → a message in it
        self._direct_chats: AnswerCache[str] = AnswerCache()  # a person written to → the direct chat

    async def with_details(self, inbound: Inbound, bot: FeishuBot) -> Inbound | None:
        """Return the message with names and its quote; None when its chat cannot be found."""
        until = _now() + SECONDS
        inbound = await self._with_place(inbound)
        chat, thread = inbound.address.chat, inbound.address.thread
        if not chat:
            return None
        if inbound.kind == "message":
            self.note(inbound.message_id, chat, thread)
        if inbound.chat_type == "direct" and not self._chats.get(chat):
            self._chats.put(chat, Chat(direct=True))  # a button event does not state the type of chat
        name, place, quoted = "", None, None
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                name = await self._people.ask(inbound.sender.id, self._person) or ""
                if inbound.chat_type != "direct":
                    place = await self._chats.ask(chat, self._chat)
                if inbound.reply_to and inbound.kind == "message":
                    quoted = await self._quoted(inbound.reply_to)
        return add_metadata(inbound, bot, name, place, quoted)

    def note(self, message_id: str, chat: str, thread: str | None) -> None:
        """Record the chat and thread of a message."""
        self.places.put(message_id, (chat, thread))
        if thread:
            self._latest.put(thread, message_id)

    def sent(self, message_id: str, to: str, chat: str, thread: str | None) -> None:
        """Record the chat of a message sent to a person or a chat."""
        self.note(message_id, chat or to, thread)
        if chat and chat != to:
            self._direct_chats.put(to, chat)

    async def is_in_chat(self, message_id: str, chat: str) -> bool:
        """Return true if a message is in that chat: the service accepts a message id from any chat.

        :raises FeishuError: the lookup failed, as when there is no such message.
        """
        try:
            place = self.places.get(message_id) or await self._place(message_id)
        except (KeyError, IndexError, TypeError):
            return False
        return place[0] in (chat, self._direct_chats.get(chat))

    async def in_thread(self, thread: str) -> str | None:
        """Return a message of a thread to reply to; None when there is none visible to the bot."""
        return await self._latest.ask(thread, self._first_in_thread)

    async def beside(self, thread: str, message_id: str) -> str:
        """Return the newest message of a thread besides one that was recalled; empty when none is visible to the bot.

        :raises FeishuError: the lookup failed, and may work later.
        """
        query = {"container_id_type": "thread", "container_id": thread, "sort_type": "ByCreateTimeDesc"}
        try:
            answer = await self._tenant.call(
                "GET", "/open-apis/im/v1/messages", query={**query, "page_size": 20}
            )
        except FeishuError as why:
            if not why.permanent:
                raise
            return ""
        items = answer["data"].get("items") or ()
        others = (one for one in items if one["message_id"] != message_id and not one.get("deleted"))
        return str(next(others, {}).get("message_id", ""))

    async def _with_place(self, inbound: Inbound) -> Inbound:
        if inbound.kind == "message":
            return inbound
        place = self.places.get(inbound.message_id)
        if place is None and not inbound.address.chat and inbound.message_id:
            with suppress(DeliveryError, TimeoutError, KeyError, IndexError):
                async with asyncio.timeout(SECONDS):
                    place = await self._place(inbound.message_id)
        if place is None:
            return inbound
        return replace(inbound, address=replace(inbound.address, chat=place[0], thread=place[1]))

    async def _place(self, message_id: str) -> tuple[str, str | None]:
        item = await self._message(message_id)
        place = str(item["chat_id"]), item.get("thread_id") or None
        self.places.put(message_id, place)
        return place

    async def _person(self, open_id: str) -> str:
        path = f"/open-apis/contact/v3/users/{open_id}"
        answer = await self._tenant.call("GET", path, query={"user_id_type": "open_id"})
        return str(answer["data"]["user"]["name"])

    async def _chat(self, chat: str) -> Chat:
        data = (await self._tenant.call("GET", f"/open-apis/im/v1/chats/{chat}"))["data"]
        forum = data.get("chat_mode") == "topic" or data.get("group_message_type") == "thread"
        return Chat(str(data.get("name") or ""), data.get("chat_mode") == "p2p", forum)

    async def _quoted(self, message_id: str) -> tuple[QuotedMessage, str] | None:
        try:
            item = await self._message(message_id)
        except (DeliveryError, KeyError, IndexError):
            return None
        body, who = item.get("body") or {}, item.get("sender") or {}
        text = read_content(
            str(item.get("msg_type")), body.get("content"), Mentions(item.get("mentions") or ())
        )
        sender = str(who.get("id") or "")
        name = ""
        if who.get("sender_type") == "user":
            name = await self._people.ask(sender, self._person) or ""
        sent = item.get("create_time")
        at = int(sent) / 1000 if isinstance(sent, str) and sent.isdecimal() else None
        return QuotedMessage(text, name or sender, message_id, at), sender

    async def _message(self, message_id: str) -> Any:
        return (await self._tenant.call("GET", f"/open-apis/im/v1/messages/{message_id}"))["data"]["items"][0]

    async def _first_in_thread(self, thread: str) -> str:
        query = {"container_id_type": "thread", "container_id": thread, "page_size": 1}
        items = (await self._tenant.call("GET", "/open-apis/im/v1/messages", query=query))["data"]["items"]
        return str(items[0]["message_id"] if items else "")


def add_metadata(
    inbound: Inbound, bot: FeishuBot, name: str, chat: Chat | None, quoted: tuple[QuotedMessage, str] | None
) -> Inbound:
    """Add the looked-up data to the message. A reply to one of the bot's messages is addressed to the bot. Pure."""
    around, to_bot = inbound.around, False
    if chat:
        around = replace(
            around, chat_name=chat.name or around.chat_name, is_forum=chat.forum or around.is_forum
        )
    if quoted:
        around = replace(around, quoted=quoted[0])
        to_bot = quoted[1] in (bot.app_id, bot.open_id)
    return replace(
        inbound,
        sender=replace(inbound.sender, name=name or inbound.sender.name),
        around=around,
        chat_type="direct" if chat and chat.direct else inbound.chat_type,
        mentions_us=inbound.mentions_us or to_bot,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
