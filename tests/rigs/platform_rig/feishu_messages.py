"""The messages of the chats of a Feishu bot, and the answer of the Open API to each call (open.feishu.cn, "im-v1")."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rigs.platform_rig.feishu_cards import CARD_BYTES, Cards, Refused

APP, SECRET = "cli_a1f6c83d2e5b9700", "rigSecret0Zk3Vn8QpW5tYx2LsD7hGmB4c"
BOT, TENANT = "ou_5a0c7e91d3b24f68a2c4e6f80b1d3f5a", "2ed263bf32cf1651"
_TEXT_BYTES, _MOST_UUID = 150 << 10, 50
_KINDS = {"text", "post", "interactive", "image", "file", "audio", "media"}
_WITHDRAWN = "The message was withdrawn."


@dataclass
class ChatMessage:
    """A message.

    :ivar position: order among all messages.
    :ivar content: parsed.
    :ivar thread: id of its topic; empty = it is in none.
    :ivar answered: id of the message that it replies to.
    """

    position: int
    chat: str
    kind: str
    content: dict[str, Any]
    sender: str = APP
    thread: str = ""
    answered: str = ""
    is_withdrawn: bool = False
    reactions: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Its id."""
        return f"om_{self.position:032x}"

    @property
    def from_bot(self) -> bool:
        """True for a message of the bot."""
        return self.sender == APP


