"""Fake Discord: gateway and REST on one loopback port, for tests and demonstrations without an account.

async with FakeDiscord() as discord:
    ...  # a bot with apiBase: discord.api_base, gatewayUrl: discord.gateway_url, token: discord.token
    await discord.says("<@1150000000000000042> hello")
    assert discord.log[-1].body["content"] == "hello to you"

Checked against discord.py in ``tests/plugins/discord/test_fake_against_discord_py.py``.
"""

import asyncio
import socket
import time
from collections.abc import Mapping
from secrets import token_hex
from typing import Any, Self

from aiohttp import web

from claw_discord.fake import objects
from claw_discord.fake.gateway import INVALID, RECONNECT, FakeGateway, FakeSession
from claw_discord.fake.rest import FakeRest, FakeRestCall, ForcedAnswer, RestRefusal

__all__ = ["FakeDiscord", "FakeRestCall", "ForcedAnswer", "RestRefusal"]

_MESSAGE_CONTENT, _SHUTDOWN_SECONDS, _ACCEPTED_SECONDS = 1 << 15, 0.2, 0.01
_ASKS = {  # dispatch → its intents (in a guild, in a direct chat)
    "MESSAGE_CREATE": (1 << 9, 1 << 12),
    "MESSAGE_UPDATE": (1 << 9, 1 << 12),
    "MESSAGE_DELETE": (1 << 9, 1 << 12),
    "MESSAGE_REACTION_ADD": (1 << 10, 1 << 13),
    "THREAD_CREATE": (1, 0),
}


