"""Discord as one service: a guild, people with direct channels, our bot and the bot that reads along."""

from typing import Any, Self

from aiohttp import web

from rigs.platform_rig.discord_gateway import DiscordGateway
from rigs.platform_rig.discord_objects import direct_channel, guild, member, message, now, thread, user
from rigs.platform_rig.discord_rest import DiscordRest
from rigs.platform_rig.facts import Visible
from rigs.platform_rig.faults import Faults

TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAw.GrigAb.k3Yt0v9XyT3sHbJmPeDaUoQw7LrNq2cZ1aBcDe"
OBSERVER_TOKEN = "MjAwMDAwMDAwMDAwMDAwMDAw.GobsAb.p5Yt0v9XyT3sHbJmPeDaUoQw7LrNq2cZ1aBcDe"


class DiscordService:
    """The service; ``async with``.

    :ivar chats: by name of a chat, the id of its channel: two people, a channel of the guild and a thread in it.
    """

    def __init__(self, faults: Faults) -> None:
        self._bot, self._observer = user("rig-notes", bot=True), user("rig-observer", bot=True)
        people = [user("Ada"), user("Bo"), user("Cy")]
        self.guild = guild("Rig", people[0], [self._bot, self._observer, *people])
        bots = {TOKEN: self._bot, OBSERVER_TOKEN: self._observer}
        self.gateway = DiscordGateway(bots, self.guild, faults)
        self.rest = DiscordRest(self.gateway, bots, faults)
        self._people: dict[str, dict[str, Any]] = {}
        self.chats: dict[str, str] = {}
        for name, person in zip(("201", "202"), people, strict=False):
            channel = {**direct_channel(person), "_bot": self._bot["id"]}
            self._add(name, channel, person)
        for channel in self.guild["channels"]:
            self.rest.channels[channel["id"]] = channel
        self._add("-2001", self.guild["channels"][0], people[0])
        opened = thread("a thread", self.guild["channels"][1], people[2])
        self.guild["threads"].append(opened)
        self._add("-2002", opened, people[2])
        self._positions: dict[str, int] = {}
        self._runner: web.AppRunner | None = None
        self.url = ""

    def _add(self, name: str, channel: dict[str, Any], person: dict[str, Any]) -> None:
        self.chats[name], self._people[name] = channel["id"], person
        self.rest.channels[channel["id"]] = channel

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        self.rest.routes(app)
        app.router.add_get("/gateway/", self.gateway.serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024).start()
        port = self._runner.addresses[0][1]
        self.url, self.gateway.url = f"http://127.0.0.1:{port}/api/v10", f"ws://127.0.0.1:{port}/gateway/"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        for session in self.gateway.sessions.values():
            if session.connection is not None:
                session.connection.abort()
        await self._runner.cleanup()

    @property
    def illformed(self) -> list[str]:
        """Faults in requests of the bot."""
        return [*self.gateway.illformed, *self.rest.illformed]

    @property
    def is_connected(self) -> bool:
        """True if our bot has a session with a connection."""
        return self.gateway.is_connected(self._bot["id"])

    async def say(self, chat: str, text: str) -> int:
        """Let a person write; return the position, which is the message id."""
        channel = self.rest.channels[self.chats[chat]]
        fields: dict[str, Any] = {}
        if "guild_id" in channel:
            text = f"<@{self._bot['id']}> {text}"
            fields = {
                "mentions": [{**self._bot, "member": member(self._bot)}],
                "member": member(self._people[chat]),
            }
        made = message(channel, self._people[chat], text, **fields)
        self.rest.add_message(channel["id"], made)
        await self.rest.tell("MESSAGE_CREATE", made)
        return int(made["id"])

    async def change(self, chat: str, id: int, more: str) -> None:
        """Let a person edit a message."""
        found = self.rest.messages[self.chats[chat]].get(str(id))
        if found is not None:
            found |= {"content": found["content"] + more, "edited_timestamp": now()}
            await self.rest.tell("MESSAGE_UPDATE", found)

    async def remove(self, chat: str, id: int) -> None:
        """Let a person delete a message."""
        if self.rest.messages[self.chats[chat]].pop(str(id), None) is not None:
            await self.rest.tell("MESSAGE_DELETE", {"id": str(id), "channel_id": self.chats[chat]})

    def visible(self) -> list[Visible]:
        """Return the bot's messages that stand in the chats."""
        return [
            Visible("discord", chat, int(one["id"]), _shown(one))
            for chat, channel in self.chats.items()
            for one in self.rest.messages.get(channel, {}).values()
            if one["author"]["id"] == self._bot["id"]
        ]


def _shown(message: dict[str, Any]) -> str:
    """Return the text of a message and the names of its files."""
    return " ".join((message["content"], *(one["filename"] for one in message["attachments"]))).strip()
