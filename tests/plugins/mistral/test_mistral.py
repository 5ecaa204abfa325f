"""Mistral: what a request says, and what an answer means."""

import json
import re
import sys
from typing import Any

import pytest
from claw.contracts.errors import ConfigError, ProviderError
from claw.contracts.provider import Credential, SystemPrompt
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
from claw_mistral import prices
from claw_provider_sdk import Price
from claw_testing.services import ServiceReply
from models import LS, answer, asks, provider, registered
from typed import TypedMistralService

HELLO = User((Text("hello"),))
CALL = ToolCall("abcdefgh1", "ls", {"path": "."})
LISTED = ToolResultMessage("abcdefgh1", "ls", (Text("a.py"),))
LARGE, SMALL, MAGISTRAL = "mistral-large-4-0", "mistral-small-latest", "magistral-medium-latest"


async def sent(*messages: Any, **fields: Any) -> dict[str, Any]:
    """The body that arrives at the service, which is strict, for a request."""
    section = fields.pop("section", {})
    async with TypedMistralService(["fine"]) as service, provider(service.url, "mistral", **section) as model:
        await answer(model, asks(*messages, **fields))
        (received,) = service.requests
    return received.body


async def answer_of(*chunks: Any, end: bytes = b"data: [DONE]\n\n", cut: bool = False) -> Assistant:
    """The answer that is read from chunks: each a delta, or a whole chunk."""
    whole = [chunk if "choices" in chunk else {"choices": [{"index": 0, "delta": chunk}]} for chunk in chunks]
    raw = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in whole) + end
    script = [ServiceReply(raw=raw, cut=cut)]
    async with TypedMistralService(script) as service, provider(service.url, "mistral") as model:
        return (await answer(model, asks(tools=(LS,))))[1]


def stop(reason: str, **chunk: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": reason}], **chunk}


def piece(call_id: str, name: str, more: Any, index: int = 0) -> dict[str, Any]:
    call = {"id": call_id, "index": index, "function": {"name": name, "arguments": more}}
    return {"tool_calls": [call]}


async def failure(reply: ServiceReply) -> ProviderError:
    async with TypedMistralService([reply]) as service, provider(service.url, "mistral") as model:
        with pytest.raises(ProviderError) as error:
            await answer(model)
    return error.value


# --- requests ---


async def test_the_key_and_the_sdks_name_are_in_the_headers():
    async with (
        TypedMistralService(["fine"]) as service,
        provider(f"{service.url}/v1/", "mistral", headers={"X-Team": "red"}) as model,
    ):
        await answer(model, asks(credential=Credential("main", "k-1")))

    (received,) = service.requests
    assert (received.headers["authorization"], received.headers["x-team"]) == ("Bearer k-1", "red")
    assert received.headers["user-agent"].startswith("mistral-client-python/")


async def test_the_environments_key_of_the_sdk_is_not_used(monkeypatch):
    monkeypatch.setenv("MISTRAL_API_KEY", "k-of-somebody")
    async with TypedMistralService(["fine"]) as service, provider(service.url, "mistral") as model:
        await answer(model, asks(credential=Credential("main", "k-mine")))

    assert service.requests[0].headers["authorization"] == "Bearer k-mine"


async def test_an_empty_system_prompt_is_left_out():
    body = await sent(system=SystemPrompt("You are claw.", "Runtime: x"))

    assert body["messages"][0] == {"role": "system", "content": "You are claw.\n\nRuntime: x"}
    assert (await sent(system=SystemPrompt("", " ")))["messages"][0]["role"] == "user"


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "any"),
        ("ls", {"type": "function", "function": {"name": "ls"}}),
    ],
)
async def test_the_choice_of_a_tool_is_in_the_services_words(choice, said):
    assert (await sent(tools=(LS,), tool_choice=choice))["tool_choice"] == said


