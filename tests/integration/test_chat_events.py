"""The event lines of ``claw chat --json``: names, keys, and the totals of the last one."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from claw.contracts import events
from claw.contracts.events import AttemptFailed, Event, TurnEnded
from claw.contracts.transcript import Usage
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from third_party import Machine

PAGE = Path(__file__).parents[2] / "docs" / "chat.md"
OF_TOOLS = ("arguments", "details")
USED = {"input": 1000, "output": 100, "cache_read": 500, "cache_write": 200}
PRICE = {"input": 1, "output": 10, "cacheRead": 0.1, "cacheWrite": 1.25}
COST = (1000 * 1 + 100 * 10 + 500 * 0.1 + 200 * 1.25) / 1_000_000


def keys_of(plain: Any) -> Iterator[str]:
    """Yield every key that is claw's own."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield key
            if key not in OF_TOOLS:
                yield from keys_of(value)
    elif isinstance(plain, list):
        for one in plain:
            yield from keys_of(one)


def test_the_keys_of_all_events_are_in_camel_case_and_their_names_those_of_their_classes(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path)

    lines = [json.loads(line) for line in machine.claw("chat", "what time is it?", "--json").out.splitlines()]

    assert {"TurnStarted", "MessageRecorded", "ToolEnded", "TextStreamed", "TurnEnded"} <= {
        line["event"] for line in lines
    }
    assert [
        key for line in lines for key in keys_of(line) if not re.fullmatch(r"[a-z]+([A-Z][a-z]+)*", key)
    ] == []
    result = next(line["result"] for line in lines if line["event"] == "ToolEnded")
    assert result.keys() == {"content", "details", "isError", "endsTurn", "mostChars"}
    assert lines[-1]["model"] == "offline/rules"
    assert lines[-1]["usage"]["total"] == lines[-1]["usage"]["input"] + lines[-1]["usage"]["output"] > 0


def test_the_manual_lists_each_event_with_its_fields() -> None:
    rows = re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    fields = {kind.__name__: [field.encode_name for field in msgspec.structs.fields(kind)] for kind in kinds}
    del fields["Event"]
    assert {name: re.findall(r"`(\w+)`", text) for name, text in rows} == fields
    plain = events.as_json(AttemptFailed("fake/m1", "main", "auth", "no"))
    assert plain == {
        "event": "AttemptFailed",
        "model": "fake/m1",
        "key": "main",
        "reason": "auth",
        "why": "no",
    }


async def last_event(*answers: Any, **config: Any) -> TurnEnded:
    async with Harness(FakeProvider(*answers), tools=[FakeTool("look")], config=config) as harness:
        await harness.send("look")
        event = harness.events[-1]
    assert isinstance(event, TurnEnded)
    return event


@pytest.mark.parametrize("budgets", [{}, {"day": {"usd": 50, "per": "day"}}], ids=["no budget", "a budget"])
async def test_the_last_event_has_the_model_and_what_all_calls_of_the_turn_took(
    budgets: dict[str, Any],
) -> None:
    prices = {"fake": {"models": {"m1": {"price": PRICE}}}}

    called = msgspec.structs.replace(calls("look"), usage=Usage(**USED))
    event = await last_event(called, says("done", **USED), providers=prices, budgets=budgets)

    assert (event.model, event.usage) == ("fake/m1", Usage(2000, 200, 1000, 400, 3600))
    assert event.cost_usd == pytest.approx(2 * COST)


async def test_without_a_price_the_cost_is_unknown_and_the_tokens_are_not() -> None:
    event = await last_event(says("done", **USED))

    assert (event.usage, event.cost_usd) == (Usage(1000, 100, 500, 200, 1800), None)


async def test_a_turn_that_called_no_model_has_neither() -> None:
    async with Harness(
        FakeProvider(says("x")), config={"budgets": {"none": {"tokens": 1, "per": "day"}}}
    ) as harness:
        with pytest.raises(Exception, match="budget"):
            await harness.send("hello")
        event = harness.events[-1]
    assert isinstance(event, TurnEnded)
    assert (event.model, event.usage, event.cost_usd) == ("", None, None)
