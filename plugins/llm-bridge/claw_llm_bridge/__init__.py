"""Tools of installed llm plugins for claw: functions and toolboxes become optional tools.

Their tools are listed once, in a separate process, and recorded; ``llm`` itself is imported at the first
call.
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
    from claw_llm_bridge.bridge import tools_of
    from claw_llm_bridge.catalogue import BridgeSettings, PluginCatalogue

    settings = config.plugin(BridgeSettings)
    catalogue = PluginCatalogue(config.state_dir, settings, config.environ)
    plugins, fresh = catalogue.current()
    for plugin in plugins if fresh else ():
        if plugin.why:
            _log.warning("llm-bridge: %s is left out: %s (claw llm-bridge list)", plugin.name, plugin.why)
        for box, why in plugin.unopened.items():
            template = "llm-bridge: the toolbox %s of %s is left out: %s (claw llm-bridge list)"
            _log.warning(template, box, plugin.name, why)
    return tools_of(plugins, settings)


@hookimpl
def register_commands(app: Any) -> None:
    from claw_llm_bridge.commands import bridge_app

    app.add_typer(bridge_app, name="llm-bridge")
