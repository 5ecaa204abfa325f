"""Admission: who may talk to us. People are known by the stable id of their channel, never by a name they chose. Pure.

Each list admits to one thing only: ``allowFrom`` and pairing to direct chats, ``groups`` and ``groupAllowFrom`` to
groups, ``owners`` to being an owner. What is missing, empty or unknown admits nobody.
"""

import hashlib
import hmac
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from claw.config.channels import like_an_id
from claw.config.layout import CHANNELS, camel
from claw.config.names import dotted, id_of, value_at
from claw.message import Address, Inbound, Sender
from claw.words import say

TERMINAL = "terminal"

_DIRECT, _GROUPS = ("direct", "dm"), ("group", "channel")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one message.

    :param kind: admitted; stranger (a direct chat with somebody who may be given a pairing code); unaddressed (an
        admitted group talks, but not to us: history); refused (as if it had never come).
    :param why: for people, in the language in use.
    :param key: the dotted key that decided, as it is written in the file; empty when no key did.
    :param owner: the sender is an owner; true or false whatever the kind.
    """

    kind: Literal["admitted", "stranger", "unaddressed", "refused"]
    why: str
    key: str = ""
    owner: bool = False


def admission(inbound: Inbound, config: Any, paired: Container[str] = ()) -> Verdict:
    """Decide whether one message is taken up, and say what decided.

    :param config: a ``claw.config.Config``.
    :param paired: ids of the people who were paired on this account of this channel.
    """
    place, sender = inbound.address.channel.strip().lower(), inbound.sender
    if place == TERMINAL:
        return Verdict("admitted", say("the person at the terminal may always talk"), "", True)
    ownership = None if like_an_id(place, sender.id) else _ownership(place, sender, config)
    rules = _Rules.of(config, place, inbound.address.account.strip())
    verdict = _stopped(inbound, rules)
    if verdict is None and inbound.chat_type in _DIRECT:
        verdict = _direct(inbound, rules, ownership, paired)
    elif verdict is None:
        verdict = _group(inbound, rules, ownership)
    return Verdict(verdict.kind, verdict.why, verdict.key, ownership is not None)


def owners_of(settings: Any) -> tuple[str, ...]:
    """Everybody the file calls an owner."""
    return (*settings.owners, *settings.agents.defaults.identity.owner_numbers)


def is_owner(channel: str, sender: Sender, owners: Iterable[str]) -> bool:
    """Whether ``sender`` is one of ``owners``: ``channel:id``, or a phone number. A bare id is no owner: ids of two
    channels may be equal. An empty list, a blank entry and a star are nobody.
    """
    return _which(channel, sender, owners, bare=False) is not None


def owner_hash(owner_id: str, secret: str = "") -> str:
    """The name by which a prompt knows an owner: 12 hex digits that do not tell the id.

    :param secret: keys the digest (HMAC-SHA-256) so that nobody can try ids; blank = plain SHA-256.
    """
    key, text = secret.strip().encode(), owner_id.encode("utf-8", "surrogatepass")
    digest = hmac.new(key, text, hashlib.sha256) if key else hashlib.sha256(text)
    return digest.hexdigest()[:12]


def rule(address: Address, config: Any, name: str) -> Any:
    """What the file says under one key (``queue``, ``streaming`` …) of the account of an address: the account's own
    word, else the channel's. None when it has no section for the channel.
    """
    rules = _Rules.of(config, address.channel.strip().lower(), address.account.strip())
    return None if rules.channel is None else rules.get(name)


def group_of(inbound: Inbound, config: Any) -> Any:
    """What the file says of the group of a message, or of all others (``*``): a ``GroupSettings``, or None."""
    groups = rule(inbound.address, config, "groups") or {}
    return groups.get(inbound.address.chat, groups.get("*"))


def history_limit(inbound: Inbound, config: Any) -> int | None:
    """How many turns of this conversation a request may show, 0 = all: what the file says of the person in a direct
    chat, else of the channel. None when it says nothing, and the agent's own limit holds.
    """
    people = rule(inbound.address, config, "dms") if inbound.chat_type in _DIRECT else None
    person = (people or {}).get(inbound.sender.id)
    limit: int | None = person.history_limit if person else None
    return rule(inbound.address, config, "history_limit") if limit is None else limit


@dataclass(frozen=True, slots=True)
class _Rules:
    """The rules of one account: its own keys in the place of the channel's, and where each of them stands."""

    config: Any
    path: tuple[str, ...]
    channel: Any
    account: Any
    known: bool

    @classmethod
    def of(cls, config: Any, place: str, account: str) -> "_Rules":
        channel = config.settings.channels.get(place)
        accounts = channel.accounts if channel else {}
        path = ("channels", place)
        if account in accounts:
            return cls(config, path, channel, (account, accounts[account]), True)
        return cls(config, path, channel, None, account in ("", "default"))

    def get(self, name: str) -> Any:
        return getattr(self.account[1] if self._own(name) else self.channel, name)

    def key(self, name: str, *more: str | int) -> str:
        head = (*self.path, "accounts", self.account[0]) if self._own(name) else self.path
        return self.written((*head, camel(name)), *more)

    def _own(self, name: str) -> bool:
        return self.account is not None and name in self.account[1].model_fields_set

    def written(self, path: tuple[str | int, ...], *more: str | int) -> str:
        """The key as the person wrote it; of a group in a list its index."""
        if path[-1] == "groups" and more:
            groups = value_at(self.config.layout.tree, path)
            ids = [*map(id_of, groups)] if isinstance(groups, list) else []
            if more[0] in ids:
                more = (ids.index(str(more[0])), *more[1:])
        return dotted(self.config.layout.as_written((*path, *more)))


