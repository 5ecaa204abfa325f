"""The channel of the HTTP API keeps to what pytest-claw asks of everybody's; each message of a person is a request."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import quote

import httpx2
from claw import Address
from claw.testing import plugin_config
from claw_http.channel import HttpChannel
from claw_http.settings import HttpSettings
from pytest_claw import ChannelSuite

TOKEN = "a-token-of-more-than-16-characters"
QUIET = 0.05


class HttpPlace:
    """A person who calls the API, one request for each message, and reads the answers as they grow."""

    def __init__(self, channel: HttpChannel, client: httpx2.AsyncClient) -> None:
        self.channel, self._client = channel, client
        self.texts: dict[str, str] = {}
        self._calls = set[asyncio.Task[None]]()

    def address(self) -> Address:
        return Address("http", "nobody")

    async def shown(self) -> list[str]:
        await asyncio.sleep(0.05)  # what was sent is on its way to the caller
        return [text for text in self.texts.values() if text]

    def says(self, text: str) -> None:
        task = asyncio.ensure_future(self._call(text))
        self._calls.add(task)

    async def _call(self, text: str) -> None:
        body = {"model": "claw", "stream": True, "messages": [{"role": "user", "content": text}]}
        headers = {"authorization": f"Bearer {TOKEN}", "idempotency-key": quote(text)}
        url = f"{self.channel.url}/v1/chat/completions"
        with suppress(httpx2.HTTPError):
            while (
                await self._try(url, text, body, headers) == 503
            ):  # claw could not take it: the caller asks again
                await asyncio.sleep(0.01)

    async def _try(self, url: str, text: str, body: Any, headers: dict[str, str]) -> int:
        async with self._client.stream("POST", url, json=body, headers=headers, timeout=None) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    self._read(text, json.loads(line.removeprefix("data: ")))
            return answer.status_code

    def _read(self, question: str, piece: dict[str, Any]) -> None:
        for choice in piece.get("choices", ()):
            more = choice["delta"].get("content") or ""
            self.texts[question] = self.texts.get(question, "") + more

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)


class TestHttp(ChannelSuite):
    without = (
        "groups", "bots", "acknowledgement", "credentials", "redelivery", "answers", "connection", "pushes", "limits",
    )  # fmt: skip

    @asynccontextmanager
    async def place(self) -> AsyncIterator[HttpPlace]:
        tree = {"gateway": {"port": 0, "auth": {"token": TOKEN}}, "channels": {"http": {}}}
        config = plugin_config(tree, "http")
        settings = config.channel("http", HttpSettings)
        assert settings is not None
        async with httpx2.AsyncClient() as client:
            place = HttpPlace(HttpChannel(config, settings, QUIET), client)
            try:
                yield place
            finally:
                await place.close()
