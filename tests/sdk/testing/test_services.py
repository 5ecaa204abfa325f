"""The loopback model services are held to the vendors' own SDKs: what the SDK reads is what the script says."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from claw_testing.services import AnthropicService, OpenAIService, ServiceReply

SCRIPTED = ServiceReply(
    text="两个都看。 Both.",
    thinking="first the list",
    calls=[("ls", {"path": "."}), ("exec", {"command": "uptime"})],
    usage={"input": 40, "output": 9, "cache_read": 100, "cache_write": 7},
)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
ASKED = [{"role": "user", "content": "hi"}]


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


def claude(service: AnthropicService, http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="k", base_url=service.url, max_retries=0, http_client=http)


def gpt(service: OpenAIService, http: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", base_url=service.url, max_retries=0, http_client=http)


async def test_anthropics_sdk_reads_a_message_whole_and_streamed_alike(http):
    async with AnthropicService([SCRIPTED, SCRIPTED]) as service:
        client = claude(service, http)
        asked: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": ASKED}
        whole = await client.messages.create(**asked)
        async with client.messages.stream(**asked) as stream:
            streamed = await stream.get_final_message()

    for message in (whole, streamed):
        thought, text, *calls = message.content
        assert (thought.type, thought.thinking, bool(thought.signature)) == (
            "thinking",
            "first the list",
            True,
        )
        assert (text.type, text.text) == ("text", SCRIPTED.text)
        assert [(call.name, call.input) for call in calls] == list(SCRIPTED.calls)
        assert message.stop_reason == "tool_use"
        usage = message.usage
        assert (usage.input_tokens, usage.output_tokens) == (40, 9)
        assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (100, 7)


async def test_openais_sdk_reads_a_completion_whole_and_streamed_alike(http):
    async with OpenAIService([SCRIPTED, SCRIPTED]) as service:
        client = gpt(service, http)
        whole = await client.chat.completions.create(model="m", messages=ASKED)
        async with client.chat.completions.stream(
            model="m", messages=ASKED, stream_options={"include_usage": True}
        ) as stream:
            streamed = await stream.get_final_completion()

    for completion in (whole, streamed):
        (choice,) = completion.choices
        assert choice.message.content == SCRIPTED.text
        calls = choice.message.tool_calls
        assert [call.function.name for call in calls] == ["ls", "exec"]
        assert [call.function.arguments for call in calls] == ['{"path": "."}', '{"command": "uptime"}']
        assert len({call.id for call in calls}) == 2
        assert choice.finish_reason == "tool_calls"
        assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (147, 9)
        assert completion.usage.prompt_tokens_details.cached_tokens == 100


async def test_openais_sdk_reads_a_response_whole_and_streamed_alike(http):
    async with OpenAIService([SCRIPTED, SCRIPTED]) as service:
        client = gpt(service, http)
        whole = await client.responses.create(model="m", input="hi")
        async with client.responses.stream(model="m", input="hi") as stream:
            kinds = [event.type async for event in stream]
            streamed = await stream.get_final_response()

    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    for response in (whole, streamed):
        reasoning, message, *calls = response.output
        assert (reasoning.type, reasoning.summary[0].text) == ("reasoning", "first the list")
        assert (message.type, response.output_text) == ("message", SCRIPTED.text)
        assert [(call.name, call.arguments) for call in calls] == [
            ("ls", '{"path": "."}'),
            ("exec", '{"command": "uptime"}'),
        ]
        assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (147, 100)


async def test_a_scripted_error_is_the_sdks_error(http):
    overloaded = ServiceReply(
        status=529,
        headers={"retry-after": "7"},
        body={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    )
    async with AnthropicService([overloaded]) as service:
        with pytest.raises(anthropic.OverloadedError) as error:
            await claude(service, http).messages.create(model="m", max_tokens=1, messages=ASKED)

    assert error.value.response.headers["retry-after"] == "7"


def bad_for_anthropic() -> dict[str, dict[str, Any]]:
    call = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "x"}
    orphan = [*ASKED, {"role": "assistant", "content": [call]}, {"role": "user", "content": "and?"}]
    stray = [{"role": "user", "content": [result]}]
    late = [*ASKED, {"role": "assistant", "content": [call]}]
    late.append({"role": "user", "content": [{"type": "text", "text": "so"}, result]})
    tool = {"name": "ls", "description": "List", "input_schema": SCHEMA}
    marked = [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}] * 5
    return {
        "a call without its result": {"messages": orphan},
        "a result without its call": {"messages": stray},
        "a result behind a text": {"messages": late},
        "an assistant first": {"messages": [{"role": "assistant", "content": "hi"}]},
        "two of the user in a row": {"messages": ASKED * 2},
        "an empty text": {"messages": [{"role": "user", "content": [{"type": "text", "text": " "}]}]},
        "nothing said": {"messages": []},
        "a tool without type object": {"tools": [{**tool, "input_schema": {"properties": {}}}]},
        "a bad name of a tool": {"tools": [{**tool, "name": "a b"}]},
        "two tools of one name": {"tools": [tool, tool]},
        "a choice of an unknown tool": {"tools": [tool], "tool_choice": {"type": "tool", "name": "rm"}},
        "a choice without tools": {"tool_choice": {"type": "auto"}},
        "thinking beside a forced tool": {
            "tools": [tool],
            "tool_choice": {"type": "any"},
            "thinking": {"type": "adaptive"},
        },
        "a thinking budget above max_tokens": {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        "five cache marks": {"system": marked},
        "an unknown field": {"extra_body": {"sytem": "x"}},
    }


@pytest.mark.parametrize("name", bad_for_anthropic())
async def test_the_messages_service_refuses_what_the_real_one_refuses(name, http):
    asked: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": ASKED} | bad_for_anthropic()[name]
    async with AnthropicService(["never"]) as service:
        with pytest.raises(anthropic.BadRequestError):
            await claude(service, http).messages.create(**asked)
        assert len(service.refusals) == 1


def bad_for_chat() -> dict[str, dict[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "x"}
    function = {"name": "ls", "parameters": SCHEMA}
    tools = [{"type": "function", "function": function}]
    long = {**call, "id": "c" * 41}
    return {
        "a call without its result": {
            "messages": [*ASKED, {"role": "assistant", "tool_calls": [call]}, *ASKED]
        },
        "a call at the end": {"messages": [*ASKED, {"role": "assistant", "tool_calls": [call]}]},
        "a result without its call": {"messages": [*ASKED, result]},
        "an id that is too long": {"messages": [*ASKED, {"role": "assistant", "tool_calls": [long]}]},
        "an unknown role": {"messages": [{"role": "robot", "content": "hi"}]},
        "an answer of nothing": {"messages": [*ASKED, {"role": "assistant", "content": None}]},
        "no tools in the list": {"tools": []},
        "a choice of an unknown tool": {
            "tools": tools,
            "tool_choice": {"type": "function", "function": {"name": "rm"}},
        },
        "a choice without tools": {"tool_choice": "auto"},
        "a schema of another type": {
            "tools": [{"type": "function", "function": {**function, "parameters": {"type": "string"}}}]
        },
        "usage of a stream that is none": {"stream_options": {"include_usage": True}},
        "two limits": {"max_tokens": 1, "max_completion_tokens": 1},
        "an unknown field": {"extra_body": {"sytem": "x"}},
    }


@pytest.mark.parametrize("name", bad_for_chat())
async def test_the_chat_service_refuses_what_the_real_one_refuses(name, http):
    async with OpenAIService(["never"]) as service:
        with pytest.raises(openai.BadRequestError):
            await gpt(service, http).chat.completions.create(
                **{"model": "m", "messages": ASKED} | bad_for_chat()[name]
            )
        assert len(service.refusals) == 1


async def test_the_responses_service_refuses_an_output_without_its_call(http):
    stray = {"type": "function_call_output", "call_id": "call_1", "output": "x"}
    async with OpenAIService(["never"]) as service:
        with pytest.raises(openai.BadRequestError, match="No tool call found"):
            await gpt(service, http).responses.create(model="m", input=[stray])


async def test_a_request_of_any_shape_is_answered_and_the_service_lives_on(http):
    async with AnthropicService(["fine"]) as service:
        headers = {"authorization": "Bearer k", "anthropic-version": "x"}
        for content in (b"", b"[]", b'{"model": 1, "max_tokens": "x", "messages": 7}'):
            answer = await http.post(f"{service.url}/v1/messages", content=content, headers=headers)
            assert answer.status_code == 400
        assert (await http.get(f"{service.url}/elsewhere")).status_code == 404
        message = await claude(service, http).messages.create(model="m", max_tokens=1, messages=ASKED)
        assert message.content[0].text == "fine"


async def test_a_script_that_is_over_answers_with_500(http):
    async with OpenAIService([]) as service:
        with pytest.raises(openai.InternalServerError, match="script"):
            await gpt(service, http).chat.completions.create(model="m", messages=ASKED)


async def test_a_service_that_hangs_is_reported_when_the_client_leaves(http):
    async with OpenAIService([ServiceReply(text="never ends", hang=True)]) as service:
        stream = await gpt(service, http).chat.completions.create(model="m", messages=ASKED, stream=True)
        await anext(aiter(stream))
        assert not service.left.is_set()
        await stream.close()
        await asyncio.wait_for(service.left.wait(), 20)
