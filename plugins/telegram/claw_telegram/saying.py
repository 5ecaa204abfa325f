"""One message to be said, as parameters of the Bot API, and what to change when it refuses them. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from claw import Button, DeliveryError, Outbound

from claw_telegram.api import Refused
from claw_telegram.render import length, render

CAPTION = 1024
"""UTF-16 units that a caption may show: https://core.telegram.org/bots/api#sendphoto."""
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
class Saying:
    """One message.

    :param text: Markdown. ``html`` says whether it goes out rendered, or as it is.
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
        """Which call says it."""
        return "sendMessageDraft" if self.draft else "editMessageText" if self.edits else "sendMessage"

    @property
    def params(self) -> dict[str, Any]:
        """What goes with that call."""
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
        """Where it goes: chat, topic, and the message it answers."""
        return {
            "chat_id": chat_id(self.chat),
            "message_thread_id": int(self.thread) if self.thread else None,
            "reply_parameters": {"message_id": int(self.reply_to), "allow_sending_without_reply": True}
            if self.reply_to
            else None,
        }

    @property
    def caption(self) -> dict[str, Any]:
        """The text as a caption; empty when it does not fit into one."""
        if not self.text or length(self.text) > CAPTION:
            return {}
        return {"caption": render(self.text), "parse_mode": "HTML"} if self.html else {"caption": self.text}


def saying(outbound: Outbound, *, preview: bool = True) -> Saying:
    """What the house wants said, without its files."""
    address = outbound.address
    reply_to = outbound.reply_to if _MESSAGE_ID.fullmatch(outbound.reply_to or "") else None
    return Saying(
        address.chat, outbound.text, address.thread, reply_to, outbound.buttons, html=not outbound.plain, preview=preview
    )  # fmt: skip


def mended(said: Saying, why: Refused) -> Saying | None:
    """What to say instead after a refusal; None when nothing would help."""
    if why.moved_to:
        return replace(said, chat=str(why.moved_to))
    if why.status != 400:
        return None
    if said.html and why.says("can't parse entities", "can't parse message caption"):
        return replace(said, html=False)
    if said.reply_to and why.says(*_NO_QUOTE):
        return replace(said, reply_to=None)
    if said.thread and why.says("message thread not found"):
        return replace(said, thread=None)
    return None


def keyboard(buttons: Sequence[Button]) -> dict[str, Any]:
    """Buttons below a message, short ones beside each other.

    :raises DeliveryError: a value is empty or longer than the 64 bytes that come back.
    """
    rows: list[list[dict[str, str]]] = []
    narrow = all(len(button.label) <= _WIDE_LABEL for button in buttons)
    for button in buttons:
        if not 1 <= len(button.value.encode()) <= 64:
            raise DeliveryError(
                "the button {label} holds a value that is not 1 to 64 bytes long",
                permanent=True,
                label=button.label,
            )
        if not rows or not narrow or len(rows[-1]) == _BUTTONS_IN_A_ROW:
            rows.append([])
        style = {"style": button.style} if button.style in ("primary", "danger") else {}
        rows[-1].append({"text": button.label, "callback_data": button.value, **style})
    return {"inline_keyboard": rows}


def media_method(kind: str, mime: str, size_bytes: int, *, voice: bool) -> tuple[str, str]:
    """Which call sends a file, and in which field."""
    if mime == "image/gif":
        return _MEDIA["animation"]
    if kind == "image" and mime != "image/svg+xml" and size_bytes <= PHOTO_BYTES:
        return _MEDIA["photo"]
    if kind == "audio":
        return _MEDIA["voice" if voice else "audio"]
    return _MEDIA["video"] if kind == "video" else _MEDIA["document"]


def chat_id(chat: str) -> int | str:
    """As the Bot API wants it: a number, or the ``@name`` of a public channel."""
    return chat if chat.startswith("@") else int(chat)
