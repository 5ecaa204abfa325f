"""HTTP transport on asyncio's own transports, which sends a request in one write.

httpcore's default backend uses anyio: each request takes two writes, and each check of an idle connection takes three
system calls. Under load that was a fifth of a turn (bench/README.md).
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any, Self, TypeVar, cast

import httpcore2
import httpx2

from claw_http_sdk.errors import STALE_CONNECTION

T = TypeVar("T")

_MAX_BUFFERED_BYTES = 64 * 1024  # bytes of a request that are buffered; a longer one is sent in parts
_MAX_UNREAD_BYTES = 256 * 1024  # bytes of unread response, above which reading from the socket pauses
_HAPPY_EYEBALLS_SECONDS = 0.25  # RFC 8305: delay before the next address of a host is tried too
_IDLE_SECONDS = 15.0  # an unused connection is closed after this; services close theirs after 60 and more
_POOL_CONNECTIONS = 4
_POOLS = 50


class PooledTransport(httpx2.AsyncHTTPTransport):
    """The connections of one HTTP client, kept between requests: ``config.http(base_url, transport=PooledTransport)``."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        super().__init__(verify=tls, trust_env=False)
        self._pool = cast("httpcore2.AsyncConnectionPool", _Pools(tls))


class _Pool:
    """A small connection pool with the number of its active requests."""

    def __init__(self, tls: ssl.SSLContext, network: httpcore2.AsyncNetworkBackend) -> None:
        self.busy = 0
        self.connections = httpcore2.AsyncConnectionPool(
            ssl_context=tls,
            network_backend=network,
            max_connections=_POOLS * _POOL_CONNECTIONS,
            max_keepalive_connections=_POOL_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
        )


class _Pools:
    """Several small pools; each request uses the first one that is not busy.

    At each request and at the end of each response, httpcore checks every connection of its pool: with 64 concurrent
    responses that was a fifteenth of a turn.
    """

    def __init__(self, tls: ssl.SSLContext) -> None:
        self._tls, self._network = tls, _NetworkBackend()
        self._pools: list[_Pool] = []

    async def handle_async_request(self, request: httpcore2.Request) -> httpcore2.Response:
        pool = self._pick_pool()
        pool.busy += 1
        try:
            response = await pool.connections.handle_async_request(request)
        except BaseException:
            pool.busy -= 1
            raise
        response.stream = _PooledBody(response.stream, pool)
        return response

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *why: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.connections.aclose()

    def _pick_pool(self) -> _Pool:
        for pool in self._pools:
            if pool.busy < _POOL_CONNECTIONS:
                return pool
        if len(self._pools) < _POOLS:
            self._pools.append(_Pool(self._tls, self._network))
        return min(self._pools, key=lambda pool: pool.busy)


class _PooledBody:
    """The body of a response; closing it frees its place in the pool."""

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


