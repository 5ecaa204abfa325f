"""A key that a person wants used first: ``/model provider/model@key`` for a conversation, ``--model`` for one run."""

import pytest
from claw import UsageError
from claw.agent.turn_context import TurnOptions
from claw.contracts.errors import ProviderError
from claw.contracts.provider import Credential
from claw.runtime import terminal_message
from claw.testing import FakeProvider, Harness, says
from claw_channel_sdk.chat_commands import run_chat_command
from claw_models.key_choice import split_key
from claw_terminal.command import TerminalConversation

KEYS = [Credential(name, f"sk-{name}") for name in ("home", "work")]
ALIAS = {"models": {"aliases": {"quick": "fake/small"}}}
SLOW = ProviderError("slow down", reason="rate_limit", retryable=True, retry_after_seconds=60)


def keyed(*answers) -> FakeProvider:
    return FakeProvider(*(answers or [says("fine")] * 9), keys=KEYS)


def used(model: FakeProvider) -> list[str]:
    return [f"{recorded.request.model} {recorded.request.credential.name}" for recorded in model.requests]


async def type_in(harness: Harness, line: str) -> str | None:
    return await run_chat_command(
        line, TerminalConversation(harness.app, terminal_message(line), TurnOptions())
    )


@pytest.mark.parametrize(
    ("text", "model", "key"),
    [
        ("fake/m1@work", "fake/m1", "work"),
        ("quick@work", "quick", "work"),
        ("fake/m1", "fake/m1", ""),
        ("vertex/claude-x@20260514", "vertex/claude-x@20260514", ""),
        ("gate/@cf/meta/x", "gate/@cf/meta/x", ""),
        ("fake/m1@", "fake/m1@", ""),
        ("@work", "@work", ""),
        ("", "", ""),
    ],
)
def test_the_key_follows_the_last_at_and_a_number_there_is_a_snapshot(text: str, model: str, key: str):
    assert split_key(text) == (model, key)


async def test_a_conversation_keeps_the_key_that_was_chosen_until_reset():
    model = keyed()
    async with Harness(model) as harness:
        assert await type_in(harness, "/model fake/m1@work") == "model: fake/m1@work, until /reset"
        await harness.send("one")
        await harness.send("two")
        assert "set in this chat: model fake/m1@work" in (await type_in(harness, "/status") or "")
        await harness.send("elsewhere", session="another")
        await type_in(harness, "/reset")
        await harness.send("three")

    assert used(model)[:2] == ["m1 work", "m1 work"]
    assert used(model)[2] == "m1 home", "of another conversation: as ever, the one that rested longest"


async def test_another_model_takes_the_choice_back_and_an_alias_may_have_one():
    model = keyed()
    async with Harness(model, config=ALIAS) as harness:
        assert await type_in(harness, "/model quick@work") == "model: quick@work, until /reset"
        await harness.send("one")
        await type_in(harness, "/model fake/m1")
        assert harness.app.runtime.sessions.overrides.of("agent:default:main").model == "fake/m1"
        await type_in(harness, "/new fake/m1@home")
        await harness.send("two")

    assert used(model) == ["small work", "m1 home"]


async def test_a_chosen_key_that_fails_is_replaced_by_the_others():
    model = keyed(SLOW, says("fine"), says("fine"))
    async with Harness(model) as harness:
        await type_in(harness, "/model fake/m1@work")
        await harness.send("one")
        await harness.send("two")

    assert used(model) == ["m1 work", "m1 home", "m1 home"], "the second turn does not ask a key that rests"


async def test_a_key_that_nobody_has_is_refused_and_nothing_is_chosen():
    async with Harness(keyed()) as harness:
        assert (
            await type_in(harness, "/model fake/m1@wrok") == "fake has no key wrok. Its keys are: home, work"
        )
        assert harness.app.runtime.sessions.overrides.of("agent:default:main").model == ""
        with pytest.raises(UsageError, match="fake has no key wrok"):
            await harness.send("hello", model="fake/m1@wrok")


async def test_for_one_run_the_option_model_names_it():
    model = keyed()
    async with Harness(model) as harness:
        await harness.send("one", model="fake/m1@work")
        await harness.send("two", model="fake/m2@home")

    assert used(model) == ["m1 work", "m2 home"]


async def test_a_chosen_key_that_is_gone_ends_no_turn():
    model = keyed()
    async with Harness(model) as harness:
        harness.app.runtime.sessions.overrides.set("agent:default:main", model="fake/m2@gone")
        await harness.send("hello")

    assert used(model)[0].startswith("m2 ")
