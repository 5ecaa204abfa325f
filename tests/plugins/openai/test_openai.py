"""Chat Completions and Responses: what a request says, what an answer means, and where endpoints differ."""

import json
from typing import Any

import pytest
from claw.contracts.errors import ConfigError, ProviderError
from claw.contracts.provider import SystemPrompt
from claw.contracts.transcript import (
    UNREADABLE_CALL,
    Assistant,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    User,
)
from claw.security.http_client import HttpClients
from claw_testing.services import OpenAIService, ServiceReply
from models import LS, answer, asks, provider, registered

Row = dict[str, Any]
HELLO = User((Text("hello"),))
CALL = ToolCall("call_1", "ls", {"path": "."})
LISTED = ToolResultMessage("call_1", "ls", (Text("a.py"),))
PICTURE = Image("aGk=", "image/png")


async def sent(
    *messages: Any, name: str = "openai", section: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    """The body that arrives at the service, which is strict, for a request."""
    async with OpenAIService(["fine"]) as service:
        async with provider(service.url, "openai", name=name, **(section or {})) as model:
            await answer(model, asks(*messages, **fields))
        (received,) = service.requests
    return received.body


async def answer_of(*chunks: Any, end: bytes = b"data: [DONE]\n\n", cut: bool = False) -> Assistant:
    """The answer that is read from chunks: each a delta, or a whole chunk."""
    whole = [chunk if "choices" in chunk else {"choices": [{"index": 0, "delta": chunk}]} for chunk in chunks]
    raw = b"".join(b"data: %b\r\n\r\n" % json.dumps(chunk).encode() for chunk in whole) + end
    async with (
        OpenAIService([ServiceReply(raw=raw, cut=cut)]) as service,
        provider(service.url, "openai") as model,
    ):
        return (await answer(model, asks(tools=(LS,))))[1]


def piece(
    index: int | None = None, call_id: str | None = None, name: str | None = None, more: Any = None
) -> dict[str, Any]:
    """A delta with a piece of a call, with the fields that are given."""
    function = {key: value for key, value in {"name": name, "arguments": more}.items() if value is not None}
    given = {"index": index, "id": call_id, "function": function}
    return {"tool_calls": [{key: value for key, value in given.items() if value is not None}]}


def stop(reason: str, **chunk: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], **chunk}


# --- requests ---


async def test_the_vendor_and_other_endpoints_differ_in_how_a_limit_is_named():
    assert (await sent(max_tokens=9))["max_completion_tokens"] == 9
    assert (await sent(name="vllm", max_tokens=9))["max_tokens"] == 9
    assert not {"max_tokens", "max_completion_tokens"} & (await sent()).keys()


async def test_quirks_change_the_request():
    quirks = {"streamOptions": False, "systemRole": "developer", "maxTokensName": "max_completion_tokens"}

    body = await sent(name="acme", section={"quirks": quirks, "maxTokens": 7})

    assert "stream_options" not in body
    assert body["messages"][0]["role"] == "developer"
    assert body["max_completion_tokens"] == 7


async def test_the_thinking_level_goes_only_where_it_is_understood():
    assert (await sent(thinking="high"))["reasoning_effort"] == "high"
    assert "reasoning_effort" not in await sent(name="acme", thinking="high")
    assert "reasoning_effort" not in await sent(thinking="off")
    sent_body = await sent(name="acme", thinking="low", section={"quirks": {"reasoningEffort": True}})
    assert sent_body["reasoning_effort"] == "low"