def _stopped(inbound: Inbound, rules: _Rules) -> Verdict | None:
    """What stops a message before any list is asked."""
    if not _id(inbound.sender):
        return Verdict("refused", say("a sender without an id is nobody"))
    if like := like_an_id(rules.path[-1], inbound.sender.id):
        why = say(
            "{id} is a name, and nobody is known by one: an id here is such as {like}",
            id=inbound.sender.id,
            like=like,
        )
        return Verdict("refused", why)
    if inbound.chat_type not in (*_DIRECT, *_GROUPS):
        return Verdict("refused", say("a chat of the kind {kind} is not known", kind=inbound.chat_type))
    if rules.channel is None:
        why = say("the file has no section for this channel")
        return Verdict("refused", why, rules.written(rules.path))
    if not rules.known:
        why = say("the file names no account {account} here", account=inbound.address.account)
        return Verdict("refused", why, rules.written((*rules.path, "accounts")))
    if not rules.channel.enabled:
        return Verdict("refused", say("it is switched off"), rules.written((*rules.path, "enabled")))
    if not rules.get("enabled"):
        return Verdict("refused", say("it is switched off"), rules.key("enabled"))
    if inbound.sender.is_bot and not rules.get("allow_bots"):
        return Verdict("refused", say("the sender is a bot"), rules.key("allow_bots"))
    return None


def _direct(inbound: Inbound, rules: _Rules, ownership: str | None, paired: Container[str]) -> Verdict:
    """A direct chat: the policy, then owners, the list, and under the policy pairing the people who were paired."""
    policy, people = rules.get("dm_policy"), rules.get("allow_from")
    if policy == "disabled":
        return Verdict("refused", say("direct chats are switched off"), rules.key("dm_policy"))
    if ownership is not None:
        return Verdict("admitted", say("the sender is an owner"), ownership)
    if policy == "open" and (star := _star(people)) is not None:
        return Verdict("admitted", say("everybody may write here"), rules.key("allow_from", star))
    listed = _which(inbound.address.channel, inbound.sender, people, bare=True)
    if listed is not None:
        return Verdict("admitted", say("the list names the sender"), rules.key("allow_from", listed))
    if policy != "pairing":
        return Verdict("refused", say("the list does not name the sender"), rules.key("allow_from"))
    if inbound.sender.id in paired:
        return Verdict("admitted", say("the sender was paired"), rules.key("dm_policy"))
    if inbound.kind != "message" or inbound.sender.is_bot:
        return Verdict("refused", say("the list does not name the sender"), rules.key("allow_from"))
    return Verdict(
        "stranger", say("nobody knows the sender, who may ask to be paired"), rules.key("dm_policy")
    )