class FakeDiscord:
    """The service, one guild with one channel, and its users. Bound to one event loop.

    :param token: the accepted token; ``let_in`` adds more.
    :param heartbeat_ms: heartbeat interval for clients.
    :ivar gateway: the sockets, with their switches (:class:`~claw_discord.fake.gateway.Gateway`).
    :ivar closed_channels: channels that the bot may not see; ``deaf_users`` take no messages from it.
    """

    ME = "1150000000000000042"
    ALICE = "2300000000000000077"
    GUILD = "9000000000000000900"
    CHANNEL = "9000000000000000910"

    def __init__(self, token: str = "token-of-the-fake", *, heartbeat_ms: int = 400) -> None:
        self.token, self.tokens = token, {token}
        self.users = {
            self.ME: objects.user(self.ME, "clawbot", bot=True),
            self.ALICE: objects.user(self.ALICE, "alice"),
        }
        self.channels = {self.CHANNEL: objects.channel(self.CHANNEL, "general", self.GUILD)}
        self.messages: dict[str, dict[str, Any]] = {}
        self.closed_channels: set[str] = set()
        self.deaf_users: set[str] = set()
        self.interactions: dict[str, tuple[float, str]] = {}
        self.chosen: set[str] = set()
        self.gateway = FakeGateway(self.tokens, heartbeat_ms, self._greeting)
        self.rest = FakeRest(self)
        self.port = 0
        self._ids = objects.Ids()
        self._files: dict[str, bytes] = {}
        self._runner: web.AppRunner | None = None
        self._socket: socket.socket | None = None

    def let_in(self, token: str) -> str:
        """Accept one more token; it belongs to the same bot."""
        self.tokens.add(token)
        return token

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application(client_max_size=64 << 20)
        app.add_routes(
            [web.get("/gateway", self.gateway.answer), web.get("/attachments/{id}/{name}", self._file)]
        )
        app.add_routes(self.rest.routes())
        self._runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN_SECONDS, access_log=None)
        await self._runner.setup()
        self._socket = socket.create_server(("127.0.0.1", self.port))
        self.port = self._socket.getsockname()[1]
        await web.SockSite(self._runner, self._socket).start()

    async def stop(self) -> None:
        """Cut every connection and close the port; ``start`` opens the same one again.

        Accepting ends first, and what is accepted gets its transport: asyncio does not close a transport that it
        makes for a server that is closed already (Python 3.11, asyncio/selector_events.py, "_accept_connection2").
        """
        if self._socket is not None and self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket)
            await asyncio.sleep(_ACCEPTED_SECONDS)
        await self.gateway.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """Base URL of files."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_base(self) -> str:
        """Base URL of REST."""
        return f"{self.url}/api/v10"

    @property
    def gateway_url(self) -> str:
        """URL of the gateway."""
        return f"ws://127.0.0.1:{self.port}/gateway"

    @property
    def me(self) -> dict[str, Any]:
        """The bot user."""
        return self.users[self.ME]

    # --- recorded requests and faults

    @property
    def log(self) -> list[FakeRestCall]:
        """Requests in the order of arrival."""
        return self.rest.log

    def asked(self, method: str, ending: str) -> list[FakeRestCall]:
        """Return the requests of a method whose path ends so."""
        return [one for one in self.log if one.method == method and one.path.endswith(ending)]

    def fail(self, match: str, answer: ForcedAnswer, times: int = 1) -> None:
        """Override the answer to the next requests; ``match`` as ``POST /channels/*/messages``."""
        self.rest.fail(match, answer, times)

    async def until(self, holds: Any, seconds: float = 5.0) -> None:
        """Wait until a condition holds.

        :raises TimeoutError: it does not.
        """
        async with asyncio.timeout(seconds):
            while not holds():  # noqa: ASYNC110 - the condition is arbitrary
                await asyncio.sleep(0.005)

    def shown(self, channel: str = CHANNEL) -> list[str]:
        """Return the texts of the bot's messages in a channel, oldest first."""
        return [one["content"] for one in self.messages_of(channel) if one["author"]["id"] == self.ME]

    # --- users

    def person(self, name: str, *, bot: bool = False) -> str:
        """Add a user; return the id."""
        id = self._ids.next()
        self.users[id] = objects.user(id, name, bot=bot)
        return id

    def place(self, name: str, *, kind: int = objects.TEXT, parent: str | None = None) -> str:
        """Add a channel or thread to the guild; return its id. Clients learn of it at their next identify."""
        id = self._ids.next()
        self.channels[id] = objects.channel(id, name, self.GUILD, kind, parent)
        return id

    def direct_with(self, user: str) -> dict[str, Any]:
        """Return the direct channel of the bot and a user."""
        for one in self.channels.values():
            if any(recipient["id"] == user for recipient in one.get("recipients", ())):
                return one
        id = self._ids.next()
        self.channels[id] = objects.direct_channel(id, self.users[user])
        return self.channels[id]

    async def says(
        self,
        text: str,
        *,
        channel: str = CHANNEL,
        author: str = ALICE,
        reply_to: str | None = None,
        files: Mapping[str, bytes] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """Send a message from a user; return it as the archive has it.

        :param files: name → bytes.
        :param more: other fields of the message.
        """
        if files:
            more["attachments"] = [self.keep_file(channel, name, data) for name, data in files.items()]
        if reply_to:
            reference = {"type": 0, "message_id": reply_to, "channel_id": channel}
            more |= {
                "type": 19,
                "message_reference": reference,
                "referenced_message": self.messages.get(reply_to),
            }
        made = self.make_message(text, channel, author, **more)
        await self.tell("MESSAGE_CREATE", made)
        return made

    async def presses(self, message_id: str, custom_id: str, *, user: str = ALICE) -> str:
        """Press a button as a user; return the interaction's id."""
        message = self.messages[message_id]
        pressed = {"component_type": 2, "custom_id": custom_id, "id": 1}
        return await self._interacts(3, message["channel_id"], user, data=pressed, message=message)

    async def commands(self, name: str, text: str = "", *, channel: str = CHANNEL, user: str = ALICE) -> str:
        """Choose a registered command as a user; return the interaction's id.

        :raises StopIteration: no command has that name.
        """
        command = next(one for one in self.rest.registered if one["name"] == name)
        given = [{"type": 3, "name": option["name"], "value": text} for option in command.get("options", ())]
        chosen = {"id": command["id"], "name": name, "type": 1, **({"options": given} if text else {})}
        return await self._interacts(2, channel, user, data=chosen)

    async def _interacts(self, kind: int, channel: str, user: str, **more: Any) -> str:
        place = self.channels[channel]
        id, token = self._ids.next(), token_hex(8)
        self.interactions[id] = time.monotonic(), token
        if kind == 2:
            self.chosen.add(id)
        person = {"user": self.users[user], **objects.member()}
        who: dict[str, Any] = {"member": person, "guild_id": self.GUILD} if place.get("guild_id") else {}
        await self.gateway.dispatch("INTERACTION_CREATE", {
            "id": id, "application_id": self.ME, "type": kind, "token": token, "version": 1,
            "channel_id": place["id"], "channel": place, **more,
            "attachment_size_limit": 10 << 20, "app_permissions": "0", "locale": "en-US", "entitlements": [],
            "authorizing_integration_owners": {}, "context": 0, **(who or {"user": self.users[user]}),
        })  # fmt: skip
        return id

    async def reacts(self, message_id: str, emoji: str, *, user: str = ALICE) -> None:
        """Add a reaction to a message as a user."""
        message = self.messages[message_id]
        place = self.channels[message["channel_id"]]
        reaction: dict[str, Any] = {
            "user_id": user, "channel_id": place["id"], "message_id": message_id, "emoji": {"id": None, "name": emoji},
            "message_author_id": message["author"]["id"], "type": 0, "burst": False,
        }  # fmt: skip
        if place.get("guild_id"):
            reaction |= {"guild_id": self.GUILD, "member": {"user": self.users[user], **objects.member()}}
        await self._dispatch("MESSAGE_REACTION_ADD", reaction, place)

    # --- stored data, for both halves

    def messages_of(self, channel: str) -> list[dict[str, Any]]:
        """Return the messages of a channel, oldest first."""
        return [one for one in self.messages.values() if one["channel_id"] == channel]

    def new_id(self) -> str:
        """Return a new id."""
        return self._ids.next()

    def make_message(self, text: str, channel: str, author: str, **more: Any) -> dict[str, Any]:
        """Store a message without a dispatch."""
        place = self.channels[channel]
        made = objects.message(self._ids.next(), place, self.users[author], text, self.users, **more)
        self.messages[made["id"]] = made
        place["last_message_id"] = made["id"]
        return made

    def keep_file(self, channel: str, name: str, data: bytes) -> dict[str, Any]:
        """Store a file of a message, with a currently valid URL."""
        id = self._ids.next()
        self._files[id] = data
        kind = {
            "png": "image/png",
            "ogg": "audio/ogg",
            "mp4": "video/mp4",
            "txt": "text/plain; charset=utf-8",
        }
        url = f"{self.url}/attachments/{id}/{name}?ex=6&is=6&hm={token_hex(4)}"
        return {
            "id": id, "filename": name, "size": len(data), "url": url, "proxy_url": url,
            "content_type": kind.get(name.rpartition(".")[2], "application/octet-stream"),
        }  # fmt: skip

    async def tell(self, event: str, message: Mapping[str, Any]) -> None:
        """Dispatch a message event to clients."""
        place = self.channels[message["channel_id"]]
        await self._dispatch(event, objects.as_dispatch(self.visible(message), place), place)

    async def change(self, id: str, **fields: Any) -> dict[str, Any]:
        """Change fields of a message and dispatch the update."""
        message = self.messages[id]
        message |= {**fields, "edited_timestamp": objects.stamp()}
        await self.tell("MESSAGE_UPDATE", message)
        return message

    async def remove(self, id: str) -> None:
        """Delete a message and dispatch it."""
        message = self.messages.pop(id)
        place = self.channels[message["channel_id"]]
        gone = {"id": id, "channel_id": place["id"], "guild_id": place.get("guild_id")}
        await self._dispatch("MESSAGE_DELETE", {key: value for key, value in gone.items() if value}, place)

    async def open_thread(self, parent: str, starter: str, name: str) -> dict[str, Any]:
        """Open a thread under a message; it gets the message's id."""
        made = objects.channel(starter, name, self.GUILD, objects.THREAD, parent)
        self.channels[starter] = made
        await self._dispatch("THREAD_CREATE", made | {"newly_created": True}, made)
        return made

    def visible(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message as the bot may see it: without the intent, the text only where it is meant for the bot."""
        shown = {key: value for key, value in message.items() if not key.startswith("_")}
        direct = self.channels[message["channel_id"]]["type"] == objects.DIRECT
        named = self.ME in [one["id"] for one in message["mentions"]] or message["author"]["id"] == self.ME
        allowed = self.gateway.intents & _MESSAGE_CONTENT or direct or named
        return shown if allowed else objects.without_text(shown)

    # --- faults

    async def drop(self, code: int | None = None) -> None:
        """Close every gateway connection with a code; None = cut without a close frame."""
        await self.gateway.close(code)

    async def reconnect(self) -> None:
        """Send op 7 (reconnect)."""
        await self.gateway.op(RECONNECT)

    async def invalidate(self, *, resumable: bool = False) -> None:
        """Send op 9 (invalid session)."""
        if not resumable:
            self.gateway.forget()
        await self.gateway.op(INVALID, resumable)

    async def _dispatch(self, event: str, data: Any, place: Mapping[str, Any]) -> None:
        asks = _ASKS[event][0 if place.get("guild_id") else 1]
        if self.gateway.intents & asks:
            await self.gateway.dispatch(event, data)

    def _greeting(self, session: FakeSession) -> list[tuple[str, Any]]:
        ready = {
            "v": 10, "user": self.me, "guilds": [{"id": self.GUILD, "unavailable": True}],
            "session_id": session.id, "session_type": "normal", "resume_gateway_url": self.gateway_url,
            "application": {"id": self.ME, "flags": 565248}, "shard": [0, 1], "private_channels": [],
            "relationships": [], "_trace": [],
        }  # fmt: skip
        ours = [
            one
            for one in self.channels.values()
            if one.get("guild_id") and one["id"] not in self.closed_channels
        ]
        return [("READY", ready), ("GUILD_CREATE", objects.guild(self.GUILD, "G", self.me, ours))]

    async def _file(self, request: web.Request) -> web.Response:
        forced = self.rest.forced("GET", request.path)
        data = self._files.get(request.match_info["id"])
        if data is None or not request.query.get("hm"):
            return web.Response(status=404)
        if forced and forced.cut:
            half = web.StreamResponse(headers={"Content-Length": str(len(data))})
            await half.prepare(request)
            await half.write(data[: len(data) // 2])
            assert request.transport is not None
            request.transport.close()
            return half
        return web.Response(body=data, content_type="application/octet-stream")
