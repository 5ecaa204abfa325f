"""The way out to the network. This form serves the addresses that the operator wrote; content decides nothing here."""

import ipaddress
import ssl
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from claw.errors import FenceError, UsageError

if TYPE_CHECKING:
    import httpx2

STALE = "a connection kept from an earlier request was closed before an answer"
"""What the error says when it may only be that the service no longer wanted to keep a connection."""

_CONNECT_SECONDS = 10
_READ_SECONDS = 120  # a model may think for a while before its first byte


class Network:
    """One HTTP client for each origin, all with one TLS context. Belongs to one event loop; close it at the end.

    :param transport: what carries the requests instead of the network; for tests.
    """

    def __init__(self, *, transport: "httpx2.AsyncBaseTransport | None" = None) -> None:
        self._transport = transport
        self._clients: dict[str, httpx2.AsyncClient] = {}
        self._origins: dict[str, str] = {}  # each call asks, for one of a few addresses

    def client(self, address: str, *, apart: bool = False) -> "httpx2.AsyncClient":
        """The client for the origin of an address that the operator wrote; relative URLs start at the origin.

        It follows no redirect and refuses any other origin. Without a scheme the address means https, on this machine
        http; plain http elsewhere has to be written.

        :param apart: a new one with connections of its own, which the caller closes.
        :raises UsageError: it is no address of an HTTP service, or holds a password.
        """
        origin = self._origins.get(address) or self._origins.setdefault(address, origin_of(address))
        if apart:
            return self._make(origin)
        if origin not in self._clients:
            self._clients[origin] = self._make(origin)
        return self._clients[origin]

    async def aclose(self) -> None:
        """Close every client; the next ``client`` makes a new one."""
        while self._clients:
            await self._clients.popitem()[1].aclose()

    def _make(self, origin: str) -> "httpx2.AsyncClient":
        import httpx2

        from claw.guard.sockets import Carrier  # it imports the client's library

        first = httpx2.URL(origin)
        home = first.scheme, first.host, first.port

        async def stay(request: "httpx2.Request") -> None:
            url = request.url
            if (url.scheme, url.host, url.port) != home and origin_of(str(url)) != origin:
                raise FenceError(
                    "a request to {other} left the address that was configured, {origin}",
                    other=request.url.host, origin=origin,
                )  # fmt: skip

        # without https nothing is ever verified: an empty context spares the 50 ms that reading the authorities costs
        tls = self._tls if origin.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return httpx2.AsyncClient(
            base_url=origin,
            timeout=httpx2.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=False,
            transport=self._transport or Carrier(tls),
            event_hooks={"request": [stay]},
        )

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        import httpx2

        return httpx2.create_ssl_context(trust_env=False)


def origin_of(address: str) -> str:
    """``scheme://host[:port]`` of an address, in lower case, a default port left out.

    :raises UsageError: see ``Network.client``.
    """
    text = address.strip()
    bare = "://" not in text
    try:
        parts = urlsplit(f"https://{text}" if bare else text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    strange = any(letter.isspace() or letter == "\\" for letter in text)
    if not host or parts.scheme not in ("https", "http") or strange:
        raise UsageError(
            "this is not the address of an HTTP service", fix="write it as https://host or http://host:port"
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "an address must not hold a user name or password",
            fix="put the key where the provider's or channel's keys go",
        )
    scheme = "http" if bare and is_loopback(host) else parts.scheme
    shown = f"[{host}]" if ":" in host else host
    usual = port in (None, {"https": 443, "http": 80}[scheme])
    return f"{scheme}://{shown}" if usual else f"{scheme}://{shown}:{port}"


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine, by its spelling alone."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
