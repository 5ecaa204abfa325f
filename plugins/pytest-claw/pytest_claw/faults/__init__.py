"""Named faults of a model service on the wire, each with the allowed ends of a call that meets it.

A service of ``claw_testing.services`` plays it in its own protocol: the valid stream of the fault's reply is
modified, and ``line.say`` puts bytes on the bare connection.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pytest_claw.faults import connection, content, stream
from pytest_claw.faults.record import ANSWER, CALLS, FAULTS, KEY, TEXT, UNREADABLE, WireFault

__all__ = [
    "ANSWER",
    "CALLS",
    "FAULTS",
    "KEY",
    "TEXT",
    "UNREADABLE",
    "WireFault",
    "at",
    "connection",
    "content",
    "stream",
]


@asynccontextmanager
async def at(where: str, url: str) -> AsyncIterator[str]:
    """Yield the address of the fault: the service's own ``url``, unless the fault lies in the address."""
    if not where:
        yield url
        return

    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    path = url.removeprefix("http://").partition("/")[2]
    if where == "refused":
        server.close()
        await server.wait_closed()
    try:
        yield f"http{'s' if where == 'plain' else ''}://127.0.0.1:{port}/{path}".rstrip("/")
    finally:
        server.close()
