"""The most model calls for one message: a model that never ends is stopped, and the person reads it."""

from pathlib import Path

import pytest
from claw.contracts.errors import ClawError
from claw.contracts.events import Notice
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, combined, says
from integration.test_serving import OPEN, served, taken_in, until

FIVE = {"agents": {"defaults": {"maxTurns": 5}}}
REACHED = "the agent stopped after 5 model calls, the most for one message; ask it to continue"


def runaway(count: int, text: str = "") -> FakeProvider:
    """A model that calls the same tool again and again, each time with other arguments."""
    answers = [calls("count", n=n) for n in range(count)]
    return FakeProvider(*(combined(says(text), answer) if text else answer for answer in answers))


def counting() -> FakeTool:
    return FakeTool(
        "count", "done", {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    )


async def test_a_runaway_is_stopped_at_200_calls_by_default() -> None:
    model = runaway(260)
    async with Harness(model, tools=[counting()]) as harness:
        with pytest.raises(ClawError, match="maxTurns"):
            await harness.send("go")
    assert len(model.requests) == 200


async def test_null_removes_the_limit() -> None:
    model = FakeProvider(*(calls("count", n=n) for n in range(210)), says("done"))
    async with Harness(
        model, tools=[counting()], config={"agents": {"defaults": {"maxTurns": None}}}
    ) as harness:
        reply = await harness.send("go")
    assert reply and reply.text == "done"


async def test_a_partial_answer_comes_with_the_reason() -> None:
    async with Harness(runaway(9, "still at it"), tools=[counting()], config=FIVE) as harness:
        reply = await harness.send("go")
        assert reply and reply.text == "still at it"
        assert REACHED in [event.text for event in harness.events if isinstance(event, Notice)]


@pytest.mark.parametrize(
    ("text", "shown"), [("still at it", f"still at it\n\n({REACHED})"), ("", REACHED)], ids=["text", "none"]
)
async def test_everyone_in_a_chat_reads_it(tmp_path: Path, text: str, shown: str) -> None:
    channel = FakeChannel()
    async with served(
        runaway(9, text), channel, home=tmp_path, tools=[counting()], config={**OPEN, **FIVE}
    ) as harness:
        await taken_in(harness, channel, channel.says("go", "u1"))
        await until(lambda: channel.shown)
        assert channel.shown == [shown]
