"""The channel: callers of the API talk to agents, and the answers find their way back to the requests that wait."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from claw import (
    Address,
    Attachment,
    ChannelState,
    DeliveryError,
    Door,
    Finding,
    Inbound,
    Limits,
    Outbound,
    PluginConfig,
    Receipt,
    say,
)

from claw_http.api import Api
from claw_http.front import Front
from claw_http.listener import Listener
from claw_http.openai import Picture
from claw_http.origins import listening_address
from claw_http.settings import HttpSettings
from claw_http.waiting import Call, Waiting

_KEYS = 4096  # delivery keys that are remembered; a repeat comes at once or never
_PIECE_BYTES = 64 << 10
_log = logging.getLogger(__name__)


class Http:
    """The listener as a channel.

    :param quiet_seconds: see :class:`Api`.
    """

    name = "http"
    account = "default"
    capabilities = frozenset({"streaming", "idempotent", "waits"})
    limits = Limits(text_chars=10_000_000, media_out_bytes=0, edit_seconds=0.0, patience_seconds=0.0)

    def __init__(self, config: PluginConfig, settings: HttpSettings, quiet_seconds: float = 15.0) -> None:
        self._config, self._settings = config, settings
        self._waiting = Waiting()
        self._pictures: dict[str, Sequence[Picture]] = {}
        self._receipts: OrderedDict[str, Receipt] = OrderedDict()
        self._door: Door | None = None
        self._state, self._last = ChannelState(), 0.0
        self.api = Api(config, settings, self._waiting, lambda: self._door, self._pictures, quiet_seconds)
        self.url = ""
        """Where it listens; empty while it does not."""

    @property
    def state(self) -> ChannelState:
        """How it is doing; the detail is the address."""
        if not self.url:
            return self._state
        return ChannelState("up", self.url, self._last or None)

    async def run(self, door: Door) -> None:
        """Listen until cancelled.

        :raises ClawError: the address cannot be had.
        """
        gateway = self._config.settings.gateway
        listener = Listener(Front(self._config, self._settings, self.api.paths, self._seen))
        address = listening_address(gateway.bind)
        self._door = door
        try:
            port = await listener.start(address, gateway.port)
            self.url = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
            _log.info(say("listening on {url}", url=self.url))
            await asyncio.Event().wait()
        except Exception as why:
            self._state = ChannelState("failed", str(why), last_error=str(why))
            raise
        finally:
            self._door, self.url = None, ""
            self._waiting.end_all("the listener is stopping; the answer will stand in the conversation")
            await listener.stop()

    async def diagnose(self) -> Sequence[Finding]:
        """Whether callers of the API could prove themselves; webhooks have secrets of their own."""
        token = self._config.settings.gateway.auth.token
        if not self._settings.admits_callers or (token and not token.empty):
            return []
        mend = say("claw config set gateway.auth.token TOKEN (16 random characters or more)")
        return [
            Finding("gateway.auth.token", "credentials", say("is missing: the API refuses everybody"), mend)
        ]

    async def send(self, outbound: Outbound) -> Receipt:
        """Hand it to the request that waits for it. When nobody does any more, it stands in the conversation.

        :raises DeliveryError: it is a file: the API answers in text.
        """
        if known := self._receipts.get(outbound.key):
            return known
        if outbound.attachments and not outbound.text:
            raise DeliveryError("the HTTP API answers in text: a file cannot be sent there", permanent=True)
        if call := self._waiting.of(outbound):
            call.tokens = max(call.tokens, outbound.tokens)
            call.say(outbound.text)
            if call.turn_is_over or not call.turn_runs:
                self._waiting.passed(call)
        else:
            _log.info(say("nobody waits any more for an answer in {place}", place=outbound.address.chat))
        receipt = self._receipts[outbound.key] = Receipt((outbound.key,))
        while len(self._receipts) > _KEYS:
            self._receipts.popitem(last=False)
        return receipt

    def split(self, text: str) -> tuple[str, ...]:
        """An answer is one text, however long."""
        return (text,)

    def stream(self, outbound: Outbound) -> "Growing":
        """A reply that grows in the request that waits for it."""
        return Growing(self, self._waiting.of(outbound))

    async def typing(self, address: Address, message_id: str = "") -> None:
        """A turn runs for a message."""
        if call := self._waiting.at(address, message_id):
            call.began()

    async def settled(self, address: Address, message_id: str = "") -> None:
        """The turn is over: only what is handed out now still comes."""
        if call := self._waiting.at(address, message_id):
            call.over()

    async def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """The bytes of an image of a request.

        :raises DeliveryError: its request is over.
        """
        id, _, at = attachment.key.rpartition(":")
        pictures = self._pictures.get(id, ())
        if not at.isdigit() or int(at) >= len(pictures):
            raise DeliveryError("the image went with its request", permanent=True)
        data = pictures[int(at)].data
        for start in range(0, len(data), _PIECE_BYTES):
            yield data[start : start + _PIECE_BYTES]

    def _seen(self) -> None:
        self._last = time.time()


class Growing:
    """A reply that grows, for a request that may be gone."""

    def __init__(self, channel: Http, call: Call | None) -> None:
        self._channel, self._call = channel, call
        self._shown: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """One message, once a word of it was shown."""
        return self._shown

    async def show(self, text: str) -> None:
        """The whole text so far."""
        if self._call and text:
            self._call.show(text)
            self._shown = (self._call.message_id,)

    async def finish(self, outbound: Outbound) -> Receipt:
        """The final text."""
        if self._call:
            self._call.turn_is_over = True
        return await self._channel.send(outbound)

    async def abandon(self) -> None:
        """What was shown stays: a stream takes nothing back."""
