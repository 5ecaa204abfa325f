"""A model that a person named answers, or nobody does: another one takes over only while its service is busy."""

import pytest
from claw.agent.turn_context import TurnOptions
from claw.contracts.errors import ProviderError, UsageError
from claw.runtime import terminal_message
from claw.testing import FakeProvider, Harness, says
from claw_channel_sdk.chat_commands import run_chat_command
from claw_provider_sdk import provider_error
from claw_terminal.command import TerminalConversation

CONFIG = {
    "agents": {"defaults": {"model": {"primary": "fake/m1", "fallbacks": ["spare/m2"]}}},
    "owners": ["fake:user-1"],
}
GONE = ProviderError("the service does not know this model", reason="model_not_found", status=404)
REFUSED = ProviderError("the service rejected the key", reason="auth", status=401)
FORBIDDEN = ProviderError("this key may not use the model", reason="permission", status=403)
BUSY = ProviderError("overloaded", reason="overloaded", retryable=True)
SLOW = ProviderError("slow down", reason="rate_limit", retryable=True)
POOR = ProviderError("no credit", reason="billing")


class Keyless(FakeProvider):
    """A provider without any key."""

    def credentials(self):
        return ()


class Catalogued(FakeProvider):
    """A provider that knows models by name."""

    def model_names(self):
        return ("opus-large", "opus-small")


async def type_in(harness: Harness, line: str) -> str | None:
    conversation = TerminalConversation(harness.app, terminal_message(line), TurnOptions())
    return await run_chat_command(line, conversation)


def named(provider: FakeProvider, **more) -> Harness:
    others = [FakeProvider(says("from spare"), says("from spare"), name="spare"), provider]
    return Harness(FakeProvider(says("from the primary")), fallbacks=others, config=CONFIG, **more)


@pytest.mark.parametrize("failure", [GONE, REFUSED, FORBIDDEN])
async def test_a_named_model_that_cannot_answer_is_an_error_and_not_another_model_s_answer(failure):
    async with named(FakeProvider(failure, failure, name="other")) as harness:
        for _ in range(2):  # the second time its key is in cooldown
            with pytest.raises(ProviderError) as wrong:
                await harness.send("hi", model="other/opus")
            assert (wrong.value.reason, wrong.value.where) == (failure.reason, "other/opus")


async def test_a_named_model_without_a_key_is_an_error_that_tells_how_to_add_one():
    async with named(Keyless(name="other")) as harness:
        with pytest.raises(ProviderError, match=r"other has no API key.*claw auth add other"):
            await harness.send("hi", model="other/opus")


@pytest.mark.parametrize("failure", [BUSY, SLOW, POOR])
async def test_another_model_takes_over_while_the_service_of_a_named_one_is_busy(failure):
    async with named(FakeProvider(failure, name="other")) as harness:
        assert (await harness.send("hi", model="other/opus")).text == "from spare"


@pytest.mark.parametrize(
    ("model", "near"),
    [("other/opus-larg", "other/opus-large"), ("othr/opus-small", "other/opus-small"), ("fake/m", "fake/m1")],
)
async def test_the_error_names_the_nearest_model(model, near):
    broken = FakeProvider(GONE)
    others = [FakeProvider(name="spare"), Catalogued(GONE, name="other")]
    async with Harness(broken, fallbacks=others, config=CONFIG) as harness:
        with pytest.raises(ProviderError) as wrong:
            await harness.send("hi", model=model)
    assert f"did you mean {near}?" in str(wrong.value).lower()


async def test_an_error_about_the_address_of_the_service_suggests_no_model():
    gone = provider_error("other/opus", status=404, text="404 page not found")
    async with named(Catalogued(gone, name="other")) as harness:
        with pytest.raises(ProviderError, match="does not know this address") as wrong:
            await harness.send("hi", model="other/opus-larg")

    assert "did you mean" not in str(wrong.value)
    assert "providers.other.baseUrl" in str(wrong.value)


async def test_the_model_of_a_conversation_is_named_too():
    async with named(FakeProvider(GONE, name="other")) as harness:
        await type_in(harness, "/model other/opus")
        with pytest.raises(ProviderError) as wrong:
            await harness.send("hi")
        assert wrong.value.where == "other/opus"
        await type_in(harness, "/model default")
        assert (await harness.send("hi")).text == "from the primary"


async def test_a_model_written_wrongly_is_not_chosen_in_a_chat_or_a_terminal():
    async with named(FakeProvider(name="other")) as harness:
        said = "other//opus is no model. Did you mean other/opus?"
        assert (await type_in(harness, "/model other//opus") or "").startswith(said)
        conversation = TerminalConversation(harness.app, terminal_message(""), TurnOptions())
        with pytest.raises(UsageError, match="Did you mean other/opus"):
            conversation.find_model("other//opus")


async def test_the_model_of_the_settings_has_its_fallbacks_whatever_fails():
    config = CONFIG | {"agents": {"defaults": {"model": {"primary": "nope/m", "fallbacks": ["spare/m2"]}}}}
    spare = FakeProvider(says("from spare"), name="spare")
    async with Harness(FakeProvider(), fallbacks=[spare], config=config) as harness:
        assert (await harness.send("hi")).text == "from spare"


async def test_a_named_model_is_never_replaced_without_a_selector_either():
    config = CONFIG | {"plugins": {"entries": {"models": {"enabled": False}}}}
    others = [FakeProvider(says("from spare"), name="spare"), Keyless(name="other")]
    async with Harness(FakeProvider(says("no")), fallbacks=others, config=config) as harness:
        with pytest.raises(ProviderError, match="other has no API key"):
            await harness.send("hi", model="other/opus")
