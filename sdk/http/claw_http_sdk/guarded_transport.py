"""Transport around that of an HTTP client: it limits what is read of an error response, and explains TLS failures."""

import asyncio
import ssl
import zlib
from contextlib import aclosing
from typing import Any, cast

import httpx2

from claw_http_sdk.tls_errors import connection_error, tls_required_error

_ERROR_BODY_BYTES = 64 * 1024
_ERROR_BODY_SECONDS = 5.0


def unpooled_transport(tls: ssl.SSLContext) -> httpx2.AsyncHTTPTransport:
    """Return the HTTP library's transport with a new connection for each request."""
    limits = httpx2.Limits(max_keepalive_connections=0)
    return httpx2.AsyncHTTPTransport(verify=tls, trust_env=False, limits=limits)


class GuardedTransport(httpx2.AsyncBaseTransport):
    """The transport of one HTTP client.

    :param transport: sends the requests.
    :param error_body_seconds: time limit for reading the body of an error response.
    """

    def __init__(
        self, transport: httpx2.AsyncBaseTransport, *, error_body_seconds: float = _ERROR_BODY_SECONDS
    ) -> None:
        self._transport, self._error_body_seconds = transport, error_body_seconds

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request. Of a response that is not 2xx (an error, a redirect) read a limited part in limited time.

        The vendors' clients read such a body completely: an endless one would exhaust the memory.
        """
        host, is_plain = request.url.host, request.url.scheme == "http"
        try:
            response = await self._transport.handle_async_request(request)
        except httpx2.TransportError as why:
            if error := connection_error(host, why, is_plain=is_plain):
                raise httpx2.ConnectError(str(error), request=request) from error
            raise
        if response.status_code < 300:
            return response
        body = await _read_limited(response, self._error_body_seconds)
        if is_plain and (error := tls_required_error(host, body)):
            raise httpx2.ConnectError(str(error), request=request) from error
        dropped = ("content-encoding", "content-length", "transfer-encoding")
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in dropped]
        return httpx2.Response(
            response.status_code, headers=headers, content=body, extensions=response.extensions
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


async def _read_limited(response: httpx2.Response, seconds: float) -> bytes:
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds), aclosing(aiter(cast("Any", response.stream))) as chunks:
            async for chunk in chunks:
                parts.append(chunk)
                size += len(chunk)
                if size >= _ERROR_BODY_BYTES:
                    break
    except (TimeoutError, httpx2.TransportError):
        pass  # the status code is enough
    finally:
        await response.aclose()
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    return _decompress(b"".join(parts), encoding)[:_ERROR_BODY_BYTES]


def _decompress(body: bytes, encoding: str) -> bytes:
    """Decompress the beginning of a body; empty when it cannot be decoded."""
    if encoding == "identity":
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return b""
    try:
        return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(body, _ERROR_BODY_BYTES)
    except zlib.error:
        return b""
