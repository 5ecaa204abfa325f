"""Calls without an answer: an error object with a status by the cause, never 200 with an apology or nothing."""

import asyncio

import openai
import pytest
from claw import Assistant, Text, TextDelta
from claw.testing import FakeProvider, FakeTool, says
from claw_provider_sdk import provider_error
from plugins.http.sdk_gateway import a_gateway, user

SILENT = says("NO_REPLY")
CAUSES = {
    "rate_limit": (429, "rate_limit_exceeded"),
    "overloaded": (503, "model_overloaded"),
    "server": (502, "model_server"),
    "auth": (502, "model_auth"),
    "context_overflow": (400, "context_length_exceeded"),
    "bad_request": (400, "model_bad_request"),
    "timeout": (504, "model_timeout"),
}


async def ask(client, text="hello", stream=False, **more):
    answer = await client.chat.completions.create(model="claw", messages=user(text), stream=stream, **more)
    if not stream:
        return answer.choices[0].message.content
    return "".join([choice.delta.content or "" async for chunk in answer for choice in chunk.choices])


def failing(reason):
    return [provider_error("fake/m", reason=reason) for _ in range(9)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("reason", CAUSES)
async def test_a_turn_that_fails_has_the_status_of_its_cause_and_is_not_repeated_by_the_sdk(reason, stream):
    status, code = CAUSES[reason]
    async with a_gateway(*failing(reason), client={"max_retries": 2}) as (client, harness):
        with pytest.raises(openai.APIStatusError) as failed:
            await ask(client, stream=stream)
        assert len(harness.app.runtime.turn_log.turns()) == 1
    assert (failed.value.status_code, failed.value.code) == (status, code)
    assert failed.value.response.headers["x-should-retry"] == "false"
    assert failed.value.message


@pytest.mark.parametrize("stream", [False, True])
async def test_an_empty_answer_of_the_model_is_an_error(stream):
    async with a_gateway(*[Assistant(())] * 4) as (client, _):
        with pytest.raises(openai.InternalServerError, match="empty answer") as failed:
            await ask(client, stream=stream)
    assert (failed.value.status_code, failed.value.code) == (502, "model_empty")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
async def test_a_tool_that_was_asked_for_and_is_not_called_is_an_error(choice, stream):
    async with a_gateway(says("Words."), says("More."), tools=[FakeTool("look")]) as (client, _):
        with pytest.raises(openai.APIError, match="did not call the tool that was asked for") as failed:
            await ask(client, stream=stream, tool_choice=choice)
    assert failed.value.code == "model_no_call"
    if not stream:
        assert failed.value.status_code == 502


@pytest.mark.parametrize("stream", [False, True])
async def test_a_bug_in_claw_or_a_plugin_is_an_error(stream):
    async with a_gateway(RuntimeError("the model is away")) as (client, _):
        with pytest.raises(openai.InternalServerError) as failed:
            await ask(client, stream=stream)
    assert (failed.value.status_code, failed.value.code) == (500, "turn_failed")


async def test_a_call_over_a_budget_is_an_insufficient_quota():
    config = {"budgets": {"day": {"tokens": 1}}}
    async with a_gateway(says("never"), config=config) as (client, _):
        with pytest.raises(openai.APIStatusError) as failed:
            await ask(client)
    assert (failed.value.status_code, failed.value.code) == (429, "insufficient_quota")


class BreaksOff(FakeProvider):
    async def stream(self, request):
        self.requests.append(request)
        yield TextDelta("half an ans")
        await asyncio.sleep(0.6)
        raise provider_error("fake/m", reason="server")


async def test_a_stream_that_fails_midway_ends_with_the_error_event_of_the_vendor():
    async with a_gateway(model=BreaksOff()) as (client, _):
        stream = await client.chat.completions.create(model="claw", messages=user("hi"), stream=True)
        pieces = []

        async def read():
            async for chunk in stream:
                pieces.extend(choice.delta.content for choice in chunk.choices)

        with pytest.raises(openai.APIError) as failed:
            await read()
    assert "half an ans" in "".join(filter(None, pieces))
    assert failed.value.code == "model_server"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refusal_of_the_model_is_a_refusal_and_no_content(stream):
    refused = Assistant((), stop_reason="error", error="the model refused to answer this")
    async with a_gateway(refused) as (client, _):
        answer = await client.chat.completions.create(model="claw", messages=user("hi"), stream=stream)
        if stream:
            choices = [choice async for chunk in answer for choice in chunk.choices]
            content = "".join(choice.delta.content or "" for choice in choices)
            refusal = "".join(choice.delta.refusal or "" for choice in choices)
            end = choices[-1].finish_reason
        else:
            (choice,) = answer.choices
            content, refusal, end = choice.message.content, choice.message.refusal, choice.finish_reason
    assert (content or "", end) == ("", "content_filter")
    assert "refused" in refusal


async def test_an_agent_that_stays_silent_on_purpose_is_an_empty_answer():
    async with a_gateway(SILENT) as (client, _):
        assert await ask(client) == ""


async def test_the_answer_of_a_turn_that_used_all_its_model_calls_is_cut_off():
    config = {"agents": {"defaults": {"maxTurns": 1}}}
    cut = Assistant((Text("as far as I came"),), stop_reason="length")
    async with a_gateway(cut, config=config) as (client, _):
        answer = await client.chat.completions.create(model="claw", messages=user("hi"))
    assert answer.choices[0].finish_reason == "length"


class Hangs(FakeProvider):
    async def stream(self, request):
        self.requests.append(request)
        await asyncio.sleep(30)
        yield TextDelta("never")


async def test_a_call_that_stop_ends_is_a_conflict():
    async with a_gateway(model=Hangs()) as (client, harness):
        asking = asyncio.ensure_future(ask(client, user="ann"))
        async with asyncio.timeout(10):
            while not harness.app.registry.providers["fake"].value.requests:
                await asyncio.sleep(0.01)
        assert await ask(client, "/status", user="ann")
        assert await ask(client, "/stop", user="ann")
        with pytest.raises(openai.ConflictError) as stopped:
            await asking
    assert stopped.value.code == "stopped"


async def test_every_waiting_call_has_its_own_answer_and_more_than_the_queue_holds_get_429():
    async def one(client, number):
        try:
            return await ask(client, f"#{number}", user="ann")
        except openai.RateLimitError as full:
            return f"{full.status_code} {full.code} {full.response.headers['retry-after']}"

    def echo(request):
        last = [m for m in request.messages if type(m).__name__ == "User"][-1]
        return says(f"answer to {last.content[-1].text}")

    class Waits(FakeProvider):
        async def stream(self, request):
            if not self.requests:
                await asyncio.sleep(1)
            async for event in super().stream(request):
                yield event

    async with a_gateway(model=Waits(*[echo] * 40)) as (client, _):
        answers = await asyncio.gather(*(one(client, number) for number in range(30)))
    right = [answer for number, answer in enumerate(answers) if answer == f"answer to #{number}"]
    assert len(right) == 21 and answers.count("429 queue_full 3") == 9


async def test_a_client_with_retries_is_answered_once_the_queue_has_space():
    def echo(request):
        last = [m for m in request.messages if type(m).__name__ == "User"][-1]
        return says(last.content[-1].text)

    config = {"messages": {"queue": {"cap": 2}}}
    async with a_gateway(*[echo] * 9, config=config, client={"max_retries": 9}) as (client, _):
        answers = await asyncio.gather(*(ask(client, f"#{number}", user="ann") for number in range(6)))
    assert answers == [f"#{number}" for number in range(6)]
