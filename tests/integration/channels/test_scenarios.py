"""The contract between a chat service and claw, on every platform: its real plugin, in the real program."""

import asyncio
import contextlib
import time

import pytest
from claw.host.hookspecs import hookimpl
from claw.testing import FakeChannel, FakeProvider, FakeTool, calls, combined, says
from claw_gateway.commands.turns import app as turns_command
from claw_gateway.pairing import Pairing
from integration.channels.on_discord import Discord
from integration.channels.on_feishu import Feishu
from integration.channels.on_telegram import Telegram
from integration.channels.platforms import (
    Answers,
    SimulatedPlatform,
    Slow,
    config,
    served,
    states,
    text_received_by,
    until,
)
from typer.testing import CliRunner

_SOCKETS = [
    pytest.param(Feishu, id="feishu", marks=pytest.mark.xdist_group("feishu")),
    pytest.param(Telegram, id="telegram", marks=pytest.mark.xdist_group("telegram")),
    pytest.param(Discord, id="discord", marks=pytest.mark.xdist_group("discordpy")),
]
_WEBHOOKS = [
    pytest.param(lambda: Feishu(webhook=True), id="feishu-webhook", marks=pytest.mark.xdist_group("feishu")),
    pytest.param(
        lambda: Telegram(webhook=True), id="telegram-webhook", marks=pytest.mark.xdist_group("telegram")
    ),
]
every_platform = pytest.mark.parametrize("stage", _SOCKETS, indirect=True)
every_way_in = pytest.mark.parametrize("stage", [*_SOCKETS, *_WEBHOOKS], indirect=True)

streamed_or_not = pytest.mark.parametrize("streaming", [False, True], ids=["plain", "streamed"])


@pytest.fixture
async def stage(request):
    async with request.param() as made:
        yield made


class PluginWith:
    """A plugin that registers one more channel."""

    def __init__(self, channel):
        self._channel = channel

    @hookimpl
    def register_channels(self, config):
        return [self._channel]


async def received_by_model(harness, stage: SimulatedPlatform, place, count: int = 1):
    """Wait until this many messages are visible and no message is on its way; return them."""

    def ready():
        report = harness.serving.report()
        quiet = not (report.running or report.waiting or report.pending or stage.being_written())
        return quiet and len(stage.seen(place)) >= count

    try:
        await until(ready)
    except TimeoutError:
        pytest.fail(f"{stage.seen(place)}, {harness.serving.report()}, {harness.log_lines}")
    return stage.seen(place)


def state_of(harness, channel: str, account: str):
    """Return the state of one account, as ``claw channels status`` shows it."""
    (found,) = [
        one.state
        for one in harness.serving.report().channels
        if (one.name, one.account) == (channel, account)
    ]
    return found


def standing_of(harness, plugin: str) -> str:
    (found,) = [one.state for one in harness.app.host.plugin_states if one.id == plugin]
    return found


def texts(seen) -> list[str]:
    return [one.text for one in seen]


# --- connecting


@every_way_in
async def test_it_is_up_and_a_message_is_answered_in_its_chat(stage, tmp_path):
    async with served(stage, FakeProvider(says("hello there")), tmp_path) as harness:
        await stage.says("hi", stage.ann)

        assert texts(await received_by_model(harness, stage, stage.direct(stage.ann))) == ["hello there"]
        assert stage.seen(stage.direct(stage.ben)) == stage.seen(stage.group) == []
        (turn,) = harness.app.runtime.turn_log.turns()
        assert (turn["outcome"], turn["possiblyRepeated"]) == ("delivered", 0)
        assert harness.log_lines == []


@every_platform
async def test_bad_credentials_are_reported_in_a_clear_line_and_the_other_channels_go_on(stage, tmp_path):
    other = FakeChannel()
    tree = config(stage, stage.wrong)
    tree["channels"]["fake"] = {"allowFrom": ["u1"]}
    async with served(
        stage, FakeProvider(says("still here")), tmp_path, tree, others={"other": PluginWith(other)}, up=False
    ) as harness:
        await until(lambda: states(harness, stage.name) == ["failed"])
        (failed,) = [one.state for one in harness.serving.report().channels if one.name == stage.name]
        assert stage.fix in failed.detail
        await until(lambda: any(stage.fix in line for line in harness.log_lines))
        harness.serving.report()
        assert sum(stage.fix in line for line in harness.log_lines) == 1
        assert not any(str(secret) in failed.detail for secret in stage.wrong.values())
        other.says("hi", "u1")
        assert await other.until_shown() == ["still here"]


