"""Small parts of our plugins keep to what pytest-claw asks of everybody's: a reviewer, a filter, services, memory."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import claw_approvals
import claw_gateway
import claw_http
import claw_memory
import claw_sessions
import pytest
from claw import ToolContext
from claw.testing import FakeProvider, Harness, contributed, plugin_config
from claw_memory.section import recall_section
from plugins.memory.living import agent, context as of_agent, note
from pytest_claw import FilterSuite, ReviewerSuite, SectionSuite, ServiceSuite, ToolSuite


def answer(plugin: Any, hook: str, folder: Path, tree: dict[str, Any] | None = None) -> Any:
    [found] = contributed(plugin, plugin_config(tree or {}, home=folder))[hook]
    return found


class TestApprovalRule(ReviewerSuite):
    def make(self, folder: Path) -> Any:
        return answer(
            claw_approvals, "register_reviewers", folder, {"approvals": {"tools": ["exec", "write"]}}
        )


class TestMetadata(FilterSuite):
    def make(self, folder: Path) -> Any:
        return answer(claw_gateway, "register_filters", folder)


class TestRetention(ServiceSuite):
    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[Any]:
        async with Harness(FakeProvider()) as harness:
            yield harness.app

    def make(self, folder: Path) -> Any:
        return answer(claw_sessions, "register_services", folder)


class TestShortSessions(ServiceSuite):
    def make(self, folder: Path) -> Any:
        return answer(claw_http, "register_services", folder, {"channels": {"http": {"enabled": True}}})


class TestRecall(SectionSuite):
    section = recall_section(lambda agent: None)


@pytest.mark.parametrize("name", ["memory_search", "memory_get"])
class TestMemory(ToolSuite):
    @pytest.fixture(autouse=True)
    def _chosen(self, name: str, tmp_path: Path) -> Iterator[None]:
        config = plugin_config({}, "memory", home=tmp_path)
        tools = {one.name: one for one in contributed(claw_memory, config)["register_tools"]}
        self.tool = tools[name]
        self.sample = {"memory_search": {"query": "dentist"}, "memory_get": {"path": "MEMORY.md"}}[name]
        note(tmp_path, "MEMORY.md", "The dentist is at 5.\n" * 200)
        self.home = tmp_path
        yield
        asyncio.run(tools["memory_search"].close())

    def given(self, context: ToolContext) -> ToolContext:
        return of_agent(self.home, agent(self.home, provider="off"))
