"""A tool of an MCP server. Each test starts the server: ``claw plugins grade plugins/mcp`` alone runs this."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from claw import ToolContext, ToolResult
from plugins.mcp.servers import THINGS, fleet
from pytest_claw import ToolSuite


class TestToolOfAServer(ToolSuite):
    sample = {"thing": "anvil"}  # noqa: RUF012
    grace_seconds = 5.0  # the end of the server is a part of each call here

    @pytest.fixture(autouse=True)
    async def _reached(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "plugins/mcp"
        (self.folder / "things").mkdir(parents=True)
        async with self.there() as ours:
            assert await ours.connect(["things"]) == {}
            [self.tool] = [tool for tool in ours.tools() if tool.name == "things__weigh"]

    def there(self) -> Any:
        server = {
            "command": sys.executable,
            "args": [str(THINGS), str(self.folder / "things")],
            "connectSeconds": 60,
        }
        return fleet(self.folder, {"things": server})

    async def call(self, context: ToolContext, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        async with self.there() as ours:
            [self.tool] = [tool for tool in ours.tools() if tool.name == "things__weigh"]
            return await super().call(context, arguments)
