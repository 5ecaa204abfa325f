"""Our own plugins keep to what pytest-claw asks of everybody's; the channels in ``test_channels.py``."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import claw_anthropic
import claw_google
import claw_mistral
import claw_openai
import claw_prompt
import claw_skills
import claw_tools_std
import pytest
from claw import PromptFacts, Tool, ToolContext, terminal
from claw.testing import contributed, plugin_config
from claw_testing.services import AnthropicService, OpenAIService
from pytest_claw import FaultSuite, ProviderSuite, SectionSuite, ToolSuite
from typed import TypedGoogleService, TypedMistralService

CONFIG = plugin_config({"tools": {"exec": {"mode": "full"}}})  # nobody is there who could allow a command
TOOLS = {tool.name: tool for tool in contributed(claw_tools_std, CONFIG)["register_tools"]}
CLOCK = re.compile(r"\d\d:\d\d:\d\d(\.\d+)?")
STATUS = {"time": "10:00", "model": "fake/m1", "context_tokens": 1000, "used_tokens": 10, "zone": "UTC"}
SAMPLES: dict[str, dict[str, Any]] = {
    "read": {"file_path": "notes.txt"},
    "write": {"file_path": "new.txt", "content": "hello"},
    "edit": {"file_path": "notes.txt", "old_text": "first", "new_text": "1st"},
    "apply_patch": {
        "input": "*** Begin Patch\n*** Update File: notes.txt\n@@\n-first line\n+1st line\n*** End Patch"
    },
    "ls": {},
    "grep": {"pattern": "line"},
    "find": {"pattern": "*.txt"},
    "exec": {"command": "echo hello"},
    "process": {"action": "list"},
    "message": {"message": "on my way"},
    "session_status": {},
}


@pytest.mark.parametrize("name", TOOLS)
class TestToolsStd(ToolSuite):
    @pytest.fixture(autouse=True)
    def _chosen(self, name: str) -> None:
        self.tool, self.sample = TOOLS[name], SAMPLES[name]
        self.huge = {"read": {"file_path": "long.txt"}, "exec": {"command": "seq 300000"}}.get(name)

    def prepare(self, workspace: Path) -> None:
        (workspace / "notes.txt").write_text("first line\nsecond line\n")
        (workspace / "long.txt").write_text("a line of some length\n" * 100_000)

    def given(self, context: ToolContext) -> ToolContext:
        return replace(context, status=STATUS)

    def same(self, first: str, second: str) -> bool:
        return CLOCK.sub("", first) == CLOCK.sub("", second)


def test_every_standard_tool_is_tried() -> None:
    assert sorted(TOOLS) == sorted(SAMPLES)
    assert all(isinstance(tool, Tool) for tool in TOOLS.values())


STANDARD = contributed(claw_prompt, plugin_config(plugin_id="prompt"))["register_prompt_sections"]
BUILTIN = {f"core {section.name}": section for section in terminal.register_prompt_sections(plugin_config())}
BUILTIN |= {section.name: section for section in STANDARD}


@pytest.mark.parametrize("name", BUILTIN)
class TestBuiltinSections(SectionSuite):
    @pytest.fixture(autouse=True)
    def _chosen(self, name: str) -> None:
        self.section = BUILTIN[name]


class TestSkillsSection(SectionSuite):
    section = contributed(claw_skills, plugin_config(plugin_id="skills"))["register_prompt_sections"][0]
    may_ask_clock = True  # it holds the age of a file against it

    def facts(self, workspace: Path) -> PromptFacts:
        for name in ("stocks", "weather"):
            folder = workspace / "skills" / name
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Ask for {name}.\n---\nDo.\n")
        facts = super().facts(workspace)
        assert "weather" in self.section.render(facts)
        return facts


class TestAnthropic(ProviderSuite):
    plugin, name, service = claw_anthropic, "anthropic", AnthropicService
    limit_seconds = 0.3


class TestOpenAIChat(ProviderSuite):
    plugin, name, service = claw_openai, "openai", OpenAIService
    limit_seconds = 0.3


class TestOpenAIResponses(TestOpenAIChat):
    section = {"api": "responses"}  # noqa: RUF012


class TestGoogle(ProviderSuite):
    plugin, name, service = claw_google, "google", TypedGoogleService
    limit_seconds = 0.3


class TestMistral(ProviderSuite):
    plugin, name, service = claw_mistral, "mistral", TypedMistralService
    limit_seconds = 0.3


class TestFaultsOfAnthropic(FaultSuite):
    plugin, name, service = claw_anthropic, "anthropic", AnthropicService


class TestFaultsOfOpenAIChat(FaultSuite):
    plugin, name, service = claw_openai, "openai", OpenAIService


class TestFaultsOfOpenAIResponses(TestFaultsOfOpenAIChat):
    section = {"api": "responses"}  # noqa: RUF012


class TestFaultsOfGoogle(FaultSuite):
    plugin, name, service = claw_google, "google", TypedGoogleService
    # Its streams have no end mark, and older models gave a reason to stop with each of their words.
    fault_ends = dict.fromkeys(("two end marks", "events behind the end"), "")


class TestFaultsOfMistral(FaultSuite):
    plugin, name, service = claw_mistral, "mistral", TypedMistralService
