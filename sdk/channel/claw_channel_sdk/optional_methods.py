"""Optional methods of a channel."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from claw import Address, Attachment, Channel, ChannelState, Finding, Inbound, Outbound, Receipt

from claw_channel_sdk import StreamingReply
from claw_channel_sdk.sent_messages import SentSearch


class OptionalChannelMethods(Protocol):
    """Optional methods of a channel. Do not inherit: define the methods that the service supports."""

    account: str
    """The account that it serves, when there are several; ``default`` otherwise."""

    @property
    def state(self) -> ChannelState:
        """The state of the channel."""
        ...

    def split(self, text: str) -> tuple[str, ...]:
        """Split an answer into texts of one message each; pure. Default: ``split_text``."""
        ...

    def stream(self, outbound: Outbound) -> StreamingReply:
        """Return a streaming reply; ``outbound`` holds the address, with an empty text. Sends nothing yet."""
        ...

    async def wait_for_rate_limit(self, address: Address) -> None:
        """Wait, however long it takes, until the rate limits of the service allow one more message to this chat.

        The gateway calls it before it records that a message is being sent: a process that ends during the wait sends the
        message at its next start. Allow chats in turn, and exceed no limit by the send that follows at once.
        """
        ...

    async def edit(self, address: Address, message_id: str, text: str) -> None:
        """Replace the text of one of our messages."""
        ...

    async def delete(self, address: Address, message_id: str) -> None:
        """Delete one of our messages."""
        ...

    async def find_sent(self, search: SentSearch) -> tuple[str, ...]:
        """Return the ids of our own messages that match a search, oldest first.

        The gateway looks so for a message whose id a crash or a lost response hid: it edits it into the answer, or
        deletes it. A message of anybody else must never be returned.

        :raises DeliveryError: the service cannot be asked now or, if permanent, not for this search.
        """
        ...

    async def react(self, address: Address, message_id: str, emoji: str, remove: bool = False) -> None:
        """Add our reaction to a message, or remove it."""
        ...

    async def poll(self, address: Address, question: str, options: tuple[str, ...]) -> Receipt:
        """Post a poll in the chat."""
        ...

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Show for a few seconds that an answer is coming; called again while a turn runs.

        :param message_id: the message that is answered, for services that show the sign there.
        """
        ...

    async def settled(self, address: Address, message_id: str = "") -> None:
        """Remove what ``typing`` left after the turn, where the service does not do so by itself."""
        ...

    async def remove_left_typing(self, address: Address, message_id: str) -> None:
        """Remove what ``typing`` of a process that was killed left at a message; do nothing if this process shows it.

        The gateway calls it at its start, for messages that were being answered when the process before ended.

        :raises DeliveryError: it is called again, unless that is permanent.
        """
        ...

    def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the bytes of a file that came with a message; the reader stops at its limit."""
        ...

    def take_over(self, before: Channel) -> None:
        """Take over what must stay open when the settings of this account change in a running gateway.

        Called on the channel with the new settings, before its ``run``, while the ``run`` of the one that it replaces
        is not yet cancelled: that one must leave open what was taken, such as a listening socket.
        """
        ...

    async def diagnose(self) -> Sequence[Finding]:
        """Ask the service what is wrong with this account: credentials, rights, its setup there.

        ``claw doctor NAME`` calls it on a channel that does not listen, perhaps while a gateway does. It sends and
        changes nothing; ``about`` may be left empty. An exception is reported as a finding too.
        """
        ...

    async def facts(self) -> Sequence[str]:
        """Return lines about this account for ``claw doctor NAME``: who the bot is, how it is connected.

        Asked after ``diagnose`` found nothing that affects the exit code; it sends and changes nothing.
        """
        ...
