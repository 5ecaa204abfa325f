"""A channel that lives with the fake, and a gateway that writes down what it is handed."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import claw_discord
from claw import Address, HttpClients, Inbound, Outbound
from claw_channel_sdk import read_accounts
from claw_discord.channel import DiscordChannel
from claw_discord.client import ConnectionTimings
from claw_discord.fake import FakeDiscord
from claw_testing import bench

QUICK = ConnectionTimings(
    heartbeat=1.0, silence=30.0, watch=0.02, identify=0.0, first_pause=0.02, longest_pause=0.1, call=2.0, close=0.5,
    note=0.02, again=0.03,
)  # fmt: skip
_NETWORKS: dict[DiscordChannel, HttpClients] = {}
MENU = (
    ("help", "show these commands", ""),
    ("new", "start a new conversation", "[provider/model] [text]"),
    ("stop", "stop the running turn", ""),
    ("status", "agent, model, conversation", ""),
    ("model", "show or choose the model", "[provider/model[@key] | default]"),
    ("approve", "answer an approval request", "[ID [once | always | deny]]"),
)
"""Chat commands, as the host gathers them from plugins."""
ME = f"<@{FakeDiscord.ME}>"


@dataclass
class RecordingInbox:
    """An inbox that records its messages.

    :ivar taken: what was handed in and taken, in order.
    :ivar answers: what the next submits say: a bool, or an error to raise; then True for ever.
    """

    taken: list[Inbound] = field(default_factory=list)
    answers: list[bool | Exception] = field(default_factory=list)

    async def submit(self, inbound: Inbound) -> bool:
        said = self.answers.pop(0) if self.answers else True
        if isinstance(said, Exception):
            raise said
        if said and inbound not in self.taken:
            self.taken.append(inbound)
        return said

    @property
    def texts(self) -> list[str]:
        """The accepted messages, each once, as claw's journal keeps them."""
        return list({one.event_id: one.text for one in self.taken}.values())

    async def until(self, count: int, seconds: float = 20.0) -> list[Inbound]:
        """Wait for so many."""
        await until(lambda: len(self.taken) >= count, seconds)
        return self.taken


async def until(holds: Callable[[], Any], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


def channel_of(
    service: FakeDiscord, home: Path, *, pace: ConnectionTimings = QUICK, **keys: Any
) -> DiscordChannel:
    """The channel as the host gets it from the hook, with a quick pace."""
    section = {"token": service.token, "apiBase": service.api_base, "gatewayUrl": service.gateway_url,
               "groups": {"*": {}}, **keys}  # fmt: skip
    config = bench.plugin_config({"channels": {"discord": section}}, "discord", home=home)
    [made] = bench.contributed(claw_discord, config)["register_channels"]
    settings, token = (
        made._settings,
        read_accounts(config, "discord", type(made._settings), "token").ready["default"].token,
    )
    network = HttpClients()
    channel = DiscordChannel(
        "default", settings, token, http=network.client, notes=made._notes, pace=pace, chat_menu=lambda: MENU
    )
    _NETWORKS[channel] = network
    return channel


@asynccontextmanager
async def listening(
    channel: DiscordChannel, harness: RecordingInbox, *, up: bool = True
) -> AsyncIterator[asyncio.Task[None]]:
    """The channel's ``run``, from being up until it is cancelled."""
    running = asyncio.ensure_future(channel.run(harness))
    try:
        if up:
            await until(lambda: running.done() or channel.state.state == "up")
        yield running
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await _NETWORKS.pop(channel).aclose()


def here(channel: str = FakeDiscord.CHANNEL, thread: str | None = None) -> Address:
    return Address("discord", channel, thread=thread)


def says(text: str, key: str = "key-1", address: Address | None = None, **more: Any) -> Outbound:
    return Outbound(key, address or here(), text, **more)
