"""Admission of senders. People are identified by the stable id of their channel, never by a name they chose.

Each list grants one thing only: ``allowFrom`` and pairing grant direct chats, ``groups`` and ``groupAllowFrom`` grant
groups, ``owners`` grants ownership. A list that is missing, empty or unknown grants nothing.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from claw.config.paths import camel_case, format_key, id_of, value_at
from claw.contracts.messages import Address, Inbound, Sender
from claw.i18n import t
from claw.storage.database import Database

if TYPE_CHECKING:
    from claw.config.loader import Config
    from claw.config.models import Settings

TERMINAL = "terminal"

_DIRECT, _GROUPS = ("direct", "dm"), ("group", "channel")


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission decision about one message.

    :param kind: admitted; unknown sender (a direct chat with a sender who may get a pairing code); unaddressed (a message
        in an admitted group that does not address the agent: it is kept as group history); refused (dropped).
    :param why: reason for people, in the language in use.
    :param key: the dotted key that decided, as it is written in the file; empty when no key did.
    :param owner: the sender is an owner; set for every kind.
    """

    kind: Literal["admitted", "unknown sender", "unaddressed", "refused"]
    why: str
    key: str = ""
    owner: bool = False


def decide_admission(inbound: Inbound, config: "Config", paired: Container[str] = ()) -> Admission:
    """Decide if a message is admitted, with the reason and the key that decided.

    :param paired: ids of the people who were paired on this account of this channel.
    """
    place, sender = inbound.address.channel.strip().lower(), inbound.sender
    if place == TERMINAL:
        return Admission("admitted", t("the user at the terminal is always allowed"), "", True)
    owner_key = None if config.example_unless_id(place, sender.id) else _owner_key(place, sender, config)
    rules = AccountRules.of(config, place, inbound.address.account.strip())
    verdict = _refused_early(inbound, rules) or (
        _direct(inbound, rules, owner_key, paired)
        if inbound.chat_type in _DIRECT
        else _group(inbound, rules, owner_key)
    )
    return replace(verdict, owner=owner_key is not None)


def configured_owners(settings: "Settings") -> tuple[str, ...]:
    """Return all owners that the config names."""
    return (*settings.owners, *settings.agents.defaults.identity.owner_numbers)


def is_owner(channel: str, sender: Sender, owners: Iterable[str]) -> bool:
    """Return true if ``sender`` is one of ``owners``, each written as ``channel:id`` or a phone number. A bare id never
    matches, as ids of two channels may be equal. An empty list, a blank entry and a star match no one.
    """
    return _index_of(channel, sender, owners) is not None


def account_setting(address: Address, config: "Config", name: str) -> Any:
    """Return the value of one key (``queue``, ``streaming`` …) for the account of an address: the account's own, else
    the channel's. None when the config has no section for the channel.
    """
    rules = AccountRules.of(config, address.channel.strip().lower(), address.account.strip())
    return None if rules.channel is None else rules.get(name)


def group_settings(inbound: Inbound, config: "Config") -> Any:
    """Return the ``GroupSettings`` of a message's group, or of all other groups (``*``); None when there are none."""
    groups = account_setting(inbound.address, config, "groups") or {}
    return groups.get(inbound.address.chat, groups.get("*"))


def history_limit(inbound: Inbound, config: "Config") -> int | None:
    """Return how many turns of history a request may include, 0 = all: in a direct chat the limit of the person, else
    the channel's. None when neither is set; then the agent's own limit applies.
    """
    people = account_setting(inbound.address, config, "dms") if inbound.chat_type in _DIRECT else None
    person = (people or {}).get(inbound.sender.id)
    limit: int | None = person.history_limit if person else None
    return account_setting(inbound.address, config, "history_limit") if limit is None else limit


