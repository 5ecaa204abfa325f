"""One account's connection, held by discord.py and supervised by us: it comes back by itself, or says why it cannot."""

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

from claw import ChannelState, ClawError, DeliveryError, say

from claw_discord import outbound
from claw_discord.inbound import READ
from claw_discord.settings import DiscordSettings, intents

_log = logging.getLogger(__name__)

_TOLD = READ | {
    "READY", "RESUMED", "GUILD_CREATE", "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE",
    "THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE", "THREAD_LIST_SYNC",
}  # fmt: skip
_MATTERS = re.compile(rf'"t"\s*:\s*"(?:{"|".join(sorted(_TOLD))})"')
_RESUME = re.compile(r'"op"\s*:\s*6\b')
_RESUMES = 3
_SLEEP_OF_LIBRARY_SECONDS = 30.0  # the least that discord.py takes for max_ratelimit_timeout
_STEADY_SECONDS = 60.0

NO_CONTENT = 4014
FATAL = {
    4004: "Discord does not know the bot token. Copy a new one from the developer portal, page Bot, and restart",
    4010: "Discord says that the shard is wrong (4010)",
    4011: "the bot is in too many servers for one connection (4011): sharding is not supported",
    4012: "Discord no longer speaks this version of its gateway (4012). Update discord.py",
    4013: "Discord does not know the intents that were asked for (4013). Update discord.py",
    NO_CONTENT: "Discord refuses every intent that was asked for (4014). Look at the developer portal, page Bot",
}
"""Codes that close the gateway for good (developer docs, "Gateway Close Event Codes"), and what to say."""

DEGRADED = (
    "text of messages without a mention is not heard: switch on the Message Content Intent in the developer portal, "
    "page Bot, and restart; or set messageContent: false"
)


def _in_one_line(record: logging.LogRecord) -> bool:
    """A connection that breaks is nothing to trace: discord.py says that it tries again, and we why."""
    why = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    if why is not None and record.getMessage().startswith("Attempting a reconnect"):
        record.msg, record.args = "%s: %s: %s", (record.getMessage(), type(why).__name__, why)
        record.exc_info = record.exc_text = None
    return True


logging.getLogger("discord.client").addFilter(_in_one_line)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things may take, in seconds.

    :param heartbeat: silence after which discord.py takes the connection for dead and resumes.
    :param silence: silence after which we begin anew.
    :param watch: how often that is looked at.
    :param identify: pause before an identify that is not the first.
    :param first_pause: before the first new try; doubled up to ``longest_pause``: an account has 1000 identifies a day.
    :param call: one REST call, its rate limits waited for.
    :param close: leaving politely.
    :param note: how often what is new and pressing goes to disk.
    :param again: before the first asking for messages that were not taken; doubled up to ``longest_pause``.
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
    """How a line of the log names an account."""
    return "discord" if account == "default" else f"discord/{account}"


class _Again(Exception):
    """This connection is no good any more: make another."""


class _Fatal(Exception):
    """Only a person can mend it."""


