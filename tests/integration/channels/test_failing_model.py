"""The chat of a person while the model service fails: one notice, which the answer or the error replaces."""

import claw_openai
from claw.testing import FakeProvider
from claw_testing.services import OpenAIService, ServiceReply
from integration.channels.on_telegram import Telegram
from integration.channels.platforms import config, served, until

NOTICE = "The model service does not answer yet. I keep trying; the answer follows here."
BUSY = ServiceReply(status=429, headers={"retry-after": "6"}, body={"error": {"message": "slow down"}})
DOWN = ServiceReply(status=503, headers={"retry-after": "6"}, body={"error": {"message": "overloaded"}})


def settings(stage, service, wait: str):
    return config(
        stage,
        providers={"openai": {"baseUrl": service.url, "apiKey": "sk-a-key"}},
        agents={"defaults": {"model": "openai/m"}},
        models={"wait": wait, "cooldowns": {"probe": "6s"}},
    )


async def test_a_long_wait_is_reported_once_and_the_answer_takes_the_place_of_the_notice(tmp_path):
    async with Telegram() as stage, OpenAIService([BUSY, DOWN, "All is well."]) as service:
        chat, tree = stage.direct(stage.boss), settings(stage, service, "120s")
        async with served(stage, FakeProvider(), tmp_path, tree, others={"openai": claw_openai}) as harness:
            await stage.says("how is it?", stage.boss)
            (notice,) = await until(lambda: stage.seen(chat), 15)
            assert notice.text == NOTICE
            await until(lambda: stage.seen(chat)[0].text == "All is well.", 30)
            await until(lambda: not harness.serving.report().pending)

            assert [one.id for one in stage.seen(chat)] == [notice.id]
            assert stage.attempts(chat) == 1


async def test_a_wait_in_vain_ends_with_the_error_in_the_place_of_the_notice(tmp_path):
    async with Telegram() as stage, OpenAIService(lambda asked: DOWN) as service:
        chat, tree = stage.direct(stage.boss), settings(stage, service, "14s")
        async with served(stage, FakeProvider(), tmp_path, tree, others={"openai": claw_openai}):
            await stage.says("how is it?", stage.boss)
            await until(lambda: stage.seen(chat), 15)
            await until(lambda: stage.seen(chat)[0].text != NOTICE, 30)

            (failure,) = stage.seen(chat)
            assert failure.text.startswith("No answer: ")
            assert "Retrying" not in failure.text
