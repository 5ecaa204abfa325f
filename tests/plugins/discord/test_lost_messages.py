"""Messages of the bot whose ids are lost are found in the list of the channel."""

import pytest
from claw import DeliveryError
from claw_channel_sdk import SentSearch
from claw_discord.fake import FakeDiscord
from plugins.discord.living import RecordingInbox, channel_of, here, listening, says

CHAT = FakeDiscord.CHANNEL


async def test_the_bots_own_messages_between_two_others_are_found(tmp_path):
    async with FakeDiscord() as service:
        channel = channel_of(service, tmp_path)
        async with listening(channel, RecordingInbox()):
            asked = service.make_message("?", CHAT, service.ALICE)["id"]
            lost = [(await channel.send(says(text, text))).message_ids[0] for text in ("one", "two")]
            for number in range(130):
                service.make_message(f"a person writes {number}", CHAT, service.ALICE)
            [known] = (await channel.send(says("known", "k"))).message_ids
            service.make_message("", CHAT, service.ME, type=6)
            [before] = (await channel.send(says("the notice", "n"))).message_ids
            found = await channel.find_sent(
                SentSearch(here(), before, ((CHAT, asked),), frozenset({(CHAT, known)}))
            )

            assert found == tuple(lost)


async def test_a_range_without_a_beginning_is_refused(tmp_path):
    async with FakeDiscord() as service:
        channel = channel_of(service, tmp_path)
        async with listening(channel, RecordingInbox()):
            [before] = (await channel.send(says("the notice", "n"))).message_ids
            with pytest.raises(DeliveryError) as refused:
                await channel.find_sent(SentSearch(here(), before))
            assert refused.value.permanent
