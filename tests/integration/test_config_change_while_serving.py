"""A new configuration and a stop do not affect running turns, the other account of a plugin, or other questions."""

import asyncio

import pytest
from claw import ApprovalRequest
from claw.app import load_setup
from claw.contracts.diagnostics import LOADED
from claw.contracts.errors import ConfigError
from claw.contracts.messages import Address
from claw.host.hookspecs import hookimpl
from claw.host.isolation import Timeouts
from claw.testing import FakeChannel, FakeProvider, Harness, says, standard_plugins
from integration.served import serve
from integration.test_serving import Broken, Channels, served, taken_in, until

OPEN = {"channels": {"fake": {"allowFrom": ["u1"]}}}


async def reloaded(harness, config):
    harness._write_config(config, "fake")
    await harness.serving.reload(
        load_setup({"CLAW_HOME": str(harness.home), "HOME": str(harness.home)}, standard_plugins())
    )


class Slow(FakeProvider):
    """Answers when it is let go, and notes when it is closed."""

    def __init__(self):
        super().__init__(name="slow")
        self.begun, self.go, self.closed = asyncio.Event(), asyncio.Event(), False

    async def stream(self, request):
        self.begun.set()
        await self.go.wait()
        self._answers = [says("closed too early" if self.closed else "done")]
        async for event in super().stream(request):
            yield event

    async def close(self):
        self.closed = True


class NewProvider:
    """A plugin that creates a new provider for each configuration."""

    def __init__(self):
        self.made = []

    @hookimpl
    def register_providers(self, config):
        self.made.append(Slow())
        return [self.made[-1]]


async def test_a_turn_that_runs_keeps_what_it_uses_to_its_end_and_that_is_closed_after_it(tmp_path):
    channel, plugin = FakeChannel(), NewProvider()
    slow = {"agents": {"defaults": {"model": "slow/m1"}}}
    plugins = {"channels": Channels(channel), "slow": plugin}
    harness = Harness(FakeProvider(), home=tmp_path, config={**OPEN, **slow}, plugins=plugins)
    async with serve(harness) as harness.serving:
        channel.says("work", "u1")
        async with asyncio.timeout(20):
            await plugin.made[0].begun.wait()
        await reloaded(harness, {"channels": {"fake": {"allowFrom": ["u1", "u2"]}}, **slow})
        await asyncio.sleep(0.05)
        old, new = plugin.made
        assert not old.closed
        old.go.set()
        assert await channel.until_shown() == ["done"]
        async with asyncio.timeout(20):
            while not old.closed:
                await asyncio.sleep(0.01)
        assert not new.closed


@pytest.mark.parametrize("why", [ConfigError("channels.fake.token", "nobody knows it", "Take another one")])
async def test_one_account_that_cannot_be_served_takes_nothing_from_the_other(tmp_path, why):
    broken, other = Broken(why), FakeChannel(account="work")
    config = {"channels": {"fake": {"allowFrom": ["u1"], "accounts": {"work": {}}}}}
    model = FakeProvider(says("here"))
    harness = Harness(model, home=tmp_path, config=config, plugins={"both": Channels(broken, other)})
    harness.app.timeouts = Timeouts(pause_seconds=0.01)
    async with serve(harness) as serving:
        async with asyncio.timeout(20):
            while serving.report().channels[0].state.state != "failed":
                await asyncio.sleep(0.01)
        other.says("hi", "u1")
        assert await other.until_shown() == ["here"]
        assert [one.state for one in harness.app.host.plugin_states if one.id == "both"] == [LOADED]


@pytest.mark.parametrize("again", [False, True], ids=["at first", "after a reload"])
async def test_once_the_channels_have_stopped_nobody_can_be_asked(tmp_path, again):
    request = ApprovalRequest("agent:a:main", "a", "t", "exec", "", "ls", "digest", Address("fake", "chat-1"))
    config = {**OPEN, "owners": ["fake:boss"]}
    async with served(FakeProvider(), FakeChannel(), home=tmp_path, config=config) as harness:
        await until(lambda: harness.serving.report().channels[0].state.state == "up")
        if again:
            await reloaded(harness, {**config, "owners": ["fake:boss", "fake:other"]})
        approvals = harness.serving.app.registry.approver.value
        assert approvals.refusal(request) == ""
    assert "no one can be asked here" in approvals.refusal(request)


class Withdrawn(Channels):
    """A plugin that registers its channel only while it is asked to."""

    is_there = True

    @hookimpl
    def register_channels(self, config):
        return self.channels if self.is_there else ()


async def test_a_message_waits_while_no_plugin_serves_its_channel_and_is_answered_afterwards(tmp_path):
    channel, plugin = FakeChannel(), NewProvider()
    config = {
        **OPEN,
        "agents": {"defaults": {"model": "slow/m1"}},
        "messages": {"queue": {"mode": "followup"}},
    }
    channels = Withdrawn(channel)
    harness = Harness(
        FakeProvider(), home=tmp_path, config=config, plugins={"channels": channels, "slow": plugin}
    )
    async with serve(harness) as harness.serving:
        channel.says("first", "u1")
        async with asyncio.timeout(20):
            await plugin.made[0].begun.wait()
        await taken_in(harness, channel, channel.says("second", "u1"))
        channels.is_there = False
        await reloaded(harness, config)
        plugin.made[0].go.set()
        await until(lambda: harness.serving.report().running == 0)
        assert harness.serving.report().waiting == 1
        channels.is_there = True
        await reloaded(harness, config)
        plugin.made[-1].go.set()
        await until(lambda: len(channel.shown) == 2)
        assert harness.serving.report().waiting == 0


async def test_a_channel_between_two_tries_waits_with_the_reason(tmp_path):
    broken = Broken(RuntimeError("no line"))
    harness = Harness(FakeProvider(), home=tmp_path, config=OPEN, plugins={"channels": Channels(broken)})
    harness.app.timeouts = Timeouts(pause_seconds=60)
    async with serve(harness) as serving:
        await until(lambda: broken.tries == 1 and serving.report().channels[0].state.state != "up")
        state = serving.report().channels[0].state
    assert (state.state, state.detail) == ("waiting", "RuntimeError: no line")


async def test_a_channel_that_reports_no_state_has_its_last_message_as_last_data(tmp_path):
    channel = FakeChannel()
    async with served(FakeProvider(says("here")), channel, home=tmp_path, config=OPEN) as harness:
        assert harness.serving.report().channels[0].state.last_frame_at is None
        channel.says("hi", "u1")
        await channel.until_shown()
        assert harness.serving.report().channels[0].state.last_frame_at > 1e9
