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


def split_text(text: str, limits: Limits) -> tuple[str, ...]:
    """Cut ``text`` into messages that fit, at a paragraph, else a line, else a blank, else anywhere.

    The white space at a cut goes; everything else stays, in order. A character is never halved.
    """
    parts: list[str] = []
    while text := text.strip("\n"):
        end = _most(text, limits)
        if end < len(text):
            end = _cut(text, end)
        parts.append(text[:end].rstrip())
        text = text[end:].lstrip(" ")
    return tuple(part for part in parts if part)


def _most(text: str, limits: Limits) -> int:
    """How many characters of ``text`` fit into one message; at least one."""
    if not limits.utf16:
        return max(limits.text_chars, 1)
    units = 0
    for at, letter in enumerate(text):
        units += 2 if ord(letter) > 0xFFFF else 1
        if units > limits.text_chars:
            return max(at, 1)
    return len(text)


def _cut(text: str, end: int) -> int:
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark, end // 2, end + 1)
        if at > 0:
            return at
    return end
