"""Gemini: what a request says, and what an answer means."""

import json
import re
import sys
from typing import Any

import pytest
from claw.contracts.errors import ConfigError, ProviderError
from claw.contracts.provider import Credential, SystemPrompt, ToolSpec
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
from claw_google import prices, thinking
from claw_provider_sdk import Price
from claw_testing.services import ServiceReply
from models import LS, answer, asks, provider, registered
from typed import TypedGoogleService

HELLO = User((Text("hello"),))
CALL = ToolCall("call_1", "ls", {"path": "."})
LISTED = ToolResultMessage("call_1", "ls", (Text("a.py"),))
NEW, OLD = "gemini-3.8-flash", "gemini-2.5-flash"
SIGNATURE = "c2VhbGVk"


async def sent(*messages: Any, **fields: Any) -> dict[str, Any]:
    """The body that arrives at the service, which is strict, for a request."""
    section = fields.pop("section", {})
    async with TypedGoogleService(["fine"]) as service, provider(service.url, "google", **section) as model:
        await answer(model, asks(*messages, **fields))
        (received,) = service.requests
    return received.body


async def answer_of(*chunks: Any, tools: tuple[ToolSpec, ...] = (LS,), cut: bool = False) -> Assistant:
    """The answer that is read from chunks: each some parts and a reason to stop, or a whole chunk."""
    whole = [chunk if isinstance(chunk, dict) else candidate(*chunk) for chunk in chunks]
    raw = b"".join(b"data: %b\r\n\r\n" % json.dumps(chunk).encode() for chunk in whole)
    script = [ServiceReply(raw=raw, cut=cut)]
    async with TypedGoogleService(script) as service, provider(service.url, "google") as model:
        return (await answer(model, asks(tools=tools)))[1]


def candidate(parts: list[Any], stop: str = "") -> dict[str, Any]:
    said = {"content": {"role": "model", "parts": parts}}
    return {"candidates": [said | ({"finishReason": stop} if stop else {})]}


async def failure(reply: ServiceReply) -> ProviderError:
    async with TypedGoogleService([reply]) as service, provider(service.url, "google") as model:
        with pytest.raises(ProviderError) as error:
            await answer(model)
    return error.value


def refusal(code: int, word: str, message: str, **details: Any) -> ServiceReply:
    error = {"code": code, "status": word, "message": message, "details": [details] if details else []}
    return ServiceReply(status=code, body={"error": error})


# --- requests ---


async def test_a_request_goes_to_its_model_with_the_key_in_the_services_own_header():
    async with TypedGoogleService(["a", "b"]) as service:
        async with provider(service.url, "google", headers={"X-Team": "red"}) as model:
            await answer(model, asks(credential=Credential("main", "k-1")))
        async with provider(f"{service.url}/v1beta/", "google") as model:
            await answer(model, asks(model="models/gemini-x"))

    first, second = service.requests
    assert first.path == "/v1/models/model-x:streamGenerateContent?alt=sse"
    assert second.path == "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert (first.headers["x-goog-api-key"], first.headers["x-team"]) == ("k-1", "red")
    assert "google-genai-sdk" in first.headers["user-agent"]


async def test_the_environments_switches_of_the_sdk_change_nothing(monkeypatch):
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    monkeypatch.setenv("GOOGLE_API_KEY", "k-of-somebody")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with TypedGoogleService(["fine"]) as service, provider(service.url, "google") as model:
        await answer(model, asks(credential=Credential("main", "k-mine")))

    assert service.requests[0].headers["x-goog-api-key"] == "k-mine"
    assert service.requests[0].path.startswith("/v1/models/")


async def test_the_system_prompt_is_an_instruction_and_an_empty_one_is_left_out():
    body = await sent(system=SystemPrompt("You are claw.", "Runtime: x"))

    assert body["systemInstruction"] == {"parts": [{"text": "You are claw.\n\nRuntime: x"}]}
    assert "systemInstruction" not in await sent(system=SystemPrompt("", " "))


