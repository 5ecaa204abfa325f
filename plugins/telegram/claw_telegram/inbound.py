"""Translation of Bot API updates into inbound messages. Pure.

https://core.telegram.org/bots/api#update; offsets and lengths of entities count UTF-16 units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from claw import Address, Attachment, Inbound, MessageContext, QuotedMessage, Sender

ALLOWED_UPDATES = (
    "message", "edited_message", "channel_post", "edited_channel_post", "callback_query",
    "message_reaction", "my_chat_member",
)  # fmt: skip
_CHAT_TYPES = {"private": "direct", "channel": "channel"}
_FILES = {
    "voice": "audio", "audio": "audio", "video": "video", "video_note": "video", "animation": "video", "document": "file",
    "sticker": "sticker",
}  # fmt: skip
_MIMES = {"voice": "audio/ogg", "video_note": "video/mp4", "photo": "image/jpeg"}

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TelegramBot:
    """The bot's own identity.

    :param account: name of the account in the config.
    :param commands: names of chat commands; in a group, one of them without ``@BOT`` addresses the bot too.
    :param hears_all: privacy mode is off, so it also gets group messages that do not mention it.
    """

    id: int
    username: str
    account: str = "default"
    hears_all: bool = False
    commands: frozenset[str] = frozenset()


def bot_of(me: Json, account: str = "default") -> TelegramBot:
    """Read the bot's identity from the result of ``getMe``."""
    hears_all = bool(me.get("can_read_all_group_messages"))
    return TelegramBot(int(me["id"]), str(me.get("username", "")), account, hears_all)


def to_inbound(update: Json, bot: TelegramBot) -> Inbound | None:
    """Read one update; None for updates that need no answer (joins, pins, the bot's own messages, unrequested
    kinds)."""
    event = str(update["update_id"])
    for name, kind in (
        ("message", "message"),
        ("channel_post", "message"),
        ("edited_message", "edit"),
        ("edited_channel_post", "edit"),
    ):
        if name in update:
            return _message(update[name], bot, event, kind)
    if "callback_query" in update:
        return _button(update["callback_query"], bot, event)
    if "message_reaction" in update:
        return _reaction(update["message_reaction"], bot, event)
    if "my_chat_member" in update:
        change = update["my_chat_member"]
        status = str(change["new_chat_member"]["status"])
        return _event(change, bot, event, "lifecycle", status)
    return None


def album_of(update: Json) -> tuple[int, str] | None:
    """Return the album that a message belongs to; Telegram sends each picture of an album as an update of its own."""
    try:
        message = update.get("message") or update.get("channel_post") or {}
        group = message.get("media_group_id")
        return (message["chat"]["id"], str(group)) if group else None
    except (KeyError, TypeError, AttributeError):  # unknown shape: ``read`` skips it later
        return None


def joined(parts: Sequence[Inbound]) -> Inbound:
    """Merge the parts of an album into one message: ids of the first part, texts and files of all."""
    return replace(
        parts[0],
        text="\n".join(part.text for part in parts if part.text),
        mentions_us=any(part.mentions_us for part in parts),
        attachments=tuple(file for part in parts for file in part.attachments),
    )


def _message(message: Json, bot: TelegramBot, event: str, kind: str) -> Inbound | None:
    chat = message["chat"]
    if new := message.get("migrate_to_chat_id"):
        return _event(message, bot, event, "migrate", str(new))
    sender = _sender(message)
    if sender.id == str(bot.id):
        return None
    words = message.get("text") or message.get("caption") or _text_of_content(message)
    entities = message.get("entities") or message.get("caption_entities") or ()
    attachments = tuple(_attachments(message))
    if not words and not attachments:
        return None
    text, mentioned = _parse_text(words, entities, bot)
    quoted = _quoted(message)
    return Inbound(
        address=_address(message, bot),
        text=text,
        sender=sender,
        message_id=str(message["message_id"]),
        event_id=event,
        kind=kind,
        sent_at=float(message["date"]),
        chat_type=_CHAT_TYPES.get(chat["type"], "group"),
        mentions_us=mentioned or _is_reply_to_bot(message, bot),
        reply_to=quoted and str(quoted["message_id"]),
        attachments=attachments,
        around=_around(message, quoted),
    )


