"""Logins that run out: a token service on this machine, and processes that all need a new token at once.

Run as a program: ``tokens.py HOME URL USERS`` makes one process in which so many turns ask for the same login.
"""

import asyncio
import json
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from time import sleep, time
from typing import Any

from claw.contracts.errors import ProviderError
from claw.contracts.provider import Credential
from claw_models.key_pool import KeyPool


class TokenService:
    """Gives a new token for each refresh token, once: the old one is worth nothing after that."""

    def __init__(self, first: str = "refresh-0", seconds: float = 3600.0) -> None:
        self.calls: list[str] = []
        self._good, self._seconds, self._guard = first, seconds, Lock()
        service = self

        class Asked(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                given = self.rfile.read(int(self.headers["content-length"])).decode()
                status, body = service.renew(given)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Asked)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def renew(self, given: str) -> tuple[int, dict[str, Any]]:
        """Answer a request with one refresh token."""
        sleep(0.1)  # long enough for everybody else to come too
        with self._guard:
            self.calls.append(given)
            if given != self._good:
                return 400, {"error": "invalid_grant"}
            self._good = f"refresh-{len(self.calls)}"
            token = {
                "token": f"token-{len(self.calls)}",
                "refresh": self._good,
                "expires": time() + self._seconds,
            }
            return 200, token

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()


class Renewing:
    """A provider whose logins can be renewed."""

    name = "acme"

    def __init__(self, url: str) -> None:
        self._url = url

    def credentials(self) -> tuple[Credential, ...]:
        return ()

    def context_tokens(self, model: str) -> int:
        return 1000

    async def stream(self, request: Any) -> Any:
        raise NotImplementedError
        yield

    async def refresh(self, credential: Credential) -> Credential:
        """Ask the service, in a thread."""
        made = await asyncio.to_thread(self._ask, credential.refresh)
        return Credential(
            credential.name,
            made["token"],
            "oauth",
            "acme",
            made["expires"],
            made["refresh"],
            credential.owner,
        )

    def _ask(self, refresh: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self._url, refresh.encode(), timeout=10) as answer:
                made: dict[str, Any] = json.load(answer)
                return made
        except urllib.error.HTTPError as refused:
            refused.close()
            raise ProviderError("the login was refused", reason="auth") from None


async def tokens(folder: Path, url: str, users: int) -> list[str]:
    """The tokens that so many turns of one process get."""
    provider: Any = Renewing(url)
    keys = KeyPool()

    async def one() -> str:
        try:
            [key] = keys.keys_for(provider, folder)
            return (await keys.logins.refreshed(provider, key, folder)).secret
        except ProviderError as why:
            return str(why)

    return await asyncio.gather(*(one() for _ in range(users)))


if __name__ == "__main__":
    renewed = asyncio.run(tokens(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
    print(json.dumps(sorted(set(renewed))))
