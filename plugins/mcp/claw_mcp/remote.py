"""Transports to a server at an address: streamable HTTP, and the older HTTP with SSE.

All requests go through claw's shared client: one TLS context, one origin check. Imported on first use: it imports httpx2.
Source: modelcontextprotocol.io, revision 2025-11-25, "Transports", "Backwards Compatibility".
"""

from collections.abc import Callable
from typing import Any

import httpx2
from claw_http_sdk import pooled

from claw_mcp.settings import ServerSettings

_READ_SECONDS = 300  # a server may hold a response stream open between events
_NOT_STREAMABLE = (400, 404, 405)
"""Statuses with which a server of HTTP with SSE answers a POST to its address."""


class RemoteServer:
    """A server at an address.

    :param http: the client for an address that the operator wrote.
    :ivar status: of the last response to a request to the address; 0 = there was none.
    """

    def __init__(self, server: ServerSettings, http: Callable[[str], httpx2.AsyncClient]) -> None:
        self._url, self._server = server.url or "", server
        self._shared = pooled(http)(self._url)
        self.status = 0

    def streamable_http(self) -> Any:
        """Return the transport of streamable HTTP."""
        from mcp.client.streamable_http import streamable_http_client

        return streamable_http_client(self._url, http_client=self.client())

    def sse(self) -> Any:
        """Return the transport of HTTP with SSE."""
        from mcp.client.sse import sse_client

        def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> httpx2.AsyncClient:
            return self.client()

        return sse_client(self._url, httpx_client_factory=client)

    @property
    def may_be_sse(self) -> bool:
        """True if the settings name no transport, and the address refused a message of streamable HTTP."""
        return self._server.type is None and self.status in _NOT_STREAMABLE

    def client(self) -> httpx2.AsyncClient:
        """Return a client that adds the configured headers; closing it leaves the shared one open."""
        headers = {name: secret.reveal() for name, secret in self._server.headers.items()}
        timeout = httpx2.Timeout(30, read=_READ_SECONDS)
        return httpx2.AsyncClient(transport=_SharedTransport(self), headers=headers, timeout=timeout)

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request through the shared client, which refuses every other origin."""
        answer = await self._shared.send(request, stream=True)
        if request.url == self._url:
            self.status = answer.status_code
        return answer


class _SharedTransport(httpx2.AsyncBaseTransport):
    """A transport over a shared client, with its TLS context, and restricted to the configured origin."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._server.send(request)
        return httpx2.Response(
            answer.status_code, headers=answer.headers, stream=answer.stream, extensions=answer.extensions
        )
