"""The work that waits in the outbox of one chat."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from claw import Address, Channel, DeliveryError, Outbound, Receipt
from claw_channel_sdk import StreamingReply


class UnexpectedError(DeliveryError):
    """An exception outside of the contract that a channel raised."""


@dataclass
class QueuedReply:
    """One message on its way, with the future that waits for its receipt.

    :ivar repeated: a stream may have posted a part of it already: find that part, or mark the next send as a repeat.
    :ivar in_doubt: it may be in the chat already; settle that in place of sending it.
    """

    outbound: Outbound
    repeated: bool = False
    in_doubt: bool = False
    receipt: "asyncio.Future[Receipt] | None" = None

    def fail(self, why: Exception) -> None:
        """Give the failure to who waits for the receipt."""
        if self.receipt and not self.receipt.done():
            self.receipt.set_exception(why)


@dataclass
class UnfinishedReply:
    """A streaming reply: its writer, the whole text, the ledger rows that it settles, the channel of the writer."""

    writer: StreamingReply
    whole: Outbound
    rows: Sequence[Outbound]
    of: Channel | None


@dataclass(frozen=True)
class SettledMessage:
    """A message that gets no more replies: its channel may clear its typing signs."""

    address: Address
    message_id: str


OutboxItem = QueuedReply | UnfinishedReply | SettledMessage
