"""``claw doctor`` names a budget in dollars whose model has no known price: every call of it would be refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from claw.cli.main import app
from typer.testing import CliRunner

REMOTE: dict[str, Any] = {"baseUrl": "http://203.0.113.9:8000/v1", "apiKey": "k-of-this-test"}
PRICE = {"models": {"qwen-big": {"price": {"input": 1, "output": 2}}}}


def findings(home: Path, **more: Any) -> list[dict[str, Any]]:
    tree = {"agents": {"defaults": {"model": "box/qwen-big"}}, "providers": {"box": REMOTE}, **more}
    (home / "config.yaml").write_text(json.dumps(tree))
    (home / "config.yaml").chmod(0o600)
    said = CliRunner().invoke(app, ["doctor", "--json"])
    return [one for one in json.loads(said.stdout)["findings"] if ": budgets." in one["about"]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAW_HOME", str(tmp_path))
    tmp_path.chmod(0o700)
    return tmp_path


def test_the_key_the_model_and_both_fixes_are_named(home: Path) -> None:
    [found] = findings(home, budgets={"daily": {"usd": 5}, "chat": {"tokens": 100_000}})

    assert found["about"] == f"{home / 'config.yaml'}:1: budgets.daily.usd" and found["grave"]
    assert "the price of box/qwen-big is unknown" in found["problem"]
    assert "providers.box.models.qwen-big.price" in found["mend"]
    assert "tokens instead of usd" in found["mend"]


@pytest.mark.parametrize(
    "fixed",
    [
        {"budgets": {"daily": {"tokens": 100_000}}},
        {"budgets": {"daily": {"usd": 5}}, "providers": {"box": {**REMOTE, **PRICE}}},
        {"budgets": {"daily": {"usd": 5}}, "agents": {"defaults": {"model": "openai/gpt-5.1"}}},
    ],
    ids=["tokens", "a price", "a model with a price"],
)
def test_nothing_is_said_once_it_is_fixed(home: Path, fixed: dict[str, Any]) -> None:
    assert findings(home, **fixed) == []


def test_only_models_of_the_agents_that_the_budget_is_for_count(home: Path) -> None:
    priced = {"id": "careful", "model": "openai/gpt-5.1"}
    agents = {"defaults": {"model": "box/qwen-big"}, "list": [{"id": "default"}, priced]}

    assert findings(home, agents=agents, budgets={"hers": {"usd": 5, "agent": "careful"}}) == []
    assert len(findings(home, agents=agents, budgets={"his": {"usd": 5, "agent": "def*"}})) == 1


def test_a_fallback_without_a_price_counts(home: Path) -> None:
    agents = {"defaults": {"model": {"primary": "openai/gpt-5.1", "fallbacks": ["box/qwen-big"]}}}

    [found] = findings(home, agents=agents, budgets={"daily": {"usd": 5}})

    assert "box/qwen-big" in found["problem"]
