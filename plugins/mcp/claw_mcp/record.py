"""The record of a server between starts: its offers, and which of them the operator accepted.

Configuring a server accepts its offers when it is first reached. From then on a tool whose description or
parameters changed, and a new one, is withheld until it is accepted: a model follows the text of a server.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from claw import ClawError
from claw.runtime import make_folder, replace_file

KINDS = ("tool", "resources", "prompts")


@dataclass(frozen=True)
class Offer:
    """A tool, or a group of resources or prompts, that a server offers to a model.

    :param kind: tool; ``resources`` and ``prompts`` stand for all of a server's, each of which is requested
        by name.
    :param effects: the server's statement on a repeated call: none, idempotent or once.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    kind: str = "tool"
    effects: str = "once"

    @property
    def digest(self) -> str:
        """A digest of all that a model reads of it."""
        return _digest([self.kind, self.name, self.description, self.parameters, self.effects])


@dataclass(frozen=True)
class ServerRecord:
    """One server as it was last reached.

    :param identity: digest of its program or address.
    :param accepted: name → digest of the accepted offer.
    :param why: why it could not be reached the last time; empty when it could.
    :param failures: number of consecutive automatic attempts that failed.
    :param tried_at: time of the last attempt, in seconds since 1970.
    :param needs_login: it could not be reached because a person has to log in.
    """

    identity: str
    offers: tuple[Offer, ...] = ()
    accepted: Mapping[str, str] = field(default_factory=dict)
    known: bool = False
    why: str = ""
    failures: int = 0
    tried_at: float = 0.0
    needs_login: bool = False

    @property
    def visible(self) -> tuple[Offer, ...]:
        """The offers that a model may see."""
        return tuple(offer for offer in self.offers if self.accepted.get(offer.name) == offer.digest)

    @property
    def withheld(self) -> tuple[tuple[Offer, str], ...]:
        """The offers that wait for the operator, each with ``new`` or ``changed``."""
        return tuple(
            (offer, "changed" if offer.name in self.accepted else "new")
            for offer in self.offers
            if self.accepted.get(offer.name) != offer.digest
        )


def identity_of(words: Iterable[Any]) -> str:
    """Return the digest of a server's program or address."""
    return _digest(list(words))


def with_offers(before: ServerRecord, offers: Iterable[Offer]) -> ServerRecord:
    """Record the offers of a reached server. The first time, all of them are accepted."""
    now = tuple(offers)
    accepted = before.accepted if before.known else {offer.name: offer.digest for offer in now}
    return ServerRecord(before.identity, now, accepted, known=True)


def with_failure(before: ServerRecord, why: ClawError, at: float) -> ServerRecord:
    """Record a failed attempt; keep what was known."""
    login = bool(getattr(why, "needs_login", False))
    return replace(before, why=why.problem, failures=before.failures + 1, tried_at=at, needs_login=login)


def accepted(before: ServerRecord, names: Collection[str] = ()) -> ServerRecord:
    """Record that the operator accepts the server's present offers.

    :param names: only these; empty = all of them.
    """
    fresh = {offer.name: offer.digest for offer in before.offers if not names or offer.name in names}
    gone = before.accepted.keys() - {offer.name for offer in before.offers}
    kept = {name: digest for name, digest in before.accepted.items() if names or name not in gone}
    return replace(before, accepted=kept | fresh)


def pause_seconds(failures: int, longest: float) -> float:
    """Return the pause after this number of failures: 1, 2, 4 … seconds."""
    return min(longest, 2.0 ** min(failures - 1, 30)) if failures else 0.0


class ServerRecords:
    """The records of all servers, a file each, in the plugin's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str, identity: str) -> ServerRecord:
        """Read the record of a server; an empty one when it was never reached, or its file is unreadable."""
        try:
            tree = json.loads(self._path(name).read_text(encoding="utf-8"))
            # another program under the old name: none of its tools is accepted
            if tree["identity"] != identity:
                return ServerRecord(identity)
            offers = tuple(Offer(**offer) for offer in tree.pop("offers"))
            return ServerRecord(**tree, offers=offers)
        except (OSError, ValueError, KeyError, TypeError):
            return ServerRecord(identity)

    def write(self, name: str, record: ServerRecord) -> None:
        """Write a record, replacing the old one."""
        make_folder(self.folder)
        tree = asdict(record)
        if not record.needs_login:  # which an older claw does not know
            del tree["needs_login"]
        replace_file(self._path(name), json.dumps(tree, ensure_ascii=False).encode())

    def remove(self, name: str) -> None:
        """Forget a server."""
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()