async def test_pictures_in_results_follow_as_a_message_of_the_user():
    result = ToolResultMessage("call_1", "ls", (Text("see"), PICTURE))

    body = await sent(HELLO, Assistant((CALL,)), result, Assistant((Text("nice"),)), HELLO)

    assert [row["role"] for row in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "user",
        "assistant",
        "user",
    ]
    assert body["messages"][4]["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    ]


async def test_reasoning_is_given_back_only_to_an_endpoint_that_wants_it():
    said = Assistant((Thinking("hm", maker="kimi"), CALL))

    unasked = await sent(HELLO, said, LISTED, name="kimi")
    wanted = await sent(HELLO, said, LISTED, name="kimi", section={"quirks": {"replayReasoning": True}})
    elsewhere = await sent(HELLO, said, LISTED, name="acme", section={"quirks": {"replayReasoning": True}})

    assert "hm" not in str([unasked, elsewhere])
    assert wanted["messages"][2]["reasoning_content"] == "hm"


async def test_responses_keep_nothing_with_the_vendor_and_give_reasoning_back_before_its_call():
    script = [ServiceReply(thinking="hm", calls=[("ls", {})]), "ok"]
    async with OpenAIService(script) as service, provider(service.url, "openai", api="responses") as model:
        _, message = await answer(model, asks(tools=(LS,), thinking="low"))
        call = message.tool_calls[0]
        result = ToolResultMessage(call.id, "ls", (Text("a"),))
        await answer(model, asks(HELLO, message, result, tools=(LS,), system=SystemPrompt("Be.", "Now.")))

    first, second = (request.body for request in service.requests)
    assert (first["store"], first["include"]) == (False, ["reasoning.encrypted_content"])
    assert first["reasoning"] == {"effort": "low", "summary": "auto"}
    assert first["tools"][0]["strict"] is False
    assert second["instructions"] == "Be.\n\nNow."
    kinds = [item.get("type", item.get("role")) for item in second["input"]]
    assert kinds == ["user", "reasoning", "function_call", "function_call_output"]
    assert second["input"][1]["encrypted_content"] == "sealed-1"
    assert second["input"][2]["call_id"] == second["input"][3]["call_id"] == call.id


# --- answers, as compatible servers send them ---


def calls_of(message: Assistant) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in message.tool_calls]


async def test_a_new_id_under_an_old_index_is_a_new_call():
    message = await answer_of(
        piece(0, "a", "ls", '{"path":"1"}'), piece(0, "b", "ls", '{"path":"2"}'), stop("tool_calls")
    )

    assert calls_of(message) == [("ls", {"path": "1"}), ("ls", {"path": "2"})]
    assert [call.id for call in message.tool_calls] == ["a", "b"]


async def test_whole_calls_without_id_or_index_are_calls_of_their_own():
    message = await answer_of(
        piece(None, None, "ls", '{"path":"1"}'), piece(None, None, "ls", '{"path":"2"}'), stop("stop")
    )

    assert calls_of(message) == [("ls", {"path": "1"}), ("ls", {"path": "2"})]
    first, second = (call.id for call in message.tool_calls)
    assert first and second and first != second
    assert message.stop_reason == "tool_use"


async def test_pieces_that_repeat_id_and_name_are_one_call():
    message = await answer_of(
        piece(0, "a", "ls", ""),
        piece(0, "a", "ls", '{"pa'),
        piece(0, "a", "ls", 'th":"1"}'),
        piece(0, "a", "ls", ""),
        stop("stop"),
    )

    assert calls_of(message) == [("ls", {"path": "1"})]


async def test_pieces_without_index_go_on_with_the_call_before():
    message = await answer_of(
        piece(None, "a", "ls", '{"pa'), piece(None, None, None, 'th":"1"}'), stop("tool_calls")
    )

    assert calls_of(message) == [("ls", {"path": "1"})]


async def test_a_call_in_the_old_field_is_a_call():
    pieces = [
        {"function_call": {"name": "ls", "arguments": '{"pa'}},
        {"function_call": {"arguments": 'th": "."}'}},
    ]
    message = await answer_of({"content": "I look."}, *pieces, stop("function_call"))

    assert (message.stop_reason, message.text) == ("tool_use", "I look.")
    assert calls_of(message) == [("ls", {"path": "."})]


async def test_arguments_may_come_as_an_object_and_a_call_may_have_none():
    message = await answer_of(piece(0, "a", "ls", {"path": "1"}), piece(1, "b", "now"), stop("tool_calls"))

    assert calls_of(message) == [("ls", {"path": "1"}), ("now", {})]


async def test_half_a_call_is_unreadable_when_the_answer_ran_out_of_tokens_and_whole_ones_stay():
    message = await answer_of(
        {"content": "Writing"},
        piece(0, "a", "ls", '{"path":"1"}'),
        piece(1, "b", "ls", '{"pa'),
        stop("length"),
    )

    whole, half = calls_of(message)
    assert whole == ("ls", {"path": "1"})
    assert half[0] == UNREADABLE_CALL
    assert "cut off" in half[1]["why"] and "in parts" in half[1]["why"]
    assert message.stop_reason == "length"


