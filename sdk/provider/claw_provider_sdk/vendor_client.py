"""Clients of a vendor's SDK, one for each key, imported at the first use."""

import asyncio
import shlex
from collections.abc import Callable
from importlib import import_module
from typing import Any

from claw import Credential, ProviderError


class VendorClients:
    """A cache of a vendor SDK's clients, one for each key. The SDK is imported at the first use, in a thread:
    it takes a second.

    :param module: the module of its client; ``package`` is its name on the index.
    :param make: ``make(sdk, secret)`` makes a client; the secret is empty when there is no key.
    :param wanted: the requirement to install when it is missing: ``claw-acme[sdk]``.
    """

    def __init__(self, module: str, package: str, wanted: str, make: Callable[[Any, str], Any]) -> None:
        self._module, self._package, self._wanted, self._make = module, package, wanted, make
        self._made: dict[Credential | None, Any] = {}

    async def get(self, key: Credential | None) -> Any:
        """Return the client for a key.

        :raises ProviderError: the SDK is not installed; the fix names the command that installs it.
        """
        if key not in self._made:
            try:
                sdk = await asyncio.to_thread(import_module, self._module)
            except ImportError as missing:
                from claw.runtime import pip_command

                raise ProviderError(
                    "{package} is not installed", fix="run: {command}", reason="bad_request", package=self._package,
                    command=shlex.join([*pip_command(), "install", self._wanted]),
                ) from missing  # fmt: skip
            if key not in self._made:
                self._made[key] = self._make(sdk, key.secret if key else "")
        return self._made[key]
