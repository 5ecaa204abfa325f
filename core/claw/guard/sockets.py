"""The connections of the HTTP client, on asyncio's own transports: a request leaves in one piece.

httpcore's usual ones go through anyio: each request leaves in two writes, and each look at an idle connection asks the
system three things. On a busy house that was a fifth of a turn (bench/README.md).
"""

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import aclosing
from typing import Any, Self, TypeVar, cast

import httpcore2
import httpx2

from claw.guard.fetch import STALE
from claw.guard.handshake import Unsafe, unsafe, wants_tls

T = TypeVar("T")

_MOST_HELD = 64 * 1024  # of a request, until it is sent in parts
_MOST_HEARD = 256 * 1024  # of an answer nobody has read yet, until the service must wait
_SECOND_ADDRESS_SECONDS = 0.25  # RFC 8305: when the first address of a name is silent, the next is tried too
_IDLE_SECONDS = (
    15.0  # a connection that nobody used for so long is closed; services close theirs after 60 and more
)
_REFUSAL_BYTES = 64 * 1024
_REFUSAL_SECONDS = 5.0
_POOL_CONNECTIONS = 4
_POOLS = 50


class Carrier(httpx2.AsyncHTTPTransport):
    """What carries the requests of one client.

    :param refusal_seconds: how long the words of a refusal may take.
    """

    def __init__(self, tls: ssl.SSLContext, *, refusal_seconds: float = _REFUSAL_SECONDS) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._refusal_seconds = refusal_seconds
        self._pool = cast("httpcore2.AsyncConnectionPool", _Pools(tls))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Of an answer that is none (a refusal, a redirection) no more than its beginning is read, and not for long.

        The vendors' clients read it whole before anybody sees it: one without an end would fill the memory.
        """
        response = await super().handle_async_request(request)
        if response.status_code < 300:
            return response
        body = await _beginning(response, self._refusal_seconds)
        if request.url.scheme == "http" and (told := wants_tls(request.url.host, body)):
            raise httpx2.ConnectError(str(told), request=request) from told
        packed = ("content-encoding", "content-length", "transfer-encoding")
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in packed]
        return httpx2.Response(
            response.status_code, headers=headers, content=body, extensions=response.extensions
        )


async def _beginning(response: httpx2.Response, seconds: float) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds), aclosing(aiter(cast("Any", response.stream))) as chunks:
            async for chunk in chunks:
                parts.append(chunk)
                size += len(chunk)
                if size >= _REFUSAL_BYTES:
                    break
    except (TimeoutError, httpx2.TransportError):
        pass  # what it is, its number says
    finally:
        await response.aclose()
    packing = response.headers.get("content-encoding", "identity").strip().lower()
    return _unpacked(b"".join(parts), packing)[:_REFUSAL_BYTES]


def _unpacked(body: bytes, packing: str) -> bytes:
    """The beginning of what was packed; nothing when it cannot be read."""
    if packing == "identity":
        return body
    if packing not in ("gzip", "x-gzip", "deflate"):
        return b""
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(body, _REFUSAL_BYTES)
    except zlib.error:
        return b""


class _Pool:
    """Few connections, and how many requests are under way on them."""

    def __init__(self, tls: ssl.SSLContext, network: httpcore2.AsyncNetworkBackend) -> None:
        self.busy = 0
        self.connections = httpcore2.AsyncConnectionPool(
            ssl_context=tls, network_backend=network, max_connections=_POOLS * _POOL_CONNECTIONS,
            max_keepalive_connections=_POOL_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS,
        )  # fmt: skip


class _Pools:
    """Small pools, each request through the first one that is not busy.

    At each request and at the end of each answer, httpcore looks at every connection of its pool: with 64 answers under
    way that was a fifteenth of a turn.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls, self._network = tls, _Sockets()
        self._pools: list[_Pool] = []

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        pool = self._with_room()
        pool.busy += 1
        try:
            response = await pool.connections.handle_async_request(request)
        except BaseException:
            pool.busy -= 1
            raise
        end = response.extensions.get("network_stream")
        if isinstance(end, _Stream) and end.parser is None:
            end.parser = _parser_of(response)
        response.stream = _Carried(response.stream, pool)
        return response

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.connections.aclose()

    def _with_room(self) -> _Pool:
        for pool in self._pools:
            if pool.busy < _POOL_CONNECTIONS:
                return pool
        if len(self._pools) < _POOLS:
            self._pools.append(_Pool(self._tls, self._network))
        return min(self._pools, key=lambda pool: pool.busy)