class Connection:
    """Listens until it is cancelled, and carries REST calls as long as it listens.

    :param token: gives the secret, read anew for each connection.
    :param heard: is told each dispatch that matters, in order, before discord.py reads it; must return at once.
    """

    def __init__(
        self,
        account: str,
        settings: DiscordSettings,
        token: Callable[[], str],
        heard: Callable[[dict[str, Any]], None],
        pace: Pace,
    ) -> None:
        self._settings, self._token, self._heard, self._pace = settings, token, heard, pace
        self._who = label(account)
        self._content = settings.message_content
        self._client: Any = None
        self._resumes = 0
        self._anew = asyncio.Event()
        self._last_frame = time.monotonic()
        self._away = False
        self.state = ChannelState()

    # --- the gateway

    async def run(self) -> None:
        """Be connected until cancelled. What only a person can mend is said once, and waited with."""
        pause = self._pace.first_pause
        while True:
            started = time.monotonic()
            try:
                await self._one_connection()
                why: Exception = _Again(say("the connection ended"))
            except _Fatal as fatal:
                self._fail(str(fatal))
                await asyncio.Event().wait()
            except ClawError as failed:
                why = failed
            except Exception as broken:  # noqa: BLE001 - discord.py raises what it stumbles over (a KeyError of a dispatch)
                why = broken
            if _closed_with(why) == NO_CONTENT and self._content:
                self._content = False
                _log.warning("%s: %s", self._who, say(DEGRADED))
                continue
            if time.monotonic() - started > _STEADY_SECONDS:
                pause = self._pace.first_pause
            await self._wait(pause, why)
            pause = min(pause * 2, self._pace.longest_pause)

    async def _one_connection(self) -> None:
        """Log in, connect and listen, until it ends or goes silent.

        :raises _Fatal: there is no use in another try.
        """
        discord = await asyncio.to_thread(vendor)
        point_at(self._settings.api_base, self._settings.gateway_url)
        client = _make_client(discord, self, intents(self._settings, content=self._content), self._pace)
        self._resumes, self._last_frame = 0, time.monotonic()
        self._anew.clear()
        listening = asyncio.ensure_future(self._listen(discord, client))
        given_up = asyncio.ensure_future(self._anew.wait())
        try:
            while not listening.done():
                await asyncio.wait(
                    {listening, given_up}, timeout=self._pace.watch, return_when=asyncio.FIRST_COMPLETED
                )
                if not listening.done():
                    self._look()
            listening.result()
        finally:
            self._client = None
            for task in (listening, given_up):
                task.cancel()
            await asyncio.wait({listening, given_up})
            if not listening.cancelled():
                listening.exception()  # looked at: it may be another than the one that ends us
            await self._leave(client)

    async def _listen(self, discord: Any, client: Any) -> None:
        try:
            await client.login(self._token())
            self._client = client
            await self._mind_the_quota()
            await client.connect(reconnect=True)
        except discord.LoginFailure:
            raise _Fatal(say(FATAL[4004])) from None
        except (discord.ConnectionClosed, discord.PrivilegedIntentsRequired) as closed:
            code = _closed_with(closed)
            if code in FATAL and not (code == NO_CONTENT and self._content):
                raise _Fatal(say(FATAL[code])) from None
            raise

    async def _mind_the_quota(self) -> None:
        """Identify only while Discord lets us: one too many makes it take the token away."""
        with suppress(DeliveryError):
            wait = quota_wait(await self.call("GET", "/gateway/bot"))
            if wait:
                problem = say(
                    "no identify is left today; waiting {minutes} minutes", minutes=round(wait / 60)
                )
                self.state = replace(self.state, state="waiting", detail=problem)
                self._last_frame = time.monotonic() + wait  # silence is what is agreed
                await asyncio.sleep(wait)

    def _look(self) -> None:
        if self._anew.is_set():
            raise _Again(say("Discord would not resume the session {count} times", count=_RESUMES))
        silent = time.monotonic() - self._last_frame
        if silent > self._pace.silence:
            raise _Again(say("nothing came for {seconds} seconds", seconds=round(silent)))

    async def _leave(self, client: Any) -> None:
        """Close politely within a moment; a server that is dead is not waited for."""
        with suppress(Exception):
            await asyncio.wait_for(client.close(), self._pace.close)
        with suppress(Exception):
            await client.http.close()

    async def _wait(self, pause: float, why: Exception) -> None:
        said = str(why) if isinstance(why, ClawError | _Again) else f"{type(why).__name__}: {why}"
        asked = outbound.pause_of(getattr(getattr(why, "response", None), "headers", {}))
        pause = max(pause * random.uniform(0.75, 1.25), asked or 0.0)
        _log.warning(
            "%s: %s",
            self._who,
            say("not connected, again in {seconds} s: {why}", seconds=round(pause, 1), why=said),
        )
        detail, self._away = say("connecting again by itself: {why}", why=said), True
        self.state = replace(
            self.state, state="waiting", detail=detail, last_error=said, reconnects=self.state.reconnects + 1
        )
        await asyncio.sleep(pause)

    def _fail(self, said: str) -> None:
        self.state = replace(self.state, state="failed", detail=said, last_error=said)

    # --- frames; called by discord.py in the middle of its own work, so nothing here waits or raises

    def frame(self, text: str) -> None:
        """A frame came."""
        self._last_frame = time.monotonic()
        self.state = replace(self.state, last_frame_at=time.time())
        if not _MATTERS.search(text):  # most of the large frames are nothing to us: they are not parsed twice
            return
        frame = json.loads(text)
        name = frame.get("t")
        if name in ("READY", "RESUMED"):
            self._up(resumed=name == "RESUMED")
        if name in _TOLD:
            self._heard(frame)

    def sent(self, text: str) -> None:
        """We sent a frame."""
        if _RESUME.search(text[:200]):
            self._resumes += 1
            self.state = replace(self.state, state="waiting", detail=say("resuming the session"))
            if self._resumes > _RESUMES:
                self._anew.set()

    def lost(self, why: BaseException | None) -> None:
        """The connection ended, or could not be made (then discord.py says so in the log); it is made again by itself."""
        said, told = say("the connection was lost"), self.state.last_error
        if why is not None and type(why).__name__ != "ReconnectWebSocket":  # which is ordinary
            said = told = f"{type(why).__name__}: {why}"
            self._away = True
        detail = say("connecting again by itself: {why}", why=said)
        self.state = replace(self.state, state="waiting", detail=detail, last_error=told)

    def _up(self, *, resumed: bool) -> None:
        more = 1 if resumed or self._resumes else 0
        self._resumes = 0
        if self._away:
            self._away = False
            _log.info("%s: %s", self._who, say("hears again"))
        detail = say(DEGRADED) if self._settings.message_content and not self._content else ""
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
        """One call; rate limits of up to half a minute are waited for.

        :param path: with the names of ``where`` in braces: they tell discord.py which limit counts.
        :param files: (path on this machine, name to show); ``json`` goes with them as a part.
        :returns: the parsed answer.
        :raises DeliveryError: it was refused, or nobody knows; permanent for an id that is none.
        """
        client = self._client
        if client is None:
            raise DeliveryError("not connected to Discord")
        for name, value in where.items():  # some come from models, and two points lead to the channel itself
            if not (outbound.is_id(value) if name.endswith("_id") else value.strip(".")):
                raise DeliveryError("{id} is no {name} of Discord", permanent=True, id=value, name=name)
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
    """The module ``discord``. The first call takes a quarter of a second of work: not on the event loop."""
    # its voice part, which nobody here uses, imports a module that Python has deprecated
    warnings.filterwarnings("ignore", "'audioop' is deprecated", DeprecationWarning)
    return import_module("discord")


