"""Tools of MCP servers for claw: local programs and servers over HTTP, under the same tool policy.

The tools of a server are recorded in the plugin's folder when it is first reached; a start reads only that
record. A server is started, and the SDK imported, at the first call of one of its tools.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import Diagnostic, PluginConfig, Tool


@hookimpl
def register_tools(config: "PluginConfig") -> "Iterable[Tool]":
    from claw_mcp.plugin_servers import read_settings

    settings = read_settings(config)
    if not settings.servers:
        return []
    from claw_mcp import start

    fleet = start.fleet(config, settings)
    start.reach_new_servers(config, settings, fleet)
    config.faults.extend(settings.config_faults.values())
    if fault := start.server_fault(settings, fleet):
        config.faults.append(fault)
    return fleet.tools() if start.has_sdk() else []


@hookimpl
def register_diagnostics(config: "PluginConfig") -> "Iterable[Diagnostic]":
    """Contribute the check of the MCP SDK and of the servers."""
    from claw_mcp import start
    from claw_mcp.plugin_servers import read_settings

    settings = read_settings(config)
    return [start.ServerDiagnostic(settings, start.fleet(config, settings))]


@hookimpl
def register_commands(app: Any) -> None:
    from claw_mcp.commands import mcp_app

    app.add_typer(mcp_app, name="mcp")