@dataclass(frozen=True, slots=True)
class AccountRules:
    """The settings of one account, whose own keys override the channel's, with the place of each key in the file."""

    config: "Config"
    path: tuple[str, ...]
    channel: Any
    account: Any
    known: bool

    @classmethod
    def of(cls, config: "Config", place: str, account: str) -> "AccountRules":
        channel = config.settings.channels.get(place)
        accounts = channel.accounts if channel else {}
        path = ("channels", place)
        if account in accounts:
            return cls(config, path, channel, (account, accounts[account]), True)
        return cls(config, path, channel, None, account in ("", "default"))

    @property
    def channels(self) -> Container[str]:
        """The names of all channels that the file or a plugin has."""
        return {*self.config.settings.channels, *self.config.declared_channels}

    def get(self, name: str) -> Any:
        return getattr(self.account[1] if self._overrides(name) else self.channel, name)

    def key(self, name: str, *more: str | int) -> str:
        """Return the dotted key as written in the file."""
        return format_key(self.place(name, *more))

    def place(self, name: str, *more: str | int) -> tuple[str | int, ...]:
        """Return the path of a key as written in the file; a group in a list is named by its index."""
        head = (*self.path, "accounts", self.account[0]) if self._overrides(name) else self.path
        path = (*head, camel_case(name))
        groups = value_at(self.config.layout.tree, path) if name == "groups" else None
        ids = [*map(id_of, groups)] if isinstance(groups, list) else []
        steps = (ids.index(str(more[0])), *more[1:]) if more and more[0] in ids else more
        return self.config.layout.as_written((*path, *steps))

    def written(self, path: tuple[str | int, ...]) -> str:
        return format_key(self.config.layout.as_written(path))

    def _overrides(self, name: str) -> bool:
        return self.account is not None and name in self.account[1].model_fields_set


def _refused_early(inbound: Inbound, rules: AccountRules) -> Admission | None:
    """Return the refusal of a message that no list can admit; None when the lists decide."""
    if not _valid_id(inbound.sender):
        return Admission("refused", t("the sender has no id"))
    if like := rules.config.example_unless_id(rules.path[-1], inbound.sender.id):
        why = t("{id} is a name, not an id: an id here looks like {like}", id=inbound.sender.id, like=like)
        return Admission("refused", why)
    if inbound.chat_type not in (*_DIRECT, *_GROUPS):
        return Admission("refused", t("{kind} is not a known chat type", kind=inbound.chat_type))
    if rules.channel is None:
        why = t("the config has no section for this channel")
        return Admission("refused", why, rules.written(rules.path))
    if not rules.known:
        why = t("the config has no account {account} here", account=inbound.address.account)
        return Admission("refused", why, rules.written((*rules.path, "accounts")))
    if not rules.channel.enabled:
        return Admission("refused", t("it is switched off"), rules.written((*rules.path, "enabled")))
    if not rules.get("enabled"):
        return Admission("refused", t("it is switched off"), rules.key("enabled"))
    if inbound.sender.is_bot and not rules.get("allow_bots"):
        return Admission("refused", t("the sender is a bot"), rules.key("allow_bots"))
    return None


def _direct(
    inbound: Inbound, rules: AccountRules, owner_key: str | None, paired: Container[str]
) -> Admission:
    """Decide a direct chat: by policy, then owners, then the list, then, under the policy ``pairing``, paired people."""
    policy, people = rules.get("dm_policy"), rules.get("allow_from")
    if policy == "disabled":
        return Admission("refused", t("direct chats are switched off"), rules.key("dm_policy"))
    if owner_key is not None:
        return Admission("admitted", t("the sender is an owner"), owner_key)
    if policy == "open" and (star := _star_index(people)) is not None:
        return Admission("admitted", t("everyone may write here"), rules.key("allow_from", star))
    listed = _index_of(inbound.address.channel, inbound.sender, people, rules.channels)
    if listed is not None:
        return Admission("admitted", t("allowFrom lists the sender"), rules.key("allow_from", listed))
    if policy == "pairing" and inbound.sender.id in paired:
        return Admission("admitted", t("the sender was paired"), rules.key("dm_policy"))
    if policy != "pairing" or inbound.kind != "message" or inbound.sender.is_bot:
        return Admission("refused", t("allowFrom does not list the sender"), rules.key("allow_from"))
    why = t("the sender is unknown and may request pairing")
    return Admission("unknown sender", why, rules.key("dm_policy"))


