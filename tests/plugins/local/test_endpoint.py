"""A real engine on loopback, which nobody on our side wrote: what providers promise, on each of its three protocols.

It needs what ``claw local setup`` installs: skipped without on a developer's machine, a failure in CI.
"""

import os
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import claw_anthropic
import claw_local
import claw_openai
import pytest
from claw import (
    Finished,
    HttpClients,
    PluginConfig,
    Provider,
    ProviderError,
    Request,
    SystemPrompt,
    Text,
    TextDelta,
    User,
)
from claw_local import engine
from config_files import load_config
from pytest_claw import ProviderSuite
from pytest_claw.relay import LiveService

pytestmark = [pytest.mark.timeout(60), pytest.mark.xdist_group("engine")]

CONTEXT_TOKENS = 1024
CALLING = Path(__file__).with_name("calling.jinja")


@pytest.fixture(scope="module")
def server() -> engine.EngineServer:
    """One server for all tests of this file: SmolLM2, one thread, always the likeliest word."""
    if find_spec(engine.ENGINE) is None or find_spec(engine.WEIGHTS) is None:
        why = "the local engine is not installed; get it with: claw local setup"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    return engine.start(
        engine.model_file("smollm2", {}),
        context_tokens=CONTEXT_TOKENS,
        threads=1,
        template=CALLING.read_text(),
        temperature=0.0,
    )


class OnTheEngine(ProviderSuite):
    """The suite, its service the engine; ``path`` follows its address."""

    path = ""
    cannot: tuple[tuple[str, str], ...] = ()

    @pytest.fixture(autouse=True)
    def _chosen(self, server: engine.EngineServer) -> None:
        self.live = LiveService(
            server.address + self.path, server.key, "smollm2", CONTEXT_TOKENS, self.cannot
        )


class TestMessages(OnTheEngine):
    plugin, name = claw_anthropic, "anthropic"


class TestChat(OnTheEngine):
    plugin, name, path = claw_openai, "openai", "/v1"


class TestResponses(TestChat):
    section = {"api": "responses"}  # noqa: RUF012
    cannot = (("test_max_tokens_is_obeyed", "the engine obeys, and says that the answer is complete"),)


# --- our own provider


@pytest.fixture
async def network() -> AsyncIterator[HttpClients]:
    network = HttpClients()
    yield network
    await network.aclose()


def local(section: dict[str, Any], home: Path, network: HttpClients) -> Any:
    """Our own provider, as its plugin registers it for a config file with this section."""
    import yaml

    (home / "config.yaml").write_text(yaml.safe_dump({"providers": {"local": section}}))
    (home / "config.yaml").chmod(0o600)
    config = PluginConfig(load_config(home, {}), "local", network.client, home / "plugins" / "local")
    return next(iter(claw_local.register_providers(config)))


async def answer(provider: Provider) -> tuple[list[str], Finished]:
    """The pieces of the text, and the end."""
    question = User((Text("Say hello."),))
    request = Request("smollm2", SystemPrompt(""), (question,), credential=provider.credentials()[0])
    events = [event async for event in provider.stream(request)]
    assert isinstance(events[-1], Finished)
    return [event.text for event in events if isinstance(event, TextDelta)], events[-1]


async def test_our_own_provider_starts_its_server_at_the_first_question_and_stops_it_when_closed(
    server: engine.EngineServer, tmp_path: Path, network: HttpClients
) -> None:
    provider = local({"threads": 1, "maxTokens": 12}, tmp_path, network)

    pieces, end = await answer(provider)
    await provider.close()

    assert "".join(pieces) == end.message.text != ""
    assert end.message.usage.output == 12 or end.message.stop_reason == "stop"


async def test_the_server_answers_nobody_without_its_key(
    server: engine.EngineServer, network: HttpClients
) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    response = await network.client(server.address).post(f"{server.address}/v1/chat/completions", json=body)
    assert response.status_code == 401


async def test_a_file_that_is_no_model_is_an_error_and_not_a_crash(
    server: engine.EngineServer, tmp_path: Path
) -> None:
    rubbish = tmp_path / "rubbish.gguf"
    rubbish.write_bytes(b"GGUF and then nonsense" * 100)
    with pytest.raises(ProviderError, match=r"rubbish\.gguf"):
        engine.start(rubbish, context_tokens=512, threads=1)
