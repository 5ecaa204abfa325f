"""Translation of Feishu events into inbound messages. Pure.

Two envelopes: 2.0 (``schema``, ``header``, ``event``) and the old 1.0 (``uuid``, ``event``), which some apps still get.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claw import Address, Attachment, Inbound, MessageContext, Sender

from claw_feishu.richtext import Mentions, card_text, content_of, post_markdown

CHANNEL = "feishu"
BUTTON = "claw"
"""Key under which claw's buttons carry their value."""
_FILES = {
    "image": "image",
    "file": "file",
    "folder": "file",
    "audio": "audio",
    "media": "video",
}


@dataclass(frozen=True, slots=True)
class FeishuBot:
    """The bot's identity: the open id appears in mentions, the app id as the sender of its own messages."""

    open_id: str = ""
    app_id: str = ""
    account: str = "default"


def event_id(event: Mapping[str, Any]) -> str:
    """Return the id that identifies a repeated delivery; empty when there is none."""
    return str(_map(event, "header").get("event_id") or event.get("uuid") or "")


def event_type(event: Mapping[str, Any]) -> str:
    """Return the event type, such as ``im.message.receive_v1``."""
    header = _map(event, "header")
    return str(header.get("event_type") or _map(event, "event").get("type") or "")


def token_of(event: Mapping[str, Any]) -> Any:
    """Return the verification token inside an event or an address check."""
    return _map(event, "header").get("token") if "header" in event else event.get("token")


def to_inbound(event: Mapping[str, Any], bot: FeishuBot) -> Inbound | None:
    """Read one event; None for unknown kinds and the bot's own messages.

    A reaction event does not state its chat: its address has an empty chat.
    """
    if not isinstance(event.get("event"), Mapping):
        return None
    reader = _READERS.get(event_type(event))
    return reader(event, event["event"], bot) if reader else None


def _message(event: Mapping[str, Any], what: Mapping[str, Any], bot: FeishuBot) -> Inbound | None:
    message, sender = _map(what, "message"), _sender(_map(what, "sender"))
    if not message.get("message_id") or not message.get("chat_id"):
        return None
    if sender.id and sender.id in (bot.open_id, bot.app_id):
        return None
    mentions = Mentions(_maps(message.get("mentions")), bot.open_id)
    text, attachments = _read(
        str(message.get("message_type") or ""), content_of(message.get("content")), mentions
    )
    return Inbound(
        Address(CHANNEL, str(message["chat_id"]), bot.account, message.get("thread_id") or None),
        text,
        sender,
        message_id=str(message["message_id"]),
        event_id=event_id(event),
        sent_at=_seconds(message.get("create_time")),
        chat_type="direct" if message.get("chat_type") == "p2p" else "group",
        mentions_us=mentions.us,
        reply_to=message.get("parent_id") or None,
        attachments=attachments,
        around=MessageContext(is_forum=message.get("chat_type") == "topic_group"),
    )


def _message_v1(event: Mapping[str, Any], what: Mapping[str, Any], bot: FeishuBot) -> Inbound | None:
    sender = Sender(str(what.get("open_id") or ""), username=str(what.get("employee_id") or ""))
    if not what.get("open_message_id") or not what.get("open_chat_id") or sender.id == bot.open_id:
        return None
    direct = what.get("chat_type") == "private"
    kind = str(what.get("msg_type") or "")
    if kind == "text":
        text = str(what.get("text_without_at_bot" if what.get("is_mention") else "text") or "").strip()
        attachments: tuple[Attachment, ...] = ()
    else:
        text, attachments = _read(kind, what, Mentions())
    return Inbound(
        Address(CHANNEL, str(what["open_chat_id"]), bot.account),
        text,
        sender,
        message_id=str(what["open_message_id"]),
        event_id=event_id(event),
        sent_at=_seconds(event.get("ts"), 1),
        chat_type="direct" if direct else "group",
        mentions_us=bool(what.get("is_mention")),
        reply_to=what.get("parent_id") or None,
        attachments=attachments,
    )


