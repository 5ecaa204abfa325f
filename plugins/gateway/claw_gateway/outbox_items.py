"""The work that waits in the outbox of one chat."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from claw import Address, Channel, DeliveryError, Outbound, Receipt, t
from claw.runtime import Clock
from claw_channel_sdk import StreamingReply

LATE_SECONDS = 60.0
"""Time after which the log says why a message is not delivered yet."""


class UnexpectedError(DeliveryError):
    """An exception outside of the contract that a channel raised."""


@dataclass
class QueuedReply:
    """One message on its way, with the future that waits for its receipt.

    :ivar repeated: a stream may have posted a part of it already: find that part, or mark the next send as a repeat.
    :ivar in_doubt: it may be in the chat already; settle that in place of sending it.
    :ivar searches: how often messages of its stream were searched.
    """

    outbound: Outbound
    repeated: bool = False
    in_doubt: bool = False
    receipt: "asyncio.Future[Receipt] | None" = None
    searches: int = 0

    def fail(self, why: Exception) -> None:
        """Give the failure to who waits for the receipt."""
        if self.receipt and not self.receipt.done():
            self.receipt.set_exception(why)


class LateReport:
    """Log once why a message is not delivered yet, when its service has failed for a while: later ones wait behind it."""

    def __init__(self, clock: Clock, name: str, log: Callable[[str], None]) -> None:
        self._clock, self._name, self._log = clock, name, log
        self._due: float | None = clock.monotonic() + LATE_SECONDS

    def failed(self, why: DeliveryError) -> None:
        """Note a failed try."""
        if self._due is not None and self._clock.monotonic() > self._due:
            self._due = None
            text = "channel {name}: a reply is still not sent, and later ones of its chat wait: {why}"
            self._log(t(text, name=self._name, why=why))


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
