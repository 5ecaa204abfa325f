"""The loop guard as a reviewer: one detector for each turn, by the settings of the file or of the agent."""

import pytest
from claw import UNREADABLE_CALL, Address, CallContext, Sender, ToolCall, ToolResult
from claw_loop_guard import reviewer
from claw_loop_guard.detector import LoopLimits, limits_of
from claw_loop_guard.reviewer import LoopGuard
from claw_loop_guard.settings import LoopDetection

SHORT = LoopLimits(warn=1, refuse=2, stop=3)


def context(turn: str = "t1", settings: object = None, problem: str = "") -> CallContext:
    where = Address("terminal", "local")
    return CallContext(turn, "agent:a:main", "a", where, Sender("local"), settings=settings, problem=problem)


def made(guard: LoopGuard, number: int, turn: str = "t1") -> str:
    """Make the same call once more, with the same result; return its verdict and whether it was warned of."""
    call, around = ToolCall(f"c{number}", "look", {}), context(turn)
    review = guard.before(call, around)
    if review is None or review.verdict == "allow":
        guard.after(call, ToolResult("same"), around)
    return (
        "none" if review is None else "warned" if review.note else f"{review.verdict} {bool(review.end_turn)}"
    )


def test_a_call_is_warned_of_then_refused_and_the_turn_ends() -> None:
    guard = LoopGuard(SHORT)

    assert [made(guard, number) for number in range(4)] == ["none", "warned", "warned", "deny True"]


def test_each_turn_starts_over() -> None:
    guard = LoopGuard(SHORT)

    assert made(guard, 1) == made(guard, 2, "t2") == "none"
    assert made(guard, 3) == "warned"


def test_only_the_newest_turns_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviewer, "MAX_TURNS", 2)
    guard = LoopGuard(SHORT)

    assert [made(guard, 1, turn) for turn in ("t1", "t2", "t3", "t1")] == ["none"] * 4


def test_an_agent_may_have_limits_of_its_own() -> None:
    off = limits_of(LoopDetection(enabled=False))
    guard, around = LoopGuard(SHORT, {"a": off}), context()

    assert [guard.before(ToolCall(str(at), "look", {}), around) for at in range(9)] == [None] * 9


def test_calls_that_cannot_be_read_end_the_turn_with_the_error_that_the_model_got() -> None:
    guard, around = LoopGuard(SHORT), context(problem="write it as JSON")
    reviews = [guard.before(ToolCall(str(at), UNREADABLE_CALL, {}), around) for at in range(3)]

    assert reviews[:2] == [None, None]
    assert reviews[2]
    assert reviews[2].why == "write it as JSON"
    assert "could be parsed" in reviews[2].end_turn
