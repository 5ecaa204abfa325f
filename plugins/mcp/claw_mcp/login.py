"""``claw mcp login``: the redirect of an authorization server, received at a loopback port or typed by the person.

Source: RFC 8252 (native apps), section 7.3: the redirect address is that of a free port of 127.0.0.1.
"""

import asyncio
import contextlib
import html
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import typer
from claw import ClawError, t

from claw_mcp import sdk
from claw_mcp.logins import LoginFile
from claw_mcp.settings import ServerSettings

if TYPE_CHECKING:
    import httpx2

_PASTE_PORT = 33418  # in the address that a browser shows and cannot open
_PERSON_SECONDS = 600.0
_REQUEST_SECONDS = 10.0


async def log_in(
    name: str,
    server: ServerSettings,
    file: LoginFile,
    http: "Callable[[str], httpx2.AsyncClient]",
    *,
    paste: bool = False,
    tell: Callable[[str], None] = lambda line: typer.echo(line, err=True),
) -> bool:
    """Log in at a server; return false if it asks for no login.

    :param paste: the person types the redirected address; else a loopback port waits for it, and at a terminal the person
        may type it too.
    :param tell: shows a line to the person.
    :raises ClawError: the login failed; an earlier one is kept.
    """
    await sdk.load()
    from mcp.client.auth import OAuthFlowError, OAuthRegistrationError

    from claw_mcp.remote import RemoteServer

    if server.has_own_authorization:
        problem = "{name} gets its authorization from mcpServers.{name}.headers"
        raise ClawError(problem, fix="Remove the header Authorization to log in", name=name)
    uris = (file.read().get("client") or {}).get("redirect_uris") or [""]
    registered = urlsplit(uris[0]).port or 0
    port = server.oauth.redirect_port or 0
    async with _Redirect.opened(name, port, registered, tell, paste) as redirect:
        remote = RemoteServer(server, http, file, redirect)
        try:
            status = await remote.knock()
        except OAuthRegistrationError as why:
            fix = "Register a client there for {redirect}, and write its id as oauth.clientId of the server"
            raise _failed(name, why, fix, redirect=redirect.redirect_uri) from why
        except OAuthFlowError as why:
            raise _failed(name, why) from why
        except Exception as why:
            if isinstance(why, ClawError):
                raise
            raise _failed(name, why) from why
    is_new = bool(remote.login and remote.login.is_new)
    if status == 401:
        raise _failed(name, t("the server does not accept the new token (HTTP 401)"))
    return is_new


def _failed(name: str, why: object, fix: str = "", **values: object) -> ClawError:
    return ClawError("the login at {name} failed: {why}", fix=fix, name=name, why=why, **values)


class _Redirect:
    """The way from a person's browser back to this process.

    :ivar redirect_uri: the address that the browser is sent to in the end.
    """

    def __init__(self, name: str, tell: Callable[[str], None], port: int) -> None:
        self.redirect_uri = f"http://127.0.0.1:{port}/callback"
        self.reads_typed = False
        self._name, self._tell, self._state = name, tell, ""
        self._answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(
        cls, name: str, port: int, registered: int, tell: Callable[[str], None], paste: bool
    ) -> "AsyncIterator[_Redirect]":
        """Wait at a port as long as the block runs; with ``paste`` only name one.

        :param port: the only one that will do; 0 = any.
        :param registered: the one of the client that is registered there; 0 = none is.
        """
        if paste:
            new = cls(name, tell, port or registered or _PASTE_PORT)
            new.reads_typed = True
            yield new
            return
        waiting: list[_Redirect] = []

        async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await waiting[0]._receive(reader, writer)

        listener: asyncio.Server | None = None
        if not port and registered:
            with contextlib.suppress(OSError):
                listener = await asyncio.start_server(receive, "127.0.0.1", registered)
        try:
            listener = listener or await asyncio.start_server(receive, "127.0.0.1", port)
        except OSError as why:
            problem = "the port {port} of the redirect address is in use: {why}"
            raise ClawError(
                problem, fix="claw mcp login {name} --paste", port=port, why=why, name=name
            ) from why
        async with listener:
            waiting.append(cls(name, tell, listener.sockets[0].getsockname()[1]))
            waiting[0].reads_typed = sys.stdin.isatty()
            yield waiting[0]

    async def show(self, address: str) -> None:
        """Show the address to open."""
        [self._state] = parse_qs(urlsplit(address).query)["state"]
        host = urlsplit(address).hostname
        self._tell(t("{name} sends you to {host} to log in. Open this address:", name=self._name, host=host))
        self._tell(address)
        if self.reads_typed:
            line = "If the browser cannot come back here, paste the address that it shows in the end ({redirect}…):"
            self._tell(t(line, redirect=self.redirect_uri))
            loop = asyncio.get_running_loop()
            threading.Thread(
                target=self._read_typed, args=(loop,), daemon=True, name="claw-mcp-login"
            ).start()

    async def redirected(self) -> Any:
        """Wait for the redirect.

        :raises ClawError: the person refused, or nothing came.
        """
        try:
            async with asyncio.timeout(_PERSON_SECONDS):
                return await self._answer
        except TimeoutError:
            why = t("nobody logged in within {minutes} min", minutes=round(_PERSON_SECONDS / 60))
            raise _failed(self._name, why) from None

    def take(self, address: str) -> str:
        """Use a redirected address; return why it is none, empty when it is.

        Another state is not of this login: it is not used, and the wait goes on.
        """
        from mcp.shared.auth import AuthorizationCodeResult

        fields = {key: values[0] for key, values in parse_qs(urlsplit(address.strip()).query).items()}
        if not self._state or fields.get("state") != self._state:
            return t("this is not the redirect of this login")
        if self._answer.done():
            return ""
        if error := fields.get("error"):
            said = fields.get("error_description", "")
            self._answer.set_exception(_failed(self._name, f"{error}: {said}" if said else error))
        elif code := fields.get("code"):
            result = AuthorizationCodeResult(code=code, state=self._state, iss=fields.get("iss"))
            self._answer.set_result(result)
        else:
            return t("this is not the redirect of this login")
        return ""

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                method, target, _ = (await reader.readline()).decode("ascii", "replace").split(" ", 2)
                while (await reader.readline()).strip():
                    pass
                is_ours = method == "GET" and urlsplit(target).path == "/callback"
                why = self.take(target) if is_ours else t("this is not the redirect of this login")
                said = why or t("Done: you can close this page and go back to claw.")
                body = (
                    f"<!doctype html><meta charset=utf-8><title>claw</title><p>{html.escape(said)}\n".encode()
                )
                head = (
                    f"HTTP/1.1 {'400 Bad Request' if why else '200 OK'}\r\nContent-Type: text/html; charset=utf-8\r\n"
                    f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
                    "Connection: close\r\n\r\n"
                )
                writer.write(head.encode() + body)
                await writer.drain()
        writer.close()

    def _read_typed(self, loop: asyncio.AbstractEventLoop) -> None:
        while line := sys.stdin.readline():
            with contextlib.suppress(RuntimeError):  # the login is over
                loop.call_soon_threadsafe(self._type, line)
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(self._type, "")

    def _type(self, line: str) -> None:
        """Use a line that the person typed; without one, stdin has ended."""
        if not line and not self._answer.done():
            self._answer.set_exception(_failed(self._name, t("no address was typed")))
        elif line.strip() and (why := self.take(line)):
            self._tell(why)
