"""A Feishu channel beside the fake platform, and an inbox that records its messages."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claw import Address, Inbound, Outbound
from claw.config.loader import validate_source
from claw.config.plugin_view import PluginConfig
from claw.config.source import ConfigSource
from claw.security.http_client import HttpClients
from claw_channel_sdk import WebRequest, WebRoute
from claw_feishu.channel import FeishuChannel
from claw_feishu.fake import FakeFeishu
from claw_feishu.longconn import LongConnectionTimings
from claw_feishu.settings import FeishuSettings
from claw_http_sdk import pooled

QUICK = LongConnectionTimings(
    silence_seconds=0.2,
    connect_seconds=2,
    pause_seconds=0.02,
    most_seconds=0.1,
    rest_seconds=0.05,
    card_seconds=0.01,
)


@dataclass
class FakeInbox:
    """Takes what comes.

    :ivar takes: what ``submit`` answers; ``works`` runs before that.
    """

    takes: bool = True
    works: Callable[[Inbound], Any] = lambda inbound: None
    received: list[Inbound] = field(default_factory=list)

    async def submit(self, inbound: Inbound) -> bool:
        self.works(inbound)
        if self.takes:
            self.received.append(inbound)
        return self.takes


def view(tree: dict[str, Any], network: HttpClients, home: Path = Path("/nowhere")) -> PluginConfig:
    """The config as the plugin sees it."""
    return PluginConfig(
        validate_source(ConfigSource(tree=tree), home, {}), "feishu", network.client, home / "plugins/feishu"
    )


@asynccontextmanager
async def channel(
    feishu: FakeFeishu, pace: LongConnectionTimings = QUICK, **settings: Any
) -> AsyncIterator[FeishuChannel]:
    """The channel alone, not listening."""
    network = HttpClients()
    section = FeishuSettings(**{**feishu.config, **settings})
    try:
        yield FeishuChannel(section, lambda: pooled(network.client)(feishu.url), now=feishu.now, pace=pace)
    finally:
        await network.aclose()


@asynccontextmanager
async def listening(
    feishu: FakeFeishu,
    inbox: FakeInbox | None = None,
    *,
    up: bool = True,
    pace: LongConnectionTimings = QUICK,
    **settings: Any,
) -> AsyncIterator[tuple[FeishuChannel, FakeInbox]]:
    """The channel, listening; by webhook when the settings say so."""
    inbox = inbox or FakeInbox()
    async with channel(feishu, pace, **settings) as one:
        task = asyncio.create_task(one.run(inbox))
        if one.settings.mode == "webhook":
            feishu.webhook = calls(one.webhook())
        try:
            if up:
                await feishu.until(lambda: one.state.state == "up" or task.done())
            yield one, inbox
        finally:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.result()


def calls(route: WebRoute) -> Callable[[dict[str, str], bytes], Any]:
    """The webhook as the gateway's listener would serve it."""

    async def post(headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        head = {**{name.lower(): value for name, value in headers.items()}, "content-length": str(len(body))}
        request = WebRequest("POST", route.path, headers=head)
        if refused := route.admit(request):
            return refused.status, refused.body
        answer = await route.answer(WebRequest("POST", route.path, headers=head, body=body))
        return answer.status, answer.body

    return post


def outbound(
    inbound: Inbound | None = None, text: str = "", *, key: str = "k1", chat: str = "oc_chat", **more: Any
) -> Outbound:
    """An answer to a message, or something to say in a chat."""
    address = inbound.address if inbound else Address("feishu", chat)
    return Outbound(key, address, text, **{"reply_to": inbound.message_id if inbound else None, **more})


def shown(feishu: FakeFeishu) -> list[str]:
    """Return our messages as people read them, in order."""
    return [feishu.text_of(message.message_id) for message in feishu.ours]


def content(call: Any) -> Any:
    """The content of a message that was sent, which travels as JSON text."""
    return json.loads(call.body["content"])