async def test_a_call_cut_at_the_limit_is_never_repaired():
    message = await answer_of(piece(0, "a", "ls", '{"path": "a", "deep": {"x": 1}'), stop("length"))

    assert calls_of(message)[0][0] == UNREADABLE_CALL


async def test_half_a_call_is_unreadable_when_the_service_says_it_is_done():
    message = await answer_of(
        piece(0, "a", "ls", '{"path": "1"}'), piece(1, "b", "ls", '{"pa'), stop("tool_calls")
    )

    whole, half = calls_of(message)
    assert whole == ("ls", {"path": "1"})
    assert (half[0], half[1]["tool"], half[1]["written"]) == (UNREADABLE_CALL, "ls", '{"pa')
    assert "broken" in half[1]["why"]


async def test_broken_json_whose_meaning_is_certain_is_repaired():
    message = await answer_of(piece(0, "a", "ls", '{"path": ".",}'), stop("tool_calls"))

    assert calls_of(message) == [("ls", {"path": "."})]


async def test_an_answer_that_ends_inside_a_call_without_a_reason_to_stop_was_cut():
    with pytest.raises(ProviderError) as error:
        await answer_of(piece(0, "a", "ls", '{"pa'), end=b"")

    assert (error.value.reason, error.value.retryable) == ("truncated", True)


async def test_an_answer_without_a_reason_to_stop_and_without_its_end_was_cut():
    with pytest.raises(ProviderError) as error:
        await answer_of({"content": "Half an answ"}, end=b"")

    assert error.value.reason == "truncated"


async def test_a_connection_that_breaks_behind_the_reason_to_stop_does_not_matter():
    assert (await answer_of({"content": "All."}, stop("stop"), end=b"", cut=True)).text == "All."


async def test_an_end_mark_without_its_line_end_is_an_end_mark():
    assert (await answer_of({"content": "All."}, end=b"data: [DONE]")).text == "All."


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_is_kept_apart_from_words(field):
    message = await answer_of({field: "hm"}, {"content": "4"}, stop("stop"))

    assert message.content == (Thinking("hm", maker="openai"), Text("4"))


async def test_words_may_come_as_parts():
    assert (
        await answer_of({"content": [{"type": "text", "text": "Hi"}, {"type": "other"}]}, stop("stop"))
    ).text == "Hi"


async def test_what_the_filter_stopped_is_an_error():
    message = await answer_of({"content": "I"}, stop("content_filter"))

    assert (message.stop_reason, bool(message.error)) == ("error", True)


@pytest.mark.parametrize(
    ("reason", "means"),
    [
        ("sensitive", "error"),  # Zhipu
        ("content_filter: PROHIBITED_CONTENT", "error"),  # Gemini in the form of OpenAI
        ("model_context_window_exceeded", "length"),  # Zhipu, z.ai
        ("model_length", "length"),  # Mistral's models behind a gateway
        ("max_tokens", "length"),  # Anthropic's models behind a gateway
    ],
)
async def test_the_reasons_to_stop_of_compatible_services_are_understood(reason, means):
    message = await answer_of({"content": "so far"}, stop(reason))

    assert (message.stop_reason, message.text) == (means, "so far")


@pytest.mark.parametrize(
    ("reason", "means"),
    [
        ("insufficient_system_resource", "overloaded"),  # DeepSeek
        ("network_error", "server"),  # Zhipu
        ("error", "server"),  # OpenRouter
        ("abort", "truncated"),  # vLLM
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "truncated"),  # Gemini in the form of OpenAI
    ],
)
async def test_an_answer_that_the_service_broke_off_is_no_whole_answer(reason, means):
    with pytest.raises(ProviderError) as error:
        await answer_of({"content": "so far"}, stop(reason))

    assert (error.value.reason, error.value.retryable) == (means, True)
    assert reason in str(error.value)


async def test_a_window_that_is_full_before_any_word_is_an_overflow():
    with pytest.raises(ProviderError) as error:
        await answer_of({"reasoning_content": "hm"}, stop("model_context_window_exceeded"))

    assert error.value.reason == "context_overflow"