class _NetworkBackend(httpcore2.AsyncNetworkBackend):
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
        local = (local_address, 0) if local_address else None
        delay = _HAPPY_EYEBALLS_SECONDS if is_name else None
        connecting = loop.create_connection(
            _Protocol, host, port, local_addr=local, happy_eyeballs_delay=delay
        )
        errors = httpcore2.ConnectTimeout, httpcore2.ConnectError
        _, protocol = await _with_timeout(connecting, timeout, *errors)
        return _Stream(protocol)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Protocol(asyncio.Protocol):
    """The asyncio protocol of one connection: received bytes that are not read yet, and flow control for writing."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.is_closed, self._is_full = False, False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) > _MAX_UNREAD_BYTES:
            self.transport.pause_reading()
        self._notify()

    def eof_received(self) -> None:
        self.is_closed = True
        self._notify()

    def connection_lost(self, why: Exception | None) -> None:
        self.is_closed, self._error, self._is_full = True, why, False
        self._notify()

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._notify()

    async def read(self, max_bytes: int) -> bytes:
        while not self.received and not self.is_closed:
            await self._wait()
        if not self.received and self._error:
            raise self._error
        data = bytes(self.received[:max_bytes])
        del self.received[:max_bytes]
        if not self.is_closed and len(self.received) <= _MAX_UNREAD_BYTES < len(self.received) + len(data):
            self.transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        if self._error:
            raise self._error
        self.transport.write(data)
        while self._is_full:
            await self._wait()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _notify(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class _ResponseFraming:
    """The end of one HTTP/1.1 response in the bytes of its connection; a byte behind it belongs to no response.

    httpcore keeps such bytes and would read them as the response to the next request. In doubt the end is never found,
    so the connection is not used again.

    :param has_body: false for the response to HEAD.
    :ivar at_end: the bytes so far are one whole response, and not a byte more.
    """

    def __init__(self, has_body: bool) -> None:
        self.at_end = False
        self._has_body = has_body
        self._step = "status"
        self._line = b""
        self._skip = 0  # bytes of the body, or of its present chunk, that are to come
        self._status = 0
        self._length: int | None = None
        self._is_chunked = False

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the connection."""
        at = 0
        while at < len(data) and self._step != "unknown":
            if self.at_end:
                self.at_end, self._step = False, "unknown"
            elif self._skip:
                skipped = min(self._skip, len(data) - at)
                self._skip, at = self._skip - skipped, at + skipped
                self.at_end = self._step == "body" and not self._skip
            else:
                end = data.find(b"\n", at) + 1 or len(data)
                self._line += data[at:end]
                at = end
                if self._line.endswith(b"\n"):
                    line, self._line = self._line.strip(), b""
                    try:
                        self._read_line(line)
                    except (ValueError, IndexError):
                        self._step = "unknown"

    def _read_line(self, line: bytes) -> None:
        name, _, value = line.lower().partition(b":")
        if self._step == "status":
            self._status, self._step = int(line.split()[1]), "headers"
        elif self._step == "headers" and line:
            if name == b"content-length":
                self._length = int(value)
            elif name == b"transfer-encoding":
                self._is_chunked = value.strip() == b"chunked"
        elif self._step == "headers":
            self._end_head()
        elif self._step == "size":
            self._skip = int(line.partition(b";")[0], 16)
            self._step = "chunk" if self._skip else "trailers"
        elif self._step == "chunk":  # the line break behind it
            self._step = "size"
        else:
            self.at_end = not line

    def _end_head(self) -> None:
        if 100 <= self._status < 200:
            self._step = "unknown" if self._status == 101 else "status"
        elif not self._has_body or self._status in (204, 304) or (self._length == 0 and not self._is_chunked):
            self.at_end = True
        elif self._is_chunked:
            self._step = "size"
        else:
            self._step, self._skip = "body" if self._length else "unknown", self._length or 0


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection with httpcore's interface. Writes are buffered until a read, so a request leaves in one piece."""

    def __init__(self, protocol: _Protocol) -> None:
        self._protocol = protocol
        self._buffer: list[bytes] = []
        self._size = 0
        self._is_reused = False  # it has received a response
        self._awaits_response = False
        self._framing: _ResponseFraming | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._buffer:
            await self._send(timeout)
        if self._protocol.received:
            return self._on_received(await self._protocol.read(max_bytes))
        try:
            reading = self._protocol.read(max_bytes)
            data = await _with_timeout(reading, timeout, httpcore2.ReadTimeout, httpcore2.ReadError)
        except httpcore2.ReadError as why:
            if self._is_reused and self._awaits_response:
                raise httpcore2.ReadError(STALE_CONNECTION) from why
            raise
        if self._is_reused and self._awaits_response and not data:
            raise httpcore2.ReadError(STALE_CONNECTION)
        return self._on_received(data)

    def _on_received(self, data: bytes) -> bytes:
        self._is_reused, self._awaits_response = True, False
        if self._framing:
            self._framing.feed(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._buffer.append(buffer)
        self._size += len(buffer)
        if self._size > _MAX_BUFFERED_BYTES:
            await self._send(timeout)

    async def aclose(self) -> None:
        self._protocol.transport.abort()
        await asyncio.sleep(0)  # the event loop closes the socket in its next iteration

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        loop, protocol = asyncio.get_running_loop(), self._protocol
        try:
            transport = protocol.transport
            securing = loop.start_tls(transport, protocol, ssl_context, server_hostname=server_hostname)
            wrapped = await _with_timeout(securing, timeout, httpcore2.ConnectTimeout, httpcore2.ConnectError)
            if wrapped is None:
                raise httpcore2.ConnectError("the connection was closed while it was being secured")
        except BaseException:
            protocol.transport.abort()
            raise
        protocol.connection_made(wrapped)
        return self

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # an idle connection was closed, or the service sent unrequested data
            left = self._framing is not None and not self._framing.at_end
            left = left or self._protocol.is_closed or bool(self._protocol.received)
            return left or self._protocol.transport.is_closing()
        names = {"client_addr": "sockname", "server_addr": "peername"}
        return self._protocol.transport.get_extra_info(names.get(info, info))

    async def _send(self, timeout: float | None) -> None:
        if self._is_reused and not self._awaits_response and self._protocol.received:
            raise httpcore2.ReadError(
                STALE_CONNECTION
            )  # it cannot be the response to a request that is not sent yet
        buffered, size, self._buffer, self._size = self._buffer, self._size, [], 0
        if not self._awaits_response:
            self._framing = _ResponseFraming(not buffered[0].startswith(b"HEAD "))
        # long data is not joined, to avoid a copy
        pieces = buffered if size > _MAX_BUFFERED_BYTES else [b"".join(buffered)]
        for piece in pieces:
            writing = self._protocol.write(piece)
            await _with_timeout(writing, timeout, httpcore2.WriteTimeout, httpcore2.WriteError)
        self._awaits_response = True


async def _with_timeout(
    step: Coroutine[Any, Any, T], seconds: float | None, late: type[Exception], broken: type[Exception]
) -> T:
    """Run a step within a time limit, and translate its failures into httpcore's errors.

    Every chunk passes through here, so a call without a limit must cost nothing.
    """
    try:
        if seconds is None:
            return await step
        async with asyncio.timeout(seconds):
            return await step
    except TimeoutError as why:
        raise late(str(why)) from why
    except OSError as why:
        raise broken(str(why)) from why
