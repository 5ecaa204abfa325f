"""For claw plugins that call HTTP services: connections that are kept and shared by many concurrent requests."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from claw_http_sdk.errors import STALE_CONNECTION

if TYPE_CHECKING:
    import httpx2

__all__ = ["STALE_CONNECTION", "pooled"]


def pooled(http: "Callable[..., httpx2.AsyncClient]") -> "Callable[..., httpx2.AsyncClient]":
    """Return ``config.http`` with connections that are kept between requests (:class:`PooledTransport`).

    Without it, a client makes a new connection for each request.
    """

    def client(address: str, *, apart: bool = False) -> "httpx2.AsyncClient":
        from claw_http_sdk.pooled_transport import PooledTransport  # imports the HTTP library

        return http(address, apart=apart, transport=PooledTransport)

    return client
