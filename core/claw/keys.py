"""The keys of all providers while they are used: which one is next, which one rests, and who may try one that failed.

Kept in memory, and read from ``state.db`` again when another process wrote there; what fails is written at once, who was
used last when the house stops.
``state.db`` holds counters only, and a mark by which another secret of the same name is told apart.
"""

import asyncio
import hashlib
import json
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any

from claw.auth import Credential, ProfileFile, Profiles, in_order, merged
from claw.clock import SYSTEM, Clock
from claw.cooldown import BLAMELESS, OF_THE_MODEL, PASSING, Rules, Use, after_failure, half_open, resting
from claw.errors import ConfigError, ProviderError
from claw.logins import Logins
from claw.provider import Provider
from claw.store import Database

_TABLE = """CREATE TABLE IF NOT EXISTS keys
(provider TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, model TEXT NOT NULL, mark TEXT NOT NULL,
 body TEXT NOT NULL, PRIMARY KEY (provider, owner, name, model)) WITHOUT ROWID"""
_PUT = "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?)"
_VERSION = "PRAGMA data_version"  # moves when another connection wrote: https://www.sqlite.org/pragma.html
_FIELDS = frozenset(field.name for field in fields(Use))
_KEPT_PINS = 4096
_LOOK_SECONDS = 2.0  # between two looks at the files of the agents
_LEAST_SECONDS = 0.05
_APART_SECONDS = 1.0
_WELL = Use()


@dataclass(frozen=True, slots=True)
class Id:
    """Which key, and of which model the counters are; no model = of all."""

    provider: str
    owner: str
    name: str
    model: str = ""


@dataclass
class _Door:
    """A provider whose keys failed.

    :param trying: keys that are being tried, of those that failed. ``probing``: that one of them rests.
    """

    trying: set[tuple[str, str, str]]
    probing: tuple[str, str, str] | None = None
    probed_at: float = -inf


