"""The commands of each plugin of ours keep to what pytest-claw asks of everybody's."""

from importlib import import_module
from pathlib import Path
from typing import Any

from claw.host.manifest import installed_plugins
from pytest_claw import CommandSuite


class CommandsOf(CommandSuite):
    package = ""

    def make(self, folder: Path) -> Any:
        return import_module(self.package)


class TestCommandsOfAdmin(CommandsOf):
    package = "claw_admin"


class TestCommandsOfApprovals(CommandsOf):
    package = "claw_approvals"


class TestCommandsOfAuthor(CommandsOf):
    package = "claw_author"


class TestCommandsOfBudgets(CommandsOf):
    package = "claw_budgets"


class TestCommandsOfContext(CommandsOf):
    package = "claw_context"


class TestCommandsOfGateway(CommandsOf):
    package = "claw_gateway"


class TestCommandsOfLlmBridge(CommandsOf):
    package = "claw_llm_bridge"


class TestCommandsOfLocal(CommandsOf):
    package = "claw_local"


class TestCommandsOfMcp(CommandsOf):
    package = "claw_mcp"


class TestCommandsOfMemory(CommandsOf):
    package = "claw_memory"


class TestCommandsOfModels(CommandsOf):
    package = "claw_models"


class TestCommandsOfPrompt(CommandsOf):
    package = "claw_prompt"


class TestCommandsOfSessions(CommandsOf):
    package = "claw_sessions"


class TestCommandsOfSkills(CommandsOf):
    package = "claw_skills"


class TestCommandsOfTerminal(CommandsOf):
    package = "claw_terminal"


def test_every_plugin_with_commands_has_a_class() -> None:
    ours = {one.package for one in installed_plugins() if one.declares.commands and one.is_first_party}
    assert {one.package for one in CommandsOf.__subclasses__()} == ours
