"""A channel server in the process of the test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from claw.testing import Harness
from claw_gateway.supervisor import ChannelServer

STOP_SECONDS = 20


@asynccontextmanager
async def serve(harness: Harness) -> AsyncIterator[ChannelServer]:
    """Serve the channels of ``harness`` until the block ends, then close it."""
    stop, server = asyncio.Event(), ChannelServer(harness.app)
    running = asyncio.ensure_future(server.run(stop))
    try:
        yield server
    finally:
        stop.set()
        await asyncio.wait_for(running, STOP_SECONDS)
        await harness.close()
