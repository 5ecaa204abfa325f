"""The message tool in whole turns: in this chat and those that the settings name, through the journal, never twice."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from claw.contracts.errors import DeliveryError
from claw.testing import FakeChannel, FakeProvider, Harness, calls, says


@asynccontextmanager
async def served(model, *channels, home, targets=(), **more):
    import claw_http
    import claw_tools_std

    config = {
        "channels": {"fake": {"allowFrom": ["u1"], "accounts": {"work": {"allowFrom": ["u1"]}}}, "other": {}},
        "tools": {"message": {"targets": list(targets)}},
        **more,
    }
    plugins = {"tools-std": claw_tools_std, "http": claw_http}
    async with (
        Harness(model, home=home, config=config, plugins=plugins, channels=channels) as harness,
        harness.serving(),
    ):
        yield harness


def result(model):
    return model.requests[1].tool_results[0].text


async def test_what_it_says_goes_through_the_ledger_and_is_not_said_again_at_the_end(tmp_path):
    channel = FakeChannel()
    model = FakeProvider(calls("message", message="The build is green."), says("The build is green."))
    async with served(model, channel, home=tmp_path) as harness:
        channel.says("how is the build?", "u1")
        await channel.until_shown()
        async with asyncio.timeout(20):
            while [(one["outcome"], one["owed"]) for one in harness.app.runtime.turn_log.turns()] != [
                ("delivered", 0)
            ]:
                await asyncio.sleep(0.01)
    assert channel.shown == ["The build is green."]


async def test_what_it_says_elsewhere_may_be_said_here_too(tmp_path):
    here, other = FakeChannel(), FakeChannel("other")
    green = "The build is green."
    model = FakeProvider(calls("message", message=green, target="other:c9"), says(green))
    async with served(model, here, other, home=tmp_path, targets=["other:c9"]):
        here.says("tell them how the build is", "u1")
        assert await here.until_shown() == [green]
        assert await other.until_shown() == [green]


async def test_another_chat_must_be_named_in_the_settings(tmp_path):
    here, other = FakeChannel(), FakeChannel("other")
    model = FakeProvider(calls("message", message="hi", target="c9", channel="other"), says("I may not"))
    async with served(model, here, other, home=tmp_path):
        here.says("greet them", "u1")
        await here.until_shown()
    assert "tools.message.targets does not list it" in result(model)
    assert other.shown == []


async def test_in_a_chat_that_the_settings_name_it_speaks(tmp_path):
    here, other = FakeChannel(), FakeChannel("other")
    model = FakeProvider(calls("message", message="hi", target="other:c9"), says("done"))
    async with served(model, here, other, home=tmp_path, targets=["other:c9"]):
        here.says("greet them", "u1")
        await here.until_shown()
        assert await other.until_shown() == ["hi"]
    assert other.sent[0].address.chat == "c9"


async def test_an_agent_whose_own_list_is_empty_may_write_nowhere_else(tmp_path):
    here, other = FakeChannel(), FakeChannel("other")
    model = FakeProvider(calls("message", message="hi", target="other:c9"), says("I may not"))
    agents = {"list": [{"id": "default", "tools": {"message": {"targets": []}}}]}
    async with served(model, here, other, home=tmp_path, targets=["other:c9"], agents=agents):
        here.says("greet them", "u1")
        await here.until_shown()
    assert "does not list it" in result(model)
    assert other.shown == []


@pytest.mark.parametrize(
    ("named", "may"), [("fake/work:c9", True), ("fake:c9", False), ("fake/default:c9", False)]
)
async def test_a_chat_of_another_account_is_named_with_its_account(tmp_path, named, may):
    here, work = FakeChannel(), FakeChannel(account="work")
    model = FakeProvider(calls("message", message="hi", target="c9", account="work"), says("done"))
    async with served(model, here, work, home=tmp_path, targets=[named]):
        here.says("greet them", "u1")
        await here.until_shown()
    assert work.shown == (["hi"] if may else [])


async def test_a_reply_quotes_the_question_and_a_reaction_goes_on_it_unless_another_message_is_named(
    tmp_path,
):
    channel = FakeChannel()
    model = FakeProvider(
        calls("message", action="reply", message="because"),
        calls("message", action="react", emoji="👍"),
        says("NO_REPLY"),
    )
    async with served(model, channel, home=tmp_path):
        channel.says("why?", "u1", message_id="q1")
        await channel.until_shown()
        async with asyncio.timeout(20):
            while not [act for act in channel.acts if act[0] == "react"]:
                await asyncio.sleep(0.01)
    assert channel.sent[0].reply_to == "q1"
    [(_, reacted)] = [act for act in channel.acts if act[0] == "react"]
    assert reacted[1:3] == ("q1", "👍")


async def test_a_reaction_elsewhere_names_its_message(tmp_path):
    here, other = FakeChannel(), FakeChannel("other")
    model = FakeProvider(calls("message", action="react", emoji="👍", target="other:c9"), says("I did not"))
    async with served(model, here, other, home=tmp_path, targets=["other:c9"]):
        here.says("like it", "u1")
        await here.until_shown()
    assert "message_id is required" in result(model)
    assert other.acts == []


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
    async with served(model, FakeChannel(), Plain(inner), home=tmp_path) as harness:
        harness.app.config.settings.channels["plain"] = harness.app.config.settings.channels["fake"]
        inner.says("ask them", "u1")
        await inner.until_shown()
    assert "cannot do that: poll" in result(model)


async def test_a_file_of_the_workspace_goes_along_as_it_was_when_it_was_said(tmp_path):
    channel = FakeChannel()
    model = FakeProvider(calls("message", message="see", attachments=["plan.txt"]), says("sent"))
    async with served(model, channel, home=tmp_path) as harness:
        (harness.workspace / "plan.txt").write_text("the plan")
        channel.says("send me the plan", "u1")
        await channel.until_shown(2)
        [file] = [one.attachments[0] for one in channel.sent if one.attachments]
        (harness.workspace / "plan.txt").write_text("another plan")
        with open(file.path, encoding="utf-8") as copy:
            assert (file.name, copy.read()) == ("plan.txt", "the plan")


TOKEN = "kq7-the-token-of-this-house-9w2"


@pytest.mark.parametrize(
    "call",
    [
        calls("message", message=f"it is {TOKEN}"),
        calls("message", action="edit", message_id="shown-1", message=f"it is {TOKEN}"),
        calls("message", action="poll", message=f"is it {TOKEN}?", options=["yes", f"no: {TOKEN}"]),
    ],
    ids=["send", "edit", "poll"],
)
async def test_no_secret_of_claw_is_said_whatever_the_act(call, tmp_path):
    channel = FakeChannel()
    model = FakeProvider(says("Here."), call, says("Done."))
    async with served(model, channel, home=tmp_path, gateway={"auth": {"token": TOKEN}}):
        channel.says("hello", "u1")
        await channel.until_shown()
        channel.says("tell them the token", "u1")
        await channel.until_sent(2)
        for _ in range(500):
            if "Done." in channel.shown:
                break
            await asyncio.sleep(0.01)
    visible = "".join([*channel.shown, *map(repr, channel.acts)])
    assert "Done." in channel.shown and "***" in visible and TOKEN not in visible


@pytest.mark.parametrize("action", ["send", "edit", "delete", "react", "poll"])
async def test_the_same_chat_of_another_account_is_another_chat(action, tmp_path):
    here, other = FakeChannel(), FakeChannel(account="work")
    more = {"message_id": "shown-1", "emoji": "x", "options": ["a", "b"], "action": action}
    model = FakeProvider(
        calls("message", message="hi", target="chat-1", account="work", **more), says("I may not")
    )
    async with served(model, here, other, home=tmp_path):
        here.says("greet them", "u1")
        await here.until_shown()
    assert "tools.message.targets does not list it" in result(model)
    assert other.shown == [] and [act for act in other.acts if act[0] != "typing"] == []


class Finding(FakeChannel):
    """A channel that shows repeats, and whose own messages can be found by their ids, which grow."""

    def __init__(self):
        super().__init__(capabilities=frozenset({"polls"}))

    async def find_sent(self, search):
        ids, known = [*self._messages], {id for _, id in search.known}
        first = max((ids.index(id) + 1 for _, id in search.after if id in ids), default=0)
        return tuple(id for id in ids[first : ids.index(search.before)] if id not in known)


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_poll_is_not_taken_for_an_answer_whose_response_is_lost(arrived, tmp_path):
    channel = Finding()
    model = FakeProvider(
        calls("message", action="poll", message="when?", options=["now", "later"]), says("I asked them.")
    )
    async with served(model, channel, home=tmp_path) as harness:
        channel.fail_next(DeliveryError("cut", outcome_unknown=True), after_showing=arrived)
        channel.says("ask them", "u1", message_id="message-0")
        async with asyncio.timeout(10):
            while [(one["outcome"], one["owed"]) for one in harness.app.runtime.turn_log.turns()] != [
                ("delivered", 0)
            ]:
                await asyncio.sleep(0.01)
    assert channel.shown == ["when?", "I asked them."]
