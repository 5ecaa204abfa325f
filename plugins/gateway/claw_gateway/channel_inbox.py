"""The inbox that a channel gets while it is served."""

from typing import Protocol

from claw import Channel, Inbound, UsageError
from claw.runtime import account_of
from claw_channel_sdk import MessageFate


class MessageServer(Protocol):
    """The server of all channels, as one inbox needs it."""

    async def check_tool_choice(self, inbound: Inbound) -> None:
        """Check a tool that a caller names."""
        ...

    async def accept(self, inbound: Inbound) -> bool:
        """Journal a message, then handle it."""
        ...

    def fate(self, channel: str, account: str, event_pattern: str) -> MessageFate | None:
        """Return the fate of a message."""
        ...


class ChannelInbox:
    """The inbox as one channel sees it: it accepts messages of that channel only."""

    def __init__(self, server: "MessageServer", channel: Channel) -> None:
        self._server, self._channel_key = server, (channel.name, account_of(channel))

    async def submit(self, inbound: Inbound) -> bool:
        """Accept a message; return True once it may be acknowledged, also when it is a duplicate.

        :raises UsageError: it names another channel, or a tool that its turn would not have.
        """
        if (inbound.address.channel, inbound.address.account) != self._channel_key:
            raise UsageError(
                "channel {mine} submitted a message of channel {theirs}",
                mine="/".join(self._channel_key),
                theirs=f"{inbound.address.channel}/{inbound.address.account}",
            )
        await self._server.check_tool_choice(inbound)
        return await self._server.accept(inbound)

    def fate(self, event_pattern: str) -> MessageFate | None:
        """Return the fate of the newest message of this channel whose event id matches (``*`` = any text)."""
        return self._server.fate(*self._channel_key, event_pattern)
