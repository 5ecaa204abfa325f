"""An answer that is shown as a draft while it grows: no message is visible before it is whole."""

import asyncio

import pytest
from claw import Button, DeliveryError
from claw_channel_sdk import EditStream
from claw_telegram.channel import TelegramChannel
from claw_telegram.drafting import DraftStream, draft_id
from claw_telegram.fake import FakeRefusal, FakeTelegram, too_fast
from hypothesis import given, strategies as st
from plugins.telegram.bench import channel_at, soon
from plugins.telegram.test_telegram import CHAT, GROUP, HERE, THERE, out


def writer_of(channel: TelegramChannel, pause: float = 0.02, again: float = 20.0) -> DraftStream:
    made = channel.stream(out("", reply_to="5"))
    assert isinstance(made, DraftStream)
    made._pause, made._again = pause, again
    return made


def texts(fake: FakeTelegram) -> list[str]:
    return [text for _, text in fake.drafts.get(CHAT, ())]


async def test_it_is_drawn_while_it_grows_and_posted_once() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url, drafts=True) as channel:
        writer = writer_of(channel)
        await writer.show("**Ha")
        await soon(lambda: texts(fake) == ["**Ha"])
        await writer.show("**Half** of")
        await soon(lambda: texts(fake)[-1:] == ["Half of"])
        assert fake.shown() == [] and writer.shown == ()
        receipt = await writer.finish(out("**Half** of it and all", buttons=(Button("More", "m"),)))
        assert fake.shown() == ["Half of it and all"] and writer.shown == receipt.message_ids
        assert len({number for number, _ in fake.drafts[CHAT]}) == 1
        (said,) = fake.messages[CHAT].values()
        assert "reply_markup" in said and fake.calls("editMessageText") == []
        drawn = len(texts(fake))
        await asyncio.sleep(0.06)
        assert len(texts(fake)) == drawn


async def test_of_a_text_beyond_one_message_the_newest_part_is_drawn() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url, drafts=True) as channel:
        writer = writer_of(channel)
        text = "word " * 1000 + "the end"
        await writer.show(text)
        await soon(lambda: texts(fake))
        assert len(texts(fake)[0]) <= 4096 and texts(fake)[0].endswith("the end")
        await writer.finish(out(text))
        assert len(fake.shown()) == 2


async def test_one_that_does_not_change_is_drawn_again_before_it_fades() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url, drafts=True) as channel:
        writer = writer_of(channel, again=0.1)
        await writer.show("let me see")
        await soon(lambda: texts(fake) == ["let me see"] * 3)
        await writer.abandon()
        drawn = len(texts(fake))
        await asyncio.sleep(0.25)
        assert fake.shown() == [] and len(texts(fake)) == drawn


async def test_one_that_is_pressed_waits_and_one_that_is_refused_leaves_the_answer_whole() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url, drafts=True) as channel:
        fake.fail("sendMessageDraft", too_fast(0.2))
        writer = writer_of(channel)
        await writer.show("a")
        await soon(lambda: fake.calls("sendMessageDraft"))
        await writer.show("a b")
        await asyncio.sleep(0.1)
        assert len(fake.calls("sendMessageDraft")) == 1
        await soon(lambda: texts(fake) == ["a b"])
        await writer.finish(out("a b c"))
        fake.fail("sendMessageDraft", FakeRefusal(404, "Not Found: method not found"))
        writer = writer_of(channel)
        await writer.show("d")
        await soon(lambda: len(fake.calls("sendMessageDraft")) == 3)
        await writer.show("d e")
        await asyncio.sleep(0.05)
        await writer.finish(out("d e f"))
        assert fake.shown() == ["a b c", "d e f"] and len(fake.calls("sendMessageDraft")) == 3


async def test_a_group_and_a_chat_without_drafts_see_edits() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url, drafts=True) as channel:
        assert isinstance(channel.stream(out("", THERE)), EditStream)
        writer = channel.stream(out("", THERE))
        await writer.show("a")
        await soon(lambda: fake.shown(GROUP))
        await writer.abandon()
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        assert isinstance(channel.stream(out("", HERE)), EditStream)


async def test_an_end_that_is_refused_can_be_tried_again() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url, drafts=True) as channel:
        writer = writer_of(channel)
        await writer.show("a")
        await soon(lambda: texts(fake))
        fake.fail("sendMessage", FakeRefusal(500, "Internal Server Error"))
        with pytest.raises(DeliveryError):
            await writer.finish(out("a b"))
        await writer.finish(out("a b"))
        assert fake.shown() == ["a b"]


@given(st.text(max_size=50))
def test_a_draft_has_a_number_that_is_not_zero(key: str) -> None:
    assert 0 < draft_id(key) < 1 << 31 and draft_id(key) == draft_id(key)
