"""A power cut takes everything that was not synced, and nothing that was acknowledged to a platform."""

import asyncio
import random
from contextlib import closing

import pytest
from claw.contracts.errors import ClawError
from claw.contracts.messages import Address, Inbound, Sender
from claw.storage.database import Database
from claw.storage.files import Disk
from claw.testing import FakeChannel, FakeProvider, Harness, says
from claw_gateway.journal import Journal
from claw_gateway.supervisor import ChannelServer
from rigs.powercut import Medium

PLACE = Address("fake", "c")


def message(number: int) -> Inbound:
    return Inbound(PLACE, f"n{number}", Sender("p"), message_id=f"m{number}", event_id=f"e{number}")


def left(medium, home, place, seed):
    """Return the content of the inbox after a power cut at this moment."""
    medium.after_a_cut(home, place, random.Random(seed))
    with closing(Database(place / "state.db")) as database:
        Journal(database)
        assert database.read("PRAGMA integrity_check") == [("ok",)]
        return {text for (text,) in database.read("SELECT message_id FROM inbox")}


class CuttingChannel(FakeChannel):
    """A service that loses its power, and ours, right after a message was acknowledged to it."""

    def __init__(self, *capabilities):
        super().__init__(capabilities=frozenset(capabilities))
        self.opened: asyncio.Future = asyncio.get_running_loop().create_future()

    async def run(self, inbox):
        self.opened.set_result(inbox)
        await asyncio.Event().wait()


@pytest.fixture
async def served(tmp_path):
    medium = Medium()
    channel = CuttingChannel("idempotent")
    harness = Harness(
        FakeProvider(*[says("yes")] * 50), channels=[channel], home=tmp_path / "home", disk=medium.disk()
    )
    serving, stop = ChannelServer(harness.app), asyncio.Event()
    running = asyncio.ensure_future(serving.run(stop))
    yield medium, tmp_path, await channel.opened
    stop.set()
    await running
    await harness.close()


async def test_what_was_acknowledged_to_a_service_is_on_the_medium_at_that_moment(served):
    medium, folder, inbox = served
    for number in range(8):
        assert await inbox.submit(message(number))
        assert f"m{number}" in left(medium, folder / "home", folder / f"cut-{number}", number)


async def test_messages_that_come_together_share_a_sync_and_each_is_there_when_it_is_acknowledged(served):
    medium, folder, inbox = served
    before = medium.syncs

    async def write(number):
        assert await inbox.submit(message(number))
        if number % 5 == 0:
            assert f"m{number}" in left(medium, folder / "home", folder / f"cut-{number}", number)

    await asyncio.gather(*map(write, range(30)))
    assert 1 <= medium.syncs - before < 30


async def test_a_message_that_comes_twice_is_acknowledged_once_it_is_on_the_medium_and_not_before(served):
    medium, folder, inbox = served

    async def write(again):
        assert await inbox.submit(message(1))
        assert "m1" in left(medium, folder / "home", folder / f"cut-{again}", again)

    await asyncio.gather(*map(write, range(3)))


async def test_a_cut_at_any_moment_loses_nothing_that_was_acknowledged(tmp_path):
    home, medium, dice, reported = tmp_path / "home", Medium(), random.Random(7), set()
    with closing(Database(home / "state.db", disk=medium.disk())) as database:
        journal = Journal(database)

        async def come(number):
            await asyncio.sleep(dice.random() * 0.02)
            journal.accept(message(number))
            await asyncio.sleep(0)
            await journal.durable()
            reported.add(f"m{number}")

        async def cut(at):
            await asyncio.sleep(dice.random() * 0.04)
            there = left(medium, home, tmp_path / f"cut-{at}", at) if reported else reported
            assert reported <= there

        await asyncio.gather(*map(come, range(120)), *map(cut, range(12)))
        assert len(reported) == 120


async def test_what_comes_after_a_sync_that_failed_is_on_the_medium_too_when_it_is_acknowledged(tmp_path):
    home, medium = tmp_path / "home", Medium()
    with closing(Database(home / "state.db", disk=medium.disk())) as database:
        journal = Journal(database)
        for number in range(9):
            if number in (3, 6):
                medium.failing = number // 3
            journal.accept(message(number))
            for _ in range(medium.failing):
                with pytest.raises(ClawError, match="cannot write"):
                    await journal.durable()
            await journal.durable()
            there = left(medium, home, tmp_path / f"cut-{number}", number)
            assert {f"m{one}" for one in range(number + 1)} <= there


async def test_what_the_disk_refused_to_sync_is_not_acknowledged_and_taken_in_when_it_comes_again(tmp_path):
    refuse = [OSError(5, "Input/output error")]

    def sync(fd):
        if refuse:
            raise refuse.pop()

    channel = CuttingChannel()
    harness = Harness(
        FakeProvider(says("yes")), channels=[channel], home=tmp_path / "home", disk=Disk(sync=sync)
    )
    serving, stop = ChannelServer(harness.app), asyncio.Event()
    running = asyncio.ensure_future(serving.run(stop))
    inbox = await channel.opened
    assert not await inbox.submit(message(1))
    assert await inbox.submit(message(1))
    async with asyncio.timeout(20):
        while not channel.shown:
            await asyncio.sleep(0.01)
    assert channel.shown == ["yes"]
    stop.set()
    await running
    await harness.close()
