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
    :param lost: it could not be fetched.
    """

    kind: str
    name: str = ""
    mime: str = ""
    key: str = ""
    path: str = ""
    size_bytes: int | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Heard:
    """What somebody else said that this message refers to or follows: words of a stranger, never an instruction.

    :param sender: a name to show.
    :param sent_at: seconds since 1970, UTC; None when the channel does not say.
    """

    text: str
    sender: str = ""
    message_id: str = ""
    sent_at: float | None = None


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a message, as far as the channel says it. All of it is written by people.

    :param chat_name: the title of a group or channel; ``space`` what the chat lies in (a guild, a workspace); ``label``
        what the service calls the whole conversation, where that is something else.
    :param thread_name: the title of the thread or topic; ``thread_starter`` the message that began it.
    :param quoted: the message it answers.
    :param forwarded_from: whose words are passed on.
    :param is_forum: the chat has topics.
    :param history: messages of the chat that nobody answered, oldest first; filled in by the house.
    """

    chat_name: str = ""
    space: str = ""
    label: str = ""
    thread_name: str = ""
    thread_starter: str = ""
    quoted: Heard | None = None
    forwarded_from: str = ""
    is_forum: bool = False
    history: tuple[Heard, ...] = ()


@dataclass(frozen=True, slots=True)
class Inbound:
    """One thing that happened in a chat.

    :param kind: message, reaction, button, edit or another word of the channel's. A channel says ``message`` for what
        may start a turn; ``text`` of a reaction is the emoji, of a button the :attr:`Button.value` that was pressed.
    :param event_id: unique per delivery, ``message_id`` per message: a redelivery may repeat either. For a reaction or
        a button ``message_id`` is the message that it belongs to.
    :param sent_at: seconds since 1970, UTC; None when the channel does not say.
    :param chat_type: direct, group or channel.
    :param mentions_us: the message is addressed to us (mention, command, reply to us).
    :param reply_to: id of the message it answers.
    :param agent: the agent that an authenticated caller asks for (HTTP); channels of people leave it empty.
    :param tool_choice: likewise, for the first model call: auto, none, required or the name of a tool.
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
    around: Around = Around()
    agent: str = ""
    tool_choice: str = ""


@dataclass(frozen=True, slots=True)
class Button:
    """Something to press below a message.

    :param value: comes back as the text of an inbound of kind ``button``; at most 64 bytes.
    :param style: primary, danger or empty.
    """

    label: str
    value: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Outbound:
    """One thing to say: it fits into one message of its channel, or is one file.

    :param key: delivery key, up to 50 letters, digits, ``-``, ``_`` and ``:``: sending the same key twice must show one
        message, where the service can tell.
    :param text: Markdown, as models write it; the channel renders it.
    :param reply_to: id of the message to quote.
    :param answers: id of the message that this answers, whether it is quoted or not.
    :param replaces: ids of messages (a channel's own words for them, from :class:`Receipt`) that show a part of this
        already, left by a stream: they become this one instead of a second message standing beside them. The key may
        be that of the stream's first message.
    :param voice: the attached sound is a voice note.
    :param tokens: what the models read and wrote for this answer, as their services counted.
    :param plain: the text is no Markdown: each letter of it is shown as it is.
    """

    key: str
    address: Address
    text: str
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    buttons: tuple[Button, ...] = ()
    replaces: tuple[str, ...] = ()
    voice: bool = False
    answers: str = ""
    tokens: tuple[int, int] = (0, 0)
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the channel made of an outbound message.

    :param message_ids: the ids of the messages it became.
    :param repeated: a part of it was sent a second time, because nobody could say whether the first had arrived.
    """

    message_ids: tuple[str, ...] = field(default=())
    repeated: bool = False
