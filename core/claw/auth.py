"""Named keys of a provider: where they are kept, and the order in which they are tried. A secret never prints.

They come from the file (``providers.NAME.authProfiles``, ``apiKey``), the environment, and the agent's own
``auth-profiles.json`` (0600), which wins: it holds the secret, or names the variable or the keyring that does.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw import store
from claw.cooldown import Use
from claw.errors import BusyError, ClawError, ConfigError, ProviderError, UsageError

if TYPE_CHECKING:
    from claw.config.settings import ProviderConfig

KINDS = ("oauth", "token", "api_key")
"""In the order in which they are tried."""
FILE = "auth-profiles.json"
_KEYRING = "claw"
_VERSION = 1
_LOCK_TRIES, _LOCK_PAUSE_SECONDS = 200, 0.05


@dataclass(frozen=True, slots=True)
class Credential:
    """A named key. Its ``repr`` never shows it.

    :param name: profile name, ``main``.
    :param secret: what goes on the wire; empty for a local service that needs none.
    :param kind: api_key, token (it expires) or oauth (it expires and can be made anew by the provider's ``refresh``).
    :param provider: empty = of whichever provider handed it out.
    :param expires_at: seconds since 1970; None = never, as far as known.
    :param refresh: what a new one is asked for with.
    :param owner: the agent in whose file it is; empty = everybody's.
    """

    name: str
    secret: str = field(repr=False)
    kind: str = "api_key"
    provider: str = ""
    expires_at: float | None = None
    refresh: str = field(default="", repr=False)
    owner: str = ""


def in_order(
    keys: Sequence[Credential],
    order: Sequence[str] = (),
    *,
    uses: Mapping[str, Use] | None = None,
    now: float = 0.0,
    preferred: str = "",
    provider: str = "",
) -> tuple[Credential, ...]:
    """The keys to try: those of ``order`` alone where it names any; else by kind, the one that rested longest first.

    Keys that cool down come last, soonest first; ``preferred`` comes first even then. Keys of others, expired ones that
    nobody can make anew, and blank ones are left out; a service that needs no key has a single blank one.

    :param uses: name → what is known of it.
    """
    known = uses or {}
    by_name: dict[str, Credential] = {}
    for key in keys:
        gone = key.kind == "token" and key.expires_at is not None and key.expires_at <= now
        if not gone and key.provider in ("", provider):
            by_name.setdefault(key.name, key)
    by_name = {name: key for name, key in by_name.items() if key.secret or key.refresh} or by_name
    if len(by_name) < 2:  # as mostly
        return tuple(by_name.values())
    named = [by_name[name] for name in dict.fromkeys(order) if name in by_name]
    chosen = named or sorted(by_name.values(), key=lambda key: _rank(key, known))
    chosen.sort(key=lambda key: known[key.name].rests_until(now) if key.name in known else 0.0)
    chosen.sort(key=lambda key: key.name != preferred)
    return tuple(chosen)


def _rank(key: Credential, uses: Mapping[str, Use]) -> tuple[int, float]:
    kind = KINDS.index(key.kind) if key.kind in KINDS else len(KINDS)
    return kind, uses[key.name].last_used if key.name in uses else 0.0


def configured_keys(
    section: "ProviderConfig",
    name: str,
    environ: Mapping[str, str],
    variables: Sequence[str],
    *,
    keyless: bool = False,
) -> tuple[Credential, ...]:
    """The keys of a provider: those its section names, those of ``authOrder`` first, else the environment's.

    :param name: of the provider, for errors.
    :param variables: environment variables that may hold a key; the first that is set counts.
    :param keyless: the service needs none: without any key, an empty one.
    :raises ConfigError: the section names keys and not one of them can be read.
    """
    written = [
        (profile.id, f"authProfiles[{i}]", profile.api_key, profile.type)
        for i, profile in enumerate(section.auth_profiles)
    ]
    written.append(("default", "apiKey", section.api_key, "api_key"))
    found: dict[str, Credential] = {}
    fault: ConfigError | None = None
    for profile, key, secret, kind in written:
        if secret is None or secret.empty:
            continue
        try:
            found.setdefault(profile, Credential(profile, secret.reveal().strip(), kind))
        except ConfigError as unread:
            fault = fault or unread.under(f"providers.{name}.{key}")
    if not found and fault:
        raise fault
    if found:
        first = [found.pop(id) for id in dict.fromkeys(section.auth_order) if id in found]
        return (*first, *found.values())
    held = next(
        (environ[variable].strip() for variable in variables if environ.get(variable, "").strip()), None
    )
    if held is not None:
        return (Credential("environment", held),)
    return (Credential("none", ""),) if keyless else ()


@dataclass(frozen=True, slots=True)
class Profiles:
    """What an agent's own file holds.

    :param orders: provider → names, in the order to try them.
    :param faults: names whose secret could not be read, and why.
    """

    keys: tuple[Credential, ...] = ()
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    faults: Mapping[tuple[str, str], str] = field(default_factory=dict)


class ProfileFile:
    """An agent's ``auth-profiles.json``: read whole, replaced whole, one writer at a time over all processes.

    Form: ``{"version": 1, "profiles": {PROVIDER: {NAME: ENTRY}}, "order": {PROVIDER: [NAME]}}``; an entry holds ``type``
    and one of ``secret``, ``env`` (a variable's name) or ``keyring: true``, and may hold ``expiresAt`` (seconds since
    1970), ``refresh`` and ``needsLogin``.

    :param folder: the agent's.
    """

    def __init__(self, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.path, self.agent, self._environ = folder / FILE, folder.name, environ

    @property
    def version(self) -> tuple[int, int, int] | None:
        """Changes whenever the file does; None when there is none."""
        try:
            seen = self.path.stat()
        except FileNotFoundError:
            return None
        return seen.st_ino, seen.st_mtime_ns, seen.st_size

    def tree(self) -> dict[str, Any]:
        """The file as it is; empty when there is none.

        :raises ClawError: it cannot be read.
        """
        try:
            tree = json.loads(self.path.read_bytes())
            if not isinstance(tree, dict) or not isinstance(tree.get("profiles", {}), dict):
                raise ValueError("it is no map of profiles")
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as why:
            fix = "Mend it, or move it away and add the keys again: claw auth add"
            raise ClawError(
                "the keys cannot be read: {why}", where=str(self.path), fix=fix, why=why
            ) from None
        return tree

    def read(self) -> Profiles:
        """The keys in it, with their secrets."""
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

    def change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Change the file: ``edit`` is given it as plain data, under the lock."""
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

    def lock(self) -> store.Lock:
        """Whoever holds it may write. The kernel frees it when its process dies."""
        store.make_folder(self.path.parent)
        problem, fix = "process {pid} changes these keys", "Try again in a moment"
        return store.Lock(self.path.with_name(f".{FILE}.lock"), problem, fix, str(self.path))

    def write(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """:meth:`change`, for whoever holds the lock."""
        tree = {"version": _VERSION, "profiles": {}, **self.tree()}
        edit(tree)
        try:
            store.replace(self.path, json.dumps(tree, ensure_ascii=False, indent=2).encode() + b"\n")
        except OSError as refused:
            raise store.cannot_write(self.path, refused) from refused

    def add(self, key: Credential, *, env: str = "", in_keyring: bool = False) -> tuple[str, ...]:
        """Keep a key, in the place of one of its name; it comes last in a standing order of its provider.

        :param env: the variable that holds the secret, instead of the file.
        :returns: that order when it became longer; else nothing.
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
        """Forget a key; whether there was one."""
        gone: list[Any] = []

        def edit(tree: dict[str, Any]) -> None:
            gone.append(tree["profiles"].get(provider, {}).pop(name, None))
            order = tree.get("order", {})
            order[provider] = [one for one in order.get(provider, []) if one != name]
            for place in (tree["profiles"], order):
                if not place.get(provider):
                    place.pop(provider, None)

        self.change(edit)
        if gone[0] and gone[0].get("keyring"):
            keyring().delete_password(_KEYRING, f"{self.agent}/{provider}/{name}")
        return gone[0] is not None

    def _key(self, provider: str, name: str, entry: Mapping[str, Any]) -> Credential:
        secret = str(entry.get("secret", ""))
        if entry.get("needsLogin"):
            fix = "Log in again: claw auth add {provider} --name {name}"
            raise ClawError(
                "it has run out and could not be made anew", fix=fix, provider=provider, name=name
            )
        if variable := entry.get("env"):
            secret = self._environ.get(variable, "").strip()
            if not secret:
                raise ClawError("the environment variable {name} is not set", name=variable)
        elif entry.get("keyring"):
            secret = keyring().get_password(_KEYRING, f"{self.agent}/{provider}/{name}") or ""
            if not secret:
                raise ClawError("the keyring of this machine has no such key")
        return Credential(
            name, secret, str(entry.get("type", "api_key")), provider, entry.get("expiresAt"),
            str(entry.get("refresh", "")), self.agent,
        )  # fmt: skip


def merged(own: Sequence[Credential], common: Sequence[Credential], provider: str) -> tuple[Credential, ...]:
    """The keys of a provider: the agent's own, and of everybody's those that it has none of that name for."""
    mine = [key for key in own if key.provider == provider]
    names = {key.name for key in mine}
    return (*mine, *(key for key in common if key.name not in names and (key.secret or not mine)))


def no_key(provider: str, variables: Sequence[str], where: str = "") -> ProviderError:
    """The error for a provider that has none.

    :param variables: of the environment, of which one may hold it.
    """
    fix = "claw auth add {provider} takes one; or set {variables}, or apiKey under providers.{provider}"
    plain = "claw auth add {provider} takes one; or set apiKey under providers.{provider}"
    return ProviderError(
        "{provider} has no key", reason="auth", where=where, fix=fix if variables else plain, provider=provider,
        variables=" / ".join(variables),
    )  # fmt: skip


def no_such_key(provider: str, name: str, names: Sequence[str]) -> UsageError:
    """The error for a key that somebody named and a provider does not have.

    :param names: of those that it has.
    """
    fix = "Its keys are: {names}" if names else "claw auth add {provider} --name {name} takes one"
    return UsageError(
        "{provider} has no key {name}", fix=fix, provider=provider, name=name, names=", ".join(names)
    )


def keyring() -> Any:
    """The library that speaks to this machine's keyring; no dependency of claw.

    :raises ClawError: it is not installed.
    """
    try:
        return import_module("keyring")
    except ImportError:
        fix = "pip install keyring, or keep the key in a file: claw auth add without --keyring"
        raise ClawError("the package keyring is not installed", fix=fix) from None
