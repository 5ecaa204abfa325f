"""Channels served by the real program: in through the journal, a turn, and out again; also across restarts."""

import asyncio
import contextlib
from contextlib import asynccontextmanager

import pytest
from claw.contracts.errors import ConfigError, ProviderError, UsageError
from claw.contracts.messages import Address, Inbound, Sender
from claw.contracts.provider import Finished, TextDelta
from claw.host.hookspecs import hookimpl
from claw.host.isolation import Timeouts
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says, standard_plugins
from claw_channel_sdk import read_accounts
from claw_gateway.pairing import Pairing
from integration.served import serve

OPEN = {"channels": {"fake": {"allowFrom": ["u1"], "groups": {"g1": {}}}}, "owners": ["fake:boss"]}


class Channels:
    """A plugin that registers channels."""

    def __init__(self, *channels):
        self.channels = channels

    @hookimpl
    def register_channels(self, config):
        return self.channels


@asynccontextmanager
async def served(model, *channels, home, config=OPEN, tools=()):
    """A gateway that serves channels until the block ends."""
    harness = Harness(model, tools=tools, home=home, config=config, plugins={"channels": Channels(*channels)})
    async with serve(harness) as harness.serving:
        yield harness


async def until(holds):
    """Wait until something holds, however slow the machine is."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def taken_in(harness, channel, *said):
    """Wait until all of this was received: it has its turn, or waits for one, or needs none."""
    notice = {one.event_id for one in said}
    await until(lambda: notice <= set(channel.acknowledged) and not harness.serving._arrived)


class Slow(FakeProvider):
    """A model that waits to be let go before it answers."""

    def __init__(self, *answers):
        super().__init__(*answers)
        self.gate, self.asked = asyncio.Event(), asyncio.Event()

    async def stream(self, request):
        self.asked.set()
        await self.gate.wait()
        async for event in super().stream(request):
            yield event


def words(harness):
    """The words of every request's last message."""
    return [
        "".join(block.text for block in recorded.request.messages[-1].content)
        for recorded in harness.requests
    ]


async def test_a_message_is_answered_in_its_chat(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("hello there"))
    async with served(model, channel, home=tmp_path) as harness:
        asked = channel.says("hi", "u1")
        assert await channel.until_shown() == ["hello there"]

        [sent] = channel.sent
        assert (sent.address, sent.answers) == (asked.address, asked.message_id)
        assert channel.acknowledged == [asked.event_id]
        assert harness.log_lines == []


async def test_it_is_acknowledged_before_the_work_is_done(tmp_path):
    channel, model = FakeChannel(), Slow(says("done"))
    async with served(model, channel, home=tmp_path):
        asked = channel.says("work", "u1")
        await asyncio.wait_for(model.asked.wait(), 5)
        assert channel.acknowledged == [asked.event_id]
        model.gate.set()
        await channel.until_shown()


async def test_a_redelivery_is_answered_once_also_after_a_restart(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("once"))
    async with served(model, channel, home=tmp_path):
        asked = channel.says("hi", "u1")
        await channel.until_shown()
        channel.again(asked)
        await until(lambda: channel.acknowledged == [asked.event_id] * 2)
        await asyncio.sleep(0.05)
    again = FakeChannel()
    async with served(FakeProvider(), again, home=tmp_path):
        again.again(asked)
        await until(lambda: again.acknowledged)
        await asyncio.sleep(0.05)

    assert channel.shown == ["once"] and again.shown == []
    assert again.acknowledged == [asked.event_id], "a redelivery is acknowledged"


async def test_what_was_accepted_and_not_begun_is_answered_by_the_next_start(tmp_path):
    channel = FakeChannel()
    harness = Harness(FakeProvider(), home=tmp_path, config=OPEN, plugins={"channels": Channels(channel)})
    harness.app.runtime.turn_log.accept(channel.says("are you there?", "u1"))
    await harness.close()

    again = FakeChannel()
    async with served(FakeProvider(says("yes")), again, home=tmp_path):
        assert await again.until_shown() == ["yes"]


