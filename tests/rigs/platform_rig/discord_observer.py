"""A second bot in the guild: a real discord.py client, which parses all that our bot sends there."""

import asyncio
import warnings
from typing import Any, Self

from yarl import URL

from rigs.platform_rig.discord_service import OBSERVER_TOKEN, DiscordService

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # an unused voice part of it imports audioop
    import discord
    from discord.gateway import DiscordWebSocket
    from discord.http import Route

_CONNECTING = asyncio.Lock()


class DiscordObserver:
    """The client; ``async with``.

    :ivar seen: by id, the text of each message in the guild, as it is now.
    """

    def __init__(self, service: DiscordService) -> None:
        self._service = service
        intents = discord.Intents.none()
        intents.guilds = intents.guild_messages = intents.message_content = True
        self._client = discord.Client(intents=intents, max_messages=None)
        self.seen: dict[str, str] = {}
        self._ready = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        for listener in (
            self.on_ready,
            self.on_message,
            self.on_raw_message_edit,
            self.on_raw_message_delete,
        ):
            self._client.event(listener)

    async def __aenter__(self) -> Self:
        # discord.py keeps its addresses on classes: clients of several worlds connect one after another.
        async with _CONNECTING:
            addresses = Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY
            Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = self._service.url, URL(self._service.gateway.url)
            try:
                self._task = asyncio.create_task(self._client.start(OBSERVER_TOKEN))
                await asyncio.wait_for(self._ready.wait(), 60)
            finally:
                Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = addresses
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()
        assert self._task is not None
        await asyncio.gather(self._task, return_exceptions=True)

    async def on_ready(self) -> None:
        """Note that the client is connected."""
        self._ready.set()

    async def on_message(self, message: discord.Message) -> None:
        """Note a message."""
        self.seen[str(message.id)] = message.content

    async def on_raw_message_edit(self, event: discord.RawMessageUpdateEvent) -> None:
        """Note the new text of a message."""
        self.seen[str(event.message_id)] = event.message.content

    async def on_raw_message_delete(self, event: discord.RawMessageDeleteEvent) -> None:
        """Forget a message."""
        self.seen.pop(str(event.message_id), None)

    def differences(self) -> list[str]:
        """Return the messages of the guild that discord.py has read otherwise than they stand."""
        standing: dict[str, Any] = {}
        for channel in (*self._service.guild["channels"], *self._service.guild["threads"]):
            for one in self._service.rest.messages.get(channel["id"], {}).values():
                standing[one["id"]] = one["content"]
        ids = sorted(standing.keys() | self.seen.keys())
        return [
            f"observer: message {id} is read otherwise" for id in ids if standing.get(id) != self.seen.get(id)
        ]
