"""What an event does not say: names of people and chats, the text that is quoted, the chat of a reaction.

All of it is dressing: a question that fails, or takes too long, leaves the message as it was.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from claw import DeliveryError, Heard, Inbound

from claw_feishu.inbound import Bot, read_content
from claw_feishu.richtext import Mentions
from claw_feishu.tenant import Tenant

T = TypeVar("T")
SECONDS = 1.5
"""Of the three that the service waits for its acknowledgement."""
KEPT = 5000
UNKNOWN_SECONDS = 300.0
"""How long a name that could not be had is not asked for again."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat: its title, and whether it is a direct one or has topics."""

    name: str = ""
    direct: bool = False
    forum: bool = False


class Kept(Generic[T]):
    """The newest answers, by id."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, tuple[T | None, float]] = OrderedDict()

    def put(self, key: str, value: T | None) -> None:
        """Note an answer; None = it could not be had."""
        until = float("inf") if value is not None else _now() + UNKNOWN_SECONDS
        self._answers[key] = (value, until)
        self._answers.move_to_end(key)
        if len(self._answers) > KEPT:
            self._answers.popitem(last=False)

    def get(self, key: str) -> T | None:
        """The answer, when there is one."""
        return self._answers.get(key, (None, 0.0))[0]

    async def ask(self, key: str, question: Callable[[str], Awaitable[T]]) -> T | None:
        """The kept answer, or a new one. One that takes too long could not be had."""
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
    """Answers from the service, kept in memory.

    :ivar places: message id → the (chat, thread) it stands in, of what was seen or sent lately.
    """

    def __init__(self, tenant: Tenant) -> None:
        self._tenant = tenant
        self._people: Kept[str] = Kept()
        self._chats: Kept[Chat] = Kept()
        self.places: Kept[tuple[str, str | None]] = Kept()
        self._latest: Kept[str] = Kept()  # thread → a message in it
        self._chat_with: Kept[str] = Kept()  # a person that was written to → the chat with them

    async def dressed(self, inbound: Inbound, bot: Bot) -> Inbound | None:
        """The same message with names and what it quotes; None when nobody can say in which chat it is."""
        until = _now() + SECONDS
        inbound = await self._placed(inbound)
        chat, thread = inbound.address.chat, inbound.address.thread
        if not chat:
            return None
        if inbound.kind == "message":
            self.note(inbound.message_id, chat, thread)
        if inbound.chat_type == "direct" and not self._chats.get(chat):
            self._chats.put(chat, Chat(direct=True))  # a button does not say what kind of chat it stands in
        name, place, quoted = "", None, None
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                name = await self._people.ask(inbound.sender.id, self._person) or ""
                if inbound.chat_type != "direct":
                    place = await self._chats.ask(chat, self._chat)
                if inbound.reply_to and inbound.kind == "message":
                    quoted = await self._quoted(inbound.reply_to)
        return dress(inbound, bot, name, place, quoted)

    def note(self, message_id: str, chat: str, thread: str | None) -> None:
        """Where a message stands."""
        self.places.put(message_id, (chat, thread))
        if thread:
            self._latest.put(thread, message_id)

    def sent(self, message_id: str, to: str, chat: str, thread: str | None) -> None:
        """A message of ours went to somebody or to a chat, and stands in a chat."""
        self.note(message_id, chat or to, thread)
        if chat and chat != to:
            self._chat_with.put(to, chat)

    async def stands_in(self, message_id: str, chat: str) -> bool:
        """Whether a message stands in that chat: the service takes its id from whoever has it.

        :raises FeishuError: nobody can say, as when there is none.
        """
        try:
            place = self.places.get(message_id) or await self._place(message_id)
        except (KeyError, IndexError, TypeError):
            return False
        return place[0] in (chat, self._chat_with.get(chat))

    async def in_thread(self, thread: str) -> str | None:
        """A message of a thread, to answer in it; None when it has none that we may see."""
        return await self._latest.ask(thread, self._first_of)

    async def _placed(self, inbound: Inbound) -> Inbound:
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

    async def _quoted(self, message_id: str) -> tuple[Heard, str] | None:
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
        return Heard(text, name or sender, message_id, at), sender

    async def _message(self, message_id: str) -> Any:
        return (await self._tenant.call("GET", f"/open-apis/im/v1/messages/{message_id}"))["data"]["items"][0]

    async def _first_of(self, thread: str) -> str:
        query = {"container_id_type": "thread", "container_id": thread, "page_size": 1}
        items = (await self._tenant.call("GET", "/open-apis/im/v1/messages", query=query))["data"]["items"]
        return str(items[0]["message_id"] if items else "")


def dress(
    inbound: Inbound, bot: Bot, name: str, chat: Chat | None, quoted: tuple[Heard, str] | None
) -> Inbound:
    """Put what was learnt where it belongs. An answer to one of our messages is addressed to us. Pure."""
    around, ours = inbound.around, False
    if chat:
        around = replace(
            around, chat_name=chat.name or around.chat_name, is_forum=chat.forum or around.is_forum
        )
    if quoted:
        around = replace(around, quoted=quoted[0])
        ours = quoted[1] in (bot.app_id, bot.open_id)
    return replace(
        inbound,
        sender=replace(inbound.sender, name=name or inbound.sender.name),
        around=around,
        chat_type="direct" if chat and chat.direct else inbound.chat_type,
        mentions_us=inbound.mentions_us or ours,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