async def test_a_turn_that_was_parked_is_taken_up_again_where_it_was(tmp_path):
    channel, work = FakeChannel(), FakeTool("work", "worked")
    first = Slow(says("never heard"))
    first.gate.set()
    first._answers = [calls("work")]

    class Hanging(Slow):
        async def stream(self, request):
            if len(self.requests) == 1:
                self.asked.set()
                self.requests.append(None)
                yield TextDelta("half an ")
                await asyncio.Event().wait()
            async for event in FakeProvider.stream(self, request):
                yield event

    model = Hanging(calls("work"))
    async with served(model, channel, home=tmp_path, tools=[work]) as harness:
        harness.app.timeouts  # noqa: B018 - built
        object.__setattr__(harness.serving, "_timeouts", type(harness.app.timeouts)(stop_seconds=0.2))
        channel.says("please work", "u1")
        await asyncio.wait_for(model.asked.wait(), 5)
    assert channel.shown == []

    again, second = FakeChannel(), FakeProvider(says("it is done"))
    async with served(second, again, home=tmp_path, tools=[work]) as harness:
        assert await again.until_shown() == ["it is done"]

    assert work.calls == [{}], "what had its result is not done again"
    [recorded] = second.requests
    assert [type(message).__name__ for message in recorded.request.messages] == [
        "User",
        "Assistant",
        "ToolResultMessage",
    ]


async def test_an_effect_that_may_have_happened_is_reported_and_not_repeated(tmp_path):
    channel, begun = FakeChannel(), asyncio.Event()

    async def hang(arguments, context):
        begun.set()
        await asyncio.Event().wait()

    pay = FakeTool("pay", effects="once")
    pay.run = hang
    async with served(FakeProvider(calls("pay")), channel, home=tmp_path, tools=[pay]) as harness:
        object.__setattr__(harness.serving, "_timeouts", type(harness.app.timeouts)(stop_seconds=0.2))
        channel.says("pay the bill", "u1")
        await asyncio.wait_for(begun.wait(), 5)

    again, second, repeated = FakeChannel(), FakeProvider(says("I do not know whether it was paid")), []
    pay = FakeTool("pay", lambda arguments: repeated.append(1) or "paid", effects="once")
    async with served(second, again, home=tmp_path, tools=[pay]):
        await again.until_shown()

    assert repeated == []
    assert "unknown" in second.requests[0].tool_results[0].text


async def test_a_turn_that_fails_is_reported_the_owner_learns_why(tmp_path):
    down = ProviderError("the key is wrong", reason="auth")
    channel, model = FakeChannel(), FakeProvider(down, down)
    config = {**OPEN, "owners": ["fake:u1"]}
    async with served(model, channel, home=tmp_path, config=config):
        channel.says("hi", "u1")
        [notice] = await channel.until_shown()
    assert "the key is wrong" in notice


async def test_everybody_else_learns_that_it_failed_and_no_more(tmp_path):
    down = ProviderError("the key sk-1 is wrong", reason="auth")
    channel, model = FakeChannel(), FakeProvider(down, down)
    async with served(model, channel, home=tmp_path) as harness:
        channel.says("hi", "u1")
        [notice] = await channel.until_shown()
    assert "key" not in notice and "went wrong" in notice
    assert any("the key" in line for line in harness.log_lines)


async def test_silence_is_an_answer(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("`NO_REPLY`."), says("hello"))
    async with served(model, channel, home=tmp_path) as harness:
        channel.says("ok", "u1")
        channel.says("hi", "u1", chat="chat-2")
        assert await channel.until_shown() == ["hello"]
        assert harness.app.runtime.turn_log.unfinished() == ()


async def test_an_unknown_sender_gets_a_code_and_is_answered_once_it_was_approved(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("welcome"))
    async with served(model, channel, home=tmp_path) as harness:
        channel.says("hi", "stranger")
        [offer] = await channel.until_shown()
        [waiting] = Pairing(harness.app.database).pending()
        assert waiting.code in offer
        Pairing(harness.app.database).approve(waiting.code)
        channel.says("hi again", "stranger")
        assert (await channel.until_shown(2))[1] == "welcome"


async def test_in_a_group_it_answers_when_it_is_addressed_and_knows_what_was_said_before(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("at noon"))
    async with served(model, channel, home=tmp_path):
        group = {"chat": "g1", "chat_type": "group"}
        channel.says("lunch?", Sender("u2", name="Bea"), **group)
        channel.says("when is it?", Sender("u3", name="Cem"), mentions_us=True, **group)
        assert await channel.until_shown() == ["at noon"]

    assert channel.sent[0].reply_to, "in a group the question is quoted"
    notice = str(model.requests[0].request.messages[-1].content)
    assert "lunch?" in notice and "Bea" in notice


