"""An agent with default settings, for adapters that render a prompt."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from claw.config.agents import AgentSettings


def agent_in(folder: Path) -> Any:
    """Build the agent ``main``, whose workspace is ``folder``; every section has its defaults."""
    return SimpleNamespace(
        id="main",
        name="main",
        dir=folder / "agents" / "main",
        workspace=folder,
        settings=AgentSettings(),
        section=lambda key, model: model(),
    )