def _group(inbound: Inbound, rules: AccountRules, owner_key: str | None) -> Admission:
    """Decide a group message: the group must be listed, the sender allowed in it, and the message addressed to us."""
    if rules.get("group_policy") == "disabled":
        return Admission("refused", t("groups are switched off"), rules.key("group_policy"))
    groups, chat = rules.get("groups"), inbound.address.chat
    name = chat if chat in groups else "*"
    group = groups.get(name)
    if group is None and rules.get("group_policy") != "open":
        return Admission("refused", t("the group is not listed"), rules.key("groups"))
    where = rules.key("group_policy") if group is None else rules.key("groups", name)
    if group is not None and not group.enabled:
        return Admission("refused", t("the group is switched off"), rules.key("groups", name, "enabled"))
    in_group = group is not None and group.allow_from is not None
    people = group.allow_from if in_group else rules.get("group_allow_from")
    if people is not None and owner_key is None:
        # Without a list of people, a listed group admits all its members. An empty list admits no one.
        at = _index_of(inbound.address.channel, inbound.sender, people, rules.channels)
        at = _star_index(people) if at is None else at
        listing = ("groups", name, "allowFrom") if in_group else ("group_allow_from",)
        where = rules.key(*listing, *(() if at is None else (at,)))
        if at is None:
            return Admission("refused", t("the group's allowFrom does not list the sender"), where)
    if (group is None or group.require_mention) and not (inbound.mentions_us or inbound.kind == "button"):
        key = where if group is None else rules.key("groups", name, "requireMention")
        return Admission("unaddressed", t("it is not addressed to the bot"), key)
    return Admission("admitted", t("the group and the sender are allowed"), where)


def _owner_key(place: str, sender: Sender, config: "Config") -> str | None:
    """Return the key that makes the sender an owner; None when they are not one."""
    settings = config.settings
    numbers = settings.agents.defaults.identity.owner_numbers
    for key, people in (("owners", settings.owners), ("agents.defaults.identity.ownerNumbers", numbers)):
        if (at := _index_of(place, sender, people)) is not None:
            path = key.split(".")
            return format_key(config.layout.as_written((*path, at)))
    return None


def _star_index(people: Sequence[str]) -> int | None:
    return next((at for at, person in enumerate(people) if person.strip() == "*"), None)


def _index_of(
    channel: str, sender: Sender, people: Iterable[str], others: Container[str] | None = None
) -> int | None:
    """Return the index of ``sender`` in a list; None when it is not there.

    :param others: the list may hold bare ids, except those that begin with the name of one of these channels.
    """
    for at, person in enumerate(people):
        if person.strip() not in ("", "*") and _matches(channel, sender, person.strip(), others):
            return at
    return None


def _matches(channel: str, sender: Sender, entry: str, others: Container[str] | None) -> bool:
    """Return true if an entry matches this person. The comparison of ids is case-sensitive, as channels define them."""
    bare = others is not None
    id, number = _valid_id(sender), _phone_number(entry)
    if number and number in (_phone_number(sender.e164), _phone_number(id) if bare else ""):
        return True
    head, colon, rest = entry.partition(":")
    place = head.strip().lower() if colon else ""
    if place == channel.strip().lower() or (others is not None and place in others):
        return bool(id) and place == channel.strip().lower() and rest.strip() == id
    return bool(id) and bare and entry == id


def _valid_id(sender: Sender) -> str:
    """Return the sender's id; empty when it is blank, padded, or a star, which identifies no one."""
    return "" if sender.id != sender.id.strip() or sender.id == "*" else sender.id


def _phone_number(text: str) -> str:
    """Normalise a phone number to ``+`` and digits; empty when ``text`` is not one. A bare ``42`` is an id."""
    digits = text.strip().translate(_BETWEEN_DIGITS)
    return digits if digits[:1] == "+" and digits[1:].isascii() and digits[1:].isdigit() else ""


_BETWEEN_DIGITS = str.maketrans("", "", " -().\u00a0")


PAIRED_PEOPLE = """CREATE TABLE IF NOT EXISTS pairing_people
    (channel TEXT NOT NULL, account TEXT NOT NULL, sender TEXT NOT NULL, name TEXT NOT NULL,
     since_ms INTEGER NOT NULL, PRIMARY KEY (channel, account, sender)) WITHOUT ROWID"""
"""The table of the people whom an owner admitted, beside those of the file."""


def paired_people(database: Database, channel: str, account: str = "default") -> frozenset[str]:
    """Return the ids of the people who are paired on one account."""
    rows = database.read(
        "SELECT sender FROM pairing_people WHERE channel = ? AND account = ?",
        *(channel.strip().lower(), account.strip()),
    )
    return frozenset(sender for (sender,) in rows)
