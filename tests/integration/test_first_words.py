"""The first messages between a person and the bot: ``/start``, and the answer to being paired."""

import pytest
from claw.testing import FakeChannel, FakeProvider, says
from claw_gateway.pairing import Pairing
from integration.test_serving import served, until

OPEN = {"channels": {"fake": {"allowFrom": ["u1"]}}}
PAIRED = {"channels": {"fake": {"dmPolicy": "pairing"}}}


@pytest.mark.parametrize("line", ["/start", "/start invite-42", "/start@claw_bot"])
async def test_start_is_answered_with_a_greeting_and_costs_no_turn(tmp_path, line):
    channel, model = FakeChannel(), FakeProvider()
    async with served(model, channel, home=tmp_path, config=OPEN):
        channel.says(line, "u1")
        [text] = await channel.until_shown()
    assert "/help" in text and "unknown command" not in text
    assert model.requests == []


async def test_a_person_who_was_paired_is_notified_once_in_the_chat_where_they_asked(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("hello"))
    async with served(model, channel, home=tmp_path, config=PAIRED) as harness:
        channel.says("/start", "new-1")
        [asked] = await channel.until_shown()
        pairing = Pairing(harness.app.database)
        pairing.approve(pairing.pending()[0].code)
        await until(lambda: len(channel.shown) == 2)
        assert "claw pairing approve" in asked
        assert "You may write to me now" in channel.shown[1]
        channel.says("hi", "new-1")
        await until(lambda: len(channel.shown) == 3)
    assert channel.shown[2:] == ["hello"]
    assert pairing.to_greet() == ()


async def test_who_is_paired_while_no_gateway_runs_is_notified_at_its_next_start(tmp_path):
    channel = FakeChannel()
    async with served(FakeProvider(), channel, home=tmp_path, config=PAIRED) as harness:
        channel.says("hi", "new-1")
        await channel.until_shown()
        database = harness.app.database
        pairing, entry = Pairing(database), Pairing(database).pending()[0]
    from claw.storage.database import Database

    database = Database(tmp_path / "state.db")
    pairing = Pairing(database)
    pairing.approve(entry.code)
    assert len(pairing.to_greet()) == 1
    database.close()
    again = FakeChannel()
    async with served(FakeProvider(), again, home=tmp_path, config=PAIRED):
        [text] = await again.until_shown()
    assert "You may write to me now" in text
