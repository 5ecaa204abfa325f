"""Long connection: a websocket to the platform, with time limits, a watchdog and a clean shutdown.

Facts from the open platform's page "long connection" and the vendor's SDK (``ws/client.py``): the address comes from
an endpoint call; frames as in ``frames.py``; an event that is not answered within three seconds is pushed again.
"""

import asyncio
import base64
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from claw import ConfigError, DeliveryError, is_loopback, t

from claw_feishu import frames
from claw_feishu.frames import Frame
from claw_feishu.tenant import Tenant

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

ENDPOINT = "/callback/ws/endpoint"
FRAME_BYTES = 4 << 20
PARTS = 64
"""Number of events that may wait for further parts; the oldest is dropped first (the service sends it again)."""
AT_ONCE = 64
_TRY_AGAIN = frozenset({1, 1000040343})
_TOO_MANY = 1000040350
_AUTH_FAILED, _FORBIDDEN = 514, 403


@dataclass(frozen=True, slots=True)
class LongConnectionTimings:
    """Time limits in seconds. The service's values for the ping override ours.

    :param silence_seconds: added to two ping intervals; after that a connection without any frame is dead.
    :param pause_seconds: before the first retry, doubled up to ``most_seconds``, plus or minus a half.
    :param rest_seconds: between retries of an error that only a person can fix.
    :param card_seconds: between two writes of a card (the limit is ten a second).
    """

    ping_seconds: float = 120.0
    silence_seconds: float = 30.0
    connect_seconds: float = 15.0
    pause_seconds: float = 1.0
    most_seconds: float = 120.0
    rest_seconds: float = 300.0
    card_seconds: float = 0.3


class Fatal(Exception):
    """An error that only a person can fix; the text says how."""


class Broken(Exception):
    """The connection ended or failed: try again. Arguments: the reason; True as the second if it had been
    established."""


Answer = Callable[[dict[str, Any]], Awaitable["dict[str, Any] | None"]]
"""Function that handles an event; returns the answer for the service, or None when it was not accepted."""


class ConnectionEvents:
    """Observer of the connection; each method does nothing by default."""

    def up(self) -> None:
        """Handle an established connection."""

    def frame_received(self) -> None:
        """Handle a received frame."""

    def down(self, why: str, *, fatal: bool) -> None:
        """Handle a failed connection, with the reason."""


class LongConnection:
    """A connection that is made again whenever it ends.

    :param answer: called with each complete event; may be called concurrently.
    """

    def __init__(
        self, tenant: Tenant, answer: Answer, telling: ConnectionEvents, pace: LongConnectionTimings
    ) -> None:
        self._tenant, self._answer, self._observer, self._pace = tenant, answer, telling, pace
        self._parts: dict[str, dict[int, bytes]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def run(self, base_url: str) -> None:
        """Receive until cancelled.

        :param base_url: the platform's address; plain ``ws`` is allowed only with plain ``http``.
        """
        pause = self._pace.pause_seconds
        while True:
            try:
                await self._listen(base_url)
            except (Fatal, ConfigError) as why:
                self._observer.down(str(why), fatal=True)
                await asyncio.sleep(self._pace.rest_seconds)
            except Broken as why:
                self._observer.down(why.args[0], fatal=False)
                if why.args[1:]:  # it had been established
                    pause = self._pace.pause_seconds
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, self._pace.most_seconds)

    async def _listen(self, base_url: str) -> None:
        """Run one connection, from its endpoint to its end.

        :raises Fatal, Broken: always, one of them.
        """
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus, WebSocketException

        url, pace = await self.endpoint(base_url)
        service = _count((parse_qs(urlsplit(url).query).get("service_id") or ["0"])[0])
        connected = False
        try:
            async with connect(
                url,
                proxy=None,  # as for every other request: proxy variables of the environment are ignored
                ping_interval=None,
                open_timeout=pace.connect_seconds,
                close_timeout=1,
                max_size=FRAME_BYTES,
            ) as socket:
                connected = True
                self._observer.up()
                await self._serve(socket, service, pace)
        except InvalidStatus as why:
            raise _refused(why.response.headers) from why
        except (WebSocketException, OSError, TimeoutError) as why:
            reason = (
                t("the connection was lost: {why}", why=why) if str(why) else t("the connection was lost")
            )
            raise Broken(reason, *([True] if connected else [])) from why

    async def _serve(self, socket: "ClientConnection", service: int, pace: LongConnectionTimings) -> None:
        paces = [pace]
        self._parts.clear()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._ping(socket, service, paces), name="feishu ping")
                while True:
                    limit = 2 * paces[0].ping_seconds + paces[0].silence_seconds
                    async with asyncio.timeout(limit):
                        data = await socket.recv()
                    self._observer.frame_received()
                    frame = _frame(data)
                    if frame is None:
                        continue
                    if frame.method == frames.CONTROL:
                        paces[0] = paced(paces[0], frame)
                        continue
                    if (payload := self._assemble(frame)) is not None:
                        await self._slots.acquire()
                        group.create_task(self._handle(socket, frame, payload), name="feishu event")
        except BaseExceptionGroup as group_of:  # a task ended because the connection did
            raise group_of.exceptions[0] from None

    async def _ping(
        self, socket: "ClientConnection", service: int, paces: list[LongConnectionTimings]
    ) -> None:
        ping = frames.encode(Frame(frames.CONTROL, service, (("type", "ping"),)))
        while True:
            await socket.send(ping)
            await asyncio.sleep(paces[0].ping_seconds)

    async def _handle(self, socket: "ClientConnection", frame: Frame, payload: bytes) -> None:
        """Pass an event on, and acknowledge it once it was accepted."""
        began = asyncio.get_running_loop().time()
        try:
            event = _event(payload)
            # an unreadable event is acknowledged too; else it would be sent forever
            result = {} if event is None else await self._answer(event)
        finally:
            self._slots.release()
        if result is not None:
            spent = round((asyncio.get_running_loop().time() - began) * 1000)
            await socket.send(frames.encode(acknowledged(frame, result, spent)))

    def _assemble(self, frame: Frame) -> bytes | None:
        """Return the whole payload of an event; None while parts are missing."""
        total, at = _count(frame.header("sum", "1")), _count(frame.header("seq", "0"))
        if total <= 1:
            return frame.payload
        parts = self._parts.setdefault(frame.header("message_id"), {})
        parts[at] = frame.payload
        if len(self._parts) > PARTS:
            del self._parts[next(iter(self._parts))]
        if len(parts) < total:
            return None
        self._parts.pop(frame.header("message_id"), None)
        return b"".join(parts[number] for number in sorted(parts))

    async def endpoint(self, base_url: str) -> tuple[str, LongConnectionTimings]:
        """Return the address to connect to, and the pace that the service wants.

        :raises Fatal: the app or its credentials are wrong; Broken: try again.
        """
        body = {"AppID": self._tenant.app_id, "AppSecret": self._tenant.secret}
        try:
            async with asyncio.timeout(self._pace.connect_seconds):
                answer = await self._tenant.post_openly(ENDPOINT, body)
        except (DeliveryError, TimeoutError) as why:
            raise Broken(str(why) or t("Feishu cannot be reached")) from why
        code = answer.get("code")
        if code in _TRY_AGAIN:
            raise Broken(t("Feishu is busy: {said}", said=answer.get("msg")))
        if code == _TOO_MANY:
            raise Fatal(too_many())
        if code != 0:
            raise Fatal(
                t(
                    "Feishu refused the app: {said} (code {code}). Check appId, appSecret and domain, and that the app "
                    "receives events by long connection",
                    said=answer.get("msg"),
                    code=code,
                )
            )
        data = answer.get("data")
        values: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        url = str(values.get("URL") or "")
        if not _is_safe(url, base_url):
            raise Fatal(t("Feishu returned no safe address to connect to"))
        return url, configured(self._pace, values.get("ClientConfig"))


