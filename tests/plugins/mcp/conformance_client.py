"""The client for the conformance suite of MCP (npm, ``@modelcontextprotocol/conformance``): claw's servers and its login.

``conformance_client.py URL``; the suite says the scenario in ``MCP_CONFORMANCE_SCENARIO``, and keys for it in
``MCP_CONFORMANCE_CONTEXT``. The person allows everything.
"""

import asyncio
import json
import os
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from claw import HttpClients, Tool, ToolResult
from claw.testing import check_and_run, tool_context
from claw_mcp.fleet import Fleet
from claw_mcp.login import log_in
from claw_mcp.record import ServerRecords
from claw_mcp.sdk import SessionEnvironment
from claw_mcp.settings import McpSettings

ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}


async def allow(shown: str, title: str = "", binds: str = "") -> bool:
    return True


def browse(address: str) -> None:
    try:
        urllib.request.urlopen(address, timeout=10).read()
    except urllib.error.HTTPError as refused:
        refused.read()


async def call(tool: Tool, folder: Path) -> ToolResult:
    arguments = ARGUMENTS.get(tool.name.removeprefix("it__"), {})
    return await check_and_run(tool, arguments, tool_context(folder, ask=allow))


async def conform(folder: Path, server: dict[str, Any]) -> None:
    """Reach the server, log in when it asks for that, and call each of its tools."""
    network, opened = HttpClients(), []

    def tell(line: str) -> None:
        if line.startswith("http"):
            opened.append(asyncio.ensure_future(asyncio.to_thread(browse, line)))

    settings = McpSettings.model_validate({"mcpServers": {"it": server}})
    place = SessionEnvironment(folder / "work", {"PATH": os.environ["PATH"]}, network.client)
    for logins_left in (2, 1, 0):
        fleet = Fleet(settings, ServerRecords(folder), place)
        try:
            failed = await fleet.connect(["it"])
            results = [] if failed else [await call(tool, folder) for tool in fleet.tools()]
            if not fleet.record("it").needs_login:
                break
        finally:
            await fleet.close()
        if logins_left:
            login = fleet.login("it")
            assert login
            await log_in("it", settings.servers["it"], login, network.client, tell=tell)
    await network.aclose()
    print({name: str(why) for name, why in failed.items()}, results, file=sys.stderr)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    keys = {"clientId": context.get("client_id"), "clientSecret": context.get("client_secret")}
    oauth = {key: value for key, value in keys.items() if value}
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(conform(Path(folder), {"url": sys.argv[1], "oauth": oauth}))
