"""A protected MCP server and its authorization server, on two ports of loopback, written from the RFCs.

RFC 6749 (codes, refresh tokens), 6750 (bearer), 7591 (registration), 7636 (PKCE, S256 only), 8252 (loopback redirect),
8414 and 9728 (metadata), 8707 (resource), 9207 (``iss`` in the redirect). A refresh token works once.
"""

import base64
import contextlib
import hashlib
import json
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit


@dataclass
class Protected:
    """The knowledge of the two servers.

    :param expires_in: seconds after which an access token has expired, as its response says.
    :param registers: the authorization server registers clients.
    :param free: methods that need no token.
    :param rights: scopes that a call of a tool needs.
    :param denies: the person does not allow it.
    :param token_status: answered by the token endpoint in place of a token; 0 = it works.
    """

    expires_in: int = 3600
    registers: bool = True
    free: tuple[str, ...] = ()
    rights: str = ""
    denies: bool = False
    token_status: int = 0
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    access: dict[str, str] = field(default_factory=dict)
    refresh: dict[str, tuple[str, str]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    mcp: str = ""
    issuer: str = ""

    def revoke(self) -> None:
        """No token works any more."""
        self.access.clear()
        self.refresh.clear()


class _Handler(BaseHTTPRequestHandler):
    state: Protected
    protocol_version = "HTTP/1.1"

    def log_message(self, *words: Any) -> None:
        pass

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        raw = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(raw)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))


class _Resource(_Handler):
    def do_GET(self) -> None:
        if self.path == "/.well-known/oauth-protected-resource/mcp":
            self.answer(200, {"resource": self.state.mcp, "authorization_servers": [self.state.issuer]})
        else:
            self.answer(404 if self.path != "/mcp" else 405)

    def do_POST(self) -> None:
        body = self.body()
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.path != "/mcp":
            self.answer(404)
            return
        asked = json.loads(body)
        if token not in self.state.access and asked["method"] not in self.state.free:
            where = urlsplit(self.state.mcp)
            about = f"{where.scheme}://{where.netloc}/.well-known/oauth-protected-resource/mcp"
            self.answer(401, WWW_Authenticate=f'Bearer error="invalid_token", resource_metadata="{about}"')
            return
        if asked["method"] == "tools/call" and not {*self.state.rights.split()} <= {
            *self.state.access[token].split()
        }:
            challenge = f'Bearer error="insufficient_scope", scope="{self.state.rights}"'
            self.answer(403, WWW_Authenticate=challenge)
            return
        self.state.seen.append(asked["method"])
        if "id" not in asked:
            self.answer(202)
            return
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "vault", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "open", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": f"open, with {token}"}]},
            "ping": {},
        }
        reply = {"jsonrpc": "2.0", "id": asked["id"]}
        if asked["method"] in results:
            self.answer(200, {**reply, "result": results[asked["method"]]})
        else:
            self.answer(200, {**reply, "error": {"code": -32601, "message": "Method not found"}})


class _Issuer(_Handler):
    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        issuer, asked = self.state.issuer, {key: values[0] for key, values in query.items()}
        if path == "/.well-known/oauth-authorization-server":
            about = {
                "issuer": issuer,
                "authorization_endpoint": f"{issuer}/authorize",
                "token_endpoint": f"{issuer}/token",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
            }
            self.answer(
                200, about | ({"registration_endpoint": f"{issuer}/register"} if self.state.registers else {})
            )
        elif path == "/authorize":
            self.authorize(asked)
        else:
            self.answer(404)

    def authorize(self, asked: dict[str, str]) -> None:
        client = self.state.clients.get(asked.get("client_id", ""))
        sound = client and asked["redirect_uri"] in client["redirect_uris"]
        if (
            not sound
            or asked.get("code_challenge_method") != "S256"
            or asked.get("resource") != self.state.mcp
        ):
            self.answer(400, {"error": "invalid_request"})
            return
        back = {"state": asked["state"], "iss": self.state.issuer}
        if self.state.denies:
            back |= {"error": "access_denied", "error_description": "not today"}
        else:
            code = secrets.token_urlsafe()
            self.state.codes[code] = asked
            back |= {"code": code}
        self.answer(302, Location=f"{asked['redirect_uri']}?{urlencode(back)}")

    def do_POST(self) -> None:
        body = self.body()
        if self.path == "/register" and self.state.registers:
            client = {
                **json.loads(body),
                "client_id": secrets.token_urlsafe(8),
                "token_endpoint_auth_method": "none",
            }
            self.state.clients[client["client_id"]] = client
            self.answer(201, client)
        elif self.path == "/token":
            self.token({key: values[0] for key, values in parse_qs(body.decode()).items()})
        else:
            self.answer(404)

    def token(self, asked: dict[str, str]) -> None:
        if self.state.token_status:
            self.answer(self.state.token_status)
            return
        self.state.seen.append(asked["grant_type"])
        if asked["grant_type"] == "refresh_token":
            client, scope = self.state.refresh.pop(asked["refresh_token"], ("", ""))
            sound = client == asked["client_id"]
        else:
            code = self.state.codes.pop(asked["code"], {})
            scope = code.get("scope", "")
            digest = hashlib.sha256(asked["code_verifier"].encode()).digest()
            sound = (
                code.get("client_id") == asked["client_id"]
                and code["redirect_uri"] == asked["redirect_uri"]
                and base64.urlsafe_b64encode(digest).decode().rstrip("=") == code["code_challenge"]
            )
        if not sound or asked.get("resource") != self.state.mcp:
            self.answer(400, {"error": "invalid_grant"})
            return
        access, refresh = f"access-{secrets.token_urlsafe()}", f"refresh-{secrets.token_urlsafe()}"
        self.state.access[access] = scope
        self.state.refresh[refresh] = asked["client_id"], scope
        tokens = {"access_token": access, "token_type": "bearer", "refresh_token": refresh}
        self.answer(200, {**tokens, "expires_in": self.state.expires_in})


@contextlib.contextmanager
def protected(**about: Any) -> Iterator[Protected]:
    """Serve both, as long as the block runs."""
    state = Protected(**about)
    servers = [
        ThreadingHTTPServer(("127.0.0.1", 0), type(kind.__name__, (kind,), {"state": state}))
        for kind in (_Resource, _Issuer)
    ]
    state.mcp = f"http://127.0.0.1:{servers[0].server_address[1]}/mcp"
    state.issuer = f"http://127.0.0.1:{servers[1].server_address[1]}"
    for server in servers:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield state
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
