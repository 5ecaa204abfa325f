"""A sandbox for the commands of agents: bubblewrap, with the workspace as the only folder that can be written."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from claw import hookimpl

if TYPE_CHECKING:
    from claw import PluginConfig, Sandbox


@hookimpl
def register_sandboxes(config: "PluginConfig") -> "Iterable[Sandbox]":
    """Contribute ``bubblewrap``."""
    from claw_sandbox.bubblewrap import Bubblewrap
    from claw_sandbox.settings import SandboxConfig

    return [Bubblewrap(config.home, config.environ, network=config.plugin(SandboxConfig).network)]
