"""The Messages API: what a request says, and what an answer means."""

from typing import Any

import pytest
from claw.contracts.errors import ConfigError, ProviderError
from claw.contracts.provider import Credential, SystemPrompt, ToolSpec
from claw.contracts.transcript import (
    UNREADABLE_CALL,
    Assistant,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    User,
)
from claw.security.http_client import HttpClients
from claw_provider_sdk import Price
from claw_testing.services import AnthropicService, ReceivedRequest, ServiceReply
from models import LS, answer, asks, provider, registered

MARK = {"type": "ephemeral"}
HELLO = User((Text("hello"),))
CALL = ToolCall("toolu_1", "ls", {"path": "."})
LISTED = ToolResultMessage("toolu_1", "ls", (Text("a.py"),))
THOUGHT = Thinking("I should look", signature="sealed", maker="anthropic")


async def sent(*messages: Any, **fields: Any) -> dict[str, Any]:
    """The body that arrives at the service, which is strict, for a request."""
    section = fields.pop("section", {})
    async with AnthropicService(["fine"]) as service, provider(service.url, **section) as model:
        await answer(model, asks(*messages, **fields))
        (received,) = service.requests
    return received.body


async def stopped(stop: str, **reply: Any) -> Assistant:
    async with (
        AnthropicService([ServiceReply(stop=stop, **reply)]) as service,
        provider(service.url) as model,
    ):
        return (await answer(model))[1]


# --- the cache ---


async def test_the_system_prompt_is_split_where_its_stable_part_ends():
    body = await sent(system=SystemPrompt("You are claw.", "Runtime: x"))

    assert body["system"] == [
        {"type": "text", "text": "You are claw.", "cache_control": MARK},
        {"type": "text", "text": "Runtime: x"},
    ]


async def test_an_empty_system_prompt_is_left_out():
    assert "system" not in await sent(system=SystemPrompt("", " "))


async def test_the_last_tool_and_the_last_user_message_are_marked_when_enough_precedes_them():
    long = tuple(ToolSpec(f"tool_{n}", "d" * 2500, {"type": "object", "properties": {}}) for n in range(2))

    body = await sent(HELLO, Assistant((CALL,)), LISTED, tools=long)

    marks = [tool.get("cache_control") for tool in body["tools"]]
    assert marks == [None, MARK]
    assert body["messages"][-1]["content"][-1]["cache_control"] == MARK
    assert "cache_control" not in str(body["messages"][:-1])


async def test_a_request_marks_nothing_that_the_service_would_not_keep():
    body = await sent(tools=(LS,))

    assert "cache_control" not in str([body["tools"], body["messages"]])


# --- messages ---


async def test_results_of_one_answer_go_in_one_user_message_before_its_words():
    other = ToolCall("toolu_2", "ls", {})
    failed = ToolResultMessage("toolu_2", "ls", (Text("no"),), is_error=True)

    body = await sent(HELLO, Assistant((CALL, other)), LISTED, failed, User((Text("so?"),)), tools=(LS,))

    user, _, results = body["messages"]
    assert user["role"] == results["role"] == "user"
    assert [block["type"] for block in results["content"]] == ["tool_result", "tool_result", "text"]
    assert [block.get("is_error", False) for block in results["content"]] == [False, True, False]


async def test_a_past_that_begins_with_a_summary_gets_a_user_turn_before_it():
    body = await sent(Assistant((Text("Summary: we talked"),)), HELLO)

    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


async def test_words_of_blanks_are_not_sent():
    body = await sent(HELLO, Assistant((Text(" \n"), CALL)), LISTED, tools=(LS,))

    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use"]


# --- thinking ---


async def test_thoughts_go_back_unchanged_before_their_call():
    hidden = Thinking(redacted="opaque", maker="anthropic")
    said = Assistant((THOUGHT, hidden, CALL), model="anthropic/model-x")

    body = await sent(HELLO, said, LISTED, tools=(LS,), thinking="low")

    assert body["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "I should look", "signature": "sealed"},
        {"type": "redacted_thinking", "data": "opaque"},
    ]
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}


