"""Messages of channels: addresses, senders, files, inbound and outbound messages, requests for approval."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from claw.contracts.errors import ToolError


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a chat: one account of one channel, one chat in it, perhaps one thread.

    :param chat: the channel's own stable id of the chat (for a direct chat, the one that the channel answers
        to).
    :param account: which of our accounts on that channel.
    """

    channel: str
    chat: str
    account: str = "default"
    thread: str | None = None


@dataclass(frozen=True, slots=True)
class Sender:
    """The author of a message. Only ``id`` is ever compared with a list of people: anyone can choose a name.

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
    :param key: what the channel needs to fetch it; ``path`` is set once it is on this machine.
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
class QuotedMessage:
    """A message of another author that this message refers to or follows: untrusted text, never an
    instruction.

    :param sender: a name to show.
    :param sent_at: seconds since 1970, UTC; None when the channel does not say.
    """

    text: str
    sender: str = ""
    message_id: str = ""
    sent_at: float | None = None


@dataclass(frozen=True, slots=True)
class MessageContext:
    """The context of a message, as far as the channel reports it. All of it is written by people.

    :param chat_name: the title of a group or channel; ``space`` the guild or workspace of the chat; ``label``
        the service's name of the whole conversation, where that is something else.
    :param thread_name: the title of the thread or topic; ``thread_starter`` the message that began it.
    :param quoted: the message it answers.
    :param forwarded_from: the author of forwarded text.
    :param is_forum: the chat has topics.
    :param history: unanswered messages of the chat, oldest first; filled in by claw.
    """

    chat_name: str = ""
    space: str = ""
    label: str = ""
    thread_name: str = ""
    thread_starter: str = ""
    quoted: QuotedMessage | None = None
    forwarded_from: str = ""
    is_forum: bool = False
    history: tuple[QuotedMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class Inbound:
    """One event in a chat.

    :param kind: message, reaction, button, edit or another word of the channel's. A channel says ``message``
        for what may start a turn; ``text`` of a reaction is the emoji, of a button the :attr:`Button.value`
        that was pressed.
    :param event_id: unique per delivery, ``message_id`` per message: a redelivery may repeat either. For a
        reaction or a button ``message_id`` is the message that it belongs to.
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
    around: MessageContext = MessageContext()
    agent: str = ""
    tool_choice: str = ""


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a message.

    :param value: comes back as the text of an inbound of kind ``button``; at most 64 bytes.
    :param style: primary, danger or empty.
    """

    label: str
    value: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Outbound:
    """One reply: it fits into one message of its channel, or is one file.

    :param key: delivery key, up to 50 letters, digits, ``-``, ``_`` and ``:``: sending the same key twice
        must show one message, where the service can tell.
    :param text: Markdown, as models write it; the channel renders it.
    :param reply_to: id of the message to quote.
    :param answers: id of the message that this answers, whether it is quoted or not.
    :param replaces: ids of messages (in the channel's own form, from :class:`Receipt`) that a stream left
        with a part of this: they become this message, so that there is no second one. The key may
        be that of the stream's first message.
    :param voice: the attached sound is a voice note.
    :param tokens: what the models read and wrote for this answer, as their services counted.
    :param plain: the text is no Markdown: each character of it is shown as it is.
    :param stop_reason: why the answer ends: stop, length (cut off at its limit) or, in place of an answer, the
        ``reason`` of a ``ProviderError``, budget, overflow (too many messages wait) or error.
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
    stop_reason: str = "stop"


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an outbound message.

    :param message_ids: the ids of the messages it became.
    :param repeated: a part of it was sent a second time, because the arrival of the first was unknown.
    """

    message_ids: tuple[str, ...] = field(default=())
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class AcceptedEvent:
    """An inbound event that was accepted, and its number in the inbox (in order of arrival).

    :param number: 0 when no inbox holds it, as from a terminal.
    """

    number: int
    inbound: Inbound


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A call, or a part of what it does, that a person is asked to allow. Configured secrets are masked in its texts.

    :param tool: name of the tool.
    :param title: the reason, one line; may be empty.
    :param shown: the text that the person must read whole: all arguments, a command, a difference.
    :param digest: of all that decides the effect, the environment of programs too: two requests of a turn with the same
        digest are the same request, also after a restart.
    :param address: the chat that the turn came from.
    :param sender: the person whose message led to the call; None in a request that was read from a store.
    :param grant: digest of what a lasting permission covers, equal in every turn; empty = it can only be allowed once.
    :param owner: the sender is an owner.
    :param for_owners: only an owner may answer, whoever the approvers are.
    :param arguments: a copy; those of a request that was read from a store are empty.
    :param plugin: the plugin that registers the tool; ``effects``: none, idempotent or once, as the tool says.
    """

    session_key: str
    agent: str
    turn: str
    tool: str
    title: str
    shown: str
    digest: str
    address: Address
    sender: Sender | None = None
    grant: str = ""
    owner: bool = False
    chat_type: str = "group"
    for_owners: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    plugin: str = ""
    effects: str = "once"


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer of an approver.

    :param verdict: ``once`` and ``always`` allow this call; ``deny`` refuses it; ``nobody`` refuses it too: there is no
        person who could be asked.
    :param reason: of a refusal, for the model.
    """

    verdict: Literal["once", "always", "deny", "nobody"]
    reason: str = ""

    @property
    def allowed(self) -> bool:
        """True if the call may run."""
        return self.verdict in ("once", "always")


def text_sender(
    key: str, inbound: Inbound, deliver: Callable[[Outbound], Awaitable[Receipt | None]]
) -> Callable[..., Awaitable[tuple[str, ...]]]:
    """Return the ``send`` of tools when no plugin provides chat access: texts to the chat that the turn answers in.

    :param key: prefix of the delivery keys of this call.
    :param deliver: sends a message; returns None when it was dropped.
    """
    keys = (f"{key}.{number}" if number > 1 else key for number in count(1))

    async def send(text: str, paths: Sequence[str] = ()) -> tuple[str, ...]:
        if paths:
            raise ToolError("only text to this chat can be sent: more needs the plugin claw-gateway")
        reply = Outbound(next(keys), inbound.address, text, answers=inbound.message_id)
        receipt = await deliver(reply)
        return receipt.message_ids if receipt else ()

    return send
