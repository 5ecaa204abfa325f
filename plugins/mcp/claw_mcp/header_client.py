"""A client with additional headers that sends through claw's shared client: one TLS context, one origin
check.
"""

from collections.abc import Mapping

import httpx2

_READ_SECONDS = 300  # a server may hold a response stream open between events


def client(shared: httpx2.AsyncClient, headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """Return a client that adds ``headers``; closing it leaves ``shared`` open."""
    timeout = httpx2.Timeout(30, read=_READ_SECONDS)
    return httpx2.AsyncClient(transport=_SharedTransport(shared), headers=dict(headers), timeout=timeout)


class _SharedTransport(httpx2.AsyncBaseTransport):
    """A transport over a shared client, with its TLS context, and restricted to the configured origin."""

    def __init__(self, shared: httpx2.AsyncClient) -> None:
        self._shared = shared

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._shared.send(request, stream=True)
        return httpx2.Response(
            answer.status_code, headers=answer.headers, stream=answer.stream, extensions=answer.extensions
        )
