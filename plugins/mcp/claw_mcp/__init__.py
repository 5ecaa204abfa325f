"""Tools of MCP servers for claw: from programs on this machine and over streamable HTTP, through the same policy.

What a server offers is noted in the plugin's folder when it is first reached; a start reads only that. A server is
started, and the SDK imported, at the first call of one of its tools.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from claw import hookimpl

if TYPE_CHECKING:
    from claw import PluginConfig, Tool

_log = logging.getLogger(__name__)


@hookimpl
def register_tools(config: "PluginConfig") -> "Iterable[Tool]":
    from claw_mcp.settings import McpSettings

    settings = config.plugin(McpSettings)
    if not settings.servers:
        return []
    from claw_mcp import start

    fleet = start.fleet(config, settings)
    for line in start.introduce(config, settings, fleet):
        _log.warning(line)
    return fleet.tools()


@hookimpl
def register_commands(app: Any) -> None:
    from claw_mcp.commands import mcp_app

    app.add_typer(mcp_app, name="mcp")