@pytest.mark.parametrize(
    ("choice", "config"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("ls", {"mode": "ANY", "allowedFunctionNames": ["ls"]}),
    ],
)
async def test_the_choice_of_a_tool_is_a_mode(choice, config):
    body = await sent(tools=(LS,), tool_choice=choice)

    assert body["toolConfig"] == {"functionCallingConfig": config}


async def test_a_schema_goes_out_in_the_subset_and_a_tool_that_takes_nothing_has_none():
    wide = {
        "type": "object",
        "$defs": {"E": {"type": "object", "properties": {"n": {"type": ["integer", "null"], "const": 3}}}},
        "properties": {
            "edits": {"type": "array", "items": {"$ref": "#/$defs/E"}},
            "mode": {"oneOf": [{"const": "a"}, {"const": "b"}]},
        },
        "required": ["edits", "nowhere"],
        "additionalProperties": False,
    }
    tools = (ToolSpec("edit", "Edit", wide), ToolSpec("now", "Time", {"type": "object", "properties": {}}))

    edit, now = (await sent(tools=tools))["tools"][0]["functionDeclarations"]

    assert edit["parameters"]["required"] == ["edits"]
    assert edit["parameters"]["properties"]["edits"]["items"]["type"] == "object"
    assert "parameters" not in now


async def test_a_name_that_begins_with_a_figure_is_written_so_that_the_service_takes_it():
    odd = ToolSpec("3d_print", "Print", {"type": "object", "properties": {"what": {"type": "string"}}})
    past = Assistant((ToolCall("c", "3d_print", {}),)), ToolResultMessage("c", "3d_print", (Text("ok"),))

    body = await sent(HELLO, *past, tools=(odd,), tool_choice="3d_print")
    message = await answer_of(([{"functionCall": {"name": "_3d_print", "args": {}}}], "STOP"), tools=(odd,))

    assert json.dumps(body).count('"_3d_print"') == 4
    assert message.tool_calls[0].name == "3d_print"


async def test_results_of_one_answer_are_in_one_turn_with_names_and_ids_of_their_calls():
    other = ToolCall("工具/2", "ls", {})
    failed = ToolResultMessage("工具/2", "", (Text("no"), Image("aGk=")), is_error=True)

    body = await sent(HELLO, Assistant((CALL, other)), LISTED, failed, User((Text("so?"),)), tools=(LS,))

    _, calls, results = body["contents"]
    called = [part["functionCall"] for part in calls["parts"]]
    first, second, picture, words = results["parts"]
    assert first["functionResponse"]["response"] == {"output": "a.py"}
    assert second["functionResponse"]["response"] == {"error": "no"}
    assert [one["id"] for one in called] == [one["functionResponse"]["id"] for one in (first, second)]
    assert second["functionResponse"]["name"] == "ls"
    assert picture == {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    assert words == {"text": "so?"}


async def test_roles_take_turns_and_the_user_is_first():
    body = await sent(Assistant((Text("Summary: we talked"),)), Assistant((Text("And more"),)), HELLO, HELLO)

    assert [turn["role"] for turn in body["contents"]] == ["user", "model", "user"]


async def test_a_long_past_arrives_whole_and_in_order():
    past = [(User if n % 2 == 0 else Assistant)((Text(f"no {n}"),)) for n in range(301)]

    contents = (await sent(*past))["contents"]

    assert [one["parts"][0]["text"] for one in contents] == [f"no {n}" for n in range(301)]
    assert {one["role"] for one in contents[::2]} == {"user"}


async def test_blanks_are_not_sent():
    body = await sent(HELLO, Assistant((Text(" \n"), CALL)), LISTED, tools=(LS,))

    assert [list(part) for part in body["contents"][1]["parts"]] == [["functionCall"]]


# --- thinking ---

LEVELS = ("off", "low", "medium", "high", "adaptive")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (NEW, ["LOW", "LOW", "MEDIUM", "HIGH", None]),
        ("gemini-pro-latest", ["LOW", "LOW", "MEDIUM", "HIGH", None]),
        (OLD, [0, 2048, 8192, 24576, -1]),
        ("gemini-2.5-pro", [128, 2048, 8192, 24576, -1]),
    ],
)
async def test_thinking_is_requested_in_the_way_of_the_model(model, said):
    for level, expected in zip(LEVELS, said, strict=True):
        config = (await sent(model=model, thinking=level))["generationConfig"]["thinkingConfig"]
        assert config.get("thinkingLevel", config.get("thinkingBudget")) == expected
        assert config.get("includeThoughts", False) is (level != "off")


