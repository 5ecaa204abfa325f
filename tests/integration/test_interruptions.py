"""Interruptions at any moment: each message is answered, stopped, or left for the next start."""

import asyncio
import tempfile
import threading
from pathlib import Path

import pytest
from claw.app import load_setup
from claw.host.hookspecs import hookimpl
from claw.host.isolation import Timeouts
from claw.storage.database import Database
from claw.storage.files import Disk
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says, standard_plugins
from claw_gateway.journal import Journal
from claw_gateway.supervisor import ChannelServer


class Serves:
    """A gateway that serves its channels until the block ends."""

    def __init__(self, harness, timeouts=None):
        self.harness, self.stop = harness, asyncio.Event()
        if timeouts:
            harness.app.timeouts = timeouts
        self.serving = ChannelServer(harness.app)

    async def __aenter__(self):
        self.running = asyncio.ensure_future(self.serving.run(self.stop))
        return self

    async def __aexit__(self, *_):
        self.stop.set()
        await asyncio.wait_for(self.running, 60)
        await self.harness.close()


async def until(holds):
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.005)


def queue(mode):
    return {"messages": {"queue": {"mode": mode, "debounce": 0}}}


def left(home):
    """Return the outcomes of a home's turns, and the messages left for the next start."""
    database = Database(home / "state.db")
    journal = Journal(database)
    outcomes = [turn["outcome"] for turn in journal.turns()]
    open_ones = (*journal.unfinished(), *journal.waiting_events(), *journal.pending_replies())
    database.close()
    return outcomes, open_ones


class Reluctant(FakeChannel):
    """A channel that takes its time to take a sign of life back."""

    def __init__(self):
        super().__init__()
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def settled(self, address, message_id=""):
        self.asked.set()
        await self.go.wait()


@pytest.mark.parametrize("by", ["/stop", "another question"])
async def test_an_answer_that_is_in_the_ledger_is_sent_whatever_comes_then(tmp_path, by):
    channel, model = Reluctant(), FakeProvider(says("the answer"), says("another"))
    harness = Harness(model, channels=[channel], home=tmp_path, config=queue("interrupt"))
    async with Serves(harness):
        channel.says("well?")
        await asyncio.wait_for(channel.asked.wait(), 60)
        taken = channel.says(by)
        await until(lambda: taken.event_id in channel.acknowledged)
        channel.go.set()
        await channel.until_shown(2, 60)
    assert set(channel.shown) == {"the answer", "nothing is running" if by == "/stop" else "another"}
    assert left(tmp_path)[1] == ()


async def test_a_message_whose_connection_breaks_while_it_is_written_down_is_answered(tmp_path):
    begun, over = threading.Event(), threading.Event()

    def sync(fd):
        begun.set()
        over.wait(60)

    channel = FakeChannel()
    harness = Harness(FakeProvider(says("here")), channels=[channel], home=tmp_path, disk=Disk(sync=sync))
    async with Serves(harness):
        channel.says("hello")
        await until(begun.is_set)
        channel.disconnect()
        await until(lambda: channel.connections == 2)
        over.set()
        assert await channel.until_shown(1, 60) == ["here"]
        await until(lambda: channel.acknowledged)
    assert left(tmp_path) == (["delivered"], ())


class Pondering:
    """A filter that holds every message until it is released."""

    def __init__(self):
        self.asked = threading.Event()

    @hookimpl
    def register_filters(self, config):
        return [self]

    async def outbound(self, message):
        self.asked.set()
        await asyncio.sleep(3600)


async def test_an_answer_that_a_stop_of_claw_cuts_short_is_sent_by_the_next_start(tmp_path):
    channel, filter = FakeChannel(), Pondering()
    model = FakeProvider(says("the answer"))
    harness = Harness(model, channels=[channel], home=tmp_path, plugins={"pondering": filter})
    async with Serves(harness, Timeouts(stop_seconds=0.0, filter_seconds=3600)):
        channel.says("well?")
        await until(filter.asked.is_set)
    assert channel.shown == []

    async with Serves(Harness(FakeProvider(), channels=[channel], home=tmp_path)):
        assert await channel.until_shown(1, 60) == ["the answer"]
    assert left(tmp_path) == (["delivered"], ())


class Leaving(FakeChannel):
    """A channel that does not leave at the first word."""

    def __init__(self):
        super().__init__()
        self.reported = asyncio.Event()

    async def run(self, inbox):
        try:
            await super().run(inbox)
        finally:
            self.reported.set()
            await asyncio.Event().wait()


class Renewed:
    """A plugin that creates a new channel for each configuration."""

    def __init__(self, *channels):
        self.channels = list(channels)

    @hookimpl
    def register_channels(self, config):
        return [self.channels.pop(0)]


