"""A Telegram channel as claw makes it, and an inbox that records its messages."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import claw_telegram
from claw import HttpClients, Inbound
from claw.testing import plugin_config
from claw_telegram.channel import TelegramChannel
from claw_telegram.fake import FakeTelegram
from claw_telegram.poller import PollTimings

TOKEN = "6543210987:AAE_fake-token-of-a-loopback-service01"
MENU = (
    ("help", "show these commands", ""),
    ("new", "start a new conversation", "[provider/model] [text]"),
    ("stop", "stop the running turn", ""),
    ("status", "agent, model, conversation", ""),
    ("model", "show or choose the model", "[provider/model[@key] | default]"),
    ("approve", "answer an approval request", "[ID [once | always | deny]]"),
)
"""Chat commands, as the host gathers them from plugins."""
QUICK = PollTimings(poll=2, grace=2, first=0.02, conflict=0.05, most=0.2, album=0.05)


class RecordingInbox:
    """An inbox that accepts each message, unless configured otherwise."""

    def __init__(self, *answers: bool) -> None:
        self.received: list[Inbound] = []
        self._answers = list(answers)

    async def submit(self, inbound: Inbound) -> bool:
        self.received.append(inbound)
        return self._answers.pop(0) if self._answers else True

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self.received]


def channels(section: Mapping[str, Any], network: HttpClients) -> list[TelegramChannel]:
    """Return the contributions of the plugin for ``channels.telegram``."""
    tree = {"channels": {"telegram": {"botToken": TOKEN, **section}}}
    config = plugin_config(tree, "telegram", network=network)
    config.chat_menu = lambda: MENU
    return list(claw_telegram.register_channels(config))  # type: ignore[arg-type]


@asynccontextmanager
async def channel_at(url: str, pace: PollTimings = QUICK, **section: Any) -> AsyncIterator[TelegramChannel]:
    """One channel, its connections closed at the end."""
    network = HttpClients()
    try:
        (made,) = channels({"apiBase": url, **section}, network)
        made.pace = pace
        yield made
    finally:
        await network.aclose()


@asynccontextmanager
async def running(channel: TelegramChannel, inbox: RecordingInbox) -> AsyncIterator[asyncio.Task[None]]:
    """The channel while it listens."""
    task = asyncio.create_task(channel.run(inbox))
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def listening(
    fake: FakeTelegram, *answers: bool, pace: PollTimings = QUICK, **section: Any
) -> AsyncIterator[tuple[TelegramChannel, RecordingInbox]]:
    """A channel that listens to the fake, and its inbox."""
    inbox = RecordingInbox(*answers)
    async with channel_at(fake.url, pace, **section) as channel, running(channel, inbox):
        yield channel, inbox


async def soon(condition: Callable[[], Any], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
