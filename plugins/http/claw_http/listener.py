"""The listening socket. The HTTP code of its connections is imported with the first connection."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from claw import ClawError

if TYPE_CHECKING:
    from claw_http.connection import Connections


class Listener:
    """A socket that passes every request to ``app`` (ASGI)."""

    def __init__(self, app: Callable[..., Any]) -> None:
        self._app = app
        self._server: asyncio.Server | None = None
        self._connections: Connections | None = None
        self._early: dict[asyncio.Transport, None] = {}
        self._loading: asyncio.Task[None] | None = None

    async def start(self, address: str, port: int) -> int:
        """Listen; return the port, which the system chooses when it is 0.

        :raises ClawError: the address is not available.
        """
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._protocol, address, port, backlog=512)
        except OSError as why:
            raise address_error(why, address, port) from None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Accept no more requests, give running ones a moment to end, and close."""
        if self._server is None:
            return
        self._server.close()
        if self._loading:
            self._loading.cancel()
        for transport in self._early:
            transport.abort()
        if self._connections:
            await self._connections.close()

    def early(self, transport: asyncio.Transport) -> None:
        """Hold a connection, unread, until uvicorn is imported."""
        loop = asyncio.get_running_loop()
        self._early[transport] = None
        loop.call_soon(
            self._pause, transport
        )  # CPython before 3.11.4 begins to read after this, paused or not
        if self._loading is None:
            self._loading = loop.create_task(self._load())

    def _pause(self, transport: asyncio.Transport) -> None:
        if transport in self._early:
            transport.pause_reading()

    def gone(self, transport: asyncio.Transport) -> None:
        """Remove a held connection that was closed."""
        self._early.pop(transport, None)

    def _protocol(self) -> asyncio.Protocol:
        return self._connections() if self._connections else _Early(self)

    async def _load(self) -> None:
        self._connections = await asyncio.to_thread(_connections, self._app)
        early, self._early = self._early, {}
        for transport in early:
            protocol = self._connections()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            transport.resume_reading()


def try_address(address: str, port: int) -> None:
    """Bind the address, as :meth:`Listener.start` does, and release it at once; nothing listens meanwhile.

    :raises ClawError: it is not available.
    """
    is_v6 = ":" in address
    with socket.socket(socket.AF_INET6 if is_v6 else socket.AF_INET) as probe:
        try:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # else a port in TIME_WAIT seems taken
            if is_v6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
        except OSError as why:
            raise address_error(why, address, port) from None


def address_error(why: OSError, address: str, port: int) -> ClawError:
    """Return the error of an address that cannot be bound."""
    if why.errno == errno.EADDRINUSE:
        return ClawError(
            "port {port} of {address} is in use",
            fix="Stop the program that uses it, or choose another port: claw config set gateway.port {other}",
            port=port,
            address=address,
            other=port + 1,
        )
    return ClawError(
        "cannot listen on {address}, port {port}: {why}",
        where="gateway.bind",
        fix="Use an address of this machine, or 127.0.0.1",
        address=address,
        port=port,
        why=os.strerror(why.errno)
        if (why.errno or 0) > 0
        else why.strerror or why,  # asyncio adds words of its own
    )


class _Early(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._listener.early(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.gone(self._transport)


def _connections(app: Callable[..., Any]) -> "Connections":
    from claw_http.connection import Connections

    return Connections(app)
