"""A real engine on loopback, which nobody on our side wrote: our own provider and the two of the vendors' APIs on it.

It needs what ``claw local setup`` installs: skipped without on a developer's machine, a failure in CI.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import claw.config
import claw_anthropic
import claw_local
import claw_openai
import pytest
from claw import (
    Assistant,
    Finished,
    Network,
    PluginConfig,
    Provider,
    ProviderError,
    Request,
    SystemPrompt,
    Text,
    TextDelta,
    ToolCall,
    ToolSpec,
    User,
)
from claw.transcript import ToolResult
from claw_local import engine

pytestmark = [pytest.mark.timeout(60), pytest.mark.xdist_group("engine")]


Wire = Callable[..., Provider]
WIRES: dict[str, tuple[ModuleType, str, str, dict[str, Any]]] = {
    "messages": (claw_anthropic, "anthropic", "", {}),
    "chat": (claw_openai, "openai", "/v1", {}),
    "responses": (claw_openai, "openai", "/v1", {"api": "responses"}),
}
"""What the engine speaks: the plugin, its provider, the path of its address, further settings."""
LS = ToolSpec(
    "ls", "List a folder", {"type": "object", "properties": {"path": {"enum": ["src"]}}, "required": ["path"]}
)


@pytest.fixture(scope="module")
def server() -> engine.Server:
    """One server for all tests of this file: SmolLM2, one thread."""
    if find_spec(engine.ENGINE) is None or find_spec(engine.WEIGHTS) is None:
        why = "the local engine is not installed; get it with: claw local setup"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    return engine.start(engine.model_file("smollm2", {}), context_tokens=2048, threads=1)


@pytest.fixture
async def network() -> AsyncIterator[Network]:
    network = Network()
    yield network
    await network.aclose()


def provider_of(
    plugin: ModuleType, name: str, section: dict[str, Any], home: Path, network: Network
) -> Provider:
    """The provider that a plugin registers for a config file with this section."""
    import yaml

    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(yaml.safe_dump({"providers": {name: section}}))
    (home / "config.yaml").chmod(0o600)
    config = claw.config.load(home, {})
    plugin_config = PluginConfig(config, name, network.client, home / "plugins" / name)
    return next(iter(plugin.register_providers(plugin_config)))


def asked(model: str, text: str, provider: Provider, **more: Any) -> Request:
    system = SystemPrompt("You are a helpful assistant.")
    return Request(model, system, (User((Text(text),)),), credential=provider.credentials()[0], **more)


async def answer(provider: Provider, request: Request) -> tuple[list[str], Finished]:
    """The pieces of the text, and the end."""
    events = [event async for event in provider.stream(request)]
    assert isinstance(events[-1], Finished)
    return [event.text for event in events if isinstance(event, TextDelta)], events[-1]


async def failure(provider: Provider, request: Request) -> ProviderError:
    with pytest.raises(ProviderError) as error:
        await answer(provider, request)
    return error.value


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest, server: engine.Server, tmp_path: Path, network: Network) -> Wire:
    """One of the engine's protocols, and the plugin that speaks it."""
    plugin, name, path, section = WIRES[request.param]

    def model(**more: Any) -> Provider:
        tree = {"baseUrl": server.address + path, "apiKey": server.key, **section, **more}
        return provider_of(plugin, name, tree, tmp_path, network)

    return model


async def test_a_vendors_provider_streams_from_the_real_endpoint(wire: Wire) -> None:
    provider = wire()
    pieces, end = await answer(provider, asked("smollm2", "Say hello.", provider, max_tokens=12))

    assert len(pieces) > 1
    assert "".join(pieces) == end.message.text
    assert end.message.stop_reason in ("stop", "length")
    assert end.message.model == f"{provider.name}/smollm2"
    assert end.message.usage.output


async def test_tools_and_a_past_with_calls_are_taken_by_a_server_that_nobody_on_our_side_wrote(
    wire: Wire,
) -> None:
    """This model calls nothing, whatever it is offered and told: what is tried is that the request is understood."""
    provider = wire()
    first = asked("smollm2", "List src.", provider, tools=(LS,), max_tokens=8)
    called = Assistant((Text("I look."), ToolCall("call_1", "ls", {"path": "src"})), stop_reason="tool_use")
    past = (*first.messages, called, ToolResult("call_1", "ls", (Text("a.py"),)))

    for request in (first, replace(first, tool_choice="required"), replace(first, messages=past)):
        pieces, end = await answer(provider, request)
        assert "".join(pieces) == end.message.text


async def test_a_wrong_key_is_an_auth_error_that_does_not_show_it(wire: Wire) -> None:
    provider = wire(apiKey="sk-wrong-key-0123456789")

    error = await failure(provider, asked("smollm2", "Say hello.", provider, max_tokens=4))

    assert error.reason == "auth"
    assert "0123456789" not in str(error) + repr(vars(error))


async def test_a_conversation_that_is_too_long_is_told_as_that(wire: Wire) -> None:
    provider = wire()

    error = await failure(provider, asked("smollm2", "too long " * 3000, provider, max_tokens=4))

    assert error.reason == "context_overflow"
    assert not error.retryable


async def test_the_limit_of_the_first_word_holds_on_a_slow_engine(wire: Wire) -> None:
    provider = wire(beginTimeoutSeconds=0.05)

    error = await failure(
        provider, asked("smollm2", f"{id(wire)} is a number. " * 40, provider, max_tokens=4)
    )

    assert error.reason == "timeout"
    assert "beginTimeoutSeconds" in str(error)
    provider = wire()
    assert (await answer(provider, asked("smollm2", "Say hello.", provider, max_tokens=4)))[0]


async def test_leaving_a_stream_early_frees_the_engine_for_the_next_question(wire: Wire) -> None:
    provider = wire()
    long: Any = provider.stream(asked("smollm2", "Tell a very long story.", provider, max_tokens=1500))
    async for event in long:
        if isinstance(event, TextDelta):
            break
    await long.aclose()

    async with asyncio.timeout(20):
        _, end = await answer(provider, asked("smollm2", "Say hello.", provider, max_tokens=4))
    assert end.message.text


async def test_our_own_provider_starts_its_server_at_the_first_question_and_stops_it_when_closed(
    server: engine.Server, tmp_path: Path, network: Network
) -> None:
    provider: Any = provider_of(claw_local, "local", {"threads": 1, "maxTokens": 12}, tmp_path, network)

    pieces, end = await answer(provider, asked("smollm2", "Say hello.", provider))
    await provider.close()

    assert "".join(pieces) == end.message.text != ""
    assert end.message.usage.output == 12 or end.message.stop_reason == "stop"


async def test_the_server_answers_nobody_without_its_key(server: engine.Server, network: Network) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    response = await network.client(server.address).post(f"{server.address}/v1/chat/completions", json=body)
    assert response.status_code == 401


async def test_a_file_that_is_no_model_is_an_error_and_not_a_crash(
    server: engine.Server, tmp_path: Path
) -> None:
    rubbish = tmp_path / "rubbish.gguf"
    rubbish.write_bytes(b"GGUF and then nonsense" * 100)
    with pytest.raises(ProviderError, match=r"rubbish\.gguf"):
        engine.start(rubbish, context_tokens=512, threads=1)
