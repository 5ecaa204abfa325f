"""Chat commands and answers to questions that come through a channel: of whom they count, and what they leave behind."""

import asyncio

import pytest
from claw.app import load_setup
from claw.contracts.messages import Sender
from claw.storage.overrides import NO_OVERRIDE
from claw.testing import FakeChannel, FakeProvider, FakeTool, calls, says, standard_plugins
from integration.test_chat_commands import ALL
from integration.test_serving import Slow, served, taken_in, until

LINES = sorted(
    {
        *(f"/{name}" for name in ALL),
        "/model fake/other",
        "/think high",
        "/reasoning on",
        "/queue collect",
        "/new hello",
    }
)
GROUP = {"chat": "g1", "chat_type": "group", "mentions_us": True}


def section(**given):
    return {"channels": {"fake": given}, "owners": ["fake:boss"]}


CLOSED = {
    "a stranger": (section(dmPolicy="pairing"), {}),
    "somebody whom the list does not name": (section(dmPolicy="allowlist", allowFrom=["u2"]), {}),
    "direct chats are switched off": (section(dmPolicy="disabled"), {}),
    "the channel is switched off": (section(enabled=False, dmPolicy="open", allowFrom=["*"]), {}),
    "a group that is not listed": (section(groups={"g2": {}}), GROUP),
    "a group whose list does not name them": (section(groups={"g1": {"allowFrom": ["u2"]}}), GROUP),
    "not addressed to the bot": (section(groups={"g1": {}}), {**GROUP, "mentions_us": False}),
    "another bot": (section(dmPolicy="open", allowFrom=["*"]), {"sender": Sender("u1", is_bot=True)}),
    "an edit of an older message": (section(dmPolicy="open", allowFrom=["*"]), {"kind": "edit"}),
}


@pytest.mark.parametrize("why", CLOSED)
async def test_no_command_counts_of_who_may_not_talk(tmp_path, why):
    config, how = CLOSED[why]
    channel, model = FakeChannel(), FakeProvider()
    async with served(model, channel, home=tmp_path, config=config) as harness:
        said = [channel.says(line, **{"sender": "u1", **how}) for line in LINES]
        if channel.name in harness.app.registry.channels:
            await taken_in(harness, channel, *said)
            await until(lambda: not harness.serving.report().pending)
        await asyncio.sleep(0.05)
        keys = [row[0] for row in harness.app._database.read("SELECT session_key FROM overrides")]

    assert keys == [], "nothing was chosen"
    assert model.requests == []
    assert all("claw pairing approve" in text for text in channel.shown), "a code, or nothing"
    assert bool(channel.shown) is (why == "a stranger")


async def test_what_was_chosen_in_a_chat_holds_after_a_restart_and_also_after_new_until_reset(tmp_path):
    config = {**section(allowFrom=["u1"]), "providers": {"fake": {"models": {"other": {}}}}}
    channel = FakeChannel()
    async with served(FakeProvider(), channel, home=tmp_path, config=config):
        channel.says("/model fake/other", "u1")
        await channel.until_shown()

    again, model = FakeChannel(), FakeProvider(*(says("here") for _ in range(4)))
    async with served(model, again, home=tmp_path, config=config) as harness:
        for line, shown in (("hello", 1), ("/new", 2), ("hello again", 3), ("/reset", 4), ("and now", 5)):
            again.says(line, "u1", event_id=f"later-{shown}", message_id=f"later-{shown}")
            await again.until_shown(shown)
        key = "agent:default:fake:direct:u1"
        assert harness.app.runtime.sessions.overrides.of(key) == NO_OVERRIDE

    usual = model.requests[-1].request.model
    assert [recorded.request.model for recorded in model.requests] == ["other", "other", usual]
    assert usual != "other"


DEPLOY = {
    **section(allowFrom=["u1"], groups={"g1": {"allowFrom": ["u1"]}}),
    "approvals": {"tools": ["deploy"], "approvers": ["fake:boss2"]},
    "owners": ["fake:boss"],
}


async def asked(channel, who, **how):
    """Ask for something that needs a person; the question."""
    channel.says("deploy it", who, **how)
    await channel.until_shown(1)
    return channel.sent[0]


async def test_where_the_file_names_approvers_an_owner_is_none_of_them(tmp_path):
    channel, tool = FakeChannel(), FakeTool("deploy", "deployed")
    model = FakeProvider(calls("deploy"), says("it is out"))
    config = {**DEPLOY, **section(allowFrom=["u1"], groups={"g1": {"allowFrom": ["u1", "boss2"]}})}
    async with served(model, channel, home=tmp_path, config=config, tools=[tool]):
        question = await asked(channel, "u1", **GROUP)
        allow = question.buttons[0].value
        for who in ("boss", "u1"):
            channel.says(allow, who, kind="button", **GROUP)
        refused = (await channel.until_shown(3))[1:]
        assert all("may not decide" in text for text in refused) and tool.calls == []
        channel.says(allow, "boss2", kind="button", **GROUP)
        assert "deploy: allowed once" in await channel.until_shown(5)
    assert len(tool.calls) == 1