@pytest.mark.parametrize(
    ("maker", "model"), [("openai", "openai/gpt"), ("anthropic", "anthropic/another"), ("", "")]
)
async def test_thoughts_go_to_nobody_but_the_model_that_had_them(maker, model):
    thought = Thinking("I should look", signature="sealed", maker=maker)

    body = await sent(HELLO, Assistant((thought, Text("hm")), model=model), HELLO)

    assert "sealed" not in str(body)


async def test_a_thought_read_from_one_answer_is_sent_with_the_next_request():
    script = [ServiceReply(thinking="hm", calls=[("ls", {})]), "ok"]
    async with AnthropicService(script) as service, provider(service.url) as model:
        _, message = await answer(model, asks(tools=(LS,), thinking="adaptive"))
        result = ToolResultMessage(message.tool_calls[0].id, "ls", (Text("a"),))
        await answer(model, asks(HELLO, message, result, tools=(LS,), thinking="adaptive"))

    first, second = (request.body for request in service.requests)
    assert first["thinking"] == second["thinking"] == {"type": "adaptive"}
    assert second["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "hm",
        "signature": "sealed-1",
    }


async def test_a_forced_tool_and_a_turn_that_began_without_thoughts_leave_thinking_out():
    forced = await sent(tools=(LS,), tool_choice="required", thinking="high")
    begun = await sent(HELLO, Assistant((CALL,)), LISTED, tools=(LS,), thinking="high")

    assert "thinking" not in forced
    assert "thinking" not in begun


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        *((f"claude-{name}", False) for name in (
            "3-5-haiku-20241022", "3-5-sonnet-latest", "3-opus-20240229", "3-haiku-20240307", "3-sonnet-20240229")),
        *((f"claude-{name}", True) for name in ("3-7-sonnet-20250219", "sonnet-4-5", "opus-4-1-20250805", "next-9")),
    ],
)  # fmt: skip
async def test_only_a_model_that_can_think_is_asked_to(model: str, thinks: bool):
    body = await sent(model=model, thinking="low", max_tokens=1000)

    assert ("thinking" in body) is thinks
    assert body["max_tokens"] == (1000 + body["thinking"]["budget_tokens"] if thinks else 1000)


async def test_there_is_space_for_an_answer_behind_the_thoughts():
    body = await sent(thinking="high", max_tokens=1000)

    assert body["max_tokens"] == body["thinking"]["budget_tokens"] + 1000


async def test_the_length_of_an_answer_comes_from_request_model_provider_in_this_order():
    section = {"maxTokens": 500, "models": {"model-x": {"maxTokens": 300, "contextTokens": 9000}}}

    assert (await sent(section={}))["max_tokens"] == 8192
    assert (await sent(section={}, model="claude-sonnet-4-6"))["max_tokens"] == 32_000
    assert (await sent(section={}, model="claude-3-haiku"))["max_tokens"] == 8192
    assert (await sent(section=section, model="other"))["max_tokens"] == 500
    assert (await sent(section=section))["max_tokens"] == 300
    assert (await sent(section=section, max_tokens=100))["max_tokens"] == 100


# --- what an answer means ---


@pytest.mark.parametrize(
    ("stop", "means"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("pause_turn", "stop"), ("max_tokens", "length")],
)
async def test_the_reason_to_stop_is_reported_in_our_words(stop, means):
    message = await stopped(stop, text="so far")

    assert (message.stop_reason, message.text) == (means, "so far")


async def test_a_refusal_is_an_error_that_keeps_what_was_said():
    message = await stopped("refusal", text="I can")

    assert (message.stop_reason, message.text) == ("error", "I can")
    assert "refused" in message.error


async def test_a_window_that_is_full_before_any_word_is_an_overflow():
    with pytest.raises(ProviderError) as error:
        await stopped("model_context_window_exceeded")

    assert error.value.reason == "context_overflow"


