"""A reverse proxy that sends the requests of all its callers over one connection, and loses responses."""

import asyncio
from typing import Self


class PoolingProxy:
    """A proxy before a port of loopback; ``async with``.

    :param lose: number of responses that it reads from its upstream and does not pass on, the first ones.
    :param marks: headers that it adds to requests.
    :ivar port: callers connect here.
    :ivar lost: number of lost responses.
    """

    def __init__(self, target: int, lose: int, marks: str = "") -> None:
        self._target, self._lose, self._marks = target, lose, marks
        self.port = self.lost = 0
        self._one_at_a_time = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        if self._upstream:
            self._upstream[1].close()

    async def _connected(self, caller: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            head, body = await _message(caller)
            first, _, lines = head.partition(b"\r\n")
            async with self._one_at_a_time:
                reader, writer = await self._pooled()
                writer.write(first + b"\r\n" + self._marks.encode() + lines + body)
                answer = b"".join(await _message(reader))
            if self.lost < self._lose:
                self.lost += 1
                back.transport.abort()
            else:
                back.write(answer)
                await back.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            back.close()

    async def _pooled(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._upstream is None:
            self._upstream = await asyncio.open_connection("127.0.0.1", self._target)
        return self._upstream


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read one request or response: head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    if b"content-length" in lines:
        return head, await reader.readexactly(int(lines[b"content-length"]))
    if lines.get(b"transfer-encoding") == b"chunked":
        return head, await reader.readuntil(b"\r\n0\r\n\r\n")
    return head, b""
