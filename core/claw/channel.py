"""The contract of a place to talk, and ``Door``: what it may ask of us."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, runtime_checkable

from claw.errors import ConfigError, DeliveryError
from claw.finding import Finding
from claw.message import Address, Attachment, Inbound, Outbound, Receipt


@dataclass(frozen=True, slots=True)
class Limits:
    """What one message may hold, and how fast one may be rewritten.

    :param text_chars: characters, or UTF-16 code units when ``utf16`` is set.
    :param media_in_bytes: the largest file that is fetched; ``media_out_bytes`` the largest that is sent.
    :param edit_seconds: pause between two edits of a message that grows.
    :param patience_seconds: how long a turn may take before signs of life and a text that grows are shown: what is
        answered sooner is one message, and no call more.
    :param repeat_seconds: how long a service that drops repeats (``idempotent``) remembers a key.
    """

    text_chars: int = 4000
    utf16: bool = False
    media_in_bytes: int = 20 << 20
    media_out_bytes: int = 20 << 20
    edit_seconds: float = 1.0
    patience_seconds: float = 0.3
    repeat_seconds: float = inf


@dataclass(frozen=True, slots=True)
class ChannelState:
    """How a channel is doing; ``claw channels status`` shows it.

    :param state: starting, up, waiting (it tries again by itself) or failed (only a person can mend it).
    :param detail: one line for people: why it waits or failed, and what to do.
    :param last_frame_at: when anything last came from the service, seconds since 1970; None = never.
    :param reconnects: how often the connection was made again.
    :param last_error: the newest one, also when it is over.
    """

    state: str = "starting"
    detail: str = ""
    last_frame_at: float | None = None
    reconnects: int = 0
    last_error: str = ""


class Door(Protocol):
    """What a channel may ask of the house."""

    async def submit(self, inbound: Inbound) -> bool:
        """Hand in what came. True: it is on disk and may be acknowledged (also when it was seen before).

        :raises UsageError: its ``tool_choice`` names a tool that its turn would not have. Nothing was taken in.
        """
        ...


class Writer(Protocol):
    """A reply that grows while people watch. One per turn; whatever happens, ``finish`` or ``abandon`` ends it.

    Where the service drops repeats it may also have ``messages(text)``, in how many messages a text stands, and
    ``async again(count)``, which posts the first ones once more under the same keys: so what a death left is found.
    """

    @property
    def shown(self) -> tuple[str, ...]:
        """Ids of the messages that stand there now, as :attr:`Outbound.replaces` wants them."""
        ...

    async def show(self, text: str) -> None:
        """The whole text so far. It may skip a state under pressure, and never raises for what the service says."""
        ...

    async def finish(self, outbound: Outbound) -> Receipt:
        """The final text, always written whole, in the place of what was shown.

        :raises DeliveryError: as for ``send``.
        """
        ...

    async def abandon(self) -> None:
        """There will be no final text here: leave nothing that looks as if it were still being written."""
        ...


WAITS = "waits"


class Channel(Protocol):
    """A place to talk.

    Everything in :class:`Talents` is optional: a channel has the methods that its service can do.

    :cvar capabilities: words such as threads, reactions, edit, delete, polls, buttons, media, typing, streaming; also
        ``idempotent`` when the service itself drops a second send of the same key, and ``names`` when people are to be
        named before their words in direct chats too, and ``waits`` when who writes waits for the answer on a connection
        of this process: nothing is acknowledged before, nothing that was said stands there after it.
    """

    name: str
    capabilities: frozenset[str]
    limits: Limits

    async def run(self, door: Door) -> None:
        """Listen until cancelled; every message goes to ``door.submit``, and is acknowledged once that says True."""
        ...

    async def send(self, outbound: Outbound) -> Receipt:
        """Say it, once for each ``outbound.key``.

        :raises DeliveryError: the service did not take it; the error says whether another try may help.
        """
        ...


@runtime_checkable
class Talents(Protocol):
    """What a channel may have beside the contract. Not to be inherited: have the methods you can keep."""

    account: str
    """Which of our accounts it serves, when there are several; ``default`` otherwise."""

    @property
    def state(self) -> ChannelState:
        """How it is doing."""
        ...

    def split(self, text: str) -> tuple[str, ...]:
        """Cut an answer into texts that fit into one message each; pure. Else :func:`claw.chunking.split` does."""
        ...

    def stream(self, outbound: Outbound) -> Writer:
        """A reply that grows; ``outbound`` says where, with an empty text. Nothing is sent yet."""
        ...

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Put another text in the place of one of our messages."""
        ...

    async def delete(self, address: Address, message_id: str) -> None:
        """Take one of our messages back."""
        ...

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Put our reaction on a message, or take it off."""
        ...

    async def poll(self, address: Address, question: str, options: tuple[str, ...]) -> Receipt:
        """Ask everybody in the chat."""
        ...

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Show for a few seconds that an answer is coming; asked again while a turn runs.

        :param message_id: what is being answered, for services that show it there.
        """
        ...

    async def settled(self, address: Address, message_id: str = "") -> None:
        """The turn is over: take back what ``typing`` left, where the service does not do so by itself."""
        ...

    def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of a file that came with a message, in pieces; the reader stops at its limit."""
        ...

    async def diagnose(self) -> Sequence[Finding]:
        """What is wrong with this account, by asking its service: credentials, rights, how it is set up there.

        ``claw doctor NAME`` asks it of a channel that does not listen, perhaps beside a gateway that does. Nothing is
        said to anybody and nothing is changed; ``about`` may be left empty. What it raises is told as a finding too.
        """
        ...


class Unready:
    """An account that cannot start, in the place of its channel, where others of the plugin can."""

    capabilities: frozenset[str] = frozenset()
    limits = Limits()

    def __init__(self, name: str, account: str, why: ConfigError) -> None:
        self.name, self.account, self.why = name, account, why
        self.state = ChannelState("failed", str(why), last_error=str(why))

    async def run(self, door: Door) -> None:
        """Say at once why not."""
        raise self.why

    async def send(self, outbound: Outbound) -> Receipt:
        """Nothing leaves here, until somebody mends it."""
        raise DeliveryError("{why}", why=self.why)

    async def diagnose(self) -> Sequence[Finding]:
        """What is missing."""
        return [Finding(self.why.where, "config", self.why.problem, self.why.fix)]
