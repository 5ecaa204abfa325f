"""A whole message through the real program: every module that a turn walks through is missed when it is taken out."""

import asyncio
import gc
import json

import pytest
from claw.agent.routing import terminal_message
from claw.contracts.errors import ClawError, ProviderError, UsageError
from claw.contracts.events import MessageRecorded, Notice, TextStreamed, ToolEnded, TurnEnded, TurnStarted
from claw.contracts.messages import Address, Inbound, Sender
from claw.contracts.provider import Finished, TextDelta
from claw.contracts.transcript import User
from claw.host.calls import Review
from claw.host.hookspecs import hookimpl
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, combined, says

BUSY = ProviderError("too many requests", reason="rate_limit", retryable=True)


def lines_on_disk(harness: Harness) -> list[dict]:
    [path] = harness.home.glob("agents/*/sessions/*.jsonl")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def texts_of(request) -> list[str]:
    return [
        block.text for message in request.messages if isinstance(message, User) for block in message.content
    ]


async def test_a_tool_is_called_and_its_result_reaches_the_model():
    status = FakeTool("acme_status", result="fine")
    model = FakeProvider(calls("acme_status", name="door"), says("The door is fine."))
    async with Harness(model, tools=[status]) as harness:
        reply = await harness.send("how is the door?")

        assert reply.text == "The door is fine."
        assert status.calls == [{"name": "door"}]
        assert model.requests[1].tool_results[0].text == "fine"


async def test_a_denied_tool_is_refused_and_the_model_reads_which_key_decided():
    danger = FakeTool("wipe")
    model = FakeProvider(calls("wipe"), says("I may not do that."))
    async with Harness(model, tools=[danger], config={"tools": {"deny": ["wipe"]}}) as harness:
        reply = await harness.send("clean up")

        assert reply.text == "I may not do that."
        assert danger.calls == []
        assert "tools.deny" in model.requests[1].tool_results[0].text
        assert "wipe" not in model.requests[0].tool_names


async def test_wrong_arguments_go_back_to_the_model_as_words_it_can_act_on():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    tool = FakeTool("open", parameters=schema)
    model = FakeProvider(calls("open", pth="x"), says("ok"))
    async with Harness(model, tools=[tool]) as harness:
        await harness.send("open it")

        answer = model.requests[1].tool_results[0]
        assert answer.is_error
        assert "path" in answer.text
        assert tool.calls == []


async def test_the_next_message_finds_the_past_and_another_process_does_too(tmp_path):
    first = FakeProvider(says("noted"), says("blue"))
    async with Harness(first, home=tmp_path) as harness:
        await harness.send("my colour is blue")
        await harness.send("which is it?")
        assert texts_of(first.requests[1].request) == ["my colour is blue", "which is it?"]

    second = FakeProvider(says("still blue"))
    async with Harness(second, home=tmp_path) as harness:
        await harness.send("and now?")
        assert texts_of(second.requests[0].request) == ["my colour is blue", "which is it?", "and now?"]


async def test_what_is_emitted_is_on_disk_first():
    seen: list[int] = []
    tool = FakeTool("look", result=lambda arguments: seen.append(len(lines_on_disk(harness))) or "ok")
    model = FakeProvider(calls("look"), says("done"))
    async with Harness(model, tools=[tool]) as harness:
        await harness.send("look")

        assert seen == [3]  # header, the person's message, the call
        assert [line.get("message", {}).get("role") for line in lines_on_disk(harness)[1:]] == [
            "user", "assistant", "tool_result", "assistant",
        ]  # fmt: skip


async def test_two_messages_of_one_session_are_answered_one_after_the_other():
    class Slow(FakeProvider):
        running = most = 0

        async def stream(self, request):
            self.running += 1
            self.most = max(self.most, self.running)
            await asyncio.sleep(0.01)
            self.running -= 1
            async for event in super().stream(request):
                yield event

    model = Slow(says("one"), says("two"))
    async with Harness(model) as harness:
        replies = await asyncio.gather(harness.send("a"), harness.send("b"))

        assert model.most == 1
        assert [reply.text for reply in replies] == ["one", "two"]


async def test_a_turn_is_in_the_journal_while_it_runs_and_a_redelivery_is_not_answered_twice():
    running: list[int] = []
    tool = FakeTool(
        "work",
        result=lambda arguments: running.append(len(harness.app.runtime.turn_log.unfinished())) or "ok",
    )
    model = FakeProvider(calls("work"), says("done"))
    message = Inbound(Address("terminal", "local"), "work", Sender("local"), message_id="m1", event_id="e1")
    async with Harness(model, tools=[tool]) as harness:
        first, again = await harness.send(message), await harness.send(message)

        assert running == [1]
        assert harness.app.runtime.turn_log.unfinished() == ()
        assert (first.text, again) == ("done", None)


