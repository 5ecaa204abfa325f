"""OAuth of requests to a remote server: tokens of an earlier login, renewed without a question; or a login now.

Sources: modelcontextprotocol.io, revision 2025-11-25, "Authorization"; RFC 6749, 7591, 7636, 8414, 8707 and 9728.
Imported on first use: it imports httpx2.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Protocol

import httpx2
from claw import __version__
from claw.runtime import BusyError
from claw_config_sdk import Lock

from claw_mcp.logins import LoginFile
from claw_mcp.settings import OAuthSettings

OAUTH = "claw-oauth"
"""The extension of a request to an authorization server, which other origins may be asked for too."""
_EARLY_SECONDS = 30.0  # a token is renewed this long before it expires, at most a tenth of its time
_LOCK_SECONDS = 20.0
_SCOPE = re.compile(r',?\s*\bscope=(?:"[^"]*"|[^\s,]+)')
_NO_REDIRECT = "http://127.0.0.1/callback"  # of a flow without a person, which redirects nobody


class Person(Protocol):
    """The person who logs in."""

    redirect_uri: str

    async def show(self, address: str) -> None:
        """Show the address to open."""

    async def redirected(self) -> Any:
        """Return what the browser brought back (``mcp.shared.auth.AuthorizationCodeResult``)."""


class OAuthLogin(httpx2.Auth):
    """The authorization of requests to one server; the store of its own tokens.

    The SDK does not keep when a token expires nor where it is renewed, and asks a person at each 401: here a 401 leads to
    a renewal, and stays one if that is refused.

    :param person: asked to log in; None = nobody is, and the tokens of the file are used.
    :param refused: called when a request stays without authorization.
    :ivar is_new: true once new tokens were written.
    :ivar wanted: rights that were missing, as a server names them; empty = none were.
    :ivar renewal_status: of the last response of an authorization server; 0 = there was none.
    """

    def __init__(
        self,
        file: LoginFile,
        url: str,
        settings: OAuthSettings,
        person: Person | None = None,
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared import auth

        self._shapes, redirect = auth, person.redirect_uri if person else _NO_REDIRECT
        about = {"client_name": "claw", "software_version": __version__, "redirect_uris": [redirect]}
        asked = (self._show, person.redirected) if person else (None, None)
        metadata = auth.OAuthClientMetadata.model_validate(about)
        self._provider = OAuthClientProvider(url, metadata, self, *asked)
        self.context = self._provider.context
        self._file, self._settings, self._person, self._version = file, settings, person, -1
        self._refused = refused
        self.is_new, self.renewal_status, self.wanted = False, 0, ""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token; renew the token first if it has expired, and after a 401."""
        if self._person is None:
            self._load()
            token = self.context.current_tokens
            if token is None or self.context.is_token_valid():
                if token:
                    request.headers["Authorization"] = f"Bearer {token.access_token}"
                response = yield request
                if response.status_code != 401:
                    self._note_scope(response)
                    return
                self._load()
                if token and self.context.current_tokens == token:  # else another process has renewed it
                    self.context.token_expiry_time = 1.0
            if not self.context.can_refresh_token():
                self._refused()
                return
        async with self._alone():
            flow = self._provider.async_auth_flow(request)
            try:
                sent = await anext(flow)
                while True:
                    if sent is not request:
                        sent.extensions[OAUTH] = True
                    response = yield sent
                    if sent is not request:
                        self.renewal_status = response.status_code
                    elif self._person is None:
                        if response.status_code == 401:
                            self._refused()
                        self._note_scope(response)
                        return
                    else:
                        self._ask_for_scope(response)
                    sent = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()

    def _note_scope(self, response: httpx2.Response) -> None:
        """Write down the rights that a response says are missing (RFC 6750), for the next login."""
        from mcp.client.auth.utils import extract_field_from_www_auth, union_scopes

        lacks = extract_field_from_www_auth(response, "error") == "insufficient_scope"
        if response.status_code == 403 and lacks:
            tree, wanted = self._file.read(), extract_field_from_www_auth(response, "scope")
            self.wanted = union_scopes(tree.get("wanted"), wanted) or ""
            if self.wanted != tree.get("wanted"):
                self._file.write({**tree, "wanted": self.wanted})
            self._refused()

    def _ask_for_scope(self, response: httpx2.Response) -> None:
        """Let the SDK ask for the rights of the last login too, and for those that were missing."""
        from mcp.client.auth.utils import extract_field_from_www_auth, union_scopes

        tree = self._file.read()
        if response.status_code == 401 and (wanted := tree.get("wanted")):
            granted = union_scopes((tree.get("tokens") or {}).get("scope"), wanted)
            scope = union_scopes(extract_field_from_www_auth(response, "scope"), granted)
            challenge = _SCOPE.sub("", response.headers.get("WWW-Authenticate", "Bearer"))
            separator = "," if "=" in challenge else ""
            response.headers["WWW-Authenticate"] = f'{challenge}{separator} scope="{scope}"'

    async def _show(self, address: str) -> None:
        """Show the address to open, once it is known how the authorization server takes the secret of our own client."""
        client, issuer = self.context.client_info, self.context.oauth_metadata
        methods = (issuer and issuer.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
        if (
            client
            and client.client_secret
            and "client_secret_basic" not in methods
            and self._settings.client_id
        ):
            client.token_endpoint_auth_method = methods[0]
        assert self._person
        await self._person.show(address)

    # the store

    async def get_tokens(self) -> Any:
        """Return the tokens; a person who logs in gets new ones."""
        return None if self._person else self.context.current_tokens

    async def set_tokens(self, tokens: Any) -> None:
        """Write new tokens, with what their renewal needs."""
        seconds = tokens.expires_in
        early = min(_EARLY_SECONDS, (seconds or 0) / 10)
        at = None if seconds is None else time.time() + seconds - early
        dumped = {
            key: part.model_dump(mode="json", exclude_none=True) if part else None
            for key, part in (
                ("tokens", tokens),
                ("client", self.context.client_info),
                ("resource", self.context.protected_resource_metadata),
                ("issuer", self.context.oauth_metadata),
            )
        }
        await asyncio.to_thread(self._file.write, {**dumped, "expires_at": at})
        self._version, self.context.token_expiry_time, self.is_new = self._file.version, at, True

    async def get_client_info(self) -> Any:
        """Return the configured client, or the one that was registered with this redirect address."""
        if self._settings.client_id:
            secret = self._settings.client_secret
            method = "client_secret_basic" if secret else "none"
            return self._shapes.OAuthClientInformationFull(
                client_id=self._settings.client_id,
                client_secret=secret.reveal() if secret else None,
                token_endpoint_auth_method=method,
                redirect_uris=self.context.client_metadata.redirect_uris,
            )
        written = self._file.read().get("client")
        client = self._shapes.OAuthClientInformationFull.model_validate(written) if written else None
        if client and self._person:
            known = [str(uri) for uri in client.redirect_uris or ()]
            return client if self._person.redirect_uri in known else None
        return client

    async def set_client_info(self, client_info: Any) -> None:
        """Keep nothing yet: a login that is given up leaves the earlier one as it was."""

    def _load(self) -> None:
        """Read the file if it has changed since."""
        if self._version == (version := self._file.version):
            return
        self._version, context, tree = version, self.context, self._file.read()
        try:
            context.current_tokens = self._shapes.OAuthToken.model_validate(tree["tokens"])
            context.client_info = self._shapes.OAuthClientInformationFull.model_validate(tree["client"])
            resource, issuer = tree.get("resource"), tree.get("issuer")
            context.protected_resource_metadata = (
                self._shapes.ProtectedResourceMetadata.model_validate(resource) if resource else None
            )
            context.oauth_metadata = self._shapes.OAuthMetadata.model_validate(issuer) if issuer else None
            context.token_expiry_time = tree.get("expires_at")
        except (KeyError, ValueError):
            context.clear_tokens()

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Renew alone: wait for another process that renews the token, and use its outcome."""
        if self._person:
            yield
            return
        lock = Lock(self._file.lock)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOCK_SECONDS):
                    await _take(lock)
            self._load()
            yield
        finally:
            lock.close()


async def _take(lock: Lock) -> None:
    while True:
        try:
            return lock.take()
        except BusyError:
            await asyncio.sleep(0.05)
