"""The keys of an agent: its own ``auth-profiles.json`` (0600), the keyring, and the order in which keys are tried.

The file has priority over the shared keys of the config file and the environment. An entry holds the secret, or names
the variable or keyring that does. A secret is never printed.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib import import_module
from math import inf
from pathlib import Path
from typing import Any

from claw import ClawError, Credential
from claw.runtime import SYSTEM_CLOCK, BusyError, cannot_write, make_folder, replace_file, utc_time
from claw_config_sdk import Lock

from claw_models.cooldown import KeyState

KINDS = ("oauth", "token", "api_key")
"""The kinds of keys, in the order in which they are tried."""
FILE = "auth-profiles.json"
_KEYRING = "claw"
_VERSION = 1
_LOCK_TRIES, _LOCK_PAUSE_SECONDS = 200, 0.05


def ordered_keys(
    keys: Sequence[Credential],
    order: Sequence[str] = (),
    *,
    uses: Mapping[str, KeyState] | None = None,
    now: float = 0.0,
    preferred: str = "",
    provider: str = "",
) -> tuple[Credential, ...]:
    """Return the keys to try: those of ``order`` alone if it names any; else the agent's own before shared ones, each by
    kind, the least recently used first.

    Keys that cool down come last, soonest first; ``preferred`` comes first even then. Keys of other providers, expired
    ones that cannot be renewed, and blank ones are left out; a service that needs no key has a single blank one.

    :param uses: name → state of the key.
    """
    known = uses or {}
    by_name: dict[str, Credential] = {}
    for key in keys:
        expired = key.kind == "token" and key.expires_at is not None and key.expires_at <= now
        if not expired and key.provider in ("", provider):
            by_name.setdefault(key.name, key)
    by_name = {name: key for name, key in by_name.items() if key.secret or key.refresh} or by_name
    if len(by_name) < 2:  # the usual case
        return tuple(by_name.values())
    named = [by_name[name] for name in dict.fromkeys(order) if name in by_name]
    chosen = named or sorted(by_name.values(), key=lambda key: _rank(key, known))
    chosen.sort(key=lambda key: known[key.name].cools_down_until(now) if key.name in known else 0.0)
    chosen.sort(key=lambda key: key.name != preferred)
    return tuple(chosen)


def _rank(key: Credential, uses: Mapping[str, KeyState]) -> tuple[bool, int, float]:
    kind = KINDS.index(key.kind) if key.kind in KINDS else len(KINDS)
    return not key.owner, kind, uses[key.name].last_used if key.name in uses else 0.0


@dataclass(frozen=True, slots=True)
class Profiles:
    """The content of an agent's own file.

    :param orders: provider → names, in the order to try them.
    :param errors: names whose secret could not be read, with the reason.
    """

    keys: tuple[Credential, ...] = ()
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    errors: Mapping[tuple[str, str], str] = field(default_factory=dict)


class ProfileFile:
    """An agent's ``auth-profiles.json``: read and replaced as a whole, by one writer at a time over all processes.

    Form: ``{"version": 1, "profiles": {PROVIDER: {NAME: ENTRY}}, "order": {PROVIDER: [NAME]}}``; an
    entry holds ``type``
    and one of ``secret``, ``env`` (a variable's name) or ``keyring: true``, and may hold ``expiresAt`` (seconds since
    1970), ``refresh`` and ``needsLogin``.

    :param folder: of the agent.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.path, self.agent, self._environ = folder / FILE, folder.name, environ

    @property
    def version(self) -> tuple[int, int, int] | None:
        """A value that changes whenever the file does; None when there is no file."""
        try:
            seen = self.path.stat()
        except FileNotFoundError:
            return None
        return seen.st_ino, seen.st_mtime_ns, seen.st_size

    def tree(self) -> dict[str, Any]:
        """Return the parsed file; empty when there is none.

        :raises ClawError: it cannot be read.
        """
        try:
            tree = json.loads(self.path.read_bytes())
            if not isinstance(tree, dict) or not isinstance(tree.get("profiles", {}), dict):
                raise ValueError("it is no map of profiles")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as why:
            fix = "Correct the file, or move it elsewhere and add the keys again: claw auth add"
            raise ClawError(
                "the keys cannot be read: {why}",
                where=str(self.path),
                fix=fix,
                why=getattr(why, "strerror", None) or why,
            ) from None
        return tree

    def read(self) -> Profiles:
        """Return its keys, with their secrets."""
        tree = self.tree()
        keys, faults = [], {}
        for provider, entries in tree.get("profiles", {}).items():
            for name, entry in entries.items():
                try:
                    keys.append(self._key(provider, name, entry))
                except ClawError as why:
                    faults[provider, name] = str(why)
        orders = {provider: tuple(names) for provider, names in tree.get("order", {}).items()}
        return Profiles(tuple(keys), orders, faults)

    def expired(self, provider: str) -> Mapping[str, ClawError]:
        """Return the reasons of the keys of a provider that have expired, by name. No secret is read."""
        entries = self.tree().get("profiles", {}).get(provider, {})
        found = {name: _expiry(provider, name, entry) for name, entry in entries.items()}
        return {name: why for name, why in found.items() if why}

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Change the file under the lock: ``edit`` changes its plain data."""
        lock = self.lock()
        for left in range(_LOCK_TRIES, -1, -1):
            try:
                lock.take()
                break
            except BusyError:
                if not left:
                    raise
                time.sleep(_LOCK_PAUSE_SECONDS)
        try:
            self.write(edit)
        finally:
            lock.close()

    def lock(self) -> Lock:
        """Return the write lock. The kernel frees it when its process dies."""
        make_folder(self.path.parent)
        problem, fix = "process {pid} is changing these keys", "Try again in a moment"
        return Lock(self.path.with_name(f".{FILE}.lock"), problem, fix, str(self.path))

    def write(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Do the work of :meth:`change` for a caller that holds the lock."""
        tree = {"version": _VERSION, "profiles": {}, **self.tree()}
        edit(tree)
        try:
            replace_file(self.path, json.dumps(tree, ensure_ascii=False, indent=2).encode() + b"\n")
        except OSError as refused:
            raise cannot_write(self.path, refused) from refused

    def add(self, key: Credential, *, env: str = "", in_keyring: bool = False) -> tuple[str, ...]:
        """Add a key, or replace the one of its name; it goes to the end of an existing order of its provider.

        :param env: the variable that holds the secret, instead of the file.
        :returns: that order if the key was added to it; else nothing.
        """

        def edit(tree: dict[str, Any]) -> None:
            tree["profiles"].setdefault(key.provider, {})[key.name] = entry
            order = tree.get("order", {}).get(key.provider)
            if order and key.name not in order:
                order.append(key.name)
                longer.extend(order)

        longer: list[str] = []
        if in_keyring:
            keyring().set_password(_KEYRING, f"{self.agent}/{key.provider}/{key.name}", key.secret)
        entry: dict[str, Any] = (
            {"env": env} if env else {"keyring": True} if in_keyring else {"secret": key.secret}
        )
        more = {"expiresAt": key.expires_at, "refresh": key.refresh}
        entry = {"type": key.kind, **entry, **{name: value for name, value in more.items() if value}}
        self.change(edit)
        return tuple(longer)

    def remove(self, provider: str, name: str) -> bool:
        """Remove a key; return true if there was one."""
        removed: list[Any] = []

        def edit(tree: dict[str, Any]) -> None:
            removed.append(tree["profiles"].get(provider, {}).pop(name, None))
            order = tree.get("order", {})
            order[provider] = [one for one in order.get(provider, []) if one != name]
            for place in (tree["profiles"], order):
                if not place.get(provider):
                    place.pop(provider, None)

        self.change(edit)
        if removed[0] and removed[0].get("keyring"):
            keyring().delete_password(_KEYRING, f"{self.agent}/{provider}/{name}")
        return removed[0] is not None

    def _key(self, provider: str, name: str, entry: Mapping[str, Any]) -> Credential:
        secret = str(entry.get("secret", ""))
        if expired := _expiry(provider, name, entry):
            raise expired
        if variable := entry.get("env"):
            secret = self._environ.get(variable, "").strip()
            if not secret:
                raise ClawError("the environment variable {name} is not set", name=variable)
        elif entry.get("keyring"):
            secret = keyring().get_password(_KEYRING, f"{self.agent}/{provider}/{name}") or ""
            if not secret:
                raise ClawError("the keyring of this machine has no such key")
        return Credential(
            name=name,
            secret=secret,
            kind=str(entry.get("type", "api_key")),
            provider=provider,
            expires_at=entry.get("expiresAt"),
            refresh=str(entry.get("refresh", "")),
            owner=self.agent,
        )


