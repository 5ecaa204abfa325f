"""A real engine on loopback, which nobody on our side wrote: our own provider and the two of the vendors' APIs on it.

It needs what ``claw local setup`` installs: skipped without on a developer's machine, a failure in CI.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import claw.config
import claw_anthropic
import claw_local
import claw_openai
import httpx2
import pytest
from claw import Finished, PluginConfig, Provider, ProviderError, Request, SystemPrompt, Text, TextDelta, User
from claw_local import engine

pytestmark = [pytest.mark.timeout(60), pytest.mark.xdist_group("engine")]


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
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=60) as client:
        yield client


def provider_of(
    plugin: ModuleType, name: str, section: dict[str, Any], home: Path, client: httpx2.AsyncClient
) -> Provider:
    """The provider that a plugin registers for a config file with this section."""
    import yaml

    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(yaml.safe_dump({"providers": {name: section}}))
    (home / "config.yaml").chmod(0o600)
    config = claw.config.load(home, {})
    plugin_config = PluginConfig(config, name, lambda _: client, home / "plugins" / name)
    return next(iter(plugin.register_providers(plugin_config)))


def asked(model: str, text: str, provider: Provider, **more: Any) -> Request:
    system = SystemPrompt("You are a helpful assistant.")
    return Request(model, system, (User((Text(text),)),), credential=provider.credentials()[0], **more)


async def answer(provider: Provider, request: Request) -> tuple[list[str], Finished]:
    """The pieces of the text, and the end."""
    events = [event async for event in provider.stream(request)]
    assert isinstance(events[-1], Finished)
    return [event.text for event in events if isinstance(event, TextDelta)], events[-1]


@pytest.mark.parametrize(
    ("plugin", "name", "path"), [(claw_anthropic, "anthropic", ""), (claw_openai, "openai", "/v1")]
)
async def test_a_vendors_provider_streams_from_the_real_endpoint(
    plugin: ModuleType,
    name: str,
    path: str,
    server: engine.Server,
    tmp_path: Path,
    client: httpx2.AsyncClient,
) -> None:
    section: dict[str, Any] = {"baseUrl": server.address + path, "apiKey": server.key}
    provider = provider_of(plugin, name, section, tmp_path, client)

    pieces, end = await answer(provider, asked("smollm2", "Say hello.", provider, max_tokens=12))

    assert len(pieces) > 1
    assert "".join(pieces) == end.message.text
    assert end.message.stop_reason in ("stop", "length")
    assert end.message.model == f"{name}/smollm2"
    assert end.message.usage.output


@pytest.mark.parametrize(
    ("plugin", "name", "path"), [(claw_anthropic, "anthropic", ""), (claw_openai, "openai", "/v1")]
)
async def test_a_wrong_key_is_an_auth_error_that_does_not_show_it(
    plugin: ModuleType,
    name: str,
    path: str,
    server: engine.Server,
    tmp_path: Path,
    client: httpx2.AsyncClient,
) -> None:
    section: dict[str, Any] = {"baseUrl": server.address + path, "apiKey": "sk-wrong-key-0123456789"}
    provider = provider_of(plugin, name, section, tmp_path, client)

    with pytest.raises(ProviderError) as error:
        await answer(provider, asked("smollm2", "Say hello.", provider, max_tokens=4))

    assert error.value.reason == "auth"
    assert "0123456789" not in str(error.value)


async def test_our_own_provider_starts_its_server_at_the_first_question_and_stops_it_when_closed(
    server: engine.Server, tmp_path: Path, client: httpx2.AsyncClient
) -> None:
    provider: Any = provider_of(claw_local, "local", {"threads": 1, "maxTokens": 12}, tmp_path, client)

    pieces, end = await answer(provider, asked("smollm2", "Say hello.", provider))
    await provider.close()

    assert "".join(pieces) == end.message.text != ""
    assert end.message.usage.output == 12 or end.message.stop_reason == "stop"


async def test_the_server_answers_nobody_without_its_key(
    server: engine.Server, client: httpx2.AsyncClient
) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    response = await client.post(f"{server.address}/v1/chat/completions", json=body)
    assert response.status_code == 401


async def test_leaving_a_stream_early_frees_the_engine_for_the_next_question(
    server: engine.Server, tmp_path: Path, client: httpx2.AsyncClient
) -> None:
    section = {"baseUrl": f"{server.address}/v1", "apiKey": server.key}
    provider = provider_of(claw_openai, "openai", section, tmp_path, client)
    long: Any = provider.stream(asked("smollm2", "Tell a very long story.", provider, max_tokens=1500))
    async for event in long:
        if isinstance(event, TextDelta):
            break
    await long.aclose()

    async with asyncio.timeout(20):
        _, end = await answer(provider, asked("smollm2", "Say hello.", provider, max_tokens=4))
    assert end.message.text


async def test_a_file_that_is_no_model_is_an_error_and_not_a_crash(
    server: engine.Server, tmp_path: Path
) -> None:
    rubbish = tmp_path / "rubbish.gguf"
    rubbish.write_bytes(b"GGUF and then nonsense" * 100)
    with pytest.raises(ProviderError, match=r"rubbish\.gguf"):
        engine.start(rubbish, context_tokens=512, threads=1)
