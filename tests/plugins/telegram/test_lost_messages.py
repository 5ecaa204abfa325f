"""Messages of the bot whose ids are lost are found by their ids, and those of people are never taken for them."""

import asyncio
from contextlib import suppress

import pytest
from claw import Address, DeliveryError, Outbound
from claw_channel_sdk import SentSearch
from claw_telegram.call_budget import GROUP as GROUP_LIMIT
from claw_telegram.fake import FakeRefusal, FakeTelegram
from claw_telegram.lost_messages import MOST_IDS, MOST_IDS_OF_A_GROUP
from plugins.telegram.bench import channel_at

CHAT, OTHER, GROUP = FakeTelegram.CHAT, 444555666, FakeTelegram.GROUP


def address(chat: int = CHAT) -> Address:
    return Address("telegram", str(chat))


async def sent(channel, text: str, chat: int = CHAT) -> str:
    """Send a message; return its id."""
    await channel.wait_for_rate_limit(address(chat))
    [id] = (await channel.send(Outbound("key-1", address(chat), text))).message_ids
    return str(id)


@pytest.mark.parametrize("chat", [CHAT, GROUP])
async def test_the_bots_own_messages_between_two_others_are_found(chat: int) -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        asked = str(fake.message("?", chat=chat)["message_id"])
        lost = [await sent(channel, text, chat) for text in ("one", "two")]
        fake.message("a person writes in between", chat=chat)
        known = await sent(channel, "known", chat)
        await sent(channel, "in another chat", OTHER)
        before = await sent(channel, "the notice", chat)
        search = SentSearch(address(chat), before, ((str(chat), asked),), frozenset({(str(chat), known)}))

        assert await channel.find_sent(search) == tuple(lost)
        assert fake.shown(chat) == ["one", "two", "known", "the notice"], "a search changes nothing"


async def test_messages_of_other_private_chats_narrow_the_range_and_those_of_a_supergroup_do_not() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        asked = str(fake.message("?")["message_id"])
        for _ in range(MOST_IDS + 5):
            fake.message("elsewhere", chat=OTHER)
        later = str(fake.message("elsewhere", chat=OTHER)["message_id"])
        lost, before = await sent(channel, "one"), await sent(channel, "the notice")
        too_wide = SentSearch(address(), before, ((str(CHAT), asked), (str(GROUP), later)))
        with pytest.raises(DeliveryError, match="at most 20") as refused:
            await channel.find_sent(too_wide)
        assert refused.value.permanent

        assert await channel.find_sent(SentSearch(address(), before, ((str(OTHER), later),))) == (lost,)
        assert len(fake.calls("editMessageReplyMarkup")) == 1


async def test_a_search_leaves_a_group_most_of_its_twenty_calls_a_minute() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        asked = str(fake.message("?", chat=GROUP)["message_id"])
        for _ in range(MOST_IDS_OF_A_GROUP):
            fake.message("people talk", chat=GROUP)
        await sent(channel, "one", GROUP)
        search = SentSearch(address(GROUP), await sent(channel, "the notice", GROUP), ((str(GROUP), asked),))
        with pytest.raises(DeliveryError, match="at most 5") as refused:
            await channel.find_sent(search)
        assert refused.value.permanent and not fake.calls("editMessageReplyMarkup")


async def test_a_search_for_which_nothing_waits_tries_more_ids_and_leaves_calls_to_answers() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        asked = str(fake.message("?", chat=GROUP)["message_id"])
        for _ in range(MOST_IDS_OF_A_GROUP):
            fake.message("people talk", chat=GROUP)
        lost = await sent(channel, "one", GROUP)
        before = await sent(channel, "the whole answer", GROUP)
        search = SentSearch(address(GROUP), before, ((str(GROUP), asked),), may_wait=True)
        assert await channel.find_sent(search) == (lost,)

        for _ in range(MOST_IDS - MOST_IDS_OF_A_GROUP):
            fake.message("people talk", chat=GROUP)
        longer = SentSearch(address(GROUP), before, ((str(GROUP), asked),), may_wait=True)
        wide = asyncio.create_task(channel.find_sent(longer))
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(wide), 1)
        calls = len(fake.calls("editMessageReplyMarkup"))
        assert calls + len(fake.calls("sendMessage")) <= GROUP_LIMIT.calls - GROUP_LIMIT.spare
        await asyncio.wait_for(sent(channel, "an answer goes out at once", GROUP), 5)
        wide.cancel()


async def test_a_range_without_a_beginning_is_refused() -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        with pytest.raises(DeliveryError) as refused:
            await channel.find_sent(SentSearch(address(), await sent(channel, "the notice")))
        assert refused.value.permanent


@pytest.mark.parametrize("status", [500, 403])
async def test_a_search_that_telegram_does_not_answer_is_an_error_and_not_an_empty_result(
    status: int,
) -> None:
    async with FakeTelegram() as fake, channel_at(fake.url) as channel:
        asked = str(fake.message("?")["message_id"])
        await sent(channel, "one")
        before = await sent(channel, "the notice")
        fake.fail("editMessageReplyMarkup", FakeRefusal(status, "No"), times=20)
        with pytest.raises(DeliveryError):
            await channel.find_sent(SentSearch(address(), before, ((str(CHAT), asked),)))