class _Carried:
    """The body of an answer; when it is closed, its pool has room again."""

    def __init__(self, body: Any, pool: _Pool) -> None:
        self._body, self._pool = body, pool
        self._is_open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return cast("AsyncIterator[bytes]", aiter(self._body))

    async def aclose(self) -> None:
        try:
            await self._body.aclose()
        finally:
            self._pool.busy -= self._is_open
            self._is_open = False


def _parser_of(response: httpcore2.Response) -> Any:
    """What reads the answers of this connection, to learn whether bytes are left over; httpcore has no word for that.
    With another httpcore there may be none: then only what was not read yet counts."""
    try:
        return cast("Any", response.stream)._stream._connection._h11_state
    except AttributeError:
        return None


class _Unsecured(httpcore2.ConnectError):
    """In httpcore's words. It cuts what an error was raised from, so the reason is carried along."""

    def __init__(self, why: Unsafe) -> None:
        super().__init__(str(why))
        self.unsafe = why


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
        connecting = loop.create_connection(
            _Ends, host, port, local_addr=(local_address, 0) if local_address else None,
            happy_eyeballs_delay=_SECOND_ADDRESS_SECONDS if is_name else None,
        )  # fmt: skip
        _, ends = await _in_time(connecting, timeout, httpcore2.ConnectTimeout, httpcore2.ConnectError)
        return _Stream(ends, host)

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
    """A connection as httpcore wants it. What is written is held until an answer is wanted, so it leaves together.

    :ivar parser: httpcore's, of the answers: what it was given and did not need belongs to no answer.
    """

    parser: Any = None

    def __init__(self, ends: _Ends, host: str) -> None:
        self._ends, self._host, self._held, self._size = ends, host, list[bytes](), 0
        self._is_kept, self._is_owed = False, False  # it has carried an answer; one is waited for

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._held:
            await self._send(timeout)
        if self._ends.heard:
            return self._heard(await self._ends.read(max_bytes))
        try:
            reading = self._ends.read(max_bytes)
            data = await _in_time(reading, timeout, httpcore2.ReadTimeout, httpcore2.ReadError)
        except httpcore2.ReadError as why:
            if self._is_kept and self._is_owed:
                raise httpcore2.ReadError(STALE) from why
            raise
        if self._is_kept and self._is_owed and not data:
            raise httpcore2.ReadError(STALE)
        return self._heard(data)

    def _heard(self, data: bytes) -> bytes:
        if not self._is_kept and data[:1] == b"\x15" and (told := wants_tls(self._host, data)):
            raise _Unsecured(told)
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
            securing = loop.start_tls(ends.transport, ends, ssl_context, server_hostname=server_hostname)
            wrapped = await _in_time(securing, timeout, httpcore2.ConnectTimeout, httpcore2.ConnectError)
            if wrapped is None:
                raise httpcore2.ConnectError("the connection was closed while it was being secured")
        except httpcore2.ConnectError as failed:
            ends.transport.abort()
            why = failed.__cause__
            if isinstance(why, ssl.SSLError) and (told := unsafe(self._host, why)):
                raise _Unsecured(told) from why
            raise
        except BaseException:
            ends.transport.abort()
            raise
        ends.connection_made(wrapped)
        return self

    def get_extra_info(self, info: str) -> Any:
        if (
            info == "is_readable"
        ):  # of an idle connection: it was closed, or the service says what nobody asked
            left = self.parser is not None and bool(self.parser.trailing_data[0])
            return left or self._ends.is_over or bool(self._ends.heard) or self._ends.transport.is_closing()
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._ends.transport.get_extra_info(names.get(info, info))

    async def _send(self, timeout: float | None) -> None:
        if self._is_kept and not self._is_owed and self._ends.heard:
            raise httpcore2.ReadError(STALE)  # it cannot be the answer to what was not sent yet
        held, size, self._held, self._size = self._held, self._size, [], 0
        pieces = held if size > _MOST_HELD else [b"".join(held)]  # what is long is not copied once more
        for piece in pieces:
            writing = self._ends.write(piece)
            await _in_time(writing, timeout, httpcore2.WriteTimeout, httpcore2.WriteError)
        self._is_owed = True


async def _in_time(
    step: Coroutine[Any, Any, T], seconds: float | None, late: type[Exception], broken: type[Exception]
) -> T:
    """What goes wrong in a step, in httpcore's words. Each word comes here: no limit costs nothing."""
    try:
        if seconds is None:
            return await step
        async with asyncio.timeout(seconds):
            return await step
    except TimeoutError as why:
        raise late(str(why)) from why
    except OSError as why:
        raise broken(str(why)) from why