def _expiry(provider: str, name: str, entry: Mapping[str, Any]) -> ClawError | None:
    """Return the reason why an entry is of no use any more: a token has expired, or a login cannot be renewed."""
    if entry.get("needsLogin"):
        problem, fix = (
            "it has expired and could not be renewed",
            "Log in again: claw auth add {provider} --name {name}",
        )
        return ClawError(problem, fix=fix, provider=provider, name=name)
    if entry.get("type") == "token" and (entry.get("expiresAt") or inf) <= SYSTEM_CLOCK.now():
        problem, fix = (
            "it expired on {day}",
            "Add a new one: claw auth add {provider} --name {name} --type token",
        )
        return ClawError(
            problem, fix=fix, provider=provider, name=name, day=utc_time(entry["expiresAt"])[:10]
        )
    return None


def merged_keys(
    own: Sequence[Credential], common: Sequence[Credential], provider: str
) -> tuple[Credential, ...]:
    """Return the keys of a provider: the agent's own, and the shared ones whose name it does not use."""
    of_agent = [key for key in own if key.provider == provider]
    names = {key.name for key in of_agent}
    return (*of_agent, *(key for key in common if key.name not in names and (key.secret or not of_agent)))


def changed_secrets(agents: Path, versions: dict[Path, Any]) -> Iterator[str]:
    """Yield the secrets in the files of all agents that are new or have changed; what cannot be read is left out.

    A tool of one agent can print the file of another one, so the secrets of all are masked. Keyrings are not read.

    :param agents: the folder that contains the folder of each agent.
    :param versions: file → its version when it was read last; updated here.
    """
    for path in agents.glob(f"*/{FILE}"):
        file = ProfileFile(path.parent)
        try:
            if (seen := file.version) == versions.get(path):
                continue
            versions[path], tree = seen, file.tree()
            entries = [entry for named in tree.get("profiles", {}).values() for entry in named.values()]
            yield from (
                str(entry[name]) for entry in entries for name in ("secret", "refresh") if name in entry
            )
        except (ClawError, OSError, AttributeError, TypeError):
            continue


def keyring() -> Any:
    """Return the library for this machine's keyring; it is no dependency of claw.

    :raises ClawError: it is not installed.
    """
    try:
        return import_module("keyring")
    except ImportError:
        fix = "pip install keyring, or keep the key in a file: claw auth add without --keyring"
        raise ClawError("the package keyring is not installed", fix=fix) from None


def is_database(path: Path) -> bool:
    """Return true if ``state.db`` is there and can be read; unlike its first use, this repairs nothing."""
    import sqlite3  # only the checks of doctor need it here

    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as database:
            return bool(database.execute("SELECT count(*) FROM sqlite_master").fetchall())
    except sqlite3.DatabaseError:
        return False
