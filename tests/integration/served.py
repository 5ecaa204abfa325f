"""A channel server in the process of the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from claw.testing import Harness
from claw_gateway.supervisor import ChannelServer

STOP_SECONDS = 20


@asynccontextmanager
async def serve(harness: Harness, last_end: str | None = None, **how: bool) -> AsyncIterator[ChannelServer]:
    """Serve the channels of ``harness`` until the block ends, then close it.

    :param last_end: the cause of the end of the process before; empty = it was killed; None = it was stopped.
    """
    stop, server = asyncio.Event(), ChannelServer(harness.app, last_end, **how)
    running = asyncio.ensure_future(server.run(stop))
    try:
        yield server
    finally:
        stop.set()
        await asyncio.wait_for(running, STOP_SECONDS)
        await harness.close()
