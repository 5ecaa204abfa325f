"""What crosses a channel: where it comes from or goes to, what came in, what goes out."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Address:
    """A place to talk: one chat of one account of one channel, perhaps one thread in it.

    :param chat: the channel's own stable id of the chat (for a direct chat, what the channel answers to).
    :param account: which of our accounts on that channel.
    """

    channel: str
    chat: str
    account: str = "default"
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """Who wrote. Only ``id`` is ever compared with a list of people: names can be chosen by anyone.

    :param e164: a phone number in international form, when the channel knows one.
    """

    id: str
    name: str = ""
    username: str = ""
    e164: str = ""
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file that came with a message or goes with one.

    :param kind: image, file, audio, video or sticker.
    :param key: what the channel wants back to fetch it; ``path`` is set once it lies on this machine.
    """

    kind: str
    name: str = ""
    mime: str = ""
    key: str = ""
    path: str = ""
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Inbound:
    """One thing that happened in a chat.

    :param kind: message, reaction, button, edit or another word of the channel's.
    :param event_id: unique per delivery, ``message_id`` per message: a redelivery may repeat either.
    :param sent_at: seconds since 1970, UTC; None when the channel does not say.
    :param chat_type: direct, group or channel.
    :param mentions_us: the message is addressed to us (mention, command, reply to us).
    """

    address: Address
    text: str
    sender: Sender
    message_id: str = ""
    event_id: str = ""
    kind: str = "message"
    sent_at: float | None = None
    chat_type: str = "direct"
    mentions_us: bool = False
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Outbound:
    """One thing to say.

    :param key: delivery key: sending the same key twice must show one message.
    """

    key: str
    address: Address
    text: str
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the channel made of an outbound message: the ids of the messages it became."""

    message_ids: tuple[str, ...] = field(default=())
