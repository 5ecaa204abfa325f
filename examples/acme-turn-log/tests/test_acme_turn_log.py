"""The suite for turn logs, and one turn of a claw that uses this one."""

import asyncio

import claw_plugin_acme_turn_log
from claw.runtime import Database
from claw.testing import FakeProvider, Harness, says
from claw_plugin_acme_turn_log import AcmeTurnLog
from pytest_claw import TurnLogSuite


class TestAcmeTurnLog(TurnLogSuite):
    def make(self, folder):
        return AcmeTurnLog(Database(folder / "state.db"))


def test_a_turn_is_recorded_in_the_chosen_log(tmp_path):
    async def turn():
        config = {"plugins": {"slots": {"turnLog": "acme-turn-log"}}}
        plugins = {"acme-turn-log": claw_plugin_acme_turn_log}
        async with Harness(
            FakeProvider(says("hi")), config=config, plugins=plugins, home=tmp_path
        ) as harness:
            await harness.send("hello")

    asyncio.run(turn())
    assert Database(tmp_path / "state.db").read("SELECT outcome FROM acme_turns") == [("delivered",)]
