"""The terminal as a channel: prints outbound messages; ``claw chat`` reads the input."""

import asyncio
import sys
from collections.abc import Iterable
from typing import TextIO

from claw import (
    Channel,
    ChannelLimits,
    Inbox,
    Outbound,
    PluginConfig,
    PromptSection,
    Receipt,
    hookimpl,
)
from claw.contracts.prompt import default_sections


class TerminalChannel:
    """The channel of the person at this terminal.

    :param out: the stream to print to; None = stdout.
    """

    name = "terminal"
    capabilities: frozenset[str] = frozenset()
    limits = ChannelLimits(text_chars=1_000_000)

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._sent = 0

    async def run(self, inbox: Inbox) -> None:
        """Wait until cancelled: ``claw chat`` reads the input, the channel receives nothing."""
        await asyncio.Event().wait()

    async def send(self, outbound: Outbound) -> Receipt:
        """Print the message."""
        self._sent += 1
        out = self._out or sys.stdout
        out.write(outbound.text.rstrip("\n") + "\n")
        out.flush()
        return Receipt((f"terminal-{self._sent}",))


@hookimpl
def register_channels(config: PluginConfig) -> Iterable[Channel]:
    """Contribute the terminal."""
    return [TerminalChannel()]


@hookimpl
def register_prompt_sections(config: PluginConfig) -> Iterable[PromptSection]:
    """Contribute the least that a system prompt needs."""
    return default_sections()
