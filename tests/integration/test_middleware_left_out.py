"""A claw without the plugins that wrap providers: it loses their features, and none of core's guards."""

from typing import Any

import pytest
from claw import ConfigError
from claw.agent.routing import admit
from claw.runtime import terminal_message
from claw.testing import FakeProvider, FakeTool, Harness, says
from claw_channel_sdk.chat_commands import Conversation
from claw_sessions.chat_commands import status_of

PRINTED = '<tool_call>{"name": "peek", "arguments": {}}</tool_call>'
SECRET = "sk-very-long-secret-0123456789"


def without(*plugins: str, **config: Any) -> dict[str, Any]:
    return {"plugins": {"entries": {plugin: {"enabled": False} for plugin in plugins}}, **config}


async def test_without_prompted_tools_a_printed_call_is_text_and_the_model_has_its_tools_natively() -> None:
    model, tool = FakeProvider(says(PRINTED)), FakeTool("peek")
    async with Harness(model, tools=[tool], config=without("prompted-tools")) as harness:
        reply = await harness.send("go")

    assert reply and reply.text == PRINTED
    assert tool.calls == []
    assert model.requests[0].tool_names == ("peek",)


async def test_without_any_middleware_a_secret_of_the_file_is_masked() -> None:
    model = FakeProvider(says(f"The key is {SECRET}."))
    config = without("prompted-tools", "budgets", providers={"fake": {"apiKey": SECRET}})
    async with Harness(model, config=config) as harness:
        reply = await harness.send("what is the key?")

        assert harness.app.registry.middleware == ()
    assert reply and reply.text == "The key is ***."


async def test_without_budgets_a_conversation_has_no_line_of_its_cost() -> None:
    async with Harness(FakeProvider(says("hi")), config=without("budgets")) as harness:
        await harness.send("hi")
        inbound = terminal_message("/status")
        route = admit(inbound, harness.app.config)
        assert route
        app = harness.app
        lines = await status_of(Conversation(app, inbound, route))

    assert "cost" not in lines
    assert lines["model"] == "fake/m1"


def test_a_model_with_prompted_tools_needs_the_plugin_that_describes_them() -> None:
    modes = {"fake": {"models": {"m1": {"tools": "prompt"}}}}
    harness = Harness(FakeProvider(), config=without("prompted-tools", providers=modes))
    with pytest.raises(ConfigError, match="plugin prompted-tools is disabled") as refused:
        _ = harness.app
    assert refused.value.key == "providers.fake.models.m1.tools"


def test_budgets_in_the_file_that_nothing_would_hold_stop_the_start() -> None:
    harness = Harness(FakeProvider(), config=without("budgets", budgets={"day": {"usd": 1, "per": "day"}}))
    with pytest.raises(ConfigError, match="has no effect") as refused:
        _ = harness.app
    assert (refused.value.key, refused.value.line) == ("budgets", 5)
    assert "plugins.entries.budgets.enabled true" in str(refused.value)
