"""What is known of a server between starts: what it offers, and what of it the operator accepted.

Configuring a server accepts what it offers when it is first reached. From then on a tool whose description or
parameters changed, and one that is new, is withheld until it is accepted: text of a server is text that a model obeys.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from claw import make_folder, replace_file

KINDS = ("tool", "resources", "prompts")


@dataclass(frozen=True)
class Offer:
    """Something a server offers to a model.

    :param kind: tool; ``resources`` and ``prompts`` stand for all of a server's, of which each is asked for by name.
    :param effects: what the server says of a repeated call: none, idempotent or once.
    """

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    kind: str = "tool"
    effects: str = "once"

    @property
    def seal(self) -> str:
        """A digest of all that a model reads of it."""
        return _digest([self.kind, self.name, self.description, self.parameters, self.effects])


@dataclass(frozen=True)
class Record:
    """One server as it was last met.

    :param identity: digest of the program or address it stands for.
    :param accepted: name → seal of what the operator accepted.
    :param why: why it could not be reached the last time; empty when it could.
    :param failures: how often in a row it could not, without anybody asking for it.
    :param tried_at: when that was, in seconds since 1970.
    """

    identity: str
    offers: tuple[Offer, ...] = ()
    accepted: Mapping[str, str] = field(default_factory=dict)
    known: bool = False
    why: str = ""
    failures: int = 0
    tried_at: float = 0.0

    @property
    def standing(self) -> tuple[Offer, ...]:
        """What a model may be offered."""
        return tuple(offer for offer in self.offers if self.accepted.get(offer.name) == offer.seal)

    @property
    def withheld(self) -> tuple[tuple[Offer, str], ...]:
        """What waits for the operator, each with ``new`` or ``changed``."""
        return tuple(
            (offer, "changed" if offer.name in self.accepted else "new")
            for offer in self.offers
            if self.accepted.get(offer.name) != offer.seal
        )


def identity_of(words: Iterable[Any]) -> str:
    """The digest of a server's program or address."""
    return _digest(list(words))


def met(before: Record, offers: Iterable[Offer]) -> Record:
    """The server was reached and offers this. The first time, all of it is accepted."""
    now = tuple(offers)
    accepted = before.accepted if before.known else {offer.name: offer.seal for offer in now}
    return Record(before.identity, now, accepted, known=True)


def missed(before: Record, why: str, at: float) -> Record:
    """The server could not be reached; what was known of it stays."""
    return replace(before, why=why, failures=before.failures + 1, tried_at=at)


def accepted(before: Record, names: Collection[str] = ()) -> Record:
    """The operator accepts what the server offers now.

    :param names: only these; empty = all of it.
    """
    fresh = {offer.name: offer.seal for offer in before.offers if not names or offer.name in names}
    gone = before.accepted.keys() - {offer.name for offer in before.offers}
    kept = {name: seal for name, seal in before.accepted.items() if names or name not in gone}
    return replace(before, accepted=kept | fresh)


def pause_seconds(failures: int, longest: float) -> float:
    """How long to leave a server alone after it failed so often: 1, 2, 4 … seconds."""
    return min(longest, 2.0 ** min(failures - 1, 30)) if failures else 0.0


class Records:
    """The records of all servers, a file each, in the plugin's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str, identity: str) -> Record:
        """The record of that server; an empty one when it was never met, or its file cannot be read."""
        try:
            tree = json.loads(self._path(name).read_text(encoding="utf-8"))
            if tree["identity"] != identity:  # another program under the old name: nothing was accepted of it
                return Record(identity)
            offers = tuple(Offer(**offer) for offer in tree.pop("offers"))
            return Record(**tree, offers=offers)
        except (OSError, ValueError, KeyError, TypeError):
            return Record(identity)

    def write(self, name: str, record: Record) -> None:
        """Keep it, in place of what was kept before."""
        make_folder(self.folder)
        replace_file(self._path(name), json.dumps(asdict(record), ensure_ascii=False).encode())

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()
