"""What a chat sees of a turn before its final text."""

import asyncio

import pytest
from claw.journal import Journal
from claw.live import Live
from claw.message import Address, Outbound
from claw.store import Database
from claw.testing import FakeChannel


class Typing(FakeChannel):
    """A channel whose sign of life takes until it is let go."""

    def __init__(self):
        super().__init__()
        self.go = asyncio.Event()

    async def typing(self, address, message_id=""):
        await self.go.wait()


@pytest.mark.parametrize("ticks", range(6))
async def test_a_turn_that_ends_just_when_a_sign_of_life_was_shown_is_over(tmp_path, ticks):
    channel, complaints = Typing(), []
    where = Outbound("t1", Address("fake", "c1"), "")
    live = Live(channel, where, "t1", Journal(Database(tmp_path / "state.db")), str, complaints.append)
    await asyncio.sleep(0)
    channel.go.set()
    for _ in range(ticks):
        await asyncio.sleep(0)

    await asyncio.wait_for(live.over(finished=True), 1)
    assert complaints == []
