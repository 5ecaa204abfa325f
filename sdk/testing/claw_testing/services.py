"""Loopback model services for tests, with the real protocols: no key, no network, no patching.

``AnthropicService`` answers ``/v1/messages``; ``OpenAIService`` answers ``/v1/chat/completions`` and ``/v1/responses``;
``GoogleService`` answers ``/v1/models/NAME:generateContent`` and ``:streamGenerateContent``; ``MistralService`` answers
``/v1/chat/completions`` in Mistral's form.
Each plays a script, records every request, and refuses a request that the real service would refuse.
``tests/sdk/testing/test_services.py`` checks them with the vendors' own SDKs.
"""

import asyncio
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, ClassVar, Protocol, Self

from claw_testing.protocols import RequestRefused, anthropic, chat, google, mistral, responses

Call = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ServiceReply:
    """The answer of a service to one request.

    :param calls: tool calls, as (name, arguments).
    :param usage: input, output, cache_read, cache_write: tokens, ``input`` without the cached ones.
    :param stop: the stop reason in the service's own terms; by default the one that fits.
    :param status: the status of an error.
    :param body: the JSON of an error, or bytes that are sent unchanged, with ``content_type``.
    :param whole: answer without streaming, also when the request asks for a stream.
    :param raw: bytes of a stream, sent unchanged.
    :param piece_bytes: cut the stream in pieces of this size; 0 = one piece for each event.
    :param cut: close the connection before the end marker of the body.
    :param hang: send half of the events, then nothing until the client disconnects.
    :param delay_seconds: wait before the answer.
    :param pause_seconds: wait between two pieces of a stream.
    :param play: writes the answer on the raw connection instead of all this, valid or not; ``Line.events`` holds the
        events of a valid stream.
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
    play: "Callable[[ServiceConnection], Awaitable[None]] | None" = None


class ServiceConnection:
    """The raw connection of one request, for ``Reply.play``; it is closed afterwards.

    :ivar events: the events of the reply as the service would stream them.
    """

    def __init__(
        self, events: Sequence[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.events = list(events)
        self._reader, self._writer = reader, writer

    async def send(self, *pieces: bytes) -> None:
        """Send bytes unchanged; each piece is flushed before the next."""
        for piece in pieces:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def send_head(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        """Send status and headers; without a content length the body ends when the connection closes."""
        _write_head(
            self._writer, status, {name.replace("_", "-"): value for name, value in headers.items()}, kind
        )
        await self._writer.drain()

    async def hang(self) -> None:
        """Send nothing until the client disconnects."""
        while await self._reader.read(1 << 16):
            pass
        raise ConnectionResetError

    def half_close(self) -> None:
        """Close the sending side and keep the connection."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Reset the connection at once, without a regular close."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request; header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any


Script = Iterable[ServiceReply | str] | Callable[[ReceivedRequest], ServiceReply | str]


class ModelProtocol(Protocol):
    """The protocol of a service: an object, or a module, with these functions. ``claw_testing.protocols`` has some."""

    def check(self, headers: Mapping[str, str], body: Any) -> None:
        """Check a request. ``headers[":path"]`` is its path.

        :raises RequestRefused: what the service would refuse, with the status and the text of its error.
        """

    def stream(self, reply: ServiceReply, body: Any, number: int) -> Iterable[bytes]:
        """Return the events of a streamed answer, as bytes on the wire. ``number`` makes ids unique."""
        ...

    def whole(self, reply: ServiceReply, body: Any, number: int) -> Any:
        """Return an answer that is not streamed, as JSON."""

    def error(self, kind: str, message: str) -> Any:
        """Return the body of an error, as JSON."""