async def test_a_model_that_is_not_known_to_think_gets_no_setting_unless_the_file_says_how():
    section = {"models": {"model-x": {"thinking": "level"}}}

    assert "generationConfig" not in await sent(model="gemma-3-27b-it", thinking="high")
    assert "generationConfig" not in await sent(model="gemini-2.0-flash", thinking="high")
    assert thinking.style("models/gemini-3-pro-preview") == "level"
    expected = await sent(thinking="high", section=section)
    assert expected["generationConfig"]["thinkingConfig"]["thinkingLevel"] == "HIGH"


async def test_the_length_of_an_answer_comes_from_request_model_provider_and_has_space_for_a_budget():
    section = {"maxTokens": 500, "models": {"model-x": {"maxTokens": 300}}}

    async def most(**fields: Any) -> int:
        return (await sent(**fields))["generationConfig"]["maxOutputTokens"]

    assert await most(section=section, model="other") == 500
    assert await most(section=section) == 300
    assert await most(section=section, max_tokens=100) == 100
    assert await most(model=OLD, thinking="low", max_tokens=100) == 2148
    assert await most(model=OLD, thinking="adaptive", max_tokens=100) == 100


# --- signatures ---


async def test_a_signature_comes_back_with_the_part_that_it_came_with():
    script = [
        ServiceReply(thinking="hm", text="Looking.", calls=[("ls", {"path": "."}), ("ls", {"path": ".."})]),
        "ok",
    ]
    async with TypedGoogleService(script) as service, provider(service.url, "google") as model:
        _, message = await answer(model, asks(model=NEW, tools=(LS,)))
        results = [ToolResultMessage(call.id, "ls", (Text("a"),)) for call in message.tool_calls]
        await answer(model, asks(HELLO, message, *results, model=NEW, tools=(LS,)))

    parts = service.requests[1].body["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == [None, "c2VhbGVkLTE=", None]
    assert "functionCall" in parts[1]


async def test_a_signature_behind_the_words_comes_back_behind_them():
    message = await answer_of(
        ([{"text": "hm", "thought": True}], ""),
        ([{"text": "Fine"}], ""),
        ([{"text": ".", "thoughtSignature": SIGNATURE}], ""),
        ([{"text": "", "thoughtSignature": SIGNATURE}], "STOP"),
    )
    body = await sent(HELLO, message, HELLO)

    assert message.text == "Fine."
    assert body["contents"][1]["parts"] == [
        {"text": "Fine"},
        {"text": ".", "thoughtSignature": SIGNATURE},
        {"text": "", "thoughtSignature": SIGNATURE},
    ]


async def test_a_thought_with_its_own_signature_comes_back_whole():
    message = await answer_of(
        ([{"text": "hm", "thought": True, "thoughtSignature": SIGNATURE}], ""), ([{"text": "Yes."}], "STOP")
    )
    body = await sent(HELLO, message, HELLO)

    assert body["contents"][1]["parts"][0] == {"text": "hm", "thought": True, "thoughtSignature": SIGNATURE}


@pytest.mark.parametrize(
    ("maker", "model"), [("anthropic", "anthropic/claude"), ("google", "google/another"), ("", "")]
)
async def test_signatures_go_to_nobody_but_the_model_that_made_them(maker, model):
    signed = Thinking(signature=SIGNATURE, maker=maker)

    body = await sent(HELLO, Assistant((signed, CALL), model=model), LISTED, tools=(LS,))

    assert SIGNATURE not in json.dumps(body)


async def test_a_call_of_another_maker_goes_to_a_strict_model_with_a_placeholder():
    past = (HELLO, Assistant((Text("Looking."), CALL), model="openai/gpt"), LISTED)

    strict = await sent(*past, model=NEW, tools=(LS,))
    lenient = await sent(*past, model=OLD, tools=(LS,))

    assert strict["contents"][1]["parts"][1]["thoughtSignature"] == "skip_thought_signature_validator"
    assert "thoughtSignature" not in json.dumps(lenient)


# --- what an answer means ---


async def test_a_call_without_an_id_gets_a_generated_one_and_an_id_is_kept():
    message = await answer_of(
        (
            [
                {"functionCall": {"name": "ls", "args": {"path": "a"}}},
                {"functionCall": {"name": "ls", "id": "fc-7"}},
            ],
            "STOP",
        )
    )

    first, second = message.tool_calls
    assert (bool(first.id), second.id) == (True, "fc-7")
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize(
    ("stop", "means"), [("STOP", "stop"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length")]
)
async def test_the_reason_to_stop_is_reported_in_our_words(stop, means):
    message = await answer_of(([{"text": "so far"}], stop))

    assert (message.stop_reason, message.text) == (means, "so far")


async def test_a_filter_makes_an_error_that_keeps_what_was_said():
    stopped = await answer_of(([{"text": "I can"}], "SAFETY"))
    blocked = await answer_of({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})

    assert (stopped.stop_reason, stopped.text) == ("error", "I can")
    assert "SAFETY" in stopped.error
    assert "PROHIBITED_CONTENT" in blocked.error


@pytest.mark.parametrize("stop", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
async def test_a_call_that_the_service_could_not_read_is_unreadable_and_sound_ones_stay(stop):
    sound = {"functionCall": {"name": "ls", "args": {"path": "."}}}
    message = await answer_of(([sound], stop), tools=(LS,))

    first, second = message.tool_calls
    assert (first.name, second.name) == ("ls", UNREADABLE_CALL)
    assert stop in second.arguments["why"]
    assert message.stop_reason == "tool_use"


@pytest.mark.parametrize("stop", ["MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"])
async def test_a_malformed_answer_to_a_request_without_tools_may_be_tried_again(stop):
    with pytest.raises(ProviderError) as error:
        await answer_of(([], stop), tools=())

    assert (error.value.reason, error.value.retryable) == ("truncated", True)
    assert stop in str(error.value)


async def test_an_answer_without_a_reason_to_stop_was_cut_off():
    with pytest.raises(ProviderError) as error:
        await answer_of(([{"text": "so"}], ""), cut=False)

    assert error.value.reason == "truncated"


async def test_figures_are_distinguished():
    used = {"promptTokenCount": 150, "cachedContentTokenCount": 100, "toolUsePromptTokenCount": 5}
    made = {"candidatesTokenCount": 7, "thoughtsTokenCount": 30, "totalTokenCount": 192}

    message = await answer_of(candidate([{"text": "x"}], "STOP") | {"usageMetadata": used | made})

    expected = message.usage
    assert (expected.input, expected.cache_read, expected.output, expected.total) == (55, 100, 37, 192)


async def test_chunks_as_a_list_are_an_answer_too():
    body = [candidate([{"text": "Hel"}]), candidate([{"text": "lo."}], "STOP")]
    async with (
        TypedGoogleService([ServiceReply(body=body)]) as service,
        provider(service.url, "google") as model,
    ):
        shown, message = await answer(model)

    assert shown == message.text == "Hello."


async def test_server_side_parts_of_a_newer_service_pass():
    message = await answer_of(
        ([{"executableCode": {"code": "1", "language": "PYTHON"}}, {"text": "ok"}], "STOP")
    )

    assert message.text == "ok"


# --- refusals ---

QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (refusal(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."), "auth"),
        (refusal(400, "INVALID_ARGUMENT", "no", reason="API_KEY_INVALID"), "auth"),
        (refusal(429, "RESOURCE_EXHAUSTED", QUOTA), "rate_limit"),
        (refusal(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), "billing"),
        (refusal(503, "UNAVAILABLE", "The model is experiencing high demand."), "overloaded"),
        (refusal(504, "DEADLINE_EXCEEDED", "Deadline expired"), "timeout"),
        (refusal(500, "INTERNAL", "An internal error has occurred."), "server"),
        (refusal(403, "PERMISSION_DENIED", "Your project has been denied access."), "permission"),
        (refusal(404, "NOT_FOUND", "models/gemini-0 is not found for API version v1"), "model_not_found"),
        (refusal(400, "INVALID_ARGUMENT", "Request contains an invalid argument."), "bad_request"),
        (
            refusal(
                400,
                "INVALID_ARGUMENT",
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            ),
            "context_overflow",
        ),
    ],
)
async def test_an_error_has_the_reason_of_its_status(reply, reason):
    assert (await failure(reply)).reason == reason


async def test_the_wait_in_the_details_is_used():
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9.5s"}

    assert (await failure(refusal(429, "RESOURCE_EXHAUSTED", QUOTA, **info))).retry_after_seconds == 9.5


async def test_an_error_in_a_stream_and_one_in_a_list_are_reported():
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    inside = ServiceReply(raw=b"data: %b\n\n" % json.dumps(error).encode())

    assert (await failure(inside)).reason == "overloaded"
    assert (await failure(ServiceReply(status=503, body=[error]))).reason == "overloaded"


# --- the section, and the SDK ---


def test_keys_come_from_either_variable_and_a_gateway_is_a_provider_of_its_own():
    tree = {"providers": {"my-gate": {"type": "google", "baseUrl": "https://gate.test"}}}
    environ = {"GOOGLE_API_KEY": "k-google", "MY_GATE_API_KEY": "k-gate"}
    found = registered("google", tree, HttpClients(), environ)

    assert {name: one.credentials()[0].secret for name, one in found.items()} == {
        "google": "k-google",
        "my-gate": "k-gate",
    }
    both = registered("google", {}, HttpClients(), environ | {"GEMINI_API_KEY": "k-gemini"})
    assert both["google"].credentials()[0].secret == "k-gemini"


def test_windows_are_those_of_the_family_unless_the_file_says():
    section = {"models": {"gemini-x": {"contextTokens": 9000}}}
    model = registered("google", {"providers": {"google": section}}, HttpClients())["google"]

    windows = [model.context_tokens(name) for name in ("gemini-x", NEW, f"models/{NEW}", "gemma-3-27b-it")]
    assert windows == [9000, 1_048_576, 1_048_576, 131_072]


def vendor(**section: Any) -> Any:
    return registered("google", {"providers": {"google": section}}, HttpClients())["google"]


def test_a_price_is_of_that_vendor_only():
    long = Price(2.5, 15, 0.25)

    assert vendor().price("gemini-2.5-pro") == Price(1.25, 10, 0.125, over=(200_000, long))
    assert vendor().price(f"models/{NEW}") == vendor().price(NEW) is not None
    assert vendor().price("gemini-of-tomorrow") is None
    assert vendor().price("gemini-flash-latest") is None, "another model every few months"
    assert vendor(baseUrl="https://gate.test").price("gemini-2.5-pro") is None
    assert vendor(baseUrl="http://127.0.0.1:9").price("gemini-2.5-pro") == Price(0.0, 0.0), (
        "this machine's own"
    )


@pytest.mark.parametrize("name", sorted(prices.table().models))
def test_each_figure_has_its_date_and_is_in_proportion(name: str):
    known = prices.table().models[name]
    price = known.price

    assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", known.checked)
    assert price and 0 < price.input <= price.output <= 100
    assert price.cache_read is None or price.cache_read <= price.input
    assert price.over is None or price.over[1].input > price.input


def test_the_longest_answer_has_space_for_thoughts():
    def longest(provider: Any, **fields: Any) -> int | None:
        return provider.answer_tokens(asks(**({"model": OLD} | fields)))

    assert longest(vendor()) is None
    assert longest(vendor(), max_tokens=100, thinking="low") == 2148
    assert longest(vendor(maxTokens=500), model=NEW, thinking="high") == 500


def test_a_wrong_key_in_the_section_is_reported_with_its_place():
    with pytest.raises(ConfigError, match=r"providers\.google\.maxTokns"):
        registered("google", {"providers": {"google": {"maxTokns": 5}}}, HttpClients())


async def test_without_its_sdk_the_first_call_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.genai", None)
    async with provider("http://127.0.0.1:9", "google") as model:
        with pytest.raises(
            ProviderError, match=r"google-genai is not installed.*install.*claw-google\[sdk\]"
        ):
            await answer(model)
