"""Tool calls in the log of the gateway: one line each at level debug, without arguments and results."""

import logging
from pathlib import Path

import pytest
from claw import CallAccount, ToolBegan, ToolCall, ToolEnded, ToolResult, bill_to
from claw.runtime import Clock
from claw.testing import FakeChannel, FakeProvider, FakeTool, calls, combined, says
from claw_gateway.tool_log import ToolLog
from integration.test_serving import served, taken_in, until

LOGGER = "claw_gateway.tool_log"


async def logged_by(home: Path, caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """The lines of a turn with a call that succeeds, and one of a tool that there is not."""
    channel = FakeChannel()
    answer = combined(calls("look", path="secret-argument"), calls("nosuch"))
    tool = FakeTool("look", "secret-result", {"type": "object", "properties": {"path": {"type": "string"}}})
    with caplog.at_level(level, LOGGER):
        async with served(FakeProvider(answer, says("done")), channel, home=home, tools=[tool]) as harness:
            await taken_in(harness, channel, channel.says("go", "u1"))
            await until(lambda: channel.shown)
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


async def test_at_debug_each_call_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = await logged_by(tmp_path, caplog, logging.DEBUG)
    assert sorted(line.partition(" in ")[0] for line in lines) == ["tool look: ok", "tool nosuch: error"]
    assert all(line.endswith(" ms") for line in lines)


async def test_above_debug_there_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert await logged_by(tmp_path, caplog, logging.INFO) == []


async def test_no_argument_and_no_result_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert "secret-" not in "\n".join(await logged_by(tmp_path, caplog, logging.DEBUG))


async def test_two_turns_with_calls_of_the_same_id_are_told_apart(caplog: pytest.LogCaptureFixture) -> None:
    log = ToolLog(Clock(monotonic=iter((0.0, 1.0, 1.5, 3.0)).__next__))
    call = ToolCall("call_1", "look", {})
    with caplog.at_level(logging.DEBUG, LOGGER):
        for event in (ToolBegan(call), ToolEnded(call, ToolResult("done"))):
            for turn in ("t1", "t2"):
                bill_to(CallAccount(turn=turn))
                log.on_event(event)
    assert [record.getMessage() for record in caplog.records] == [
        "tool look: ok in 1500 ms",
        "tool look: ok in 2000 ms",
    ]
