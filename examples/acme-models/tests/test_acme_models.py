"""The suite for model selectors, and two turns of a claw that uses this one."""

import asyncio

import claw_plugin_acme_models
from claw.testing import FakeProvider, Harness, says
from claw_plugin_acme_models import ByTurns
from pytest_claw import ModelSelectorSuite


class TestByTurns(ModelSelectorSuite):
    def make(self, folder):
        return ByTurns()


def test_the_models_are_asked_in_turn():
    first, second = FakeProvider(says("one")), FakeProvider(says("two"), name="spare")
    models = {"model": {"primary": "fake/m1", "fallbacks": ["spare/m2"]}}
    config = {"agents": {"defaults": models}, "plugins": {"slots": {"models": "acme-models"}}}

    async def turns():
        plugins = {"acme-models": claw_plugin_acme_models}
        async with Harness(first, fallbacks=[second], config=config, plugins=plugins) as harness:
            return [(await harness.send("hello")).text for _ in range(2)]

    assert asyncio.run(turns()) == ["one", "two"]
