"""Up to where each chat was heard: what to ask for again after a break. Decisions only; the channel keeps it on disk.

The gateway wants no word for each event: what came while nobody listened, or what the house could not take, has to be
asked for. The house drops what it had before.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from claw_discord.inbound import id_at
from claw_discord.places import Place

_CHATS = 1000
_MARGIN_SECONDS = 120.0  # two clocks, and a connection that was dead before anybody noticed


class Seen:
    """One account's memory.

    :ivar alive: when the service was last heard and all of it was handed in, seconds since 1970; 0 = never.
    :ivar pressing: something is new that only a note on disk can tell the next process.
    """

    def __init__(self, noted: Mapping[str, Any] | None = None) -> None:
        noted = noted or {}
        self.alive = float(noted.get("alive") or 0.0)
        self._newest = {str(chat): int(id) for chat, id in (noted.get("chats") or {}).items()}
        self._direct = set(map(str, noted.get("direct") or ()))
        self._owed: dict[str, int] = {}
        self.pressing = False
        self._before, self._before_alive = dict(self._newest), self.alive
        self._asked: set[str] = set()

    def begin(self, now: float) -> None:
        """We are here anew: what was heard until now is where asking begins."""
        self._before, self._before_alive = dict(self._newest), self.alive
        self._asked.clear()
        self.pressing = self.pressing or not self.alive
        self.alive = self.alive or now

    @property
    def owed(self) -> dict[str, int]:
        """Chats of which a message was not taken, each with the id after which to ask."""
        return dict(self._owed)

    def took(self, chat: str, id: str, *, direct: bool = False) -> None:
        """A message was handed in, or is none of the house's business."""
        self._newest[chat] = max(self._newest.pop(chat, 0), int(id))  # to the end: the newest chats are kept
        if direct and chat not in self._direct:
            self._direct.add(chat)
            self.pressing = True  # no list of the service's names the direct chats of a bot
        while len(self._newest) > _CHATS:
            oldest = next(iter(self._newest))
            del self._newest[oldest]
            self._direct.discard(oldest)

    def owe(self, chat: str, id: str) -> None:
        """A message was not taken: it, and what follows it in its chat, is asked for again."""
        self._owed[chat] = min(self._owed.get(chat, int(id) - 1), int(id) - 1)

    def settle(self, chat: str) -> None:
        """All that was owed of a chat is in."""
        self._owed.pop(chat, None)

    def direct_gaps(self, now: float, limit_seconds: float) -> list[tuple[str, int]]:
        """Direct chats to ask, each with the id after which: no list of the service's says whether anything is new."""
        if not self._before_alive or not limit_seconds:
            return []
        chats = [chat for chat in self._before if chat in self._direct]
        return [(chat, self._after(chat, now, limit_seconds)) for chat in reversed(chats)]

    def guild_gaps(
        self, guild: str, places: Iterable[Place], *, joined: float, now: float, limit_seconds: float
    ) -> list[tuple[str, int]]:
        """Places of a guild that hold something newer than what was heard, the newest first.

        :param joined: when we came to that guild; what was said before was not said to us.
        """
        if guild in self._asked:  # it was away for a while: what came meanwhile was heard
            self._before, self._before_alive = self._before | self._newest, self.alive
        self._asked.add(guild)
        if not self._before_alive or not limit_seconds:
            return []
        gaps = []
        for place in sorted(places, key=lambda one: -one.newest):
            after = max(self._after(place.id, now, limit_seconds), id_at(joined))
            if place.holds_messages and place.newest > after:
                gaps.append((place.id, after))
        return gaps

    def noted(self) -> dict[str, Any]:
        """As it goes to disk: of a chat that is owed something, only up to there."""
        return {"alive": self.alive, "chats": self._newest | self._owed, "direct": sorted(self._direct)}

    def _after(self, chat: str, now: float, limit_seconds: float) -> int:
        if chat in self._owed:
            return self._owed[chat]
        heard = self._before.get(chat, id_at(self._before_alive - _MARGIN_SECONDS))
        return max(heard, id_at(now - limit_seconds))
