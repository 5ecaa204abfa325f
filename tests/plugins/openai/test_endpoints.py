"""The table of compatible endpoints: each row sends other bytes than an unknown endpoint, and names its source."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from claw.contracts.errors import ProviderError
from claw.contracts.provider import Request, SystemPrompt
from claw.contracts.transcript import Assistant, Text, Thinking, ToolCall, ToolResultMessage, User
from claw_openai.endpoints import Endpoint, endpoints
from claw_provider_sdk import Price
from models import LS, answer, asks, registered

ROWS = endpoints()
NAMES = list(ROWS)
CASES = [(name, quirk) for name, row in ROWS.items() for quirk in row.quirks]
AZURE = {"AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/"}
MANIFEST = json.loads((Path(__file__).parents[3] / "plugins/openai/claw_openai/claw-plugin.json").read_text())
DONE = b'data: {"choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@dataclass
class Wire:
    """A network whose requests go nowhere but into ``sent``."""

    sent: list[httpx2.Request] = field(default_factory=list)

    def client(self, origin: str, *, apart: bool = False, transport: Any = None) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._take))

    def _take(self, request: httpx2.Request) -> httpx2.Response:
        self.sent.append(request)
        return httpx2.Response(200, content=DONE, headers={"content-type": "text/event-stream"})


def golden(**fields: Any) -> tuple[Request, ...]:
    """Requests with everything in them that an endpoint may want otherwise."""
    past = (
        User((Text("hello"),)),
        Assistant((Thinking("hm", maker=fields.pop("maker")), ToolCall("call_1", "ls", {"path": "."}))),
        ToolResultMessage("call_1", "ls", (Text("a.py"),)),
        User((Text("and now?"),)),
    )
    whole = {"tools": (LS,), "max_tokens": 100, "system": SystemPrompt("You are claw."), **fields}
    return (
        asks(*past, thinking="off", **whole),
        asks(*past, thinking="high", tool_choice="required", **whole),
    )


async def bytes_of(name: str, section: dict[str, Any] | None = None, model: str = "") -> list[bytes]:
    """The outgoing golden requests: request line, key, body."""
    wire, row = Wire(), ROWS.get(name)
    tree = {"providers": {name: section or {"enabled": True}}}
    named = registered("openai", tree, wire, AZURE)[name]  # type: ignore[arg-type]
    for request in golden(maker=name, model=model or (row and row.default_model) or "model-x"):
        await answer(named, request)
    return [f"{one.method} {one.url}\n".encode() + one.content for one in wire.sent]


@pytest.mark.parametrize("name", NAMES)
async def test_each_row_changes_a_golden_request(name: str) -> None:
    """Beside an endpoint of which nobody knows anything, at the vendor's address."""
    other = await bytes_of("stranger", {"type": "openai", "baseUrl": "https://api.openai.com/v1"})

    assert await bytes_of(name) != other


@pytest.mark.parametrize(("name", "quirk"), CASES, ids=str)
async def test_each_quirk_of_a_row_changes_a_golden_request(name: str, quirk: str) -> None:
    row = ROWS[name]
    without = {key: value for key, value in row.quirks.items() if key != quirk}
    bare = {"type": "openai", "baseUrl": row.address(AZURE), "quirks": without}
    kept = [one.partition(b"\n")[2] for one in await bytes_of(name)]
    wire = Wire()
    other = registered("openai", {"providers": {"stranger": bare}}, wire)["stranger"]  # type: ignore[arg-type]
    for request in golden(maker="stranger", model=row.default_model or "model-x"):
        await answer(other, request)

    assert [one.content for one in wire.sent] != kept


@pytest.mark.parametrize("name", NAMES)
def test_each_row_says_where_its_facts_are_from_and_each_figure_when(name: str) -> None:
    row = ROWS[name]
    assert row.source.startswith("https://")
    assert row.title and (row.env or row.keyless)
    for model in row.models.values():
        assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", model.checked)
        assert not model.source or model.source.startswith("https://")


@pytest.mark.parametrize("name", NAMES)
def test_no_figure_is_out_of_all_proportion(name: str) -> None:
    for model in ROWS[name].models.values():
        assert model.context_tokens is None or 4096 <= model.context_tokens <= 2_000_000
        if model.price:
            price = model.price
            assert price.input is not None and price.output is not None, "half a price is none"
            assert 0 < price.input <= price.output <= 300
            assert price.cache_read is None or price.cache_read <= price.input
            assert price.over is None or price.over[1].input > price.input


def test_the_manifest_lists_every_row_with_its_keys_so_that_it_is_found_without_being_imported() -> None:
    lines = {line["name"]: line for line in MANIFEST["providers"] if line["name"] != "*"}

    assert list(lines) == NAMES
    for name, row in ROWS.items():
        assert tuple(lines[name].get("env", ())) == row.env
        assert lines[name].get("defaultModel", "") == row.default_model


# --- what the table does


def endpoint(name: str, section: dict[str, Any] | None = None, **environ: str) -> Any:
    tree = {"providers": {name: section}} if section else {}
    return registered("openai", tree, Wire(), environ).get(name)  # type: ignore[arg-type]


def test_a_known_endpoint_needs_its_key_alone() -> None:
    deepseek = endpoint("deepseek", DEEPSEEK_API_KEY="sk-d")

    assert [key.secret for key in deepseek.credentials()] == ["sk-d"]
    assert deepseek.context_tokens("deepseek-v4-flash") == 1_000_000
    assert deepseek.price("deepseek-v4-flash") == Price(0.14, 0.28, 0.0028)
    assert endpoint("qwen").credentials() == ()


