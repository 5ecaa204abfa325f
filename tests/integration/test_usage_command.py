"""``claw usage`` and the chat commands that speak of money: what a person is shown of what was spent."""

import json
from pathlib import Path
from typing import Any

import pytest
from claw import CallAccount, i18n
from claw.cli.main import app
from claw.contracts.transcript import Usage
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.testing import FakeProvider, Harness, says
from claw_budgets.command import bar, usage_table
from claw_budgets.ledger import UsageLedger, UsageSum
from claw_budgets.middleware import dollars
from integration.test_spending import conversation_of
from typer.testing import CliRunner

DAY = 24 * 3600.0


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which two agents have worked for three days."""
    import time

    now = [time.time()]
    monkeypatch.setenv("CLAW_HOME", str(tmp_path))
    database = Database(tmp_path / "state.db")
    book = UsageLedger(database, Clock(now=lambda: now[0]))
    for days, agent, model, nanos in (
        (0, "coder", "openai/gpt-5.1", 2_500_000_000),
        (1, "coder", "openai/gpt-5.1", 1_000_000_000),
        (1, "writer", "acme/free", None),
        (40, "writer", "acme/free", 9_000_000_000),
    ):
        now[0] = time.time() - days * DAY
        bill = CallAccount(agent, f"agent:{agent}:main", "c", "", "telegram")
        book.record(bill, model, Usage(1000, 100, 50, 20), nanos, "said" if nanos else "guessed")
    database.close()
    return tmp_path


def run(*words_: str) -> Any:
    done = CliRunner().invoke(app, ["usage", *words_])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


@pytest.mark.usefixtures("home")
def test_sums_of_the_last_month_by_day_and_all_together() -> None:
    lines = run().stdout.splitlines()

    assert lines[0].split() == ["day", "calls", "read", "from", "cache", "written", "cost"]
    assert len(lines) == 4
    assert lines[2].split()[1:] == ["1", "1,020", "50", "100", "$2.50"]
    assert lines[3].endswith(
        "3 calls, 3,510 tokens, $3.50 and 1 call without a known price; 1 of them estimated: "
        "the call was stopped, or the service did not report usage"
    )


@pytest.mark.usefixtures("home")
def test_groups_are_those_that_can_be_asked_for_the_dearest_first() -> None:
    rows = run("--by", "agent").stdout.splitlines()[1:-1]

    assert [row.split()[0] for row in rows] == ["coder", "writer"]
    assert rows[1].rstrip().endswith("no price known")
    refused = CliRunner().invoke(app, ["usage", "--by", "month"]).exception
    assert "groups: day, agent, model, session, plugin, job, purpose" in str(refused)


@pytest.mark.usefixtures("home")
def test_programs_read_the_same_as_one_document() -> None:
    document = json.loads(run("--by", "model", "--since", "60d", "--json").stdout)

    assert document["kind"] == "usage" and document["by"] == "model"
    by_name = {row["name"]: row for row in document["rows"]}
    assert by_name["openai/gpt-5.1"]["usd"] == 3.5
    assert (by_name["acme/free"]["unpriced"], by_name["acme/free"]["estimated"]) == (1, 1)
    assert document["total"]["calls"] == 4


def test_a_budget_of_the_day_is_shown_with_what_is_used_of_it(home: Path) -> None:
    (home / "config.yaml").write_text(
        "budgets: {daily: {usd: 5, tokens: 10000}, chat: {usd: 1, per: session}}\n"
    )
    (home / "config.yaml").chmod(0o600)

    assert run().stdout.splitlines()[-1] == (
        "budget daily today: $2.50 of $5.00 (50 %), 1,170 of 10,000 tokens (12 %)"
    )
    (budget,) = json.loads(run("--json").stdout)["budgets"]
    assert (budget["name"], budget["usd"], budget["usedUsd"]) == ("daily", 5.0, 2.5)


def test_a_terminal_is_shown_a_chart_of_what_is_dear_or_of_what_is_large() -> None:
    dear = UsageSum("dear", 1, Usage(total=10), 40, 0, 0)
    cheap, large = (
        UsageSum("cheap", 1, Usage(total=10), 20, 0, 0),
        UsageSum("large", 1, Usage(total=90), 0, 1, 0),
    )

    assert [row[-1] for row in usage_table("agent", [large, cheap, dear], chart=True)[1]] == [
        "█" * 10,
        "█" * 5,
        "",
    ]
    assert [row[-1] for row in usage_table("agent", [large], chart=True)[1]] == ["█" * 10]
    assert all(len(row) == 6 for row in usage_table("agent", [cheap, dear], chart=False)[1])


def test_a_bar_shows_something_of_what_is_not_nothing() -> None:
    assert bar(100, 100) == "█" * 10
    assert bar(50, 100) == "█" * 5
    assert bar(1, 100_000) == "▏"
    assert bar(0, 100) == bar(0, 0) == ""


def test_small_sums_are_shown_with_as_many_places_as_they_need() -> None:
    assert dollars(0) == "$0.00"
    assert dollars(1_234_567_890_000) == "$1,234.57"
    assert dollars(12_345_678) == "$0.0123"
    assert dollars(42_000) == "$0.000042"


def test_nobody_has_spent_anything_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAW_HOME", str(tmp_path))

    assert "no model call is recorded since" in run().stdout
    assert not (tmp_path / "state.db").exists()


@pytest.mark.usefixtures("home")
def test_it_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    try:
        assert run("--by", "agent").stdout.startswith("智能体")
    finally:
        i18n.use_language("en")


async def test_a_chat_is_shown_what_it_cost_and_how_full_it_is() -> None:
    from claw_channel_sdk.chat_commands import run_chat_command as chat

    price = {"fake": {"models": {"m1": {"price": {"input": 10, "output": 100}}}}}
    model = FakeProvider(says("a", input=20_000, output=1000), context_tokens=200_000)
    async with Harness(model, config={"providers": price}) as harness:
        await harness.send("hello")
        status, context = (
            await chat("/status", conversation_of(harness)),
            await chat("/context", conversation_of(harness)),
        )

    assert status and "20,000 of 200,000 tokens (10 %)" in status
    assert "cost: $0.3000 in this conversation; $0.3000 today, all conversations of default" in status
    assert context and "cost: $0.3000" in context
