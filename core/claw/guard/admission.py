"""Admission: people are known by the stable id of their channel, never by a name they chose. Pure."""

from collections.abc import Iterable

from claw.message import Sender


def is_listed(channel: str, sender: Sender, people: Iterable[str]) -> bool:
    """Whether ``sender`` stands in a channel's own list: by id, ``channel:id`` or phone number. A star is nobody."""
    names = _names(channel, sender) | {sender.id.strip()}
    return any(person.strip() in names for person in people if person.strip() not in ("", "*"))


def is_owner(channel: str, sender: Sender, owners: Iterable[str]) -> bool:
    """Whether ``sender`` is one of ``owners``: ``channel:id``, or a phone number. A bare id is no owner: ids of two
    channels may be equal.
    """
    names = _names(channel, sender)
    return any(owner.strip() in names for owner in owners if owner.strip() not in ("", "*"))


def _names(channel: str, sender: Sender) -> set[str]:
    """Ids keep their case: they are the channel's own."""
    return {
        sender.e164.strip(),
        f"{channel.strip().lower()}:{sender.id.strip()}" if sender.id.strip() else "",
    }
