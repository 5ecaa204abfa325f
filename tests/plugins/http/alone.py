"""A listener with one route in a process of its own: prints its port, and ends when its input does."""

import asyncio
import sys
from pathlib import Path

from claw_channel_sdk import WebAnswer, WebRequest, WebRoute

sys.path.insert(0, str(Path(__file__).parents[2]))
from plugins.http.bench import listening


async def counts(request: WebRequest) -> WebAnswer:
    return WebAnswer(200, b'{"bytes": %d}' % len(request.body))


async def main() -> None:
    async with listening(("acme", WebRoute("/hooks/acme", counts))) as harness:
        print(harness.port, flush=True)
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(main())