async def test_what_was_said_before_is_shown_with_the_next_question_and_not_with_the_one_behind_it(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("at noon"), says("here"))
    async with served(model, channel, home=tmp_path):
        group = {"chat": "g1", "chat_type": "group"}
        channel.says("lunch?", "u2", **group)
        channel.says("when is it?", "u3", mentions_us=True, **group)
        await channel.until_shown(1)
        channel.says("and where?", "u3", mentions_us=True, **group)
        await channel.until_shown(2)
    asked = [str(one.request.messages[-1].content) for one in model.requests]
    assert "lunch?" in asked[0] and "lunch?" not in asked[1]


@pytest.mark.parametrize(("kind", "answers"), [("message", 2), ("button", 2), ("reaction", 1), ("edit", 1)])
async def test_only_what_is_said_or_pressed_begins_a_turn(tmp_path, kind, answers):
    channel, model = FakeChannel(), FakeProvider(says("one"), says("two"))
    async with served(model, channel, home=tmp_path) as harness:
        channel.says("👍", "u1", kind=kind)
        await asyncio.sleep(0.05)
        channel.says("hello", "u1", chat="another")
        await channel.until_shown(answers)
        await until(lambda: harness.app.runtime.turn_log.waiting_events() == ())
    assert len(model.requests) == answers


async def test_stop_ends_the_turn_that_runs(tmp_path):
    channel, model = FakeChannel(), Slow(says("never"))
    async with served(model, channel, home=tmp_path) as harness:
        channel.says("work for hours", "u1")
        await asyncio.wait_for(model.asked.wait(), 5)
        channel.says("stop", "u1")
        [notice] = await channel.until_shown()
        assert "stopped" in notice
        await until(lambda: harness.serving.report().running == 0)
        await until(lambda: harness.app.runtime.turn_log.unfinished() == ())


async def test_stop_ends_a_turn_whose_tool_swallows_it_and_the_tool_is_named_and_left_behind(
    tmp_path, caplog
):
    class Deaf(FakeTool):
        let_go, over = asyncio.Event(), asyncio.Event()

        async def run(self, arguments, context):
            self.calls.append(arguments)
            while not self.let_go.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await self.let_go.wait()
            self.over.set()
            return "far too late"

    tool, channel = Deaf("deaf"), FakeChannel()
    model = FakeProvider(calls("deaf"), says("what else?"))
    async with served(model, channel, home=tmp_path, tools=[tool]) as harness:
        channel.says("work for hours", "u1")
        while not tool.calls:
            await asyncio.sleep(0.01)
        channel.says("/stop", "u1")
        assert "stopped" in (await channel.until_shown())[0]
        channel.says("hello?", "u1")
        assert (await channel.until_shown(2))[-1] == "what else?"
        async with asyncio.timeout(20):
            while "the tool deaf" not in caplog.text:
                await asyncio.sleep(0.01)
        tool.let_go.set()
        await tool.over.wait()
        await until(lambda: harness.app.runtime.turn_log.unfinished() == ())
        await asyncio.sleep(0.05)
        assert len(model.requests) == 2
        assert "far too late" not in str(model.requests[1].request.messages)
        assert "far too late" not in str(harness.events)


async def test_a_message_while_a_turn_runs_steers_it(tmp_path):
    channel, begun, go = FakeChannel(), asyncio.Event(), asyncio.Event()

    async def work(arguments, context):
        begun.set()
        await go.wait()
        return "worked"

    tool = FakeTool("work")
    tool.run = work
    model = FakeProvider(calls("work"), says("in blue"))
    async with served(model, channel, home=tmp_path, tools=[tool]) as harness:
        channel.says("paint it", "u1")
        await asyncio.wait_for(begun.wait(), 5)
        await taken_in(harness, channel, channel.says("in blue please", "u1"))
        go.set()
        assert await channel.until_shown() == ["in blue"]

    assert "in blue please" in str(model.requests[1].request.messages[-1].content)


