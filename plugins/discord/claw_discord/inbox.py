"""From the gateway to the house: one line in the order of arrival, and the way back for what was missed or not taken."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from claw import DeliveryError, Door, Inbound, say

from claw_discord.client import Pace, label
from claw_discord.commands import registration
from claw_discord.inbound import COMMAND, is_in_thread, to_inbound
from claw_discord.places import DIRECT, Place, Places
from claw_discord.seen import Seen
from claw_discord.settings import DiscordSettings, may_be_heard_in

_log = logging.getLogger(__name__)

_WAITING = 10_000
_PAGE, _PAGES = 100, 5
_CHATS_AT_ONCE = 50
_DEFERRED_UPDATE = {"type": 6}
"""Answer to a pressed button: heard, nothing changes (developer docs, "Interaction Callback Type")."""
_THINKING = {"type": 5, "data": {"flags": 64}}
"""Answer to a command: shown as being thought about, to that person alone, until it is taken back."""
_THOUGHT_SECONDS = 14 * 60.0  # an interaction can be answered for 15 minutes

Call = Callable[..., Awaitable[Any]]


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
    """

    def __init__(self, account: str, settings: DiscordSettings, call: Call, seen: Seen, pace: Pace) -> None:
        self._account, self._settings, self._call, self._pace = account, settings, call, pace
        self._who, self._seen, self._places = label(account), seen, Places()
        self._line: asyncio.Queue[Mapping[str, Any] | _Gaps | _Owed] = asyncio.Queue()
        self._pressed: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._settled: dict[str, asyncio.Event] = {}
        self._me = self._session = ""
        self._busy = self._listed = False

    def hear(self, frame: Mapping[str, Any]) -> None:
        """Take a dispatch in; returns at once."""
        event, data = frame.get("t"), frame.get("d") or {}
        try:
            places = self._places.learn(str(event), data)
            if event == "READY":
                self._me, self._session = str(data["user"]["id"]), str(data.get("session_id") or "")
                self._line.put_nowait(_Gaps())
                self._pressed.put_nowait(frame)
            elif event == "GUILD_CREATE":
                self._line.put_nowait(
                    _Gaps(str(data.get("id") or ""), places, _moment(data.get("joined_at")))
                )
            elif event == "INTERACTION_CREATE":
                self._pressed.put_nowait(frame)
            elif event in ("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD"):
                self._queue(frame, data)
        except (KeyError, TypeError, ValueError, AttributeError) as strange:
            self._unreadable(event, data, strange)

    def idle(self) -> bool:
        """Whether everything that came was handed in."""
        return self._line.empty() and self._pressed.empty() and not self._busy

    async def run(self, door: Door) -> None:
        """Hand in until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._hand_in(door))
            tasks.create_task(self._remember_debts())
            while True:
                frame = await self._pressed.get()
                ready = frame.get("t") == "READY"
                tasks.create_task(self._list_commands(frame["d"]) if ready else self._press(door, frame))

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
        """What was not taken is asked for until it is, less and less often while nothing comes of it."""
        pause, before = self._pace.again, 0
        while True:
            await asyncio.sleep(pause)
            owed = len(self._seen.owed)
            stuck = owed and owed >= before
            pause, before = min(pause * 2, self._pace.longest_pause) if stuck else self._pace.again, owed
            if owed and self._line.empty():
                self._line.put_nowait(_Owed())

    # --- what was pressed

    async def _press(self, door: Door, frame: Mapping[str, Any]) -> None:
        """A button or a command: handed in, then confirmed; Discord tells the person of a failure after three seconds."""
        data = frame["d"]
        inbound = await self._read(frame)
        if inbound is None or inbound.message_id in self._settled:  # a resume repeats what we have
            return
        if data.get("type") != COMMAND:
            if await self._submit(door, inbound):
                await self._confirm(data, _DEFERRED_UPDATE)
            return
        settled = self._settled[inbound.message_id] = asyncio.Event()
        try:
            if await self._submit(door, inbound) and await self._confirm(data, _THINKING):
                with suppress(TimeoutError):
                    async with asyncio.timeout(_THOUGHT_SECONDS):
                        await settled.wait()
                await self._take_back(data)
        finally:
            del self._settled[inbound.message_id]

    def settled(self, id: str) -> None:
        """What a command asked for is said, or never will be."""
        if id in self._settled:
            self._settled[id].set()

    async def _confirm(self, data: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
        try:
            await self._call(
                "POST",
                "/interactions/{webhook_id}/{webhook_token}/callback",
                json=answer,
                webhook_id=str(data["id"]),
                webhook_token=str(data.get("token")),
            )
        except DeliveryError as why:
            told = say("what somebody pressed or chose could not be confirmed: {why}", why=why)
            _log.warning("%s: %s", self._who, told)
            return False
        return True

    async def _take_back(self, data: Mapping[str, Any]) -> None:
        """What shows that a command is thought about; it would go by itself after a quarter of an hour."""
        with suppress(DeliveryError):
            await self._call(
                "DELETE",
                "/webhooks/{webhook_id}/{webhook_token}/messages/@original",
                webhook_id=str(data.get("application_id")),
                webhook_token=str(data.get("token")),
            )

    async def _list_commands(self, ready: Mapping[str, Any]) -> None:
        """Register our commands once in a process, and only when they are not."""
        if self._listed or not self._settings.commands:
            return
        path = "/applications/{application_id}/commands"
        try:
            application = str(ready["application"]["id"])
            there = await self._call(
                "GET", path, query={"with_localizations": "true"}, application_id=application
            )
            wanted = registration(there)
            if wanted is not None:
                await self._call("PUT", path, json=wanted, application_id=application)
            self._listed = True
        except (DeliveryError, KeyError, TypeError, ValueError, AttributeError) as why:
            told = say("the commands could not be listed with Discord: {why}", why=why)
            _log.warning("%s: %s", self._who, told)


def _id(data: Any) -> str:
    return str(data.get("id") or data.get("message_id") or "?") if isinstance(data, Mapping) else "?"


def _moment(stamp: Any) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (TypeError, ValueError):
        return 0.0
