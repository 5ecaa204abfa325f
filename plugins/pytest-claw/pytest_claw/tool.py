"""Conformance tests of every tool."""

import asyncio
import json
import time
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw import Tool, ToolContext, ToolResult, result_limit
from claw.testing import check_and_run, fit_result, tool_context, tool_faults

CANARY = "canary-7f3a91-of-pytest-claw"
SMALL_WINDOW_TOKENS = 8_000


class ToolSuite:
    """Nine promises of a tool. ``tool`` and ``sample`` are yours; the rest has defaults.

    :cvar tool: the tool under test; a property when it has to be made.
    :cvar sample: arguments of a call that works.
    :cvar huge: arguments of a call with a very long answer; the sample when left out.
    :cvar secrets: values that must never be in a result: the keys that the tool was set up with.
    :cvar strict: its parameters must fit OpenAI's strict mode; False for a tool that takes keys of any name.
    :cvar limit_seconds: within which a tool without a limit of its own must answer.
    :cvar grace_seconds: within which it must end when it is cancelled.
    :cvar most_chars: of a whole answer; a tool truncates longer ones by itself.
    """

    tool: Any = None
    sample: Mapping[str, Any] = {}
    huge: Mapping[str, Any] | None = None
    secrets: tuple[str, ...] = ()
    strict = True
    limit_seconds = 10.0
    grace_seconds = 1.0
    most_chars = 1_000_000

    def prepare(self, workspace: Path) -> None:
        """Put what the sample needs into ``workspace``."""

    def given(self, context: ToolContext) -> ToolContext:
        """Return the context, with what the tool needs of it."""
        return context

    def same(self, first: str, second: str) -> bool:
        """Return true if two answers are the same; override it for a tool that tells the time."""
        return first == second

    @pytest.fixture
    def context(self, tmp_path: Path) -> ToolContext:
        """Return the tool's context: an isolated workspace, prepared."""
        if not isinstance(self.tool, Tool):
            pytest.fail(f"{type(self).__name__}.tool is not set: tool = the tool to try")
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        self.prepare(workspace)
        return self.given(tool_context(workspace))

    # --- declaration

    def test_its_description_says_what_it_does(self, context: ToolContext) -> None:
        assert [fault.problem for fault in tool_faults(self.tool) if fault.rule == "description"] == []

    def test_every_model_service_can_be_offered_it(self, context: ToolContext) -> None:
        rules = {"name", "anthropic", "gemini", *(["openai-strict"] if self.strict else [])}
        assert [fault for fault in tool_faults(self.tool) if fault.rule in rules] == []

    # --- execution

    def test_its_sample_is_answered(self, context: ToolContext) -> None:
        result = run(self.call(context))
        assert not result.is_error, _said(result)

    def test_it_answers_within_its_time_limit(self, context: ToolContext) -> None:
        limit = self.tool.timeout_seconds or self.limit_seconds
        begun = time.monotonic()
        run(self.call(context))
        assert time.monotonic() - begun <= limit, f"its sample took longer than {limit:g} s"

    def test_it_ends_when_it_is_cancelled(self, context: ToolContext) -> None:
        async def cancelled() -> tuple[float, list[str]]:
            call = asyncio.ensure_future(self.call(context))
            await asyncio.sleep(0.02)
            begun = time.monotonic()
            call.cancel()
            await asyncio.wait({call}, timeout=self.limit_seconds)
            took = time.monotonic() - begun
            await asyncio.sleep(0)
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            return took, [str(task.get_coro()) for task in rest]

        took, left = run(cancelled())
        assert took <= self.grace_seconds, f"it went on for {took:.1f} s after it was cancelled"
        assert left == [], "it left tasks behind"

    def test_it_prints_nothing(self, context: ToolContext, capfd: pytest.CaptureFixture[str]) -> None:
        capfd.readouterr()
        run(self.call(context))
        assert capfd.readouterr().out == "", "stdout belongs to the command that is running"

    # --- results

    def test_no_secret_is_in_its_result(self, context: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CANARY_API_KEY", CANARY)
        said = _said(run(self.call(context)))
        shown = [secret for secret in (CANARY, *self.secrets) if secret in said]
        assert shown == [], "a secret came back"

    def test_a_huge_result_still_fits(self, context: ToolContext) -> None:
        result = run(self.call(context, self.sample if self.huge is None else self.huge))
        whole = sum(len(getattr(block, "text", "")) for block in result.blocks)
        limit = result_limit(SMALL_WINDOW_TOKENS)
        cut = fit_result(result, limit)
        assert whole <= self.most_chars, f"{whole} characters: cut it in the tool and say how to see the rest"
        assert sum(len(getattr(block, "text", "")) for block in cut.blocks) <= limit

    def test_calling_it_twice_is_as_harmless_as_it_says(self, context: ToolContext) -> None:
        if self.tool.effects == "once":
            pytest.skip("its effects are `once`: no second call")
        workspace = context.agent.workspace
        before = _files(workspace)
        first = _said(run(self.call(context)))
        between = _files(workspace)
        second = _said(run(self.call(context)))
        assert self.same(first, second), f"effects={self.tool.effects!r}, and the second answer is another"
        assert _files(workspace) == between, "the second call changed the workspace again"
        if self.tool.effects == "none":
            assert between == before, "effects='none', and it changed the workspace"

    async def call(self, context: ToolContext, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call the tool as claw does, without the time limit that claw would set."""
        unbound = replace(self.tool, timeout_seconds=None)
        return await check_and_run(unbound, dict(self.sample if arguments is None else arguments), context)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run to the end in a loop of its own."""
    return asyncio.run(coroutine)


def _said(result: ToolResult) -> str:
    blocks = "\n".join(getattr(block, "text", repr(block)) for block in result.blocks)
    return f"{blocks}\n{json.dumps(result.details, ensure_ascii=False, default=repr)}"


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
