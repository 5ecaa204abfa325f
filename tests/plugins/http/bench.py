"""A listener on a free port, with an inbox that records its messages, and a client that sends bytes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from claw import Inbound, Outbound
from claw.testing import plugin_config
from claw_channel_sdk import MessageFate
from claw_http.channel import HttpChannel
from claw_http.settings import HttpSettings

TOKEN = "a-token-of-more-than-16-characters"


class FakeInbox:
    """Takes everything in, and answers as ``answer`` says."""

    def __init__(self, answer: Callable[[Inbound], str] | None = None) -> None:
        self.received: list[Inbound] = []
        self.fates: dict[str, MessageFate] = {}
        self.takes = True
        self.channel: HttpChannel | None = None
        self._answer = answer
        self._answers: set[asyncio.Task[None]] = set()

    async def submit(self, inbound: Inbound) -> bool:
        if self.takes:
            self.received.append(inbound)
            if self._answer:
                task = asyncio.ensure_future(self._say(inbound, self._answer(inbound)))
                self._answers.add(task)
                task.add_done_callback(self._answers.discard)
        return self.takes

    def fate(self, event_pattern: str) -> MessageFate | None:
        return next((fate for id, fate in self.fates.items() if fnmatchcase(id, event_pattern)), None)

    async def _say(self, inbound: Inbound, text: str) -> None:
        assert self.channel is not None
        await self.channel.settled(inbound.address, inbound.message_id)
        if text:
            await self.channel.send(answer_to(inbound, text))


def answer_to(inbound: Inbound, text: str, key: str = "") -> Outbound:
    return Outbound(
        key or f"to-{inbound.message_id[-12:]}", inbound.address, text, answers=inbound.message_id
    )


@dataclass
class Said:
    """An answer as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def plain(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.plain["error"]["code"]


@dataclass
class Listening:
    """A channel that listens."""

    channel: HttpChannel
    inbox: FakeInbox
    host: str
    port: int

    async def raw(self, request: bytes, seconds: float = 5) -> bytes:
        """Everything that comes back for some bytes until the connection is closed."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(request)
            return await asyncio.wait_for(reader.read(), seconds)
        finally:
            writer.close()

    async def ask(
        self, method: str, path: str, body: bytes | None = None, *, token: str | None = TOKEN, **headers: str
    ) -> Said:
        """One request; header names with ``_`` for ``-``. A token of None shows none."""
        lines = {"host": f"127.0.0.1:{self.port}", "connection": "close"}
        if token is not None:
            lines["authorization"] = f"Bearer {token}"
        if body is not None:
            lines |= {"content-type": "application/json", "content-length": str(len(body))}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return parsed(await self.raw(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")))

    async def chat(self, text: str = "hello", **more: Any) -> Said:
        token = more.pop("token", TOKEN)
        message = {"role": "user", "content": text}
        request = {"model": "claw", "messages": [message], **more}
        return await self.ask("POST", "/v1/chat/completions", json.dumps(request).encode(), token=token)


def parsed(raw: bytes) -> Said:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    whole = b"".join(_chunks(body)) if headers.get("transfer-encoding") == "chunked" else body
    return Said(int(first.split(" ")[1]), headers, whole)


def _chunks(body: bytes) -> Iterator[bytes]:
    while body:
        size, _, rest = body.partition(b"\r\n")
        yield rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]


@asynccontextmanager
async def listening(
    *routes: tuple[str, Any],
    answer: Callable[[Inbound], str] | None = lambda inbound: f"you said: {inbound.text}",
    gateway: Mapping[str, Any] | None = None,
    http: Mapping[str, Any] | None = None,
    tree: Mapping[str, Any] | None = None,
    quiet_seconds: float = 15.0,
    most_open: int = 0,
) -> AsyncIterator[Listening]:
    """A channel that listens until the block ends.

    :param routes: what plugins answered: pairs of plugin id and route.
    """
    given = {"port": 0, "auth": {"token": TOKEN}, **(gateway or {})}
    config = plugin_config({"gateway": given, "channels": {"http": dict(http or {})}, **(tree or {})}, "http")
    config.contributions = lambda hook: tuple(routes)
    settings = config.channel("http", HttpSettings)
    assert settings is not None
    inbox = FakeInbox(answer)
    inbox.channel = channel = HttpChannel(config, settings, quiet_seconds, most_open)
    running = asyncio.ensure_future(channel.run(inbox))
    try:
        async with asyncio.timeout(20):
            while not channel.url and not running.done():
                await asyncio.sleep(0.005)
        if running.done():
            running.result()
        host, _, port = channel.url.removeprefix("http://").rpartition(":")
        yield Listening(channel, inbox, host.strip("[]"), int(port))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
