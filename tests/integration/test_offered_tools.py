"""The tools that a model is offered fit each other, and a call with a wrong name gets the nearest one."""

from typing import Any

import claw_tools_std
import pytest
from claw.testing import FakeProvider, FakeTool, Harness, calls, says

FULL: dict[str, Any] = {"tools": {"exec": {"mode": "full"}}}


def standard(model: FakeProvider, installed: bool = False, **tools: Any) -> Harness:
    """Return a harness with the standard tools: of their code, or, ``installed``, of their manifest."""
    config = {"tools": {**FULL["tools"], **tools}}
    plugins = {} if installed else {"tools-std": claw_tools_std}
    return Harness(model, plugins=plugins, installed=installed, config=config)


def offered(model: FakeProvider) -> dict[str, Any]:
    return {tool.name: tool for tool in model.requests[0].request.tools}


@pytest.mark.parametrize("installed", [False, True])
async def test_exec_offers_a_background_only_beside_process(installed: bool) -> None:
    model = FakeProvider(says("ok"), says("ok"))
    async with standard(model, installed) as harness:
        await harness.send("hi")
        assert "background" in offered(model)["exec"].parameters["properties"]
        assert "`process`" in offered(model)["exec"].description


@pytest.mark.parametrize("installed", [False, True])
async def test_without_process_exec_offers_no_background_and_takes_none(installed: bool) -> None:
    model = FakeProvider(
        calls("exec", command="true", background=True), calls("exec", command="echo done"), says("ok")
    )
    async with standard(model, installed, deny=["process"]) as harness:
        await harness.send("hi")

        assert "process" not in offered(model)
        assert "background" not in offered(model)["exec"].parameters["properties"]
        assert "process" not in offered(model)["exec"].description
        assert "background: unknown argument" in model.requests[1].tool_results[0].text
        assert "done" in model.requests[2].tool_results[-1].text


async def test_a_stopped_command_does_not_advise_the_background() -> None:
    model = FakeProvider(calls("exec", command="sleep 20", timeout=0.2), says("ok"))
    async with standard(model) as harness:
        await harness.send("hi")
        assert "raise timeout]" in model.requests[1].tool_results[0].text


@pytest.mark.parametrize(
    ("called", "answer"),
    [
        ("Peek", "Tool Peek not found. Did you mean peek?"),
        ("peak", "Tool peak not found. Did you mean peek?"),
        ("teleport", "Tool teleport not found"),
    ],
)
async def test_a_call_with_a_wrong_name_gets_the_nearest_one(called: str, answer: str) -> None:
    peek = FakeTool("peek", "text")
    model = FakeProvider(calls(called), says("ok"))
    async with Harness(model, tools=[peek]) as harness:
        await harness.send("hi")

        [result] = model.requests[1].tool_results
        assert result.is_error and result.text == answer
        assert peek.calls == []


async def test_message_describes_its_arguments_and_has_no_empty_defaults() -> None:
    model = FakeProvider(says("ok"))
    async with standard(model) as harness:
        await harness.send("hi")

    properties = offered(model)["message"].parameters["properties"]
    assert "to" not in properties
    assert [name for name, one in properties.items() if one.get("default") == ""] == []
    assert {"target", "message_id", "emoji", "remove", "options"} <= {
        name for name, one in properties.items() if one.get("description")
    }


async def test_apply_patch_describes_the_whole_grammar() -> None:
    model = FakeProvider(says("ok"))
    async with standard(model) as harness:
        await harness.send("hi")

    description = offered(model)["apply_patch"].description
    for word in ("Begin Patch", "Add File", "Delete File", "Update File", "@@", "-old", "+new", "End Patch"):
        assert word in description