class Keys:
    """The state of all keys in this process.

    :param database: None = nothing is kept.
    :param orders: provider → names in the order to try, as the file says.
    :param learn: told the secrets that were read, so that nobody prints them.
    :param variables: provider → the environment variables of which one may hold its key.
    """

    def __init__(
        self,
        database: Database | None = None,
        clock: Clock = SYSTEM,
        rules: Rules | None = None,
        orders: Mapping[str, Sequence[str]] | None = None,
        environ: Mapping[str, str] | None = None,
        learn: Callable[[Iterable[str]], None] = lambda secrets: None,
        variables: Callable[[str], Sequence[str] | None] = lambda provider: None,
    ) -> None:
        self.variables = variables
        self.clock, self.rules, self._learn = clock, rules or Rules(), learn
        self._database, self._orders, self._environ = database, orders or {}, environ or {}
        self._uses: dict[Id, Use] = {}
        self._marks: dict[Id, str] = {}
        self._read_at: Any = None
        self._stamped: set[Id] = set()
        self._unwritten: set[Id] = set()
        self._doors: dict[str, _Door] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._lines: dict[tuple[str, ...], deque[asyncio.Event]] = {}
        self._files: dict[Path, tuple[float, Any, Profiles]] = {}
        self._pins: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._switches: OrderedDict[tuple[str, str], set[str]] = OrderedDict()
        self.logins = Logins(self._environ, clock, learn)
        if database:
            database.tables("keys", _TABLE)

    def apart(self) -> "Keys":
        """The same keys for work beside a conversation: what fails there closes no door here."""
        keys = Keys(None, self.clock, self.rules, self._orders, self._environ)
        keys._pins = self._pins  # the conversation's key, and with it the service's cache
        return keys

    # --- which keys there are

    def of(
        self, provider: Provider, folder: Path | None, session: str = "", model: str = "", chosen: str = ""
    ) -> tuple[Credential, ...]:
        """The keys of a provider in the order to try them.

        :param folder: of the agent that asks.
        :param session: whose conversation: it stays with the key that it has, as long as that one is well.
        :param chosen: the key that a person wants used first, well or not.
        :raises ClawError: the keys of this provider, or the agent's file, cannot be read.
        """
        name, profiles = provider.name, self.profiles(folder)
        common: tuple[Credential, ...] = ()
        try:
            common = tuple(provider.credentials())
        except ConfigError:
            if not any(key.provider == name for key in profiles.keys):
                raise
        keys = merged(profiles.keys, common, name)
        faults = [why for (of, _), why in profiles.faults.items() if of == name]
        if faults and not keys:
            raise ProviderError("its key cannot be used: {why}", reason="auth", where=name, why=faults[0])
        if len(keys) < 2:
            return keys
        now = self.clock.now()
        uses = {key.name: self._use(name, key, model) for key in keys}
        pinned = self._pins.get((session, name), "") if session else ""
        if pinned and (pinned not in uses or uses[pinned].rests_until(now)):
            pinned = ""
        order = profiles.orders.get(name) or self._orders.get(name, ())
        return in_order(keys, order, uses=uses, now=now, preferred=chosen or pinned, provider=name)

    def profiles(self, folder: Path | None) -> Profiles:
        """An agent's own keys; its file is looked at now and then, and read when it has changed."""
        if folder is None:
            return Profiles()
        now = self.clock.monotonic()
        looked_at, version, profiles = self._files.get(folder, (-inf, None, Profiles()))
        if now - looked_at >= _LOOK_SECONDS:
            file = ProfileFile(folder, self._environ)
            if (seen := file.version) != version:
                version, profiles = seen, file.read()
                self._learn(secret for key in profiles.keys for secret in (key.secret, key.refresh))
            self._files[folder] = now, version, profiles
        return profiles

    # --- who may ask

    def admit(self, provider: str, keys: Sequence[Credential], key: Credential, model: str) -> bool:
        """Whether this key may be used for a request now; then ``left`` must follow. Of those that failed one at a time,
        and not at all while another key of the provider is there."""
        use = self._use(provider, key, model)
        if not use.failures:
            return True
        now, door, who = self.clock.now(), self._door(provider), _who(provider, key)
        rests = use.rests_until(now) > 0
        if (
            who in door.trying
            or use.disabled_until > now
            or (rests and not self.rests(provider, keys, model))
        ):
            return False
        if rests or not self._any_well(provider, keys, model):
            probe_at = door.probed_at + self.rules.probe_seconds
            opens_at, whose = self._next_probe(provider, keys, model) if rests else (probe_at, key)
            if door.probing or opens_at > now or whose is not key:
                return False
            door.probing, door.probed_at = who, now
        door.trying.add(who)
        return True

    def _next_probe(
        self, provider: str, keys: Sequence[Credential], model: str
    ) -> tuple[float, Credential | None]:
        """When a key may be tried though all rest, and which: they take turns."""
        now, after = self.clock.now(), self._door(provider).probed_at + self.rules.probe_seconds
        uses = [(key, self._use(provider, key, model)) for key in keys]
        awake = [
            (max(after, use.not_before), use.failed_at, key) for key, use in uses if use.disabled_until <= now
        ]
        if not awake:
            return inf, None
        at, _, key = min(awake, key=lambda one: (max(one[0], now), one[1]))
        return at, key

    def _any_well(self, provider: str, keys: Sequence[Credential], model: str) -> bool:
        return any(not self._use(provider, key, model).failures for key in keys)

    def is_well(self, provider: str, key: Credential, model: str) -> bool:
        """Whether nothing failed with this key since it last answered."""
        return not self._use(provider, key, model).failures

    def rests(self, provider: str, keys: Sequence[Credential], model: str) -> bool:
        """Whether all of these keys rest."""
        now = self.clock.now()
        return all(self._use(provider, key, model).rests_until(now) for key in keys)

    def why(self, provider: str, key: Credential, model: str) -> ProviderError:
        """Why this key is not used now."""
        return resting(self._use(provider, key, model), self.clock.now(), key.name, provider, model)

    def opens_in(self, provider: str, keys: Sequence[Credential], model: str) -> float:
        """Seconds until a key of this provider, all of which failed, may be tried; ``inf`` when waiting is no help."""
        now, door = self.clock.now(), self._door(provider)
        passing = [
            (key, use)
            for key in keys
            if (use := self._use(provider, key, model)).failures
            and use.disabled_until <= now
            and use.reason in PASSING
        ]
        if not passing:
            return inf
        later = now + self.rules.probe_seconds  # or when somebody has an answer
        if door.probing:
            return self.rules.probe_seconds
        at = min(
            later if _who(provider, key) in door.trying else use.rests_until(now) or now
            for key, use in passing
        )
        if self.rests(provider, keys, model):
            at = min(at, self._next_probe(provider, keys, model)[0])
        elif not self._any_well(provider, keys, model):
            at = max(at, door.probed_at + self.rules.probe_seconds)
        return max(at - now, _LEAST_SECONDS)

    def left(self, provider: str, key: Credential) -> None:
        """A request with this key is over, however it went."""
        if door := self._doors.get(provider):
            door.trying.discard(_who(provider, key))
            if door.probing == _who(provider, key):
                door.probing = None

    def answered(
        self, provider: str, key: Credential, model: str, session: str = "", alone: bool = True
    ) -> None:
        """A service gave a whole answer with this key: it is well; if it was the one to try, the others are half open.

        :param alone: whether it is the only key: then nobody asks who was used last.
        """
        use = self._use(provider, key, model)
        if not alone:
            id = _id(provider, key)
            self._known[id] = replace(self._known.get(id, _WELL), last_used=self.clock.now())
            self._stamped.add(id)
            if session:
                self._pin(session, provider, key.name)
        if not use.failures:
            return
        door = self._door(provider)
        well = replace(_WELL, last_used=self.clock.now())
        changed = {id: well for id in (_id(provider, key), _id(provider, key, model)) if id in self._known}
        if door.probing == _who(provider, key):
            changed |= {
                id: half_open(use)
                for id, use in self._known.items()
                if id.provider == provider and id not in changed
            }
        self.left(provider, key)
        self._put(changed)
        if provider in self._changed:
            self._changed.pop(provider).set()

    def is_news(self, session: str, usual: str, now: str) -> bool:
        """Whether a conversation is to be told that ``now`` answers in the place of its ``usual`` model: once, until that
        one is back."""
        if now == usual:
            return False
        told = self._switches.setdefault((session, usual), set())
        news = now not in told
        told.add(now)
        if len(self._switches) > _KEPT_PINS:
            self._switches.popitem(last=False)
        return news

    def is_back(self, session: str, model: str) -> None:
        """A model has given a whole answer: when it stops being the one that answers, that is news again."""
        self._switches.pop((session, model), None)

    def failed(self, provider: str, key: Credential, model: str, error: ProviderError) -> None:
        """A request with this key failed."""
        if error.reason in BLAMELESS:
            return
        id = _id(provider, key, model if error.reason in OF_THE_MODEL else "")
        use = after_failure(
            self._known.get(id, _WELL), error.reason, self.clock.now(), self.rules, error.retry_after_seconds
        )
        self._marks[id] = _mark(key)
        self._put({id: use})

    async def reopened(
        self, providers: Sequence[str], opens_in: Callable[[], float], most_seconds: float
    ) -> None:
        """Wait until one of these providers answers, or it is on us to try: who listening longest does, the others go on
        waiting. All that are let go by an answer come a little apart.

        :param opens_in: seconds until a key may be tried.
        """
        line = self._lines.setdefault(tuple(providers), deque())
        events = [self._changed.setdefault(name, asyncio.Event()) for name in providers]
        until, moved = self.clock.monotonic() + most_seconds, asyncio.Event()
        line.append(moved)
        listening = [asyncio.ensure_future(event.wait()) for event in (*events, moved)]
        try:
            while line[0] is not moved and not any(wait.done() for wait in listening[:-1]):
                left = until - self.clock.monotonic()
                done, _ = await asyncio.wait(listening, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    return
            if line[0] is moved and not any(wait.done() for wait in listening[:-1]):
                seconds = min(opens_in(), until - self.clock.monotonic())
                if seconds > 0:
                    await asyncio.wait(listening[:-1], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in listening:
                wait.cancel()
            line.remove(moved)
            if line:
                line[0].set()
        if any(event.is_set() for event in events):
            await asyncio.sleep(random.uniform(0, _APART_SECONDS))

    # --- what is known

    def of_key(self, provider: str, key: Credential) -> dict[str, Use]:
        """What is known of a key: model → its use; the empty one is of all models."""
        self._use(provider, key, "")
        return {
            id.model: use for id, use in self._known.items() if replace(id, model="") == _id(provider, key)
        }

    def forget(self, provider: str, owner: str, name: str) -> None:
        """Another key stands under this name, or none."""
        gone = [id for id in self._known if (id.provider, id.owner, id.name) == (provider, owner, name)]
        for id in gone:
            del self._known[id]
        if self._database:
            where = "provider = ? AND owner = ? AND name = ?"
            self._database.write(f"DELETE FROM keys WHERE {where}", provider, owner, name)

    def close(self) -> None:
        """Write down who was used last."""
        known = self._known if self._stamped else {}
        self._put({id: known[id] for id in self._stamped if id in known})
        self._stamped.clear()

    @property
    def _known(self) -> dict[Id, Use]:
        if self._database and (version := self._database.read_lately(_VERSION)) != self._read_at:
            self._read_at = version
            self._uses = self._read(self._database)
        return self._uses

    def _read(self, database: Database) -> dict[Id, Use]:
        """What all processes know, and what only this one does: who was used last, and what could not be written."""
        old, found = self._uses, dict[Id, Use]()
        marks = {id: mark for id, mark in self._marks.items() if id in self._unwritten}
        for *parts, mark, body in database.read("SELECT * FROM keys"):
            id = Id(*parts)
            told = {name: value for name, value in json.loads(body).items() if name in _FIELDS}
            found[id] = Use(**told)
            marks.setdefault(id, mark)
        for id in self._stamped & old.keys():
            found[id] = replace(found.get(id, _WELL), last_used=old[id].last_used)
        self._marks = marks
        return found | {id: old[id] for id in self._unwritten & old.keys()}

    def _use(self, provider: str, key: Credential, model: str) -> Use:
        """What keeps this key from this model longest."""
        known = self._known
        if not known:
            return _WELL
        whole, part = known.get(_id(provider, key), _WELL), known.get(_id(provider, key, model), _WELL)
        if (whole.failures or part.failures) and self._is_another(provider, key, model):
            return _WELL
        if not part.failures:
            return whole
        now = self.clock.now()
        worse = max((whole, part), key=lambda use: (use.rests_until(now), use.failures))
        return replace(worse, last_used=whole.last_used)

    def _is_another(self, provider: str, key: Credential, model: str) -> bool:
        """Whether the secret under this name is not the one that failed."""
        marks = (self._marks.get(_id(provider, key)), self._marks.get(_id(provider, key, model)))
        if all(mark in (None, "", _mark(key)) for mark in marks):
            return False
        self.forget(provider, key.owner, key.name)
        return True

    def _put(self, changed: Mapping[Id, Use]) -> None:
        self._uses.update(changed)
        if self._database and changed:
            self._unwritten.update(changed)
            rows = (
                (*astuple(id), self._marks.get(id, ""), json.dumps(asdict(use)))
                for id, use in changed.items()
            )
            self._database.write_all(*((_PUT, row) for row in rows))
            self._unwritten.difference_update(changed)

    def _pin(self, session: str, provider: str, name: str) -> None:
        self._pins[session, provider] = name
        self._pins.move_to_end((session, provider))
        if len(self._pins) > _KEPT_PINS:
            self._pins.popitem(last=False)

    def _door(self, provider: str) -> _Door:
        return self._doors.setdefault(provider, _Door(set()))


def _who(provider: str, key: Credential) -> tuple[str, str, str]:
    return provider, key.owner, key.name


def _id(provider: str, key: Credential, model: str = "") -> Id:
    return Id(provider, key.owner, key.name, model)


@lru_cache(maxsize=64)
def _mark(key: Credential) -> str:
    """Eight hex digits: enough to see that a key was replaced, far too few to find it."""
    return "" if key.kind == "oauth" else hashlib.sha256(f"{key.name}:{key.secret}".encode()).hexdigest()[:8]
