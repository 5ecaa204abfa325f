"""One outgoing message as parameters of the Bot API, and its changed form after a refusal. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from claw import Button, DeliveryError, Outbound

from claw_telegram.api import TelegramError
from claw_telegram.render import length, render

CAPTION = 1024
"""Length limit of a caption, in UTF-16 units: https://core.telegram.org/bots/api#sendphoto."""
_BUTTONS_IN_A_ROW = 3
_WIDE_LABEL = 16
_NO_QUOTE = ("message to be replied not found", "message to reply not found", "replied message not found")

_MESSAGE_ID = re.compile("[0-9]{1,18}")

PHOTO_BYTES = 10 << 20
_MEDIA = {
    "photo": ("sendPhoto", "photo"),
    "voice": ("sendVoice", "voice"),
    "audio": ("sendAudio", "audio"),
    "video": ("sendVideo", "video"),
    "animation": ("sendAnimation", "animation"),
    "document": ("sendDocument", "document"),
}


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """One outgoing message.

    :param text: Markdown. ``html``: send it rendered as HTML, else as plain text.
    :param edits: id of the message that becomes this one. ``draft``: number of the draft that it is, 0 for a message.
    """

    chat: str
    text: str
    thread: str | None = None
    reply_to: str | None = None
    buttons: tuple[Button, ...] = ()
    html: bool = True
    preview: bool = True
    edits: str | None = None
    draft: int = 0

    @property
    def method(self) -> str:
        """The Bot API method that sends it."""
        return "sendMessageDraft" if self.draft else "editMessageText" if self.edits else "sendMessage"

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of that method."""
        words = {"text": render(self.text), "parse_mode": "HTML"} if self.html else {"text": self.text}
        preview = {} if self.preview else {"link_preview_options": {"is_disabled": True}}
        keys = {"reply_markup": keyboard(self.buttons)} if self.buttons else {}
        if self.draft:
            return {**self.place, **words, "draft_id": self.draft}
        if self.edits:
            return {"chat_id": chat_id(self.chat), "message_id": int(self.edits), **words, **preview, **keys}
        return {**self.place, **words, **preview, **keys}

    @property
    def place(self) -> dict[str, Any]:
        """The destination: chat, topic, and the message to reply to."""
        return {
            "chat_id": chat_id(self.chat),
            "message_thread_id": int(self.thread) if self.thread else None,
            "reply_parameters": {"message_id": int(self.reply_to), "allow_sending_without_reply": True}
            if self.reply_to
            else None,
        }

    @property
    def caption(self) -> dict[str, Any]:
        """The text as caption parameters; empty when it is too long for a caption."""
        if not self.text or length(self.text) > CAPTION:
            return {}
        return {"caption": render(self.text), "parse_mode": "HTML"} if self.html else {"caption": self.text}


def compose(outbound: Outbound, *, preview: bool = True) -> OutgoingMessage:
    """Build the message for an outbound reply, without its files."""
    address = outbound.address
    reply_to = outbound.reply_to if _MESSAGE_ID.fullmatch(outbound.reply_to or "") else None
    return OutgoingMessage(
        address.chat,
        outbound.text,
        address.thread,
        reply_to,
        outbound.buttons,
        html=not outbound.plain,
        preview=preview,
    )


def corrected(outgoing: OutgoingMessage, why: TelegramError) -> OutgoingMessage | None:
    """Return the changed message to send after a refusal; None when no change would help."""
    if why.moved_to:
        return replace(outgoing, chat=str(why.moved_to))
    if why.status != 400:
        return None
    if outgoing.html and why.says("can't parse entities", "can't parse message caption"):
        return replace(outgoing, html=False)
    if outgoing.reply_to and why.says(*_NO_QUOTE):
        return replace(outgoing, reply_to=None)
    if outgoing.thread and why.says("message thread not found"):
        return replace(outgoing, thread=None)
    return None


def keyboard(buttons: Sequence[Button]) -> dict[str, Any]:
    """Build the inline keyboard; short labels share a row.

    :raises DeliveryError: a value is empty or longer than the 64 bytes that come back.
    """
    rows: list[list[dict[str, str]]] = []
    narrow = all(len(button.label) <= _WIDE_LABEL for button in buttons)
    for button in buttons:
        if not 1 <= len(button.value.encode()) <= 64:
            raise DeliveryError(
                "the value of button {label} is not 1 to 64 bytes long",
                permanent=True,
                label=button.label,
            )
        if not rows or not narrow or len(rows[-1]) == _BUTTONS_IN_A_ROW:
            rows.append([])
        style = {"style": button.style} if button.style in ("primary", "danger") else {}
        rows[-1].append({"text": button.label, "callback_data": button.value, **style})
    return {"inline_keyboard": rows}


def media_method(kind: str, mime: str, size_bytes: int, *, voice: bool) -> tuple[str, str]:
    """Return the method that sends a file and its field name for the file."""
    if mime == "image/gif":
        return _MEDIA["animation"]
    if kind == "image" and mime != "image/svg+xml" and size_bytes <= PHOTO_BYTES:
        return _MEDIA["photo"]
    if kind == "audio":
        return _MEDIA["voice" if voice else "audio"]
    return _MEDIA["video"] if kind == "video" else _MEDIA["document"]


def chat_id(chat: str) -> int | str:
    """Return the chat id as the Bot API wants it: a number, or the ``@name`` of a public channel."""
    return chat if chat.startswith("@") else int(chat)
