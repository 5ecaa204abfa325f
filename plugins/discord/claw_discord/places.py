"""What is known of channels and threads: names, kinds and parents, drawn from the gateway's dispatches."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# https://discord.com/developers/docs/resources/channel#channel-object-channel-types
DIRECT, ANNOUNCEMENTS, FORUM, MEDIA = 1, 5, 15, 16
TEXT_KINDS = frozenset({0, 2, ANNOUNCEMENTS, 13})
THREAD_KINDS = frozenset({10, 11, 12})
_KNOWN_AT_MOST = 50_000


@dataclass(frozen=True, slots=True)
class Place:
    """A channel or a thread.

    :param kind: Discord's number for what it is.
    :param parent: of a thread, the channel that it hangs on.
    :param newest: id of the last message, as the service said it when we came.
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
        """Whether it is a thread."""
        return self.kind in THREAD_KINDS

    @property
    def holds_messages(self) -> bool:
        """Whether people can write there."""
        return self.is_thread or self.kind in TEXT_KINDS


class Places:
    """All of them, by id; ``learn`` is told every dispatch, in order."""

    def __init__(self) -> None:
        self._known: dict[str, Place] = {}
        self._guild_names: dict[str, str] = {}

    def get(self, id: str) -> Place | None:
        """A place, when the service told of it."""
        return self._known.get(id)

    def parent_of(self, id: str) -> Place | None:
        """What a thread hangs on, when that is known."""
        place = self._known.get(id)
        return self._known.get(place.parent) if place else None

    def learn(self, event: str, data: Mapping[str, Any]) -> tuple[Place, ...]:
        """Take in one dispatch; the places that a ``GUILD_CREATE`` lists come back."""
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

    def add(self, data: Mapping[str, Any]) -> Place:
        """Take in one channel object."""
        guild = str(data.get("guild_id") or "")
        place = _place(data, guild, self._guild_names.get(guild, ""))
        self._keep((place,))
        return place

    def _keep(self, places: Iterable[Place]) -> tuple[Place, ...]:
        kept = tuple(places)
        for place in kept:
            if len(self._known) < _KNOWN_AT_MOST or place.id in self._known:
                self._known[place.id] = place
        return kept


def places_of(guild: Mapping[str, Any]) -> tuple[Place, ...]:
    """The channels and open threads of a ``GUILD_CREATE``."""
    listed = [*(guild.get("channels") or ()), *(guild.get("threads") or ())]
    return tuple(_place(data, str(guild.get("id") or ""), str(guild.get("name") or "")) for data in listed)


def _place(data: Mapping[str, Any], guild: str, guild_name: str) -> Place:
    newest = str(data.get("last_message_id") or "")
    return Place(
        str(data.get("id") or ""),
        int(data.get("type") or 0),
        str(data.get("name") or ""),
        guild,
        guild_name,
        str(data.get("parent_id") or ""),
        int(newest) if newest.isdigit() else 0,
    )
