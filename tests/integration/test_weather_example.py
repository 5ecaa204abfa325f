"""The weather: the loop by hand and claw, against both services; the same question, call, result and answer."""

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from claw.testing import FakeProvider, Harness
from claw_testing.services import AnthropicService, OpenAIService, ReceivedRequest, ServiceReply

FOLDER = Path(__file__).parents[2] / "examples" / "weather"
QUESTION = "北京现在天气怎么样"
CALL = ServiceReply(calls=[("get_weather", {"city": "北京"})])
ANSWER = "北京当前晴,约 20°C。"
SERVICES = {"openai": OpenAIService, "anthropic": AnthropicService}
RESULT = {"temp": 20, "condition": "Sunny"}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    monkeypatch.syspath_prepend(FOLDER)
    yield {name: importlib.import_module(name) for name in ("weather", "loop")}
    for name in ("weather", "loop"):
        sys.modules.pop(name, None)


def rows(body: Any) -> list[Any]:
    """The conversation without the instructions."""
    return [row for row in body["messages"] if row["role"] != "system"]


def result_in(body: Any) -> Any:
    """The tool's answer in the last row, whichever service it is for."""
    content = rows(body)[-1]["content"]
    text = content[0]["content"] if isinstance(content, list) else content
    return json.loads(text[0]["text"] if isinstance(text, list) else text)


def chosen(requests: list[ReceivedRequest]) -> list[Any]:
    return [request.body["tool_choice"] for request in requests]


CHOICES = {
    "auto": {"openai": "auto", "anthropic": {"type": "auto"}},
    "required": {"openai": "required", "anthropic": {"type": "any"}},
    "get_weather": {
        "openai": {"type": "function", "function": {"name": "get_weather"}},
        "anthropic": {"type": "tool", "name": "get_weather"},
    },
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("service", SERVICES)
async def test_the_loop_by_hand_takes_both_turns(
    service: str, choice: str, example: dict[str, ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    async with SERVICES[service]([CALL, ANSWER]) as model:
        words = [service, QUESTION, "--base-url", model.url, "--tool-choice", choice]
        answer = await asyncio.to_thread(example["loop"].main, words)

    first, second = (request.body for request in model.requests)
    assert answer == ANSWER
    assert model.refusals == []
    assert rows(first) == [{"role": "user", "content": QUESTION}]
    assert result_in(second) == RESULT
    assert chosen(model.requests) == [CHOICES[choice][service], CHOICES["auto"][service]]
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed[:-1] == rows(second)
    assert [row["role"] for row in printed][1] == "assistant"


def test_its_tool_is_described_as_the_protocol_wants_it(example: dict[str, ModuleType]) -> None:
    assert example["weather"].get_weather.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "name of the city, such as Beijing"},
            "unit": {
                "type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius",
                "description": "of the temperature",
            },
        },
        "required": ["city"],
    }  # fmt: skip


def test_what_cannot_be_called_is_reported_to_the_model(example: dict[str, ModuleType]) -> None:
    assert example["loop"].run("get_rain", {}) == "Tool get_rain not found"
    assert example["loop"].run("get_weather", {"town": 1}).startswith("Error: ")


@pytest.mark.parametrize("way", ["native", "prompt"])
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("service", SERVICES)
async def test_claw_takes_the_same_turns(
    service: str, choice: str, way: str, example: dict[str, ModuleType]
) -> None:
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "北京"}}</tool_call>'
    async with SERVICES[service]([CALL if way == "native" else call, ANSWER]) as model:
        section = {"baseUrl": model.url, "apiKey": "sk-of-this-test", "tools": way}
        config = {
            "providers": {service: section}, "agents": {"defaults": {"model": f"{service}/m"}},
            "tools": {"allow": ["get_weather"]},
        }  # fmt: skip
        plugins = {"weather": example["weather"]}
        async with Harness(FakeProvider(), config=config, plugins=plugins, installed=True) as harness:
            reply = await harness.send(QUESTION, tool_choice=choice)

    assert reply is not None and reply.text == ANSWER
    assert model.refusals == []
    if way == "native":
        assert chosen(model.requests) == [CHOICES[choice][service], CHOICES["auto"][service]]
        assert result_in(model.requests[1].body) == RESULT
    else:
        assert all(
            "tools" not in request.body and "tool_choice" not in request.body for request in model.requests
        )
        assert '"temp":20' in json.dumps(rows(model.requests[1].body), ensure_ascii=False).replace('\\"', '"')


@pytest.mark.parametrize("service", SERVICES)
async def test_none_holds_for_the_whole_turn(service: str, example: dict[str, ModuleType]) -> None:
    async with SERVICES[service](["I may not look."]) as model:
        config = {
            "providers": {service: {"baseUrl": model.url, "apiKey": "sk-of-this-test"}},
            "agents": {"defaults": {"model": f"{service}/m", "toolChoice": "none"}},
        }
        async with Harness(
            FakeProvider(), config=config, plugins={"weather": example["weather"]}, installed=True
        ) as harness:
            await harness.send(QUESTION)

    assert chosen(model.requests) == ["none" if service == "openai" else {"type": "none"}]
