"""The settings: servers of the config file, and those that plugins ship (``mcpServers`` of their manifests). No code of
these plugins is imported.
"""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from claw import ClawError, PluginError
from claw.runtime import PluginState, plugin_states
from pydantic import ValidationError

from claw_mcp.settings import McpSettings

if TYPE_CHECKING:
    from claw import PluginConfig

FOLDER, PYTHON = "${PLUGIN_FOLDER}", "${PYTHON}"
"""Placeholders of a shipped server: the folder of the plugin's package, and the Python that claw runs in."""


def read_settings(config: "PluginConfig") -> McpSettings:
    """Read the settings of this plugin, and the servers of other plugins; errors about servers name the keys as they are
    written. A malformed server of a plugin is a fault of ``config``.

    :raises ConfigError: a key is wrong.
    """
    settings = config.plugin(McpSettings)
    for server in settings.mcp_servers.values():
        server._section = config.key_of("plugins", "entries", config.plugin_id, "config", "mcpServers")
    settings, faults = with_shipped(settings, _installed(config))
    config.faults.extend(faults)
    return settings


def with_shipped(settings: McpSettings, states: Iterable[PluginState]) -> tuple[McpSettings, list[ClawError]]:
    """Return the settings with the servers that plugins ship, and an error for each that is malformed.

    A server of the config file replaces a shipped one of the same name; of two plugins the first by id is used.
    """
    servers, faults = dict(settings.mcp_servers), list[ClawError]()
    for state, name, written in _shipped(states):
        if name in servers:
            continue
        try:
            read = McpSettings.model_validate({"mcpServers": {name: _filled(written, state.found.folder)}})
        except ValidationError as why:
            cause = why.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, cause["loc"][2:]))
            problem = "its MCP server {name} is malformed: {why}"
            said = f"{place}: {cause['msg']}" if place else cause["msg"]
            faults.append(PluginError(state.id, "find", problem, "update the plugin", name=name, why=said))
            continue
        servers[name] = read.mcp_servers[name].shipped_by(state.id, written)
    return settings.model_copy(update={"mcp_servers": servers}), faults


def _installed(config: "PluginConfig") -> tuple[PluginState, ...]:
    """Return the states of the installed plugins. Where the config file cannot be read, because somebody is changing it,
    there is none until it is loaded again.
    """
    try:
        return plugin_states({**config.environ, "CLAW_HOME": str(config.home)})
    except ClawError:
        return ()


def _shipped(states: Iterable[PluginState]) -> Iterator[tuple[PluginState, str, dict[str, Any]]]:
    for state in states:
        if state.is_usable and state.found.folder:
            yield from ((state, name, written) for name, written in state.found.declares.mcp_servers.items())


def _filled(written: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    """Return a server with its placeholders filled in. Its Python finds what the plugin's package finds."""
    values = {FOLDER: str(folder), PYTHON: sys.executable}
    text = json.dumps(written)
    for placeholder, value in values.items():
        text = text.replace(placeholder, json.dumps(value)[1:-1])
    server: dict[str, Any] = json.loads(text)
    if written.get("command") == PYTHON and folder:
        package_root = [entry for entry in sys.path if entry and folder.is_relative_to(entry)]
        env = {"PYTHONPATH": os.pathsep.join(package_root[:1])}
        server["env"] = env | dict(server.get("env") or {})
    return server
