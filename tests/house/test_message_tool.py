"""The message tool in the real house: in this chat and those that the settings name, through the ledger, never twice."""

import asyncio
from contextlib import asynccontextmanager

from claw.errors import DeliveryError
from claw.testing import FakeChannel, FakeProvider, House, calls, says


@asynccontextmanager
async def served(model, *channels, home, targets=()):
    import claw_tools_std

    config = {
        "channels": {"fake": {"allowFrom": ["u1"]}, "other": {}},
        "tools": {"message": {"targets": list(targets)}},
    }
    plugins = {"tools-std": claw_tools_std}
    async with (
        House(model, home=home, config=config, plugins=plugins, channels=channels) as house,
        house.served(),
    ):
        yield house


def result(model):
    return model.requests[1].tool_results[0].text


async def test_what_it_says_goes_through_the_ledger_and_is_not_said_again_at_the_end(tmp_path):
    channel = FakeChannel()
    model = FakeProvider(calls("message", message="The build is green."), says("The build is green."))
    async with served(model, channel, home=tmp_path) as house:
        channel.says("how is the build?", "u1")
        await channel.until_shown()
        while house.app.rooms.journal.unfinished():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        [turn] = house.app.rooms.journal.turns()
        assert turn["outcome"] == "delivered" and turn["owed"] == 0
    assert channel.shown == ["The build is green."]


async def test_another_chat_must_be_named_in_the_settings(tmp_path):
    here, other = FakeChannel(), FakeChannel("other")
    model = FakeProvider(calls("message", message="hi", to="c9", channel="other"), says("I may not"))
    async with served(model, here, other, home=tmp_path):
        here.says("greet them", "u1")
        await here.until_shown()
    assert "tools.message.targets does not name it" in result(model)
    assert other.shown == []


async def test_in_a_chat_that_the_settings_name_it_speaks(tmp_path):
    here, other = FakeChannel(), FakeChannel("other")
    model = FakeProvider(calls("message", message="hi", to="other:c9"), says("done"))
    async with served(model, here, other, home=tmp_path, targets=["other:c9"]):
        here.says("greet them", "u1")
        await here.until_shown()
        assert await other.until_shown() == ["hi"]
    assert other.sent[0].address.chat == "c9"


async def test_a_refusal_of_the_service_reaches_the_model_in_words(tmp_path):
    channel = FakeChannel()
    channel.fail_next(DeliveryError("you were removed from this chat", permanent=True))
    model = FakeProvider(calls("message", message="hi"), says("I could not"))
    async with served(model, channel, home=tmp_path):
        channel.says("say hi", "u1")
        await channel.until_shown()
    assert "removed from this chat" in result(model)


async def test_what_a_channel_cannot_do_is_said(tmp_path):
    class Plain:
        """A channel without talents."""

        name, capabilities = "plain", frozenset()

        def __init__(self, inner):
            self._inner, self.limits = inner, inner.limits
            self.run, self.send = inner.run, inner.send

    inner = FakeChannel("plain")
    model = FakeProvider(
        calls("message", action="poll", message="when?", options=["now", "later"]), says("no")
    )
    async with served(model, FakeChannel(), Plain(inner), home=tmp_path) as house:
        house.app.config.settings.channels["plain"] = house.app.config.settings.channels["fake"]
        inner.says("ask them", "u1")
        await inner.until_shown()
    assert "cannot do that: poll" in result(model)


async def test_a_file_of_the_workspace_goes_along_as_it_was_when_it_was_said(tmp_path):
    channel = FakeChannel()
    model = FakeProvider(calls("message", message="see", attachments=["plan.txt"]), says("sent"))
    async with served(model, channel, home=tmp_path) as house:
        (house.workspace / "plan.txt").write_text("the plan")
        channel.says("send me the plan", "u1")
        await channel.until_shown(2)
        [file] = [one.attachments[0] for one in channel.sent if one.attachments]
        (house.workspace / "plan.txt").write_text("another plan")
        with open(file.path, encoding="utf-8") as copy:
            assert (file.name, copy.read()) == ("plan.txt", "the plan")
