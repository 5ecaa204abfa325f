"""Logins at remote servers (OAuth). The servers are ``oauth_server.py``, written from the RFCs."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from claw import ClawError, HttpClients
from claw.cli.main import app
from claw_mcp.fleet import Fleet
from claw_mcp.login import log_in
from claw_mcp.logins import LoginFile
from claw_mcp.remote import RemoteServer
from claw_mcp.settings import ServerSettings
from plugins.mcp.oauth_server import Protected, protected
from plugins.mcp.servers import call, fleet, text
from typer.testing import CliRunner


def browse(address: str) -> None:
    """Open an address as a browser does: it follows the redirect back to claw."""
    try:
        urllib.request.urlopen(address, timeout=10).read()
    except urllib.error.HTTPError as refused:
        refused.read()


async def logged_in(
    server: Protected,
    tmp_path: Path,
    browser: Any = browse,
    *,
    learn: Any = lambda secrets: None,
    **more: Any,
) -> bool:
    """Log in as ``claw mcp login`` does; the person opens each address that is shown."""
    network, file = HttpClients(), LoginFile(tmp_path / "state" / "logins", "vault", server.mcp, learn)
    browsing = []

    def tell(line: str) -> None:
        if line.startswith("http"):
            browsing.append(asyncio.ensure_future(asyncio.to_thread(browser, line)))

    try:
        settings = ServerSettings.model_validate({"url": server.mcp, **more})
        return await log_in("vault", settings, file, network.client, tell=tell)
    finally:
        await asyncio.gather(*browsing)
        await network.aclose()


def at(server: Protected) -> dict[str, Any]:
    return {"vault": {"url": server.mcp}}


async def opened(ours: Fleet, tmp_path: Path) -> str:
    return text(await call(ours, "vault__open", tmp_path))


async def test_after_a_login_the_tools_work_and_the_tokens_are_private_and_masked(tmp_path: Path) -> None:
    learned: set[str] = set()
    with protected() as server:
        assert await logged_in(server, tmp_path, learn=learned.update)
        async with fleet(tmp_path, at(server)) as ours:
            assert await ours.connect(["vault"]) == {}
            assert (await opened(ours, tmp_path)).startswith("open, with access-")

        assert learned == {*server.access, *server.refresh}
    file = tmp_path / "state" / "logins" / "vault.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_an_expired_token_is_renewed_once_by_processes_that_use_it_at_the_same_time(
    tmp_path: Path,
) -> None:
    with protected(expires_in=-1) as server:
        await logged_in(server, tmp_path)
        server.expires_in = 3600
        async with fleet(tmp_path, at(server)) as one, fleet(tmp_path, at(server)) as two:
            failed = await asyncio.gather(one.connect(["vault"]), two.connect(["vault"]))

        assert failed == [{}, {}]
        assert server.seen.count("refresh_token") == 1


async def test_a_token_that_the_server_revoked_early_is_renewed_within_the_call(tmp_path: Path) -> None:
    with protected() as server:
        await logged_in(server, tmp_path)
        async with fleet(tmp_path, at(server)) as ours:
            await ours.connect(["vault"])
            server.access.clear()
            assert (await opened(ours, tmp_path)).startswith("open, with access-")


async def test_a_login_that_ended_is_named_with_the_command_by_the_call_that_needs_it(tmp_path: Path) -> None:
    with protected() as server:
        await logged_in(server, tmp_path)
        async with fleet(tmp_path, at(server)) as ours:
            await ours.connect(["vault"])
            server.revoke()
            said = await opened(ours, tmp_path)
            assert "its login has expired. The operator logs in with: claw mcp login vault" in said
            assert ours.record("vault").needs_login

            await logged_in(server, tmp_path)
        async with fleet(tmp_path, at(server)) as again:
            assert await again.connect(["vault"]) == {}
            assert not again.record("vault").needs_login


async def test_a_call_that_wants_further_rights_is_named_and_the_next_login_asks_for_them(
    tmp_path: Path,
) -> None:
    with protected(rights="open close") as server:
        await logged_in(server, tmp_path)
        async with fleet(tmp_path, at(server)) as ours:
            await ours.connect(["vault"])
            said = await opened(ours, tmp_path)
            assert (
                "it wants further rights: open close. The operator logs in with: claw mcp login vault" in said
            )

        await logged_in(server, tmp_path)
        async with fleet(tmp_path, at(server)) as ours:
            await ours.connect(["vault"])
            assert (await opened(ours, tmp_path)).startswith("open, with access-")


async def test_a_server_that_greets_everybody_and_lists_nothing_without_a_login_is_named_too(
    tmp_path: Path,
) -> None:
    with protected(free=("initialize", "notifications/initialized")) as server:
        async with fleet(tmp_path, at(server)) as ours:
            failed = await ours.connect(["vault"])
    assert "it asks for a login (HTTP 401)" in str(failed["vault"])


async def test_an_authorization_server_that_is_down_is_not_taken_for_an_expired_login(tmp_path: Path) -> None:
    with protected(expires_in=-1) as server:
        await logged_in(server, tmp_path)
        server.token_status, server.expires_in = 503, 3600
        async with fleet(tmp_path, at(server)) as ours:
            failed = await ours.connect(["vault"])
            assert "could not be renewed: the authorization server answered HTTP 503" in str(failed["vault"])
            server.token_status = 0
        async with fleet(tmp_path, at(server)) as ours:
            assert await ours.connect(["vault"]) == {}


async def test_a_token_is_not_sent_to_another_address_under_the_same_name(tmp_path: Path) -> None:
    with protected() as server, protected() as other:
        await logged_in(server, tmp_path)
        async with fleet(tmp_path, at(other)) as ours:
            failed = await ours.connect(["vault"])
        assert "it asks for a login (HTTP 401)" in str(failed["vault"])
        assert other.seen == []


async def test_a_person_who_does_not_allow_it_ends_the_login(tmp_path: Path) -> None:
    said = "the login at vault failed: access_denied: not today"
    with protected(denies=True) as server, pytest.raises(ClawError, match=said):
        await logged_in(server, tmp_path)
    assert not (tmp_path / "state" / "logins" / "vault.json").exists()


async def test_a_redirect_that_is_not_of_this_login_is_not_used(tmp_path: Path) -> None:
    def attacked(address: str) -> None:
        redirect = urllib.parse.parse_qs(urllib.parse.urlsplit(address).query)["redirect_uri"][0]
        browse(f"{redirect}?code=forged&state=forged")
        browse(address)

    with protected() as server:
        assert await logged_in(server, tmp_path, attacked)


async def test_a_server_without_registration_takes_the_configured_client_or_is_named(tmp_path: Path) -> None:
    with protected(registers=False) as server:
        with pytest.raises(
            ClawError, match=r"Registration failed.*Register a client there for http://127.*clientId"
        ):
            await logged_in(server, tmp_path)
        server.clients["ours"] = {"redirect_uris": ["http://127.0.0.1:33419/callback"]}
        configured = {"oauth": {"clientId": "ours", "redirectPort": 33419}}
        assert await logged_in(server, tmp_path, **configured)


async def test_a_registered_client_is_used_again_while_its_port_is_free(tmp_path: Path) -> None:
    with protected() as server:
        await logged_in(server, tmp_path)
        await logged_in(server, tmp_path)
        assert len(server.clients) == 1


async def test_an_authorization_server_without_https_is_asked_by_servers_of_this_machine_alone() -> None:
    network = HttpClients()
    remote = RemoteServer(ServerSettings.model_validate({"url": "https://mcp.example/mcp"}), network.client)
    async with remote.client() as client:
        asked = client.build_request("GET", "http://127.0.0.1:1/token", extensions={"claw-oauth": True})
        with pytest.raises(ClawError, match="has an address without https"):
            await client.send(asked)
    await network.aclose()


class Unfollowed(urllib.request.HTTPRedirectHandler):
    """A browser that cannot reach the address it is sent to."""

    def redirect_request(self, *about: Any) -> None:
        return None


class TestCommands:
    def claw(self, *words: str) -> Any:
        return CliRunner().invoke(app, ["mcp", *words])

    def test_a_server_that_asks_for_a_login_is_named_with_the_command(self, home: Path) -> None:
        with protected() as server:
            (home / "config.json").write_text(json.dumps({"mcpServers": at(server)}))
            refreshed = self.claw("refresh", "vault")
            listed = self.claw("list", "--json")
            shown = self.claw("list")
            checked = CliRunner().invoke(app, ["doctor"])

        assert refreshed.exit_code == 1
        assert "it asks for a login (HTTP 401)" in refreshed.output
        for said in (refreshed.output, shown.output, checked.output):
            assert "claw mcp login vault" in said
        [row] = json.loads(listed.output)["servers"]
        assert row["login"] == "needed"

    def test_the_redirected_address_may_be_typed_and_logout_removes_the_tokens(self, home: Path) -> None:
        with protected() as server:
            (home / "config.json").write_text(json.dumps({"mcpServers": at(server)}))
            command = [sys.executable, "-m", "claw", "mcp", "login", "vault", "--paste"]
            environ, pipe = {**os.environ, "CLAW_HOME": str(home)}, subprocess.PIPE
            with subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environ
            ) as running:
                assert running.stdin and running.stderr
                address = next(line for line in running.stderr if line.startswith("http"))
                with pytest.raises(urllib.error.HTTPError) as redirect:
                    urllib.request.build_opener(Unfollowed()).open(address.strip(), timeout=10)
                said, _ = running.communicate(redirect.value.headers["Location"] + "\n", timeout=30)
            file = home / "plugins" / "mcp" / "logins" / "vault.json"

            assert "logged in at vault\nvault: 1 tools" in said
            assert file.exists()
            assert json.loads(self.claw("list", "--json").output)["servers"][0]["login"] == "done"
            assert "removed" in self.claw("logout", "vault").output
            assert not file.exists()

    def test_a_program_has_no_login(self, home: Path) -> None:
        (home / "config.json").write_text(json.dumps({"mcpServers": {"time": {"command": "true"}}}))
        assert "only a server at an address has a login" in str(self.claw("login", "time").exception)
