"""Context engines: a third party's by its slot, core's own without a plugin, and one that fails."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from claw import hookimpl
from claw.agent.turn_context import TurnOptions
from claw.contracts.errors import ClawError, PluginError, ProviderError
from claw.contracts.events import Notice
from claw.contracts.transcript import ToolResultMessage, User, pair
from claw.host.isolation import Timeouts
from claw.runtime import terminal_message
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from claw_channel_sdk.chat_commands import run_chat_command
from claw_context.chat_commands import compact_conversation
from claw_terminal.command import TerminalConversation

ALONE = {"plugins": {"entries": {"context": {"enabled": False}}}}
"""A claw without the plugin claw-context."""
LONG = "a fact of some length that fills the window. " * 60  # about 675 tokens


class Engine:
    """A third party's context engine: it shows the newest message only, and notes what it is asked."""

    name = "forgetful"

    def __init__(self) -> None:
        self.turns: list[Any] = []
        self.kept: list[str] = []

    def wrap(self, call: Any, turn: Any) -> Any:
        self.turns.append(turn)
        return lambda messages, tool_choice: call(messages[turn.start :], tool_choice)

    async def compact(self, turn: Any, focus: str) -> str:
        return f"forgot all of {turn.session_key} but {focus}"

    async def before_reset(self, turn: Any) -> None:
        self.turns.append(turn)

    async def keep_result(self, text: str, limit: int, folder: Any, name: str) -> str:
        self.kept.append(text)
        return "\n[the rest is kept]"


class Broken(Engine):
    """An engine that raises wherever it is asked."""

    name = "broken"

    def wrap(self, call: Any, turn: Any) -> Any:
        async def ask(messages: Sequence[Any], tool_choice: str) -> AsyncIterator[Any]:
            raise ZeroDivisionError("no engine oil")
            yield

        return ask

    async def compact(self, turn: Any, focus: str) -> str:
        raise ZeroDivisionError("no engine oil")

    async def keep_result(self, text: str, limit: int, folder: Any, name: str) -> str:
        raise OSError("the disk is full")