async def test_ids_are_nine_letters_and_figures_and_those_of_others_the_same_each_time():
    foreign = ToolCall("toolu_01|abc", "ls", {})
    past = (HELLO, Assistant((CALL, foreign)), LISTED, ToolResultMessage("toolu_01|abc", "ls", (Text("b"),)))

    first, again = await sent(*past, tools=(LS,)), await sent(*past, HELLO, tools=(LS,))

    calls = first["messages"][2]["tool_calls"]
    assert calls[0]["id"] == "abcdefgh1"
    assert [call["id"] for call in calls] == [row["tool_call_id"] for row in first["messages"][3:]]
    assert again["messages"][:5] == first["messages"]


async def test_nobody_speaks_right_behind_a_result():
    body = await sent(HELLO, Assistant((CALL,)), LISTED, User((Text("and?"),)), tools=(LS,))

    assert [row["role"] for row in body["messages"]][3:] == ["tool", "assistant", "user"]


async def test_a_past_begins_with_the_user_and_an_answer_that_is_last_is_gone_on_with():
    body = await sent(Assistant((Text("Summary: we talked"),)), system=SystemPrompt(""))

    assert [row["role"] for row in body["messages"]] == ["user", "assistant"]
    assert body["messages"][-1]["prefix"] is True


async def test_a_long_past_arrives_whole_and_in_order():
    past = [(User if n % 2 == 0 else Assistant)((Text(f"no {n}"),)) for n in range(300)]

    said = (await sent(*past))["messages"]

    assert [one["content"] for one in said[-300:]] == [f"no {n}" for n in range(300)]
    assert [one["content"] for one in said if "prefix" in one] == ["no 299"]


async def test_pictures_are_chunks_also_in_results():
    picture = Image("aGk=", "image/png")
    result = ToolResultMessage("abcdefgh1", "ls", (Text("look"), picture))

    body = await sent(User((Text("see"), picture)), Assistant((CALL,)), result, tools=(LS,))

    shown = {"type": "image_url", "image_url": "data:image/png;base64,aGk="}
    assert body["messages"][1]["content"] == [{"type": "text", "text": "see"}, shown]
    assert body["messages"][3]["content"] == [{"type": "text", "text": "look"}, shown]


# --- thinking ---


@pytest.mark.parametrize(
    ("model", "field", "said"),
    [
        (LARGE, "reasoning_effort", [None, "low", "medium", "high", "medium"]),
        (SMALL, "reasoning_effort", ["none", "high", "high", "high", "high"]),
        ("mistral-medium-3-5", "reasoning_effort", ["none", "high", "high", "high", "high"]),
        (MAGISTRAL, "prompt_mode", [None, "reasoning", "reasoning", "reasoning", "reasoning"]),
        ("mistral-medium-3.5", "reasoning_effort", ["none", "high", "high", "high", "high"]),
        ("mistral-large-latest", "reasoning_effort", [None] * 5),
        ("mistral-small-2506", "reasoning_effort", [None] * 5),
        ("codestral-latest", "reasoning_effort", [None] * 5),
    ],
)
async def test_thinking_is_requested_in_the_way_of_the_model(model, field, said):
    for level, expected in zip(("off", "low", "medium", "high", "adaptive"), said, strict=True):
        body = await sent(model=model, thinking=level)
        assert {key: body.get(key) for key in ("reasoning_effort", "prompt_mode") if key in body} == (
            {field: expected} if expected else {}
        )


async def test_the_file_may_say_how_thinking_is_switched():
    section = {"models": {"model-x": {"thinking": "levels"}}}

    assert (await sent(thinking="high", section=section))["reasoning_effort"] == "high"


async def test_a_thought_comes_back_to_the_model_that_had_it_and_to_nobody_else():
    script = [ServiceReply(thinking="hm", text="Looking.", calls=[("ls", {})]), "ok", "ok"]
    async with TypedMistralService(script) as service, provider(service.url, "mistral") as model:
        _, message = await answer(model, asks(tools=(LS,)))
        past = HELLO, message, ToolResultMessage(message.tool_calls[0].id, "ls", (Text("a"),))
        await answer(model, asks(*past, tools=(LS,)))
        await answer(model, asks(*past, tools=(LS,), model="another"))

    own, others = (request.body["messages"][2] for request in service.requests[1:])
    assert own["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Looking."},
    ]
    assert others["content"] == "Looking."


