"""HTTP/1.1 and websocket server on one loopback port: standard library, and the protocol part of websockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from websockets.frames import OP_BINARY, OP_CLOSE
from websockets.server import ServerProtocol

FILE_PARTS = ("image", "file")
"""Form fields that are always files: the vendor's SDK sends a file given as bytes without a file name."""
_REASONS = {
    200: "OK",
    101: "Switching Protocols",
    400: "Bad Request",
    404: "Not Found",
    429: "Too Many Requests",
}


@dataclass(frozen=True)
class FakeCall:
    """One request as received.

    :param query: the last value of each name.
    :param body: parsed JSON; for a multipart body its parts (text, or bytes for a file); else raw bytes.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any = None
    raw: bytes = b""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class FakeAnswer:
    """A response.

    :param body: bytes unchanged, anything else as JSON.
    :param cut_after: send only so many bytes of the body, then cut the connection.
    :param hang: send nothing until the caller gives up.
    """

    status: int = 200
    body: Any = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    hang: bool = False
    content_type: str = "application/json; charset=utf-8"


class FakeSocket:
    """The server's end of one websocket."""

    def __init__(
        self, protocol: ServerProtocol, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._protocol, self._reader, self._writer = protocol, reader, writer

    async def send(self, data: bytes) -> None:
        """Send one binary message."""
        self._protocol.send_binary(data)
        await self._flush()

    async def messages(self) -> AsyncIterator[bytes]:
        """Yield received messages until the peer is gone."""
        while True:
            for event in self._protocol.events_received():
                if event.opcode == OP_BINARY:  # type: ignore[union-attr]
                    yield bytes(event.data)  # type: ignore[union-attr]
                elif event.opcode == OP_CLOSE:  # type: ignore[union-attr]
                    await self._flush()
                    return
            data = await self._reader.read(65536)
            if not data:
                return
            self._protocol.receive_data(data)
            await self._flush()

    def drop(self) -> None:
        """Cut the connection without a closing handshake."""
        self._writer.transport.abort()

    async def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self._writer.write(data)
        await self._writer.drain()


Serve = Callable[[FakeCall], Awaitable[FakeAnswer]]
Upgrade = Callable[[FakeCall], "FakeAnswer | Callable[[FakeSocket], Awaitable[None]]"]


class FakeServer:
    """A server on one port of 127.0.0.1.

    :param serve: answers a request.
    :param upgrade: checks a websocket handshake: returns an answer to refuse it, else a function to serve the socket.
    """

    def __init__(self, serve: Serve, upgrade: Upgrade) -> None:
        self._serve, self._upgrade = serve, upgrade
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def start(self, port: int = 0) -> None:
        """Listen; 0 takes a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut every connection and stop."""
        if self._server:
            self._server.close()
            for task in list(self._tasks):
                task.cancel()
            if self._tasks:
                await asyncio.wait(list(self._tasks))
            await self._server.wait_closed()
            self._server = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                call = parsed(head, b"")
                if call.headers.get("upgrade", "").lower() == "websocket":
                    await self._websocket(call, head, reader, writer)
                    return
                body = await reader.readexactly(int(call.headers.get("content-length", "0")))
                if not await _reply(writer, await self._serve(parsed(head, body))):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _websocket(
        self, call: FakeCall, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        serve = self._upgrade(call)
        if isinstance(serve, FakeAnswer):
            await _reply(writer, serve)
            return
        protocol = ServerProtocol()
        protocol.receive_data(head)
        (request,) = protocol.events_received()
        protocol.send_response(protocol.accept(request))  # type: ignore[arg-type]
        socket = FakeSocket(protocol, reader, writer)
        await socket._flush()
        await serve(socket)


async def _reply(writer: asyncio.StreamWriter, answer: FakeAnswer) -> bool:
    """Send an answer; return true if the connection stays open."""
    if answer.hang:
        await asyncio.sleep(3600)
    data = (
        answer.body
        if isinstance(answer.body, bytes)
        else json.dumps(answer.body, ensure_ascii=False).encode()
    )
    headers = {"Content-Type": answer.content_type, "Content-Length": str(len(data)), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} {_REASONS.get(answer.status, 'Answer')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    whole = answer.cut_after is None
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (data if whole else data[: answer.cut_after]))
    await writer.drain()
    return whole


def parsed(head: bytes, raw: bytes) -> FakeCall:
    """Parse a request."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    url = urlsplit(target)
    body = _body(headers, raw)
    return FakeCall(method, url.path, dict(parse_qsl(url.query, keep_blank_values=True)), headers, body, raw)


def _body(headers: Mapping[str, str], raw: bytes) -> Any:
    """Parse a body; as JSON whatever the content type: the vendor's SDK requests its token without one."""
    kind = headers.get("content-type", "")
    if kind.startswith("multipart/"):
        whole = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + raw)
        parts: dict[str, Any] = {}
        for part in whole.walk():
            data = part.get_payload(decode=True)
            if isinstance(data, bytes):
                name = str(part.get_param("name", header="content-disposition"))
                parts[name] = data if name in FILE_PARTS or part.get_filename() else data.decode()
        return parts
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw
