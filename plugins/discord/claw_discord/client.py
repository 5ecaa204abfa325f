"""The gateway connection of one account: discord.py holds it; this module supervises, reconnects and reports
fatal errors."""

import asyncio
import json
import logging
import random
import re
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from claw import ChannelState, ClawError, DeliveryError, t

from claw_discord import outbound
from claw_discord.inbound import READ
from claw_discord.outbound import DiscordError
from claw_discord.settings import DiscordSettings, intents

_log = logging.getLogger(__name__)

_RELEVANT = READ | {
    "READY", "RESUMED", "GUILD_CREATE", "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE",
    "THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE", "THREAD_LIST_SYNC",
}  # fmt: skip
_RELEVANT_FRAME = re.compile(rf'"t"\s*:\s*"(?:{"|".join(sorted(_RELEVANT))})"')
_RESUME = re.compile(r'"op"\s*:\s*6\b')
_MAX_RESUMES = 3
_LIBRARY_MAX_SLEEP_SECONDS = 30.0  # the minimum that discord.py accepts for max_ratelimit_timeout
_RATE_LIMIT_WAITS, _RATE_LIMIT_SECONDS = 2, 5.0
_STEADY_SECONDS = 60.0

NO_CONTENT = 4014
FATAL = {
    4004: "Discord does not know the bot token. Copy a new one from the developer portal, page Bot, and restart",
    4010: "Discord says that the shard is wrong (4010)",
    4011: "the bot is in too many servers for one connection (4011): sharding is not supported",
    4012: "Discord no longer speaks this version of its gateway (4012). Update discord.py",
    4013: "Discord does not know the requested intents (4013). Update discord.py",
    NO_CONTENT: "Discord refuses every intent that was requested (4014). Check the developer "
    "portal, page Bot",
}
"""Close codes after which reconnecting is useless (developer docs, "Gateway Close Event Codes"), with the messages."""

DEGRADED = (
    "the text of messages without a mention is not received: enable the Message Content Intent "
    "in the developer portal, page Bot, and restart; or set messageContent: false"
)


def _drop_traceback(record: logging.LogRecord) -> bool:
    """Drop the traceback of a broken connection: discord.py logs its retry, and this module logs the reason."""
    why = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if why is not None and record.getMessage().startswith("Attempting a reconnect"):
        record.msg, record.args = "%s: %s: %s", (record.getMessage(), type(why).__name__, why)
        record.exc_info = record.exc_text = None
    return True


logging.getLogger("discord.client").addFilter(_drop_traceback)


@dataclass(frozen=True, slots=True)
class ConnectionTimings:
    """Time limits, in seconds.

    :param heartbeat: silence after which discord.py considers the connection dead and resumes.
    :param silence: silence after which a new connection is made.
    :param watch: interval of that check.
    :param identify: pause before an identify that is not the first.
    :param first_pause: before the first retry; doubled up to ``longest_pause``: an account has 1000 identifies a day.
    :param call: one REST call, including waits for rate limits.
    :param close: closing handshake.
    :param note: how often urgent changes of the stored positions go to disk.
    :param again: before the first retry for messages that were not accepted; doubled up to ``longest_pause``.
    """

    heartbeat: float = 60.0
    silence: float = 150.0
    watch: float = 5.0
    identify: float = 5.0
    first_pause: float = 1.0
    longest_pause: float = 120.0
    call: float = 45.0
    close: float = 1.5
    note: float = 1.0
    again: float = 1.0


def label(account: str) -> str:
    """Return the name of an account in log lines."""
    return "discord" if account == "default" else f"discord/{account}"


class _Reconnect(Exception):
    """Signal that this connection is unusable and another is needed."""


class _Fatal(Exception):
    """A failure that only a person can fix."""


class Connection:
    """A connection that receives until cancelled, and carries REST calls meanwhile.

    :param token: returns the secret, read again for each connection.
    :param on_dispatch: called with each relevant dispatch, in order, before discord.py reads it; must return at once.
    """

    def __init__(
        self,
        account: str,
        settings: DiscordSettings,
        token: Callable[[], str],
        on_dispatch: Callable[[dict[str, Any]], None],
        pace: ConnectionTimings,
    ) -> None:
        self._settings, self._token, self._on_dispatch, self._pace = settings, token, on_dispatch, pace
        self._log_name = label(account)
        self._content = settings.message_content
        self._client: Any = None
        self._resumes = 0
        self._reconnect = asyncio.Event()
        self._last_frame = time.monotonic()
        self._disconnected = False
        self.state = ChannelState()

    # --- the gateway

    async def run(self) -> None:
        """Stay connected until cancelled. A fatal error is reported once; then wait for a person."""
        pause = self._pace.first_pause
        while True:
            started = time.monotonic()
            try:
                await self._connect_once()
                why: Exception = _Reconnect(t("the connection ended"))
            except _Fatal as fatal:
                self._fail(str(fatal))
                await asyncio.Event().wait()
            except ClawError as failed:
                why = failed
            except Exception as broken:  # noqa: BLE001 - discord.py raises anything (a KeyError of a dispatch)
                why = broken
            if _closed_with(why) == NO_CONTENT and self._content:
                self._content = False
                _log.warning("%s: %s", self._log_name, t(DEGRADED))
                continue
            if time.monotonic() - started > _STEADY_SECONDS:
                pause = self._pace.first_pause
            await self._pause_before_retry(pause, why)
            pause = min(pause * 2, self._pace.longest_pause)

    async def _connect_once(self) -> None:
        """Log in, connect and listen, until the connection ends or goes silent.

        :raises _Fatal: a retry is useless.
        """
        discord = await asyncio.to_thread(vendor)
        point_at(self._settings.api_base, self._settings.gateway_url)
        client = _make_client(discord, self, intents(self._settings, content=self._content), self._pace)
        self._resumes, self._last_frame = 0, time.monotonic()
        self._reconnect.clear()
        listening = asyncio.ensure_future(self._listen(discord, client))
        giving_up = asyncio.ensure_future(self._reconnect.wait())
        try:
            while not listening.done():
                await asyncio.wait(
                    {listening, giving_up}, timeout=self._pace.watch, return_when=asyncio.FIRST_COMPLETED
                )
                if not listening.done():
                    self._check_alive()
            listening.result()
        finally:
            self._client = None
            for task in (listening, giving_up):
                task.cancel()
            await asyncio.wait({listening, giving_up})
            if not listening.cancelled():
                listening.exception()  # mark as retrieved: another one may end the group
            await self._close(client)

    async def _listen(self, discord: Any, client: Any) -> None:
        try:
            await client.login(self._token())
            self._client = client
            await self._wait_for_quota()
            await client.connect(reconnect=True)
        except discord.LoginFailure:
            raise _Fatal(t(FATAL[4004])) from None
        except (discord.ConnectionClosed, discord.PrivilegedIntentsRequired) as closed:
            code = _closed_with(closed)
            if code in FATAL and not (code == NO_CONTENT and self._content):
                raise _Fatal(t(FATAL[code])) from None
            raise

    async def _wait_for_quota(self) -> None:
        """Wait until Discord permits an identify: one too many makes it revoke the token."""
        with suppress(DeliveryError):
            wait = quota_wait(await self.call("GET", "/gateway/bot"))
            if wait:
                problem = t(
                    "no identify call is left today; waiting {minutes} minutes", minutes=round(wait / 60)
                )
                self.state = replace(self.state, state="waiting", detail=problem)
                self._last_frame = time.monotonic() + wait  # the silence is intended
                await asyncio.sleep(wait)

    def _check_alive(self) -> None:
        if self._reconnect.is_set():
            raise _Reconnect(t("Discord would not resume the session {count} times", count=_MAX_RESUMES))
        silent = time.monotonic() - self._last_frame
        if silent > self._pace.silence:
            raise _Reconnect(t("no data for {seconds} seconds", seconds=round(silent)))

    async def _close(self, client: Any) -> None:
        """Close politely within a moment; do not wait for a dead server."""
        with suppress(Exception):
            await asyncio.wait_for(client.close(), self._pace.close)
        with suppress(Exception):
            await client.http.close()

    async def _pause_before_retry(self, pause: float, why: Exception) -> None:
        reason = str(why) if isinstance(why, ClawError | _Reconnect) else f"{type(why).__name__}: {why}"
        asked = outbound.pause_of(getattr(getattr(why, "response", None), "headers", {}))
        pause = max(pause * random.uniform(0.75, 1.25), asked or 0.0)
        _log.warning(
            "%s: %s",
            self._log_name,
            t("not connected, retrying in {seconds} s: {why}", seconds=round(pause, 1), why=reason),
        )
        detail, self._disconnected = t("reconnecting: {why}", why=reason), True
        self.state = replace(
            self.state,
            state="waiting",
            detail=detail,
            last_error=reason,
            reconnects=self.state.reconnects + 1,
        )
        await asyncio.sleep(pause)

    def _fail(self, reason: str) -> None:
        self.state = replace(self.state, state="failed", detail=reason, last_error=reason)

    # --- frames: called by discord.py in its own code, so nothing here may block or raise

    def frame(self, text: str) -> None:
        """Handle a received frame."""
        self._last_frame = time.monotonic()
        self.state = replace(self.state, last_frame_at=time.time())
        if not _RELEVANT_FRAME.search(text):  # most large frames are irrelevant: avoid parsing them twice
            return
        frame = json.loads(text)
        name = frame.get("t")
        if name in ("READY", "RESUMED"):
            self._connected(resumed=name == "RESUMED")
        if name in _RELEVANT:
            self._on_dispatch(frame)

    def sent(self, text: str) -> None:
        """Handle a sent frame."""
        if _RESUME.search(text[:200]):
            self._resumes += 1
            self.state = replace(self.state, state="waiting", detail=t("resuming the session"))
            if self._resumes > _MAX_RESUMES:
                self._reconnect.set()

    def lost(self, why: BaseException | None) -> None:
        """Handle a connection that ended or could not be made (discord.py logs the latter); it is made again."""
        reason, last_error = t("the connection was lost"), self.state.last_error
        if why is not None and type(why).__name__ != "ReconnectWebSocket":  # an ordinary reconnect
            reason = last_error = f"{type(why).__name__}: {why}"
            self._disconnected = True
        detail = t("reconnecting: {why}", why=reason)
        self.state = replace(self.state, state="waiting", detail=detail, last_error=last_error)

    def _connected(self, *, resumed: bool) -> None:
        more = 1 if resumed or self._resumes else 0
        self._resumes = 0
        if self._disconnected:
            self._disconnected = False
            _log.info("%s: %s", self._log_name, t("receiving messages again"))
        detail = t(DEGRADED) if self._settings.message_content and not self._content else ""
        self.state = replace(self.state, state="up", detail=detail, reconnects=self.state.reconnects + more)

    # --- REST

    async def call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        query: Mapping[str, str | int] | None = None,
        files: Sequence[tuple[str, str]] = (),
        **where: str,
    ) -> Any:
        """Make one call; wait for rate limits of up to half a minute.

        :param path: with the names of ``where`` in braces: discord.py derives the rate-limit bucket from them.
        :param files: (path on this machine, name to show); ``json`` goes with them as a part.
        :returns: the parsed answer.
        :raises DeliveryError: it was refused, or its outcome is unknown; permanent for a malformed id.
        """
        for name, value in where.items():  # some come from models, and ".." would address another route
            if not (outbound.is_id(value) if name.endswith("_id") else value.strip(".")):
                raise DeliveryError("{id} is not a Discord {name}", permanent=True, id=value, name=name)
        for _ in range(_RATE_LIMIT_WAITS):
            try:
                return await self._request(method, path, json, query, files, where)
            except DiscordError as limited:  # discord.py waits too, but not for a 429 of a proxy in between
                pause = limited.retry_after_seconds
                if pause is None or pause > _RATE_LIMIT_SECONDS:
                    raise
                await asyncio.sleep(pause)
        return await self._request(method, path, json, query, files, where)

    async def _request(
        self,
        method: str,
        path: str,
        json: Any,
        query: Mapping[str, str | int] | None,
        files: Sequence[tuple[str, str]],
        where: Mapping[str, str],
    ) -> Any:
        client = self._client
        if client is None:
            raise DeliveryError("not connected to Discord")
        discord = vendor()
        route = import_module("discord.http").Route(method, path, **where)
        opened = [discord.File(file, filename=name) for file, name in files]
        given: dict[str, Any] = {"params": query} if query else {}
        if opened:
            given |= {"form": _form(json, opened), "files": opened}
        elif json is not None:
            given["json"] = json
        try:
            async with asyncio.timeout(self._pace.call):
                return await client.http.request(route, **given)
        except Exception as failed:
            raise _delivery_error(discord, failed) from failed
        finally:
            for file in opened:
                file.close()


def vendor() -> Any:
    """Import the module ``discord``. The first call takes a quarter of a second of CPU: not on the event loop."""
    # its unused voice part imports a module that Python has deprecated
    warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
    return import_module("discord")


def point_at(api_base: str, gateway_url: str) -> None:
    """Set the addresses of the service in discord.py: class attributes, so they hold for the whole process."""
    vendor()
    route = import_module("discord.http").Route
    route.BASE = api_base.rstrip("/")
    import_module("discord.gateway").DiscordWebSocket.DEFAULT_GATEWAY = import_module("yarl").URL(gateway_url)


def quota_wait(answer: Mapping[str, Any]) -> float:
    """Return the wait before an identify, in seconds, from the answer to ``GET /gateway/bot``."""
    limit = answer.get("session_start_limit") or {}
    return float(limit.get("reset_after", 0)) / 1000 if limit.get("remaining", 1) <= 0 else 0.0


def _make_client(discord: Any, connection: Connection, bits: int, pace: ConnectionTimings) -> Any:
    """Make a client that caches almost nothing and passes on each raw frame in order."""

    class Client(discord.Client):  # type: ignore[misc]
        def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
            if event == "socket_raw_receive":
                connection.frame(args[0])
            elif event == "socket_raw_send":
                connection.sent(args[0])
            elif event == "disconnect":
                connection.lost(sys.exception())  # called inside the except block

        async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
            if not initial:
                await asyncio.sleep(pace.identify)

    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # voice is not used
    wanted = discord.Intents.none()
    wanted.value = bits
    return Client(
        intents=wanted,
        max_messages=None,
        member_cache_flags=discord.MemberCacheFlags.none(),
        chunk_guilds_at_startup=False,
        allowed_mentions=discord.AllowedMentions.none(),
        enable_debug_events=True,
        heartbeat_timeout=pace.heartbeat,
        guild_ready_timeout=0,  # no one awaits its "ready", and that wait would outlive a stop
        max_ratelimit_timeout=_LIBRARY_MAX_SLEEP_SECONDS,
    )


