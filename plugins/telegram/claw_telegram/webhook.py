"""Webhook mode: Telegram posts updates to the gateway, with a secret header, and repeats them until it gets 200.

https://core.telegram.org/bots/api#setwebhook
"""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable

from claw import Inbound, PluginConfig
from claw_channel_sdk import WebAnswer, WebRequest, WebRoute

from claw_telegram.inbound import Json, TelegramBot, album_of
from claw_telegram.poller import read, together
from claw_telegram.settings import Account

SECRET_HEADER = "x-telegram-bot-api-secret-token"
CONNECTIONS = 40  # parallel calls; the parts of an album wait for each other


class Receiver:
    """Receiver of one account's webhook calls. It refuses them until the channel runs."""

    def __init__(self, account: Account) -> None:
        self.account, self._album_seconds = account, 0.0
        self._bot: TelegramBot | None = None
        self._submit: Callable[[Inbound, Json], Awaitable[bool]] | None = None
        self._albums: dict[tuple[int, str], list[Json]] = {}
        self._album_tasks: dict[tuple[int, str], asyncio.Task[bool]] = {}

    @property
    def route(self) -> WebRoute:
        """The route for the gateway's HTTP listener."""
        return WebRoute(self.account.path, self.answer, self.admit)

    def open(
        self,
        bot: TelegramBot,
        submit: Callable[[Inbound, Json], Awaitable[bool]],
        *,
        album_seconds: float = 0.0,
    ) -> None:
        """Accept calls from now on.

        :param album_seconds: how long to wait for further parts of an album.
        """
        self._bot, self._submit, self._album_seconds = bot, submit, album_seconds

    async def close(self) -> None:
        """Refuse calls from now on; incomplete albums are dropped, so that Telegram sends them again."""
        self._submit = None
        waiting = list(self._album_tasks.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def admit(self, request: WebRequest) -> WebAnswer | None:
        """Check the secret in the request header, in constant time, before the body is read."""
        given = request.headers.get(SECRET_HEADER, "").encode()
        if not self.account.secret or not hmac.compare_digest(given, self.account.secret.encode()):
            return WebAnswer(401)
        return None if self._submit else WebAnswer(503)

    async def answer(self, request: WebRequest) -> WebAnswer:
        """Answer 200 once the update is on disk or was skipped; 503 makes Telegram repeat the call."""
        if refusal := self.admit(request):
            return refusal
        update = _update(request.body)
        if update is None:
            return WebAnswer(400)
        return WebAnswer(200 if await self._accept(update) else 503)

    async def _accept(self, update: Json) -> bool:
        album = album_of(update)
        if album is None:
            return await self._submit_parts([update])
        self._albums.setdefault(album, []).append(update)
        if album not in self._album_tasks:
            self._album_tasks[album] = asyncio.create_task(self._collect_album(album))
        try:
            return await asyncio.shield(self._album_tasks[album])
        except asyncio.CancelledError:
            if self._submit is None:  # the channel is stopping; the caller is not at fault
                return False
            raise

    async def _collect_album(self, album: tuple[int, str]) -> bool:
        """Wait until no further part comes, then submit the album as one message."""
        try:
            seen = 0
            while seen < len(self._albums[album]):
                seen = len(self._albums[album])
                await asyncio.sleep(self._album_seconds)
        finally:
            parts = self._albums.pop(album)
            del self._album_tasks[album]
        (ordered,) = together(sorted(parts, key=lambda part: int(part["update_id"])))
        return await self._submit_parts(ordered)

    async def _submit_parts(self, parts: "list[Json] | tuple[Json, ...]") -> bool:
        if self._bot is None or self._submit is None:
            return False
        inbound = read(parts, self._bot)
        return inbound is None or await self._submit(inbound, parts[0])


def receiver_of(account: Account, config: PluginConfig) -> Receiver:
    """Return the receiver of an account, created on first use: the hooks for channels and routes share it."""
    receiver: Receiver = config.shared.setdefault(account.name, Receiver(account))
    return receiver


def _update(body: bytes) -> Json | None:
    """Parse the update in a body; None when it is not one."""
    try:
        update = json.loads(body)
    except (ValueError, RecursionError):
        return None
    id = update.get("update_id") if isinstance(update, dict) else None
    return update if isinstance(id, int) and not isinstance(id, bool) else None
