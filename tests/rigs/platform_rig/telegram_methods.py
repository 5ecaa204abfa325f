"""The methods of the Bot API on the messages of a bot: the messages in the chats, and the answer to each call."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rigs.platform_rig.telegram_types import MOST_CHARS, ParseError, visible_text

BOT = {"id": 7100200300, "is_bot": True, "first_name": "Rig", "username": "rig_notes_bot"}
SECOND_BOT = {"id": 7100200301, "is_bot": True, "first_name": "Second", "username": "rig_second_bot"}
_NOT_MODIFIED = (
    "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a "
    "current content and reply markup of the message"
)


class Refused(Exception):
    """A response with ``ok: false``.

    :ivar code: ``error_code``, also the status.
    """

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code, self.parameters = code, parameters

    def document(self) -> dict[str, Any]:
        """Return the body of the response."""
        body: dict[str, Any] = {"ok": False, "error_code": self.code, "description": str(self)}
        return {**body, "parameters": self.parameters} if self.parameters else body


@dataclass
class ChatMessage:
    """A message in a chat; its ``id`` is of the sequence of the supergroup, or of all other chats of the bot."""

    id: int
    chat: int
    text: str
    from_bot: bool
    fields: dict[str, Any] = field(default_factory=dict)


class Messages:
    """All messages of all chats of a bot.

    :ivar chats: by id, the ``Chat`` object.
    :ivar topics: by id of a forum, the ids of its topics.
    """

    def __init__(self, bot: Mapping[str, Any] = BOT) -> None:
        self.bot = bot
        self.topics: dict[int, tuple[int, ...]] = {}
        self.chats: dict[int, dict[str, Any]] = {}
        self.standing: dict[tuple[int, int], ChatMessage] = {}
        # core.telegram.org/api/updates: a supergroup has a sequence of ids of its own
        self._last: Counter[int] = Counter()

    def add(self, chat: int, text: str, *, from_bot: bool, **fields: Any) -> ChatMessage:
        """Add a message to a chat."""
        sequence = chat if self.chats[chat]["type"] == "supergroup" else 0
        self._last[sequence] += 1
        message = ChatMessage(
            self._last[sequence], chat, text, from_bot, {"date": int(time.time()), **fields}
        )
        self.standing[chat, message.id] = message
        return message

    def document(self, message: ChatMessage) -> dict[str, Any]:
        """Return the ``Message`` object."""
        sender = {"from": self.bot} if message.from_bot else {}
        head = {"message_id": message.id, "chat": self.chats[message.chat], **sender}
        words = "caption" if "document" in message.fields else "text"
        return {**head, **message.fields, words: message.text}

    def call(self, method: str, fields: Mapping[str, Any]) -> Any:
        """Carry out a method on messages; return its ``result``.

        :raises Refused: as Telegram refuses it.
        :raises KeyError: it is no such method.
        """
        return {
            "sendMessage": self._send,
            "sendDocument": self._send_document,
            "editMessageText": self._edit,
            "deleteMessage": self._delete,
            "copyMessage": self._copy,
            "forwardMessage": self._forward,
            "sendMessageDraft": self._accept,
            "sendChatAction": self._accept,
            "setMessageReaction": self._accept,
            "editMessageReplyMarkup": self._edit_keyboard,
        }[method](fields)

    def _chat(self, fields: Mapping[str, Any], name: str = "chat_id") -> int:
        try:
            chat = int(fields[name])
        except (KeyError, ValueError, TypeError):
            raise Refused(400, "Bad Request: chat_id is empty") from None
        if chat not in self.chats:
            raise Refused(400, "Bad Request: chat not found")
        return chat

    @staticmethod
    def _text(fields: Mapping[str, Any]) -> str:
        try:
            text = visible_text(str(fields.get("text", "")), fields.get("parse_mode"))
        except ParseError as why:
            raise Refused(400, f"Bad Request: can't parse entities: {why}") from None
        if not text:
            raise Refused(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > MOST_CHARS:
            raise Refused(400, "Bad Request: message is too long")
        return text

    def _find(self, chat: int, id: Any, what: str) -> ChatMessage:
        try:
            return self.standing[chat, int(id)]
        except (KeyError, ValueError, TypeError):
            raise Refused(400, f"Bad Request: {what} not found") from None

    def _send(self, fields: Mapping[str, Any]) -> Any:
        chat = self._chat(fields)
        reply = fields.get("reply_parameters")
        if isinstance(reply, Mapping) and not reply.get("allow_sending_without_reply"):
            self._find(chat, reply.get("message_id"), "message to be replied")
        keyboard = {"reply_markup": fields["reply_markup"]} if fields.get("reply_markup") else {}
        place = self._topic(chat, fields) | keyboard
        return self.document(self.add(chat, self._text(fields), from_bot=True, **place))

    def _send_document(self, fields: Mapping[str, Any]) -> Any:
        chat = self._chat(fields)
        _, is_attached, name = str(fields.get("document") or "").partition("attach://")
        if not is_attached:
            raise Refused(400, "Bad Request: there is no document in the request")
        document = {
            "file_id": f"BQ{len(self.standing)}",
            "file_unique_id": f"u{len(self.standing)}",
            "file_name": name,
        }
        caption = visible_text(str(fields.get("caption") or ""), fields.get("parse_mode"))
        place = self._topic(chat, fields)
        return self.document(self.add(chat, caption, from_bot=True, document=document, **place))

    def _topic(self, chat: int, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a message that is sent to a topic; none for the General topic and for other chats."""
        topic = fields.get("message_thread_id")
        if topic is None:
            return {}
        if str(topic) not in map(str, self.topics.get(chat, ())):
            raise Refused(400, "Bad Request: message thread not found")
        return {"message_thread_id": int(topic), "is_topic_message": True}

    def _own(self, fields: Mapping[str, Any]) -> ChatMessage:
        message = self._find(self._chat(fields), fields.get("message_id"), "message to edit")
        if not message.from_bot:
            raise Refused(400, "Bad Request: message can't be edited")
        return message

    def _edit_keyboard(self, fields: Mapping[str, Any]) -> Any:
        message = self._own(fields)
        if fields.get("reply_markup") == message.fields.get("reply_markup"):
            raise Refused(400, _NOT_MODIFIED)
        message.fields.pop("reply_markup", None)
        if "reply_markup" in fields:
            message.fields["reply_markup"] = fields["reply_markup"]
        return self.document(message)

    def _edit(self, fields: Mapping[str, Any]) -> Any:
        message = self._own(fields)
        if "document" in message.fields:
            raise Refused(400, "Bad Request: there is no text in the message to edit")
        text = self._text(fields)
        keyboard = {"reply_markup": fields["reply_markup"]} if fields.get("reply_markup") else {}
        if text == message.text and keyboard.get("reply_markup") == message.fields.get("reply_markup"):
            raise Refused(400, _NOT_MODIFIED)
        message.text = text
        message.fields.pop("reply_markup", None)  # an edit without a keyboard takes it away
        message.fields |= keyboard
        message.fields["edit_date"] = int(time.time())
        return self.document(message)

    def _delete(self, fields: Mapping[str, Any]) -> Any:
        chat = self._chat(fields)
        message = self._find(chat, fields.get("message_id"), "message to delete")
        del self.standing[chat, message.id]
        return True

    def _copy(self, fields: Mapping[str, Any]) -> Any:
        source = self._find(self._chat(fields, "from_chat_id"), fields.get("message_id"), "message to copy")
        return {"message_id": self.add(self._chat(fields), source.text, from_bot=True).id}

    def _forward(self, fields: Mapping[str, Any]) -> Any:
        source = self._find(
            self._chat(fields, "from_chat_id"), fields.get("message_id"), "message to forward"
        )
        return self.document(self.add(self._chat(fields), source.text, from_bot=True))

    def _accept(self, fields: Mapping[str, Any]) -> Any:
        self._chat(fields)
        return True
