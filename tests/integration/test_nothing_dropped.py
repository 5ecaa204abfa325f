"""Cut answers, refusals and refused calls of a model are reported: to the model, or to the person."""

import asyncio
import json
import re
import sys
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from claw.contracts.errors import ProviderError, UsageError
from claw.contracts.events import MessageRecorded, Notice, StepEnded, TurnEnded
from claw.contracts.transcript import UNREADABLE_CALL, Assistant, Text, ToolResultMessage
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says
from claw_testing.services import AnthropicService, OpenAIService, ServiceReply
from integration.test_serving import served, taken_in, until

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
CUT = Assistant((Text("half a sen"),), stop_reason="length")
CUT_NOTICE = "the answer was cut off at the limit of its length; ask to continue"
REFUSED = Assistant((), stop_reason="error", error="the model refused to answer this")


def peek() -> FakeTool:
    return FakeTool("peek", "It says 42.", PATH)


def notices(harness: Harness) -> list[str]:
    return [event.text for event in harness.events if isinstance(event, Notice)]


def results(harness: Harness) -> list[ToolResultMessage]:
    said = [getattr(event, "message", None) for event in harness.events]
    return [message for message in said if isinstance(message, ToolResultMessage)]


# --- answers that were cut off


async def test_a_text_that_was_cut_off_comes_with_a_notice() -> None:
    async with Harness(FakeProvider(CUT)) as harness:
        reply = await harness.send("a long story, please")

        assert reply and reply.text == "half a sen"
        assert CUT_NOTICE in notices(harness)


async def test_everyone_in_a_chat_reads_that_the_answer_was_cut_off(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with served(FakeProvider(CUT), channel, home=tmp_path) as harness:
        await taken_in(harness, channel, channel.says("a long story, please", "u1"))
        await until(lambda: channel.shown)

        assert channel.shown == [f"half a sen\n\n({CUT_NOTICE})"]


def wire_of_openai(*written: str, stop: str) -> ServiceReply:
    """The stream of an answer that calls ``peek`` with each of these texts as arguments."""
    pieces = [
        {"index": at, "id": f"c{at}", "function": {"name": "peek", "arguments": text}}
        for at, text in enumerate(written)
    ]
    end: dict[str, Any] = {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}]}
    end["usage"] = {"prompt_tokens": 7, "completion_tokens": 5}
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": pieces}}]}, end]
    raw = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    return ServiceReply(raw=raw + b"data: [DONE]\n\n")


def on_openai(service: OpenAIService, *tools: FakeTool) -> Harness:
    import claw_openai

    config = {"providers": {"openai": {"baseUrl": service.url, "apiKey": "k"}}}
    return Harness(FakeProvider(), tools=tools, plugins={"openai": claw_openai}, config=config)


@pytest.mark.parametrize(
    ("half", "stop", "why"),
    [
        ('{"path": "b.md', "length", "cut off at 5 tokens inside the call of peek; write it in parts"),
        ('{"path": b.md}', "tool_calls", "the JSON of its arguments is broken"),
    ],
)
async def test_half_a_call_gets_an_error_and_sound_ones_run(half: str, stop: str, why: str) -> None:
    tool, script = (
        peek(),
        [wire_of_openai('{"path": "a.md"}', half, stop=stop), ServiceReply(text="It is 42.")],
    )
    async with OpenAIService(script) as service, on_openai(service, tool) as harness:
        reply = await harness.send("look", model="openai/m")

        assert reply and reply.text == "It is 42."
        assert tool.calls == [{"path": "a.md"}]
        sound, broken = results(harness)
        assert (sound.is_error, broken.is_error) == (False, True)
        assert why in broken.text
        assert service.refusals == []
        first = next(event.message for event in harness.events if isinstance(event, StepEnded))
        assert (first.usage.input, first.usage.output) == (7, 5)


async def test_half_a_call_that_is_printed_as_text_gets_an_error_and_nobody_sees_it() -> None:
    half = 'I look.\n<tool_call>{"name": "peek", "arguments": {"path": "b'
    script = [ServiceReply(text=half, stop="length"), ServiceReply(text="It is 42.")]
    async with OpenAIService(script) as service, on_openai(service, peek()) as harness:
        reply = await harness.send("look", model="openai/m")

        assert reply and reply.text == "It is 42."
        [broken] = results(harness)
        assert broken.is_error and "limit of output tokens" in broken.text
        assert not any(
            "<tool_call>" in str(event) for event in harness.events if "Delta" in type(event).__name__
        )


async def test_broken_json_whose_meaning_is_certain_is_repaired_in_a_native_call() -> None:
    tool, script = (
        peek(),
        [wire_of_openai('{"path": ".",}', stop="tool_calls"), ServiceReply(text="It is 42.")],
    )
    async with OpenAIService(script) as service, on_openai(service, tool) as harness:
        await harness.send("look", model="openai/m")

        assert tool.calls == [{"path": "."}]
        assert len(service.requests) == 2


