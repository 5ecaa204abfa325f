"""The gateway half of the fake: sessions, sequence numbers, heartbeats, replay and faults.

Opcodes and close codes: https://discord.com/developers/docs/topics/opcodes-and-status-codes#gateway.
"""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any

from aiohttp import WSMsgType, web

from claw_discord.fake.objects import stamp

HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 1, 2, 6, 7, 9, 10, 11
KNOWN_INTENTS = (1 << 26) - 1
PRIVILEGED = 1 << 1 | 1 << 8 | 1 << 15


@dataclass
class FakeSession:
    """The state of one client between two of its connections."""

    intents: int
    id: str = field(default_factory=lambda: token_hex(16))
    frames: list[dict[str, Any]] = field(default_factory=list)


class FakeGateway:
    """All sockets and sessions.

    :param ready: returns the first dispatches of a new session.
    :ivar granted: privileged intents switched on in the developer portal.
    :ivar zombie: read frames without answering, and send nothing.
    :ivar received: the frames of clients, in order.
    :ivar resume_answer: None = replay; a code = close with it, False = op 9.
    """

    def __init__(
        self,
        tokens: Collection[str],
        heartbeat_ms: int,
        ready: Callable[[FakeSession], list[tuple[str, Any]]],
    ) -> None:
        self._tokens, self._heartbeat_ms, self._ready = tokens, heartbeat_ms, ready
        self.granted = PRIVILEGED
        self.zombie = False
        self.resume_answer: int | bool | None = None
        self.received: list[dict[str, Any]] = []
        self.sessions: list[FakeSession] = []
        self._sockets: dict[web.WebSocketResponse, FakeSession | None] = {}
        self._requests: dict[web.WebSocketResponse, web.Request] = {}
        self._changed = asyncio.Condition()

    @property
    def session(self) -> FakeSession | None:
        """The newest session that can be resumed."""
        return self.sessions[-1] if self.sessions else None

    @property
    def intents(self) -> int:
        """Intents of the newest session; all while there is none."""
        return self.session.intents if self.session else KNOWN_INTENTS

    def count(self, op: int) -> int:
        """Return the number of received frames with this opcode."""
        return sum(frame.get("op") == op for frame in self.received)

    @property
    def connected(self) -> bool:
        """True if a client is connected in a session."""
        return any(session is not None and not socket.closed for socket, session in self._sockets.items())

    async def until(self, holds: Callable[[], bool], seconds: float = 5.0) -> None:
        """Wait until a condition holds.

        :raises TimeoutError: it does not.
        """
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(holds)

    # --- server to client

    async def dispatch(self, event: str, data: Any) -> None:
        """Send an event to every session, now or at its resume."""
        for session in self.sessions:
            frame = {"t": event, "s": len(session.frames) + 1, "op": 0, "d": data}
            session.frames.append(frame)
            for socket, of in self._sockets.items():
                if of is session:
                    await self._send(socket, frame)

    async def op(self, op: int, data: Any = None) -> None:
        """Send another opcode to every client."""
        for socket in list(self._sockets):
            await self._send(socket, {"t": None, "s": None, "op": op, "d": data})

    async def close(self, code: int | None = None) -> None:
        """Close every connection with a code; None = cut without a close frame."""
        for socket in list(self._sockets):
            request = self._requests[socket]
            if code is not None:
                await socket.close(code=code)
            elif request.transport is not None:
                request.transport.abort()
        with suppress(TimeoutError):
            await self.until(lambda: not self._sockets, 1.0)

    def forget(self) -> None:
        """Make all sessions impossible to resume."""
        self.sessions.clear()

    def _forget(self, session: FakeSession | None) -> None:
        if session in self.sessions and session is not None:
            self.sessions.remove(session)

    # --- client to server

    async def answer(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one connection."""
        socket = web.WebSocketResponse(timeout=0.5, compress=False)
        await socket.prepare(request)
        self._sockets[socket], self._requests[socket] = None, request
        try:
            if request.query.get("v") != "10" or request.query.get("encoding") != "json":
                await socket.close(code=4012)
                return socket
            hello = {"heartbeat_interval": self._heartbeat_ms, "_trace": ['["gateway-fake"]']}
            await self._send(socket, {"t": None, "s": None, "op": HELLO, "d": hello})
            while (said := await socket.receive()).type is WSMsgType.TEXT:
                await self._hear(socket, said.data)
            if said.type is WSMsgType.CLOSE and said.data in (1000, 1001):
                self._forget(self._sockets[socket])  # this close code ends the session for good
        finally:
            self._sockets.pop(socket)
            self._requests.pop(socket)
            await self._notify()
        return socket

    async def _hear(self, socket: web.WebSocketResponse, text: str) -> None:
        try:
            frame = json.loads(text)
            op, data = frame["op"], frame.get("d")
        except (ValueError, KeyError, TypeError):
            await socket.close(code=4002)
            return
        self.received.append(frame)
        if self.zombie:
            return
        if op == HEARTBEAT:
            await self._send(socket, {"t": None, "s": None, "op": ACK, "d": None})
        elif op == IDENTIFY:
            await self._identify(socket, data)
        elif op == RESUME:
            await self._resume(socket, data)
        elif self._sockets.get(socket) is None:
            await socket.close(code=4003)
        await self._notify()

    async def _identify(self, socket: web.WebSocketResponse, data: Mapping[str, Any]) -> None:
        intents = data.get("intents", 0)
        if self._sockets.get(socket) is not None:
            await socket.close(code=4005)
        elif data.get("token") not in self._tokens:
            await socket.close(code=4004)
        elif intents & ~KNOWN_INTENTS or not data.get("properties"):
            await socket.close(code=4013)
        elif intents & PRIVILEGED & ~self.granted:
            await socket.close(code=4014)
        else:
            session = FakeSession(intents)
            self.sessions.append(session)
            self._sockets[socket] = session
            for event, event_data in self._ready(session):
                frame = {"t": event, "s": len(session.frames) + 1, "op": 0, "d": event_data}
                session.frames.append(frame)
                await self._send(socket, frame)

    async def _resume(self, socket: web.WebSocketResponse, data: Mapping[str, Any]) -> None:
        session = next((one for one in self.sessions if one.id == data.get("session_id")), None)
        if data.get("token") not in self._tokens:
            await socket.close(code=4004)
        elif isinstance(self.resume_answer, int) and self.resume_answer is not False:
            await socket.close(code=self.resume_answer)
        elif session is None or self.resume_answer is False:
            await self._send(socket, {"t": None, "s": None, "op": INVALID, "d": False})
        elif not isinstance(data.get("seq"), int) or data["seq"] > len(session.frames):
            await socket.close(code=4007)
        else:
            self._sockets[socket] = session
            for frame in session.frames[data["seq"] :]:
                await self._send(socket, frame)
            resumed = {"t": "RESUMED", "s": len(session.frames) + 1, "op": 0, "d": {"_trace": [stamp()]}}
            session.frames.append(resumed)
            await self._send(socket, resumed)

    async def _send(self, socket: web.WebSocketResponse, frame: Mapping[str, Any]) -> None:
        if self.zombie and frame["op"] != HELLO:
            return
        with suppress(ConnectionError):
            await socket.send_str(json.dumps(frame))

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
