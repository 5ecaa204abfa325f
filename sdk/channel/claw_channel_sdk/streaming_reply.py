"""The contract of a reply that is shown while it is written."""

from typing import Protocol

from claw import Outbound, Receipt


class StreamingReply(Protocol):
    """A streaming reply. One per turn; whatever happens, ``finish`` or ``abandon`` ends it.

    Where the service drops repeats it may also have ``messages(text)``, the number of messages that a text takes, and
    ``async again(count, known)``, which posts the first ones once more with the same keys: this finds what a crash left.
    The ids in ``known`` are of the first of them, which are not posted again but are ``shown`` too. A writer that can
    tell that no other was posted raises LookupError.
    """

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the messages that are posted now, as :attr:`Outbound.replaces` takes them."""

    async def show(self, text: str) -> None:
        """Show the whole text so far. May skip a state under load; never raises for an error of the service."""

    async def finish(self, outbound: Outbound) -> Receipt:
        """Write the final text, always whole, in the place of what was shown.

        :raises DeliveryError: as for ``send``.
        """

    async def abandon(self) -> None:
        """End without a final text: leave nothing that looks as if it were still being written."""
