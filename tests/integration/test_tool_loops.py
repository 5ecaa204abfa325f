"""A model that repeats its calls, in the real program: warned, refused, stopped; the person gets the reason."""

from typing import Any

import pytest
from claw.contracts.errors import ClawError
from claw.contracts.events import MessageRecorded, TurnEnded
from claw.contracts.transcript import ToolResultMessage, pair
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, combined, says

SHORT = {"warningThreshold": 2, "criticalThreshold": 3, "breakerThreshold": 5}


def harness_of(model: FakeProvider, tool: FakeTool, **limits: Any) -> Harness:
    return Harness(model, tools=[tool], config={"tools": {"loopDetection": {**SHORT, **limits}}})


def results(harness: Harness) -> list[ToolResultMessage]:
    said = [event.message for event in harness.events if isinstance(event, MessageRecorded)]
    return [message for message in said if isinstance(message, ToolResultMessage)]


async def test_a_repeated_call_is_warned_of_behind_its_result() -> None:
    model, tool = FakeProvider(*[calls("look") for _ in range(3)], says("I see.")), FakeTool("look", "same")
    async with harness_of(model, tool) as home:
        reply = await home.send("go")

    assert reply and reply.text == "I see."
    assert [result.text for result in results(home)[:2]] == ["same", "same"]
    assert "same arguments 2 times" in results(home)[2].text
    assert not results(home)[2].is_error


async def test_equal_answers_end_the_turn_and_the_person_reads_why() -> None:
    model, tool = FakeProvider(*[calls("look") for _ in range(6)]), FakeTool("look", "same")
    async with harness_of(model, tool) as home:
        with pytest.raises(ClawError, match=r"repeated itself: 5 calls \(look\)"):
            await home.send("go")

        assert len(tool.calls) == 5
        assert [event.outcome for event in home.events if isinstance(event, TurnEnded)] == ["failed"]
        session = await home.app.runtime.sessions.open("agent:default:main", "default")
        assert pair(session.messages).synthetic_added == 0
        session.release()


async def test_the_next_message_begins_with_a_clean_slate() -> None:
    model, tool = (
        FakeProvider(*[calls("look") for _ in range(6)], calls("look"), says("ok")),
        FakeTool("look", "same"),
    )
    async with harness_of(model, tool) as home:
        with pytest.raises(ClawError):
            await home.send("go")
        home.events.clear()
        reply = await home.send("again")

    assert reply and reply.text == "ok"
    assert "times" not in results(home)[0].text


async def test_two_calls_in_turns_are_refused_and_the_third_refusal_ends_the_turn() -> None:
    model = FakeProvider(*[calls("look", at=number % 2) for number in range(5)])
    tool = FakeTool("look", "same", {"type": "object", "properties": {"at": {"type": "integer"}}})
    async with harness_of(model, tool) as home:
        with pytest.raises(ClawError, match="repeated itself"):
            await home.send("go")

    assert len(tool.calls) == 2
    assert ["was not made" in result.text for result in results(home)] == [False, False, True, True, True]


async def test_a_refused_model_may_still_answer() -> None:
    model = FakeProvider(*[calls("look", at=number % 2) for number in range(3)], says("That is all I have."))
    tool = FakeTool("look", "same", {"type": "object", "properties": {"at": {"type": "integer"}}})
    async with harness_of(model, tool) as home:
        reply = await home.send("go")

    assert reply and reply.text == "That is all I have."


async def test_calls_that_are_refused_by_the_policy_count_too() -> None:
    model = FakeProvider(*[calls("no_such_tool") for _ in range(6)])
    async with harness_of(model, FakeTool("look")) as home:
        with pytest.raises(ClawError, match="no_such_tool"):
            await home.send("go")


async def test_progress_is_never_stopped() -> None:
    number = iter(range(100))
    model = FakeProvider(*[calls("look") for _ in range(20)], says("done"))
    async with harness_of(model, FakeTool("look", lambda given: f"{next(number)} %")) as home:
        reply = await home.send("go")

    assert reply and reply.text == "done"


async def test_many_equal_calls_in_one_answer_are_one_step_and_stop_the_next() -> None:
    many = combined(*[calls("look") for _ in range(6)])
    model, tool = FakeProvider(many, calls("look")), FakeTool("look", "same")
    async with harness_of(model, tool) as home:
        with pytest.raises(ClawError, match="repeated itself"):
            await home.send("go")

    assert len(tool.calls) == 6


async def test_it_can_be_switched_off_for_all_agents_or_one_agent() -> None:
    model, tool = FakeProvider(*[calls("look") for _ in range(8)], says("done")), FakeTool("look", "same")
    async with harness_of(model, tool, enabled=False) as home:
        reply = await home.send("go")
    assert reply and reply.text == "done"

    model = FakeProvider(*[calls("look") for _ in range(8)], says("done"))
    agent = {"id": "free", "default": True, "tools": {"loopDetection": {"enabled": False}}}
    config = {"tools": {"loopDetection": SHORT}, "agents": {"list": [agent]}}
    async with Harness(model, tools=[tool], config=config) as home:
        reply = await home.send("go")
    assert reply and reply.text == "done"


@pytest.mark.parametrize("owner", [True, False])
async def test_in_a_chat_the_owner_reads_it_and_nobody_else_the_details(owner: bool) -> None:
    channel = FakeChannel()
    model, tool = FakeProvider(*[calls("look") for _ in range(6)]), FakeTool("look", "same")
    sender = channel.says("go")
    config = {
        "tools": {"loopDetection": SHORT},
        "owners": [f"{channel.name}:{sender.sender.id}"] if owner else [],
    }
    async with Harness(model, tools=[tool], channels=[channel], config=config) as home, home.serving():
        [text] = await channel.until_shown()

    assert ("repeated itself" in text) is owner
