"""``webhook_auth``: each request goes over a socket to the gateway's listener, where the channel's own route answers it.

The channels run beside the fakes of their services, and their inbox is the journal: what came before is not dispatched.
``SERVED`` says for each channel how its plugin is asked for the row's ``config``.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import claw_feishu
import claw_telegram
from claw import ConfigError, HttpClients, Inbound
from claw.storage.database import Database
from claw.testing import plugin_config
from claw_channel_sdk import WebRoute
from claw_feishu.fake import FakeFeishu
from claw_gateway.journal import Journal
from claw_telegram.fake import FakeTelegram
from plugins.http.bench import listening

FUNCTIONS = (
    "claw_feishu.webhook:WebhookCredentials.admit",
    "claw_feishu.webhook:WebhookCredentials.read",
    "claw_feishu.crypto:signature",
    "claw_telegram.webhook:Receiver.admit",
    "claw_telegram.webhook:Receiver.answer",
    "claw_http.bodies:BodyReader.read",
    "claw_gateway.journal:Journal.accept",
)


@dataclass
class FakeInbox:
    """Takes in what the journal has not seen.

    :ivar dispatched: what would have become a turn.
    """

    journal: Journal
    dispatched: list[Inbound] = field(default_factory=list)

    async def submit(self, inbound: Inbound) -> bool:
        if self.journal.accept(inbound) is not None:
            self.dispatched.append(inbound)
        return True


BROKEN = 499
"""A caller who is still sending may find the connection closed before he reads that he was refused."""
Running = AsyncIterator[list[WebRoute]]


@asynccontextmanager
async def feishu(case: dict[str, Any], inbox: FakeInbox) -> Running:
    """The routes of the plugin, its channel running; none when it refuses to start."""
    given, network = case["config"], HttpClients()
    async with FakeFeishu(app_id="cli_example") as service, AsyncExitStack() as stack:
        stack.push_async_callback(network.aclose)
        section = {
            "mode": "webhook",
            "appId": service.app_id,
            "appSecret": service.app_secret,
            "domain": service.url,
            "encryptKey": given["encrypt_key"],
            "verificationToken": given["verification_token"],
            "maxSkewSeconds": given["max_skew_s"],
            "webhookPath": "/webhook/feishu",
            "resolveNames": False,
        }
        config = plugin_config({"channels": {"feishu": section}}, "feishu", network=network)
        try:
            (channel,) = claw_feishu.register_channels(config)
        except ConfigError:
            yield []
            return
        channel.now = lambda: case["now"]
        stack.push_async_callback(ended, asyncio.create_task(channel.run(inbox)))
        await service.until(lambda: channel.state.state == "up")
        yield list(claw_feishu.register_routes(config))


@asynccontextmanager
async def telegram(case: dict[str, Any], inbox: FakeInbox) -> Running:
    """The same, for each account of the row."""
    network = HttpClients()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(network.aclose)
        accounts = {}
        for name, given in case["config"]["accounts"].items():  # each a bot of its own
            service = await stack.enter_async_context(FakeTelegram())
            shared = {"apiBase": service.url, "botToken": service.token}
            accounts[name] = {**shared, "webhookSecret": given["webhook_secret"]}
        section = {"mode": "webhook", "accounts": accounts}
        config = plugin_config({"channels": {"telegram": section}}, "telegram", network=network)
        try:
            channels = list(claw_telegram.register_channels(config))
        except ConfigError:
            yield []
            return
        for channel in channels:
            stack.push_async_callback(ended, asyncio.create_task(channel.run(inbox)))
        async with asyncio.timeout(3):
            while any(channel.state.state != "up" for channel in channels):
                await asyncio.sleep(0.005)
        yield list(claw_telegram.register_routes(config))


async def ended(task: asyncio.Task[None]) -> None:
    """Stop what runs, and wait for it."""
    task.cancel()
    await asyncio.wait([task])


SERVED: dict[str, Callable[[dict[str, Any], FakeInbox], Any]] = {"feishu": feishu, "telegram": telegram}


async def check(case: dict[str, Any], tmp_path: Path) -> None:
    inbox = FakeInbox(Journal(Database(tmp_path / "state.db")))
    async with (
        SERVED[case["channel"]](case, inbox) as routes,
        listening(*((case["channel"], route) for route in routes)) as listener,
    ):
        for request in case["previous"]:
            before = len(inbox.dispatched)
            status, _ = await sent(listener, request)
            assert (status, len(inbox.dispatched)) == (200, before + 1)
        before = len(inbox.dispatched)
        async with asyncio.timeout(case.get("limit_s", 10)):
            status, body = await sent(listener, case["request"])
    dispatched = len(inbox.dispatched) - before
    assert dispatched == (case["accept"] and case.get("dispatch", True))
    if "expect_reply" in case:
        assert json.loads(body) == case["expect_reply"]
    if case["accept"]:
        assert status == 200
    else:
        assert 400 <= status < 500 or (status == 200 and case["previous"])
        assert b"abc123" not in body  # the challenge of the refused address checks


async def sent(listener: Any, request: dict[str, Any]) -> tuple[int, bytes]:
    """Status and body of the answer to one request, whole or stalled."""
    if "body_gen" in request:
        body = request["body_gen"]["repeat"].encode() * request["body_gen"]["count"]
    else:
        body = base64.b64decode(request["body_b64"] or "")
    length = request.get("content_length", len(body))
    lines = [f"{request['method']} {request['path']} HTTP/1.1", "Host: claw.example", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in request["headers"]]
    head = "\r\n".join([*lines, f"Content-Length: {length}", "", ""]).encode("latin-1")
    stalls = request.get("send") == "headers_then_stall"
    reader, writer = await asyncio.open_connection(listener.host, listener.port)
    try:
        answer = asyncio.ensure_future(received(reader))
        try:
            writer.write(head + (b"" if stalls else body))
            await writer.drain()
        except ConnectionError:  # it was refused before all of it was read
            pass
        raw = await answer
    finally:
        writer.close()
    top, _, rest = raw.partition(b"\r\n\r\n")
    return int(top.split(b" ")[1]) if top else BROKEN, rest


async def received(reader: asyncio.StreamReader) -> bytes:
    """Read the response until the connection ends."""
    raw = b""
    try:
        while piece := await reader.read(4096):
            raw += piece
    except ConnectionError:
        pass
    return raw
