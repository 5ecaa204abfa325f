"""The connections of the HTTP client, on asyncio's own transports: a request leaves in one piece.

httpcore's usual ones go through anyio: each request leaves in two writes, and each look at an idle connection asks the
system three things. On a busy house that was a fifth of a turn (bench/README.md).
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Self, cast

import httpcore2
import httpx2

from claw.guard.fetch import STALE

_MOST_HELD = 64 * 1024  # of a request, until it is sent in parts
_MOST_HEARD = 256 * 1024  # of an answer nobody has read yet, until the service must wait
_SECOND_ADDRESS_SECONDS = 0.25  # RFC 8305: when the first address of a name is silent, the next is tried too
_IDLE_SECONDS = (
    15.0  # a connection that nobody used for so long is closed; services close theirs after 60 and more
)


_POOL_CONNECTIONS = 8
_POOLS = 25


class Carrier(httpx2.AsyncHTTPTransport):
    """What carries the requests of one client."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._pool = cast("httpcore2.AsyncConnectionPool", _Pools(tls))


class _Pools:
    """Small pools, each request through the first one that is not busy.

    At each request and at the end of each answer, httpcore looks at every connection of its pool: with 64 answers under
    way that was a fifteenth of a turn.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls, self._network = tls, _Sockets()
        self._pools: list[httpcore2.AsyncConnectionPool] = []

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        return await self._with_room().handle_async_request(request)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()

    def _with_room(self) -> httpcore2.AsyncConnectionPool:
        for pool in self._pools:
            if sum(not one.is_idle() for one in pool.connections) < _POOL_CONNECTIONS:
                return pool
        if len(self._pools) == _POOLS:
            return self._pools[-1]
        self._pools.append(
            httpcore2.AsyncConnectionPool(
                ssl_context=self._tls,
                network_backend=self._network,
                max_connections=_POOLS * _POOL_CONNECTIONS,
                max_keepalive_connections=_POOL_CONNECTIONS,
                keepalive_expiry=_IDLE_SECONDS,
            )
        )
        return self._pools[-1]


class _Sockets(httpcore2.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        is_name = not host.replace(".", "").isdigit() and ":" not in host
        async with _told(timeout, httpcore2.ConnectTimeout, httpcore2.ConnectError):
            _, ends = await loop.create_connection(
                _Ends, host, port, local_addr=(local_address, 0) if local_address else None,
                happy_eyeballs_delay=_SECOND_ADDRESS_SECONDS if is_name else None,
            )  # fmt: skip
        return _Stream(ends)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Ends(asyncio.Protocol):
    """Both ends of one connection: what was heard and not read yet, and whether it takes more."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.heard = bytearray()
        self.is_over, self._is_full = False, False
        self._why: Exception | None = None
        self._news: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data
        if len(self.heard) > _MOST_HEARD:
            self.transport.pause_reading()
        self._tell()

    def eof_received(self) -> None:
        self.is_over = True
        self._tell()

    def connection_lost(self, why: Exception | None) -> None:
        self.is_over, self._why, self._is_full = True, why, False
        self._tell()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._tell()

    async def read(self, most: int) -> bytes:
        while not self.heard and not self.is_over:
            await self._wait()
        if not self.heard and self._why:
            raise self._why
        data = bytes(self.heard[:most])
        del self.heard[:most]
        if not self.is_over and len(self.heard) <= _MOST_HEARD < len(self.heard) + len(data):
            self.transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        if self._why:
            raise self._why
        self.transport.write(data)
        while self._is_full:
            await self._wait()

    async def _wait(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _tell(self) -> None:
        if self._news and not self._news.done():
            self._news.set_result(None)


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection as httpcore wants it. What is written is held until an answer is wanted, so it leaves together."""

    def __init__(self, ends: _Ends) -> None:
        self._ends, self._held, self._size = ends, list[bytes](), 0
        self._is_kept, self._is_owed = False, False  # it has carried an answer; one is waited for

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._held:
            await self._send(timeout)
        if self._ends.heard:
            self._is_kept, self._is_owed = True, False
            return await self._ends.read(max_bytes)
        try:
            async with _told(timeout, httpcore2.ReadTimeout, httpcore2.ReadError):
                data = await self._ends.read(max_bytes)
        except httpcore2.ReadError as why:
            if self._is_kept and self._is_owed:
                raise httpcore2.ReadError(STALE) from why
            raise
        if self._is_kept and self._is_owed and not data:
            raise httpcore2.ReadError(STALE)
        self._is_kept, self._is_owed = True, False
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._held.append(buffer)
        self._size += len(buffer)
        if self._size > _MOST_HELD:
            await self._send(timeout)

    async def aclose(self) -> None:
        self._ends.transport.abort()
        await asyncio.sleep(0)  # the socket is closed in the loop's next round

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        loop, ends = asyncio.get_running_loop(), self._ends
        try:
            async with _told(timeout, httpcore2.ConnectTimeout, httpcore2.ConnectError):
                wrapped = await loop.start_tls(
                    ends.transport, ends, ssl_context, server_hostname=server_hostname
                )
                if wrapped is None:
                    raise ConnectionAbortedError("the connection was closed while it was being secured")
        except BaseException:
            ends.transport.abort()
            raise
        ends.connection_made(wrapped)
        return self

    def get_extra_info(self, info: str) -> Any:
        if (
            info == "is_readable"
        ):  # of an idle connection: it was closed, or the service says what nobody asked
            return self._ends.is_over or bool(self._ends.heard) or self._ends.transport.is_closing()
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._ends.transport.get_extra_info(names.get(info, info))

    async def _send(self, timeout: float | None) -> None:
        held, size, self._held, self._size = self._held, self._size, [], 0
        pieces = held if size > _MOST_HELD else [b"".join(held)]  # what is long is not copied once more
        async with _told(timeout, httpcore2.WriteTimeout, httpcore2.WriteError):
            for piece in pieces:
                await self._ends.write(piece)
        self._is_owed = True


@asynccontextmanager
async def _told(seconds: float | None, late: type[Exception], broken: type[Exception]) -> AsyncIterator[None]:
    """What goes wrong inside, in httpcore's words."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as why:
        raise late(str(why)) from why
    except (OSError, ssl.SSLError, socket.gaierror) as why:
        raise broken(str(why)) from why
