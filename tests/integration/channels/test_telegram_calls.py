"""The calls that an answer costs on Telegram, from the message of a person to the answer in the chat."""

import asyncio
from collections import Counter

import pytest
from claw.testing import FakeProvider, says
from integration.channels.on_telegram import Telegram
from integration.channels.platforms import served, until

COUNTED = ("sendMessage", "editMessageText", "sendChatAction", "deleteMessage")


class Late(FakeProvider):
    """A model that begins its answer after a while, and then is quick.

    :ivar seconds: until the first word.
    """

    seconds = 0.0

    async def stream(self, request):
        await asyncio.sleep(self.seconds)
        async for event in super().stream(request):
            yield event


@pytest.mark.parametrize(("seconds", "signs"), [(0.0, 0), (0.8, 1)], ids=["at once", "late"])
async def test_a_short_answer_is_one_message_that_is_not_edited(tmp_path, seconds, signs):
    """The chat sees that an answer is coming only when it does not come at once."""
    model = Late(says("Twelve chars"))
    model.seconds = seconds
    async with Telegram() as stage, served(stage, model, tmp_path) as harness:
        await stage.says("hi", stage.ann)
        await until(lambda: stage.seen(stage.direct(stage.ann)))
        await until(lambda: not harness.serving.report().pending)
        await asyncio.sleep(0.3)
        made = Counter(call.method for call in stage.fake.log if call.method in COUNTED)
        assert made["sendMessage"] == 1 and not made["editMessageText"] and not made["deleteMessage"]
        assert made["sendChatAction"] <= signs
