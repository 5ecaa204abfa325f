"""The channel contract: channels, ``Inbox`` (what a channel may ask of the runtime), and chat commands."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, Protocol

from claw.contracts.messages import Inbound, Outbound, Receipt


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The limits of one message: its size, and how fast it may be edited.

    :param text_chars: characters, or UTF-16 code units when ``utf16`` is set.
    :param media_in_bytes: the largest file that is fetched; ``media_out_bytes`` the largest that is sent.
    :param edit_seconds: pause between two edits of a streaming reply.
    :param quiet_seconds: how long a turn may take before typing signs are shown, and its text may grow before it is
        shown: an answer that is ready sooner is one message, without a further call.
    :param repeat_seconds: how long a service that drops repeats (``idempotent``) remembers a key.
    """

    text_chars: int = 4000
    utf16: bool = False
    media_in_bytes: int = 20 << 20
    media_out_bytes: int = 20 << 20
    edit_seconds: float = 1.0
    quiet_seconds: float = 0.3
    repeat_seconds: float = inf


@dataclass(frozen=True, slots=True)
class ChannelState:
    """The state of a channel; ``claw channels status`` shows it.

    :param state: starting, up, waiting (it tries again by itself) or failed (only a person can fix it).
    :param detail: one line for people: why it waits or failed, and what to do.
    :param last_frame_at: when anything last came from the service, seconds since 1970; None = never.
    :param reconnects: how often the connection was made again.
    :param last_error: the newest error, also when it is over.
    """

    state: str = "starting"
    detail: str = ""
    last_frame_at: float | None = None
    reconnects: int = 0
    last_error: str = ""


class Inbox(Protocol):
    """The runtime as a channel sees it."""

    async def submit(self, inbound: Inbound) -> bool:
        """Submit a message. True: it is on disk and may be acknowledged (also when it was seen before).

        :raises UsageError: its ``tool_choice`` names a tool that its turn would not have. The message was not accepted.
        """


WAITS_FOR_REPLY = "waits"
OPERATOR_ONLY = "operator"
"""Capability of a channel on which only the operator writes, or a program with the operator's token. It decides on text
alone: the sender of a direct chat is not described to the model. It gives the sender no rights."""


class Channel(Protocol):
    """A chat service, or one account of it.

    Everything in :class:`claw_channel_sdk.OptionalChannelMethods` is optional: a channel has the methods that its service
    supports.

    :cvar capabilities: words such as threads, reactions, edit, delete, polls, buttons, media, typing, streaming; also
        ``idempotent`` when the service itself drops a second send of the same key; ``names`` when the sender's name
        precedes the words in direct chats too; ``operator`` when only the operator writes there, or a program with the
        operator's token, so that the sender is not described to the model; ``waits`` when the sender waits for the answer
        on a connection of this process: nothing is acknowledged before it ends, and no message remains there afterwards.
    """

    name: str
    capabilities: frozenset[str]
    limits: ChannelLimits

    async def run(self, inbox: Inbox) -> None:
        """Listen until cancelled; pass each message to ``inbox.submit``, and acknowledge it once that returns true."""

    async def send(self, outbound: Outbound) -> Receipt:
        """Send a message, once for each ``outbound.key``.

        :raises DeliveryError: the service did not accept it; the error says if another try may help.
        """


ConversationChange = Literal["never", "with-arguments", "always"]


class ChatCommand(Protocol):
    """A command that people type in a chat, ``/name``.

    ``name`` has up to 32 lower-case letters, digits and underscores, without the slash; ``summary`` is one line, in
    English. It may have:

    - ``usage``: the arguments, for the help: ``[on | off]``.
    - ``owner_only``: only an owner may use it.
    - ``changes``: ``never`` (the default), ``with-arguments`` or ``always``: when the command changes the conversation
      for all people in the chat. In a group only an owner may then use it.
    - ``is_long``: it waits for a model: a channel runs it in the background, and ``/stop`` ends it.
    - ``position``: of the first command of a name; also the order of ``/help``.
    """

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def run(self, arguments: str, conversation: Any) -> Awaitable[str]:
        """Carry the command out and return the answer; a coroutine function. The text of a ``ClawError`` is shown too.

        :param arguments: the text after the name.
        :param conversation: a :class:`claw_channel_sdk.Conversation`.
        """


@dataclass(frozen=True)
class FunctionCommand:
    """A :class:`ChatCommand` made of a coroutine function ``run(arguments, conversation)``."""

    name: str
    summary: str
    run: Callable[[str, Any], Awaitable[str]]
    usage: str = ""
    owner_only: bool = False
    changes: ConversationChange = "never"
    is_long: bool = False
    position: float = 100.0
