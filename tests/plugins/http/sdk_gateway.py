"""A gateway in this process with the HTTP API, and clients of the vendor's SDK for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import claw_http
import openai
from claw.testing import FakeProvider, Harness
from claw_gateway.supervisor import ChannelServer
from plugins.http.bench import TOKEN

GATEWAY = {"gateway": {"port": 0, "auth": {"token": TOKEN}}, "channels": {"http": {}}}


def user(content: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]


@asynccontextmanager
async def served(harness: Harness, **client: Any) -> AsyncIterator[openai.AsyncOpenAI]:
    """Serve until the block ends, then stop as a gateway does; the harness stays open."""
    stop = asyncio.Event()
    serving = asyncio.ensure_future(ChannelServer(harness.app).run(stop))
    channel: Any = harness.app.registry.channels["http"].value
    async with asyncio.timeout(10):
        while not channel.url:
            await asyncio.sleep(0.005)
    given = {"max_retries": 0, "timeout": 60, **client}
    async with openai.AsyncOpenAI(api_key=TOKEN, base_url=f"{channel.url}/v1", **given) as sdk:
        try:
            yield sdk
        finally:
            stop.set()
            await serving


@asynccontextmanager
async def a_gateway(*answers, config=None, tools=(), model=None, client=None, **plugins):
    """A gateway that serves, and the SDK's client for it."""
    tree = {**GATEWAY, **(config or {})}
    loaded = {"http": claw_http, **plugins}
    async with (
        Harness(model or FakeProvider(*answers), config=tree, tools=tools, plugins=loaded) as harness,
        served(harness, **(client or {})) as sdk,
    ):
        yield sdk, harness
