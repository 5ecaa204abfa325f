"""Loopback model services that speak the true protocols, for tests: no key, no network, no patching.

``AnthropicService`` answers ``/v1/messages``; ``OpenAIService`` answers ``/v1/chat/completions`` and ``/v1/responses``;
``GoogleService`` answers ``/v1/models/NAME:generateContent`` and ``:streamGenerateContent``; ``MistralService`` answers
``/v1/chat/completions`` in Mistral's form.
Each plays a script, writes down every request, and refuses one that the real service would refuse. They are held
to the vendors' own SDKs in ``tests/core/test_services.py``.
"""

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Self

from claw.testing.protocols import Refusal, anthropic, chat, google, mistral, responses

Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Reply:
    """What the service answers to one request.

    :param calls: tools it asks for, as (name, arguments).
    :param usage: input, output, cache_read, cache_write: tokens, ``input`` without the cached ones.
    :param stop: the service's own word for why it stopped; by default what fits.
    :param status: of an error; ``body`` is its JSON, or bytes that go out as they are, with ``content_type``.
    :param whole: answer in one piece, also when a stream was asked for.
    :param raw: bytes of a stream, sent as they are.
    :param piece_bytes: cut the stream in pieces of this size; 0 = one piece for each event.
    :param cut: break the connection at the end, where the end of the body should stand.
    :param hang: send half of the events, then stay silent until the client leaves.
    :param delay_seconds: wait before answering; ``pause_seconds`` between two pieces of a stream.
    :param play: says the answer on the bare connection, in the place of all this, and breaks what rules it likes; it is
        handed what a sound stream would be, as ``Line.events``.
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[Call] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    stop: str | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"
    whole: bool = False
    raw: bytes | None = None
    piece_bytes: int = 0
    cut: bool = False
    hang: bool = False
    delay_seconds: float = 0.0
    pause_seconds: float = 0.0
    play: "Callable[[Line], Awaitable[None]] | None" = None


class Line:
    """The connection of one request, for a reply that is played by hand (``Reply.play``). It is closed behind it.

    :ivar events: the reply as the service would stream it, event by event.
    """

    def __init__(
        self, events: Sequence[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.events = list(events)
        self._reader, self._writer = reader, writer

    async def say(self, *pieces: bytes) -> None:
        """These bytes, as they are; each piece has gone before the next."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        """The head of an answer; without a length given, its body goes on until the connection is closed."""
        _head(self._writer, status, {name.replace("_", "-"): said for name, said in headers.items()}, kind)
        await self._writer.drain()

    async def silence(self) -> None:
        """Nothing more, until the other side leaves."""
        while await self._reader.read(1 << 16):
            pass
        raise ConnectionResetError

    def half_close(self) -> None:
        """Say that nothing more comes, and keep the connection."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Break the connection at once, as a machine does that lost its power."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


