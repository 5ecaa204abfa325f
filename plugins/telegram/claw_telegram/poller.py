"""Long polling: updates are submitted in order and confirmed only after that.

Asking for updates from an offset confirms everything before it, so the offset never passes an update that is not on
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

from claw_telegram.api import BotApi, TelegramError
from claw_telegram.inbound import ALLOWED_UPDATES, Json, TelegramBot, album_of, joined, to_inbound

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PollTimings:
    """Waiting times, in seconds.

    :param poll: how long the service holds a poll; ``grace`` is added before the connection counts as dead.
    :param first: after a failure; it doubles up to ``most``. ``conflict`` when another process polls with this token.
    :param token: the longest pause while the service does not know the token.
    :param album: wait for the rest of an album.
    """

    poll: float = 25
    grace: float = 15
    first: float = 1
    conflict: float = 5
    most: float = 60
    token: float = 300
    album: float = 0.6

    def after(self, failures: int, first: float, most: float | None = None) -> float:
        """Return the pause after so many failures in a row, with jitter; ``most``: its maximum, if not ``self.most``."""
        return min(first * 2 ** min(failures - 1, 10), most or self.most) * random.uniform(0.8, 1.0)


@dataclass(frozen=True, slots=True)
class PollFailure:
    """The reason why a poll failed.

    :param kind: conflict (another poller), webhook (one is set), token (no bot has it), pressed (rate limit) or broken.
    """

    kind: str
    seconds: float = 0.0


def poll_failure(why: DeliveryError, failures: int, pace: PollTimings) -> PollFailure:
    """Decide how to go on after a failed poll. Pure, except for the jitter.

    :param failures: in a row, this one included.
    """
    if not isinstance(why, TelegramError) or why.is_page:
        return PollFailure("broken", pace.after(failures, pace.first))
    if why.status in (401, 404):  # also said by a service in trouble, so the token is tried again
        return PollFailure("token", pace.after(failures, pace.first, pace.token))
    if why.status == 409 and why.says("webhook"):
        return PollFailure("webhook")
    if why.status == 409:
        return PollFailure("conflict", pace.after(failures, pace.conflict))
    if why.retry_after_seconds is not None:
        return PollFailure("pressed", why.retry_after_seconds)
    return PollFailure("broken", pace.after(failures, pace.first))


class Poller:
    """The loop that fetches updates.

    :param connect: makes an :class:`BotApi` on its own client, so that a stuck send cannot block a poll, nor the reverse.
    :param submit: submits one message; True = it is on disk.
    :param on_poll: called after each completed poll, with true if it was a held one; ``on_failure`` after each
        failed one, with the error.
    """

    def __init__(
        self,
        connect: Callable[[], BotApi],
        bot: TelegramBot,
        *,
        submit: Callable[[Inbound, Json], Awaitable[bool]],
        on_poll: Callable[[bool], None],
        on_failure: Callable[[PollFailure, DeliveryError], None],
        pace: PollTimings,
    ) -> None:
        self._connect, self._bot, self._submit = connect, bot, submit
        self._on_poll, self._on_failure, self._pace = on_poll, on_failure, pace
        self._offset: int | None = None
        self._api: BotApi | None = None

    async def run(self) -> None:
        """Poll until cancelled."""
        failures, held = 0, False
        try:
            while True:
                try:  # the first poll, and one after a failure, returns at once and so shows the state
                    updates = await self._whole_albums(await self._poll(held))
                except DeliveryError as why:
                    failures, held = failures + 1, False
                    await self._recover(why, failures)
                    continue
                if not await self._submit_all(updates):
                    failures += 1
                    await asyncio.sleep(self._pace.after(failures, self._pace.first))
                elif held:  # a poll that returns at once succeeds also during a conflict
                    failures = 0
                held = True
        finally:
            await self._disconnect()

    async def _poll(self, held: bool) -> list[Json]:
        """Poll once. A poll that does not complete in time is dead, whatever the state of its connection."""
        seconds = self._pace.poll if held else 0
        self._api = self._api or self._connect()
        params = {"offset": self._offset, "timeout": int(seconds), "allowed_updates": list(ALLOWED_UPDATES)}
        updates = await self._api.call("getUpdates", params, seconds=seconds + self._pace.grace)
        self._on_poll(held)
        return list(updates or ())

    async def _whole_albums(self, updates: list[Json]) -> list[Json]:
        """Wait for the rest when the updates end inside an album: unconfirmed updates come again in the next poll."""
        while updates and album_of(updates[-1]):
            await asyncio.sleep(self._pace.album)
            updated = await self._poll(False)
            if len(updated) <= len(updates):
                break
            updates = updated
        return updates

    async def _submit_all(self, updates: Sequence[Json]) -> bool:
        """Submit everything in order; return False and stop the offset at the first update that was not accepted."""
        open_ids = [int(update["update_id"]) for update in updates]
        for parts in together(updates):
            if not await self._submit_parts(parts):
                break
            open_ids = [id for id in open_ids if id not in {part["update_id"] for part in parts}]
        if updates:
            self._offset = min(open_ids, default=int(updates[-1]["update_id"]) + 1)
        return not open_ids

    async def _submit_parts(self, parts: Sequence[Json]) -> bool:
        inbound = read(parts, self._bot)
        if inbound is None:
            return True
        try:
            return await self._submit(inbound, parts[0])
        except Exception:  # noqa: BLE001 - host error, such as a full disk: the update must come again
            _log.exception("update %s was not taken; it comes again", parts[0]["update_id"])
            return False

    async def _recover(self, why: DeliveryError, failures: int) -> None:
        found = poll_failure(why, failures, self._pace)
        self._on_failure(found, why)
        if found.kind == "webhook" and self._api:
            with contextlib.suppress(DeliveryError):
                await self._api.call("deleteWebhook", {"drop_pending_updates": False})
            found = PollFailure(
                "webhook", 0 if failures < 2 else self._pace.after(failures, self._pace.first)
            )
        if found.kind == "broken":
            await self._disconnect()
        await asyncio.sleep(found.seconds)

    async def _disconnect(self) -> None:
        """Close the connections; the next poll opens new ones."""
        api, self._api = self._api, None
        if api:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(1):
                    await api.aclose()


def together(updates: Sequence[Json]) -> list[tuple[Json, ...]]:
    """Group updates in order; the parts of an album form one group at the position of its last part."""
    albums: dict[Any, list[Json]] = {}
    for update in updates:
        albums.setdefault(album_of(update) or update["update_id"], []).append(update)
    groups = sorted(albums.values(), key=lambda parts: int(parts[-1]["update_id"]))
    return [tuple(parts) for parts in groups]


def read(parts: Sequence[Json], bot: TelegramBot) -> Inbound | None:
    """Read one message from one update or an album; None for irrelevant updates and unknown shapes."""
    found = []
    for update in parts:
        try:
            inbound = to_inbound(update, bot)
        except (KeyError, TypeError, ValueError, AttributeError) as why:
            _log.warning("update %s has an unknown shape and is left out: %r", update.get("update_id"), why)
            continue
        found += [inbound] if inbound else []
    return joined(found) if found else None
