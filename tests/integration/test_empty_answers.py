"""A turn ends with words, silent on purpose, or failed with a notice: an empty answer is never taken for the first."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from claw.contracts.errors import ClawError, ProviderError
from claw.contracts.events import Notice, Retrying, TurnEnded
from claw.contracts.provider import ThinkingDelta
from claw.contracts.transcript import Assistant, Text, Thinking
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, combined, says
from claw_testing.services import OpenAIService, ServiceReply

EMPTY = Assistant(())
BLANK = says(" \n")
ONLY_THOUGHTS = Assistant((Thinking("hm, hm"),))
REPORTED = "fake/m1: the model gave an empty answer. Ask again, or choose another model with /model"
NOTE = FakeTool("note")
ONCE_MORE = {"models": {"wait": "30s"}}


def ends(harness: Harness) -> list[tuple[str, str]]:
    return [(event.outcome, event.text) for event in harness.events if isinstance(event, TurnEnded)]


async def until(met: Callable[[], Any]) -> None:
    async with asyncio.timeout(20):
        while not met():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("empty", [EMPTY, BLANK, ONLY_THOUGHTS], ids=["nothing", "blanks", "only thoughts"])
async def test_an_empty_answer_is_asked_for_once_more(empty: Assistant) -> None:
    model = FakeProvider(empty, says("Here I am."))
    async with Harness(model, config=ONCE_MORE) as harness:
        reply = await harness.send("hello?")

        assert reply and reply.text == "Here I am."
        assert [event.reason for event in harness.events if isinstance(event, Retrying)] == ["empty"]


@pytest.mark.parametrize("empty", [EMPTY, BLANK, ONLY_THOUGHTS], ids=["nothing", "blanks", "only thoughts"])
async def test_a_model_that_says_nothing_twice_fails_the_turn_and_the_next_one_is_answered(
    empty: Assistant,
) -> None:
    model = FakeProvider(empty, empty, says("Now I am."))
    async with Harness(model, config=ONCE_MORE) as harness:
        with pytest.raises(ProviderError) as failed:
            await harness.send("hello?")
        assert str(failed.value) == REPORTED
        assert ends(harness) == [("failed", REPORTED)]

        reply = await harness.send("and now?")
        assert reply and reply.text == "Now I am."
    assert len(model.requests) == 3


async def test_a_fallback_answers_for_a_model_that_says_nothing_and_no_other_key_is_tried() -> None:
    from claw.contracts.provider import Credential

    keys = [Credential("one", "sk-1"), Credential("two", "sk-2")]
    model, fallback = (
        FakeProvider(EMPTY, EMPTY, keys=keys),
        FakeProvider(says("I am the spare."), name="spare"),
    )
    async with Harness(model, fallbacks=[fallback], config=ONCE_MORE) as harness:
        reply = await harness.send("hello?", fallbacks=("spare/m2",))

        assert reply and reply.text == "I am the spare."
        notices = [event.text for event in harness.events if isinstance(event, Notice)]
        assert notices == ["fake/m1 failed: the model gave an empty answer. Switched to spare/m2."]
    assert len(model.requests) == 2


async def test_an_answer_that_spent_its_length_on_thoughts_says_which_setting_allows_more() -> None:
    cut = Assistant((Thinking("hm"),), stop_reason="length")
    async with Harness(FakeProvider(cut, cut), config=ONCE_MORE) as harness:
        with pytest.raises(ProviderError, match=r"agents\.defaults\.maxTokens"):
            await harness.send("hello?")


async def test_nothing_but_a_mark_for_claw_is_nothing_said() -> None:
    async with Harness(FakeProvider(says("[[reply_to_current]]"))) as harness:
        with pytest.raises(ProviderError, match="the model gave an empty answer"):
            await harness.send("hello?")


# --- what is honest


async def test_the_silent_token_is_silence_on_purpose() -> None:
    async with Harness(FakeProvider(says("NO_REPLY"))) as harness:
        await harness.send("just so you know")

        assert [outcome for outcome, _ in ends(harness)] == ["silent"]


async def test_words_before_the_last_calls_are_the_answer_when_the_last_one_is_empty() -> None:
    """A model that has answered, and then takes a note, need not say it again; in a chat nobody has read it yet."""
    model = FakeProvider(combined(says("Your train is at nine."), calls("note")), EMPTY)
    async with Harness(model, tools=[NOTE], config=ONCE_MORE) as harness:
        reply = await harness.send("when is my train?")

        assert reply and reply.text == "Your train is at nine."
        assert ends(harness) == [("delivered", "Your train is at nine.")]


async def test_words_of_an_earlier_turn_are_no_answer_to_this_one() -> None:
    model = FakeProvider(says("Good morning."), calls("note"), EMPTY, EMPTY)
    async with Harness(model, tools=[NOTE], config=ONCE_MORE) as harness:
        await harness.send("good morning")
        with pytest.raises(ProviderError, match="the model gave an empty answer"):
            await harness.send("note that")


async def test_a_run_of_calls_without_any_word_is_asked_for_its_answer_once_more() -> None:
    model = FakeProvider(calls("note"), EMPTY, says("Noted."))
    async with Harness(model, tools=[NOTE], config=ONCE_MORE) as harness:
        reply = await harness.send("note that")

    assert reply and reply.text == "Noted."
    assert len(NOTE.calls) >= 1


async def test_a_turn_whose_calls_ran_out_before_any_answer_has_failed() -> None:
    config = {"agents": {"defaults": {"maxTurns": 2}}}
    async with Harness(FakeProvider(calls("note"), calls("note")), tools=[NOTE], config=config) as harness:
        with pytest.raises(ClawError, match="gave no answer"):
            await harness.send("go on")
        assert [outcome for outcome, _ in ends(harness)] == ["failed"]


@pytest.fixture
def chat(tmp_path: Path) -> Callable[..., Awaitable[tuple[FakeChannel, str]]]:
    """One message in a chat: the channel when the turn is over, and how it ended."""
    import claw_tools_std

    async def said(*answers: Any, owner: bool = True, streaming: bool = False, targets: Any = ()) -> Any:
        channel = FakeChannel(streaming=streaming)
        config = {
            "channels": {"fake": {"allowFrom": ["user-1"]}}, "tools": {"message": {"targets": list(targets)}},
            **ONCE_MORE, **({"owners": ["fake:user-1"]} if owner else {}),
        }  # fmt: skip
        plugins = {"tools-std": claw_tools_std}
        harness = Harness(
            FakeProvider(*answers),
            channels=[channel],
            config=config,
            home=tmp_path,
            plugins=plugins,
            tools=[NOTE],
        )
        async with harness, harness.serving():
            channel.says("hello?")
            journal = harness.app.runtime.turn_log
            await until(lambda: any(turn["outcome"] for turn in journal.turns()) and not journal.counts()[1])
            await asyncio.sleep(0.05)
            return channel, journal.turns()[0]["outcome"]

    return said


@pytest.mark.parametrize("streaming", [False, True])
async def test_in_a_chat_the_owner_reads_that_nothing_was_said(chat: Any, streaming: bool) -> None:
    channel, outcome = await chat(EMPTY, EMPTY, streaming=streaming)

    assert (channel.shown, outcome) == ([f"No answer: {REPORTED}"], "failed")


async def test_in_a_chat_everybody_else_reads_it_too_but_not_which_model(chat: Any) -> None:
    channel, outcome = await chat(EMPTY, EMPTY, owner=False)

    assert outcome == "failed"
    assert channel.shown == ["The model gave an empty answer. Please ask again."]


@pytest.mark.parametrize("target", [{}, {"target": "chat-1"}, {"target": "fake:chat-1"}], ids=str)
async def test_what_the_message_tool_has_said_here_is_the_answer(chat: Any, target: dict[str, str]) -> None:
    channel, outcome = await chat(calls("message", message="The build is green.", **target), EMPTY)

    assert (channel.shown, outcome) == (["The build is green."], "silent")


async def test_what_the_message_tool_has_said_elsewhere_is_no_answer_here(chat: Any) -> None:
    there = calls("message", message="hi", target="fake:chat-9")
    channel, outcome = await chat(there, EMPTY, EMPTY, targets=["fake:chat-9"])

    assert outcome == "failed"
    assert channel.shown[-1] == f"No answer: {REPORTED}"


async def test_a_message_that_the_tool_could_not_send_is_no_answer(chat: Any) -> None:
    channel, outcome = await chat(calls("message", message=""), EMPTY, EMPTY)

    assert (channel.shown, outcome) == ([f"No answer: {REPORTED}"], "failed")


@pytest.mark.parametrize("streaming", [False, True])
async def test_in_a_chat_words_before_the_last_calls_are_delivered_once(chat: Any, streaming: bool) -> None:
    first = combined(says("Your train is at nine."), calls("note"))
    channel, outcome = await chat(first, EMPTY, streaming=streaming)

    assert (channel.shown, outcome) == (["Your train is at nine."], "delivered")


# --- at the terminal, as a process


async def chatted(tmp_path: Path, service: OpenAIService, *arguments: str) -> tuple[int, str, str]:
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "providers": {"openai": {"baseUrl": service.url, "apiKey": "sk-test-0123456789"}},
                "agents": {"defaults": {"model": "openai/m"}},
            }
        )
    )
    environ = {"CLAW_HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "claw", "chat", *arguments, cwd=tmp_path, env=environ,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def test_one_message_without_an_answer_ends_with_a_notice_and_exit_code_1(tmp_path: Path) -> None:
    async with OpenAIService(lambda request: ServiceReply(thinking="hm")) as service:
        code, out, err = await chatted(tmp_path, service, "hello?")

    assert (code, out) == (1, "")
    assert "openai/m: the model gave an empty answer. Ask again, or choose another model with /model" in err
    assert len(service.requests) == 2


async def test_thoughts_alone_are_read_as_thoughts() -> None:
    class Thinks(FakeProvider):
        async def stream(self, request):  # type: ignore[no-untyped-def]
            yield ThinkingDelta("hm")
            async for event in super().stream(request):
                yield event

    async with Harness(Thinks(EMPTY, Assistant((Text("So."),))), config=ONCE_MORE) as harness:
        reply = await harness.send("hello?")

    assert reply and reply.text == "So."
