"""The suites for turn logs and session stores, and turns of a claw that uses these."""

import asyncio

import claw_plugin_acme_turn_log
from claw.runtime import Database
from claw.testing import FakeProvider, Harness, says
from claw_plugin_acme_turn_log import AcmeSessions, AcmeTurnLog
from pytest_claw import SessionStoreSuite, TurnLogSuite


class TestAcmeTurnLog(TurnLogSuite):
    def make(self, folder):
        return AcmeTurnLog(Database(folder / "state.db"))


class TestAcmeSessions(SessionStoreSuite):
    def make(self, folder):
        return AcmeSessions(Database(folder / "state.db"))


def test_the_history_comes_from_the_chosen_store(tmp_path):
    model = FakeProvider(says("one"), says("two"))

    async def turns():
        config = {"plugins": {"slots": {"sessions": "acme-turn-log"}}}
        plugins = {"acme-turn-log": claw_plugin_acme_turn_log}
        for question in ("first", "second"):  # two processes, one after the other
            async with Harness(model, config=config, plugins=plugins, home=tmp_path) as harness:
                await harness.send(question)

    asyncio.run(turns())
    assert len(model.requests[-1].request.messages) == 3
    assert Database(tmp_path / "state.db").read("SELECT count(*) FROM acme_sessions") == [(1,)]


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