async def test_a_gateway_that_stops_while_it_takes_up_a_new_configuration_begins_to_listen_nowhere(tmp_path):
    old, new = Leaving(), FakeChannel()
    plugins = {"post": Renewed(old, new)}
    harness = Harness(FakeProvider(), home=tmp_path, config={"channels": {"fake": {}}}, plugins=plugins)
    async with Serves(harness) as here:
        await until(lambda: old.connections)
        harness._write_config({"channels": {"fake": {"allowFrom": ["user-1"]}}}, "fake")
        environ = {"CLAW_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        reloading = asyncio.ensure_future(here.serving.reload(load_setup(environ, standard_plugins())))
        await asyncio.wait_for(old.reported.wait(), 60)
        here.stop.set()
        await asyncio.wait_for(reloading, 60)
        await asyncio.wait_for(here.running, 60)
        await asyncio.sleep(0)
        assert new.connections == 0


# --- at the n-th step of the loop, for as many n as there are


class Steps(asyncio.SelectorEventLoop):
    """A loop that does something just before the ``at``-th thing that it was asked to do soon."""

    def __init__(self, at):
        super().__init__()
        self.at, self.between = at, None

    def call_soon(self, callback, *args, context=None):
        def run(*args):
            if self.between:
                self.at -= 1
                if not self.at:
                    between, self.between = self.between, None
                    between()
            callback(*args)

        return super().call_soon(run, *args, context=context)


class Stepwise(FakeChannel):
    """A channel whose service is not done at once."""

    async def send(self, outbound):
        await asyncio.sleep(0)
        receipt = await super().send(outbound)
        await asyncio.sleep(0)
        return receipt

    async def settled(self, address, message_id=""):
        await asyncio.sleep(0)
        await super().settled(address, message_id)


async def quiet(here, channel):
    """Wait until nothing moves any more, or claw has stopped."""
    looks = 0
    async with asyncio.timeout(60):
        while looks < 3 and not here.running.done():
            await asyncio.sleep(0.005)
            reported = here.serving.report()
            looks = (
                0
                if reported.running or reported.waiting or reported.pending or channel._waiting
                else looks + 1
            )


async def life(home, channel, mode, between, faults):
    """One question to a gateway, and what comes between; True when there was such a moment."""
    model = FakeProvider(calls("look"), *[says(f"the answer {number}") for number in range(3)])
    harness = Harness(model, channels=[channel], tools=[FakeTool("look")], home=home, config=queue(mode))
    async with Serves(harness) as here:
        await until(lambda: channel.connections)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, what: faults.append(str(what)))
        loop.between = lambda: between(here, channel)
        channel.says("well?")
        await quiet(here, channel)
        was_there, loop.between = loop.between is None, None
        faults += ["a lane was kept"] * len(harness.app.runtime.session_queues)
    faults += harness.log_lines
    next_start = Harness(FakeProvider(says("the answer 9")), channels=[channel], home=home)
    async with Serves(next_start) as here:
        await quiet(here, channel)
    faults += next_start.log_lines
    faults += [repr(task) for task in asyncio.all_tasks() - {asyncio.current_task()}]
    return was_there


def lived(at, mode, between):
    """Return the outcomes of the turns, the visible messages, and true if there was an ``at``-th step."""
    channel, faults = Stepwise(streaming=bool(at % 2)), []
    with tempfile.TemporaryDirectory() as home, asyncio.Runner(loop_factory=lambda: Steps(at)) as runner:
        was_there = runner.run(life(Path(home), channel, mode, between, faults))
        outcomes, open_ones = left(Path(home))
    assert (faults, open_ones) == ([], ()), f"at step {at}"
    return was_there, outcomes, channel.shown


@pytest.mark.parametrize(
    ("between", "mode"),
    [
        ("/stop", "steer"),
        ("more", "steer"),
        ("more", "interrupt"),
        ("a break", "steer"),
        ("the end", "steer"),
    ],
)
def test_at_every_step_of_a_turn_nothing_is_lost_doubled_or_left_behind(between, mode, full):
    doings = {
        "a break": lambda here, channel: channel.disconnect(),
        "the end": lambda here, channel: here.stop.set(),
    }
    do = doings.get(between, lambda here, channel: channel.says(between))
    for at in range(1, 500, 1 if full else 9):
        was_there, outcomes, shown = lived(at, mode, do)
        answers = [text for text in shown if text.startswith("the answer ")]
        assert len(answers) == outcomes.count("delivered"), f"at step {at}: {outcomes}, {shown}"
        if between != "/stop":
            assert outcomes[:1] == ["delivered"], f"at step {at}: the newest is answered, not {outcomes}"
        if between in doings:
            assert len(outcomes) == 1, f"at step {at}: {outcomes}"
        if not was_there:
            return
    raise AssertionError("a turn has no such number of steps")