def _form(body: Any, files: Sequence[Any]) -> list[dict[str, Any]]:
    described = {"attachments": [{"id": at, "filename": file.filename} for at, file in enumerate(files)]}
    parts = [{"name": "payload_json", "value": json.dumps((body or {}) | described)}]
    return parts + [
        {
            "name": f"files[{at}]",
            "value": file.fp,
            "filename": file.filename,
            "content_type": "application/octet-stream",
        }
        for at, file in enumerate(files)
    ]


def _closed_with(why: Exception) -> int:
    """Return the close code of the gateway; 0 when the failure had another cause."""
    if type(why).__name__ == "PrivilegedIntentsRequired":
        return NO_CONTENT
    code = getattr(why, "code", 0) if type(why).__name__ == "ConnectionClosed" else 0
    return code if isinstance(code, int) else 0


def _delivery_error(discord: Any, failed: Exception) -> DeliveryError:
    """Convert the exception of a call into a DeliveryError."""
    aiohttp = import_module("aiohttp")
    if isinstance(failed, DeliveryError):
        return failed
    if isinstance(failed, discord.RateLimited):
        return outbound.refusal(429, 0, "", retry_after=failed.retry_after)
    if isinstance(failed, discord.HTTPException):
        headers = failed.response.headers
        is_page = "json" not in headers.get("Content-Type", "")
        return outbound.refusal(
            failed.status, failed.code, failed.text, retry_after=outbound.pause_of(headers), is_page=is_page
        )
    said = f"{type(failed).__name__}: {failed}".rstrip(": ")
    if isinstance(failed, aiohttp.ClientConnectorError):
        return DeliveryError("Discord cannot be reached: {why}", why=said)
    if isinstance(failed, aiohttp.ClientError | OSError | TimeoutError):
        return DeliveryError("Discord did not answer: {why}", outcome_unknown=True, why=said)
    return DeliveryError("Discord could not be asked: {why}", why=said)
