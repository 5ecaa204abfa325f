"""A stop of the fake leaves nothing open, whatever connects at that moment."""

import asyncio
import gc
import socket
import warnings

import pytest
from claw_discord.fake import FakeDiscord


@pytest.mark.parametrize("ticks", range(6))
async def test_a_connection_that_is_being_accepted_while_the_fake_stops_is_closed(ticks: int) -> None:
    fake = FakeDiscord()
    await fake.start()
    with warnings.catch_warnings(record=True) as seen, socket.create_connection(("127.0.0.1", fake.port)):
        warnings.simplefilter("always")
        for _ in range(ticks):
            await asyncio.sleep(0)
        await fake.stop()
        await asyncio.sleep(0.01)
        gc.collect()
    assert [str(one.message) for one in seen if one.category is ResourceWarning] == []
