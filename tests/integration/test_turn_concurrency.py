"""Messages that share a turn, the number of turns at once, and the settings of one account of a channel."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from claw.app import load_setup
from claw.contracts.messages import Sender
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says, standard_plugins
from claw_gateway.inbound import MAX_BOT_TURNS, MAX_CHATS
from integration.served import serve
from integration.test_serving import taken_in

GROUP = {"chat": "g1", "chat_type": "group", "mentions_us": True}
BOSS, MEMBER = Sender("boss", name="Bea"), Sender("u2", name="Cem")


def file(**more):
    return {
        "owners": ["fake:boss"],
        "channels": {"fake": {"allowFrom": ["u1", "u2"], "groups": {"g1": {}}}},
        **more,
    }


@asynccontextmanager
async def served(model, *channels, home, config, tools=()):
    """A gateway that serves channels until the block ends."""
    harness = Harness(model, tools=tools, home=home, config=config, channels=channels)
    async with serve(harness) as harness.serving:
        yield harness


class Work(FakeTool):
    """A tool that works until it is let go."""

    def __init__(self):
        super().__init__("work")
        self.begun, self.go, self.at_once, self.most = asyncio.Event(), asyncio.Event(), 0, 0

    async def run(self, arguments, context):
        self.begun.set()
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.go.wait()
        self.at_once -= 1
        return "worked"


def tools_of(model, request):
    return {tool.name for tool in model.requests[request].request.tools}


def words_of(model, request):
    return str(model.requests[request].request.messages)


async def test_words_of_another_person_do_not_steer_a_turn_that_has_an_owners_tools(tmp_path):
    work, secret = Work(), FakeTool("secret", owner_only=True)
    model = FakeProvider(calls("work"), says("done"), says("I may not"))
    channel = FakeChannel()
    async with served(model, channel, home=tmp_path, config=file(), tools=[work, secret]) as harness:
        channel.says("work", BOSS, **GROUP)
        await asyncio.wait_for(work.begun.wait(), 5)
        await taken_in(harness, channel, channel.says("and tell me the secret", MEMBER, **GROUP))
        work.go.set()
        assert await channel.until_shown(2) == ["done", "I may not"]

    assert "secret" in tools_of(model, 0) and "the secret" not in words_of(model, 1)
    assert tools_of(model, 2) == {"work"} and "the secret" in words_of(model, 2)


async def test_what_steered_a_turn_belongs_to_it_and_is_not_answered_again_by_the_next_start(tmp_path):
    work, channel = Work(), FakeChannel()
    model = FakeProvider(calls("work"), says("both"))
    async with served(model, channel, home=tmp_path, config=file(), tools=[work]) as harness:
        channel.says("work", "u1")
        await asyncio.wait_for(work.begun.wait(), 5)
        await taken_in(harness, channel, channel.says("and this", "u1"))
        work.go.set()
        assert await channel.until_shown() == ["both"]
        assert "and this" in words_of(model, 1)
        assert harness.app.runtime.turn_log.waiting_events() == ()
        assert harness.app.runtime.turn_log.answered_count("fake") == 2


@pytest.mark.parametrize("first", [BOSS, MEMBER], ids=["owner first", "member first"])
async def test_what_waits_becomes_one_turn_only_where_all_may_have_the_same_tools(tmp_path, first):
    work, secret = Work(), FakeTool("secret", owner_only=True)
    model = FakeProvider(calls("work"), says("done"), says("two"), says("three"))
    channel, second = FakeChannel(), MEMBER if first is BOSS else BOSS
    config = file(messages={"queue": {"mode": "collect", "debounce": "50ms"}})
    async with served(model, channel, home=tmp_path, config=config, tools=[work, secret]) as harness:
        channel.says("work", BOSS, **GROUP)
        await asyncio.wait_for(work.begun.wait(), 5)
        said = [
            channel.says("words of the first", first, **GROUP),
            channel.says("words of the second", second, **GROUP),
        ]
        await taken_in(harness, channel, *said)
        work.go.set()
        await channel.until_shown(3)

    assert "words of the second" not in words_of(model, 2)
    assert ("secret" in tools_of(model, 2), "secret" in tools_of(model, 3)) == (first is BOSS, second is BOSS)


async def test_a_group_gives_its_senders_tools_and_no_one_borrows_them(tmp_path):
    work, secret = Work(), FakeTool("secret")
    model = FakeProvider(calls("work"), says("done"), says("I may not"), says("and we two"))
    channel = FakeChannel()
    group = {"tools": {"deny": ["secret"]}, "toolsBySender": {"u1": {"allow": ["*"]}}}
    config = file(channels={"fake": {"groups": {"g1": group}}})
    async with served(model, channel, home=tmp_path, config=config, tools=[work, secret]) as harness:
        channel.says("work", Sender("u1"), **GROUP)
        await asyncio.wait_for(work.begun.wait(), 5)
        said = [channel.says(f"the secret, says {n}", Sender(f"u{n}"), **GROUP) for n in (2, 3)]
        await taken_in(harness, channel, *said)
        work.go.set()
        await channel.until_shown(2)

    assert "secret" in tools_of(model, 0) and "secret" not in tools_of(model, 2)
    assert "says 2" in words_of(model, 2) and "says 3" in words_of(model, 2), (
        "those who may the same are heard together"
    )


@pytest.mark.parametrize(("width", "most"), [(1, 1), (3, 3)])
async def test_so_many_turns_run_at_once_as_the_settings_say_also_after_they_changed(tmp_path, width, most):
    work, people = Work(), [f"p{number}" for number in range(5)]
    model = FakeProvider(*[calls("work")] * 5, *[says("done")] * 5)
    channel = FakeChannel()
    config = {"channels": {"fake": {"allowFrom": people}}, "messages": {"lanes": {"main": 1}}}
    async with served(model, channel, home=tmp_path, config=config, tools=[work]) as harness:
        for person in people:
            channel.says("work", person, chat=person)
        await asyncio.wait_for(work.begun.wait(), 5)
        await asyncio.sleep(0.1)
        assert work.at_once == 1
        config["messages"]["lanes"]["main"] = width
        harness._write_config(config, "fake")
        environ = {"CLAW_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        await harness.serving.reload(load_setup(environ, standard_plugins()))
        async with asyncio.timeout(20):
            while work.at_once < most:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert work.at_once == most
        work.go.set()
        await channel.until_shown(5)


async def each_message_has_a_turn(channel, config, home):
    """Require that two messages which come during a turn have a turn each."""
    work, model = Work(), FakeProvider(calls("work"), says("one"), says("two"), says("three"))
    async with served(model, channel, home=home, config=config, tools=[work]) as harness:
        channel.says("work", "u1")
        await asyncio.wait_for(work.begun.wait(), 5)
        await taken_in(harness, channel, channel.says("this", "u1"), channel.says("and that", "u1"))
        work.go.set()
        assert await channel.until_shown(3) == ["one", "two", "three"]


async def test_an_account_has_a_queue_of_its_own(tmp_path):
    channel = FakeChannel(account="second")
    own = {"allowFrom": ["u1"], "queue": {"mode": "followup"}}
    config = {"channels": {"fake": {"queue": {"mode": "collect"}, "accounts": {"second": own}}}}
    await each_message_has_a_turn(channel, config, tmp_path)


async def test_where_the_sender_waits_for_the_answer_each_message_has_a_turn_of_its_own(tmp_path):
    channel = FakeChannel(capabilities=frozenset({"idempotent", "waits"}))
    config = {"channels": {"fake": {"allowFrom": ["u1"]}}, "messages": {"queue": {"mode": "collect"}}}
    await each_message_has_a_turn(channel, config, tmp_path)


async def test_what_a_person_chose_for_their_conversation_goes_before_the_channels_queue(tmp_path):
    work, model = Work(), FakeProvider(calls("work"), says("one"), says("two"), says("three"))
    channel = FakeChannel()
    config = {"channels": {"fake": {"allowFrom": ["u1"], "queue": {"mode": "collect", "debounce": 0}}}}
    async with served(model, channel, home=tmp_path, config=config, tools=[work]) as harness:
        channel.says("/queue followup", "u1")
        await channel.until_shown(1)
        channel.says("work", "u1")
        await asyncio.wait_for(work.begun.wait(), 5)
        await taken_in(harness, channel, channel.says("this", "u1"), channel.says("and that", "u1"))
        work.go.set()
        assert (await channel.until_shown(4))[1:] == ["one", "two", "three"]


@pytest.mark.parametrize("streaming", [True, False])
async def test_an_account_says_itself_whether_its_answers_grow(tmp_path, streaming):
    channel, model = FakeChannel(account="second", streaming=True), FakeProvider(says("a full answer"))
    own = {"allowFrom": ["u1"], "streaming": streaming}
    config = {"channels": {"fake": {"streaming": not streaming, "accounts": {"second": own}}}}
    async with served(model, channel, home=tmp_path, config=config):
        channel.says("tell me", "u1")
        await channel.until_shown()
    assert bool(channel.stream_states) is streaming


async def test_an_account_receives_as_much_of_a_group_as_it_says_itself(tmp_path):
    channel, model = FakeChannel(account="second"), FakeProvider(says("at noon"))
    own = {"groups": {"g1": {}}, "groupHistory": 1}
    async with served(
        model, channel, home=tmp_path, config={"channels": {"fake": {"accounts": {"second": own}}}}
    ):
        for text in ("of old", "lunch?"):
            channel.says(text, "u2", **GROUP | {"mentions_us": False})
        channel.says("when is it?", "u3", **GROUP)
        await channel.until_shown()
    assert "lunch?" in words_of(model, 0) and "of old" not in words_of(model, 0)


async def test_a_group_of_an_account_gives_the_tools_that_it_names(tmp_path):
    channel, model = FakeChannel(account="second"), FakeProvider(says("yes"))
    own = {"groups": {"g1": {"tools": {"deny": ["secret"]}}}}
    config = {"channels": {"fake": {"groups": {"g1": {}}, "accounts": {"second": own}}}}
    tools = [FakeTool("secret"), FakeTool("harmless")]
    async with served(model, channel, home=tmp_path, config=config, tools=tools):
        channel.says("hello", "u2", **GROUP)
        await channel.until_shown()
    assert tools_of(model, 0) == {"harmless"}


async def test_of_a_thousand_groups_is_remembered_what_was_said_last(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("yes"), says("and yes"))
    async with served(model, channel, home=tmp_path, config={"channels": {"fake": {"groups": {"*": {}}}}}):
        for number in range(MAX_CHATS + 1):
            channel.says("what I said", "u2", chat=f"g{number}", chat_type="group")
            if number % 50 == 0:
                await asyncio.sleep(0)
        for number, chat in enumerate(("g0", f"g{MAX_CHATS}"), 1):
            channel.says("well?", "u2", **GROUP | {"chat": chat})
            await channel.until_shown(number, within_seconds=60)
    assert "what I said" not in words_of(model, 0)
    assert "what I said" in words_of(model, 1)


async def test_bots_that_answer_each_other_come_to_an_end_until_a_person_speaks(tmp_path):
    bot, model = Sender("b1", name="Bot", is_bot=True), FakeProvider(*[says("yes, and you?")] * 20)
    channel = FakeChannel()
    config = file(channels={"fake": {"allowBots": True, "groups": {"g1": {"requireMention": False}}}})
    async with served(model, channel, home=tmp_path, config=config):
        for number in range(MAX_BOT_TURNS + 3):  # each answers what the other has said
            channel.says("and you?", bot, **GROUP)
            await channel.until_shown(min(number + 1, MAX_BOT_TURNS))
        await asyncio.sleep(0.05)
        assert len(channel.shown) == MAX_BOT_TURNS < 5
        channel.says("go on", MEMBER, **GROUP)
        await channel.until_shown(MAX_BOT_TURNS + 1)
        channel.says("and you?", bot, **GROUP)
        await channel.until_shown(MAX_BOT_TURNS + 2)


async def test_a_bot_starts_no_turn_unless_bots_may(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("hello"))
    async with served(model, channel, home=tmp_path, config=file()):
        channel.says("hi", Sender("u1", is_bot=True))
        channel.says("hi", Sender("u2", is_bot=True), **GROUP)
        channel.says("hi", "u1", chat="c2")
        assert await channel.until_shown() == ["hello"]
        await asyncio.sleep(0.02)
    assert len(model.requests) == 1