def _group(inbound: Inbound, rules: _Rules, ownership: str | None) -> Verdict:
    """A group: it must be listed, the sender among those who count there, and the message meant for us."""
    if rules.get("group_policy") == "disabled":
        return Verdict("refused", say("groups are switched off"), rules.key("group_policy"))
    groups, chat = rules.get("groups"), inbound.address.chat
    name = chat if chat in groups else "*"
    group = groups.get(name)
    if group is None and rules.get("group_policy") != "open":
        return Verdict("refused", say("the group is not listed"), rules.key("groups"))
    where = rules.key("group_policy") if group is None else rules.key("groups", name)
    if group is not None and not group.enabled:
        return Verdict("refused", say("the group is switched off"), rules.key("groups", name, "enabled"))
    in_group = group is not None and group.allow_from is not None
    people = group.allow_from if in_group else rules.get("group_allow_from")
    if people is not None and ownership is None:
        # No list: to list the group was to admit who is in it. An empty list admits nobody.
        at = _which(inbound.address.channel, inbound.sender, people, bare=True)
        at = _star(people) if at is None else at
        more = () if at is None else (at,)
        key = (
            rules.key("groups", name, "allowFrom", *more)
            if in_group
            else rules.key("group_allow_from", *more)
        )
        if at is None:
            return Verdict("refused", say("the list of the group does not name the sender"), key)
        where = key
    if (group is None or group.require_mention) and not (inbound.mentions_us or inbound.kind == "button"):
        key = where if group is None else rules.key("groups", name, "requireMention")
        return Verdict("unaddressed", say("it is not addressed to us"), key)
    return Verdict("admitted", say("the group and the sender may talk to us"), where)


def _ownership(place: str, sender: Sender, config: Any) -> str | None:
    """The key that makes the sender an owner; None when they are none."""
    settings = config.settings
    lists: tuple[tuple[tuple[str, ...], Sequence[str]], ...] = (
        (("owners",), settings.owners),
        (("agents", "defaults", "identity", "ownerNumbers"), settings.agents.defaults.identity.owner_numbers),
    )
    for path, people in lists:
        at = _which(place, sender, people, bare=False)
        if at is not None:
            return dotted(config.layout.as_written((*path, at)))
    return None


def _star(people: Sequence[str]) -> int | None:
    return next((at for at, person in enumerate(people) if person.strip() == "*"), None)


def _which(channel: str, sender: Sender, people: Iterable[str], *, bare: bool) -> int | None:
    """The place of ``sender`` in a list; None when it is not there."""
    for at, person in enumerate(people):
        if person.strip() not in ("", "*") and _is(channel, sender, person.strip(), bare):
            return at
    return None


def _is(channel: str, sender: Sender, entry: str, bare: bool) -> bool:
    """Whether an entry means this person. Ids keep their case: they are the channel's own."""
    id, number = _id(sender), _number(entry)
    if number and number in (_number(sender.e164), _number(id) if bare else ""):
        return True
    head, colon, rest = entry.partition(":")
    place = head.strip().lower() if colon else ""
    if place in CHANNELS or place == channel.strip().lower():
        return bool(id) and place == channel.strip().lower() and rest.strip() == id
    return bool(id) and bare and entry == id


def _id(sender: Sender) -> str:
    """The sender's id; empty when it is blank, padded, or a star: then the sender is nobody."""
    return "" if sender.id != sender.id.strip() or sender.id == "*" else sender.id


def _number(text: str) -> str:
    """A phone number in one spelling, ``+`` and digits; empty when ``text`` is none. A bare ``42`` is an id."""
    digits = text.strip().translate(_BETWEEN_DIGITS)
    return digits if digits[:1] == "+" and digits[1:].isascii() and digits[1:].isdigit() else ""


_BETWEEN_DIGITS = str.maketrans("", "", " -().\u00a0")