@every_platform
async def test_after_a_break_it_connects_again_and_the_missed_message_is_answered(stage, tmp_path):
    model = FakeProvider(says("before"), says("after"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("one", stage.ann)
        await received_by_model(harness, stage, stage.direct(stage.ann))
        await stage.drop()
        await stage.says("two", stage.ann)

        assert texts(await received_by_model(harness, stage, stage.direct(stage.ann), 2)) == [
            "before",
            "after",
        ]
        await until(lambda: states(harness, stage.name) == ["up"])
        (state,) = [one.state for one in harness.serving.report().channels if one.name == stage.name]
        assert state.reconnects == 1


@pytest.mark.parametrize("make", [*_SOCKETS, *_WEBHOOKS])
async def test_it_stops_within_two_seconds_and_leaves_no_task(make, tmp_path):
    before = asyncio.all_tasks()
    async with make() as stage:
        async with served(stage, FakeProvider(says("bye")), tmp_path) as harness:
            await stage.says("hi", stage.ann)
            await received_by_model(harness, stage, stage.direct(stage.ann))
            began = time.monotonic()
        assert time.monotonic() - began < 2
    await until(lambda: asyncio.all_tasks() == before, 20)


@every_platform
async def test_two_accounts_of_one_channel_are_served_apart(stage, tmp_path):
    work = await stage.another()
    accounts = {"work": {**work.section, "allowFrom": [stage.ben], "dmPolicy": "allowlist"}}
    tree = config(stage, {"allowFrom": [stage.ann], "dmPolicy": "allowlist", "accounts": accounts})
    model = Answers(by={"at home": "hello ann", "at work": "hello ben"})
    async with served(stage, model, tmp_path, tree) as harness:
        await until(lambda: states(harness, stage.name) == ["up", "up"])
        await stage.says("at home", stage.ann)
        await work.says("at work", stage.ben)

        assert texts(await received_by_model(harness, stage, stage.direct(stage.ann))) == ["hello ann"]
        assert texts(await received_by_model(harness, work, work.direct(stage.ben))) == ["hello ben"]
        assert len(model.requests) == 2
    if work is not stage:
        await work.__aexit__()


@every_platform
async def test_an_account_with_bad_credentials_is_quarantined_and_the_other_one_goes_on(stage, tmp_path):
    work = await stage.another()
    tree = config(stage, {"accounts": {"work": {**work.section, **stage.wrong}}})
    model, place = FakeProvider(says("before"), says("after")), stage.direct(stage.ann)
    async with served(stage, model, tmp_path, tree, up=False) as harness:
        await until(lambda: states(harness, stage.name) == ["up", "failed"])
        await stage.says("hi", stage.ann)
        await received_by_model(harness, stage, place)
        await asyncio.sleep(0.9)  # by now claw has given it up, where the channel does not wait by itself
        await stage.says("still there?", stage.ann)

        assert texts(await received_by_model(harness, stage, place, 2)) == ["before", "after"]
        assert states(harness, stage.name) == ["up", "failed"]
        assert stage.fix in state_of(harness, stage.name, "work").detail
        assert standing_of(harness, stage.name) == "loaded", "the plugin serves the other account"
    if work is not stage:
        await work.__aexit__()


@every_platform
async def test_an_account_whose_key_is_not_there_is_shown_with_its_key_and_the_other_one_goes_on(
    stage, tmp_path
):
    absent = dict.fromkeys(stage.wrong, "${NOBODY_SET_THIS}")
    tree = config(stage, {"accounts": {"work": {**stage.section, **absent}}})
    place = stage.direct(stage.ann)
    async with served(stage, FakeProvider(says("still here")), tmp_path, tree, up=False) as harness:
        await until(lambda: states(harness, stage.name) == ["up", "failed"])
        await stage.says("hi", stage.ann)

        assert texts(await received_by_model(harness, stage, place)) == ["still here"]
        (key,) = absent
        failed = state_of(harness, stage.name, "work").detail
        assert f"channels.{stage.name}.accounts.work.{key}" in failed
        assert "NOBODY_SET_THIS" in failed
        assert standing_of(harness, stage.name) == "loaded"
        assert [line for line in harness.log_lines if f"channel {stage.name}/work cannot start" in line]


# --- the place of an answer


@every_platform
async def test_in_a_group_it_answers_when_it_is_called_and_quotes_the_question(stage, tmp_path):
    async with served(stage, FakeProvider(says("at noon")), tmp_path) as harness:
        asked = await stage.says("when is it?", stage.ann, stage.group, to_us=True)

        (seen,) = await received_by_model(harness, stage, stage.group)
        assert (seen.text, seen.quotes) == ("at noon", asked.id)


@every_platform
async def test_an_answer_stays_in_its_thread(stage, tmp_path):
    async with served(stage, FakeProvider(says("in here")), tmp_path) as harness:
        asked = await stage.says("where are we?", stage.ann, stage.topic, to_us=True)

        (seen,) = await received_by_model(harness, stage, stage.topic)
        assert (seen.text, seen.quotes) == ("in here", asked.id)
        assert stage.seen(stage.group) == []


@every_platform
async def test_what_a_group_says_among_itself_is_not_answered_but_shown_with_the_next_question(
    stage, tmp_path
):
    model = FakeProvider(says("at noon"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("lunch at twelve?", stage.ben, stage.group)
        await stage.says("when is it?", stage.ann, stage.group, to_us=True)

        assert texts(await received_by_model(harness, stage, stage.group)) == ["at noon"]
    assert "lunch at twelve?" in text_received_by(model)
    assert len(model.requests) == 1


# --- once, and not lost


@every_way_in
async def test_a_redelivery_is_answered_once_also_after_a_restart(stage, tmp_path):
    place = stage.direct(stage.ann)
    async with served(stage, FakeProvider(says("once"), says("next")), tmp_path) as harness:
        first = await stage.says("hi", stage.ann)
        await received_by_model(harness, stage, place)
        await stage.again(first)
        await stage.says("go on", stage.ann)
        assert texts(await received_by_model(harness, stage, place, 2)) == ["once", "next"]
    async with served(stage, FakeProvider(says("later")), tmp_path) as harness:
        await stage.again(first)
        await stage.says("still there?", stage.ann)
        assert texts(await received_by_model(harness, stage, place, 3)) == ["once", "next", "later"]


@every_way_in
async def test_what_people_write_while_there_is_no_gateway_is_answered_at_the_next_start(stage, tmp_path):
    place = stage.direct(stage.ann)
    async with served(stage, FakeProvider(says("before")), tmp_path) as harness:
        await stage.says("hi", stage.ann)
        await received_by_model(harness, stage, place)
    missed = await stage.says("are you there?", stage.ann)
    await asyncio.sleep(0.05)
    assert not stage.acked(missed)
    async with served(stage, FakeProvider(says("again")), tmp_path) as harness:
        assert texts(await received_by_model(harness, stage, place, 2)) == ["before", "again"]


@every_way_in
async def test_a_message_is_acknowledged_before_its_work_is_done(stage, tmp_path):
    model = Slow(says("worked"), says("me too"))
    async with served(stage, model, tmp_path) as harness:
        said = await stage.says("work for long", stage.ann)
        await asyncio.wait_for(model.begun.wait(), 5)
        if stage.acknowledges:
            await until(lambda: stage.acked(said))
        await stage.says("and me?", stage.ben)
        await until(lambda: len(model.requests) == 2)  # nobody waits for ann's answer
        model.gate.set()

        assert texts(await received_by_model(harness, stage, stage.direct(stage.ann))) == ["worked"]
        assert texts(await received_by_model(harness, stage, stage.direct(stage.ben))) == ["me too"]


@every_platform
async def test_a_turn_that_a_stop_parked_is_answered_after_the_restart_exactly_once(stage, tmp_path):
    place, model = stage.direct(stage.ann), Slow(says("the first half and the second"))
    async with served(stage, model, tmp_path, stop_seconds=0.2):
        await stage.says("please work", stage.ann)
        await until(lambda: stage.seen(place))
    assert stage.being_written() == []
    async with served(stage, FakeProvider(says("it is done")), tmp_path) as harness:
        await received_by_model(harness, stage, place)
        await until(lambda: texts(stage.seen(place)) == ["it is done"])
    async with served(stage, FakeProvider(), tmp_path):
        pass
    assert texts(stage.seen(place)) == ["it is done"]


@every_platform
async def test_a_chat_that_is_pressed_waits_as_long_as_it_is_asked_while_another_goes_on(stage, tmp_path):
    slow, quick = stage.direct(stage.ann), stage.direct(stage.ben)
    model = Answers(by={"from ann": "for ann", "from ben": "for ben"})
    async with served(stage, model, tmp_path) as harness:
        stage.press(slow)
        began = time.monotonic()
        await stage.says("from ann", stage.ann)
        await until(lambda: stage.attempts(slow))
        await stage.says("from ben", stage.ben)
        await until(lambda: texts(stage.seen(quick)) == ["for ben"])
        assert stage.seen(slow) == []

        assert texts(await received_by_model(harness, stage, slow)) == ["for ann"]
        assert time.monotonic() - began >= stage.patience
        assert stage.attempts(slow) == 2


@every_platform
@streamed_or_not
@pytest.mark.parametrize("times", [1, 3])
async def test_an_answer_whose_fate_is_unknown_is_there_once_in_the_end(stage, streaming, times, tmp_path):
    place, tree = stage.direct(stage.ann), config(stage, {"streaming": streaming})
    async with served(stage, FakeProvider(says("it stands")), tmp_path, tree) as harness:
        stage.lose(place, times)
        await stage.says("hi", stage.ann)
        await until(lambda: "it stands" in texts(stage.seen(place)))
        await received_by_model(harness, stage, place)
        await until(lambda: texts(stage.seen(place)) == ["it stands"])
        await until(lambda: not harness.app.runtime.turn_log.turns(open_only=True))
        (turn,) = harness.app.runtime.turn_log.turns()
    assert not turn["possiblyRepeated"] and turn["undelivered"] is None


@every_platform
@streamed_or_not
async def test_what_is_refused_for_good_is_not_repeated_and_is_listed_as_stuck(
    stage, streaming, tmp_path, monkeypatch
):
    place = stage.direct(stage.ann)
    tree = config(stage, {"streaming": streaming})
    async with served(stage, FakeProvider(says("nobody reads this")), tmp_path, tree) as harness:
        stage.refuse(place)
        await stage.says("hi", stage.ann)
        (stuck,) = await until(lambda: [one for one in stuck_turns(harness) if one["undelivered"]])
        assert stuck["undelivered"].startswith("refused: ") and not stuck["owed"]
        assert any(stage.name in line and "not sent" in line for line in harness.log_lines)
        # a reply that grows may show less than the whole: its end is tried once more
        assert stage.attempts(place) <= (2 if streaming else 1)
    monkeypatch.setenv("CLAW_HOME", str(tmp_path))
    listed = CliRunner().invoke(turns_command, ["list", "--stuck"])
    assert listed.exit_code == 1 and stuck["turn"] in listed.output


def stuck_turns(harness):
    return harness.app.runtime.turn_log.turns(open_only=True)


# --- long, growing, stopped


@every_platform
async def test_a_long_answer_comes_in_order_with_its_code_whole(stage, tmp_path):
    lines = [f"line_{number} = {number} < 3  # and some words to make it long" for number in range(400)]
    code = "\n".join(lines)
    answer = f"Before.\n\n```python\n{code}\n```\n\nAfter."
    async with served(stage, FakeProvider(says(answer)), tmp_path) as harness:
        await stage.says("show me", stage.ann)
        await until(
            lambda: (
                stage.seen(stage.direct(stage.ann))[-1:]
                and "After." in stage.seen(stage.direct(stage.ann))[-1].text
            )
        )
        seen = await received_by_model(harness, stage, stage.direct(stage.ann), 2)

    assert "\n".join(part.strip("\n") for one in seen for part in one.code) == code
    assert seen[0].text.startswith("Before.") and seen[-1].text.rstrip().endswith("After.")


@every_platform
async def test_an_answer_grows_in_one_message_and_ends_whole(stage, tmp_path):
    place, model = stage.direct(stage.ann), Slow(says("the first half and then the second half"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("tell me", stage.ann)
        (half,) = await until(lambda: [one for one in stage.seen(place) if one.text])
        assert half.text and "second" not in half.text
        model.gate.set()

        (whole,) = await received_by_model(harness, stage, place)
        assert (whole.id, whole.text) == (half.id, "the first half and then the second half")


@every_platform
async def test_what_was_said_before_a_tool_gives_way_to_the_answer(stage, tmp_path):
    place, tool = stage.direct(stage.ann), FakeTool("look", "rain")
    model = FakeProvider(combined(says("I will look it up."), calls("look")), says("It rains."))
    async with served(stage, model, tmp_path, tools=[tool]) as harness:
        await stage.says("how is the weather?", stage.ann)
        await until(lambda: texts(stage.seen(place)) == ["It rains."])
        assert texts(await received_by_model(harness, stage, place)) == ["It rains."]


@every_platform
async def test_what_comes_while_a_turn_runs_is_answered_in_order(stage, tmp_path):
    place, model = stage.direct(stage.ann), Slow(says("first"), says("then second and third"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("one", stage.ann)
        await asyncio.wait_for(model.begun.wait(), 5)
        await stage.says("two", stage.ann)
        await stage.says("three", stage.ann)
        await until(lambda: len(harness.app.runtime.turn_log.turns()) and taken_in(harness, stage) == 3)
        model.gate.set()

        assert texts(await received_by_model(harness, stage, place))[-1] == "then second and third"
    asked = str([recorded.request.messages for recorded in model.requests][-1])
    assert asked.index("one") < asked.index("two") < asked.index("three")


def taken_in(harness, stage) -> int:
    """Count the messages of the platform in the journal."""
    journal = harness.app.runtime.turn_log
    return (
        journal.answered_count(stage.name)
        + journal.counts()[0]
        + sum(len(cut.taken) for cut in journal.unfinished())
    )


@every_platform
async def test_stop_ends_the_turn_and_nothing_is_left_being_written(stage, tmp_path):
    place, model = stage.direct(stage.ann), Slow(says("an answer that will never be whole"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("work for hours", stage.ann)
        await until(lambda: stage.seen(place))
        await stage.says("/stop", stage.ann)

        seen = await received_by_model(harness, stage, place, 2)
        assert "stopped" in seen[-1].text and "whole" not in seen[0].text
        assert harness.app.runtime.turn_log.unfinished() == ()
    assert stage.being_written() == []


@every_platform
async def test_stop_while_the_first_words_are_lost_on_their_way_leaves_nothing_being_written(stage, tmp_path):
    place, model = stage.direct(stage.ann), Slow(says("an answer that will never be whole"))
    async with served(stage, model, tmp_path) as harness:
        stage.lose(place)
        await stage.says("work for hours", stage.ann)
        await until(lambda: stage.attempts(place))
        await stage.says("/stop", stage.ann)

        seen = await received_by_model(harness, stage, place)
        await until(lambda: "stopped" in stage.seen(place)[-1].text)
        assert "whole" not in seen[0].text
    assert stage.being_written() == []


@every_platform
async def test_an_agent_that_stays_silent_says_nothing(stage, tmp_path):
    model = FakeProvider(says("NO_REPLY"), says("hello"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("ok, thanks", stage.ann)
        await until(lambda: harness.app.runtime.turn_log.answered_count(stage.name) == 1)
        await stage.says("hi", stage.ann)
        assert texts(await received_by_model(harness, stage, stage.direct(stage.ann))) == ["hello"]


# --- files


@every_platform
async def test_a_file_that_comes_in_lies_in_the_workspace_and_the_model_reads_its_name(stage, tmp_path):
    model = FakeProvider(says("read it"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("look at this", stage.ann, file=("plan.txt", b"buy milk"))
        await received_by_model(harness, stage, stage.direct(stage.ann))

        (there,) = (harness.workspace / "incoming").iterdir()
        assert there.read_bytes() == b"buy milk" and there.name.endswith("plan.txt")
        assert f"incoming/{there.name}" in text_received_by(model)


@every_platform
async def test_a_file_that_is_too_large_is_not_fetched_and_that_is_reported(stage, tmp_path):
    model = FakeProvider(says("too large, sorry"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("look", stage.ann, file=("huge.bin", b"x"), claims=stage.too_large_in)
        await received_by_model(harness, stage, stage.direct(stage.ann))

        assert not (harness.workspace / "incoming").exists()
        assert any("a file cannot be fetched" in line for line in harness.log_lines)
        assert "incoming/" not in text_received_by(model)
        assert "huge.bin" in text_received_by(model)


@every_platform
async def test_a_file_that_an_answer_names_goes_out_with_it(stage, tmp_path):
    model = FakeProvider(says("Here it is.\nMEDIA: ./report.txt"))
    async with served(stage, model, tmp_path) as harness:
        (harness.workspace / "report.txt").write_bytes(b"12345")
        await stage.says("the report?", stage.ann)
        await received_by_model(harness, stage, stage.direct(stage.ann), 2)
        seen = stage.seen(stage.direct(stage.ann))
    assert [(one.text, one.files) for one in seen] == [("Here it is.", ()), ("", (5,))]


@every_platform
async def test_a_file_beyond_the_size_cap_stays_here_and_that_is_said(stage, tmp_path):
    async with served(stage, FakeProvider(says("Here.\nMEDIA: ./big.bin")), tmp_path) as harness:
        with (harness.workspace / "big.bin").open("wb") as big:
            big.truncate(stage.largest_out + 1)
        await stage.says("the film?", stage.ann)
        (seen,) = await received_by_model(harness, stage, stage.direct(stage.ann))
    assert "big.bin cannot be sent" in seen.text and "larger than" in seen.text


# --- people


@every_platform
async def test_a_call_that_must_be_allowed_waits_for_the_owners_button(stage, tmp_path):
    tool = FakeTool("deploy", "deployed", effects="once")
    tree = config(stage, approvals={"tools": ["deploy"]})
    model = FakeProvider(calls("deploy"), says("it is out"))
    async with served(stage, model, tmp_path, tree, tools=[tool]) as harness:
        await stage.says("deploy it", stage.ann, stage.group, to_us=True)
        (question,) = await until(lambda: [one for one in stage.seen(stage.group) if one.buttons])
        assert "Allow once" in question.buttons and "deploy" in question.text
        await stage.presses(question, stage.group, "Allow once", stage.ann)
        await until(lambda: len(stage.seen(stage.group)) == 2)
        assert tool.calls == [], "who may not decide decides nothing"
        await stage.presses(question, stage.group, "Allow once", stage.boss)

        seen = await received_by_model(harness, stage, stage.group, 4)
    assert "it is out" in texts(seen)
    assert tool.calls == [{}]


@pytest.fixture
async def asked(stage, tmp_path):
    """Return a function that serves a gateway which asks to run ``deploy``: tool, message and request id."""

    @contextlib.asynccontextmanager
    async def serve_and_ask(in_group: bool, **approvals):
        tool, model = (
            FakeTool("deploy", "deployed", effects="once"),
            FakeProvider(calls("deploy"), says("it is out")),
        )
        tree = config(stage, approvals={"tools": ["deploy"], **approvals})
        async with served(stage, model, tmp_path, tree, tools=[tool]) as harness:
            who, place = (stage.ann, stage.group) if in_group else (stage.boss, None)
            await stage.says("deploy it", who, place, to_us=in_group)
            here = place or stage.direct(who)
            (question,) = await until(lambda: [one for one in stage.seen(here) if one.buttons])
            [waiting] = harness.app.registry.approver.value.pending()
            yield tool, question, waiting.id

    return serve_and_ask


def shown_now(stage, place, question):
    """Return the message of a question as it looks now."""
    (found,) = [one for one in stage.seen(place) if one.id == question.id]
    return found


@every_platform
async def test_a_question_that_expires_loses_its_buttons_and_says_so(stage, asked):
    async with asked(in_group=True, timeout="1s") as (tool, question, id):
        await until(lambda: not shown_now(stage, stage.group, question).buttons)
        assert f"request {id} expired without an answer" in shown_now(stage, stage.group, question).text
    assert tool.calls == []


@every_platform
async def test_a_question_of_a_stopped_turn_loses_its_buttons_and_says_so(stage, asked):
    async with asked(in_group=False) as (tool, question, id):
        place = stage.direct(stage.boss)
        await stage.says("/stop", stage.boss)
        await until(lambda: not shown_now(stage, place, question).buttons)
        assert f"request {id} was stopped before an answer" in shown_now(stage, place, question).text
    assert tool.calls == []


@every_platform
@pytest.mark.parametrize("verdict", ["once", "deny"])
@pytest.mark.parametrize("in_group", [False, True], ids=["direct", "group"])
async def test_a_typed_answer_counts_from_who_may_decide_and_from_nobody_else(
    stage, asked, in_group, verdict
):
    place = stage.group if in_group else None
    here, there = place or stage.direct(stage.boss), place or stage.direct(stage.ann)
    async with asked(in_group) as (tool, question, id):
        count = len(stage.seen(there))
        await stage.says(f"/approve {id} {verdict}", stage.ann, place, to_us=in_group)
        await until(lambda: len(stage.seen(there)) == count + 1)
        assert "you may not decide that" in stage.seen(there)[-1].text
        assert tool.calls == [] and shown_now(stage, here, question).buttons

        await stage.says(f"/approve {id} {verdict}", stage.boss, place, to_us=in_group)
        await until(lambda: "it is out" in texts(stage.seen(here)))
        await until(lambda: not shown_now(stage, here, question).buttons)
        assert f"already answered: {verdict}" in shown_now(stage, here, question).text
    assert len(tool.calls) == (verdict == "once")


@every_platform
async def test_a_question_that_was_put_before_a_restart_is_decided_after_it(stage, tmp_path):
    tool = FakeTool("deploy", "deployed", effects="once")
    tree = config(stage, approvals={"tools": ["deploy"]})
    async with served(
        stage, FakeProvider(calls("deploy")), tmp_path, tree, tools=[tool], stop_seconds=0.2
    ) as harness:
        await stage.says("deploy it", stage.ann, stage.group, to_us=True)
        await until(lambda: [one for one in stage.seen(stage.group) if one.buttons])
    async with served(stage, FakeProvider(says("it is out")), tmp_path, tree, tools=[tool]) as harness:
        questions = await until(lambda: [one for one in stage.seen(stage.group) if one.buttons])
        assert len(questions) == 1 and tool.calls == []
        await stage.presses(questions[0], stage.group, "Allow once", stage.boss)
        await until(lambda: "it is out" in texts(stage.seen(stage.group)))
        await received_by_model(harness, stage, stage.group)
    assert tool.calls == [{}]


@every_platform
async def test_an_unknown_sender_gets_a_code_and_is_answered_once_it_was_approved(stage, tmp_path):
    model = FakeProvider(says("welcome"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("hi", stage.eve)
        (offer,) = await received_by_model(harness, stage, stage.direct(stage.eve))
        (waiting,) = Pairing(harness.app.database).pending()
        assert waiting.code in offer.text and model.requests == []
        Pairing(harness.app.database).approve(waiting.code)
        await stage.says("hi again", stage.eve)

        assert texts(await received_by_model(harness, stage, stage.direct(stage.eve), 2))[1] == "welcome"


@every_platform
async def test_another_bot_is_not_answered(stage, tmp_path):
    model = FakeProvider(says("hello ann"))
    async with served(stage, model, tmp_path) as harness:
        await stage.says("beep", stage.eve, stage.group, to_us=True, bot=True)
        await stage.says("hi", stage.ann, stage.group, to_us=True)

        assert texts(await received_by_model(harness, stage, stage.group)) == ["hello ann"]
    assert len(model.requests) == 1


@every_platform
async def test_a_chat_command_is_answered_without_a_model(stage, tmp_path):
    async with served(stage, FakeProvider(), tmp_path) as harness:
        await stage.says("/status", stage.ann)
        (seen,) = await received_by_model(harness, stage, stage.direct(stage.ann))
    assert "fake/m1" in seen.text


@every_platform
async def test_the_answer_of_a_chat_command_is_shown_letter_for_letter(stage, tmp_path):
    async with served(stage, FakeProvider(), tmp_path) as harness:
        await stage.says("/model **/*.md _or_ `src`", stage.ann)
        (seen,) = await received_by_model(harness, stage, stage.direct(stage.ann))
    as_shown = seen.text.replace("\\", "") if stage.name == "discord" else seen.text
    assert "**/*.md _or_ `src` is no model" in as_shown
    assert seen.code == ()


# --- what only one platform has


@pytest.mark.parametrize("stage", _SOCKETS[2:], indirect=True)
async def test_a_command_of_the_services_own_is_answered_and_no_longer_thought_about(stage, tmp_path):
    async with served(stage, FakeProvider(says("a plan")), tmp_path) as harness:
        await until(lambda: stage.fake.rest.registered)
        await stage.fake.commands("status", channel=stage.group.chat, user=stage.ann)
        (status,) = await received_by_model(harness, stage, stage.group)
        await until(lambda: stage.fake.rest.confirmed and not stage.fake.rest.thinking)
        assert "fake/m1" in status.text
        await stage.fake.commands("new", "make a plan", channel=stage.group.chat, user=stage.boss)
        assert texts(await received_by_model(harness, stage, stage.group, 3))[1:] == [
            "a new conversation",
            "a plan",
        ]
        await until(lambda: len(stage.fake.rest.confirmed) == 2 and not stage.fake.rest.thinking)
        await stage.fake.commands("status", channel=stage.direct(stage.eve).chat, user=stage.eve)
        (offer,) = await received_by_model(harness, stage, stage.direct(stage.eve))
        assert "pairing approve" in offer.text
        await until(lambda: len(stage.fake.rest.confirmed) == 3 and not stage.fake.rest.thinking)


@pytest.mark.parametrize("stage", _SOCKETS[:1], indirect=True)
async def test_a_token_that_expired_is_renewed_and_the_answer_is_used(stage, tmp_path):
    async with served(stage, FakeProvider(says("before"), says("after")), tmp_path) as harness:
        await stage.says("one", stage.ann)
        await received_by_model(harness, stage, stage.direct(stage.ann))
        stage.fake.expire_token()
        await stage.says("two", stage.ann)

        assert texts(await received_by_model(harness, stage, stage.direct(stage.ann), 2)) == [
            "before",
            "after",
        ]
        assert harness.log_lines == []


@pytest.mark.parametrize("stage", _SOCKETS[:1], indirect=True)
@streamed_or_not
async def test_an_answer_that_was_under_way_before_a_stop_appears_once_also_when_its_key_is_forgotten(
    stage, streaming, tmp_path
):
    place, tree = stage.direct(stage.ann), config(stage, {"streaming": streaming})
    async with served(stage, FakeProvider(says("it stands")), tmp_path, tree, stop_seconds=0.2):
        stage.lose(place, 3)
        await stage.says("hi", stage.ann)
        await until(lambda: "it stands" in texts(stage.seen(place)))
    await stage.fake.advance(2 * 3600)
    stage.remembers = 0.05
    async with served(stage, FakeProvider(), tmp_path, tree) as harness:
        (first, told_of) = texts(await received_by_model(harness, stage, place, 2))
        (turn,) = harness.app.runtime.turn_log.turns()
    assert first == "it stands" and "if my last message arrived" in told_of
    assert "unknown" in turn["undelivered"]
