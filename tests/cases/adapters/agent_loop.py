"""agent_loop: a scripted model and fake tools through the loop, every call through the product's gate."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from claw.agent.loop import LoopCallbacks, run_loop
from claw.agent.tool_gate import ToolGate
from claw.contracts.events import Event, MessageRecorded, RunEnded, StepEnded, ToolEnded
from claw.contracts.provider import Finished, ModelEvent
from claw.contracts.transcript import Assistant, Message, Text, ToolCall, ToolResultMessage, User
from claw.runtime import terminal_message
from claw.testing import FakeProvider, FakeTool, Harness

LAST_EVENTS = {"agent_end": RunEnded}
FUNCTIONS = ("claw.agent.loop:run_loop", "claw.agent.tool_gate:ToolGate.prepare")


async def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    async with Harness(
        FakeProvider(), tools=[_tool(tool, given["tool_execution"]) for tool in given["tools"]], home=tmp_path
    ) as harness:
        emitted: list[Event] = []

        async def note(event: Event) -> None:
            emitted.append(event)

        stage = await harness.app.resolve_turn(terminal_message(given["prompt"]))
        gate = ToolGate("t", stage, note)
        turns = iter(given["turns"])

        async def ask(messages: Sequence[Message], tool_choice: str) -> AsyncIterator[ModelEvent]:
            yield Finished(_answer(next(turns)))

        steps = LoopCallbacks(
            ask=ask,
            prepare=gate.prepare,
            emit=note,
            steer=_polled(given.get("steering", [])),
            follow_up=_polled(given.get("follow_up", [])),
        )
        await run_loop((), User((Text(given["prompt"]),)), steps)
    _compare(case["expect"], emitted)


def _tool(spec: dict[str, Any], execution: str) -> FakeTool | Any:
    assert execution in ("parallel", "sequential")
    schema = {"type": "object", "properties": {}, "required": spec.get("required", [])}
    result = RuntimeError(spec["throws"]) if "throws" in spec else spec["result"]
    fake: FakeTool | Any = FakeTool(spec["name"], result, schema)
    if execution == "sequential":
        fake = replace(fake.tool, parallel=False)
    if delay := spec.get("delay_ms"):

        async def slowly(arguments: dict[str, Any], context: Any) -> Any:
            await asyncio.sleep(delay / 1000)
            return spec["result"]

        return replace(getattr(fake, "tool", fake), run=slowly)
    return fake


def _answer(turn: dict[str, Any]) -> Assistant:
    calls = tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in turn["tool_calls"])
    text = (Text(turn["text"]),) if turn["text"] else ()
    return Assistant((*text, *calls), stop_reason=turn["stop_reason"], error=turn.get("error", ""))


def _polled(polls: list[list[str]]) -> Any:
    waiting = iter(polls)

    async def poll() -> Sequence[User]:
        return [User((Text(text),)) for text in next(waiting, [])]

    return poll


def _compare(expect: dict[str, Any], emitted: list[Event]) -> None:
    messages = [event.message for event in emitted if isinstance(event, MessageRecorded)]
    assert len(messages) == len(expect["messages"])
    for message, wanted in zip(messages, expect["messages"], strict=True):
        _same(message, wanted)
    ended = [event for event in emitted if isinstance(event, StepEnded)]
    assert len(ended) == expect["turns"] == expect["model_calls"]
    if "tool_end_order" in expect:
        assert [event.call.id for event in emitted if isinstance(event, ToolEnded)] == expect[
            "tool_end_order"
        ]
    assert isinstance(emitted[-1], LAST_EVENTS[expect["last_event"]])


def _same(message: Message, wanted: dict[str, Any]) -> None:
    if isinstance(message, User):
        assert wanted["role"] == "user"
        assert [block.text for block in message.content if isinstance(block, Text)] == [wanted["text"]]
    elif isinstance(message, Assistant):
        assert (wanted["role"], wanted["text"]) == ("assistant", message.text)
        assert wanted["stop_reason"] == message.stop_reason
        assert wanted["tool_calls"] == [call.id for call in message.tool_calls]
    else:
        assert isinstance(message, ToolResultMessage)
        assert (wanted["role"], wanted["tool_call_id"]) == ("tool_result", message.call_id)
        assert wanted["is_error"] == message.is_error
        if "text" in wanted:
            said = message.text.partition(" (plugin acme)")[
                0
            ]  # claw names the plugin, and the line of its code
            assert wanted["text"] == said
