"""Fake Feishu on one loopback port: REST, long connection and webhook calls, for tests and demonstrations.

The vendor's own SDK is tested against it (``tests/plugins/feishu/test_contract.py``), so plugin and fake cannot share a
misreading.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypedDict, Unpack

from claw_feishu import frames
from claw_feishu.fake import events
from claw_feishu.fake.cards import refusal
from claw_feishu.fake.server import FakeAnswer, FakeCall, FakeServer, FakeSocket
from claw_feishu.fake.service import FakePlatform, Shown
from claw_feishu.frames import Frame

__all__ = ["FakeAnswer", "FakeCall", "FakeFeishu", "Shown", "refusal"]

RETRY_SECONDS = (15, 300, 3600, 6 * 3600)
"""Delays after which a webhook that did not answer 200 is called again."""
SERVICE = 33554678
"""Service id in the address of a long connection; a ping with another id is not answered."""
PERSON, CHAT, GROUP = (
    "ou_881e8247625e31527b4d15a31471504c",
    "oc_7654321098765432109876543210abcd",
    "oc_820faa21d7ed275b",
)

Match = str | Callable[[FakeCall], bool]
"""Selector of requests: a part of ``METHOD /path``, or a predicate."""
CallWebhook = Callable[[dict[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Function that posts headers and a body to the webhook; returns status and body of the answer."""


@dataclass
class Pushed:
    """An event and its delivery state.

    :ivar times: number of deliveries.
    :ivar answer: the receiver's answer beside the acknowledgement.
    """

    event: dict[str, Any]
    times: int = 0
    acked: bool = False
    answer: Any = None
    due: list[float] = field(default_factory=list)

    @property
    def event_id(self) -> str:
        """Event id; the uuid in the old envelope."""
        return str(self.event.get("header", {}).get("event_id") or self.event.get("uuid"))


class SaidDetails(TypedDict, total=False):
    """Details of a message that a user sends; without ``content`` it is a text."""

    msg_type: str
    content: Mapping[str, Any] | None
    thread: str
    parent: str
    message_id: str
    event_id: str


