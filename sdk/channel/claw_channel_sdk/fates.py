"""The fate of an accepted message, for a channel whose senders ask again for the same answer."""

from dataclasses import dataclass
from typing import Protocol

from claw import Inbound, Outbound


@dataclass(frozen=True, slots=True)
class MessageFate:
    """State and replies of an accepted message.

    :param event_id: as it was submitted; ``chat`` of its address.
    :param outcome: empty while its turn waits or runs. Else one word: the outcome of the turn (delivered,
        silent, stopped, failed), or the reason why it got none (command, overflow, interrupted …).
    :param replies: the messages of its turn so far, oldest first; those to other messages too.
    :param accepted_at_ms: milliseconds since 1970, UTC.
    :param ended_at_ms: end of its turn, likewise; None when that has not ended, or never was.
    """

    event_id: str
    chat: str
    outcome: str
    replies: tuple[Outbound, ...] = ()
    accepted_at_ms: int = 0
    ended_at_ms: int | None = None


class FateInbox(Protocol):
    """The inbox of a gateway whose turn log keeps replies; a channel looks for ``fate`` with ``getattr``."""

    async def submit(self, inbound: Inbound) -> bool:
        """Submit a message, as :class:`claw.Inbox`."""
        ...

    def fate(self, event_pattern: str) -> MessageFate | None:
        """Return the fate of the newest message of this channel whose event id matches.

        :param event_pattern: an event id, with ``*`` for any text at its beginning or its end.
        """
        ...
