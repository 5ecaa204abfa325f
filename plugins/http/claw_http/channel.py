"""The channel: API requests become messages to agents, and the replies are routed back to the waiting
requests.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence

from claw import (
    Address,
    Attachment,
    ChannelLimits,
    ChannelState,
    DeliveryError,
    Finding,
    Inbound,
    Inbox,
    Outbound,
    PluginConfig,
    Receipt,
    t,
)

from claw_http.api import OpenAIApi
from claw_http.app import HttpApp
from claw_http.calls import AgentCalls
from claw_http.diagnostics import token_findings
from claw_http.failures import stopping
from claw_http.listener import Listener
from claw_http.messages import Picture
from claw_http.origins import listening_address
from claw_http.pending_requests import PendingRequest, PendingRequests
from claw_http.settings import GatewaySettings, HttpSettings

_KEYS = 4096  # maximum of remembered delivery keys; a repeat comes at once or never
_PIECE_BYTES = 64 << 10
_log = logging.getLogger(__name__)


class HttpChannel:
    """The listener as a channel.

    :param quiet_seconds: see :class:`OpenAIApi`; ``most_open`` see :class:`claw_http.listener.Listener`.
    """

    name = "http"
    account = "default"
    capabilities = frozenset({"streaming", "typing", "idempotent", "waits", "operator"})
    limits = ChannelLimits(text_chars=10_000_000, media_out_bytes=0, edit_seconds=0.0, quiet_seconds=0.0)

    def __init__(
        self, config: PluginConfig, settings: HttpSettings, quiet_seconds: float = 15.0, most_open: int = 0
    ) -> None:
        self._most_open, self._quiet_seconds = most_open, quiet_seconds
        self._config, self._settings = config, settings
        self._waiting = PendingRequests()
        self._pictures: dict[str, Sequence[Picture]] = {}
        self._receipts: OrderedDict[str, Receipt] = OrderedDict()
        self._inbox: Inbox | None = None
        self._state, self._last = ChannelState(), 0.0
        self._app: HttpApp | None = None
        self._listener: Listener | None = None
        self._finishing: dict[asyncio.Task[None], Listener] = {}
        self._is_replaced = False
        self.api = self._make_api()
        self.url = ""
        """URL of the listener; empty while it is stopped."""

    @property
    def state(self) -> ChannelState:
        """The state of the channel; the detail is the address."""
        if not self.url:
            return self._state
        return ChannelState("up", self.url, self._last or None)

    def _make_api(self) -> OpenAIApi:
        self._calls = AgentCalls(
            self._config, self._settings, self._waiting, lambda: self._inbox, self._pictures
        )
        return OpenAIApi(self._config, self._settings, self._calls, self._quiet_seconds)

    def take_over(self, before: "HttpChannel") -> None:
        """Continue with the socket and the requests of the channel that ran with the settings before."""
        self._waiting, self._pictures, self._receipts = before._waiting, before._pictures, before._receipts
        self._last, self._app, self._listener = before._last, before._app, before._listener
        self._finishing = before._finishing
        self.api = self._make_api()
        self.api.take_over(before.api)
        before._listener, before._finishing, before._is_replaced = None, {}, True

    async def run(self, inbox: Inbox) -> None:
        """Listen until cancelled.

        :raises ClawError: the address is not available; a listener of the settings before stays open.
        """
        self._inbox = inbox
        if self._app is None:  # later, a call may be on its way into the journal
            self._calls.load_lost()
            self._calls.forget_all_ended()
        self._app = HttpApp(self._config, self._settings, self.api.paths, self._touch, before=self._app)
        if self._listener:
            self._listener.app = self._app
        try:
            await self._listen(self._app)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.close()
            raise
        except Exception as why:
            self._state = ChannelState("failed", str(why), last_error=str(why))
            raise
        finally:
            self.url = ""

    async def _listen(self, app: HttpApp) -> None:
        """Open the listener, unless that of the settings before has the address; that one is closed then."""
        gateway = self._config.section("gateway", GatewaySettings)
        address, before = listening_address(gateway.bind), self._listener
        if before is None or not before.listens_at(address, gateway.port):
            listener = Listener(app, self._most_open)
            await listener.start(address, gateway.port, before)
            self._listener = listener
            if before:
                task = asyncio.ensure_future(before.finish())
                self._finishing[task] = before
                task.add_done_callback(self._finishing.pop)
        assert self._listener
        port = self._listener.port
        self.url = f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
        _log.info(t("listening on {url}", url=self.url))

    async def close(self) -> None:
        """Close the listener and end all requests, unless another channel took them over."""
        if self._is_replaced:
            return
        self._waiting.end_all(stopping())
        self._inbox = None
        for task in list(self._finishing):
            task.cancel()
        for listener in filter(None, [self._listener, *self._finishing.values()]):
            await listener.stop()
        self._listener = None

    async def diagnose(self) -> Sequence[Finding]:
        """Report if no caller of the API can authenticate."""
        return token_findings(self._settings, self._config.section("gateway", GatewaySettings))

    async def facts(self) -> Sequence[str]:
        """Return the address at which it listens."""
        gateway = self._config.section("gateway", GatewaySettings)
        address = listening_address(gateway.bind)
        return [
            t("listens at {address}, port {port}, while the gateway runs", address=address, port=gateway.port)
        ]

    async def send(self, outbound: Outbound) -> Receipt:
        """Pass the reply to the waiting request. If that is gone, the reply remains in the conversation only.

        :raises DeliveryError: it is a file: the API answers in text.
        """
        if known := self._receipts.get(outbound.key):
            return known
        if outbound.attachments and not outbound.text:
            raise DeliveryError("the HTTP API returns text only: a file cannot be sent there", permanent=True)
        if call := self._waiting.of(outbound):
            call.take(outbound)
            if call.ended:
                self._calls.end_earlier(call)
        else:
            _log.info(
                t("no client is waiting for an answer in {place} any more", place=outbound.address.chat)
            )
        receipt = self._receipts[outbound.key] = Receipt((outbound.key,))
        while len(self._receipts) > _KEYS:
            self._receipts.popitem(last=False)
        return receipt

    def split(self, text: str) -> tuple[str, ...]:
        """Return the text unsplit: the API has no length limit."""
        return (text,)

    def stream(self, outbound: Outbound) -> "HttpStreamingReply":
        """Return a streaming reply for the waiting request."""
        return HttpStreamingReply(self, self._waiting.of(outbound))

    async def typing(self, address: Address, message_id: str = "") -> None:
        """Note that a turn runs for a message."""
        if call := self._waiting.at(address, message_id):
            call.began()

    async def settled(self, address: Address, message_id: str = "") -> None:
        """Note that the turn has ended: only replies sent right now are still passed on."""
        if call := self._waiting.at(address, message_id):
            call.over()
        elif message_id:
            self._calls.ended_without_caller(message_id, address.chat)

    async def fetch(self, inbound: Inbound, attachment: Attachment) -> AsyncIterator[bytes]:
        """Yield the bytes of an image of a request.

        :raises DeliveryError: its request is closed.
        """
        id, _, at = attachment.key.rpartition(":")
        pictures = self._pictures.get(id, ())
        if not at.isdigit() or int(at) >= len(pictures):
            raise DeliveryError("the image went with its request", permanent=True)
        data = pictures[int(at)].data
        for start in range(0, len(data), _PIECE_BYTES):
            yield data[start : start + _PIECE_BYTES]

    def _touch(self) -> None:
        self._last = time.time()


class HttpStreamingReply:
    """A streaming reply, for a request that may be gone."""

    def __init__(self, channel: HttpChannel, call: PendingRequest | None) -> None:
        self._channel, self._call = channel, call
        self._shown: tuple[str, ...] = ()

    @property
    def shown(self) -> tuple[str, ...]:
        """The ids of the shown messages: one message, once some of its text was shown."""
        return self._shown

    async def show(self, text: str) -> None:
        """Show the whole text so far."""
        if self._call and text:
            self._call.show(text)
            self._shown = (self._call.message_id,)

    async def finish(self, outbound: Outbound) -> Receipt:
        """Send the final text, which continues the message that is shown."""
        if self._call:
            self._call.turn_is_over = True
        receipt = await self._channel.send(outbound)
        return Receipt(self._shown) if self._shown else receipt

    async def abandon(self) -> None:
        """Do nothing: an HTTP stream cannot retract text."""