def _reaction(event: Mapping[str, Any], what: Mapping[str, Any], bot: FeishuBot) -> Inbound | None:
    who = Sender(_open_id(what.get("user_id")))
    if what.get("operator_type") == "app" or who.id in ("", bot.open_id) or not what.get("message_id"):
        return None
    return Inbound(
        Address(CHANNEL, "", bot.account),
        str(_map(what, "reaction_type").get("emoji_type") or ""),
        who,
        message_id=str(what["message_id"]),
        event_id=event_id(event),
        kind="reaction",
        sent_at=_seconds(what.get("action_time")),
        chat_type="group",
    )


def _button(event: Mapping[str, Any], what: Mapping[str, Any], bot: FeishuBot) -> Inbound | None:
    context, action = _map(what, "context"), _map(what, "action")
    who = Sender(_open_id(what.get("operator")))
    if not who.id or not context.get("open_chat_id"):
        return None
    value = action.get("value")
    if isinstance(value, Mapping) and set(value) == {BUTTON}:
        text = str(value[BUTTON])
    else:  # a card made by another app
        text = json.dumps(value, ensure_ascii=False)
    return Inbound(
        Address(CHANNEL, str(context["open_chat_id"]), bot.account),
        text,
        who,
        message_id=str(context.get("open_message_id") or ""),
        event_id=event_id(event),
        kind="button",
        sent_at=_seconds(_map(event, "header").get("create_time")),
        chat_type="group",
    )


def _joined(event: Mapping[str, Any], what: Mapping[str, Any], bot: FeishuBot) -> Inbound | None:
    if not what.get("chat_id"):
        return None
    return Inbound(
        Address(CHANNEL, str(what["chat_id"]), bot.account),
        "bot_added",
        Sender(_open_id(what.get("operator_id"))),
        event_id=event_id(event),
        kind="lifecycle",
        sent_at=_seconds(_map(event, "header").get("create_time")),
        chat_type="group",
        around=MessageContext(chat_name=str(what.get("name") or "")),
    )


_READERS = {
    "im.message.receive_v1": _message,
    "message": _message_v1,
    "im.message.reaction.created_v1": _reaction,
    "card.action.trigger": _button,
    "im.chat.member.bot.added_v1": _joined,
}


def read_content(kind: str, raw: Any, mentions: Mentions) -> str:
    """Return the text of a message of any kind; used for quotes."""
    return _read(kind, content_of(raw), mentions)[0]


def _read(kind: str, content: Mapping[str, Any], mentions: Mentions) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text and the files of a message."""
    if kind == "text":
        return mentions.named(str(content.get("text") or "")), ()
    if kind == "post":
        text, files = post_markdown(content, mentions)
        return text, tuple(Attachment(file_kind, key=key) for file_kind, key in files)
    if kind in _FILES:
        key = str(content.get("image_key" if kind == "image" else "file_key") or "")
        name = str(content.get("file_name") or "")
        return "", (Attachment(_FILES[kind], name=name, key=key),)
    if kind == "sticker":  # the platform does not let bots download its picture
        return "[sticker]", ()
    if kind == "interactive":
        return card_text(content), ()
    if kind == "location":
        return " ".join(str(content.get(key, "")) for key in ("name", "latitude", "longitude")).strip(), ()
    words = " ".join(str(value) for value in content.values() if isinstance(value, str))
    return f"[{kind}] {words}".rstrip(), ()


def _sender(sender: Mapping[str, Any]) -> Sender:
    return Sender(_open_id(sender.get("sender_id")), is_bot=sender.get("sender_type") in ("app", "bot"))


def _open_id(ids: Any) -> str:
    return str(ids.get("open_id") or "") if isinstance(ids, Mapping) else ""


def _map(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, Mapping) else {}


def _maps(value: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple(item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()


def _seconds(value: Any, scale: int = 1000) -> float | None:
    try:
        return float(value) / scale
    except (TypeError, ValueError):
        return None