async def test_a_signature_of_a_thought_comes_back_with_it():
    chunk = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "signature": "sealed"}
    message = await answer_of({"content": [chunk]}, {"content": "Yes."}, stop("stop"))

    body = await sent(HELLO, message, HELLO)

    assert message.content[0] == Thinking("hm", signature="sealed", maker="mistral")
    assert body["messages"][2]["content"][0] == chunk


async def test_the_length_of_an_answer_comes_from_request_model_provider_in_this_order():
    section = {"maxTokens": 500, "models": {"model-x": {"maxTokens": 300}}}

    assert "max_tokens" not in await sent()
    assert (await sent(section=section, model="other"))["max_tokens"] == 500
    assert (await sent(section=section))["max_tokens"] == 300
    assert (await sent(section=section, max_tokens=100))["max_tokens"] == 100


# --- what an answer means ---


@pytest.mark.parametrize(
    ("reason", "means"), [("stop", "stop"), ("length", "length"), ("model_length", "length")]
)
async def test_the_reason_to_stop_is_reported_in_our_words(reason, means):
    message = await answer_of({"content": "so far"}, stop(reason))

    assert (message.stop_reason, message.text) == (means, "so far")


async def test_an_error_as_the_reason_keeps_what_was_said():
    message = await answer_of({"content": "I can"}, stop("error"))

    assert (message.stop_reason, message.text) == ("error", "I can")
    assert message.error


async def test_calls_come_whole_in_pieces_as_objects_and_under_one_index():
    message = await answer_of(
        piece("abcdefgh1", "ls", '{"path"'),
        piece("abcdefgh1", "", ': "a"}'),
        piece("abcdefgh2", "ls", {"path": "b"}),
        piece("null", "ls", "", index=1),
        stop("tool_calls"),
    )

    assert [call.arguments for call in message.tool_calls] == [{"path": "a"}, {"path": "b"}, {}]
    assert message.tool_calls[0].id == "abcdefgh1"
    assert message.tool_calls[2].id not in ("", "null")


@pytest.mark.parametrize(("ending", "why"), [("length", "cut off"), ("tool_calls", "broken")])
async def test_half_a_call_is_unreadable_and_says_why(ending, why):
    [call] = (await answer_of(piece("abcdefgh1", "ls", '{"pa'), stop(ending))).tool_calls

    assert (call.id, call.name, call.arguments["tool"]) == ("abcdefgh1", UNREADABLE_CALL, "ls")
    assert why in call.arguments["why"]


async def test_an_answer_without_a_reason_to_stop_was_cut_off():
    with pytest.raises(ProviderError) as error:
        await answer_of({"content": "so"}, end=b"")

    assert error.value.reason == "truncated"


@pytest.mark.parametrize(
    "cached", [{"prompt_tokens_details": {"cached_tokens": 100}}, {"num_cached_tokens": 100}]
)
async def test_cached_tokens_are_distinguished_from_the_input(cached):
    used = {"prompt_tokens": 140, "completion_tokens": 9, "total_tokens": 149} | cached

    expected = (await answer_of({"content": "x"}, stop("stop", usage=used))).usage

    assert (expected.input, expected.cache_read, expected.output, expected.total) == (40, 100, 9, 149)


# --- refusals ---


