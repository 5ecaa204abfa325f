"""For claw plugins that call HTTP services: limits on error responses, explained TLS failures, kept connections."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from claw import add_translations

from claw_http_sdk.errors import STALE_CONNECTION, TlsError, error_chain

if TYPE_CHECKING:
    import ssl

    import httpx2

    Clients = Callable[..., httpx2.AsyncClient]

__all__ = ["STALE_CONNECTION", "TlsError", "error_chain", "pooled", "unpooled"]

add_translations(__name__)


def pooled(http: "Clients") -> "Clients":
    """Return ``config.http`` with connections that are kept between requests, and shared by concurrent ones."""
    return partial(http, transport=_pooled)


def unpooled(http: "Clients") -> "Clients":
    """Return ``config.http`` with a new connection for each request, so that no bytes behind a response can be taken for
    the response to the next request.
    """
    return partial(http, transport=_unpooled)


def _pooled(tls: "ssl.SSLContext") -> "httpx2.AsyncBaseTransport":
    from claw_http_sdk.guarded_transport import GuardedTransport
    from claw_http_sdk.pooled_transport import PooledTransport  # imports the HTTP library

    return GuardedTransport(PooledTransport(tls))


def _unpooled(tls: "ssl.SSLContext") -> "httpx2.AsyncBaseTransport":
    from claw_http_sdk.guarded_transport import GuardedTransport, unpooled_transport

    return GuardedTransport(unpooled_transport(tls))
