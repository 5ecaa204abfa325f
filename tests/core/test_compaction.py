"""compaction, first form: the newest whole turns that fit."""

from claw.compaction import Costs, fit
from claw.transcript import Assistant, Text, ToolCall, ToolResult, User, estimate_tokens, pair
from hypothesis import given, strategies as st


def turn(n: int) -> list:
    call = ToolCall(f"c{n}", "ls", {})
    return [
        User((Text("u" * 40),)), Assistant((call,)), ToolResult(f"c{n}", "ls", (Text("r" * 400),)),
        Assistant((Text("a" * 40),)),
    ]  # fmt: skip


def test_what_fits_is_shown_whole():
    past = turn(1)

    assert fit(past, Costs(past).each, 10_000).messages == tuple(past)


def test_the_newest_turn_is_shown_even_when_it_alone_is_too_large():
    past = turn(1) + turn(2)

    shown = fit(past, Costs(past).each, 1)

    assert shown.messages == tuple(turn(2))
    assert shown.left_out == 4


@given(st.integers(0, 12), st.integers(0, 3000))
def test_no_call_is_ever_parted_from_its_result(turns, budget):
    past = [message for n in range(turns) for message in turn(n)]

    shown = fit(past, Costs(past).each, budget)

    assert pair(shown.messages).messages == shown.messages
    assert len(shown.messages) + shown.left_out == len(past)
    assert shown.tokens == sum(map(estimate_tokens, shown.messages))
