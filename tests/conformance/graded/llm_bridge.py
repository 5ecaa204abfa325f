"""A tool of an llm plugin. Each test reads the plugins in a process: ``claw plugins grade plugins/llm-bridge`` alone runs
this.
"""

from pathlib import Path

import pytest
from plugins.llm_bridge.test_llm_bridge import Shop, shop, things, tools  # noqa: F401  fixtures
from pytest_claw import ToolSuite


class TestToolOfAPlugin(ToolSuite):
    sample = {"thing": "anvil"}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _found(self, things: Shop, tmp_path: Path) -> None:  # noqa: F811
        self.tool = tools(tmp_path / "plugins/llm-bridge")["things__weigh"]
