"""From the gateway to the house: one line in the order of arrival, and the way back for what was missed or not taken."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from claw import DeliveryError, Door, Inbound, say

from claw_discord.client import Pace, label
from claw_discord.inbound import is_in_thread, to_inbound
from claw_discord.places import DIRECT, Place, Places
from claw_discord.presses import Call, Presses
from claw_discord.seen import Seen
from claw_discord.settings import DiscordSettings, may_be_heard_in

_log = logging.getLogger(__name__)

_WAITING = 10_000
_PAGE, _PAGES = 100, 5
_CHATS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class _Gaps:
    """We are here anew: what may have been missed is asked for before anything newer is handed in.

    :param guild: whose places these are; empty = direct chats.
    """

    guild: str = ""
    places: tuple[Place, ...] = ()
    joined: float = 0.0


class _Owed:
    """What was not taken is asked for again."""


class Inbox:
    """Reads dispatches and hands them in, each chat in order.

    :param call: :meth:`Connection.call`.
    :param seen: up to where each chat was heard.
    :ivar presses: what is dealt with beside the line.
    """

    def __init__(self, account: str, settings: DiscordSettings, call: Call, seen: Seen, pace: Pace) -> None:
        self._account, self._settings, self._call, self._pace = account, settings, call, pace
        self._who, self._seen, self._places = label(account), seen, Places()
        self._line: asyncio.Queue[Mapping[str, Any] | _Gaps | _Owed] = asyncio.Queue()
        self.presses = Presses(
            self._who, call, read=self._read, submit=self._submit, lists_commands=settings.commands
        )
        self._me = self._session = ""
        self._busy = False

    def hear(self, frame: Mapping[str, Any]) -> None:
        """Take a dispatch in; returns at once."""
        event, data = frame.get("t"), frame.get("d") or {}
        try:
            places = self._places.learn(str(event), data)
            if event == "READY":
                self._me, self._session = str(data["user"]["id"]), str(data.get("session_id") or "")
                self._line.put_nowait(_Gaps())
                self.presses.hear(frame)
            elif event == "GUILD_CREATE":
                self._line.put_nowait(
                    _Gaps(str(data.get("id") or ""), places, _moment(data.get("joined_at")))
                )
            elif event == "INTERACTION_CREATE":
                self.presses.hear(frame)
            elif event in ("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD"):
                self._queue(frame, data)
        except (KeyError, TypeError, ValueError, AttributeError) as strange:
            self._unreadable(event, data, strange)

    def idle(self) -> bool:
        """Whether everything that came was handed in."""
        return self._line.empty() and self.presses.idle() and not self._busy

    async def run(self, door: Door) -> None:
        """Hand in until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hand_in(door))
            tasks.create_task(self._remember_debts())
            tasks.create_task(self.presses.run(door))

    # --- what was said

    def _queue(self, frame: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        if self._line.qsize() < _WAITING:
            self._line.put_nowait(frame)
        elif frame.get("t") == "MESSAGE_CREATE":  # the service keeps it for us
            self._seen.owe(str(data["channel_id"]), str(data["id"]))

    async def _hand_in(self, door: Door) -> None:
        while True:
            entry = await self._line.get()
            self._busy = True
            if isinstance(entry, _Gaps):
                await self._catch_up(door, self._gaps(entry))
            elif isinstance(entry, _Owed):
                await self._catch_up(door, list(self._seen.owed.items()))
            elif entry.get("t") == "MESSAGE_CREATE":
                await self._message(door, entry)
            else:
                await self._event(door, entry)
            self._busy = False

    async def _message(self, door: Door, frame: Mapping[str, Any]) -> bool:
        """Hand in one message; False = it is owed, and asked for again later."""
        data = frame["d"]
        chat, id = str(data.get("channel_id")), str(data.get("id"))
        if chat in self._seen.owed:  # what came before it was not taken: they come again together, in order
            self._seen.owe(chat, id)
            return False
        if await self._submit(door, await self._read(frame)):
            self._seen.took(chat, id, direct=not data.get("guild_id"))
            return True
        self._seen.owe(chat, id)
        return False

    async def _event(self, door: Door, frame: Mapping[str, Any]) -> None:
        """Hand in what cannot be asked for again."""
        if not await self._submit(door, await self._read(frame)):
            _log.warning(
                "%s: %s", self._who, say("{event} {id} was not taken", event=frame["t"], id=_id(frame["d"]))
            )

    async def _read(self, frame: Mapping[str, Any]) -> Inbound | None:
        data = frame["d"]
        try:
            if is_in_thread(data) and self._places.get(str(data["channel_id"])) is None:
                await self._look_up(str(data["channel_id"]))
            return to_inbound(
                frame,
                self._me,
                account=self._account,
                places=self._places,
                session=self._session,
                reactions=self._settings.reaction_notifications,
                auto_thread=self._settings.auto_thread,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as strange:
            self._unreadable(frame.get("t"), data, strange)
            return None

    def _unreadable(self, event: Any, data: Any, strange: Exception) -> None:
        said = f"{type(strange).__name__}: {strange}"
        told = say("{event} {id} cannot be read: {why}", event=event, id=_id(data), why=said)
        _log.warning("%s: %s", self._who, told)

    async def _look_up(self, channel: str) -> None:
        """A thread that we were not told of: which channel it hangs on decides who may speak there."""
        with suppress(DeliveryError, AttributeError, TypeError, ValueError):
            self._places.add(await self._call("GET", "/channels/{channel_id}", channel_id=channel))

    async def _submit(self, door: Door, inbound: Inbound | None) -> bool:
        if inbound is None:
            return True
        try:
            return await door.submit(inbound)
        except Exception as why:  # noqa: BLE001 - whatever the house stumbles over, the message must not be lost
            _log.warning(
                "%s: %s", self._who, say("the house did not take {id}: {why}", id=inbound.message_id, why=why)
            )
            return False

    # --- what was missed

    def _gaps(self, came: _Gaps) -> list[tuple[str, int]]:
        limit, now = self._settings.catch_up_minutes * 60.0, time.time()
        if came.guild:
            places = [
                place
                for place in came.places
                if may_be_heard_in(self._settings, place.parent if place.is_thread else place.id)
            ]
            return self._seen.guild_gaps(came.guild, places, joined=came.joined, now=now, limit_seconds=limit)
        self._seen.begin(now)
        return self._seen.direct_gaps(now, limit)

    async def _catch_up(self, door: Door, gaps: Sequence[tuple[str, int]]) -> None:
        """Ask chat by chat, so many that what is said now does not wait long, and while the service answers; the rest
        is owed."""
        answered = True
        for number, (chat, after) in enumerate(gaps):
            if answered and number < _CHATS_AT_ONCE:
                answered = await self._fill(door, chat, after)
            else:
                self._seen.owe(chat, str(after + 1))

    async def _fill(self, door: Door, chat: str, after: int) -> bool:
        """Ask one chat for what came after a message, and hand it in, oldest first; False = the service is away."""
        self._seen.settle(chat)
        for _ in range(_PAGES):
            query = {"after": str(after), "limit": str(_PAGE)}
            try:
                found = await self._call(
                    "GET", "/channels/{channel_id}/messages", query=query, channel_id=chat
                )
            except DeliveryError as why:
                if why.permanent:
                    _log.warning(
                        "%s: %s", self._who, say("missed messages of {chat}: {why}", chat=chat, why=why)
                    )
                    return True
                self._seen.owe(chat, str(after + 1))
                return False
            for data in sorted(found, key=lambda one: int(one["id"])):
                after = int(data["id"])
                if not await self._message(door, {"t": "MESSAGE_CREATE", "d": self._completed(chat, data)}):
                    return True
            if len(found) < _PAGE:
                return True
        self._seen.owe(chat, str(after + 1))
        return True

    def _completed(self, chat: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """A message from the archive says less than a dispatch does about where it stands."""
        place = self._places.get(chat)
        kind = place.kind if place else data.get("channel_type") or DIRECT
        return {"guild_id": place.guild if place else None, "channel_type": kind, **data, "channel_id": chat}

    async def _remember_debts(self) -> None:
        """What was not taken is asked for until it is."""
        pause, before = self._pace.again, 0
        while True:
            await asyncio.sleep(pause)
            owed = len(self._seen.owed)
            pause, before = pause_after(pause, owed, before, self._pace), owed
            if owed and self._line.empty():
                self._line.put_nowait(_Owed())


def pause_after(pause: float, owed: int, before: int, pace: Pace) -> float:
    """How long to wait until chats that are owed something are asked again: longer and longer while nothing comes of it.

    :param owed: how many they are now, and were ``before`` the last pause.
    """
    return min(pause * 2, pace.longest_pause) if owed and owed >= before else pace.again


def _id(data: Any) -> str:
    return str(data.get("id") or data.get("message_id") or "?") if isinstance(data, Mapping) else "?"


def _moment(stamp: Any) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (TypeError, ValueError):
        return 0.0