def _event(about: Json, bot: TelegramBot, event: str, kind: str, text: str) -> Inbound:
    """Build the inbound message for a change of the chat itself."""
    return Inbound(
        _address(about, bot),
        text,
        _sender(about),
        message_id=str(about.get("message_id", "")),
        event_id=event,
        kind=kind,
        sent_at=float(about["date"]),
        chat_type=_CHAT_TYPES.get(about["chat"]["type"], "group"),
        around=MessageContext(chat_name=about["chat"].get("title", "")),
    )


def _button(query: Json, bot: TelegramBot, event: str) -> Inbound | None:
    message = query.get("message")
    if not message or query.get("data") is None:
        return None
    return Inbound(
        _address(message, bot),
        str(query["data"]),
        _person(query["from"]),
        message_id=str(message["message_id"]),
        event_id=event,
        kind="button",
        chat_type=_CHAT_TYPES.get(message["chat"]["type"], "group"),
        mentions_us=True,
        around=MessageContext(chat_name=message["chat"].get("title", "")),
    )


def _reaction(change: Json, bot: TelegramBot, event: str) -> Inbound | None:
    """Read an added reaction; None for a removed one."""
    before = [_emoji(one) for one in change.get("old_reaction", ())]
    added = [emoji for emoji in map(_emoji, change.get("new_reaction", ())) if emoji and emoji not in before]
    if not added:
        return None
    who = (
        _person(change["user"])
        if "user" in change
        else _chat_as_sender(change.get("actor_chat") or change["chat"])
    )
    return Inbound(
        _address(change, bot),
        "".join(added),
        who,
        message_id=str(change["message_id"]),
        event_id=event,
        kind="reaction",
        sent_at=float(change["date"]),
        chat_type=_CHAT_TYPES.get(change["chat"]["type"], "group"),
        around=MessageContext(chat_name=change["chat"].get("title", "")),
    )


def _emoji(reaction: Json) -> str:
    return str(reaction.get("emoji", ""))


def _address(message: Json, bot: TelegramBot) -> Address:
    """Return the chat and its topic; the General topic has no id to send to."""
    thread = message.get("message_thread_id") if message.get("is_topic_message") else None
    return Address("telegram", str(message["chat"]["id"]), bot.account, str(thread) if thread else None)


def _sender(message: Json) -> Sender:
    """Return the author; an anonymous admin or a channel writes as the chat, with a placeholder bot in ``from``."""
    if chat := message.get("sender_chat"):
        return _chat_as_sender(chat)
    if who := message.get("from"):
        return _person(who)
    return _chat_as_sender(message["chat"])


def _person(who: Json) -> Sender:
    name = " ".join(filter(None, (who.get("first_name"), who.get("last_name"))))
    return Sender(str(who["id"]), name, who.get("username", ""), is_bot=bool(who.get("is_bot")))


def _chat_as_sender(chat: Json) -> Sender:
    return Sender(str(chat["id"]), _name(chat), chat.get("username", ""))


def _name(of: Json) -> str:
    """Return the display name of a user or a chat."""
    return (
        of.get("title")
        or " ".join(filter(None, (of.get("first_name"), of.get("last_name"))))
        or of.get("username", "")
    )


def _parse_text(text: str, entities: Sequence[Json], bot: TelegramBot) -> tuple[str, bool]:
    """Return the text for the agent (own mention removed, hidden links shown), and true if it mentions the bot."""
    raw = text.encode("utf-16-le")
    pieces: list[str] = []
    end, addressed = 0, False
    for entity in sorted(entities, key=lambda one: int(one["offset"])):
        start, stop = 2 * int(entity["offset"]), 2 * (int(entity["offset"]) + int(entity["length"]))
        if start < end:
            continue
        covered = raw[start:stop].decode("utf-16-le", "replace")
        shown, calls = _entity(entity, covered, bot, at_start=start == 0)
        pieces += [raw[end:start].decode("utf-16-le", "replace"), shown]
        alone = not shown and "".join(pieces)[-1:] in ("", " ", "\n")
        if alone and raw[stop : stop + 2] == " ".encode("utf-16-le"):
            stop += 2  # the blank behind a removed mention
        end, addressed = stop, addressed or calls
    return ("".join(pieces) + raw[end:].decode("utf-16-le", "replace")).strip(), addressed