@dataclass(frozen=True)
class Received:
    """A request as it came in; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


Script = Iterable[Reply | str] | Callable[[Received], Reply | str]


class _ModelService:
    """A small HTTP/1.1 server with keep-alive; ``async with`` starts and stops it.

    :param script: the answers in order (a string is a text), or a function of the request. Once the script is over,
        every request is answered with 500.
    """

    _protocols: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, script: Script = ()) -> None:
        self._next = script if callable(script) else _in_order(script)
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._ids = count(1)
        self.requests: list[Received] = []
        self.refusals: list[str] = []
        self.connections = 0
        self.left = asyncio.Event()
        """Set when a client left in the middle of an answer."""

    @property
    def url(self) -> str:
        """Address of the service, without a path."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def open(self) -> int:
        """How many connections stand now."""
        return len(self._open)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=1 << 22)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._open)
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    def _place(self, request: Received) -> str:
        """By which name of ``_protocols`` a request goes."""
        return request.path.partition("?")[0]

    def _streams(self, request: Received) -> bool:
        return bool(request.body.get("stream"))

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            while (request := await _read(reader)) and await self._serve(request, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            del self._open[task]
            writer.close()

    async def _serve(
        self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; False when the connection is over."""
        self.requests.append(request)
        protocol = self._protocols.get(self._place(request))
        try:
            if protocol is None:
                raise Refusal(f"Unknown request URL: {request.path}", "not_found_error", 404)
            protocol.check({**request.headers, ":path": request.path}, request.body)
        except Refusal as refusal:
            self.refusals.append(str(refusal))
            error = next(iter(self._protocols.values())).error(refusal.kind, refusal.message)
            await _send(writer, refusal.status, {}, "application/json", _dump(error))
            return True
        said = self._next(request)
        reply = Reply(said) if isinstance(said, str) else said
        await asyncio.sleep(reply.delay_seconds)
        if reply.play is None and (reply.body is not None or reply.status != 200):
            body = reply.body if isinstance(reply.body, bytes) else _dump(reply.body)
            await _send(writer, reply.status, reply.headers, reply.content_type, body)
            return True
        number = next(self._ids)
        if reply.play:
            events = list(protocol.stream(reply, request.body, number))
            await reply.play(Line(events, reader, writer))
            return False
        if reply.whole or not self._streams(request):
            body = _dump(protocol.whole(reply, request.body, number))
            await _send(writer, 200, reply.headers, "application/json", body)
            return True
        events = [reply.raw] if reply.raw is not None else list(protocol.stream(reply, request.body, number))
        return await self._stream(reply, events[: len(events) // 2] if reply.hang else events, reader, writer)

    async def _stream(
        self,
        reply: Reply,
        events: Sequence[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        headers = {**reply.headers, "transfer-encoding": "chunked"}
        _head(writer, 200, headers, "text/event-stream; charset=utf-8")
        async for piece in _pieces(events, reply.piece_bytes, reply.pause_seconds):
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        if reply.hang:
            await reader.read(1)
            self.left.set()
            return False
        if reply.cut:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


class AnthropicService(_ModelService):
    """The Messages API."""

    _protocols: ClassVar[Mapping[str, Any]] = {"/v1/messages": anthropic}


class OpenAIService(_ModelService):
    """Chat Completions and Responses."""

    _protocols: ClassVar[Mapping[str, Any]] = {"/v1/chat/completions": chat, "/v1/responses": responses}

    @property
    def url(self) -> str:
        """Address of the service, as a base URL: with ``/v1``."""
        return f"{super().url}/v1"


class GoogleService(_ModelService):
    """Gemini's ``generateContent``, streamed or not, of the versions ``v1`` and ``v1beta``."""

    _protocols: ClassVar[Mapping[str, Any]] = {"generateContent": google, "streamGenerateContent": google}

    def _place(self, request: Received) -> str:
        path = re.fullmatch(r"/v1(?:beta)?/models/[^/:]+:(\w+)", super()._place(request))
        return path[1] if path else ""

    def _streams(self, request: Received) -> bool:
        return self._place(request) == "streamGenerateContent"


class MistralService(_ModelService):
    """Mistral's chat completions. Its address stands without ``/v1``, as the SDK wants it."""

    _protocols: ClassVar[Mapping[str, Any]] = {"/v1/chat/completions": mistral}


def _in_order(script: Iterable[Reply | str]) -> Callable[[Received], Reply | str]:
    replies = iter(script)
    error = {"type": "api_error", "message": "the script of this test is over"}
    over = Reply(status=500, body={"error": error})
    return lambda request: next(replies, over)


async def _pieces(events: Sequence[bytes], size: int, pause_seconds: float) -> AsyncIterator[bytes]:
    """The events one by one, or all of them cut into pieces; the loop turns between two, so that they arrive apart."""
    if size:
        whole = b"".join(events)
        events = [whole[start : start + size] for start in range(0, len(whole), size)]
    for event in events:
        yield event
        await asyncio.sleep(pause_seconds)


async def _read(reader: asyncio.StreamReader) -> Received | None:
    """One request; None when the client has closed."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")
    parted = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in parted}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    try:
        parsed = json.loads(body or b"null")
    except ValueError:
        parsed = None
    return Received(first.split(" ")[1], headers, parsed)


def _head(writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], content_type: str) -> None:
    lines = [f"HTTP/1.1 {status} -", f"content-type: {content_type}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


async def _send(
    writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], content_type: str, body: bytes
) -> None:
    _head(writer, status, {**headers, "content-length": str(len(body))}, content_type)
    writer.write(body)
    await writer.drain()


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
