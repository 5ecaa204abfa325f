"""For claw plugins that call HTTP services: connections that are kept and shared by many concurrent requests."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

STALE_CONNECTION = "a connection kept from an earlier request was closed before an answer"
"""Error text for a failure that may only mean that the service closed an idle kept-alive connection."""


def pooled(http: "Callable[..., httpx2.AsyncClient]") -> "Callable[..., httpx2.AsyncClient]":
    """Return ``config.http`` with connections that are kept between requests (:class:`PooledTransport`).

    Without it, a client makes a new connection for each request.
    """

    def client(address: str, *, apart: bool = False) -> "httpx2.AsyncClient":
        from claw_http_sdk.pooled_transport import PooledTransport  # imports the HTTP library

        return http(address, apart=apart, transport=PooledTransport)

    return client