@pytest.mark.parametrize(
    ("status", "body", "reason", "said"),
    [
        (401, {"detail": "Unauthorized"}, "auth", "Unauthorized"),
        (
            429,
            {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited"},
            "rate_limit",
            "",
        ),
        (
            429,
            {
                "object": "error",
                "message": "Service tier capacity exceeded for this model.",
                "type": "service_tier_capacity_exceeded",
                "code": "3505",
            },
            "overloaded",
            "",
        ),
        (
            400,
            {
                "object": "error",
                "message": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
                "type": "invalid_request_prompt",
                "code": "3051",
            },
            "context_overflow",
            "",
        ),
        (
            422,
            {"detail": [{"loc": ["body", "messages"], "msg": "Field required", "type": "missing"}]},
            "bad_request",
            "body.messages: Field required",
        ),
        (
            400,
            {"object": "error", "message": {"detail": [{"msg": "Extra inputs", "loc": ["x"]}]}},
            "bad_request",
            "x: Extra inputs",
        ),
        (
            400,
            {"object": "error", "message": "Invalid model: m", "type": "invalid_model"},
            "",
            "Invalid model",
        ),
        (
            500,
            {"object": "error", "message": "Service unavailable.", "type": "internal_server_error"},
            "server",
            "",
        ),
    ],
)
async def test_an_error_has_the_reason_of_its_status(status, body, reason, said):
    error = await failure(ServiceReply(status=status, body=body))

    assert error.reason == (reason or error.reason)
    assert said in str(error)
    assert error.status == status


async def test_an_error_in_a_stream_is_reported():
    inside = {"object": "error", "message": "overloaded", "type": "internal_error", "raw_status_code": 503}

    error = await failure(ServiceReply(raw=b"data: %b\n\n" % json.dumps(inside).encode()))

    assert error.retryable


# --- the section, and the SDK ---


def test_a_gateway_of_this_protocol_is_a_provider_of_its_own():
    tree = {"providers": {"my-gate": {"type": "mistral", "baseUrl": "https://gate.test"}}}
    found = registered("mistral", tree, HttpClients(), {"MY_GATE_API_KEY": "k-gate"})

    assert sorted(found) == ["mistral", "my-gate"]
    assert found["my-gate"].credentials()[0].secret == "k-gate"


def test_windows_are_those_of_the_family_unless_the_file_says():
    section = {"models": {"model-x": {"contextTokens": 9000}}}
    model = registered("mistral", {"providers": {"mistral": section}}, HttpClients())["mistral"]

    assert [model.context_tokens(name) for name in ("model-x", LARGE, SMALL)] == [9000, 524_288, 131_072]


def vendor(**section: Any) -> Any:
    return registered("mistral", {"providers": {"mistral": section}}, HttpClients())["mistral"]


def test_a_price_is_the_vendors_own_and_of_a_model_by_its_number():
    assert vendor().price("mistral-large-2512") == Price(0.5, 1.5, 0.05)
    assert vendor().price("mistral-large-latest") is None, "another model every few months"
    assert vendor(baseUrl="https://gate.test").price("mistral-large-2512") is None
    assert vendor(baseUrl="http://127.0.0.1:9").price("mistral-large-2512") == Price(0.0, 0.0), (
        "this machine's own"
    )


@pytest.mark.parametrize("name", sorted(prices.table().models))
def test_each_figure_has_its_date_and_is_in_proportion(name: str):
    known = prices.table().models[name]
    price = known.price

    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", known.checked)
    assert price and 0 < price.input <= price.output <= 100
    assert price.cache_read is None or price.cache_read <= price.input


def test_the_longest_answer_is_the_one_that_is_asked_for():
    assert vendor().answer_tokens(asks()) is None
    assert vendor(maxTokens=500).answer_tokens(asks()) == 500
    assert vendor(maxTokens=500).answer_tokens(asks(max_tokens=100)) == 100


def test_a_wrong_key_in_the_section_is_reported_with_its_place():
    with pytest.raises(ConfigError, match=r"providers\.mistral\.maxTokns"):
        registered("mistral", {"providers": {"mistral": {"maxTokns": 5}}}, HttpClients())


async def test_without_its_sdk_the_first_call_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mistralai.client", None)
    async with provider("http://127.0.0.1:9", "mistral") as model:
        with pytest.raises(ProviderError, match=r"mistralai is not installed.*install.*claw-mistral\[sdk\]"):
            await answer(model)
