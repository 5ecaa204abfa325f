"""Circles: what is warned of, what is refused, what ends a turn. The table loop_detection holds the counts."""

import pytest
from claw import Text, ToolCall
from claw_loop_guard.detector import (
    BREAKER,
    MAX_UNREADABLE,
    PING_PONG,
    LoopDetector,
    LoopLimits,
    call_record,
    detect_loop,
    limits_of,
    outcome_of,
)
from claw_loop_guard.settings import LoopDetection
from hypothesis import given, strategies as st


def call(name: str = "read", **arguments: object) -> ToolCall:
    return ToolCall("id", name, arguments)


def test_thresholds_that_do_not_grow_are_pushed_up_until_they_do() -> None:
    limits = LoopLimits(warn=12, refuse=3, stop=5)

    assert limits.warn < limits.refuse < limits.stop


def test_the_file_may_leave_a_detector_out() -> None:
    limits = limits_of(
        LoopDetection.model_validate({"detectors": {"pingPong": False}, "warningThreshold": 4})
    )

    assert PING_PONG not in limits.detectors
    assert limits.warn == 4


def test_the_breaker_is_read_under_its_long_name_too() -> None:
    section = LoopDetection.model_validate({"globalCircuitBreakerThreshold": 40})

    assert limits_of(section).stop == 40


def test_the_order_of_keys_does_not_make_another_call_of_it() -> None:
    assert call_record("read", {"a": 1, "b": [2]}).key == call_record("read", {"b": [2], "a": 1}).key
    assert call_record("read", {"a": 1}).key != call_record("ls", {"a": 1}).key


def test_what_json_cannot_hold_is_compared_all_the_same() -> None:
    assert call_record("read", {"a": "\ud800"}).key == call_record("read", {"a": "\ud800"}).key
    assert outcome_of([object]) == outcome_of([object])


def test_a_call_with_changing_answers_is_never_refused() -> None:
    repetition = LoopDetector(LoopLimits(warn=2, refuse=3, stop=4))
    levels = set()
    for number in range(20):
        sign, came = repetition.check_call(call())
        levels.add(sign.level if sign else "")
        came((Text(str(number)),), False)

    assert levels == {"", "warning"}
    assert repetition.stop_reason_text == ""


def test_equal_answers_of_one_call_end_the_turn_with_words_for_the_person() -> None:
    repetition = LoopDetector(LoopLimits(warn=2, refuse=3, stop=4))
    signs = []
    for _ in range(5):
        sign, came = repetition.check_call(call("fetch"))
        signs.append(sign)
        came((Text("the same"),), False)

    assert signs[-1] is not None
    assert (signs[-1].level, signs[-1].detector) == ("critical", BREAKER)
    assert "fetch" in repetition.stop_reason_text


def test_calls_of_one_answer_that_still_run_are_no_equal_answers() -> None:
    history = [call_record("read", {}) for _ in range(40)]

    sign = detect_loop(history, call_record("read", {}), LoopLimits())

    assert sign is not None
    assert sign.level == "warning"  # that there are so many; nobody knows yet what they bring


def test_calls_that_nobody_can_read_end_a_turn_after_a_few_in_a_row() -> None:
    repetition = LoopDetector(LoopLimits(enabled=False))
    for _ in range(MAX_UNREADABLE - 1):
        repetition.count_unreadable()
    assert repetition.stop_reason_text == ""
    repetition.check_call(call())
    for _ in range(MAX_UNREADABLE):
        repetition.count_unreadable()

    assert "could be parsed" in repetition.stop_reason_text


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xy")), max_size=60), st.integers(1, 12))
def test_nothing_is_seen_where_less_than_the_warning_happened(
    calls: list[tuple[str, str]], warn: int
) -> None:
    limits = LoopLimits(warn=warn)
    history = []
    for name, answer in calls:
        now = call_record(name, {})
        sign = detect_loop(history, now, limits)
        now.outcome = outcome_of(answer)
        history.append(now)
        if sign:
            assert sign.count >= warn
            assert sign.level == "warning" or sign.count >= limits.refuse


@pytest.mark.parametrize("enabled", [True, False])
def test_a_gateway_that_wants_no_detection_has_none(enabled: bool) -> None:
    history = [call_record("read", {}) for _ in range(12)]
    for one in history:
        one.outcome = "x"

    assert (detect_loop(history, call_record("read", {}), LoopLimits(enabled=enabled)) is not None) is enabled
