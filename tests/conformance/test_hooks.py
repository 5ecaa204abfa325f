"""Our own answers to hooks keep to what pytest-claw asks of everybody's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import claw_approvals
import claw_budgets
import claw_context
import claw_gateway
import claw_http
import claw_loop_guard
import claw_models
import claw_prompted_tools
import claw_sessions
import pytest
from claw import Sender, ToolCall
from claw.agent.models import FirstModel
from claw.storage.clock import SYSTEM_CLOCK
from claw.storage.database import Database
from claw.storage.sessions import MemorySessionStore
from claw.storage.turn_log import NoTurnLog
from claw.testing import FakeChannel, FakeProvider, Harness, contributed, plugin_config
from pytest_claw import (
    ApproverSuite,
    ChatCommandSuite,
    ContextEngineSuite,
    MiddlewareSuite,
    ModelSelectorSuite,
    ObserverSuite,
    ReviewerSuite,
    ServiceSuite,
    SessionStoreSuite,
    TurnLogSuite,
)


def answer(plugin: Any, hook: str, folder: Path) -> Any:
    """The only answer of a plugin to a hook, with its state in a folder."""
    [found] = contributed(plugin, plugin_config({}, home=folder))[hook]
    return found


class TestLoopGuard(ReviewerSuite):
    calls = (ToolCall("c1", "read", {"file_path": "notes.txt"}),) * 40

    def make(self, folder: Path) -> Any:
        return answer(claw_loop_guard, "register_reviewers", folder)


@pytest.mark.parametrize(
    "plugin", [claw_budgets, claw_http, claw_prompted_tools], ids=lambda one: one.__name__
)
class TestMiddleware(MiddlewareSuite):
    @pytest.fixture(autouse=True)
    def _chosen(self, plugin: Any) -> None:
        self.plugin = plugin

    def make(self, folder: Path) -> Any:
        return answer(self.plugin, "register_provider_middleware", folder)


class TestModels(ModelSelectorSuite):
    def make(self, folder: Path) -> Any:
        return answer(claw_models, "register_model_selectors", folder)


class TestFirstModel(ModelSelectorSuite):
    def make(self, folder: Path) -> Any:
        return FirstModel()


class TestJournal(TurnLogSuite):
    def make(self, folder: Path) -> Any:
        return answer(claw_gateway, "register_turn_logs", folder)


class TestNoTurnLog(TurnLogSuite):
    durable = False

    def make(self, folder: Path) -> Any:
        return NoTurnLog(Database(folder / "state.db"))


class TestChannelService(ServiceSuite):
    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Any]:
        async with Harness(FakeProvider(), channels=[FakeChannel()]) as harness:
            yield harness.app

    def make(self, folder: Path) -> Any:
        return answer(claw_gateway, "register_services", folder)


COMMANDS = {
    command.name: command
    for plugin in (claw_approvals, claw_context, claw_gateway, claw_models, claw_sessions)
    for command in contributed(plugin, plugin_config()).get("register_chat_commands", ())
}


@pytest.mark.parametrize("name", COMMANDS)
class TestChatCommands(ChatCommandSuite):
    @pytest.fixture(autouse=True)
    def _chosen(self, name: str) -> None:
        self.command = COMMANDS[name]

    def make(self, folder: Path) -> Any:
        return self.command


class TestCompactingEngine(ContextEngineSuite):
    def make(self, folder: Path) -> Any:
        return answer(claw_context, "register_context_engines", folder)


class TestApprovals(ApproverSuite):
    def make(self, folder: Path) -> Any:
        tree = {"owners": ["fake:boss"]}
        [approver] = contributed(claw_approvals, plugin_config(tree, home=folder))["register_approvers"]

        async def show(question: Any) -> bool:
            return True

        approver.show_request = show
        return approver

    async def answer(self, approver: Any, allow: bool) -> None:
        for question in approver.pending():
            verdict = "once" if allow else "deny"
            approver.decide(question.id, verdict, channel="fake", sender=Sender("boss"), owner=True)


class TestToolLog(ObserverSuite):
    def make(self, folder: Path) -> Any:
        config = plugin_config({"logging": {"level": "debug"}}, home=folder)
        [observer] = contributed(claw_gateway, config)["register_observers"]
        return observer


class TestSessionsInFiles(SessionStoreSuite):
    def make(self, folder: Path) -> Any:
        return answer(claw_sessions, "register_session_stores", folder)


class TestSessionsInMemory(SessionStoreSuite):
    durable = False

    def make(self, folder: Path) -> Any:
        return MemorySessionStore(SYSTEM_CLOCK)
