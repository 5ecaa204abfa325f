"""A TCP server whose answers a test writes byte by byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[asyncio.Server]:
    """Call ``serve`` for each connection to a port of this machine; a client that leaves ends its connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield server
    finally:
        server.close()
        await server.wait_closed()


def port_of(server: asyncio.Server) -> int:
    """Return the port of a server."""
    return int(server.sockets[0].getsockname()[1])