@pytest.mark.parametrize("where", ["chunk", "choice"])
async def test_an_error_beside_a_choice_is_an_error_with_its_text(where):
    failed = {"error": {"code": 429, "message": "Rate limit exceeded upstream"}}
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error"}
    chunk = {"choices": [choice]} | failed if where == "chunk" else {"choices": [choice | failed]}

    with pytest.raises(ProviderError, match="Rate limit exceeded upstream") as error:
        await answer_of({"content": "so far"}, chunk)

    assert error.value.reason == "rate_limit"


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 60}},
        {"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 60},
    ],
)
async def test_cached_tokens_are_taken_out_of_the_input_wherever_usage_is(usage):
    own = await answer_of({"content": "a"}, stop("stop"), {"choices": [], "usage": usage})
    on_last = await answer_of({"content": "a"}, stop("stop", usage=usage))
    in_choice = await answer_of(
        {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop", "usage": usage}]}
    )

    for message in (own, on_last, in_choice):
        assert (message.usage.input, message.usage.output, message.usage.cache_read) == (40, 5, 60)


async def test_a_service_that_never_says_usage_says_none():
    message = await answer_of({"content": "a"}, stop("stop"))

    assert message.usage.input is None


async def test_a_compatible_servers_error_in_a_stream_is_judged_by_its_number():
    with pytest.raises(ProviderError) as error:
        await answer_of({"choices": [], "error": {"code": 429, "message": "slow down"}})

    assert error.value.reason == "rate_limit"


# --- endpoints ---


def test_each_endpoint_with_an_address_is_a_provider_of_its_own():
    tree = {
        "providers": {
            "ollama": {"baseUrl": "localhost:11434/v1"},
            "openrouter": {"baseUrl": "https://router.test/api/v1"},
            "gate": {"type": "openai", "baseUrl": "http://10.0.0.7:8000/v1", "keyless": True},
            "claude-gate": {"type": "anthropic", "baseUrl": "https://gate.test"},
            "anthropic": {"baseUrl": "https://a.test"},
            "off": {"baseUrl": "https://off.test", "enabled": False},
            "nothing": {"apiKey": "k"},
        }
    }
    models = registered("openai", tree, HttpClients(), {"OPENROUTER_API_KEY": "sk-r"})

    assert {"gate", "ollama", "openai", "openrouter"} <= models.keys()
    assert {"claude-gate", "anthropic", "off", "nothing"}.isdisjoint(models)
    assert [key.secret for key in models["ollama"].credentials()] == [""]
    assert [key.secret for key in models["gate"].credentials()] == [""]
    assert [key.secret for key in models["openrouter"].credentials()] == ["sk-r"]
    assert models["openai"].credentials() == ()


async def test_a_keyless_endpoint_is_called_without_a_key():
    async with OpenAIService(["hi"]) as service, provider(service.url, "openai", name="ollama") as model:
        (key,) = model.credentials()
        assert (await answer(model, asks(credential=key)))[0] == "hi"

    assert service.requests[0].headers["authorization"] == "Bearer none"


def test_how_much_a_model_reads_comes_from_the_file_else_it_is_a_safe_guess():
    section = {
        "baseUrl": "http://localhost:1/v1",
        "contextTokens": 9000,
        "models": {"big": {"contextTokens": 64000}},
    }
    models = registered(
        "openai", {"providers": {"acme": section, "bare": {"baseUrl": "http://localhost:1"}}}, HttpClients()
    )

    assert models["openai"].context_tokens("gpt-5.1-2025-11-13") == 400_000
    assert models["openai"].context_tokens("gpt-of-tomorrow") == 128_000
    assert models["acme"].context_tokens("big") == 64_000
    assert models["acme"].context_tokens("small") == 9000
    assert models["bare"].context_tokens("any") == 32_768


def test_an_address_with_a_password_is_refused_and_not_repeated():
    written = {"providers": {"acme": {"baseUrl": "https://me:hush@acme.test"}}}
    with pytest.raises(ConfigError, match=r"^providers\.acme\.baseUrl") as error:
        registered("openai", written, HttpClients())["acme"].credentials()
    assert "hush" not in str(error.value)
