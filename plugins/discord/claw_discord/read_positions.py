"""The last received message of each chat, and so what to fetch after a break. Decisions only; the channel
stores it on disk.

The gateway has no acknowledgement per event: messages missed while offline, or not accepted by the host, have to be
fetched. The host drops duplicates.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from claw_discord.chats import DiscordChat
from claw_discord.inbound import id_at

_CHATS = 1000
_MARGIN_SECONDS = 120.0  # for clock skew, and a dead connection not noticed at once


class ReadPositions:
    """The receive positions of one account.

    :ivar alive: when a frame last came with everything submitted, seconds since 1970; 0 = never.
    :ivar pressing: a change that the next process can learn only from disk.
    """

    def __init__(self, noted: Mapping[str, Any] | None = None) -> None:
        noted = noted or {}
        self.alive = float(noted.get("alive") or 0.0)
        self._newest = {str(chat): int(id) for chat, id in (noted.get("chats") or {}).items()}
        self._direct = set(map(str, noted.get("direct") or ()))
        self._pending: dict[str, int] = {}
        self.pressing = False
        self._start_ids, self._start_alive = dict(self._newest), self.alive
        self._fetched_guilds: set[str] = set()

    def begin(self, now: float) -> None:
        """Start a new session: fetching begins after what was received before it."""
        self._start_ids, self._start_alive = dict(self._newest), self.alive
        self._fetched_guilds.clear()
        self.pressing = self.pressing or not self.alive
        self.alive = self.alive or now

    @property
    def pending(self) -> dict[str, int]:
        """Chats with a message that was not accepted, each with the id to fetch from."""
        return dict(self._pending)

    def took(self, chat: str, id: str, *, direct: bool = False) -> None:
        """Record a message as submitted or irrelevant."""
        self._newest[chat] = max(self._newest.pop(chat, 0), int(id))  # moved to the end: the newest are kept
        if direct and chat not in self._direct:
            self._direct.add(chat)
            self.pressing = True  # the API has no list of a bot's direct chats
        while len(self._newest) > _CHATS:
            oldest = next(iter(self._newest))
            del self._newest[oldest]
            self._direct.discard(oldest)

    def add_pending(self, chat: str, id: str) -> None:
        """Record a message as not accepted: fetch it and its successors in the chat again."""
        self._pending[chat] = min(self._pending.get(chat, int(id) - 1), int(id) - 1)

    def settle(self, chat: str) -> None:
        """Record that all pending messages of a chat were submitted."""
        self._pending.pop(chat, None)

    def direct_gaps(self, now: float, limit_seconds: float) -> list[tuple[str, int]]:
        """Return the direct chats to fetch, each with the id to start after: the API lists none of them."""
        if not self._start_alive or not limit_seconds:
            return []
        chats = [chat for chat in self._start_ids if chat in self._direct]
        return [(chat, self._after(chat, now, limit_seconds)) for chat in reversed(chats)]

    def guild_gaps(
        self, guild: str, places: Iterable[DiscordChat], *, joined: float, now: float, limit_seconds: float
    ) -> list[tuple[str, int]]:
        """Return the places of a guild that have newer messages than received, newest first.

        :param joined: when the bot joined that guild; older messages were not meant for it.
        """
        if guild in self._fetched_guilds:  # it was unavailable for a while: its messages arrived meanwhile
            self._start_ids, self._start_alive = self._start_ids | self._newest, self.alive
        self._fetched_guilds.add(guild)
        if not self._start_alive or not limit_seconds:
            return []
        gaps = []
        for place in sorted(places, key=lambda one: -one.newest):
            after = max(self._after(place.id, now, limit_seconds), id_at(joined))
            if place.holds_messages and place.newest > after:
                gaps.append((place.id, after))
        return gaps

    def noted(self) -> dict[str, Any]:
        """Return the state to store; for a chat with pending messages, only up to the first of them."""
        return {"alive": self.alive, "chats": self._newest | self._pending, "direct": sorted(self._direct)}

    def _after(self, chat: str, now: float, limit_seconds: float) -> int:
        if chat in self._pending:
            return self._pending[chat]
        newest = self._start_ids.get(chat, id_at(self._start_alive - _MARGIN_SECONDS))
        return max(newest, id_at(now - limit_seconds))
