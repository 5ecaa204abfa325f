"""Ids that a model names lead to a message, never to another part of the service, and cost no answer."""

from pathlib import Path

import pytest
from claw import DeliveryError
from claw_discord.fake import FakeDiscord
from plugins.discord.living import RecordingInbox, channel_of, here, listening, says

pytestmark = pytest.mark.xdist_group("discordpy")
ODD = ["..", ".", "", "../../910", "%2e%2e", "1?x", "12a", "\u0661", "9" * 30]


@pytest.mark.parametrize("what", ["edit", "delete", "react", "take off", "react with"])
async def test_an_id_is_no_path_to_the_channel_itself(
    what: str, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
) -> None:
    made = channel_of(service, tmp_path)
    async with listening(made, harness):
        [ours] = (await made.send(says("mine"))).message_ids
        before = len(service.log)
        for odd in ODD[:3] if what == "react with" else ODD:
            act = {
                "edit": lambda id: made.edit(here(), id, "changed"),
                "delete": lambda id: made.delete(here(), id),
                "react": lambda id: made.react(here(), id, "x"),
                "take off": lambda id: made.react(here(), id, "x", True),
                "react with": lambda emoji: made.react(here(), ours, emoji),
            }[what]
            with pytest.raises(DeliveryError, match="a Discord") as refused:
                await act(odd)
            assert refused.value.permanent
        assert service.log[before:] == [] and service.shown() == ["mine"]


@pytest.mark.parametrize("odd", ODD)
async def test_an_answer_to_no_message_is_said_all_the_same(
    odd: str, service: FakeDiscord, harness: RecordingInbox, tmp_path: Path
) -> None:
    made = channel_of(service, tmp_path)
    async with listening(made, harness):
        [id] = (await made.send(says("hi", reply_to=odd))).message_ids
        assert service.shown() == ["hi"] and "message_reference" not in service.messages[id]
        [sent] = service.asked("POST", "/messages")
        assert "message_reference" not in sent.body