async def test_a_past_that_does_not_fit_is_shown_from_its_newest_turn_and_a_notice_is_shown():
    model = FakeProvider(*[says("x" * 3000) for _ in range(4)], context_tokens=2500)
    config = {"agents": {"defaults": {"compaction": {"enabled": False}}}}
    async with Harness(model, config=config) as harness:
        for n in range(4):
            await harness.send(f"message {n} " + "y" * 1500)

        assert texts_of(model.requests[-1].request)[0].startswith("message 3")
        assert any(isinstance(event, Notice) and "older messages" in event.text for event in harness.events)


async def test_the_next_model_answers_when_the_first_one_cannot():
    first, fallback = FakeProvider(BUSY, name="first"), FakeProvider(says("here"), name="spare")
    config = {"agents": {"defaults": {"model": {"primary": "first/m1", "fallbacks": ["spare/m2"]}}}}
    async with Harness(first, fallbacks=[fallback], config=config) as harness:
        reply = await harness.send("hello")

        assert reply.text == "here"
        assert [e.text for e in harness.events if isinstance(e, Notice)] == [
            "first/m1 failed: too many requests. Switched to spare/m2."
        ]


async def test_a_failed_turn_says_so_and_keeps_what_was_said():
    async with Harness(FakeProvider(BUSY, says("now it works"))) as harness:
        with pytest.raises(ProviderError, match="too many requests"):
            await harness.send("hello")

        assert isinstance(harness.events[-1], TurnEnded)
        assert harness.events[-1].outcome == "failed"
        assert (await harness.send("again")).text == "now it works"
        assert lines_on_disk(harness)[1]["message"]["content"][0]["text"] == "hello"


async def test_a_stopped_turn_keeps_the_words_so_far_and_the_next_one_works():
    class Hanging(FakeProvider):
        async def stream(self, request):
            if not self.requests:
                self.requests.append(request)
                yield TextDelta("Once upon")
                await asyncio.sleep(60)
            async for event in super().stream(request):
                yield event

    model = Hanging(says("again"))
    async with Harness(model) as harness:
        turn = asyncio.ensure_future(harness.send("tell"))
        while not any(isinstance(event, TextStreamed) for event in harness.events):
            await asyncio.sleep(0.001)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

        assert harness.events[-1].outcome == "stopped"
        assert lines_on_disk(harness)[-1]["message"]["stopReason"] == "aborted"
        assert (await harness.send("go on")).text == "again"


async def test_a_tool_that_ignores_its_cancellation_does_not_hold_the_person_up():
    async def deaf(arguments, context):
        for _ in range(20):
            try:
                await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                continue

    from dataclasses import replace

    tool = replace(FakeTool("deaf").tool, run=deaf)
    model = FakeProvider(calls("deaf"), says("back"))
    async with Harness(model, tools=[tool]) as harness:
        turn = asyncio.ensure_future(harness.send("go"))
        while not model.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        turn.cancel()
        started = asyncio.get_running_loop().time()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert asyncio.get_running_loop().time() - started < 10

        assert (await harness.send("and now?")).text == "back"
        assert model.requests[1].tool_results[0].is_error  # the call that never answered has an answer


async def test_reviewers_may_change_and_deny_and_one_that_fails_denies():
    class Reviewer:
        def __init__(self, before):
            self.before = before

    def reviewing(*reviewers):
        class Plugin:
            @hookimpl
            def register_reviewers(self):
                return [Reviewer(before) for before in reviewers]

        return {"judge": Plugin()}

    def broken(call, context):
        raise RuntimeError("no mood")

    outcomes = []
    for before in (
        lambda call, context: Review("allow", arguments={"n": 2}),
        lambda call, context: Review("deny", "not on Sundays"),
        broken,
        lambda call, context: None,
    ):
        tool = FakeTool("work")
        model = FakeProvider(calls("work", n=1), says("ok"))
        async with Harness(model, tools=[tool], plugins=reviewing(before)) as harness:
            await harness.send("work")
        outcomes.append((tool.calls, model.requests[1].tool_results[0].text))

    assert outcomes[0] == ([{"n": 2}], "done")
    assert outcomes[1] == ([], "the call was refused: not on Sundays")
    assert outcomes[2][0] == []
    assert "judge" in outcomes[2][1]
    assert "no mood" in outcomes[2][1]
    assert outcomes[3] == ([{"n": 1}], "done")


