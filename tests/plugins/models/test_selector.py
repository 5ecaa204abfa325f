"""The plugin as the answer to ``register_model_selectors``, and claw without it."""

import pytest
from claw.contracts.errors import ProviderError
from claw.testing import FakeProvider, Harness, says
from claw_models.failover import Failover

BUSY = ProviderError("too many requests", reason="rate_limit", retryable=True)
TWO = {"agents": {"defaults": {"model": {"primary": "fake/m1", "fallbacks": ["spare/m2"]}}}}
WITHOUT = {"plugins": {"entries": {"models": {"enabled": False}}}}


async def test_the_plugin_selects_models_and_goes_on_to_the_next():
    fallback = FakeProvider(says("hi"), name="spare")
    async with Harness(FakeProvider(BUSY), fallbacks=[fallback], config=TWO) as home:
        reply = await home.send("hello")
        selector = home.app.runtime.registry.selector

    assert reply.text == "hi"
    assert selector.plugin == "models"
    assert isinstance(selector.value, Failover)


async def test_without_the_plugin_the_first_model_answers():
    async with Harness(FakeProvider(says("hi")), config={**TWO, **WITHOUT}) as home:
        reply = await home.send("hello")
        assert home.app.runtime.registry.selector is None

    assert reply.text == "hi"


async def test_without_the_plugin_a_failure_ends_the_turn_and_the_fallback_is_not_asked():
    fallback = FakeProvider(says("hi"), name="spare")
    async with Harness(FakeProvider(BUSY), fallbacks=[fallback], config={**TWO, **WITHOUT}) as home:
        with pytest.raises(ProviderError, match="too many requests"):
            await home.send("hello")

    assert fallback.requests == []
