"""Long polling: what came is handed in, in order, and only then confirmed.

Asking for updates from an offset confirms everything before it, so the offset never runs ahead of what the house has on
disk. https://core.telegram.org/bots/api#getupdates
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from claw import DeliveryError, Inbound

from claw_telegram.api import Api, Refused
from claw_telegram.inbound import ALLOWED_UPDATES, Bot, Json, album_of, joined, to_inbound

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to wait, in seconds.

    :param poll: for news, held by the service; ``grace`` on top of it, until the connection counts as dead.
    :param first: after a failure; it doubles up to ``most``. ``conflict`` when somebody else polls with this token.
    :param album: for the rest of an album.
    """

    poll: float = 25
    grace: float = 15
    first: float = 1
    conflict: float = 5
    most: float = 60
    album: float = 0.6

    def after(self, failures: int, first: float) -> float:
        """The pause after so many failures in a row, a little scattered."""
        return min(first * 2 ** min(failures - 1, 10), self.most) * random.uniform(0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why polling does not go on.

    :param kind: conflict (somebody else polls), webhook (one is set), fatal (the token), pressed (too fast) or broken.
    """

    kind: str
    seconds: float = 0.0


def trouble(why: DeliveryError, failures: int, pace: Pace) -> Trouble:
    """What to do after a failed poll. Pure, but for the scatter.

    :param failures: in a row, this one included.
    """
    if not isinstance(why, Refused):
        return Trouble("broken", pace.after(failures, pace.first))
    if why.status in (401, 404):  # 404: no bot has such a token
        return Trouble("fatal")
    if why.status == 409 and why.says("webhook"):
        return Trouble("webhook")
    if why.status == 409:
        return Trouble("conflict", pace.after(failures, pace.conflict))
    if why.retry_after_seconds is not None:
        return Trouble("pressed", why.retry_after_seconds)
    return Trouble("broken", pace.after(failures, pace.first))


class Poller:
    """The loop that asks for news.

    :param connect: makes an :class:`Api` on a client of its own: a stuck send must not hold a poll up, nor the reverse.
    :param submit: hands one message in; True = it is on disk.
    :param came: told of each completed poll, and whether it was held, so that nothing disturbed it; ``troubled`` of each
        failed one with the error.
    """

    def __init__(
        self,
        connect: Callable[[], Api],
        bot: Bot,
        *,
        submit: Callable[[Inbound, Json], Awaitable[bool]],
        came: Callable[[bool], None],
        troubled: Callable[[Trouble, DeliveryError], None],
        pace: Pace,
    ) -> None:
        self._connect, self._bot, self._submit = connect, bot, submit
        self._came, self._troubled, self._pace = came, troubled, pace
        self._offset: int | None = None
        self._api: Api | None = None

    async def run(self) -> None:
        """Poll until cancelled.

        :raises DeliveryError: the token is not good.
        """
        failures, held = 0, False
        try:
            while True:
                try:  # the first poll, and one after trouble, is not held: it tells at once how things stand
                    updates = await self._whole_albums(await self._poll(held))
                except DeliveryError as why:
                    failures, held = failures + 1, False
                    await self._recover(why, failures)
                    continue
                if not await self._hand_in(updates):
                    failures += 1
                    await asyncio.sleep(self._pace.after(failures, self._pace.first))
                elif held:  # one that is not held comes through also while somebody else polls
                    failures = 0
                held = True
        finally:
            await self._drop()

    async def _poll(self, held: bool) -> list[Json]:
        """Ask once. A poll that is not complete in time is dead, whatever its connection looks like."""
        seconds = self._pace.poll if held else 0
        self._api = self._api or self._connect()
        params = {"offset": self._offset, "timeout": int(seconds), "allowed_updates": list(ALLOWED_UPDATES)}
        updates = await self._api.call("getUpdates", params, seconds=seconds + self._pace.grace)
        self._came(held)
        return list(updates or ())

    async def _whole_albums(self, updates: list[Json]) -> list[Json]:
        """When the news end inside an album, wait for the rest: nothing is confirmed, so all of it comes again."""
        while updates and album_of(updates[-1]):
            await asyncio.sleep(self._pace.album)
            again = await self._poll(False)
            if len(again) <= len(updates):
                break
            updates = again
        return updates

    async def _hand_in(self, updates: Sequence[Json]) -> bool:
        """Hand everything in, in order; False when the house did not take one. The offset then stops there."""
        open_ids = [int(update["update_id"]) for update in updates]
        for parts in together(updates):
            if not await self._take(parts):
                break
            open_ids = [id for id in open_ids if id not in {part["update_id"] for part in parts}]
        if updates:
            self._offset = min(open_ids, default=int(updates[-1]["update_id"]) + 1)
        return not open_ids

    async def _take(self, parts: Sequence[Json]) -> bool:
        inbound = read(parts, self._bot)
        if inbound is None:
            return True
        try:
            return await self._submit(inbound, parts[0])
        except Exception:  # noqa: BLE001 - the house's trouble, such as a full disk: the update must come again
            _log.exception("update %s was not taken; it comes again", parts[0]["update_id"])
            return False

    async def _recover(self, why: DeliveryError, failures: int) -> None:
        found = trouble(why, failures, self._pace)
        self._troubled(found, why)
        if found.kind == "fatal":
            raise why
        if found.kind == "webhook" and self._api:
            with contextlib.suppress(DeliveryError):
                await self._api.call("deleteWebhook", {"drop_pending_updates": False})
            found = Trouble("webhook", 0 if failures < 2 else self._pace.after(failures, self._pace.first))
        if found.kind == "broken":
            await self._drop()
        await asyncio.sleep(found.seconds)

    async def _drop(self) -> None:
        """Close the connections; the next poll has new ones."""
        api, self._api = self._api, None
        if api:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1):
                    await api.aclose()


def together(updates: Sequence[Json]) -> list[tuple[Json, ...]]:
    """Updates in order; the parts of an album stand together, in the place of its last one."""
    albums: dict[Any, list[Json]] = {}
    for update in updates:
        albums.setdefault(album_of(update) or update["update_id"], []).append(update)
    groups = sorted(albums.values(), key=lambda parts: int(parts[-1]["update_id"]))
    return [tuple(parts) for parts in groups]


def read(parts: Sequence[Json], bot: Bot) -> Inbound | None:
    """One message of one update or of an album; None for what is not for us, or of a shape that nobody knows."""
    found = []
    for update in parts:
        try:
            inbound = to_inbound(update, bot)
        except (KeyError, TypeError, ValueError, AttributeError) as why:
            _log.warning("update %s has an unknown shape and is left out: %r", update.get("update_id"), why)
            continue
        found += [inbound] if inbound else []
    return joined(found) if found else None
