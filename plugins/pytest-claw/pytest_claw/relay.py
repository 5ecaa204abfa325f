"""A service that already runs, an engine on this machine or a vendor's own, and a relay to it that can
break.
"""

import asyncio
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_HEAD_END = b"\r\n\r\n"
_REQUEST = b" HTTP/1.1\r\n"


@dataclass(frozen=True)
class LiveService:
    """A service whose answers are not scripted.

    :param url: base URL, plain http; ``key`` is one that it takes, ``model`` one that it has.
    :param longest: more words than fit into one conversation with the model.
    :param cannot: by the name of a test, why it cannot run with this service: that test is skipped.
    """

    url: str
    key: str
    model: str
    longest: int = 10_000
    cannot: tuple[tuple[str, str], ...] = ()


class Relay:
    """A relay between a provider and a live service, which records requests and injects faults.

    :param piece_bytes: the answer comes in pieces of this size; 0 = unchanged.
    :param cut: the connection breaks behind the head of the answer; ``silent``: nothing of the answer
        arrives.
    :ivar asked: how many requests passed; ``left`` is set when the provider closed a connection.
    """

    def __init__(self, url: str, piece_bytes: int = 0, *, cut: bool = False, silent: bool = False) -> None:
        self._to, self._size, self._cut, self._silent = urlsplit(url), piece_bytes, cut, silent
        self._open: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, ...]] = {}
        self._server: asyncio.Server | None = None
        self.asked, self.left = 0, asyncio.Event()

    @property
    def url(self) -> str:
        """The service's base URL, with the relay's port."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{self._to.path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._handle_connection, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        running = list(self._open)
        for ends in self._open.values():
            _close_writers(*ends)
        await asyncio.gather(*running, return_exceptions=True)
        await self._server.wait_closed()
        await asyncio.sleep(0)  # a socket is closed in the loop's next iteration

    async def _handle_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = (writer,)
        there, to = await asyncio.open_connection(self._to.hostname, self._to.port)
        self._open[task] = ends = (writer, to)
        ways = [
            asyncio.ensure_future(way)
            for way in (self._forward_requests(reader, to), self._forward_answers(there, writer))
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        _close_writers(*ends)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        del self._open[task]

    async def _forward_requests(self, reader: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        end = b""
        while data := await reader.read(1 << 16):
            seen = end + data
            self.asked += seen.count(_REQUEST)
            end = seen[-len(_REQUEST) + 1 :]
            to.write(data)
            await to.drain()
        self.left.set()

    async def _forward_answers(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen = b""
        while data := await there.read(1 << 16):
            seen += data
            if self._silent:
                await asyncio.Event().wait()  # until the provider disconnects
            size = self._size or len(data)
            for at in range(0, len(data), size):
                writer.write(data[at : at + size])
                await writer.drain()
                await asyncio.sleep(0)
            if self._cut and _HEAD_END in seen:
                return


def _close_writers(*ends: asyncio.StreamWriter) -> None:
    for end in ends:
        end.transport.abort()