async def test_a_chat_command_is_answered_without_a_model(tmp_path):
    channel = FakeChannel()
    async with served(FakeProvider(), channel, home=tmp_path):
        channel.says("/status", "u1")
        [notice] = await channel.until_shown()
        assert "fake/m1" in notice


async def test_a_new_conversation_may_begin_with_a_message(tmp_path):
    channel, model = FakeChannel(), FakeProvider(says("one"), says("two"))
    async with served(model, channel, home=tmp_path):
        channel.says("remember 7", "u1")
        await channel.until_shown(1)
        channel.says("/new what was it?", "u1")
        shown = await channel.until_shown(3)
    assert shown[-1] == "two"
    assert "remember 7" not in str(model.requests[1].request.messages)


async def test_a_call_that_must_be_allowed_waits_for_the_owners_button(tmp_path):
    channel, tool = FakeChannel(), FakeTool("deploy", "deployed", effects="once")
    config = {**OPEN, "approvals": {"tools": ["deploy"]}}
    model = FakeProvider(calls("deploy", place="prod"), says("it is out"))
    tool.parameters = {"type": "object", "properties": {"place": {"type": "string"}}}
    async with served(model, channel, home=tmp_path, config=config, tools=[tool]):
        group = {"chat": "g1", "chat_type": "group"}
        channel.says("deploy it", "u1", mentions_us=True, **group)
        await channel.until_shown(1)
        question = channel.sent[0]
        assert "prod" in question.text and tool.calls == []
        allow = next(button.value for button in question.buttons if button.value.endswith(":once"))
        channel.says(allow, "u1", kind="button", **group)
        await channel.until_shown(2)
        assert tool.calls == [], "who may not decide decides nothing"
        channel.says(allow, "boss", kind="button", **group)
        shown = await channel.until_shown(4)
    assert "it is out" in shown
    assert tool.calls == [{"place": "prod"}]


@pytest.mark.parametrize("theirs", [Address("other", "c"), Address("fake", "c", account="work")])
async def test_a_channel_hands_in_messages_of_its_own_account_alone(tmp_path, theirs):
    class Open(FakeChannel):
        async def run(self, inbox):
            self.inbox_ready.set_result(inbox)
            await asyncio.Event().wait()

    channel, model = Open(), FakeProvider()
    channel.inbox_ready = asyncio.get_running_loop().create_future()
    config = {"owners": ["fake:boss"], "channels": {"fake": {"accounts": {"work": {}}}, "other": {}}}
    async with served(model, channel, FakeChannel("other"), home=tmp_path, config=config) as harness:
        inbox = await channel.inbox_ready
        with pytest.raises(UsageError, match="submitted a message of channel"):
            await inbox.submit(Inbound(theirs, "hi", Sender("boss"), message_id="m1", event_id="e1"))
        assert harness.app.runtime.turn_log.waiting_events() == ()
    assert model.requests == []


async def test_two_accounts_of_one_channel_are_served_apart(tmp_path):
    home, work = FakeChannel(), FakeChannel(account="work")
    model = FakeProvider(says("at home"), says("at work"))
    config = {"channels": {"fake": {"allowFrom": ["u1"], "accounts": {"work": {"allowFrom": ["u1"]}}}}}
    async with served(model, home, work, home=tmp_path, config=config):
        home.says("hi", "u1")
        await home.until_shown()
        work.says("hi", "u1")
        await work.until_shown()
    assert (home.shown, work.shown) == (["at home"], ["at work"])


@pytest.mark.parametrize("answer", ["a full answer"], ids=["streamed"])
async def test_an_answer_grows_in_one_message_and_ends_whole(tmp_path, answer):
    class Streaming(FakeChannel):
        def __init__(self):
            super().__init__()
            self.stream_states, self.abandoned = [], 0

        def stream(self, outbound):
            channel = self

            class Writing:
                shown = ("live-1",)

                async def show(self, text):
                    channel.stream_states.append(text)

                async def finish(self, final):
                    channel.stream_states.append(final.text)
                    from claw.contracts.messages import Receipt

                    return Receipt(("live-1",))

                async def abandon(self):
                    channel.abandoned += 1

            return Writing()

    class Pieces(FakeProvider):
        async def stream(self, request):
            self.requests.append(request)
            for piece, so_far in (("a ", "a"), ("full ", "a full"), ("answer", answer)):
                yield TextDelta(piece)
                await until(lambda so_far=so_far: channel.stream_states[-1:] == [so_far])
            yield Finished(says(answer))

    channel = Streaming()
    async with served(Pieces(), channel, home=tmp_path) as harness:
        channel.says("tell me", "u1")
        await until(
            lambda: len(channel.stream_states) == 4 and not harness.app.runtime.turn_log.pending_replies()
        )
        await asyncio.sleep(0.05)

    assert channel.stream_states == ["a", "a full", "a full answer", answer]
    assert channel.shown == [] and channel.abandoned == 0