class Plugin:
    """A plugin that registers one engine."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    @hookimpl
    def register_context_engines(self, config: Any) -> list[Any]:
        return [self.engine]


def harness(model: FakeProvider, engine: Engine, more_tools: Sequence[Any] = (), **config: Any) -> Harness:
    slots = {"plugins": {"slots": {"context": engine.name}}}
    return Harness(
        model, plugins={"acme-context": Plugin(engine)}, tools=more_tools, config={**slots, **config}
    )


async def compacted(claw: Harness, focus: str = "") -> str:
    inbound = terminal_message(f"/compact {focus}")
    context = await claw.app.resolve_turn(inbound)
    return await compact_conversation(context, focus)


async def test_the_engine_of_the_slot_decides_what_the_model_is_shown():
    engine, model = Engine(), FakeProvider(says("one"), says("two"))
    async with harness(model, engine) as claw:
        await claw.send("first")
        await claw.send("second")
    assert [len(one.request.messages) for one in model.requests] == [1, 1]
    [_, turn] = engine.turns
    assert (turn.session_key, turn.start, turn.agent.id) == ("agent:default:main", 2, "default")
    assert str(turn.models[0]) == "fake/m1" and turn.window_tokens == 200_000


async def test_metadata_is_added_to_what_an_engine_passes_on_unchanged():
    engine, model = Engine(), FakeProvider(says("one"))
    async with harness(model, engine, prompt={"inboundMeta": "user"}) as claw:
        await claw.send("first")
        [message] = model.requests[0].request.messages
        recorded = engine.turns[0].session.messages[0]
    assert message.content[0].text.endswith("first") and message.content[0].text != "first"
    assert recorded.content[0].text == "first"


async def test_compact_asks_the_engine_of_the_slot():
    async with harness(FakeProvider(), Engine()) as claw:
        assert await compacted(claw, "the names") == "forgot all of agent:default:main but the names"


async def test_a_result_that_is_too_long_is_kept_by_the_engine():
    engine = Engine()
    tools = [FakeTool("look", "x" * 100_000), FakeTool("read", "short", reads_files=True)]
    model = FakeProvider(calls("look"), says("done"), context_tokens=8000)
    config = {"tools": {"suppliers": {"read": "acme"}}}
    async with harness(model, engine, tools, **config) as claw:
        await claw.send("look")
    [result] = model.requests[1].tool_results
    assert result.text.endswith("[the rest is kept]") and len(result.text) < 10_000
    assert engine.kept == ["x" * 100_000]


async def test_an_engine_that_cannot_keep_a_result_costs_the_rest_of_the_result_only():
    broken = Broken()
    broken.wrap = Engine.wrap.__get__(broken)  # type: ignore[method-assign]
    tools = [FakeTool("look", "x" * 100_000), FakeTool("read", "short", reads_files=True)]
    model = FakeProvider(calls("look"), says("done"), context_tokens=8000)
    async with harness(model, broken, tools, tools={"suppliers": {"read": "acme"}}) as claw:
        reply = await claw.send("look")
        assert any("the disk is full" in line for line in claw.log_lines)
    assert reply.text == "done" and "chars truncated" in model.requests[1].tool_results[0].text


async def test_an_engine_that_raises_ends_the_turn_with_its_plugins_name():
    async with harness(FakeProvider(), Broken()) as claw:
        with pytest.raises(PluginError, match="no engine oil") as failed:
            await claw.send("hi")
        assert failed.value.plugin == "acme-context" and "acme-context" in (failed.value.fix or "")
        with pytest.raises(PluginError, match="acme-context"):
            await compacted(claw)


# --- an engine that hangs

LATE = Timeouts(engine_seconds=0.3, worker_seconds=0.2)


class HangsInWrap(Engine):
    """An engine whose ``wrap`` blocks its thread."""

    def wrap(self, call: Any, turn: Any) -> Any:
        time.sleep(3)
        return call


class HangsInStream(Engine):
    """An engine that never begins an answer."""

    def wrap(self, call: Any, turn: Any) -> Any:
        async def ask(messages: Sequence[Any], tool_choice: str) -> AsyncIterator[Any]:
            await asyncio.Event().wait()
            yield

        return ask


class HangsInCompact(Engine):
    """An engine that never finishes a summary."""

    async def compact(self, turn: Any, focus: str) -> str:
        await asyncio.Event().wait()
        return ""

    async def before_reset(self, turn: Any) -> None:
        await asyncio.Event().wait()


class Slow(FakeProvider):
    """A model that takes longer before each event than an engine may take for itself."""

    async def stream(self, request: Any) -> AsyncIterator[Any]:
        async for event in super().stream(request):
            await asyncio.sleep(0.5)
            yield event


@pytest.mark.parametrize("engine", [HangsInWrap, HangsInStream])
async def test_an_engine_that_hangs_is_left_out_of_the_turn_and_the_person_reads_its_plugin(engine: Any):
    model = FakeProvider(says("one"), says("two"), says("three"))
    async with harness(model, engine()) as claw:
        claw.app.runtime.worker.timeouts = LATE
        began = time.monotonic()
        assert (await claw.send("first")).text == "one"
        assert time.monotonic() - began < 2.5
        [notice] = [event.text for event in claw.events if isinstance(event, Notice)]
        assert "acme-context" in notice and "within 0.3 s" in notice
        assert any(notice in line for line in claw.log_lines)
        await claw.send("second")
        began = time.monotonic()
        await claw.send("third")
        assert time.monotonic() - began < 0.3, "after two timeouts it is not asked for a while"
    assert [len(one.request.messages) for one in model.requests] == [1, 3, 5]


async def test_a_hanging_engine_is_left_out_for_the_rest_of_a_turn_with_tools():
    model = FakeProvider(calls("look"), says("done"))
    async with harness(model, HangsInStream(), [FakeTool("look", "seen")]) as claw:
        claw.app.runtime.worker.timeouts = LATE
        assert (await claw.send("look")).text == "done"
        assert len([event for event in claw.events if isinstance(event, Notice)]) == 1


async def test_an_engine_that_hangs_in_compact_is_an_error_that_names_its_plugin():
    async with harness(FakeProvider(), HangsInCompact()) as claw:
        claw.app.runtime.worker.timeouts = LATE
        with pytest.raises(PluginError, match=r"within 0\.3 s") as failed:
            await compacted(claw)
        assert failed.value.plugin == "acme-context"


async def test_a_slow_model_does_not_use_up_the_time_of_an_engine():
    async with harness(Slow(says("a slow answer")), Engine()) as claw:
        claw.app.runtime.worker.timeouts = LATE
        assert (await claw.send("hi")).text == "a slow answer"
        assert not [event for event in claw.events if isinstance(event, Notice)]


async def test_a_summary_by_a_slow_model_does_not_use_up_the_time_of_an_engine():
    class Summarises(Engine):
        async def compact(self, turn: Any, focus: str) -> str:
            said = [event async for event in turn.model_call()(turn.past, "none")]
            return said[-1].message.text

    async with harness(Slow(says("hello"), says("a summary")), Summarises()) as claw:
        await claw.send("hi")
        claw.app.runtime.worker.timeouts = LATE
        assert await compacted(claw) == "a summary"


async def test_without_the_plugin_a_long_conversation_is_answered_with_the_newest_turns_that_fit():
    model = FakeProvider(*(says("fine") for _ in range(12)), context_tokens=8000)
    async with Harness(model, config=ALONE) as claw:
        assert claw.app.registry.engine is None
        for number in range(12):
            assert (await claw.send(f"{number} {LONG}")).text == "fine"
        notices = [event.text for event in claw.events if isinstance(event, Notice)]
    last = model.requests[-1].request.messages
    assert last[-1].content[0].text.startswith("11 ") and not last[0].content[0].text.startswith("0 ")
    assert isinstance(last[0], User) and pair(last).messages == last
    assert any("not sent to the model" in line for line in notices)


async def test_without_the_plugin_a_call_is_never_separated_from_its_result():
    steps = [calls("look"), says("fine")] * 8
    model = FakeProvider(*steps, context_tokens=8000)
    async with Harness(model, tools=[FakeTool("look", LONG)], config=ALONE) as claw:
        for number in range(8):
            await claw.send(str(number))
    for one in model.requests:
        assert pair(one.request.messages).messages == one.request.messages


async def test_without_the_plugin_a_result_that_is_too_long_is_cut_and_says_so():
    tools = [FakeTool("look", "x" * 100_000), FakeTool("read", "short", reads_files=True)]
    model = FakeProvider(calls("look"), says("done"), context_tokens=8000)
    config = {**ALONE, "tools": {"suppliers": {"read": "acme"}}}
    async with Harness(model, tools=tools, config=config) as claw:
        assert (await claw.send("look")).text == "done"
        assert not list(claw.home.glob("agents/*/results"))
    [result] = model.requests[1].tool_results
    assert "chars truncated" in result.text and len(result.text) < 10_000


async def test_without_the_plugin_the_results_of_one_long_turn_are_cut_until_they_fit():
    model = FakeProvider(*(calls("look") for _ in range(6)), says("done"), context_tokens=8000)
    async with Harness(model, tools=[FakeTool("look", "y" * 9000)], config=ALONE) as claw:
        assert (await claw.send("look six times")).text == "done"
    sent = model.requests[-1].request.messages
    assert sum(isinstance(message, ToolResultMessage) for message in sent) == 6
    assert sum(len(message.text) for message in sent if isinstance(message, ToolResultMessage)) < 8000 * 4


async def test_without_the_plugin_too_long_a_conversation_names_the_package_that_summarises():
    refused = ProviderError("the prompt is too long", reason="context_overflow", retryable=False)
    async with Harness(FakeProvider(refused), config=ALONE) as claw:
        with pytest.raises(ClawError, match="too long") as failed:
            await claw.send("hi")
    assert "claw-context" in (failed.value.fix or "")


async def test_without_the_plugin_compact_names_the_plugin_that_provides_it():
    async with Harness(FakeProvider(), config=ALONE) as claw:
        terminal = TerminalConversation(claw.app, terminal_message("/compact"), TurnOptions())
        said = await run_chat_command("/compact", terminal) or ""
    assert said.startswith("/compact comes with plugin context, which is disabled")
    assert "claw config set plugins.entries.context.enabled true" in said