@pytest.mark.parametrize("way", ["button", "command"])
async def test_an_approver_whom_the_group_does_not_admit_decides_nothing_there(tmp_path, way):
    channel, tool = FakeChannel(), FakeTool("deploy", "deployed")
    model = FakeProvider(calls("deploy"), says("it is out"))
    async with served(model, channel, home=tmp_path, config=DEPLOY, tools=[tool]) as harness:
        question = await asked(channel, "u1", **GROUP)
        allow = question.buttons[0].value
        id = allow.split(":")[1]
        if way == "button":
            channel.says(allow, "boss2", kind="button", **GROUP)
        else:
            channel.says(f"/approve {id} once", "boss2", **GROUP)
        await asyncio.sleep(0.1)
        assert [one.id for one in harness.app.registry.approver.value.pending()] == [id]
        channel.says(allow, "boss2", kind="message", **GROUP)
        await asyncio.sleep(0.05)
    assert tool.calls == []


async def test_approve_with_an_id_alone_allows_once(tmp_path):
    channel, tool = FakeChannel(), FakeTool("deploy", "deployed")
    config = {**section(allowFrom=["u1"]), "approvals": {"tools": ["deploy"]}}
    model = FakeProvider(calls("deploy"), says("it is out"))
    async with served(model, channel, home=tmp_path, config=config, tools=[tool]) as harness:
        question = await asked(channel, "boss")
        channel.says(f"/approve {question.buttons[0].value.split(':')[1].upper()}", "boss")
        assert "deploy: allowed once" in await channel.until_shown(3)
        assert harness.app.registry.approver.value.grants() == ()
    assert len(tool.calls) == 1


@pytest.mark.parametrize(("line", "answers"), [("/queue followup", [2, 3]), ("/queue interrupt", [3])])
async def test_the_queue_that_was_chosen_in_a_chat_is_how_its_messages_wait(tmp_path, line, answers):
    channel, model = FakeChannel(), Slow(*(says("here") for _ in range(3)))
    config = section(allowFrom=["u1"])
    async with served(model, channel, home=tmp_path, config=config) as harness:
        said = [channel.says(line, "u1")]
        await channel.until_shown(1)
        said.append(channel.says("first", "u1"))
        await asyncio.wait_for(model.asked.wait(), 5)
        said.append(channel.says("second", "u1"))
        await taken_in(harness, channel, *said)
        await asyncio.sleep(0.05)
        model.gate.set()
        await channel.until_shown(1 + len(answers))
        await asyncio.sleep(0.1)
    assert [one.answers for one in channel.sent[1:]] == [said[number - 1].message_id for number in answers]


@pytest.mark.parametrize("line", ["/stop", "stop", "/new", "/reset"])
async def test_what_ends_a_turn_closes_its_question_and_a_late_button_runs_nothing(tmp_path, line):
    channel, tool = FakeChannel(), FakeTool("deploy", "deployed")
    config = {**section(allowFrom=["u1"]), "approvals": {"tools": ["deploy"]}}
    async with served(
        FakeProvider(calls("deploy")), channel, home=tmp_path, config=config, tools=[tool]
    ) as harness:
        question = await asked(channel, "boss")
        channel.says(line, "boss")
        await channel.until_shown(2)
        assert harness.app.registry.approver.value.pending() == ()
        channel.says(question.buttons[0].value, "boss", kind="button")
        shown = await channel.until_shown(3)
    assert "has expired" in shown[-1]
    assert tool.calls == []


async def test_a_question_says_how_much_time_is_left_by_the_settings_that_it_was_asked_with(tmp_path):
    channel, tool = FakeChannel(), FakeTool("deploy", "deployed")
    config = {**section(allowFrom=["u1"]), "approvals": {"tools": ["deploy"]}}
    model = FakeProvider(calls("deploy"), says("no"), calls("deploy"))
    async with served(model, channel, home=tmp_path, config=config, tools=[tool]) as harness:
        question = await asked(channel, "boss")
        assert "within 10 min" in question.text
        channel.says(question.buttons[-1].value, "boss", kind="button")
        await channel.until_shown(3)
        harness._write_config({**config, "approvals": {"tools": ["deploy"], "timeout": "3m"}}, "fake")
        await harness.serving.reload(load_setup({"CLAW_HOME": str(tmp_path)}, standard_plugins()))
        channel.says("again", "boss")
        await channel.until_shown(4)
        assert "within 3 min" in channel.sent[-1].text


async def test_words_that_look_like_a_button_are_no_answer(tmp_path):
    channel, tool, model = (
        FakeChannel(),
        FakeTool("deploy", "deployed"),
        FakeProvider(calls("deploy"), says("no")),
    )
    config = {**section(allowFrom=["u1"]), "approvals": {"tools": ["deploy"]}}
    async with served(model, channel, home=tmp_path, config=config, tools=[tool]) as harness:
        question = await asked(channel, "boss")
        channel.says(question.buttons[0].value, "boss")
        await asyncio.sleep(0.1)
        assert len(harness.app.registry.approver.value.pending()) == 1
    assert tool.calls == []


async def test_bots_alone_are_answered_four_times_and_again_once_a_person_wrote(tmp_path):
    config = section(dmPolicy="open", allowFrom=["*"], allowBots=True)
    channel, model = FakeChannel(), FakeProvider(*(says("hello") for _ in range(7)))
    bot = Sender("b1", name="bot", is_bot=True)
    async with served(model, channel, home=tmp_path, config=config) as harness:
        for number in range(7):
            await taken_in(harness, channel, channel.says(f"hello {number}", bot))
            # Each is answered before the next one comes: messages of a busy session would share one turn.
            await channel.until_shown(min(number + 1, 4))
        await asyncio.sleep(0.1)
        assert len(channel.shown) == 4
        channel.says("hello", "u1")
        await channel.until_shown(5)
        channel.says("hello again", bot)
        await channel.until_shown(6)