class Messages:
    """All messages of all chats of the bot.

    :ivar chats: by id, their ``chat_mode``; ``direct``: by id of a person, the chat with that person.
    :ivar files: by key, the names of uploaded files.
    """

    def __init__(self) -> None:
        self.chats: dict[str, str] = {}
        self.direct: dict[str, str] = {}
        self.all: dict[str, ChatMessage] = {}
        self.files: dict[str, str] = {}
        self.cards = Cards()
        self._sent: dict[str, ChatMessage] = {}

    def add(self, message: ChatMessage) -> ChatMessage:
        """Add a message."""
        self.all[message.id] = message
        return message

    def text(self, message: ChatMessage) -> str:
        """Return what a person sees."""
        content = message.content
        if message.kind == "text":
            return str(content.get("text", ""))
        if message.kind == "post":
            rows = next(iter(content.values()))["content"]
            return "\n".join("".join(str(part.get("text", "")) for part in row) for row in rows)
        if message.kind == "interactive":
            return self.cards.of_message(message.id).text
        return self.files.get(str(content.get("file_key") or content.get("image_key")), "")

    def standing(self) -> list[ChatMessage]:
        """Return the bot's messages that stand in the chats."""
        return [one for one in self.all.values() if one.from_bot and not one.is_withdrawn]

    def open_cards(self) -> int:
        """Return the number of messages with a card that says that it is being generated, or that is empty."""
        cards = [self.cards.of_message(one.id) for one in self.standing() if one.kind == "interactive"]
        return sum(card.is_streaming or not card.text.strip() for card in cards)

    def send(self, body: Mapping[str, Any], chat: str, answered: str = "") -> ChatMessage:
        """Send a message of the bot, or return the one that was sent with the same ``uuid``."""
        name = str(body.get("uuid") or "")
        if len(name) > _MOST_UUID or body.get("msg_type") not in _KINDS:
            raise Refused(230001, "Your request contains an invalid request parameter.")
        if name in self._sent:
            return self._sent[name]
        text = str(body.get("content", ""))
        if len(text.encode()) > (_TEXT_BYTES if body["msg_type"] == "text" else CARD_BYTES):
            raise Refused(230025, "The length of the message content reaches its limit.")
        thread = self.all[answered].thread if answered else ""
        if body.get("reply_in_thread") and not thread:
            thread = f"omt_{answered[3:]}"
        try:
            content = json.loads(text)
        except ValueError:
            raise Refused(230001, "invalid message content") from None
        message = ChatMessage(
            len(self.all) + 1, chat, str(body["msg_type"]), content, thread=thread, answered=answered
        )
        if message.kind == "interactive":
            self._show_card(message, text)
        elif message.kind == "text" and not str(content.get("text", "")):
            raise Refused(230001, "invalid message content: text is empty")
        elif message.kind in ("file", "image", "audio", "media") and not self.text(message):
            raise Refused(230001, "invalid message content: there is no such file")
        if name:
            self._sent[name] = message
        return self.add(message)

    def _show_card(self, message: ChatMessage, text: str) -> None:
        content = message.content
        card = self.cards.cards.get(str(content.get("data", {}).get("card_id")))
        if content.get("type") != "card":
            card = self.cards.add(text)
        if card is None or card.message:  # a card can be sent once
            said = "Failed to create card content, ext=ErrCode: 11310; ErrMsg: the card is sent or does not exist"
            raise Refused(230099, said)
        card.message = message.id

    def reply(self, id: str, body: Mapping[str, Any]) -> ChatMessage:
        """Reply to a message."""
        answered = self.found(id)
        return self.send(body, answered.chat, id)

    def found(self, id: str, *, withdrawn: bool = False) -> ChatMessage:
        """Return a message.

        :param withdrawn: also one that was withdrawn.
        """
        message = self.all.get(id)
        if message is None:
            raise Refused(230001, "Your request contains an invalid request parameter. message_id")
        if message.is_withdrawn and not withdrawn:
            raise Refused(230011, _WITHDRAWN)
        return message

    def delete(self, id: str) -> None:
        """Withdraw a message of the bot."""
        message = self.found(id)
        if not message.from_bot:
            raise Refused(230026, "No permission to recall this message.")
        message.is_withdrawn = True

    def edit(self, id: str, body: Mapping[str, Any]) -> ChatMessage:
        """Edit a text or a post of the bot."""
        message = self.found(id)
        if not message.from_bot or message.kind not in ("text", "post"):
            raise Refused(230071, "The operator is not the sender of this message.")
        message.kind, message.content = str(body["msg_type"]), json.loads(str(body["content"]))
        return message

    def of_thread(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Return a page of the messages of a topic."""
        thread, most = query["container_id"], int(query.get("page_size") or 20)
        items = [self.document(one) for one in self.all.values() if one.thread == thread]
        if query.get("sort_type") == "ByCreateTimeDesc":
            items.reverse()
        return {"items": items[:most], "has_more": len(items) > most, "page_token": str(most)}

    def react(self, id: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Add a reaction of the bot."""
        message, kind = self.found(id), str(body["reaction_type"]["emoji_type"])
        name = f"ZCa{kind}{message.position:08x}"  # of one sender it stands once
        message.reactions[name] = kind
        return _reaction(name, kind)

    def take_off(self, id: str, reaction: str) -> dict[str, Any]:
        """Remove a reaction of the bot."""
        message = self.found(id)
        if reaction not in message.reactions:
            raise Refused(231003, "reaction is not exist")
        return _reaction(reaction, message.reactions.pop(reaction))

    def reactions(self, id: str) -> dict[str, Any]:
        """Return the reactions to a message."""
        items = [_reaction(name, kind) for name, kind in self.found(id).reactions.items()]
        return {"items": items, "has_more": False, "page_token": ""}

    def document(self, message: ChatMessage) -> dict[str, Any]:
        """Return a message as the API does."""
        stamp = str(int(time.time() * 1000))
        kind = ("app", "app_id") if message.from_bot else ("user", "open_id")
        sender = {"id": message.sender, "id_type": kind[1], "sender_type": kind[0], "tenant_key": TENANT}
        found = {
            "message_id": message.id, "msg_type": message.kind, "create_time": stamp, "update_time": stamp,
            "deleted": message.is_withdrawn, "updated": False, "chat_id": message.chat, "sender": sender,
            "body": {"content": json.dumps(message.content, ensure_ascii=False)},
        }  # fmt: skip
        if message.thread:
            found["thread_id"] = message.thread
        if message.answered:
            found |= {"root_id": message.answered, "parent_id": message.answered}
        return found


def _reaction(name: str, kind: str) -> dict[str, Any]:
    return {
        "reaction_id": name, "operator": {"operator_id": APP, "operator_type": "app"},
        "action_time": str(int(time.time() * 1000)), "reaction_type": {"emoji_type": kind},
    }  # fmt: skip
