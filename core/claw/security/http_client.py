"""HTTP clients for the addresses that the operator configured. Content of messages never chooses an address here."""

import ssl
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from claw.config.values import origin_of
from claw.contracts.errors import FenceError

if TYPE_CHECKING:
    import httpx2

    TransportFactory = Callable[[ssl.SSLContext], httpx2.AsyncBaseTransport]


_CONNECT_SECONDS = 10
_READ_SECONDS = 120  # a model may take long before its first byte


class HttpClients:
    """One HTTP client per origin, all with one TLS context. Belongs to one event loop; close it at the end.

    :param transport: replaces the network; for tests.
    """

    def __init__(self, *, transport: "httpx2.AsyncBaseTransport | None" = None) -> None:
        self._transport = transport
        self._clients: dict[tuple[str, TransportFactory | None], httpx2.AsyncClient] = {}

    def client(
        self, address: str, *, apart: bool = False, transport: "TransportFactory | None" = None
    ) -> "httpx2.AsyncClient":
        """Return the client for the origin of a configured address; relative URLs start at the origin.

        It follows no redirect and refuses any other origin. An address without a scheme means https, or http for this
        machine; plain http to any other host must be written.

        :param apart: create a client with its own connections, which the caller closes.
        :param transport: makes the connections from the shared TLS context; None = a new connection for each request.
            Each function has clients of its own: pass the same one for the same address.
        :raises UsageError: it is not the address of an HTTP service, or contains a password.
        """
        origin = origin_of(address)
        if apart:
            return self._make(origin, transport)
        if (origin, transport) not in self._clients:
            self._clients[origin, transport] = self._make(origin, transport)
        return self._clients[origin, transport]

    async def aclose(self) -> None:
        """Close every client; the next call of ``client`` creates a new one."""
        while self._clients:
            await self._clients.popitem()[1].aclose()

    def _make(self, origin: str, transport: "TransportFactory | None") -> "httpx2.AsyncClient":
        import httpx2  # only when needed: it takes a while

        async def stay(request: "httpx2.Request") -> None:
            if origin_of(str(request.url)) != origin:
                raise FenceError(
                    "a request to {other} is not allowed: the configured address is {origin}",
                    other=request.url.host,
                    origin=origin,
                )

        # Plain http verifies no certificate: an empty context saves the 50 ms of reading the authorities.
        tls = self._tls if origin.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx2.AsyncClient(
            base_url=origin,
            timeout=httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=False,
            verify=tls,
            limits=httpx2.Limits(max_keepalive_connections=0),
            transport=self._transport or (transport(tls) if transport else None),
            event_hooks={"request": [stay]},
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        import httpx2

        return httpx2.create_ssl_context(trust_env=False)
