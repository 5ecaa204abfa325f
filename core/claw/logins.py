"""Logins: credentials that run out, made anew once for all who need them, in whichever process.

A kernel lock stands round the asking and the writing down; what is known in the end is in the agent's own file.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from claw.auth import Credential, ProfileFile
from claw.clock import Clock
from claw.errors import BusyError, ProviderError
from claw.provider import Provider

_EARLY_SECONDS = 60.0  # before it runs out, it is made anew
_LOCK_PAUSE_SECONDS = 0.05


class Logins:
    """Making credentials anew.

    :param learn: told what came back, so that nobody prints it.
    """

    def __init__(
        self, environ: Mapping[str, str], clock: Clock, learn: Callable[[Iterable[str]], None]
    ) -> None:
        self._environ, self._clock, self._learn = environ, clock, learn
        self._renewing: dict[tuple[str, str, str], asyncio.Lock] = {}

    async def renewed(self, provider: Provider, key: Credential, folder: Path | None) -> Credential:
        """The key, made anew when it is about to run out: once for all who ask, in whichever process.

        :raises ProviderError: it could not be made anew; for good (``auth_permanent``) = somebody has to log in again.
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
                    raise _log_in(provider.name, key.name)
                if newest.expires_at is None or newest.expires_at > soon:
                    return newest
                return await self._renew(renew, file, newest)
            finally:
                lock.close()

    async def _renew(self, renew: Any, file: ProfileFile, key: Credential) -> Credential:
        """Ask for it. Others wait meanwhile, so what is known in the end stands in the file."""

        def edit(tree: dict[str, Any]) -> None:
            entry = tree["profiles"][key.provider][key.name]
            if made is None:
                entry["needsLogin"] = True
            else:
                entry |= {
                    "secret": made.secret,
                    "expiresAt": made.expires_at,
                    "refresh": made.refresh or key.refresh,
                }

        made: Credential | None = None
        try:
            made = await renew(key)
        except ProviderError as refused:
            if refused.reason not in ("auth", "auth_permanent", "permission", "bad_request"):
                raise
            file.write(edit)
            raise _log_in(key.provider, key.name) from refused
        assert made is not None
        self._learn((made.secret, made.refresh))
        file.write(edit)
        return replace(
            key, secret=made.secret, expires_at=made.expires_at, refresh=made.refresh or key.refresh
        )


def _log_in(provider: str, name: str) -> ProviderError:
    return ProviderError(
        "the login {name} has run out and could not be made anew", reason="auth_permanent", where=provider, name=name,
        provider=provider, fix="log in again: claw auth add {provider} --name {name}",
    )  # fmt: skip