def _entity(entity: Json, covered: str, bot: TelegramBot, *, at_start: bool) -> tuple[str, bool]:
    """Return the text of one entity, and true if it addresses the bot."""
    match entity["type"]:
        case "mention" if covered[1:].casefold() == bot.username.casefold():
            return "", True
        case "text_mention":
            addressed = entity["user"]["id"] == bot.id
            return ("" if addressed else f"@{covered}"), addressed
        case "bot_command":
            name, _, whom = covered.partition("@")
            addressed = (
                whom.casefold() == bot.username.casefold()
                if whom
                else at_start and name[1:].lower() in bot.commands
            )
            return (name if addressed else covered), addressed
        case "text_link" if entity.get("url") not in (None, covered):
            return f"{covered} ({entity['url']})", False
    return covered, False


def _is_reply_to_bot(message: Json, bot: TelegramBot) -> bool:
    quoted = _quoted(message) or {}
    return (quoted.get("from") or {}).get("id") == bot.id


def _quoted(message: Json) -> Json | None:
    """Return the message that this one replies to. In a topic, a reply to the topic's first message is no quote."""
    quoted = message.get("reply_to_message")
    if not quoted or "forum_topic_created" in quoted:
        return None
    root = message.get("is_topic_message") and quoted["message_id"] == message.get("message_thread_id")
    return None if root else quoted


def _around(message: Json, quoted: Json | None) -> MessageContext:
    chat = message["chat"]
    topic = (message.get("reply_to_message") or {}).get("forum_topic_created") or {}
    quoted_message = None
    if quoted:
        text = (message.get("quote") or {}).get("text") or quoted.get("text") or quoted.get("caption") or ""
        quoted_message = QuotedMessage(
            text, _sender(quoted).name, str(quoted["message_id"]), float(quoted.get("date", 0)) or None
        )
    return MessageContext(
        chat_name=chat.get("title", ""),
        thread_name=topic.get("name", ""),
        quoted=quoted_message,
        forwarded_from=_original_author(message),
        is_forum=bool(chat.get("is_forum")),
    )


def _original_author(message: Json) -> str:
    """Return the original author of a forwarded or inline-bot message; else empty."""
    origin = message.get("forward_origin")
    if not origin:
        return f"@{bot.get('username', '')}" if (bot := message.get("via_bot")) else ""
    by = next((origin[key] for key in ("sender_user", "sender_chat", "chat") if key in origin), {})
    return _name(by) or str(origin.get("sender_user_name", "")) or "somebody"  # a deleted account has no name


def _attachments(message: Json) -> list[Attachment]:
    if sizes := message.get("photo"):
        best = max(
            sizes, key=lambda size: (size.get("width", 0) * size.get("height", 0), size.get("file_size", 0))
        )
        return [_attachment("image", "photo", best)]
    for field, kind in _FILES.items():
        if file := message.get(field):
            return [_attachment(kind, field, file)]  # an animation has a document field too
    return []


def _attachment(kind: str, field: str, file: Json) -> Attachment:
    name = file.get("file_name") or (file.get("emoji", "") if kind == "sticker" else "")
    mime = file.get("mime_type") or _MIMES.get(field, "")
    if kind == "sticker":
        mime = (
            "application/x-tgsticker"
            if file.get("is_animated")
            else "video/webm"
            if file.get("is_video")
            else "image/webp"
        )
    return Attachment(kind, name, mime, key=file["file_id"], size_bytes=file.get("file_size"))


def _text_of_content(message: Json) -> str:
    """Return a text for a message without one: a place, contact, poll or dice."""
    if place := message.get("venue"):
        at = place["location"]
        return f"{place.get('title', '')}, {place.get('address', '')} ({at['latitude']}, {at['longitude']})"
    if at := message.get("location"):
        return f"({at['latitude']}, {at['longitude']})"
    if contact := message.get("contact"):
        return f"{_name(contact)}: {contact.get('phone_number', '')}"
    if poll := message.get("poll"):
        return "\n".join([poll["question"], *(f"- {option['text']}" for option in poll["options"])])
    if dice := message.get("dice"):
        return f"{dice.get('emoji', '')} {dice.get('value', '')}"
    return ""