async def test_filters_change_and_drop_messages_on_both_ways():
    from dataclasses import replace

    class Filter:
        def inbound(self, message):
            return None if "spam" in message.text else replace(message, text=message.text.upper())

        def outbound(self, message):
            return replace(message, text=message.text + "!")

    class Plugin:
        @hookimpl
        def register_filters(self):
            return [Filter()]

    model = FakeProvider(says("hello"))
    async with Harness(model, plugins={"wash": Plugin()}) as harness:
        assert await harness.send("spam") is None
        reply = await harness.send("hi")

        assert texts_of(model.requests[0].request) == ["HI"]
        assert reply.text == "hello!"


async def test_observers_receive_the_turn_and_what_they_raise_goes_no_further():
    recorded = []

    class Good:
        def on_event(self, event):
            recorded.append(type(event).__name__)

    class Bad:
        async def on_event(self, event):
            raise RuntimeError("ears off")

    class Plugin:
        @hookimpl
        def register_observers(self):
            return [Bad(), Good()]

    async with Harness(FakeProvider(says("hello")), plugins={"ears": Plugin()}) as harness:
        assert (await harness.send("hi")).text == "hello"

        assert recorded[0] == "TurnStarted"
        assert recorded[-1] == "TurnEnded"
        assert any("ears" in line and "ears off" in line for line in harness.log_lines)


async def test_the_agents_own_words_and_files_are_in_the_prompt_and_a_changed_file_is_seen():
    model = FakeProvider(says("1"), says("2"))
    config = {"agents": {"defaults": {"systemPrompt": "You speak like a pirate."}}}
    async with Harness(model, config=config) as harness:
        (harness.workspace / "AGENTS.md").write_text("Never touch the red button.")
        await harness.send("a")
        (harness.workspace / "AGENTS.md").write_text("Never touch the green button.")
        await harness.send("b")

        first, second = (recorded.request.system for recorded in model.requests)
        assert "You speak like a pirate." in first.stable
        assert "red button" in first.stable
        assert "green button" in second.stable
        assert "running inside claw" in first.stable.splitlines()[0]


async def test_the_prompt_of_two_turns_is_the_same_to_the_byte():
    model = FakeProvider(says("1"), says("2"))
    async with Harness(model, tools=[FakeTool("work")]) as harness:
        await harness.send("a")
        await harness.send("something else altogether")

        assert model.requests[0].request.system.stable == model.requests[1].request.system.stable
        assert model.requests[0].request.tools == model.requests[1].request.tools


async def test_trusted_metadata_can_precede_the_message_and_is_not_kept_in_the_past():
    model = FakeProvider(says("1"), says("2"))
    async with Harness(model, config={"prompt": {"inboundMeta": "user"}}) as harness:
        await harness.send("first")
        await harness.send("second")

        past = texts_of(model.requests[1].request)
        assert past[0] == "first"
        assert "Inbound Context" in past[1] and past[1].endswith("\nsecond")
        assert "Inbound Context" not in model.requests[1].request.system.whole


async def test_an_unknown_sender_on_a_channel_nobody_opened_gets_no_answer():
    model = FakeProvider()
    async with Harness(model) as harness:
        unknown = Inbound(Address("telegram", "7"), "hi", Sender("7"), message_id="1", event_id="1")

        assert await harness.send(unknown) is None
        assert model.requests == []


async def test_owner_only_tools_are_for_owners():
    tool = FakeTool("keys", owner_only=True)
    config = {
        "channels": {"telegram": {"dmPolicy": "allowlist", "allowFrom": ["7", "8"]}},
        "owners": ["telegram:8"],
    }
    model = FakeProvider(says("a"), says("b"))
    async with Harness(model, tools=[tool], config=config) as harness:
        for who in ("7", "8"):
            await harness.send(
                Inbound(Address("telegram", who), "hi", Sender(who), message_id=who, event_id=who)
            )

        assert [recorded.tool_names for recorded in model.requests] == [(), ("keys",)]


async def test_an_optional_tool_waits_for_an_allow_list():
    tool = FakeTool("risky", optional=True)
    for config, offered in (
        ({}, ()),
        ({"tools": {"alsoAllow": ["risky"]}}, ("risky",)),
        ({"tools": {"allow": ["*"]}}, ()),
    ):
        model = FakeProvider(says("ok"))
        async with Harness(model, tools=[tool], config=config) as harness:
            await harness.send("hi")
        assert model.requests[0].tool_names == offered


