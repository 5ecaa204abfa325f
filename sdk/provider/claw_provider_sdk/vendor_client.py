"""The parts that providers over a vendor's SDK share: its clients, one for each key, and what they answer for."""

import asyncio
import shlex
from collections.abc import Callable
from importlib import import_module
from typing import Any

from claw import Credential, ProviderError

from claw_provider_sdk.timeouts import StreamTimeouts
from claw_provider_sdk.usage import Price


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
                from claw_tool_sdk import pip_command

                raise ProviderError(
                    "{package} is not installed", fix="run: {command}", reason="bad_request", package=self._package,
                    command=shlex.join([*pip_command(), "install", self._wanted]),
                ) from missing  # fmt: skip
            if key not in self._made:
                self._made[key] = self._make(sdk, key.secret if key else "")
        return self._made[key]


class VendorProvider:
    """The part of a provider over a vendor's SDK that does not depend on the SDK.

    :param config: the provider's section.
    :param keys: returns the keys to try, in order; one with an empty secret on this machine, where none is needed.
    :param http: makes the shared ``httpx2.AsyncClient`` for an address; asked at the first call.
    :param free: it runs on this machine.
    :cvar vendor_url: the vendor's own address: only there its prices hold.
    """

    vendor_url = ""

    def __init__(
        self,
        name: str,
        config: Any,
        base_url: str,
        keys: Callable[[], tuple[Credential, ...]],
        http: Callable[[str], Any],
        free: bool = False,
    ) -> None:
        self.name, self._base_url, self._free = name, base_url, free
        self._config, self._keys, self._http = config, keys, http
        self._timeouts = StreamTimeouts.of(config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._base_url!r})"

    def credentials(self) -> tuple[Credential, ...]:
        """Return the keys to try, in order."""
        return self._keys()

    def price(self, model: str) -> Price | None:
        """Return the vendor's price if the vendor is called; zero on this machine."""
        if self._free:
            return Price(0.0, 0.0)
        return self._vendor_price(model) if self._base_url == self.vendor_url else None

    def _vendor_price(self, model: str) -> Price | None:
        """Return the price that the vendor publishes; None when it is not known."""
        return None
