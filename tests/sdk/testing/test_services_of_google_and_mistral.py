"""The loopback services of Gemini and Mistral are held to the vendors' own SDKs, their typed calls in both directions."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from claw_testing.services import ServiceReply
from google import genai
from google.genai import errors, types
from mistralai.client import Mistral
from mistralai.client.errors import SDKError
from typed import TypedGoogleService, TypedMistralService

SCRIPTED = ServiceReply(
    text="两个都看。 Both.",
    thinking="first the list",
    calls=[("ls", {"path": "."}), ("exec", {"command": "uptime"})],
    usage={"input": 40, "output": 9, "cache_read": 100},
)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
ASKED = [{"role": "user", "content": "hi"}]
TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": SCHEMA}}]


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(trust_env=False) as client:
        yield client


def gemini_schema(service: TypedGoogleService, http: httpx2.AsyncClient) -> Any:
    blocking = httpx2.Client(transport=httpx2.BaseTransport())
    options = types.HttpOptions(base_url=service.url, httpx_async_client=http, httpx_client=blocking)
    return genai.Client(api_key="k", vertexai=False, http_options=options).aio.models


def mistral(service: TypedMistralService, http: httpx2.AsyncClient) -> Any:
    blocking = httpx2.Client(transport=httpx2.BaseTransport())
    return Mistral(api_key="k", server_url=service.url, async_client=http, client=blocking).chat


async def test_googles_sdk_reads_a_response_whole_and_streamed_alike(http):
    async with TypedGoogleService([SCRIPTED, SCRIPTED]) as service:
        models = gemini_schema(service, http)
        whole = await models.generate_content(model="gemini-x", contents="hi")
        stream = await models.generate_content_stream(model="gemini-x", contents="hi")
        chunks = [chunk async for chunk in stream]

    streamed = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    for parts, last in ((whole.candidates[0].content.parts, whole), (streamed, chunks[-1])):
        assert "".join(part.text for part in parts if part.thought) == "first the list"
        assert "".join(part.text for part in parts if part.text and not part.thought) == SCRIPTED.text
        calls = [part for part in parts if part.function_call]
        assert [(one.function_call.name, one.function_call.args) for one in calls] == list(SCRIPTED.calls)
        assert [bool(one.thought_signature) for one in calls] == [True, False]
        assert last.candidates[0].finish_reason == types.FinishReason.STOP
        usage = last.usage_metadata
        assert (usage.prompt_token_count, usage.candidates_token_count) == (140, 9)
        assert usage.cached_content_token_count == 100


async def test_googles_sdk_asks_with_tools_and_the_service_takes_it(http):
    declared = types.FunctionDeclaration(name="ls", description="List", parameters=SCHEMA)
    config = types.GenerateContentConfig(
        system_instruction="You are claw.",
        tools=[types.Tool(function_declarations=[declared])],
        tool_config=types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY")),
        thinking_config=types.ThinkingConfig(include_thoughts=True, thinking_level="LOW"),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        max_output_tokens=50,
    )
    async with TypedGoogleService(["fine"]) as service:
        answer = await gemini_schema(service, http).generate_content(model="m", contents="hi", config=config)

    assert (answer.text, service.refusals) == ("fine", [])


async def test_googles_error_is_the_sdks_error(http):
    async with TypedGoogleService(["never"]) as service:
        stray = types.Part.from_function_response(name="ls", response={"output": "x"})
        with pytest.raises(errors.ClientError, match="function response parts") as error:
            await gemini_schema(service, http).generate_content(model="m", contents=[stray])

    assert (error.value.code, error.value.status) == (400, "INVALID_ARGUMENT")


def bad_for_google() -> dict[str, dict[str, Any]]:
    call = {"functionCall": {"name": "ls", "args": {}}}
    answer = {"functionResponse": {"name": "ls", "response": {}}}
    hi, asks = {"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [call]}

    def tools(schema: dict[str, Any], name: str = "ls") -> dict[str, Any]:
        return {"tools": [{"functionDeclarations": [{"name": name, "parameters": schema}]}]}

    inner = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {
        "a call without its response": {"contents": [hi, asks, hi]},
        "a call at the end": {"contents": [hi, asks]},
        "a response without its call": {"contents": [{"role": "user", "parts": [answer]}]},
        "one response for two calls": {
            "contents": [hi, {"role": "model", "parts": [call, call]}, {"role": "user", "parts": [answer]}]
        },
        "a call without a signature": {"contents": [hi, asks, {"role": "user", "parts": [answer]}]},
        "a signature that is no base64": {
            "contents": [hi, {"role": "model", "parts": [{"text": "x", "thoughtSignature": "?!"}]}]
        },
        "two turns of one role": {"contents": [hi, hi]},
        "the model first": {"contents": [{"role": "model", "parts": [{"text": "hi"}]}]},
        "a part of nothing": {"contents": [{"role": "user", "parts": [{}]}]},
        "an unknown field": {"sytem": "x"},
        "a reference": tools({**inner, "properties": {"path": {"$ref": "#/$defs/p"}}}),
        "more properties": tools({**inner, "additionalProperties": False}),
        "alternatives": tools({**inner, "properties": {"p": {"oneOf": [{"type": "string"}]}}}),
        "a list of types": tools({**inner, "properties": {"p": {"type": ["string", "null"]}}}),
        "numbers to choose from": tools({**inner, "properties": {"p": {"enum": [1, 2]}}}),
        "an array of nothing": tools({**inner, "properties": {"p": {"type": "array"}}}),
        "a required argument that is not there": tools({**inner, "required": ["q"]}),
        "an object of nothing": tools({"type": "object", "properties": {}}),
        "a name that begins with a figure": tools(inner, "3d"),
        "a choice without tools": {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        "a choice of an unknown tool": tools(inner)
        | {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["rm"]}}},
        "a level and a budget": {
            "generationConfig": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "LOW"}}
        },
    }


@pytest.mark.parametrize("name", bad_for_google())
async def test_the_gemini_service_refuses_what_the_real_one_refuses(name, http):
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]} | bad_for_google()[name]
    async with TypedGoogleService(["never"]) as service:
        url = f"{service.url}/v1/models/gemini-3-x:generateContent"
        answer = await http.post(url, json=body, headers={"x-goog-api-key": "k"})

    assert answer.status_code == 400
    assert len(service.refusals) == 1


async def test_mistrals_sdk_reads_a_completion_whole_and_streamed_alike(http):
    async with TypedMistralService([SCRIPTED, SCRIPTED]) as service:
        chat = mistral(service, http)
        whole = await chat.complete_async(model="m", messages=ASKED)
        chunks = [event.data async for event in await chat.stream_async(model="m", messages=ASKED)]

    (choice,) = whole.choices
    thought, text = choice.message.content
    assert (thought.thinking[0].text, text.text) == ("first the list", SCRIPTED.text)
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(delta.content for delta in deltas if isinstance(delta.content, str)) == SCRIPTED.text
    streamed = [call for delta in deltas for call in delta.tool_calls or ()]
    for calls, last in ((choice.message.tool_calls, whole), (streamed, chunks[-1])):
        assert [call.function.name for call in calls] == ["ls", "exec"]
        assert [call.function.arguments for call in calls] == ['{"path": "."}', '{"command": "uptime"}']
        assert len({call.id for call in calls}) == 2
        assert last.choices[0].finish_reason == "tool_calls"
        assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (140, 9)


async def test_mistrals_sdk_asks_with_tools_and_the_service_takes_it(http):
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    past = [
        *ASKED,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefgh1", "name": "ls", "content": "a"},
    ]
    async with TypedMistralService(["fine"]) as service:
        answer = await mistral(service, http).complete_async(
            model="m", messages=past, tools=TOOLS, tool_choice="any", reasoning_effort="high"
        )

    assert (answer.choices[0].message.content, service.refusals) == ("fine", [])


def bad_for_mistral() -> dict[str, dict[str, Any]]:
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    asks = {"role": "assistant", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "abcdefgh1", "content": "x"}
    long = {**call, "id": "call_12345678"}
    return {
        "a user right behind a result": {"messages": [*ASKED, asks, result, *ASKED]},
        "a call without its result": {"messages": [*ASKED, asks, *ASKED]},
        "a call at the end": {"messages": [*ASKED, asks]},
        "a result without its call": {"messages": [*ASKED, result]},
        "an id of another form": {"messages": [*ASKED, {"role": "assistant", "tool_calls": [long]}, result]},
        "an answer at the end": {"messages": [*ASKED, {"role": "assistant", "content": "so"}]},
        "an answer of nothing": {"messages": [*ASKED, {"role": "assistant", "content": ""}, *ASKED]},
        "the assistant first": {"messages": [{"role": "assistant", "content": "hi"}, *ASKED]},
        "a choice of an unknown tool": {
            "tools": TOOLS,
            "tool_choice": {"type": "function", "function": {"name": "rm"}},
        },
        "a choice without tools": {"tool_choice": "any"},
    }


@pytest.mark.parametrize("name", bad_for_mistral())
async def test_the_mistral_service_refuses_what_the_real_one_refuses(name, http):
    async with TypedMistralService(["never"]) as service:
        with pytest.raises(SDKError):
            await mistral(service, http).complete_async(
                **{"model": "m", "messages": ASKED} | bad_for_mistral()[name]
            )
        assert len(service.refusals) == 1


async def test_a_request_of_any_shape_is_answered(http):
    async with TypedGoogleService() as google, TypedMistralService() as other:
        urls = f"{google.url}/v1/models/m:generateContent", f"{other.url}/v1/chat/completions"
        headers = {"x-goog-api-key": "k", "authorization": "Bearer k"}
        for url in urls:
            for content in (b"", b"[]", b'{"model": 1, "contents": "x", "messages": 7}'):
                assert (await http.post(url, content=content, headers=headers)).status_code == 400
            assert (await http.post(url, content=b"{}")).status_code in (401, 403)
        assert (await http.post(f"{google.url}/v1/models/m:elsewhere", headers=headers)).status_code == 404