async def test_what_was_said_until_the_window_was_full_is_kept():
    """The vendor's page on stop reasons: the answer is valid, and its length is that of the window."""
    message = await stopped("model_context_window_exceeded", text="so far")

    assert (message.stop_reason, message.text) == ("length", "so far")


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
async def test_half_a_call_is_unreadable_whatever_limit_cut_it(reason):
    raw = b"".join(
        f"data: {line}\n\n".encode()
        for line in (
            '{"type":"message_start","message":{}}',
            '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"ls","input":{}}}',
            '{"type":"content_block_delta","index":0,'
            '"delta":{"type":"input_json_delta","partial_json":"{\\"path\\": \\"."}}',
            f'{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}',
            '{"type":"message_stop"}',
        )
    )
    async with AnthropicService([ServiceReply(raw=raw)]) as service, provider(service.url) as model:
        _, message = await answer(model)

    (call,) = message.tool_calls
    assert call.name == UNREADABLE_CALL
    assert "cut off" in call.arguments["why"]


async def test_a_whole_call_before_the_cut_one_is_kept():
    message = await stopped("max_tokens", calls=[("ls", {"path": "."})])

    assert [call.name for call in message.tool_calls] == ["ls"]


async def test_a_gateway_that_sends_arguments_at_the_start_of_a_block_is_understood():
    raw = b"".join(
        f"data: {line}\n\n".encode()
        for line in (
            '{"type":"message_start","message":{}}',
            '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","name":"ls","input":{"path":"."}}}',
            '{"type":"some_day","index":7}',
            '{"type":"message_delta","delta":{"stop_reason":"tool_use"}}',
            '{"type":"message_stop"}',
        )
    )
    async with AnthropicService([ServiceReply(raw=raw)]) as service, provider(service.url) as model:
        _, message = await answer(model)

    (call,) = message.tool_calls
    assert (call.name, call.arguments, bool(call.id)) == ("ls", {"path": "."}, True)


# --- the service ---


def key_of(received: ReceivedRequest) -> tuple[str | None, str | None]:
    return received.headers.get("authorization"), received.headers.get("x-api-key")


async def test_the_key_is_where_the_service_wants_it():
    key = asks(credential=Credential("main", "sk-1"))
    async with AnthropicService(["a", "b"]) as service:
        async with provider(service.url) as model:
            await answer(model, key)
        async with provider(service.url, keyHeader="x-api-key", headers={"X-Team": "red"}) as model:
            await answer(model, key)

    first, second = service.requests
    assert key_of(first) == ("Bearer sk-1", None)
    assert key_of(second) == (None, "sk-1")
    assert second.headers["x-team"] == "red"


async def test_an_address_with_v1_is_the_same_address():
    async with AnthropicService(["hi"]) as service, provider(f"{service.url}/v1/") as model:
        assert (await answer(model))[0] == "hi"


def test_a_gateway_of_this_protocol_is_a_provider_of_its_own():
    tree = {
        "providers": {
            "my-gate": {"type": "anthropic", "baseUrl": "https://gate.test"},
            "acme": {"baseUrl": "https://a.test"},
        }
    }
    models = registered("anthropic", tree, HttpClients(), {"MY_GATE_API_KEY": "sk-gate"})

    assert sorted(models) == ["anthropic", "my-gate"]
    assert models["my-gate"].credentials()[0].secret == "sk-gate"
    assert models["anthropic"].context_tokens("claude-x") == 200_000


def test_a_wrong_key_in_the_section_is_reported_with_its_place():
    with pytest.raises(ConfigError, match=r"providers\.anthropic\.maxTokns"):
        registered("anthropic", {"providers": {"anthropic": {"maxTokns": 5}}}, HttpClients())


def test_a_service_on_this_machine_needs_no_key_and_costs_nothing():
    def models(url):
        return registered("anthropic", {"providers": {"anthropic": {"baseUrl": url}}}, HttpClients())[
            "anthropic"
        ]

    here, there = models("http://127.0.0.1:9/v1"), models("https://gate.test")

    assert [key.secret for key in here.credentials()] == [""] and there.credentials() == ()
    assert here.price("llama") == Price(0.0, 0.0) and there.price("claude-sonnet-4-5") is None
