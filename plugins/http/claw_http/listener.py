"""The listening socket. The HTTP code of its connections is imported with the first connection.

Connections are accepted while descriptors are left for them; the others wait in the backlog of the kernel and are not
closed. (``asyncio.Server`` accepts without limit.)
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from claw import ClawError

if TYPE_CHECKING:
    from claw_http.connection import Connections

BACKLOG = 4096
"""Connections that wait to be accepted; systems cut it to their own limit (Linux: net.core.somaxconn)."""
MOST_OPEN = 8192
_ENOUGH_FILES = 1024
_LOOK_SECONDS, _NO_FILES_SECONDS = 0.02, 0.2
_LAST_HEAD_SECONDS = (
    1.0  # for the request of a connection that was accepted just before the socket was closed
)


def most_open_connections() -> int:
    """Return how many connections may be open: half of the descriptors of this process; a quarter where they are few, as
    each call needs more of them for its turn.
    """
    try:
        import resource  # absent on Windows
    except ImportError:
        return MOST_OPEN
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return (
        MOST_OPEN
        if soft == resource.RLIM_INFINITY
        else max(16, min(MOST_OPEN, soft // (2 if soft >= _ENOUGH_FILES else 4)))
    )


class Listener:
    """A socket that passes every request to ``app`` (ASGI).

    :param most_open: maximum number of open connections; 0 = by the limit of the process.
    :ivar app: receives the next request; those that run end in the app that they began in.
    """

    def __init__(self, app: Callable[..., Any], most_open: int = 0) -> None:
        self.app, self._most_open = app, most_open
        self._place = ("", -1)
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._waiting: set[asyncio.Future[None]] = set()
        self._is_finishing = False
        self._connections: Connections | None = None
        self._early: dict[asyncio.Transport, None] = {}
        self._loading: asyncio.Task[None] | None = None

    def listens_at(self, address: str, port: int) -> bool:
        """Return true if it was started with this address and port."""
        return self._place == (address, port)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._sockets[0].getsockname()[1])

    async def start(self, address: str, port: int, beside: "Listener | None" = None) -> int:
        """Listen; return the port, which the system chooses when it is 0.

        :param beside: a listener that this one replaces; it may have the same port at an address that overlaps.
        :raises ClawError: the address is not available.
        """
        loop = asyncio.get_running_loop()
        try:
            with _shared_ports(beside._sockets if beside else ()):
                self._sockets = await _bound(address, port, is_shared=beside is not None)
        except OSError as why:
            raise address_error(why, address, port) from None
        self._place = address, port
        self._most_open = self._most_open or most_open_connections()
        self._accepting = [loop.create_task(self._accept(one)) for one in self._sockets]
        return self.port

    async def finish(self) -> None:
        """Accept the connections that wait and no more; return when all requests have their answers."""
        self._is_finishing = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        await asyncio.wait(self._accepting)
        await asyncio.sleep(_LAST_HEAD_SECONDS)
        if self._loading:
            await self._loading
        if self._connections:
            await self._connections.finish()

    async def stop(self) -> None:
        """Accept no more requests, give running ones a moment to end, and close."""
        for task in self._accepting:
            task.cancel()
        if self._accepting:
            await asyncio.wait(self._accepting)
        for one in self._sockets:
            one.close()
        if self._loading:
            self._loading.cancel()
        for transport in self._early:
            transport.abort()
        if self._connections:
            await self._connections.close()

    async def _accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled, or until none waits while the listener finishes."""
        loop = asyncio.get_running_loop()
        while True:
            await self._wait_for_space()
            try:
                connection, _ = listening.accept()  # sock_accept() loses a connection when it is cancelled
                connection.setblocking(False)
            except BlockingIOError:
                if self._is_finishing:
                    return listening.close()  # at once: a connection that the kernel takes before is reset
                await self._until_readable(listening)
                continue
            except OSError:  # no descriptor is left, or the caller has gone: it waits, or the next one comes
                await asyncio.sleep(_NO_FILES_SECONDS)
                continue
            try:
                await loop.connect_accepted_socket(self._protocol, connection)
            except OSError:
                connection.close()

    async def _until_readable(self, listening: socket.socket) -> None:
        """Wait for a connection, or for the call of :meth:`finish`."""
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        self._waiting.add(waiting)
        loop.add_reader(listening, lambda: waiting.done() or waiting.set_result(None))
        try:
            await waiting
        finally:
            loop.remove_reader(listening)
            self._waiting.discard(waiting)

    async def _wait_for_space(self) -> None:
        """Wait until one more connection may be open; idle ones are closed for it."""
        while True:
            opened = len(self._early) + (self._connections.count if self._connections else 0)
            if opened < self._most_open and not (self._connections and self._connections.is_crowded):
                return
            if not (self._connections and self._connections.close_idle()):
                await asyncio.sleep(_LOOK_SECONDS)

    def early(self, transport: asyncio.Transport) -> None:
        """Hold a connection, unread, until uvicorn is imported."""
        if self._connections:  # they came while its protocol was made
            return self._adopt(self._connections, transport)
        loop = asyncio.get_running_loop()
        self._early[transport] = None
        loop.call_soon(
            self._pause, transport
        )  # CPython before 3.11.4 begins to read after this, paused or not
        if self._loading is None:
            self._loading = loop.create_task(self._load())
        return None

    def _pause(self, transport: asyncio.Transport) -> None:
        if transport in self._early:
            transport.pause_reading()

    def gone(self, transport: asyncio.Transport) -> None:
        """Remove a held connection that was closed."""
        self._early.pop(transport, None)

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    def _protocol(self) -> asyncio.Protocol:
        return self._connections() if self._connections else _Early(self)

    async def _load(self) -> None:
        self._connections = await asyncio.to_thread(_connections, self._serve)
        early, self._early = self._early, {}
        for transport in early:
            self._adopt(self._connections, transport)
            transport.resume_reading()

    @staticmethod
    def _adopt(connections: "Connections", transport: asyncio.Transport) -> None:
        protocol = connections()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


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


@contextmanager
def _shared_ports(sockets: Sequence[socket.socket]) -> Iterator[None]:
    """Let further sockets of this process have the ports of ``sockets`` until the block ends.

    Linux and macOS ask for SO_REUSEPORT on both sockets when their addresses overlap, such as 127.0.0.1 and 0.0.0.0.
    """
    _share_ports(sockets, True)
    try:
        yield
    finally:
        _share_ports(sockets, False)


def _share_ports(sockets: Sequence[socket.socket], is_shared: bool) -> None:
    if hasattr(socket, "SO_REUSEPORT"):  # absent on Windows
        for one in sockets:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, is_shared)


async def _bound(address: str, port: int, *, is_shared: bool) -> list[socket.socket]:
    """Return listening sockets, one for each address of a name; all have the port of the first.

    :param is_shared: a socket of this process may have the port (:func:`_shared_ports`).
    :raises OSError: an address is not available.
    """
    loop, sockets = asyncio.get_running_loop(), list[socket.socket]()
    found = await loop.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, kind, protocol, _, place in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            _share_ports([one], is_shared)
            same_port = place[1] or (sockets[0].getsockname()[1] if len(sockets) > 1 else 0)
            one.bind((place[0], same_port, *place[2:]))
            one.listen(BACKLOG)
        _share_ports(sockets, False)
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets
