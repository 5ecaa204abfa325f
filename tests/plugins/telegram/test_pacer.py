"""Calls of one bot in time: what waits, what is skipped, and what a flood comes to."""

import asyncio
import time
from pathlib import Path

import pytest
from claw import Address, DeliveryError, Outbound
from claw.runtime import Timeouts
from claw.storage.database import Database
from claw_gateway.delivery import OutboxDelivery
from claw_gateway.journal import Journal
from claw_telegram.call_budget import BOT, CHAT
from claw_telegram.fake import FakeTelegram, too_fast
from claw_telegram.pacer import Pacer
from plugins.telegram.bench import channel_at, soon
from plugins.telegram.test_telegram import CHAT as PERSON, HERE, THERE, out

pytestmark = pytest.mark.timeout(600)


async def test_a_message_that_was_waited_for_is_counted_once() -> None:
    pacer = Pacer()
    for _ in range(CHAT.calls):
        await pacer.wait_for_post("1")
        async with pacer.call("sendMessage", {"chat_id": 1}):
            pass
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await pacer.wait_for_post("1")


async def test_a_wait_that_is_given_up_leaves_its_place_to_the_next() -> None:
    pacer, began = Pacer(), time.monotonic()
    for _ in range(CHAT.calls):
        async with pacer.call("sendMessage", {"chat_id": 1}):
            pass
    given_up = asyncio.ensure_future(pacer.wait_for_post("1"))
    await asyncio.sleep(0.05)
    behind = asyncio.ensure_future(pacer.wait_for_post("1"))
    await asyncio.sleep(0.05)
    given_up.cancel()
    await behind
    assert CHAT.seconds <= time.monotonic() - began < CHAT.seconds + 1.5


async def test_inside_a_call_the_wait_is_short_and_the_error_says_when_to_come_again() -> None:
    pacer = Pacer()
    pacer.record_refusal({"chat_id": 1}, 60)
    with pytest.raises(DeliveryError) as waits:
        async with pacer.call("editMessageText", {"chat_id": 1}):
            pytest.fail("it was made")
    error = waits.value
    assert error.retry_after_seconds is not None and 50 < error.retry_after_seconds <= 60
    assert not error.permanent and not error.outcome_unknown


async def test_after_a_429_nothing_is_sent_to_that_chat_before_its_time_and_others_go_on() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendMessage", too_fast(1))
        with pytest.raises(DeliveryError):
            await channel.send(out("refused"))
        began = time.monotonic()
        await channel.wait_for_rate_limit(THERE)
        await channel.send(out("to others", THERE))
        assert time.monotonic() - began < 0.5
        await channel.wait_for_rate_limit(HERE)
        await channel.send(out("whole"))
        assert time.monotonic() - began > 0.9
        assert fake.shown() == ["whole"] and len(fake.calls("sendMessage")) == 3


async def test_typing_signs_and_states_of_a_growing_text_are_skipped_while_the_chat_is_closed() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.fail("sendMessage", too_fast(1))
        with pytest.raises(DeliveryError):
            await channel.send(out("refused"))
        await channel.typing(HERE)
        writer = channel.stream(out(""))
        await writer.show("half")
        await asyncio.sleep(0.1)
        assert len(fake.calls("sendMessage")) == 1 and fake.calls("sendChatAction") == []
        await channel.wait_for_rate_limit(HERE)
        await writer.finish(out("half and whole"))
        assert fake.shown() == ["half and whole"] and fake.calls("editMessageText") == []


async def test_signs_are_skipped_before_the_limit_of_the_bot_is_reached() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        chats = [Address("telegram", str(PERSON + number)) for number in range(BOT.calls)]
        await asyncio.gather(*(channel.typing(chat) for chat in chats))
        assert len(fake.calls("sendChatAction")) == BOT.calls - BOT.spare


async def test_a_flood_at_the_limit_of_the_platform_drops_nothing(tmp_path: Path, full: bool) -> None:
    """300 chats × 5 messages with ``--full``, 45 × 2 otherwise; 30 calls a second, ``retry_after: 3``."""
    chats, messages = (300, 5) if full else (45, 2)
    database = Database(tmp_path / "state.db")
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        fake.calls_per_second, fake.pause_seconds = 30, 3
        journal, log = Journal(database), list[str]()
        delivery = OutboxDelivery(journal, lambda address: channel, log.append, Timeouts())
        rows = owed(journal, chats, messages)
        began = time.monotonic()
        delivery.enqueue(rows)
        await soon(lambda: not delivery._workers, 540)
        took = time.monotonic() - began
        for number in range(chats):
            assert fake.shown(PERSON + number) == [f"{number}.{at}" for at in range(messages)]
        assert log == [] and {state for (state,) in database.read("SELECT state FROM owed")} == {"paid"}
        assert len(fake.calls("sendMessage")) - fake.too_many == len(rows)
        assert fake.too_many <= len(rows) * 0.02, "the pacer keeps to the limit by itself"
        assert took < len(rows) / 30 * 1.3 + 5
    database.close()


def owed(journal: Journal, chats: int, messages: int) -> list[Outbound]:
    """Record the answers of so many turns in the ledger, in the order of their arrival."""
    rows = []
    for at in range(messages):
        for number in range(chats):
            turn = f"t{number}.{at}"
            row = Outbound(turn, Address("telegram", str(PERSON + number)), f"{number}.{at}")
            journal.began(turn, "agent:a:main")
            journal.ended(turn, "delivered", (row,))
            rows.append(row)
    return rows


async def test_what_waits_for_the_limits_when_the_gateway_ends_is_sent_at_its_next_start(
    tmp_path: Path,
) -> None:
    database = Database(tmp_path / "state.db")
    async with FakeTelegram() as fake:
        journal, log = Journal(database), list[str]()
        async with channel_at(fake.url) as channel:
            before = OutboxDelivery(journal, lambda address: channel, log.append, Timeouts())
            before.enqueue(owed(journal, 1, 6))
            await before.stop(0.5)
        assert len(fake.shown()) == CHAT.calls
        async with channel_at(fake.url) as channel:
            after = OutboxDelivery(journal, lambda address: channel, log.append, Timeouts())
            after.recover()
            await after.stop(20)
        assert fake.shown() == [f"0.{at}" for at in range(6)] and log == []
    database.close()


async def test_an_answer_in_many_messages_takes_longer_than_one_call_may_and_arrives_whole(
    tmp_path: Path,
) -> None:
    database = Database(tmp_path / "state.db")
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        journal, log = Journal(database), list[str]()
        text = "\n\n".join(f"{number} " + "word " * 700 for number in range(9))
        rows = tuple(
            Outbound(f"t:{at}" if at else "t", HERE, piece) for at, piece in enumerate(channel.split(text))
        )
        journal.began("t", "agent:a:main")
        journal.ended("t", "delivered", rows)
        timeouts = Timeouts(send_seconds=3.0)
        delivery = OutboxDelivery(journal, lambda address: channel, log.append, timeouts)
        delivery.finish_reply(channel.stream(Outbound("t", HERE, "")), Outbound("t", HERE, text), rows)
        await soon(lambda: not delivery._workers, 60)
        assert [one.partition(" ")[0] for one in fake.shown()] == [str(number) for number in range(9)]
        assert log == [] and {state for (state,) in database.read("SELECT state FROM owed")} == {"paid"}
    database.close()
