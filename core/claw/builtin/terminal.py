"""The terminal as a channel: what is sent is printed, and ``claw chat`` does the asking."""

import asyncio
import sys
from typing import TextIO

from claw import Door, Limits, Outbound, Receipt


class Terminal:
    """The person at this terminal.

    :param out: where it is printed; None = stdout.
    """

    name = "terminal"
    capabilities: frozenset[str] = frozenset()
    limits = Limits(text_chars=1_000_000)

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._sent = 0

    async def run(self, door: Door) -> None:
        """Nothing comes in by itself: ``claw chat`` asks for each line."""
        await asyncio.Event().wait()

    async def send(self, outbound: Outbound) -> Receipt:
        """Print it."""
        self._sent += 1
        out = self._out or sys.stdout
        out.write(outbound.text.rstrip("\n") + "\n")
        out.flush()
        return Receipt((f"terminal-{self._sent}",))