def test_azure_is_where_its_variable_says_and_nowhere_without() -> None:
    assert "mine.openai.azure.com/openai/v1" in repr(endpoint("azure", **AZURE))
    with pytest.raises(ProviderError, match=r"providers\.azure\.baseUrl.*AZURE_OPENAI_ENDPOINT"):
        endpoint("azure", AZURE_OPENAI_API_KEY="k").credentials()
    assert "10.1.1.1" in repr(endpoint("azure", {"baseUrl": "http://10.1.1.1/openai/v1"}))


def test_a_service_of_this_machine_costs_nothing_and_an_unknown_one_nobody_knows_what() -> None:
    assert endpoint("ollama").price("qwen3:8b") == Price(0.0, 0.0)
    assert endpoint("acme", {"baseUrl": "https://acme.test/v1"}).price("any") is None
    assert endpoint("openai").price("gpt-of-tomorrow") is None
    assert endpoint("openai").price("gpt-5-pro") is None, "another model is no snapshot of one that is known"
    assert endpoint("openai").price("gpt-5.1-2025-11-13") == endpoint("openai").price("gpt-5.1")


def test_the_vendors_prices_are_not_those_of_a_gateway_that_goes_by_its_name() -> None:
    assert endpoint("deepseek", {"baseUrl": "https://gate.test/v1"}).price("deepseek-v4-flash") is None


def test_what_the_file_says_precedes_the_table() -> None:
    options = {"contextTokens": 9000, "quirks": {"replayReasoning": False}}
    assert endpoint("deepseek", options).context_tokens("deepseek-v4-flash") == 9000
    assert endpoint("deepseek", options)._quirks.thinking_switch == "thinking"
    assert not endpoint("deepseek", options)._quirks.replay_reasoning


def test_a_known_endpoint_may_be_left_to_another_plugin() -> None:
    section = {"type": "anthropic", "baseUrl": "https://api.deepseek.com/anthropic"}
    assert endpoint("deepseek", section) is None


async def body_of(name: str, model: str, **fields: Any) -> dict[str, Any]:
    wire = Wire()
    await answer(registered("openai", {}, wire)[name], asks(model=model, **fields))  # type: ignore[arg-type]
    body: dict[str, Any] = json.loads(wire.sent[0].content)
    return body


async def test_thinking_is_switched_as_each_endpoint_wants_it() -> None:
    assert (await body_of("deepseek", "deepseek-v4-pro"))["thinking"] == {"type": "disabled"}
    options = await body_of("deepseek", "deepseek-v4-pro", thinking="high")
    assert (options["thinking"], options["reasoning_effort"]) == ({"type": "enabled"}, "high")
    assert (await body_of("qwen", "qwen3-max", thinking="low"))["enable_thinking"] is True
    assert (await body_of("openrouter", "x/y", thinking="low"))["reasoning"] == {"effort": "low"}
    assert "reasoning" not in await body_of("openrouter", "x/y")
    assert "thinking" not in await body_of("deepseek", "deepseek-v4-pro", thinking="adaptive")


async def test_a_model_that_always_or_never_thinks_is_not_informed_otherwise() -> None:
    assert "thinking" not in await body_of("moonshot", "kimi-k3")
    assert (await body_of("moonshot", "kimi-k3", thinking="low"))["thinking"] == {"type": "enabled"}
    assert "thinking" not in await body_of("moonshot", "moonshot-v1-8k", thinking="low")


@pytest.mark.parametrize(
    "model",
    [
        *("gpt-4.1", "gpt-4.1-nano-2025-04-14", "gpt-4o", "gpt-4o-mini", "gpt-4o-2024-08-06"),
        *("gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "chatgpt-4o-latest"),
    ],
)
async def test_a_model_of_openai_that_cannot_think_is_never_asked_to(model: str) -> None:
    assert "reasoning_effort" not in await body_of("openai", model, thinking="low")


async def test_a_model_of_openai_that_can_think_is_asked_to() -> None:
    assert (await body_of("openai", "gpt-5.1", thinking="low"))["reasoning_effort"] == "low"


async def test_the_responses_interface_does_not_ask_for_what_a_model_cannot_do_either() -> None:
    bodies = {}
    for model in ("gpt-4.1", "gpt-5.1"):
        wire = Wire()
        tree = {"providers": {"openai": {"api": "responses", "apiKey": "sk-x"}}}
        with suppress(ProviderError):  # the wire answers in the words of the other interface
            await answer(registered("openai", tree, wire)["openai"], asks(model=model, thinking="low"))  # type: ignore[arg-type]
        bodies[model] = msgspec.json.decode(wire.sent[0].content)

    assert "reasoning" not in bodies["gpt-4.1"] and bodies["gpt-5.1"]["reasoning"]["effort"] == "low"


async def test_an_endpoint_that_knows_only_auto_gets_auto_and_no_tools_where_none_may_be_used() -> None:
    assert (await body_of("zai", "glm-5.2", tools=(LS,), tool_choice="required"))["tool_choice"] == "auto"
    assert "tools" not in await body_of("zai", "glm-5.2", tools=(LS,), tool_choice="none")


def test_the_rows_are_read_strictly() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"title": "x", "baseUrl": "x", "env": [], "source": "x", "qirks": {}}, Endpoint)