class ModelService:
    """A small HTTP/1.1 server with keep-alive; ``async with`` starts and stops it. The base of the services below, and of
    one for a protocol of yours.

    :param script: the answers in order (a string is a text), or a function of the request. After the last
        answer, every request is answered with 500.
    :cvar protocols: path of a request (:meth:`protocol_key`) → its :class:`ModelProtocol`.
    :cvar stream_type: the content type of a streamed answer.
    """

    protocols: ClassVar[Mapping[str, Any]] = {}
    stream_type = "text/event-stream; charset=utf-8"

    def __init__(self, script: Script = ()) -> None:
        self._next = script if callable(script) else _scripted(script)
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._ids = count(1)
        self.requests: list[ReceivedRequest] = []
        self.refusals: list[str] = []
        self.connections = 0
        self.left = asyncio.Event()
        """Set when a client disconnects in the middle of an answer."""

    @property
    def url(self) -> str:
        """The base URL of the service, without a path."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def open(self) -> int:
        """The number of open connections."""
        return len(self._connections)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._handle_connection, "127.0.0.1", 0, limit=1 << 22)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        tasks = list(self._connections)
        for writer in self._connections.values():
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    def protocol_key(self, request: ReceivedRequest) -> str:
        """Return the key of ``protocols`` for a request."""
        return request.path.partition("?")[0]

    def wants_stream(self, request: ReceivedRequest) -> bool:
        """Return true if the answer to a request is streamed."""
        return bool(request.body.get("stream"))

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = writer
        try:
            while (request := await _read_request(reader)) and await self._serve(request, reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            del self._connections[task]
            writer.close()

    async def _serve(
        self, request: ReceivedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request; return False when the connection must be closed."""
        self.requests.append(request)
        protocol = self.protocols.get(self.protocol_key(request))
        try:
            if protocol is None:
                raise RequestRefused(f"Unknown request URL: {request.path}", "not_found_error", 404)
            protocol.check({**request.headers, ":path": request.path}, request.body)
        except RequestRefused as refusal:
            self.refusals.append(str(refusal))
            error = next(iter(self.protocols.values())).error(refusal.kind, refusal.message)
            await _send_answer(writer, refusal.status, {}, "application/json", _to_json(error))
            return True
        answer = self._next(request)
        reply = ServiceReply(answer) if isinstance(answer, str) else answer
        await asyncio.sleep(reply.delay_seconds)
        if reply.play is None and (reply.body is not None or reply.status != 200):
            body = reply.body if isinstance(reply.body, bytes) else _to_json(reply.body)
            await _send_answer(writer, reply.status, reply.headers, reply.content_type, body)
            return True
        number = next(self._ids)
        if reply.play:
            events = list(protocol.stream(reply, request.body, number))
            await reply.play(ServiceConnection(events, reader, writer))
            return False
        if reply.whole or not self.wants_stream(request):
            body = _to_json(protocol.whole(reply, request.body, number))
            await _send_answer(writer, 200, reply.headers, "application/json", body)
            return True
        events = [reply.raw] if reply.raw is not None else list(protocol.stream(reply, request.body, number))
        return await self._stream(reply, events[: len(events) // 2] if reply.hang else events, reader, writer)

    async def _stream(
        self,
        reply: ServiceReply,
        events: Sequence[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        headers = {**reply.headers, "transfer-encoding": "chunked"}
        _write_head(writer, 200, headers, self.stream_type)
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


class AnthropicService(ModelService):
    """Anthropic's Messages API."""

    protocols: ClassVar[Mapping[str, Any]] = {"/v1/messages": anthropic}


class OpenAIService(ModelService):
    """OpenAI's Chat Completions and Responses."""

    protocols: ClassVar[Mapping[str, Any]] = {"/v1/chat/completions": chat, "/v1/responses": responses}

    @property
    def url(self) -> str:
        """The base URL of the service, with ``/v1``."""
        return f"{super().url}/v1"


class GoogleService(ModelService):
    """Gemini's ``generateContent``, streamed or not, versions ``v1`` and ``v1beta``."""

    protocols: ClassVar[Mapping[str, Any]] = {"generateContent": google, "streamGenerateContent": google}

    def protocol_key(self, request: ReceivedRequest) -> str:
        path = re.fullmatch(r"/v1(?:beta)?/models/[^/:]+:(\w+)", super().protocol_key(request))
        return path[1] if path else ""

    def wants_stream(self, request: ReceivedRequest) -> bool:
        return self.protocol_key(request) == "streamGenerateContent"


class MistralService(ModelService):
    """Mistral's chat completions. Its URL has no ``/v1``, as the SDK expects."""

    protocols: ClassVar[Mapping[str, Any]] = {"/v1/chat/completions": mistral}


def _scripted(script: Iterable[ServiceReply | str]) -> Callable[[ReceivedRequest], ServiceReply | str]:
    replies = iter(script)
    error = {"type": "api_error", "message": "the script of this test is over"}
    end = ServiceReply(status=500, body={"error": error})
    return lambda request: next(replies, end)


async def _pieces(events: Sequence[bytes], size: int, pause_seconds: float) -> AsyncIterator[bytes]:
    """Yield the events, or pieces of ``size`` bytes, with a pause between two, so that they arrive separately."""
    if size:
        whole = b"".join(events)
        events = [whole[start : start + size] for start in range(0, len(whole), size)]
    for event in events:
        yield event
        await asyncio.sleep(pause_seconds)


async def _read_request(reader: asyncio.StreamReader) -> ReceivedRequest | None:
    """Read one request; None when the client has closed the connection."""
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
    return ReceivedRequest(first.split(" ")[1], headers, parsed)


def _write_head(
    writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], content_type: str
) -> None:
    lines = [f"HTTP/1.1 {status} -", f"content-type: {content_type}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))


async def _send_answer(
    writer: asyncio.StreamWriter, status: int, headers: Mapping[str, str], content_type: str, body: bytes
) -> None:
    _write_head(writer, status, {**headers, "content-length": str(len(body))}, content_type)
    writer.write(body)
    await writer.drain()


def _to_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