@pytest.mark.parametrize(
    "token", ["NO_REPLY", "**NO_REPLY**", "`NO_REPLY`", "NO_REPLY.", "**NO_REPLY.**", "NO_REPLY！"]
)
async def test_the_silent_token_alone_is_not_said(token):
    async with Harness(FakeProvider(says(token))) as harness:
        assert await harness.send("fyi") is None
        assert harness.events[-1].outcome == "silent"


@pytest.mark.parametrize(
    "text", ["NO_REPLY: here it is", "Done NO_REPLY.", "<NO_REPLY>", "**__SILENT__**", "no_reply"]
)
async def test_a_text_with_a_silent_token_in_it_is_said(text):
    async with Harness(FakeProvider(says(text))) as harness:
        assert (await harness.send("fyi")).text == text


async def test_a_sandbox_that_is_asked_for_and_not_there_stops_the_turn():
    config = {"agents": {"defaults": {"sandbox": {"mode": "all"}}}}
    async with Harness(FakeProvider(), config=config) as harness:
        with pytest.raises(ClawError, match="sandbox"):
            await harness.send("hi")


async def test_in_a_sandboxed_run_a_tool_is_given_its_limits():
    from dataclasses import replace

    class LimitSandbox:
        name = "walls"

        async def probe(self):
            return ""

        def wrap(self, argv, *, workspace, environment):
            return ["walls", str(workspace), *argv]

    class Plugin:
        @hookimpl
        def register_sandboxes(self):
            return [LimitSandbox()]

    seen = []

    async def start(arguments, context):
        seen.append(context.wrap(["ls"]))
        return "ok"

    config = {
        "agents": {"defaults": {"sandbox": {"mode": "all"}}},
        "tools": {"sandbox": {"tools": {"allow": ["start"]}}},
    }
    tool = replace(FakeTool("start").tool, run=start)
    model = FakeProvider(calls("start"), says("ok"))
    async with Harness(model, tools=[tool], config=config, plugins={"sandbox": Plugin()}) as harness:
        await harness.send("go")

        assert seen == [["walls", str(harness.workspace), "ls"]]


async def test_a_tool_choice_holds_for_the_first_call_and_a_denied_one_is_an_error_before_it():
    tool = FakeTool("work")
    model = FakeProvider(calls("work"), says("ok"))
    async with Harness(model, tools=[tool]) as harness:
        await harness.send("go", tool_choice="work")
        assert [recorded.request.tool_choice for recorded in model.requests] == ["work", "auto"]

    refused = FakeProvider()
    async with Harness(refused, tools=[tool], config={"tools": {"deny": ["work"]}}) as harness:
        with pytest.raises(UsageError, match=r"tools\.deny"):
            await harness.send("go", tool_choice="work")
        assert refused.requests == []


async def test_a_turn_may_be_limited_to_so_many_model_calls():
    model = FakeProvider(calls("work"), calls("work"), calls("work"))
    async with Harness(
        model, tools=[FakeTool("work")], config={"agents": {"defaults": {"maxTurns": 2}}}
    ) as harness:
        with pytest.raises(ClawError, match=r"agents\.defaults\.maxTurns"):
            await harness.send("go")

        assert len(model.requests) == 2


async def test_a_long_tool_result_is_cut_to_what_the_model_can_take():
    model = FakeProvider(calls("log"), says("ok"), context_tokens=32_000)
    async with Harness(model, tools=[FakeTool("log", result="line\n" * 50_000)]) as harness:
        await harness.send("read the log")

        assert len(model.requests[1].tool_results[0].text) <= 16_000


async def test_calls_of_one_answer_are_recorded_in_call_order():
    model = FakeProvider(combined(calls("a"), calls("b")), says("ok"))
    async with Harness(model, tools=[FakeTool("a", result="A"), FakeTool("b", result="B")]) as harness:
        await harness.send("both")

        assert [result.text for result in model.requests[1].tool_results] == ["A", "B"]
        assert sum(isinstance(event, ToolEnded) for event in harness.events) == 2


async def test_no_error_of_calls_that_ran_together_is_left_for_the_event_loop_to_report():
    unhandled = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, seen: unhandled.append(seen["message"]))

    async def emit(event):
        if isinstance(event, ToolEnded):
            raise OSError("no space")

    model = FakeProvider(combined(calls("a"), calls("b")))
    async with Harness(model, tools=[FakeTool("a"), FakeTool("b")]) as harness:
        with pytest.raises(OSError, match="no space"):
            await harness.app.handle(terminal_message("both"), emit)
        gc.collect()

    assert unhandled == []


