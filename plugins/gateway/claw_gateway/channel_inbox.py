"""The inbox that a channel gets while it is served."""

from dataclasses import replace
from typing import Protocol

from claw import Channel, Inbound, UsageError
from claw.runtime import OPERATOR_ONLY, WORDS_CHARS, account_of
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
        self._server, self._channel = server, channel
        self._channel_key = channel.name, account_of(channel)

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
        if OPERATOR_ONLY not in self._channel.capabilities:  # that one has a limit of its own
            inbound = _shortened(inbound)
        return await self._server.accept(inbound)

    def fate(self, event_pattern: str) -> MessageFate | None:
        """Return the fate of the newest message of this channel whose event id matches (``*`` = any text)."""
        return self._server.fate(*self._channel_key, event_pattern)


def is_too_long(inbound: Inbound) -> bool:
    """Return true if a message of a person is longer than a model is given."""
    return len(inbound.text) > WORDS_CHARS


def _shortened(inbound: Inbound) -> Inbound:
    """Return a message whose texts are not kept on disk and in memory beyond the limit; it remains too long."""
    quoted, starter = inbound.around.quoted, inbound.around.thread_starter[:WORDS_CHARS]
    quoted = replace(quoted, text=quoted.text[:WORDS_CHARS]) if quoted else None
    around = replace(inbound.around, quoted=quoted, thread_starter=starter)
    return replace(inbound, text=inbound.text[: WORDS_CHARS + 1], around=around)
