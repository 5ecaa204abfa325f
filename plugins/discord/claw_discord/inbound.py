"""Translation of gateway dispatches into inbound messages. Pure.

Shapes from https://discord.com/developers/docs/resources/message and …/events/gateway-events.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from claw import Address, Attachment, Inbound, MessageContext, QuotedMessage, Sender

from claw_discord.chats import FORUM, MEDIA, THREAD_KINDS, DiscordChat, DiscordChats
from claw_discord.commands import line_of

READ = frozenset({"MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD", "INTERACTION_CREATE"})
"""The dispatches caused by an act of a user."""

_DISCORD_EPOCH_MS = 1420070400000
_USER_MESSAGE_TYPES = frozenset({0, 19, 20, 23})  # message types: default, reply, and those left by a command
_FORWARD = 1  # message_reference.type
COMMAND, _COMPONENT = 2, 3  # interaction types
_STICKER_ENDINGS = {1: "png", 2: "png", 3: "json", 4: "gif"}
_NO_PLACES = DiscordChats()


@dataclass(frozen=True, slots=True)
class DiscordBot:
    """Our bot: its user id, and the account of the config file that it serves."""

    user_id: str
    account: str = "default"


def to_inbound(
    frame: Mapping[str, Any],
    bot: DiscordBot,
    *,
    places: DiscordChats = _NO_PLACES,
    session: str = "",
    reactions: str = "off",
    auto_thread: bool = False,
    commands: Collection[str] = (),
) -> Inbound | None:
    """Read one dispatch; None for the bot's own messages, system messages, unfurled links and anything not
    done by a person.

    :param frame: as received, with ``t``, ``s`` and ``d``.
    :param session: gateway session id, so that a reaction gets an id of its own.
    :param reactions: off, own or all.
    :param auto_thread: answer a mention in a channel in a thread, which will have the message's id.
    :param commands: names of claw's chat commands.
    """
    event, data = frame.get("t"), frame.get("d")
    if not isinstance(data, Mapping):
        return None
    reader = _Reader(bot, places, auto_thread)
    if event == "MESSAGE_CREATE":
        return reader.message(data)
    if event == "MESSAGE_UPDATE":
        return reader.edit(data)
    if event == "INTERACTION_CREATE":
        return reader.command(data, commands) if data.get("type") == COMMAND else reader.button(data)
    if event == "MESSAGE_REACTION_ADD" and reactions != "off":
        return reader.reaction(data, f"{session}:{frame.get('s')}", own_only=reactions == "own")
    return None


def sent_at(id: str) -> float | None:
    """Return the creation time in an id, in seconds since 1970; None for a malformed id."""
    return ((int(id) >> 22) + _DISCORD_EPOCH_MS) / 1000 if id.isdigit() else None


def id_at(seconds: float) -> int:
    """Return the lowest id of a moment, given in seconds since 1970."""
    return max(int(seconds * 1000) - _DISCORD_EPOCH_MS, 0) << 22


class _Reader:
    """Reader of the dispatches of one account."""

    def __init__(self, bot: DiscordBot, places: DiscordChats, auto_thread: bool) -> None:
        self._me, self._account, self._places, self._auto_thread = (
            bot.user_id,
            bot.account,
            places,
            auto_thread,
        )

    def message(self, data: Mapping[str, Any]) -> Inbound | None:
        author = data.get("author") or {}
        ours = str(author.get("id")) == self._me
        if ours or not author or data.get("type", 0) not in _USER_MESSAGE_TYPES:
            return None
        id = str(data["id"])
        place = self._place(data)
        mentioned = self._is_for_us(data)
        thread = place.id if place.is_thread else None
        if self._auto_thread and mentioned and data.get("guild_id") and place.kind in (0, 5):
            thread = id  # the thread opened under a message gets the message's id
        reference = data.get("message_reference") or {}
        forwarded = reference.get("type", 0) == _FORWARD
        return Inbound(
            self._address(place, thread),
            self._text(data, forwarded),
            sender_of(data),
            message_id=id,
            event_id=id,
            sent_at=_seconds(data.get("timestamp")) or sent_at(id),
            chat_type="group" if data.get("guild_id") else "direct",
            mentions_us=mentioned,
            reply_to=None if forwarded else _id(reference.get("message_id")),
            attachments=attachments_of(data),
            around=self._around(data, place, forwarded),
        )

    def edit(self, data: Mapping[str, Any]) -> Inbound | None:
        """Read an edit by a person; the update of an unfurled link has no edit time."""
        changed = data.get("edited_timestamp")
        inbound = self.message(data) if changed else None
        if inbound is None:
            return None
        return replace(inbound, kind="edit", event_id=f"edit:{inbound.message_id}:{changed}")

    def button(self, data: Mapping[str, Any]) -> Inbound | None:
        pressed = data.get("data") or {}
        if data.get("type") != _COMPONENT or not pressed.get("custom_id"):
            return None
        values = pressed.get("values") or ()
        text = str(values[0]) if values else str(pressed["custom_id"])
        return self._interaction(data, "button", text, str((data.get("message") or {}).get("id") or ""))

    def command(self, data: Mapping[str, Any], names: Collection[str]) -> Inbound | None:
        """Read an application command as the equivalent command line."""
        line = line_of(data.get("data") or {}, names)
        return self._interaction(data, "message", line, str(data["id"])) if line else None

    def _interaction(self, data: Mapping[str, Any], kind: str, text: str, message_id: str) -> Inbound:
        place = self._place({"channel_type": channel_kind(data), **data})
        return Inbound(
            self._address(place, place.id if place.is_thread else None),
            text,
            sender_of({"author": data.get("user") or {}, **data}),
            message_id=message_id,
            event_id=str(data["id"]),
            kind=kind,
            sent_at=sent_at(str(data["id"])),
            chat_type="group" if data.get("guild_id") else "direct",
            mentions_us=True,
            around=self._around(data, place, forwarded=False),
        )

    def reaction(self, data: Mapping[str, Any], event_id: str, *, own_only: bool) -> Inbound | None:
        on_ours = str(data.get("message_author_id")) == self._me
        user = str(data.get("user_id") or "")
        if user in ("", self._me) or (own_only and not on_ours):
            return None
        emoji = data.get("emoji") or {}
        custom = f"{emoji.get('name')}:{emoji['id']}" if emoji.get("id") else str(emoji.get("name") or "")
        place = self._place(data)
        person = (data.get("member") or {}).get("user") or {"id": user}
        return Inbound(
            self._address(place, place.id if place.is_thread else None),
            custom,
            sender_of({"author": person, **data}),
            message_id=str(data["message_id"]),
            event_id=f"reaction:{event_id}",
            kind="reaction",
            chat_type="group" if data.get("guild_id") else "direct",
            mentions_us=on_ours,
            around=self._around(data, place, forwarded=False),
        )

    def _place(self, data: Mapping[str, Any]) -> DiscordChat:
        """Return the place of a dispatch as far as it is known; the message itself carries the channel type."""
        id = str(data["channel_id"])
        known = self._places.get(id)
        return known or DiscordChat(
            id, int(data.get("channel_type") or 0), guild=str(data.get("guild_id") or "")
        )

    def _address(self, place: DiscordChat, thread: str | None) -> Address:
        chat = place.parent or place.id if place.is_thread else place.id
        return Address("discord", chat, self._account, thread)

    def _is_for_us(self, data: Mapping[str, Any]) -> bool:
        """Return true for a mention by id, or a reply to the bot, whose ping may be off. @everyone does not count."""
        answered = (data.get("referenced_message") or {}).get("author") or {}
        named = (one.get("id") for one in data.get("mentions") or ())
        return self._me in map(str, named) or str(answered.get("id")) == self._me

    def _text(self, data: Mapping[str, Any], forwarded: bool) -> str:
        text = readable(data.get("content") or "", self._me, data.get("mentions") or ())
        forwarded_texts = (
            readable(one.get("content") or "", self._me, one.get("mentions") or ())
            for one in (_snapshots(data) if forwarded else ())
        )
        return "\n".join(part for part in (text, *forwarded_texts) if part)

    def _around(self, data: Mapping[str, Any], place: DiscordChat, forwarded: bool) -> MessageContext:
        above = self._places.parent_of(place.id) if place.is_thread else place
        quoted = data.get("referenced_message") or {}
        return MessageContext(
            chat_name=above.name if above else "",
            space=place.guild_name,
            thread_name=place.name if place.is_thread else "",
            quoted=read_quoted_message(quoted, self._me) if quoted else None,
            forwarded_from="a message in another chat" if forwarded else "",
            is_forum=bool(above and above.kind in (FORUM, MEDIA)),
        )


def readable(content: str, me: str, mentions: Iterable[Mapping[str, Any]]) -> str:
    """Return a text without the bot's own mention, other mentions as ``@name``."""
    names = {str(one.get("id")): _name(one) for one in mentions}

    def named(match: re.Match[str]) -> str:
        return f"@{names[match[1]]}" if match[1] in names else match[0]

    def gone(match: re.Match[str]) -> str:
        start, end = match.span()
        inside = start > 0 and end < len(content) and content[start - 1] != "\n" and content[end] != "\n"
        return " " if inside and match[0] != match[0].strip() else ""

    if me:
        content = re.sub(rf"[ \t]*<@!?{re.escape(me)}>[ \t]*", gone, content)
    return re.sub(r"<@!?(\d+)>", named, content).strip()


