"""The checks for ``claw doctor`` of each plugin of ours keep to what pytest-claw asks of everybody's."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from claw.host.manifest import installed_plugins
from claw.testing import contributed, plugin_config
from pytest_claw import DiagnosticSuite


class ChecksOf(DiagnosticSuite):
    """``tree``: the config file that the plugin is made for, where it needs one to have a check."""

    plugin = ""
    tree: Mapping[str, Any] = {}

    def make(self, folder: Path) -> Any:
        config = plugin_config(dict(self.tree), self.plugin, home=folder / "of-the-plugin")
        module: Any = import_module(f"claw_{self.plugin}")
        return contributed(module, config)["register_diagnostics"][0]


class TestChecksOfAdmin(ChecksOf):
    plugin = "admin"


class TestChecksOfGateway(ChecksOf):
    plugin = "gateway"


class TestChecksOfHttp(ChecksOf):
    plugin = "http"


class TestChecksOfMcp(ChecksOf):
    plugin = "mcp"


class TestChecksOfModels(ChecksOf):
    plugin = "models"


class TestChecksOfPrompt(ChecksOf):
    plugin = "prompt"


class TestChecksOfSessions(ChecksOf):
    plugin = "sessions"


class TestChecksOfSkills(ChecksOf):
    plugin = "skills"


class TestChecksOfTelegram(ChecksOf):
    plugin = "telegram"


class TestChecksOfBudgets(ChecksOf):
    plugin = "budgets"
    tree = {"budgets": {"all": {"usd": 1}}}  # noqa: RUF012


def test_every_plugin_with_checks_has_a_class() -> None:
    ours = {
        one.id for one in installed_plugins() if "diagnostic" in one.declares.kinds and one.is_first_party
    }
    assert {one.plugin for one in ChecksOf.__subclasses__()} == ours
