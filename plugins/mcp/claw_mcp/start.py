"""Creation of the fleet of servers, and the first contact with new ones."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Any

from claw import ClawError, DiagnosticContext, Finding, HttpClients

from claw_mcp.connection import END_SECONDS, Unreachable
from claw_mcp.fleet import Fleet
from claw_mcp.record import ServerRecords
from claw_mcp.repair import commands, install_words
from claw_mcp.sdk import SDK, SessionEnvironment, program
from claw_mcp.settings import McpSettings, ServerSettings

if TYPE_CHECKING:
    from claw import PluginConfig


def fleet(config: "PluginConfig", settings: McpSettings) -> Fleet:
    """Return the configured servers. The secrets of the logins at them are masked from now on."""
    place = SessionEnvironment(config.state_dir / "work", config.environ, config.http, config.learn_secrets)
    servers = Fleet(settings, ServerRecords(config.state_dir), place)
    for name in servers.servers:
        if login := servers.login(name):
            login.read()
    return servers


def reach_new_servers(config: "PluginConfig", settings: McpSettings, known: Fleet) -> None:
    """Reach the servers that were never reached, once, within the time limit of a start, and record the outcome."""
    if has_sdk() and settings.first_connect_seconds and (names := known.unreached()):
        connect(config, settings, names, settings.first_connect_seconds)


def server_fault(settings: McpSettings, known: Fleet) -> ClawError | None:
    """Return why configured servers cannot be used: the SDK is not installed, or the last contact with them failed."""
    if settings.servers and not has_sdk():
        return ClawError(
            "the MCP SDK is not installed, so no tool of {names} can run",
            fix="{command}",
            names=[*settings.servers],
            command=install_words(sys.executable, SDK),
        )
    faults = settings.config_faults
    failed = {
        name: record.why
        for name in settings.servers
        if name not in faults and (record := known.record(name)).why
    }
    commands = [f"claw mcp login {name}" for name in failed if known.record(name).needs_login]
    if others := [name for name in failed if not known.record(name).needs_login]:
        commands.append(f"claw mcp refresh {' '.join(others)}")
    why, command = "; ".join(failed.values()), "; ".join(commands)
    return ClawError("{why}", fix="{command}", why=why, command=command) if failed else None


def has_sdk() -> bool:
    """Return true if the MCP SDK is installed."""
    return find_spec("mcp") is not None


def connect(
    config: "PluginConfig", settings: McpSettings, names: Iterable[str], seconds: float | None = None
) -> dict[str, ClawError]:
    """Reach servers from outside of any event loop, record their tools, and disconnect.

    :returns: those that could not be reached, and why.
    """
    failed: dict[str, ClawError] = {}

    async def all_of_them() -> None:
        async with short_fleet(config, settings) as there:
            failed.update(await there.connect(names, seconds))

    # In a thread of its own: the caller may run in an event loop, and a server that hangs is not waited for.
    thread = Thread(target=lambda: asyncio.run(all_of_them()), name="claw-mcp-connect", daemon=True)
    thread.start()
    thread.join(None if seconds is None else seconds + END_SECONDS)
    return dict(failed)


@asynccontextmanager
async def short_fleet(config: "PluginConfig", settings: McpSettings) -> AsyncIterator[Fleet]:
    """Yield the servers for one event loop; end their sessions and connections behind the block."""
    async with short_network() as http:
        place = SessionEnvironment(config.state_dir / "work", config.environ, http, config.learn_secrets)
        there = Fleet(settings, ServerRecords(config.state_dir), place)
        try:
            yield there
        finally:
            await there.close()


@asynccontextmanager
async def short_network() -> AsyncIterator[Callable[..., Any]]:
    """Yield the HTTP clients for configured addresses (``PluginConfig.http``); close them behind the block."""
    network = HttpClients()
    try:
        yield network.client
    finally:
        await network.aclose()


def fixes(name: str, server: ServerSettings, why: ClawError) -> list[str]:
    """Return the commands that may fix a server; the last one tries again."""
    again = f"claw mcp refresh {name}"
    if getattr(why, "needs_login", False):
        return [f"claw mcp login {name}"]
    if not isinstance(why, Unreachable) or not server.command:
        return [again]
    try:
        path = program(server.command, os.environ.get("PATH", ""))
    except ClawError:
        return [again]
    return [*commands(path, server.args, why.said), again]


class ServerDiagnostic:
    """The diagnostic of this plugin: the SDK without which no server can be reached, and servers that were not."""

    name = "mcp"

    def __init__(self, settings: McpSettings, known: Fleet) -> None:
        self._settings, self._fleet = settings, known

    def check(self, context: DiagnosticContext) -> list[Finding]:
        """Report configured servers that cannot work, in the words of the plugin's state (:func:`server_fault`)."""
        fault = server_fault(self._settings, self._fleet)
        return [Finding("mcp", "server", fault.problem, fault.fix)] if fault else []

    def check_config(self, setup: object) -> list[Finding]:
        """Report working folders and programs that are not there."""
        faults = self._settings.config_faults.values()
        return [
            Finding(fault.key, fault.key.rpartition(".")[2], fault.problem, fault.fix) for fault in faults
        ]