class FakeFeishu(FakePlatform):
    """The platform for one app. Use ``async with FakeFeishu() as feishu``, with ``domain`` set to ``feishu.url``.

    :param ack_seconds: time after which an unacknowledged event is pushed again.
    :ivar log: every request, in order.
    :ivar pushed: every event, in order; ``acked`` the ids of the acknowledged ones.
    :ivar answers: every data frame from the client, as bytes.
    :ivar connections: number of long connections made.
    :ivar split: number of parts of each event on the long connection, sent out of order.
    :ivar mute: the long connection sends nothing, as a dead one.
    :ivar most_connections: limit of concurrent connections; more are refused.
    """

    def __init__(
        self,
        *,
        app_id: str = "cli_a1b2c3d4e5f60001",
        app_secret: str = "example-app-secret",
        encrypt_key: str = "fXkey-9w2Lq0TzR4",
        verification_token: str = "vTok7mFx2QeLsdT0c9YpZ1aB",
        bot_open_id: str = "ou_5ad573a6411d72b8305fda3a9c15c70e",
        ack_seconds: float = 3.0,
        ping_seconds: float = 120.0,
    ) -> None:
        super().__init__(app_id, app_secret, bot_open_id, self.now)
        self.encrypt_key, self.verification_token = encrypt_key, verification_token
        self.ack_seconds, self.ping_seconds = ack_seconds, ping_seconds
        self.log: list[FakeCall] = []
        self.pushed: list[Pushed] = []
        self.answers: list[bytes] = []
        self.connections = self.pings = 0
        self.split, self.mute, self.most_connections = 1, False, 50
        self.webhook: CallWebhook | None = None
        self._clock_offset = 0.0
        self._rules: list[tuple[Match, FakeAnswer, int]] = []
        self._sockets: list[FakeSocket] = []
        self._waiting: dict[str, Pushed] = {}  # header message_id → its event
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = FakeServer(self._serve, self._upgrade)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> None:
        """Listen on 127.0.0.1."""
        await self._server.start(port)

    async def stop(self) -> None:
        """Stop everything."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await self._server.stop()

    @property
    def url(self) -> str:
        """The value for ``channels.feishu.domain``."""
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def config(self) -> dict[str, Any]:
        """A section ``channels.feishu`` for this server, valid in either mode."""
        return {
            "appId": self.app_id,
            "appSecret": self.app_secret,
            "domain": self.url,
            "encryptKey": self.encrypt_key,
            "verificationToken": self.verification_token,
        }

    # --- clock and faults

    def now(self) -> float:
        """Return seconds since 1970, as driven by :meth:`advance`."""
        return time.time() + self._clock_offset

    async def advance(self, seconds: float) -> None:
        """Advance the clock; webhooks that are due are called again."""
        self._clock_offset += seconds
        for pushed in self.pushed:
            while not pushed.acked and pushed.due and pushed.due[0] <= self.now():
                pushed.due.pop(0)
                await self._call_webhook(pushed)

    def fail(self, match: Match, answer: FakeAnswer | Mapping[str, Any], times: int = 1) -> None:
        """Override the answer to the next ``times`` matching requests.

        :param answer: an Answer, or a fixture with ``http_status``, ``headers`` and ``body``.
        """
        if isinstance(answer, Mapping):
            answer = FakeAnswer(
                answer.get("http_status", 200), answer["body"], dict(answer.get("headers", {}))
            )
        self._rules.append((match, answer, times))

    def hang(self, match: Match, times: int = 1) -> None:
        """Let the next matching requests hang forever."""
        self.fail(match, FakeAnswer(hang=True), times)

    def cut(self, match: Match, after: int, times: int = 1) -> None:
        """Cut the connection after so many bytes of the response body; the request takes effect."""
        self.fail(match, FakeAnswer(cut_after=after), times)

    def drop(self) -> None:
        """Cut every long connection."""
        for socket in self._sockets:
            socket.drop()

    async def until(self, reached: Callable[[], Any], seconds: float = 10.0) -> None:
        """Wait until a condition holds.

        :raises TimeoutError: it did not.
        """
        async with asyncio.timeout(seconds):
            while not reached():  # noqa: ASYNC110 - the condition is arbitrary
                await asyncio.sleep(0.005)

    def calls(self, part: str) -> list[FakeCall]:
        """Return the requests whose ``METHOD /path`` contains ``part``."""
        return [call for call in self.log if part in str(call)]

    # --- users

    @property
    def acked(self) -> list[str]:
        """Ids of the acknowledged events."""
        return [pushed.event_id for pushed in self.pushed if pushed.acked]

    async def says(
        self,
        text: str = "",
        sender: str = PERSON,
        *,
        chat: str = "",
        group: bool = False,
        mention: bool = False,
        **details: Unpack[SaidDetails],
    ) -> Pushed:
        """Send a message from a user; the event goes out by webhook when there is one, else by the long connection.

        :param mention: mention the bot at the beginning.
        """
        chat = chat or (GROUP if group else CHAT)
        message_id = details.get("message_id") or self.fresh("om_")
        msg_type, content = details.get("msg_type", "text"), details.get("content")
        thread, parent = details.get("thread", ""), details.get("parent", "")
        if content is None:
            content = {"text": f"@_user_1 {text}" if mention else text}
        who = ((self.bot_open_id, "claw"),) if mention else ()
        shown = Shown(message_id, chat, msg_type, dict(content), sender, "user", self.now(), parent, thread)
        self.messages[message_id] = shown
        said = events.message(
            message_id,
            chat,
            sender,
            msg_type,
            content,
            at=self.now(),
            group=group,
            mentions=who,
            thread=thread,
            parent=parent,
        )
        return await self.push(self.event("im.message.receive_v1", said, details.get("event_id", "")))

    async def presses(self, message_id: str, label: str, sender: str = PERSON) -> Pushed:
        """Press a button of a card as a user."""
        value = _button_value(self.card_of(message_id).data, label)
        chat = self.messages[message_id].chat_id
        return await self.push(
            self.event("card.action.trigger", events.button(message_id, chat, sender, value))
        )

    async def reacts(self, message_id: str, emoji: str, sender: str = PERSON) -> Pushed:
        """Add a reaction to a message as a user."""
        said = events.reaction(message_id, sender, emoji, at=self.now())
        return await self.push(self.event("im.message.reaction.created_v1", said))

    def event(self, kind: str, said: Mapping[str, Any], event_id: str = "") -> dict[str, Any]:
        """Return an event in its envelope."""
        return events.envelope(
            kind,
            said,
            event_id=event_id or self.fresh("ev_"),
            app_id=self.app_id,
            token=self.verification_token,
            at=self.now(),
        )

    async def push(self, event: dict[str, Any]) -> Pushed:
        """Send an event until it is acknowledged."""
        pushed = Pushed(event)
        self.pushed.append(pushed)
        if self.webhook:
            pushed.due = [self.now() + seconds for seconds in RETRY_SECONDS]
            await self._call_webhook(pushed)
        else:
            self._start_task(self._deliver(pushed))
        return pushed

    # --- by webhook

    async def check_address(self) -> Any:
        """Send the console's address check; return the challenge from the answer, or None."""
        assert self.webhook
        check = {"challenge": self.fresh("ch_"), "token": self.verification_token, "type": "url_verification"}
        status, body = await self.webhook(*events.request(check, self.encrypt_key, at=self.now()))
        return status == 200 and json.loads(body).get("challenge") == check["challenge"]

    async def _call_webhook(self, pushed: Pushed) -> None:
        assert self.webhook
        pushed.times += 1
        headers, body = events.request(pushed.event, self.encrypt_key, at=self.now())
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(self.ack_seconds):
                status, answer = await self.webhook(headers, body)
                if status == 200:
                    pushed.acked, pushed.answer = True, json.loads(answer or b"{}")

    # --- by the long connection

    async def _deliver(self, pushed: Pushed) -> None:
        while not pushed.acked:
            if not self._sockets or self.mute:
                await asyncio.sleep(0.01)
                continue
            pushed.times += 1
            with suppress(OSError, EOFError):
                await self._push_once(self._sockets[-1], pushed)
            wait = asyncio.get_running_loop().time() + self.ack_seconds
            socket = self._sockets[-1] if self._sockets else None
            while not pushed.acked and asyncio.get_running_loop().time() < wait:
                await asyncio.sleep(0.005)
                if not self._sockets or self._sockets[-1] is not socket:
                    break

    async def _push_once(self, socket: FakeSocket, pushed: Pushed) -> None:
        data = json.dumps(pushed.event, ensure_ascii=False).encode()
        id = self.fresh("frame-")
        self._waiting[id] = pushed
        parts = max(1, min(self.split, len(data)))
        size = -(-len(data) // parts)
        pieces = list(enumerate(data[at : at + size] for at in range(0, len(data), size)))
        for number, piece in reversed(pieces):
            headers = (
                ("type", "event"),
                ("message_id", id),
                ("sum", str(len(pieces))),
                ("seq", str(number)),
                ("trace_id", "fake"),
            )
            await socket.send(
                frames.encode(Frame(frames.DATA, SERVICE, headers, piece, seq_id=number + 1, log_id=7))
            )

    async def send_raw(self, data: bytes) -> None:
        """Send the raw bytes of a frame over the newest long connection."""
        await self._sockets[-1].send(data)

    def _upgrade(self, call: FakeCall) -> FakeAnswer | Callable[[FakeSocket], Awaitable[None]]:
        self.log.append(call)
        if rule := self._rule(call):
            return rule
        if call.query.get("ticket") != "fake":
            return FakeAnswer(400, headers={"handshake-status": "403", "handshake-msg": "no ticket"})
        if len(self._sockets) >= self.most_connections:
            return FakeAnswer(
                400,
                headers={
                    "handshake-status": "514",
                    "handshake-msg": "the number of connections exceeded the limit",
                    "handshake-autherrcode": "1000040350",
                },
            )
        return self._connected

    async def _connected(self, socket: FakeSocket) -> None:
        self.connections += 1
        self._sockets.append(socket)
        try:
            async for data in socket.messages():
                if not self.mute:
                    await self._on_frame(socket, frames.decode(data))
        finally:
            self._sockets.remove(socket)

    async def _on_frame(self, socket: FakeSocket, frame: Frame) -> None:
        if frame.method == frames.CONTROL:
            if frame.header("type") == "ping" and frame.service == SERVICE:
                self.pings += 1
                config = json.dumps(self._client_config).encode()
                await socket.send(
                    frames.encode(Frame(frames.CONTROL, frame.service, (("type", "pong"),), config))
                )
            return
        self.answers.append(frames.encode(frame))
        pushed = self._waiting.get(frame.header("message_id"))
        answer = json.loads(frame.payload)
        if pushed and answer.get("code") == 200 and frame.header("biz_rt"):
            pushed.acked, pushed.answer = True, answer.get("data")

    @property
    def _client_config(self) -> dict[str, float]:
        return {
            "ReconnectCount": -1,
            "ReconnectInterval": 120,
            "ReconnectNonce": 30,
            "PingInterval": self.ping_seconds,
        }

    # --- requests

    async def _serve(self, call: FakeCall) -> FakeAnswer:
        self.log.append(call)
        rule = self._rule(call)
        if rule is not None and rule.cut_after is None:
            return rule
        if call.path == "/callback/ws/endpoint":
            answer = self._endpoint(call)
        elif isinstance(call.body, dict) or call.body is None:
            answer = self.serve(call)
        else:
            answer = refusal(9499, "Bad Request")
        if rule is not None:
            answer.cut_after = rule.cut_after
        return answer

    def _rule(self, call: FakeCall) -> FakeAnswer | None:
        for at, (match, answer, times) in enumerate(self._rules):
            if match(call) if callable(match) else match in str(call):
                self._rules[at] = (match, answer, times - 1)
                self._rules = [rule for rule in self._rules if rule[2] > 0]
                return answer
        return None

    def _endpoint(self, call: FakeCall) -> FakeAnswer:
        given = call.body or {}
        if given.get("AppID") != self.app_id or given.get("AppSecret") != self.app_secret:
            return FakeAnswer(body={"code": 1000040344, "msg": "no credential"})
        asked = f"device_id={self.fresh('7')}&service_id={SERVICE}&ticket=fake"
        url = f"ws://127.0.0.1:{self._server.port}/ws/v2?{asked}"
        return FakeAnswer(
            body={"code": 0, "msg": "ok", "data": {"URL": url, "ClientConfig": self._client_config}}
        )

    def _start_task(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _button_value(card: Any, label: str) -> Any:
    """Return the callback value of the button with this label."""
    if isinstance(card, dict):
        if card.get("tag") == "button" and card["text"]["content"] == label:
            return card["behaviors"][0]["value"]
        card = list(card.values())
    if isinstance(card, list):
        return next((found for part in card if (found := _button_value(part, label)) is not None), None)
    return None