async def test_a_call_cut_by_anthropic_is_answered_and_its_next_request_is_taken() -> None:
    import claw_anthropic

    half = ServiceReply(text="I write.", calls=[("peek", {"path": "x" * 400})], stop="max_tokens")
    config: dict[str, Any] = {"providers": {"anthropic": {"apiKey": "k"}}}
    async with AnthropicService([half, ServiceReply(text="Done.")]) as service:
        config["providers"]["anthropic"]["baseUrl"] = service.url
        tool, plugins = peek(), {"anthropic": claw_anthropic}
        async with Harness(FakeProvider(), tools=[tool], plugins=plugins, config=config) as harness:
            reply = await harness.send("write", model="anthropic/claude-sonnet-4-6")

            assert reply and reply.text == "Done."
            assert service.refusals == []


# --- refusals


async def test_a_refusal_fails_the_turn() -> None:
    async with Harness(FakeProvider(REFUSED)) as harness:
        with pytest.raises(ProviderError, match="refused to answer"):
            await harness.send("how do I …?")

        [end] = [event for event in harness.events if isinstance(event, TurnEnded)]
        assert end.outcome == "failed"


async def test_a_refusal_in_a_pipe_is_an_error_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "claw").mkdir()
    async with OpenAIService([ServiceReply(text="I", stop="content_filter")]) as service:
        tree = {
            "providers": {"openai": {"baseUrl": service.url, "apiKey": "k"}},
            "agents": {"defaults": {"model": "openai/m"}},
        }
        (tmp_path / "claw" / "config.json").write_text(json.dumps(tree))
        environ = {"CLAW_HOME": str(tmp_path / "claw"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "claw",
            "chat",
            "how do I …?",
            cwd=tmp_path,
            env=environ,
            stdout=PIPE,
            stderr=PIPE,
        )
        _, errors = await process.communicate()

    assert process.returncode == 1
    assert "the service's filter stopped this answer" in errors.decode()


@pytest.mark.parametrize("who", ["boss", "u1"])
async def test_a_refusal_is_said_plainly_in_a_chat(tmp_path: Path, who: str) -> None:
    channel = FakeChannel()
    async with served(FakeProvider(REFUSED), channel, home=tmp_path) as harness:
        await taken_in(harness, channel, channel.says("how do I …?", who))
        await until(lambda: channel.shown)

        assert "refused to answer this" in channel.shown[0]


# --- tool choice


async def test_a_call_in_a_turn_without_tools_is_refused() -> None:
    tool, model = peek(), FakeProvider(calls("peek", path="a.md"), says("In words."))
    async with Harness(model, tools=[tool]) as harness:
        reply = await harness.send("go", tool_choice="none")

        assert reply and reply.text == "In words."
        assert tool.calls == []
        [refused] = results(harness)
        assert refused.is_error and "no tool may be called now" in refused.text


async def test_another_call_than_the_named_one_is_refused() -> None:
    named, other = peek(), FakeTool("work")
    model = FakeProvider(calls("work"), calls("peek", path="a.md"), calls("work"), says("done"))
    async with Harness(model, tools=[named, other]) as harness:
        await harness.send("go", tool_choice="peek")

        assert results(harness)[0].is_error
        assert "only peek may be called now" in results(harness)[0].text
        assert len(named.calls) == len(other.calls) == 1


@pytest.mark.parametrize("choice", ["required", "peek"])
async def test_a_required_call_is_asked_for_once_more(choice: str) -> None:
    tool, model = peek(), FakeProvider(says("I'd rather talk."), calls("peek", path="a.md"), says("42."))
    async with Harness(model, tools=[tool]) as harness:
        reply = await harness.send("go", tool_choice=choice)

        assert reply and reply.text == "42."
        assert tool.calls == [{"path": "a.md"}]
        assert results(harness)[0].tool_name == UNREADABLE_CALL
        assert "asked for" in results(harness)[0].text


async def test_a_required_call_in_a_turn_without_tools_is_an_error_before_any_model_call() -> None:
    model = FakeProvider(says("ok"))
    async with Harness(model, tools=[peek()], config={"tools": {"deny": ["*"]}}) as harness:
        with pytest.raises(UsageError, match="this turn has no tools") as refused:
            await harness.send("go", tool_choice="required")

    assert "claw tools list --all" in str(refused.value)
    assert model.requests == []


@pytest.mark.parametrize("choice", ["required", "peek"])
async def test_a_required_call_of_a_model_that_is_given_no_tools_is_an_error_before_any_request(
    choice: str,
) -> None:
    model = FakeProvider(says("ok"))
    config = {"providers": {"fake": {"tools": "none"}}}
    async with Harness(model, tools=[peek()], config=config) as harness:
        with pytest.raises(
            ProviderError, match=f"fake/m1 is given no tools, and tool choice {choice} asks"
        ) as no:
            await harness.send("go", tool_choice=choice)

    assert "providers.fake.tools" in str(no.value)
    assert model.requests == []


NO_CALL = "fake/m1: the model did not call the tool that was asked for (tool choice {choice})"


def choices(model: FakeProvider) -> list[str]:
    return [recorded.request.tool_choice for recorded in model.requests]


def said(harness: Harness) -> list[str]:
    """The texts of the model in the transcript."""
    messages = [event.message for event in harness.events if isinstance(event, MessageRecorded)]
    return [one.text for one in messages if isinstance(one, Assistant)]


@pytest.mark.parametrize("choice", ["required", "peek"])
async def test_the_second_request_has_the_same_tool_choice_and_the_one_behind_the_call_is_free(
    choice: str,
) -> None:
    model = FakeProvider(says("I'd rather talk."), calls("peek", path="a.md"), says("42."))
    async with Harness(model, tools=[peek()]) as harness:
        await harness.send("go", tool_choice=choice)

    assert choices(model) == [choice, choice, "auto"]


@pytest.mark.parametrize("choice", ["required", "peek"])
async def test_a_required_call_that_is_not_made_at_the_second_request_fails_the_turn(choice: str) -> None:
    model = FakeProvider(says("I'd rather talk."), says("Really."), says("Hello."))
    async with Harness(model, tools=[peek()]) as harness:
        with pytest.raises(ProviderError, match=re.escape(NO_CALL.format(choice=choice))):
            await harness.send("go", tool_choice=choice)

        assert choices(model) == [choice, choice]
        assert said(harness) == ["I'd rather talk.", "Really."]
        assert [end.outcome for end in harness.events if isinstance(end, TurnEnded)] == ["failed"]

        reply = await harness.send("and now?")  # the texts are in the conversation
        assert reply and reply.text == "Hello."
        past = model.requests[-1].request.messages
        assert [one.text for one in past if isinstance(one, Assistant)] == ["I'd rather talk.", "Really."]


async def test_another_call_does_not_stand_for_the_named_one() -> None:
    other, model = FakeTool("work"), FakeProvider(calls("work"), calls("work"), says("done"))
    async with Harness(model, tools=[peek(), other]) as harness:
        with pytest.raises(ProviderError, match="tool choice peek"):
            await harness.send("go", tool_choice="peek")

        assert other.calls == []
        assert len(model.requests) == 2
        given = [result.text for result in results(harness)]
        assert ["only peek may be called now" in text for text in given] == [True, False, True]


async def test_words_that_a_limit_cut_off_do_not_stand_for_a_required_call() -> None:
    cut = Assistant((Text("Let me think about"),), stop_reason="length")
    model = FakeProvider(cut, cut)
    async with Harness(model, tools=[peek()]) as harness:
        with pytest.raises(ProviderError, match="tool choice required"):
            await harness.send("go", tool_choice="required")

    assert len(model.requests) == 2


async def test_a_required_call_that_the_last_model_call_lacks_fails_the_turn() -> None:
    config = {"agents": {"defaults": {"maxTurns": 1}}}
    async with Harness(FakeProvider(says("Words.")), tools=[peek()], config=config) as harness:
        with pytest.raises(ProviderError, match="tool choice required"):
            await harness.send("go", tool_choice="required")


async def test_a_required_call_that_cannot_be_read_is_still_required() -> None:
    unread = calls(UNREADABLE_CALL, written="{", why="it is cut off", tool="peek")
    model = FakeProvider(unread, unread, calls("peek", path="a.md"), says("42."))
    async with Harness(model, tools=[peek()]) as harness:
        reply = await harness.send("go", tool_choice="required")
        assert reply and reply.text == "42."
    assert choices(model) == ["required", "required", "required", "auto"]

    async with Harness(FakeProvider(unread, says("Words.")), tools=[peek()]) as harness:
        with pytest.raises(ProviderError, match="tool choice required"):
            await harness.send("go", tool_choice="required")


async def test_a_native_model_is_asked_for_the_call_without_the_notation_of_prompted_ones() -> None:
    model = FakeProvider(says("I'd rather talk."), calls("peek", path="a.md"), says("42."))
    async with Harness(model, tools=[peek()], installed=True) as harness:
        await harness.send("go", tool_choice="required")

        asked = results(harness)[0].text
        assert "in the way that your tools are called" in asked and "<tool_call>" not in asked


async def test_the_error_about_a_required_call_is_in_the_language_of_the_person() -> None:
    model = FakeProvider(says("Words."), says("Words."))
    async with Harness(model, tools=[peek()], config={"locale": "zh"}) as harness:
        with pytest.raises(ProviderError, match="模型没有调用所要求的工具（tool choice 为 required）"):
            await harness.send("go", tool_choice="required")