async def test_a_tool_may_end_the_turn_without_asking_the_model_again():
    from claw import ToolResult

    model = FakeProvider(calls("bye"))
    async with Harness(model, tools=[FakeTool("bye", result=ToolResult("bye", ends_turn=True))]) as harness:
        await harness.send("go")

        assert len(model.requests) == 1
        assert any(isinstance(e, MessageRecorded) for e in harness.events)
        assert isinstance(harness.events[0], TurnStarted)


async def test_a_filter_that_is_broken_leaves_the_message_as_it_was():
    class Filter:
        def inbound(self, message):
            raise RuntimeError("dry")

    class Plugin:
        @hookimpl
        def register_filters(self):
            return [Filter()]

    model = FakeProvider(says("hello"))
    async with Harness(model, plugins={"wash": Plugin()}) as harness:
        await harness.send("hi")

        assert texts_of(model.requests[0].request) == ["hi"]
        assert any("wash" in line for line in harness.log_lines)


async def test_a_stream_that_ends_without_an_answer_is_an_error_not_a_silence():
    class Empty(FakeProvider):
        async def stream(self, request):
            return
            yield Finished(says(""))

    async with Harness(Empty()) as harness:
        with pytest.raises(ProviderError):
            await harness.send("hi")
        assert len(lines_on_disk(harness)) == 2  # header and question


async def test_owners_are_in_the_prompt_as_hashes_only():
    model = FakeProvider(says("ok"))
    async with Harness(model, config={"owners": ["telegram:12345678"]}) as harness:
        await harness.send("hi")

        system = model.requests[0].request.system.whole
        assert "## Authorized Senders" in system
        assert "12345678" not in system


async def test_a_secret_of_the_file_never_reaches_the_model_through_a_tool():
    tool = FakeTool("peek", result="the key is sk-very-secret-value, take it")
    model = FakeProvider(calls("peek"), says("ok"))
    config = {"providers": {"fake": {"apiKey": "sk-very-secret-value"}}}
    async with Harness(model, tools=[tool], config=config) as harness:
        await harness.send("peek")

        assert "sk-very-secret-value" not in model.requests[1].tool_results[0].text
        assert "sk-very-secret-value" not in str(lines_on_disk(harness))


async def test_what_a_call_read_is_known_to_the_next_one():
    from claw.contracts.tool import ToolContext

    seen = []

    async def status(arguments, context: ToolContext):
        seen.append(dict(context.status))
        return "ok"

    from dataclasses import replace

    tool = replace(FakeTool("status").tool, run=status)
    model = FakeProvider(says("one", input=120, cache_read=30), calls("status"), says("two"))
    async with Harness(model, tools=[tool]) as harness:
        await harness.send("a")
        await harness.send("b")

        assert seen[0]["used_tokens"] == 150
        assert seen[0]["context_tokens"] == 200_000
        assert seen[0]["model"] == "fake/m1"


async def test_keys_are_tried_in_the_order_of_the_file():
    from claw.contracts.provider import Credential

    keys = [Credential("main", "1"), Credential("backup", "2")]
    model = FakeProvider(BUSY, says("ok"), keys=keys)
    profiles = [{"id": "main", "apiKey": "k1"}, {"id": "backup", "apiKey": "k2"}]
    config = {"providers": {"fake": {"authProfiles": profiles, "authOrder": ["backup", "main"]}}}
    async with Harness(model, config=config) as harness:
        await harness.send("hi")

        assert [recorded.request.credential.name for recorded in model.requests] == ["backup", "main"]


async def test_a_folder_that_was_asked_for_is_worked_in_whatever_the_agent_names(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    async with Harness(FakeProvider()) as harness:
        from claw.agent.turn_context import TurnOptions
        from claw.runtime import terminal_message

        places = [
            (await harness.app.resolve_turn(terminal_message(""), options)).workspace
            for options in (TurnOptions(folder=other), TurnOptions(workspace=other))
        ]

        assert places == [harness.workspace, other]


async def test_a_workspace_that_nobody_named_is_made_when_a_tool_first_wants_it(tmp_path):
    """The first message of a fresh home: ``ls`` in a folder that nobody made would only say that it is not there."""
    import claw_tools_std

    channel, model = FakeChannel(), FakeProvider(calls("ls"), says("nothing yet"))
    unnamed = {"agents": {"defaults": {"workspace": None}}}
    plugins = {"tools-std": claw_tools_std}
    async with Harness(model, home=tmp_path, config=unnamed, plugins=plugins, channels=[channel]) as harness:
        harness.workspace.rmdir()
        async with harness.serving():
            channel.says("list my files")
            await channel.until_shown()

        assert not model.requests[1].tool_results[0].is_error
        assert harness.workspace.stat().st_mode & 0o777 == 0o700
