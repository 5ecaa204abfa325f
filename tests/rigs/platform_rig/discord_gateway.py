"""The Discord gateway, version 10 (docs/events/gateway): sessions, heartbeats, resume, compressed transport."""

import asyncio
import json
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web

from rigs.platform_rig.faults import Fault, Faults

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES, CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15
_HEARTBEAT_MS = 20_000


@dataclass
class Session:
    """A session of a bot; it outlives its connection.

    :ivar events: all that was dispatched, for a resume.
    """

    id: str
    user: str
    intents: int
    events: list[dict[str, Any]] = field(default_factory=list)
    connection: "Connection | None" = None


class Connection:
    """One websocket."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.socket, self._request = socket, request
        self._zlib = zlib.compressobj() if request.query.get("compress") == "zlib-stream" else None
        self._lock = asyncio.Lock()

    async def send(self, document: Mapping[str, Any]) -> None:
        """Send a payload; a connection that is gone is none of our business."""
        text = json.dumps(document)
        try:
            async with self._lock:
                if self._zlib is None:
                    await self.socket.send_str(text)
                else:
                    data = self._zlib.compress(text.encode()) + self._zlib.flush(zlib.Z_SYNC_FLUSH)
                    await self.socket.send_bytes(data)
        except (ConnectionError, RuntimeError):
            return

    def abort(self) -> None:
        """Break the line."""
        if self._request.transport is not None:
            self._request.transport.abort()


class DiscordGateway:
    """All sessions.

    :param bots: by token, the user of the bot.
    :param guild: the guild that all bots are in, as in ``GUILD_CREATE``.
    """

    def __init__(self, bots: Mapping[str, dict[str, Any]], guild: dict[str, Any], faults: Faults) -> None:
        self._bots, self._guild, self.faults = bots, guild, faults
        self.sessions: dict[str, Session] = {}
        self.url = ""
        self.illformed: list[str] = []
        self.identified = 0

    def is_connected(self, user: str) -> bool:
        """Return true if a bot has a session with a connection."""
        return any(one.user == user and one.connection is not None for one in self.sessions.values())

    async def dispatch(self, event: str, data: Mapping[str, Any], *, is_direct_with: str = "") -> None:
        """Dispatch an event to every session that may see it.

        :param is_direct_with: id of the bot whose direct channel it is in; empty = in the guild.
        """
        for session in list(self.sessions.values()):
            wanted = DIRECT_MESSAGES if is_direct_with else GUILD_MESSAGES
            if not session.intents & wanted or (is_direct_with and session.user != is_direct_with):
                continue
            await self._to(session, event, _as_seen(session, data, is_direct=bool(is_direct_with)))

    async def _to(self, session: Session, event: str, data: Mapping[str, Any]) -> None:
        payload = {"op": DISPATCH, "t": event, "s": len(session.events) + 1, "d": dict(data)}
        session.events.append(payload)
        connection = session.connection
        if connection is None:
            return
        is_faulty = event.startswith("MESSAGE") and session.user == next(iter(self._bots.values()))["id"]
        fault = self.faults.next("gateway", is_news=True) if is_faulty else Fault.NONE
        if fault is Fault.CUT_BEFORE:
            session.connection = None
            connection.abort()
            return
        await connection.send(payload)
        if fault is Fault.CUT_AFTER:
            session.connection = None
            connection.abort()
        elif fault is Fault.E500:
            await connection.send({"op": RECONNECT, "d": None})
        elif fault is Fault.E502:
            self.sessions.pop(session.id, None)
            await connection.send({"op": INVALID, "d": False})

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Serve one websocket."""
        socket = web.WebSocketResponse(max_msg_size=8 << 20)
        try:
            await socket.prepare(request)
        except ConnectionError:
            return socket  # the gateway is gone
        connection, session = Connection(socket, request), None
        await connection.send({"op": HELLO, "s": None, "t": None, "d": {"heartbeat_interval": _HEARTBEAT_MS}})
        async for frame in socket:
            if frame.type is not WSMsgType.TEXT:
                continue
            payload = json.loads(frame.data)
            code, data = payload["op"], payload["d"]
            if code == HEARTBEAT:
                await connection.send({"op": ACK, "d": None})
            elif code == IDENTIFY:
                session = await self._identify(connection, data)
            elif code == RESUME:
                session = await self._resume(connection, data)
            elif code not in (3, 4, 8):
                self.illformed.append(f"gateway op {code}")
                await socket.close(code=4001, message=b"Unknown opcode.")
        if session is not None and session.connection is connection:
            session.connection = None
        return socket

    async def _identify(self, connection: Connection, data: Mapping[str, Any]) -> Session | None:
        bot = self._bots.get(str(data.get("token", "")).removeprefix("Bot "))
        if bot is None:
            await connection.socket.close(code=4004, message=b"Authentication failed.")
            return None
        missing = {"token", "properties", "intents"} - data.keys()
        self.illformed += [f"identify has no {name}" for name in sorted(missing)]
        session = Session(
            secrets.token_hex(16), bot["id"], int(data.get("intents") or 0), connection=connection
        )
        self.sessions[session.id] = session
        self.identified += 1
        ready = {
            "v": 10, "user": {**bot, "verified": True, "mfa_enabled": False, "email": None, "flags": 0},
            "guilds": [{"id": self._guild["id"], "unavailable": True}], "session_id": session.id,
            "resume_gateway_url": self.url, "session_type": "normal", "private_channels": [], "relationships": [],
            "application": {"id": bot["id"], "flags": 1 << 18}, "shard": [0, 1],
        }  # fmt: skip
        await self._to(session, "READY", ready)
        if session.intents & GUILDS:
            await self._to(session, "GUILD_CREATE", self._guild)
        return session

    async def _resume(self, connection: Connection, data: Mapping[str, Any]) -> Session | None:
        session = self.sessions.get(str(data.get("session_id")))
        if session is None or int(data.get("seq") or 0) > len(session.events):
            await connection.send({"op": INVALID, "d": False})
            return None
        for payload in session.events[int(data.get("seq") or 0) :]:
            await connection.send(payload)
        session.connection = connection
        await self._to(session, "RESUMED", {})
        return session


def _as_seen(session: Session, data: Mapping[str, Any], *, is_direct: bool) -> Mapping[str, Any]:
    """Return a message as this bot sees it: without its text, unless it may read it (docs: Message Content Intent)."""
    author, mentions = data.get("author", {}), data.get("mentions", ())
    is_own = author.get("id") == session.user or any(one["id"] == session.user for one in mentions)
    if is_direct or is_own or session.intents & CONTENT or "content" not in data:
        return data
    return {**data, "content": "", "embeds": [], "attachments": [], "components": []}
