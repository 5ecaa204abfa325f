"""Transports to a server at an address: streamable HTTP, and the older HTTP with SSE.

All requests go through claw's shared client: one TLS context, one origin check. Imported on first use: it imports httpx2.
Source: modelcontextprotocol.io, revision 2025-11-25, "Transports", "Backwards Compatibility" and "Authorization".
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
from claw import ClawError, is_loopback
from claw_http_sdk import pooled, unpooled

from claw_mcp.logins import LoginFile, LoginNeeded
from claw_mcp.settings import ServerSettings

if TYPE_CHECKING:
    from claw_mcp.oauth import Person

_READ_SECONDS = 300  # a server may hold a response stream open between events
_NOT_STREAMABLE = (400, 404, 405)
"""Statuses with which a server of HTTP with SSE answers a POST to its address."""
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_OAUTH = "claw-oauth"
"""The extension of a request to an authorization server, which may have another origin than the server."""
_OAUTH_SECONDS, _OAUTH_BYTES = 30.0, 256 * 1024
_PING = {"jsonrpc": "2.0", "id": 0, "method": "ping"}


class RemoteServer:
    """A server at an address.

    :param http: the client for an address that the operator wrote.
    :param login: the login at it.
    :param person: logs in now; None = the requests are sent with the tokens of an earlier login.
    :param refused: called when the server does not accept a message with all the authorization that claw has for it.
    :ivar status: of the last response to a request to the address; 0 = there was none.
    """

    def __init__(
        self,
        server: ServerSettings,
        http: Callable[[str], httpx2.AsyncClient],
        login: LoginFile | None = None,
        person: "Person | None" = None,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        self._url, self._server, self._refused = server.url or "", server, refused
        self._clients = unpooled(http)
        self._shared = pooled(http)(self._url)
        self.status = 0
        self.login = None
        if login and not server.has_own_authorization and (person or login.read()):
            from claw_mcp.oauth import OAuthLogin

            self.login = OAuthLogin(login, self._url, server.oauth, person, refused)

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

    async def knock(self) -> int:
        """Send a request that opens no session, and return the status of the response: a server that wants a login
        asks for it now.
        """
        async with self.client() as client:
            if self._server.type != "sse":
                headers = {
                    "Accept": "application/json, text/event-stream",
                    "MCP-Protocol-Version": "2025-11-25",
                }
                async with client.stream("POST", self._url, json=_PING, headers=headers) as answer:
                    if not self.may_be_sse:
                        return answer.status_code
            async with client.stream("GET", self._url, headers={"Accept": "text/event-stream"}) as answer:
                return answer.status_code

    @property
    def may_be_sse(self) -> bool:
        """True if the settings name no transport, and the address refused a message of streamable HTTP."""
        return self._server.type is None and self.status in _NOT_STREAMABLE

    @property
    def login_fault(self) -> ClawError | None:
        """The reason why the server answers 401, or 403 for want of rights; None when it does not."""
        if self.status == _FORBIDDEN and self.login and self.login.wanted:
            return LoginNeeded("it wants further rights: {scope}", scope=self.login.wanted)
        if self.status != _UNAUTHORIZED:
            return None
        if self._server.has_own_authorization:
            fix = "Correct headers.Authorization of the server"
            return ClawError("it does not accept the configured Authorization header (HTTP 401)", fix=fix)
        if self.login and self.login.renewal_status >= 500:
            problem = "its login could not be renewed: the authorization server answered HTTP {status}"
            return ClawError(problem, status=self.login.renewal_status)
        if self.login:
            return LoginNeeded("its login has expired")
        return LoginNeeded("it asks for a login (HTTP 401)")

    def client(self) -> httpx2.AsyncClient:
        """Return a client that adds the configured headers; closing it leaves the shared one open."""
        headers = {name: secret.reveal() for name, secret in self._server.headers.items()}
        timeout = httpx2.Timeout(30, read=_READ_SECONDS)
        return httpx2.AsyncClient(
            transport=_SharedTransport(self), headers=headers, timeout=timeout, auth=self.login
        )

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request through the shared client, which refuses every other origin."""
        if request.extensions.get(_OAUTH):
            return await self._send_to_authorization_server(request)
        answer = await self._shared.send(request, stream=True)
        if request.url == self._url:
            self.status = answer.status_code
        if answer.status_code == _UNAUTHORIZED and not self.login and request.method == "POST":
            self._refused()
        return answer

    async def _send_to_authorization_server(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of OAuth, to an address that the server or its authorization server named: over https, or to
        this machine from a server on it; at most some seconds, and some bytes of the response.
        """
        url = str(request.url)
        here = is_loopback(urlsplit(self._url).hostname or "")
        if request.url.scheme != "https" and not (here and is_loopback(request.url.host)):
            raise ClawError("the authorization server has an address without https: {url}", url=url)
        request.extensions["timeout"] = httpx2.Timeout(_OAUTH_SECONDS).as_dict()
        body = b""
        async with asyncio.timeout(_OAUTH_SECONDS):
            answer = await self._clients(url).send(request, stream=True)
            try:
                async with aclosing(answer.aiter_bytes()) as chunks:
                    async for chunk in chunks:
                        body += chunk
                        if len(body) > _OAUTH_BYTES:
                            raise ClawError(
                                "the response of the authorization server is too long: {url}", url=url
                            )
            finally:
                await answer.aclose()
        dropped = ("content-encoding", "content-length", "transfer-encoding")
        headers = [(name, value) for name, value in answer.headers.multi_items() if name not in dropped]
        return httpx2.Response(answer.status_code, headers=headers, content=body)


class _SharedTransport(httpx2.AsyncBaseTransport):
    """A transport over a shared client, with its TLS context, and restricted to the configured origin."""

    def __init__(self, server: RemoteServer) -> None:
        self._server = server

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._server.send(request)
        return httpx2.Response(
            answer.status_code, headers=answer.headers, stream=answer.stream, extensions=answer.extensions
        )
