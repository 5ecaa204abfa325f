"""Webhook mode: Telegram calls the gateway, proves itself by a secret header, and calls again until it hears 200.

https://core.telegram.org/bots/api#setwebhook
"""

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

from claw import Inbound, PluginConfig, WebAnswer, WebRequest, WebRoute

from claw_telegram.inbound import Bot, Json, album_of
from claw_telegram.poller import read, together
from claw_telegram.settings import Account

SECRET_HEADER = "x-telegram-bot-api-secret-token"
CONNECTIONS = 40  # calls at once: those of an album wait for each other


class Receiver:
    """One account's end of its webhook. Closed until the channel runs.

    :param house: the settings it belongs to; held, so that no other house's have the same id.
    """

    def __init__(self, account: Account, house: object = None) -> None:
        self.account, self._house, self._album_seconds = account, house, 0.0
        self._bot: Bot | None = None
        self._submit: Callable[[Inbound, Json], Awaitable[bool]] | None = None
        self._albums: dict[tuple[int, str], list[Json]] = {}
        self._taken: dict[tuple[int, str], asyncio.Task[bool]] = {}

    @property
    def route(self) -> WebRoute:
        """For the gateway's listener."""
        return WebRoute(self.account.path, self.answer, self.admit)

    def open(
        self, bot: Bot, submit: Callable[[Inbound, Json], Awaitable[bool]], *, album_seconds: float = 0.0
    ) -> None:
        """The channel runs: calls are taken from now on.

        :param album_seconds: how long the parts of an album are waited for.
        """
        self._bot, self._submit, self._album_seconds = bot, submit, album_seconds

    async def close(self) -> None:
        """Refuse calls; what waits for the rest of its album is given up, so that Telegram calls again."""
        self._submit = None
        waiting = list(self._taken.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    def admit(self, request: WebRequest) -> WebAnswer | None:
        """Judge the head alone: the secret in its header, compared in constant time."""
        given = request.headers.get(SECRET_HEADER, "").encode()
        if not self.account.secret or not hmac.compare_digest(given, self.account.secret.encode()):
            return WebAnswer(401)
        return None if self._submit else WebAnswer(503)

    async def answer(self, request: WebRequest) -> WebAnswer:
        """200 once the update is on disk, also when it is nothing for us; 503 makes Telegram call again."""
        if refusal := self.admit(request):
            return refusal
        update = _update(request.body)
        if update is None:
            return WebAnswer(400)
        return WebAnswer(200 if await self._take(update) else 503)

    async def _take(self, update: Json) -> bool:
        album = album_of(update)
        if album is None:
            return await self._hand_in([update])
        self._albums.setdefault(album, []).append(update)
        if album not in self._taken:
            self._taken[album] = asyncio.create_task(self._whole(album))
        try:
            return await asyncio.shield(self._taken[album])
        except asyncio.CancelledError:
            if self._submit is None:  # we are stopping, not the caller
                return False
            raise

    async def _whole(self, album: tuple[int, str]) -> bool:
        """Wait until no further part comes, then hand all in as one."""
        try:
            seen = 0
            while seen < len(self._albums[album]):
                seen = len(self._albums[album])
                await asyncio.sleep(self._album_seconds)
        finally:
            parts = self._albums.pop(album)
            del self._taken[album]
        (ordered,) = together(sorted(parts, key=lambda part: int(part["update_id"])))
        return await self._hand_in(ordered)

    async def _hand_in(self, parts: "list[Json] | tuple[Json, ...]") -> bool:
        if self._bot is None or self._submit is None:
            return False
        inbound = read(parts, self._bot)
        return inbound is None or await self._submit(inbound, parts[0])


_RECEIVERS: WeakValueDictionary[tuple[int, str], Receiver] = WeakValueDictionary()
"""Both hooks (channels, routes) must answer with the same receiver, whichever is asked first."""


def receiver_of(account: Account, config: PluginConfig) -> Receiver:
    """The receiver of an account in this house."""
    key = (id(config.settings), account.name)
    found = _RECEIVERS.get(key)
    if found is None or found.account != account:
        found = _RECEIVERS[key] = Receiver(account, config.settings)
    return found


def _update(body: bytes) -> Json | None:
    """The update in a body; None when it is none."""
    try:
        update = json.loads(body)
    except (ValueError, RecursionError):
        return None
    id = update.get("update_id") if isinstance(update, dict) else None
    return update if isinstance(id, int) and not isinstance(id, bool) else None