def _is_safe(url: str, base_url: str) -> bool:
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        return False
    return scheme == "wss" or (scheme == "ws" and is_loopback(urlsplit(base_url).hostname or ""))


def too_many() -> str:
    """Return the advice for fifty existing connections of this app."""
    return t("too many connections of this app are open. Stop another gateway or bot that uses the same app")


def configured(pace: LongConnectionTimings, config: Any) -> LongConnectionTimings:
    """Return the pace with the service's values (``ClientConfig``, seconds)."""
    if not isinstance(config, Mapping):
        return pace
    ping, most = config.get("PingInterval"), config.get("ReconnectInterval")
    if isinstance(ping, int | float) and ping > 0:
        pace = replace(pace, ping_seconds=float(ping))
    if isinstance(most, int | float) and most > 0:
        pace = replace(pace, most_seconds=min(pace.most_seconds, float(most)))
    return pace


def paced(pace: LongConnectionTimings, frame: Frame) -> LongConnectionTimings:
    """Return the pace after a control frame: a pong may carry a new one."""
    if frame.header("type") != "pong" or not frame.payload:
        return pace
    with suppress(ValueError):
        return configured(pace, json.loads(frame.payload))
    return pace


def acknowledged(frame: Frame, result: Mapping[str, Any], spent_ms: int) -> Frame:
    """Return the answer to a data frame: the same frame with the time taken and code 200 (``data``: the
    response for the person)."""
    payload: dict[str, Any] = {"code": 200}
    if result:
        payload["data"] = base64.b64encode(json.dumps(result, ensure_ascii=False).encode()).decode()
    headers = (*frame.headers, ("biz_rt", str(spent_ms)))
    return replace(frame, headers=headers, payload=json.dumps(payload).encode())


def _refused(headers: Mapping[str, str]) -> Exception:
    """Return the error for a refused handshake; its headers state the reason."""
    status = _count(headers.get("handshake-status", ""))
    said = headers.get("handshake-msg", "")
    if status == _AUTH_FAILED and _count(headers.get("handshake-autherrcode", "")) == _TOO_MANY:
        return Fatal(too_many())
    if status == _FORBIDDEN:
        return Fatal(
            t("Feishu refused the connection: {said}. Check the app in the developer console", said=said)
        )
    return Broken(t("Feishu refused the connection: {said}", said=said or status))


def _frame(data: str | bytes) -> Frame | None:
    with suppress(frames.BadFrame):
        return frames.decode(data if isinstance(data, bytes) else data.encode())
    return None


def _event(payload: bytes) -> dict[str, Any] | None:
    with suppress(ValueError, RecursionError):
        event = json.loads(payload)
        return event if isinstance(event, dict) else None
    return None


def _count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() else 0
