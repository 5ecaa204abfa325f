"""Admission: people are known by the stable id of their channel, never by a name they chose. Pure."""

import hashlib
import hmac
from collections.abc import Iterable

from claw.message import Sender


def is_listed(channel: str, sender: Sender, people: Iterable[str]) -> bool:
    """Whether ``sender`` stands in a channel's own list: by id, ``channel:id`` or phone number. A star is nobody."""
    names = _names(channel, sender) | {sender.id.strip()}
    return any(_spelled(person) in names for person in people if person.strip() not in ("", "*"))


def is_owner(channel: str, sender: Sender, owners: Iterable[str]) -> bool:
    """Whether ``sender`` is one of ``owners``: ``channel:id``, or a phone number. A bare id is no owner: ids of two
    channels may be equal. An empty list, a blank entry and a star are nobody.
    """
    names = _names(channel, sender)
    return any(_spelled(owner) in names for owner in owners if owner.strip() not in ("", "*"))


def owner_hash(owner_id: str, secret: str = "") -> str:
    """The name by which a prompt knows an owner: 12 hex digits that do not tell the id.

    :param secret: keys the digest (HMAC-SHA-256) so that nobody can try ids; blank = plain SHA-256.
    """
    key, text = secret.strip().encode(), owner_id.encode("utf-8", "surrogatepass")
    digest = hmac.new(key, text, hashlib.sha256) if key else hashlib.sha256(text)
    return digest.hexdigest()[:12]


def _names(channel: str, sender: Sender) -> set[str]:
    """What a list may call this person. Ids keep their case: they are the channel's own."""
    names = {_number(sender.e164), _spelled(f"{channel}:{sender.id}") if sender.id.strip() else ""}
    return names - {""}


def _spelled(person: str) -> str:
    """``channel:id`` with the channel in lower case, or the digits of a phone number, else the entry itself."""
    channel, colon, identity = person.strip().partition(":")
    if colon:
        return f"{channel.strip().lower()}:{identity.strip()}"
    return _number(person) or person.strip()


def _number(text: str) -> str:
    """A phone number in one spelling, ``+`` and digits; empty when ``text`` is none. A bare ``42`` is an id."""
    digits = text.strip().translate(_BETWEEN_DIGITS)
    return digits if digits[:1] == "+" and digits[1:].isascii() and digits[1:].isdigit() else ""


_BETWEEN_DIGITS = str.maketrans("", "", " -().\u00a0")
