"""A provider with a wrong key in the file: it alone is not to be had, and the key is named."""

import json
from pathlib import Path

import claw_openai
import pytest
from claw.contracts.errors import ConfigError
from claw.testing import FakeProvider, Harness, says
from claw_config_sdk import config_findings

WRONG = [
    ({"baseUrl": "htp://localhost:11434/v1"}, "providers.ollama.baseUrl"),
    ({"api": "bogus"}, "providers.ollama.api"),
    ({"apii": "chat"}, "providers.ollama.apii"),
]


@pytest.mark.parametrize(("section", "key"), WRONG)
async def test_the_others_of_its_plugin_are_there_and_the_key_is_reported(section, key):
    config = {"providers": {"ollama": section}}
    async with Harness(
        FakeProvider(says("hello")), config=config, plugins={"openai": claw_openai}
    ) as harness:
        there = harness.app.registry.providers
        assert there["openai"].value.credentials() == ()
        assert there["deepseek"].plugin == "openai"
        with pytest.raises(ConfigError) as wrong:
            there["ollama"].value.credentials()
        assert wrong.value.key == key
        assert [line for line in harness.app.registry.diagnostics if "ollama" in line and key in line]
        assert (await harness.send("hi")).text == "hello"


@pytest.mark.parametrize(("section", "key"), WRONG)
async def test_the_error_names_the_key_and_does_not_say_that_nobody_is_there(section, key):
    config = {"providers": {"ollama": section}, "agents": {"defaults": {"model": "ollama/llama3"}}}
    async with Harness(FakeProvider(), config=config, plugins={"openai": claw_openai}) as harness:
        with pytest.raises(ConfigError) as wrong:
            await harness.send("hi")
    assert wrong.value.key == key


@pytest.mark.parametrize(("section", "key"), WRONG)
def test_claw_config_validate_says_it_without_a_gateway(tmp_path: Path, section, key):
    (tmp_path / "config.json").write_text(
        json.dumps({"providers": {"ollama": section, "deepseek": {"api": "chat", "apiKey": "k"}}})
    )
    errors, warnings = config_findings(tmp_path, {})
    assert errors == []
    assert [warning.key for warning in warnings] == [key]


def test_a_section_that_is_left_to_another_plugin_is_not_held_against_this_one(tmp_path: Path):
    (tmp_path / "config.json").write_text(
        json.dumps({"providers": {"ollama": {"type": "mine", "api": "own"}}})
    )
    errors, warnings = config_findings(tmp_path, {})
    assert errors == []
    assert [warning.key for warning in warnings] == [
        "providers.ollama.type"
    ]  # nobody serves it: its own keys are not judged


@pytest.mark.parametrize(
    ("agent", "problem"), [("nobody", True), ("Coder", True), ("coder", False), ("team-*", False)]
)
def test_a_budget_for_an_agent_that_is_not_there_is_pointed_out(tmp_path: Path, agent, problem):
    tree = {"agents": {"list": [{"id": "coder"}]}, "budgets": {"s": {"usd": 1, "agent": agent}}}
    (tmp_path / "config.json").write_text(json.dumps(tree))
    errors, warnings = config_findings(tmp_path, {})
    assert errors == []
    assert [warning.key for warning in warnings] == (["budgets.s.agent"] if problem else [])
