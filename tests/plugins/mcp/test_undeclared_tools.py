"""A plugin whose tools nobody can declare beforehand: when the file uses it, and when it stays a line in the list."""

from typing import Any

import pytest
from claw.config.summary import outline_config
from claw.host.manifest import InstalledPlugin, Manifest, ToolDeclaration, short_forms
from claw.host.state import decide_states

LATER = InstalledPlugin(
    "mcp",
    "claw_mcp",
    "claw-mcp",
    "1",
    manifest=Manifest("mcp", kinds=("tool", "command"), short_keys=("mcpServers",)),
)
OTHER = InstalledPlugin(
    "acme", "acme", "acme", "1", manifest=Manifest("acme", tools=(ToolDeclaration("acme_go", optional=True),))
)


def state(tree: dict[str, Any]) -> tuple[str, bool]:
    later = decide_states((LATER, OTHER), outline_config(tree, short_forms((LATER, OTHER))), ())[0]
    return later.state, later.eager


@pytest.mark.parametrize(
    "tree",
    [
        {"mcpServers": {"things": {"command": "things"}}},
        {"plugins": {"entries": {"mcp": {"config": {"mcpServers": {"things": {"command": "things"}}}}}}},
        {"tools": {"alsoAllow": ["mcp"]}},
        {"tools": {"alsoAllow": ["group:plugins"]}},
        {"agents": {"list": [{"id": "a", "tools": {"allow": ["things__weigh"]}}]}},
    ],
)
def test_it_is_loaded_when_the_file_has_settings_for_it_or_names_what_nobody_else_declares(tree: Any) -> None:
    assert state(tree) == ("loaded", True)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"mcpServers": {}},
        {"tools": {"allow": ["read", "group:fs", "things__*", "*"]}},
        {"tools": {"alsoAllow": ["acme", "acme_go"]}},
    ],
)
def test_it_is_idle_when_every_word_of_the_file_is_somebody_elses(tree: Any) -> None:
    assert state(tree) == ("idle", False)
