"""The queue between gateway and host: messages in order of arrival, and refetching of missed or refused ones."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from claw import DeliveryError, Inbound, Inbox, t

from claw_discord.chats import DIRECT, DiscordChat, DiscordChats
from claw_discord.client import ConnectionTimings, label
from claw_discord.inbound import DiscordBot, is_in_thread, to_inbound
from claw_discord.interactions import Call, Interactions
from claw_discord.read_positions import ReadPositions
from claw_discord.settings import DiscordSettings, may_be_heard_in

_log = logging.getLogger(__name__)

_MAX_QUEUED = 10_000
_PAGE, _PAGES = 100, 5
_CHATS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class _FetchMissed:
    """Queue entry after a new session: missed messages are fetched before anything newer is submitted.

    :param guild: guild of these places; empty = direct chats.
    """

    guild: str = ""
    places: tuple[DiscordChat, ...] = ()
    joined: float = 0.0


class _FetchPending:
    """Queue entry: fetch the messages that were not accepted."""


ChatMenu = Callable[[], Sequence[tuple[str, str, str]]]


class DispatchReader:
    """Reader of dispatches that submits them, each chat in order.

    :param call: :meth:`Connection.call`.
    :param seen: the last received message id of each chat.
    :param chat_menu: returns name, summary and arguments of each chat command; it blocks.
    :ivar interactions: buttons and commands, which bypass the queue.
    """

    def __init__(
        self,
        account: str,
        settings: DiscordSettings,
        call: Call,
        seen: ReadPositions,
        pace: ConnectionTimings,
        chat_menu: ChatMenu = tuple,
    ) -> None:
        self._account, self._settings, self._call, self._pace = account, settings, call, pace
        self._log_name, self._seen, self._places = label(account), seen, DiscordChats()
        self._entries: asyncio.Queue[Mapping[str, Any] | _FetchMissed | _FetchPending] = asyncio.Queue()
        self.interactions = Interactions(
            self._log_name, call, read=self._read, submit=self._submit, menu=self._menu_to_list
        )
        self._chat_menu = chat_menu
        self._menu: Sequence[tuple[str, str, str]] | None = None
        self._me = self._session = ""
        self._busy = False

    def receive(self, frame: Mapping[str, Any]) -> None:
        """Queue a dispatch; return at once."""
        event, data = frame.get("t"), frame.get("d") or {}
        try:
            places = self._places.learn(str(event), data)
            if event == "READY":
                self._me, self._session = str(data["user"]["id"]), str(data.get("session_id") or "")
                self._entries.put_nowait(_FetchMissed())
                self.interactions.receive(frame)
            elif event == "GUILD_CREATE":
                self._entries.put_nowait(
                    _FetchMissed(str(data.get("id") or ""), places, _timestamp(data.get("joined_at")))
                )
            elif event == "INTERACTION_CREATE":
                self.interactions.receive(frame)
            elif event in ("MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_REACTION_ADD"):
                self._enqueue(frame, data)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._log_unreadable(event, data, error)

    def idle(self) -> bool:
        """Return true if everything received was submitted."""
        return self._entries.empty() and self.interactions.idle() and not self._busy

    async def _commands(self) -> Sequence[tuple[str, str, str]]:
        """Return claw's chat commands; the first call waits while plugins are loaded."""
        if self._menu is None:
            self._menu = await asyncio.to_thread(self._chat_menu)
        return self._menu

    async def _menu_to_list(self) -> Sequence[tuple[str, str, str]] | None:
        return await self._commands() if self._settings.commands else None

    async def run(self, inbox: Inbox) -> None:
        """Submit queued dispatches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._submit_queued(inbox))
            tasks.create_task(self._retry_owed())
            tasks.create_task(self.interactions.run(inbox))

    # --- new messages

    def _enqueue(self, frame: Mapping[str, Any], data: Mapping[str, Any]) -> None:
        if self._entries.qsize() < _MAX_QUEUED:
            self._entries.put_nowait(frame)
        elif frame.get("t") == "MESSAGE_CREATE":  # the service keeps it: fetch it later
            self._seen.add_pending(str(data["channel_id"]), str(data["id"]))

    async def _submit_queued(self, inbox: Inbox) -> None:
        while True:
            entry = await self._entries.get()
            self._busy = True
            if isinstance(entry, _FetchMissed):
                await self._catch_up(inbox, self._gaps(entry))
            elif isinstance(entry, _FetchPending):
                await self._catch_up(inbox, list(self._seen.pending.items()))
            elif entry.get("t") == "MESSAGE_CREATE":
                await self._message(inbox, entry)
            else:
                await self._event(inbox, entry)
            self._busy = False

    async def _message(self, inbox: Inbox, frame: Mapping[str, Any]) -> bool:
        """Submit one message; return False when it was not accepted and must be fetched again later."""
        data = frame["d"]
        chat, id = str(data.get("channel_id")), str(data.get("id"))
        if chat in self._seen.pending:  # a predecessor was not accepted: fetch both again, in order
            self._seen.add_pending(chat, id)
            return False
        if await self._submit(inbox, await self._read(frame)):
            self._seen.took(chat, id, direct=not data.get("guild_id"))
            return True
        self._seen.add_pending(chat, id)
        return False

    async def _event(self, inbox: Inbox, frame: Mapping[str, Any]) -> None:
        """Submit an event that cannot be fetched again."""
        if not await self._submit(inbox, await self._read(frame)):
            _log.warning(
                "%s: %s",
                self._log_name,
                t("{event} {id} was not accepted", event=frame["t"], id=_id(frame["d"])),
            )

    async def _read(self, frame: Mapping[str, Any]) -> Inbound | None:
        data = frame["d"]
        try:
            if is_in_thread(data) and self._places.get(str(data["channel_id"])) is None:
                await self._fetch_thread(str(data["channel_id"]))
            chosen = frame.get("t") == "INTERACTION_CREATE"
            return to_inbound(
                frame,
                DiscordBot(self._me, self._account),
                places=self._places,
                session=self._session,
                reactions=self._settings.reaction_notifications,
                auto_thread=self._settings.auto_thread,
                commands=[name for name, _, _ in await self._commands()] if chosen else (),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._log_unreadable(frame.get("t"), data, error)
            return None

    def _log_unreadable(self, event: Any, data: Any, error: Exception) -> None:
        reason = f"{type(error).__name__}: {error}"
        text = t("{event} {id} cannot be read: {why}", event=event, id=_id(data), why=reason)
        _log.warning("%s: %s", self._log_name, text)

    async def _fetch_thread(self, channel: str) -> None:
        """Fetch the parent channel of an unknown thread: it decides who may talk there."""
        with suppress(DeliveryError, AttributeError, TypeError, ValueError):
            self._places.add(await self._call("GET", "/channels/{channel_id}", channel_id=channel))

    async def _submit(self, inbox: Inbox, inbound: Inbound | None) -> bool:
        if inbound is None:
            return True
        try:
            return await inbox.submit(inbound)
        except Exception as why:  # noqa: BLE001 - whatever the host raises, the message must not be lost
            _log.warning(
                "%s: %s",
                self._log_name,
                t("message {id} was not accepted: {why}", id=inbound.message_id, why=why),
            )
            return False

    # --- missed messages

    def _gaps(self, session: _FetchMissed) -> list[tuple[str, int]]:
        limit, now = self._settings.catch_up_minutes * 60.0, time.time()
        if session.guild:
            places = [
                place
                for place in session.places
                if may_be_heard_in(self._settings, place.parent if place.is_thread else place.id)
            ]
            return self._seen.guild_gaps(
                session.guild, places, joined=session.joined, now=now, limit_seconds=limit
            )
        self._seen.begin(now)
        return self._seen.direct_gaps(now, limit)

    async def _catch_up(self, inbox: Inbox, gaps: Sequence[tuple[str, int]]) -> None:
        """Fetch the first few chats, so that new messages do not wait long, and only while the service
        answers; the rest stays pending."""
        answered = True
        for number, (chat, after) in enumerate(gaps):
            if answered and number < _CHATS_AT_ONCE:
                answered = await self._fetch_chat(inbox, chat, after)
            else:
                self._seen.add_pending(chat, str(after + 1))

    async def _fetch_chat(self, inbox: Inbox, chat: str, after: int) -> bool:
        """Fetch the messages of a chat after an id and submit them, oldest first; return False when the
        service is down."""
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
                        "%s: %s", self._log_name, t("missed messages of {chat}: {why}", chat=chat, why=why)
                    )
                    return True
                self._seen.add_pending(chat, str(after + 1))
                return False
            for data in sorted(found, key=lambda one: int(one["id"])):
                after = int(data["id"])
                if not await self._message(inbox, {"t": "MESSAGE_CREATE", "d": self._with_place(chat, data)}):
                    return True
            if len(found) < _PAGE:
                return True
        self._seen.add_pending(chat, str(after + 1))
        return True

    def _with_place(self, chat: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Add the fields that a message from the archive lacks compared with a dispatch."""
        place = self._places.get(chat)
        kind = place.kind if place else data.get("channel_type") or DIRECT
        return {"guild_id": place.guild if place else None, "channel_type": kind, **data, "channel_id": chat}

    async def _retry_owed(self) -> None:
        """Retry messages that were not accepted until they are."""
        pause, before = self._pace.again, 0
        while True:
            await asyncio.sleep(pause)
            pending = len(self._seen.pending)
            pause, before = pause_after(pause, pending, before, self._pace), pending
            if pending and self._entries.empty():
                self._entries.put_nowait(_FetchPending())


def pause_after(pause: float, pending: int, before: int, pace: ConnectionTimings) -> float:
    """Return the wait before the next retry of pending chats: longer each time while none is settled.

    :param pending: their number now; ``before``: their number before the last pause.
    """
    return min(pause * 2, pace.longest_pause) if pending and pending >= before else pace.again


def _id(data: Any) -> str:
    return str(data.get("id") or data.get("message_id") or "?") if isinstance(data, Mapping) else "?"


def _timestamp(stamp: Any) -> float:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (TypeError, ValueError):
        return 0.0
