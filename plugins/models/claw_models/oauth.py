"""OAuth logins: credentials that expire are refreshed once for all callers, in all processes.

A kernel lock is held from the refresh to the write; the result is in the agent's own file.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from claw import Credential, Provider, ProviderError
from claw.runtime import BusyError, Clock

from claw_models.credentials import ProfileFile

_EARLY_SECONDS = 60.0  # a credential is refreshed this long before it expires
_LOCK_PAUSE_SECONDS = 0.05


class OAuthRefresher:
    """The refresh of credentials.

    :param learn: receives the new secrets, so that they are redacted.
    """

    def __init__(
        self, environ: Mapping[str, str], clock: Clock, learn: Callable[[Iterable[str]], None]
    ) -> None:
        self._environ, self._clock, self._learn = environ, clock, learn
        self._renewing: dict[tuple[str, str, str], asyncio.Lock] = {}

    async def refreshed(self, provider: Provider, key: Credential, folder: Path | None) -> Credential:
        """Return the key, refreshed when it is about to expire: once for all callers, in all processes.

        :raises ProviderError: the refresh failed; ``auth_permanent``: a person has to log in again.
        """
        renew = getattr(provider, "refresh", None)
        soon = self._clock.now() + _EARLY_SECONDS
        if (
            renew is None
            or folder is None
            or key.expires_at is None
            or key.expires_at > soon
            or not key.owner
        ):
            return key
        async with self._renewing.setdefault((provider.name, key.owner, key.name), asyncio.Lock()):
            file = ProfileFile(folder, self._environ)
            lock = file.lock()
            try:
                while not lock.held:
                    try:
                        lock.take()
                    except BusyError:
                        await asyncio.sleep(_LOCK_PAUSE_SECONDS)
                held = {(one.provider, one.name): one for one in file.read().keys}
                newest = held.get((provider.name, key.name))
                if newest is None:
                    raise _login_expired(provider.name, key.name)
                if newest.expires_at is None or newest.expires_at > soon:
                    return newest
                return await self._renew(renew, file, newest)
            finally:
                lock.close()

    async def _renew(self, renew: Any, file: ProfileFile, key: Credential) -> Credential:
        """Refresh the key and write it to the file, where the processes that wait read it."""

        def edit(tree: dict[str, Any]) -> None:
            entry = tree["profiles"][key.provider][key.name]
            if fresh is None:
                entry["needsLogin"] = True
            else:
                entry |= {
                    "secret": fresh.secret,
                    "expiresAt": fresh.expires_at,
                    "refresh": fresh.refresh or key.refresh,
                }

        fresh: Credential | None = None
        try:
            fresh = await renew(key)
        except ProviderError as refused:
            if refused.reason not in ("auth", "auth_permanent", "permission", "bad_request"):
                raise
            file.write(edit)
            raise _login_expired(key.provider, key.name) from refused
        assert fresh is not None
        self._learn((fresh.secret, fresh.refresh))
        file.write(edit)
        return replace(
            key, secret=fresh.secret, expires_at=fresh.expires_at, refresh=fresh.refresh or key.refresh
        )


def _login_expired(provider: str, name: str) -> ProviderError:
    return ProviderError(
        "the login {name} has expired and could not be renewed",
        reason="auth_permanent",
        where=provider,
        name=name,
        provider=provider,
        fix="log in again: claw auth add {provider} --name {name}",
    )