async def test_a_new_configuration_lets_other_people_in_and_leaves_an_unchanged_channel_alone(tmp_path):
    from claw.app import load_setup

    same, other = FakeChannel("same"), FakeChannel("other")
    config = {"channels": {"same": {"allowFrom": ["u1"]}, "other": {"allowFrom": ["u1"]}}}
    model = FakeProvider(says("one"), says("two"))
    async with served(model, same, other, home=tmp_path, config=config) as harness:
        await until(lambda: same.connections == other.connections == 1)
        config["channels"]["other"]["allowFrom"].append("u2")
        harness._write_config(config, "fake")
        environ = {"CLAW_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        await harness.serving.reload(load_setup(environ, standard_plugins()))
        other.says("hi", "u2")
        assert await other.until_shown() == ["one"]
        same.says("hi", "u1")
        await same.until_shown()
        assert (same.connections, other.connections) == (1, 2)


async def test_a_configuration_whose_required_plugin_is_missing_changes_nothing(tmp_path):
    from claw.app import load_setup
    from claw.contracts.errors import PluginError

    channel, model = FakeChannel(), FakeProvider(says("still here"))
    async with served(model, channel, home=tmp_path) as harness:
        harness._write_config({**OPEN, "plugins": {"entries": {"gone": {"required": True}}}}, "fake")
        environ = {"CLAW_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        with pytest.raises(PluginError):
            await harness.serving.reload(load_setup(environ, standard_plugins()))
        channel.says("hi", "u1")
        assert await channel.until_shown() == ["still here"]


async def test_an_answer_may_go_out_in_blocks_as_they_are_ready(tmp_path):
    class Pieces(FakeProvider):
        async def stream(self, request):
            self.requests.append(request)
            whole = "\n\n".join(f"Paragraph {n}. " + "word " * 180 for n in range(3))
            for at in range(0, len(whole), 50):
                yield TextDelta(whole[at : at + 50])
            yield Finished(says(whole))

    channel = FakeChannel()
    config = {"channels": {"fake": {"allowFrom": ["u1"], "blockStreaming": True}}}
    async with served(Pieces(), channel, home=tmp_path, config=config):
        channel.says("tell me", "u1")
        shown = await channel.until_shown(3)
        await asyncio.sleep(0.05)
        assert [text.split(".")[0] for text in channel.shown] == [f"Paragraph {n}" for n in range(3)]
        assert len(shown) == 3


async def test_a_wrong_key_of_a_plugin_keeps_the_old_configuration(tmp_path):
    from claw import ChannelConfig
    from claw.app import load_setup
    from claw.contracts.errors import ClawError

    class Odd(ChannelConfig):
        colour: str = "blue"

    class Picky(Channels):
        @hookimpl
        def register_channels(self, config):
            config.channel("fake", Odd)
            return self.channels

    channel, model = FakeChannel(), FakeProvider(says("as before"))
    harness = Harness(model, home=tmp_path, config=OPEN, plugins={"picky": Picky(channel)})
    async with serve(harness) as serving:
        wrong = {"channels": {"fake": {**OPEN["channels"]["fake"], "color": "red"}}}
        harness._write_config(wrong, "fake")
        environ = {"CLAW_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        with pytest.raises(ClawError, match="color"):
            await serving.reload(load_setup(environ, standard_plugins()))
        channel.says("hi", "u1")
        assert await channel.until_shown() == ["as before"]


async def test_an_account_that_cannot_start_keeps_the_old_configuration_unless_it_could_not_before(tmp_path):
    from claw import ChannelConfig
    from claw.app import load_setup
    from claw.contracts.errors import ClawError

    class Keyed(ChannelConfig):
        key: str = ""

    class Several:
        @hookimpl
        def register_channels(self, config):
            def ready(account, settings):
                if settings.key != "good":
                    raise ConfigError(f"channels.fake.accounts.{account}.key", "is missing", "Add it")

            accounts = read_accounts(config, "fake", Keyed, ready=ready)
            return [*(FakeChannel(account=one) for one in accounts.ready), *accounts.failed]

    def file(**accounts):
        named = {name: {"key": key} for name, key in accounts.items()}
        return {"channels": {"fake": {"allowFrom": ["u1"], "accounts": named}}}

    environ = {"CLAW_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    harness = Harness(
        FakeProvider(), home=tmp_path, config=file(one="good", two="bad"), plugins={"several": Several()}
    )
    async with serve(harness) as serving:

        async def after(tree):
            harness._write_config(tree, "fake")
            await serving.reload(load_setup(environ, standard_plugins()))

        def states():
            return {one.account: one.state.state for one in serving.report().channels}

        with pytest.raises(ClawError, match=r"accounts\.three\.key: is missing\. Add it"):
            await after(file(one="good", two="bad", three="bad"))
        await after(file(one="good", two="bad", three="good"))
        await until(lambda: states() == {"one": "up", "three": "up", "two": "failed"})
        await after(file(one="good", two="good"))
        await until(lambda: states() == {"one": "up", "two": "up"})
        with pytest.raises(ClawError, match=r"accounts\.two\.key"):
            await after(file(one="good", two="bad"))


async def test_what_the_model_thought_is_shown_where_somebody_wants_it(tmp_path):
    from claw.contracts.transcript import Assistant, Text, Thinking

    thought = Assistant((Thinking("seven is odd"), Text("7")))
    channel, model = FakeChannel(), FakeProvider(thought, thought)
    async with served(model, channel, home=tmp_path):
        channel.says("a number?", "u1")
        assert (await channel.until_shown(1))[-1] == "7"
        channel.says("/reasoning on", "u1")
        await channel.until_shown(2)
        channel.says("a number?", "u1")
        assert (await channel.until_shown(3))[-1] == "> seven is odd\n\n7"


class Broken(FakeChannel):
    """A channel that cannot listen; it counts how often it was asked to."""

    def __init__(self, why):
        super().__init__()
        self.why, self.tries = why, 0

    async def run(self, inbox):
        self.tries += 1
        raise self.why


@pytest.mark.parametrize(
    ("why", "tries", "notice"),
    [
        (RuntimeError("no line"), 5, "failed 5 times: RuntimeError: no line"),
        (ConfigError("channels.fake.token", "nobody knows it", "Take another one"), 1, "nobody knows it"),
    ],
    ids=["what may pass is tried again", "what only a person can mend is not"],
)
async def test_a_channel_that_cannot_listen_is_quarantined_and_reported(tmp_path, why, tries, notice):
    broken, other = Broken(why), FakeChannel(account="work")
    harness = Harness(
        FakeProvider(says("still here")),
        home=tmp_path,
        config={"channels": {"fake": {"allowFrom": ["u1"], "accounts": {"work": {}}}}},
        plugins={"channels": Channels(broken), "more": Channels(other)},
    )
    harness.app.timeouts = Timeouts(pause_seconds=0.01)
    async with serve(harness) as serving:
        async with asyncio.timeout(20):
            while serving.report().channels[0].state.state != "failed":
                await asyncio.sleep(0.01)
        other.says("hi", "u1")

        assert await other.until_shown() == ["still here"]
        assert broken.tries == tries
        assert [notice in one.state.detail for one in serving.report().channels] == [True, False]
        if isinstance(why, ConfigError):
            assert any(line.endswith("Take another one") for line in harness.log_lines)


async def test_an_internal_error_ends_the_turn_with_a_notice_too(tmp_path):
    class Odd(FakeProvider):
        async def stream(self, request):
            self.requests.append(request)
            yield object()

    channel = FakeChannel()
    async with served(Odd(), channel, home=tmp_path, config={**OPEN, "owners": ["fake:u1"]}) as harness:
        channel.says("hi", "u1")
        [notice] = await channel.until_shown()
        assert "No answer" in notice
        assert harness.app.runtime.turn_log.unfinished() == ()
