"""A key that a person wants used first: ``/model provider/model@key`` for a conversation, ``--model`` for one run."""

import pytest
from claw import UsageError
from claw.app import from_terminal
from claw.auth import Credential
from claw.builtin.chat_commands import run
from claw.cli.desk import TerminalDesk
from claw.errors import ProviderError
from claw.overrides import split
from claw.stage import Wish
from claw.testing import FakeProvider, House, says

KEYS = [Credential(name, f"sk-{name}") for name in ("home", "work")]
ALIAS = {"models": {"aliases": {"quick": "fake/small"}}}
SLOW = ProviderError("slow down", reason="rate_limit", retryable=True, retry_after_seconds=60)


def keyed(*answers) -> FakeProvider:
    return FakeProvider(*(answers or [says("fine")] * 9), keys=KEYS)


def used(model: FakeProvider) -> list[str]:
    return [f"{heard.request.model} {heard.request.credential.name}" for heard in model.requests]


async def type_in(house: House, line: str) -> str | None:
    return await run(line, TerminalDesk(house.app, from_terminal(line), Wish()))


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
def test_the_key_stands_behind_the_last_at_and_a_number_there_is_a_snapshot(text: str, model: str, key: str):
    assert split(text) == (model, key)


async def test_a_conversation_keeps_the_key_that_was_chosen_until_reset():
    model = keyed()
    async with House(model) as house:
        assert await type_in(house, "/model fake/m1@work") == "model: fake/m1@work, until /reset"
        await house.hear("one")
        await house.hear("two")
        assert "chosen here: model fake/m1@work" in (await type_in(house, "/status") or "")
        await house.hear("elsewhere", session="another")
        await type_in(house, "/reset")
        await house.hear("three")

    assert used(model)[:2] == ["m1 work", "m1 work"]
    assert used(model)[2] == "m1 home", "of another conversation: as ever, the one that rested longest"


async def test_another_model_takes_the_choice_back_and_an_alias_may_have_one():
    model = keyed()
    async with House(model, config=ALIAS) as house:
        assert await type_in(house, "/model quick@work") == "model: quick@work, until /reset"
        await house.hear("one")
        await type_in(house, "/model fake/m1")
        assert house.app.rooms.overrides.of("agent:default:main").model == "fake/m1"
        await type_in(house, "/new fake/m1@home")
        await house.hear("two")

    assert used(model) == ["small work", "m1 home"]


async def test_a_chosen_key_that_fails_is_stood_in_for_by_the_others():
    model = keyed(SLOW, says("fine"), says("fine"))
    async with House(model) as house:
        await type_in(house, "/model fake/m1@work")
        await house.hear("one")
        await house.hear("two")

    assert used(model) == ["m1 work", "m1 home", "m1 home"], "the second turn does not ask a key that rests"


async def test_a_key_that_nobody_has_is_refused_and_nothing_is_chosen():
    async with House(keyed()) as house:
        assert await type_in(house, "/model fake/m1@wrok") == "fake has no key wrok. Its keys are: home, work"
        assert house.app.rooms.overrides.of("agent:default:main").model == ""
        with pytest.raises(UsageError, match="fake has no key wrok"):
            await house.hear("hello", model="fake/m1@wrok")


async def test_for_one_run_the_option_model_names_it():
    model = keyed()
    async with House(model) as house:
        await house.hear("one", model="fake/m1@work")
        await house.hear("two", model="fake/m2@home")

    assert used(model) == ["m1 work", "m2 home"]


async def test_a_chosen_key_that_is_gone_ends_no_turn():
    model = keyed()
    async with House(model) as house:
        house.app.rooms.overrides.set("agent:default:main", model="fake/m2@gone")
        await house.hear("hello")

    assert used(model)[0].startswith("m2 ")
