"""A client with headers of its own that sends through the house's: its one TLS context, and its wall round the origin."""

from collections.abc import Mapping

import httpx2

_READ_SECONDS = 300  # a server may hold a response stream open between events


def client(shared: httpx2.AsyncClient, headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """A client that adds ``headers``; closing it leaves ``shared`` open."""
    timeout = httpx2.Timeout(30, read=_READ_SECONDS)
    return httpx2.AsyncClient(transport=_Through(shared), headers=dict(headers), timeout=timeout)


class _Through(httpx2.AsyncBaseTransport):
    """Sends through a shared client: its one TLS context, and its wall round the origin that was configured."""

    def __init__(self, shared: httpx2.AsyncClient) -> None:
        self._shared = shared

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._shared.send(request, stream=True)
        return httpx2.Response(
            answer.status_code, headers=answer.headers, stream=answer.stream, extensions=answer.extensions
        )