def point_at(api_base: str, gateway_url: str) -> None:
    """Where discord.py finds the service: attributes of its classes, so one place for the whole process."""
    vendor()
    route = import_module("discord.http").Route
    route.BASE = api_base.rstrip("/")
    import_module("discord.gateway").DiscordWebSocket.DEFAULT_GATEWAY = import_module("yarl").URL(gateway_url)


def quota_wait(answer: Mapping[str, Any]) -> float:
    """How long to wait before an identify, in seconds, out of the answer to ``GET /gateway/bot``."""
    limit = answer.get("session_start_limit") or {}
    return float(limit.get("reset_after", 0)) / 1000 if limit.get("remaining", 1) <= 0 else 0.0


def _make_client(discord: Any, connection: Connection, bits: int, pace: Pace) -> Any:
    """A client that keeps next to nothing, and hands us each frame in the order and the form in which it came."""

    class Client(discord.Client):  # type: ignore[misc]
        def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
            if event == "socket_raw_receive":
                connection.frame(args[0])
            elif event == "socket_raw_send":
                connection.sent(args[0])
            elif event == "disconnect":
                connection.lost(sys.exception())  # told where it is caught

        async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
            if not initial:
                await asyncio.sleep(pace.identify)

    discord.VoiceClient.warn_nacl = discord.VoiceClient.warn_dave = False  # we have no voice
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
        guild_ready_timeout=0,  # nobody waits for its "ready", and its waiting would outlive a stop
        max_ratelimit_timeout=_SLEEP_OF_LIBRARY_SECONDS,
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
    """The code that closed the gateway; 0 when that was not the reason."""
    if type(why).__name__ == "PrivilegedIntentsRequired":
        return NO_CONTENT
    code = getattr(why, "code", 0) if type(why).__name__ == "ConnectionClosed" else 0
    return code if isinstance(code, int) else 0


def _delivery_error(discord: Any, failed: Exception) -> DeliveryError:
    """What a call raised, as what the house should do next."""
    aiohttp = import_module("aiohttp")
    if isinstance(failed, DeliveryError):
        return failed
    if isinstance(failed, discord.RateLimited):
        return outbound.refusal(429, 0, "", retry_after=failed.retry_after)
    if isinstance(failed, discord.HTTPException):
        pause = outbound.pause_of(failed.response.headers)
        return outbound.refusal(failed.status, failed.code, failed.text, retry_after=pause)
    said = f"{type(failed).__name__}: {failed}".rstrip(": ")
    if isinstance(failed, aiohttp.ClientConnectorError):
        return DeliveryError("Discord cannot be reached: {why}", why=said)
    if isinstance(failed, aiohttp.ClientError | OSError | TimeoutError):
        return DeliveryError("Discord did not answer: {why}", outcome_unknown=True, why=said)
    return DeliveryError("Discord could not be asked: {why}", why=said)