def read_quoted_message(message: Mapping[str, Any], me: str) -> QuotedMessage:
    """Read a message that another one refers to."""
    return QuotedMessage(
        readable(message.get("content") or "", me, message.get("mentions") or ()),
        sender_of(message).name,
        str(message.get("id") or ""),
        _seconds(message.get("timestamp")),
    )


def sender_of(data: Mapping[str, Any]) -> Sender:
    """Return the author. A webhook counts as a program, whatever name it shows."""
    member = data.get("member") or {}
    author = data.get("author") or member.get("user") or {}
    return Sender(
        str(author.get("id") or ""),
        str(member.get("nick") or _name(author)),
        str(author.get("username") or ""),
        is_bot=bool(author.get("bot") or data.get("webhook_id")),
    )


def attachments_of(data: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """Return files and stickers of a message and of one that it forwards. The key is the file's id."""
    found = []
    for one in (data, *_snapshots(data)):
        found += [_file(file) for file in one.get("attachments") or ()]
        found += [
            Attachment("sticker", str(sticker.get("name") or ""), key=f"sticker:{sticker['id']}.{ending}")
            for sticker in one.get("sticker_items") or ()
            if (ending := _STICKER_ENDINGS.get(sticker.get("format_type", 0)))
        ]
    return tuple(found)


def files_of(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the current URLs of the files of a message, by id. They are signed and expire."""
    return {
        str(file["id"]): str(file["url"])
        for one in (data, *_snapshots(data))
        for file in one.get("attachments") or ()
    }


def channel_kind(data: Mapping[str, Any]) -> int:
    """Return the channel type that a dispatch states, if any."""
    return int(data.get("channel_type") or (data.get("channel") or {}).get("type") or 0)


def is_in_thread(data: Mapping[str, Any]) -> bool:
    """Return true if a dispatch states that it happened in a thread."""
    return channel_kind(data) in THREAD_KINDS


def _file(file: Mapping[str, Any]) -> Attachment:
    mime = str(file.get("content_type") or "").partition(";")[0]
    kind = mime.partition("/")[0]
    size = file.get("size")
    return Attachment(
        kind if kind in ("image", "audio", "video") else "file",
        str(file.get("filename") or ""),
        mime,
        str(file["id"]),
        size_bytes=size if isinstance(size, int) else None,
    )


def _snapshots(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one["message"] for one in data.get("message_snapshots") or () if one.get("message")]


def _name(user: Mapping[str, Any]) -> str:
    return str(user.get("global_name") or user.get("username") or "")


def _id(value: Any) -> str | None:
    return str(value) if value else None


def _seconds(stamp: Any) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (TypeError, ValueError):
        return None
