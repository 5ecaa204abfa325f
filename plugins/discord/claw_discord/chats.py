"""Known channels and threads: names, types and parents, collected from gateway dispatches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# https://discord.com/developers/docs/resources/channel#channel-object-channel-types
DIRECT, ANNOUNCEMENTS, FORUM, MEDIA = 1, 5, 15, 16
TEXT_KINDS = frozenset({0, 2, ANNOUNCEMENTS, 13})
THREAD_KINDS = frozenset({10, 11, 12})
_KNOWN_AT_MOST = 50_000


@dataclass(frozen=True, slots=True)
class DiscordChat:
    """A channel or a thread.

    :param kind: Discord's channel type number.
    :param parent: parent channel of a thread.
    :param newest: id of the last message when the guild was listed.
    """

    id: str
    kind: int = 0
    name: str = ""
    guild: str = ""
    guild_name: str = ""
    parent: str = ""
    newest: int = 0

    @property
    def is_thread(self) -> bool:
        """True for a thread."""
        return self.kind in THREAD_KINDS

    @property
    def holds_messages(self) -> bool:
        """True if users can write messages there."""
        return self.is_thread or self.kind in TEXT_KINDS


class DiscordChats:
    """All known channels and threads by id; ``learn`` must get every dispatch, in order."""

    def __init__(self) -> None:
        self._known: dict[str, DiscordChat] = {}
        self._guild_names: dict[str, str] = {}

    def get(self, id: str) -> DiscordChat | None:
        """Return a place, if known."""
        return self._known.get(id)

    def parent_of(self, id: str) -> DiscordChat | None:
        """Return the parent of a thread, if known."""
        place = self._known.get(id)
        return self._known.get(place.parent) if place else None

    def learn(self, event: str, data: Mapping[str, Any]) -> tuple[DiscordChat, ...]:
        """Update from one dispatch; return the places that a ``GUILD_CREATE`` lists."""
        if event == "GUILD_CREATE":
            self._guild_names[str(data.get("id"))] = str(data.get("name") or "")
            return self._keep(places_of(data))
        if event in ("CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE"):
            self.add(data)
        elif event == "THREAD_LIST_SYNC":
            for thread in data.get("threads") or ():
                self.add({**thread, "guild_id": data.get("guild_id")})
        elif event in ("CHANNEL_DELETE", "THREAD_DELETE"):
            self._known.pop(str(data.get("id")), None)
        return ()

    def add(self, data: Mapping[str, Any]) -> DiscordChat:
        """Store one channel object."""
        guild = str(data.get("guild_id") or "")
        place = _place(data, guild, self._guild_names.get(guild, ""))
        self._keep((place,))
        return place

    def _keep(self, places: Iterable[DiscordChat]) -> tuple[DiscordChat, ...]:
        kept = tuple(places)
        for place in kept:
            if len(self._known) < _KNOWN_AT_MOST or place.id in self._known:
                self._known[place.id] = place
        return kept


def places_of(guild: Mapping[str, Any]) -> tuple[DiscordChat, ...]:
    """Return the channels and active threads of a ``GUILD_CREATE``."""
    listed = [*(guild.get("channels") or ()), *(guild.get("threads") or ())]
    return tuple(_place(data, str(guild.get("id") or ""), str(guild.get("name") or "")) for data in listed)


def _place(data: Mapping[str, Any], guild: str, guild_name: str) -> DiscordChat:
    newest = str(data.get("last_message_id") or "")
    return DiscordChat(
        str(data.get("id") or ""),
        int(data.get("type") or 0),
        str(data.get("name") or ""),
        guild,
        guild_name,
        str(data.get("parent_id") or ""),
        int(newest) if newest.isdigit() else 0,
    )
