"""The key pool: the keys of all providers, their cooldowns, and which one is tried next.

The state is in memory, and read from ``state.db`` again when another process wrote there. A failure is
written at once, the time of last use when claw stops. ``state.db`` holds counters only, and a hash by which
another secret of the same name is recognised.
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

from claw import ConfigError, Credential, Provider, ProviderError
from claw.runtime import Clock, Database

from claw_models.cooldown import (
    MODEL_REASONS,
    NEUTRAL_REASONS,
    TEMPORARY_REASONS,
    CooldownRules,
    KeyState,
    after_failure,
    cooldown_error,
    half_open,
)
from claw_models.credentials import ProfileFile, Profiles, changed_secrets, merged_keys, ordered_keys
from claw_models.oauth import OAuthRefresher

_TABLE = """CREATE TABLE IF NOT EXISTS keys
(provider TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, model TEXT NOT NULL, mark TEXT NOT NULL,
 body TEXT NOT NULL, PRIMARY KEY (provider, owner, name, model)) WITHOUT ROWID"""
_UPSERT = "INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?)"
_VERSION = "PRAGMA data_version"  # moves when another connection wrote: https://www.sqlite.org/pragma.html
_FIELDS = frozenset(field.name for field in fields(KeyState))
_MAX_PINS = 4096
_CHECK_SECONDS = 2.0  # between two checks of the files of the agents
_MIN_WAIT_SECONDS = 0.05
_JITTER_SECONDS = 1.0
_CLEAN = KeyState()


@dataclass(frozen=True, slots=True)
class KeyId:
    """A key, and the model that its counters are for; no model = all models."""

    provider: str
    owner: str
    name: str
    model: str = ""


@dataclass
class _Breaker:
    """The circuit breaker of a provider whose keys failed.

    :param trying: failed keys that have a running request. ``probing``: the one of them that is in
        cooldown.
    """

    trying: set[tuple[str, str, str]]
    probing: tuple[str, str, str] | None = None
    probed_at: float = -inf


class KeyPool:
    """The state of all keys in this process.

    :param database: None = nothing is kept.
    :param orders: provider → names in the order to try, from the config file.
    :param learn: receives the secrets that were read, so that they are redacted.
    """

    def __init__(
        self,
        database: Database | None = None,
        clock: Clock = Clock(),  # noqa: B008 - frozen
        rules: CooldownRules | None = None,
        orders: Mapping[str, Sequence[str]] | None = None,
        environ: Mapping[str, str] | None = None,
        learn: Callable[[Iterable[str]], None] = lambda secrets: None,
    ) -> None:
        self.clock, self.rules, self._learn = clock, rules or CooldownRules(), learn
        self._database, self._orders, self._environ = database, orders or {}, environ or {}
        self._uses: dict[KeyId, KeyState] = {}
        self._hashes: dict[KeyId, str] = {}
        self._read_version: Any = None
        self._newly_used: set[KeyId] = set()
        self._unwritten: set[KeyId] = set()
        self._breakers: dict[str, _Breaker] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._queues: dict[tuple[str, ...], deque[asyncio.Event]] = {}
        self._files: dict[Path, tuple[float, Any, Profiles]] = {}
        self._secret_versions: dict[Path, Any] = {}
        self._pins: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._announced: OrderedDict[tuple[str, str], set[str]] = OrderedDict()
        self.logins = OAuthRefresher(self._environ, clock, learn)
        if database:
            database.tables("keys", _TABLE)

    def isolated_copy(self) -> "KeyPool":
        """Return the same keys for work beside a conversation: a failure there changes nothing here."""
        keys = KeyPool(None, self.clock, self.rules, self._orders, self._environ)
        keys._pins = self._pins  # the conversation's key, and with it the service's cache
        return keys

    # --- the keys

    def keys_for(
        self, provider: Provider, folder: Path | None, session: str = "", model: str = "", chosen: str = ""
    ) -> tuple[Credential, ...]:
        """Return the keys of a provider in the order to try them.

        :param folder: of the agent that asks.
        :param session: the conversation; it stays with the key that it has, as long as that one works.
        :param chosen: the key that a person wants used first, in cooldown or not.
        :raises ClawError: the keys of this provider, or the agent's file, cannot be read.
        """
        name, profiles = provider.name, self.profiles(folder)
        common: tuple[Credential, ...] = ()
        try:
            common = tuple(provider.credentials())
        except ConfigError:
            if not any(key.provider == name for key in profiles.keys):
                raise
        keys = merged_keys(profiles.keys, common, name)
        faults = [why for (of, _), why in profiles.errors.items() if of == name]
        if faults and not keys:
            raise ProviderError("its key cannot be used: {why}", reason="auth", where=name, why=faults[0])
        if len(keys) < 2:
            return keys
        now = self.clock.now()
        uses = {key.name: self._use(name, key, model) for key in keys}
        pinned = self._pins.get((session, name), "") if session else ""
        if pinned and (pinned not in uses or uses[pinned].cools_down_until(now)):
            pinned = ""
        order = profiles.orders.get(name) or self._orders.get(name, ())
        return ordered_keys(keys, order, uses=uses, now=now, preferred=chosen or pinned, provider=name)

    def profiles(self, folder: Path | None) -> Profiles:
        """Return an agent's own keys; its file is checked every few seconds, and read when it has changed."""
        if folder is None:
            return Profiles()
        now = self.clock.monotonic()
        looked_at, version, profiles = self._files.get(folder, (-inf, None, Profiles()))
        if now - looked_at >= _CHECK_SECONDS:
            file = ProfileFile(folder, self._environ)
            if (seen := file.version) != version:
                version, profiles = seen, file.read()
                self._learn(secret for key in profiles.keys for secret in (key.secret, key.refresh))
            self._files[folder] = now, version, profiles
            self.learn_secrets(folder.parent)
        return profiles

    def learn_secrets(self, agents: Path) -> None:
        """Have the stored keys of all agents redacted, not only those of agents that have spoken."""
        if secrets := [*changed_secrets(agents, self._secret_versions)]:
            self._learn(secrets)

    # --- attempts

    def try_acquire(self, provider: str, keys: Sequence[Credential], key: Credential, model: str) -> bool:
        """Return true if a request may use this key now; call ``release`` after the request. A key that failed
        serves one request at a time, and one in cooldown serves none while another key of the provider is
        available."""
        use = self._use(provider, key, model)
        if not use.failures:
            return True
        now, breaker, who = self.clock.now(), self._breaker(provider), _identity(provider, key)
        rests = use.cools_down_until(now) > 0
        if (
            who in breaker.trying
            or use.disabled_until > now
            or (rests and not self.all_cooling_down(provider, keys, model))
        ):
            return False
        if rests or not self._any_healthy(provider, keys, model):
            probe_at = breaker.probed_at + self.rules.probe_seconds
            opens_at, whose = self._next_probe(provider, keys, model) if rests else (probe_at, key)
            if breaker.probing or opens_at > now or whose is not key:
                return False
            breaker.probing, breaker.probed_at = who, now
        breaker.trying.add(who)
        return True

    def _next_probe(
        self, provider: str, keys: Sequence[Credential], model: str
    ) -> tuple[float, Credential | None]:
        """Return when a key may be tried though all are in cooldown, and which one; they take turns."""
        now, after = self.clock.now(), self._breaker(provider).probed_at + self.rules.probe_seconds
        uses = [(key, self._use(provider, key, model)) for key in keys]
        awake = [
            (max(after, use.not_before), use.failed_at, key) for key, use in uses if use.disabled_until <= now
        ]
        if not awake:
            return inf, None
        at, _, key = min(awake, key=lambda one: (max(one[0], now), one[1]))
        return at, key

    def _any_healthy(self, provider: str, keys: Sequence[Credential], model: str) -> bool:
        return any(not self._use(provider, key, model).failures for key in keys)

    def is_healthy(self, provider: str, key: Credential, model: str) -> bool:
        """Return true if nothing failed with this key since its last answer."""
        return not self._use(provider, key, model).failures

    def all_cooling_down(self, provider: str, keys: Sequence[Credential], model: str) -> bool:
        """Return true if all of these keys are in cooldown."""
        now = self.clock.now()
        return all(self._use(provider, key, model).cools_down_until(now) for key in keys)

    def cooldown_error(self, provider: str, key: Credential, model: str) -> ProviderError:
        """Return the error that explains why this key is not used now."""
        return cooldown_error(self._use(provider, key, model), self.clock.now(), key.name, provider, model)

    def available_in(self, provider: str, keys: Sequence[Credential], model: str) -> float:
        """Return the seconds until a failed key may be tried; ``inf`` when waiting is no help."""
        now, breaker = self.clock.now(), self._breaker(provider)
        passing = [
            (key, use)
            for key in keys
            if (use := self._use(provider, key, model)).failures
            and use.disabled_until <= now
            and use.reason in TEMPORARY_REASONS
        ]
        if not passing:
            return inf
        later = now + self.rules.probe_seconds  # or when a request is answered
        if breaker.probing:
            return self.rules.probe_seconds
        at = min(
            later if _identity(provider, key) in breaker.trying else use.cools_down_until(now) or now
            for key, use in passing
        )
        if self.all_cooling_down(provider, keys, model):
            at = min(at, self._next_probe(provider, keys, model)[0])
        elif not self._any_healthy(provider, keys, model):
            at = max(at, breaker.probed_at + self.rules.probe_seconds)
        return max(at - now, _MIN_WAIT_SECONDS)

    def release(self, provider: str, key: Credential) -> None:
        """End a request with this key, whatever its outcome."""
        if breaker := self._breakers.get(provider):
            breaker.trying.discard(_identity(provider, key))
            if breaker.probing == _identity(provider, key):
                breaker.probing = None

    def record_success(
        self, provider: str, key: Credential, model: str, session: str = "", alone: bool = True
    ) -> None:
        """Record a whole answer with this key: it works; if it was the one to try, the others are half open.

        :param alone: it is the only key of its provider, so that the time of its last use decides nothing.
        """
        use = self._use(provider, key, model)
        if not alone:
            id = _id(provider, key)
            self._known[id] = replace(self._known.get(id, _CLEAN), last_used=self.clock.now())
            self._newly_used.add(id)
            if session:
                self._pin(session, provider, key.name)
        if not use.failures:
            return
        breaker = self._breaker(provider)
        healthy = replace(_CLEAN, last_used=self.clock.now())
        changed = {id: healthy for id in (_id(provider, key), _id(provider, key, model)) if id in self._known}
        if breaker.probing == _identity(provider, key):
            changed |= {
                id: half_open(use)
                for id, use in self._known.items()
                if id.provider == provider and id not in changed
            }
        self.release(provider, key)
        self._save(changed)
        if provider in self._changed:
            self._changed.pop(provider).set()

    def is_new_switch(self, session: str, usual: str, now: str) -> bool:
        """Return true if a conversation must be notified that ``now`` answers in place of its ``usual``
        model: once, until that one answers again."""
        if now == usual:
            return False
        announced = self._announced.setdefault((session, usual), set())
        is_new = now not in announced
        announced.add(now)
        if len(self._announced) > _MAX_PINS:
            self._announced.popitem(last=False)
        return is_new

    def reset_switches(self, session: str, model: str) -> None:
        """Record that a model has given a whole answer: the next switch away from it is announced again."""
        self._announced.pop((session, model), None)

    def record_failure(self, provider: str, key: Credential, model: str, error: ProviderError) -> None:
        """Record a failed request with this key."""
        if error.reason in NEUTRAL_REASONS:
            return
        id = _id(provider, key, model if error.reason in MODEL_REASONS else "")
        use = after_failure(
            self._known.get(id, _CLEAN), error.reason, self.clock.now(), self.rules, error.retry_after_seconds
        )
        self._hashes[id] = _hash_of(key)
        self._save({id: use})

    async def wait_available(
        self, providers: Sequence[str], opens_in: Callable[[], float], most_seconds: float
    ) -> None:
        """Wait until one of these providers answers, or this caller may try. The caller that has waited
        longest tries, the others go on waiting. All callers that an answer releases resume at slightly
        different times.

        :param opens_in: returns the seconds until a key may be tried.
        """
        queue = self._queues.setdefault(tuple(providers), deque())
        events = [self._changed.setdefault(name, asyncio.Event()) for name in providers]
        until, at_head = self.clock.monotonic() + most_seconds, asyncio.Event()
        queue.append(at_head)
        listening = [asyncio.ensure_future(event.wait()) for event in (*events, at_head)]
        try:
            while queue[0] is not at_head and not any(wait.done() for wait in listening[:-1]):
                left = until - self.clock.monotonic()
                done, _ = await asyncio.wait(listening, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    return
            if queue[0] is at_head and not any(wait.done() for wait in listening[:-1]):
                seconds = min(opens_in(), until - self.clock.monotonic())
                if seconds > 0:
                    await asyncio.wait(listening[:-1], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in listening:
                wait.cancel()
            queue.remove(at_head)
            if queue:
                queue[0].set()
        if any(event.is_set() for event in events):
            await asyncio.sleep(random.uniform(0, _JITTER_SECONDS))

    # --- the state

    def state_of(self, provider: str, key: Credential) -> dict[str, KeyState]:
        """Return the state of a key: model → its use; the empty model means all models."""
        self._use(provider, key, "")
        return {
            id.model: use for id, use in self._known.items() if replace(id, model="") == _id(provider, key)
        }

    def forget(self, provider: str, owner: str, name: str) -> None:
        """Delete the state of a name whose key was replaced or removed."""
        gone = [id for id in self._known if (id.provider, id.owner, id.name) == (provider, owner, name)]
        for id in gone:
            del self._known[id]
        if self._database:
            where = "provider = ? AND owner = ? AND name = ?"
            self._database.write(f"DELETE FROM keys WHERE {where}", provider, owner, name)

    def close(self) -> None:
        """Write the times of last use."""
        known = self._known if self._newly_used else {}
        self._save({id: known[id] for id in self._newly_used if id in known})
        self._newly_used.clear()

    @property
    def _known(self) -> dict[KeyId, KeyState]:
        if self._database and (version := self._database.read(_VERSION)) != self._read_version:
            self._read_version = version
            self._uses = self._read(self._database)
        return self._uses

    def _read(self, database: Database) -> dict[KeyId, KeyState]:
        """Return the state of all processes, with what only this one knows: times of last use, and what
        could not be written."""
        old, found = self._uses, dict[KeyId, KeyState]()
        marks = {id: mark for id, mark in self._hashes.items() if id in self._unwritten}
        for *parts, mark, body in database.read("SELECT * FROM keys"):
            id = KeyId(*parts)
            values = {name: value for name, value in json.loads(body).items() if name in _FIELDS}
            found[id] = KeyState(**values)
            marks.setdefault(id, mark)
        for id in self._newly_used & old.keys():
            found[id] = replace(found.get(id, _CLEAN), last_used=old[id].last_used)
        self._hashes = marks
        return found | {id: old[id] for id in self._unwritten & old.keys()}

    def _use(self, provider: str, key: Credential, model: str) -> KeyState:
        """Return the state that keeps this key from this model longest."""
        known = self._known
        if not known:
            return _CLEAN
        whole, part = known.get(_id(provider, key), _CLEAN), known.get(_id(provider, key, model), _CLEAN)
        if (whole.failures or part.failures) and self._was_replaced(provider, key, model):
            return _CLEAN
        if not part.failures:
            return whole
        now = self.clock.now()
        worse = max((whole, part), key=lambda use: (use.cools_down_until(now), use.failures))
        return replace(worse, last_used=whole.last_used)

    def _was_replaced(self, provider: str, key: Credential, model: str) -> bool:
        """Return true if the secret under this name is not the one that failed; its state is deleted then."""
        marks = (self._hashes.get(_id(provider, key)), self._hashes.get(_id(provider, key, model)))
        if all(mark in (None, "", _hash_of(key)) for mark in marks):
            return False
        self.forget(provider, key.owner, key.name)
        return True

    def _save(self, changed: Mapping[KeyId, KeyState]) -> None:
        self._uses.update(changed)
        if self._database and changed:
            self._unwritten.update(changed)
            rows = (
                (*astuple(id), self._hashes.get(id, ""), json.dumps(asdict(use)))
                for id, use in changed.items()
            )
            self._database.write_all(*((_UPSERT, row) for row in rows))
            self._unwritten.difference_update(changed)

    def _pin(self, session: str, provider: str, name: str) -> None:
        self._pins[session, provider] = name
        self._pins.move_to_end((session, provider))
        if len(self._pins) > _MAX_PINS:
            self._pins.popitem(last=False)

    def _breaker(self, provider: str) -> _Breaker:
        return self._breakers.setdefault(provider, _Breaker(set()))


def _identity(provider: str, key: Credential) -> tuple[str, str, str]:
    return provider, key.owner, key.name


def _id(provider: str, key: Credential, model: str = "") -> KeyId:
    return KeyId(provider, key.owner, key.name, model)


@lru_cache(maxsize=64)
def _hash_of(key: Credential) -> str:
    """Return eight hex digits: enough to see that a key was replaced, far too few to find it."""
    return "" if key.kind == "oauth" else hashlib.sha256(f"{key.name}:{key.secret}".encode()).hexdigest()[:8]
