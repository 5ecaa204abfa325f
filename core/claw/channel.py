"""The contract of a place to talk, and ``Door``: what it may ask of us."""

from dataclasses import dataclass
from typing import Protocol

from claw.message import Inbound, Outbound, Receipt


@dataclass(frozen=True, slots=True)
class Limits:
    """What one message may hold. ``text_units`` counts UTF-16 code units when ``utf16`` is set, characters otherwise."""

    text_chars: int = 4000
    utf16: bool = False


class Door(Protocol):
    """What a channel may ask of the house."""

    async def submit(self, inbound: Inbound) -> bool:
        """Hand in what came. True: it is on disk and may be acknowledged (also when it was seen before)."""
        ...


class Channel(Protocol):
    """A place to talk.

    Optional beside these: ``stream(outbound)``, ``edit``, ``react``, ``typing``, ``close``, and
    ``async hear(event, inbound)`` for a channel that shows a turn while it runs.

    :cvar capabilities: words such as threads, reactions, edit, inlineButtons.
    """

    name: str
    capabilities: frozenset[str]
    limits: Limits

    async def run(self, door: Door) -> None:
        """Listen until cancelled; every message goes to ``door.submit``."""
        ...

    async def send(self, outbound: Outbound) -> Receipt:
        """Say it, once for each ``outbound.key``."""
        ...
