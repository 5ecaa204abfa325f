"""Caps and prices, without a gateway: what fits, what a call costs, and that nothing ever passes a cap."""

import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from claw.contracts.provider import Request, SystemPrompt
from claw.contracts.transcript import (
    Assistant,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    User,
)
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.testing import FakeProvider
from claw_budgets.caps import (
    NANOS,
    Amount,
    BudgetRefusal,
    CallAccount,
    SpendingCap,
    TokenBound,
    check_budgets,
    estimated_answer_tokens,
    max_tokens_of,
    seconds_until_reset,
)
from claw_budgets.ledger import UsageLedger
from claw_budgets.middleware import UsageMeter
from claw_provider_sdk import IncrementalCache, Price
from hypothesis import given, settings, strategies as st

NOON = datetime(2026, 3, 14, 12, 0).timestamp()
BILL = CallAccount("coder", "agent:coder:main", "c1", "t1", "telegram")
DEAR = Price(5.0, 25.0, 0.5, 6.25)


# --- prices


def test_a_call_costs_what_its_four_kinds_of_tokens_cost() -> None:
    million = 1_000_000
    usage = Usage(input=million, output=million, cache_read=million, cache_write=million)

    assert DEAR.nanos(usage) == round((5 + 25 + 0.5 + 6.25) * NANOS)
    assert DEAR.nanos(Usage(input=1)) == 5000


def test_cached_tokens_without_a_price_of_their_own_cost_what_others_do() -> None:
    assert Price(2.0, 8.0).nanos(Usage(cache_read=10, cache_write=10)) == 20 * 2000


def test_what_nobody_knows_is_not_nothing() -> None:
    assert Price(output=1.0).nanos(Usage(input=1, output=1)) is None
    assert Price(output=1.0).nanos(Usage(output=1)) == 1000
    assert Price().worst_case(10, 10) is None
    assert Price(0.0, 0.0).nanos(Usage(input=5, output=5)) == 0


def test_a_part_of_a_billionth_is_rounded_up() -> None:
    assert Price(0.0001, 0.0).nanos(Usage(input=1)) == 1


def test_a_long_request_costs_its_own_price_as_a_whole() -> None:
    price = Price(1.0, 2.0, over=(1000, Price(10.0, 20.0)))

    assert price.nanos(Usage(input=1000, output=1)) == 1000 * 1000 + 2000
    assert price.nanos(Usage(input=600, cache_read=401, output=1)) == 1001 * 10_000 + 20_000


@given(st.builds(Usage, *[st.integers(0, 10**6)] * 4), st.lists(st.floats(0, 100), min_size=4, max_size=4))
def test_the_worst_is_never_less_than_what_a_call_costs(usage: Usage, dollars: list[float]) -> None:
    price = Price(dollars[0], dollars[1], min(dollars[2], dollars[0]), dollars[3])
    prompt = (usage.input or 0) + (usage.cache_read or 0) + (usage.cache_write or 0)
    worst, cost = price.worst_case(prompt, usage.output or 0), price.nanos(usage)

    assert worst is not None and cost is not None and cost <= worst


# --- what fits


def test_a_cap_counts_only_the_calls_that_it_is_for() -> None:
    assert SpendingCap("all", tokens=1).applies(BILL)
    assert SpendingCap("coder", tokens=1, agent="cod*").applies(BILL)
    assert not SpendingCap("other", tokens=1, agent="other").applies(BILL)
    assert not SpendingCap("clock", tokens=1, job="*").applies(BILL)
    assert SpendingCap("clock", tokens=1, job="*").applies(CallAccount(job="heartbeat"))
    assert SpendingCap("chat", tokens=1, session="agent:coder:*").applies(BILL)


@pytest.mark.parametrize(
    ("cap", "own", "other"),
    [
        (SpendingCap("agent", tokens=100, agent="coder"), {}, {"agent": "writer"}),
        (
            SpendingCap("session", tokens=100, session="agent:coder:*"),
            {},
            {"session_key": "agent:writer:main"},
        ),
        (SpendingCap("job", tokens=100, job="nightly"), {"job": "nightly"}, {}),
        (SpendingCap("turn", tokens=100, per="turn"), {}, {"turn": "t2"}),
        (SpendingCap("chat", tokens=100, per="session"), {}, {"conversation": "c2"}),
    ],
    ids=lambda value: value.name if isinstance(value, SpendingCap) else "",
)
def test_what_others_spend_on_the_same_day_does_not_eat_a_cap(
    tmp_path: Path, cap: SpendingCap, own: dict[str, str], other: dict[str, str]
) -> None:
    book, mine, full = UsageLedger(Database(tmp_path / "state.db")), replace(BILL, **own), Usage(input=100)
    book.create_indexes((cap,))
    book.record(replace(BILL, **other), "fake/m", full, 0, "said")

    assert not isinstance(book.reserve((cap,), mine, "fake/m", full, 0), BudgetRefusal)
    assert isinstance(book.reserve((cap,), mine, "fake/m", Usage(input=1), 0), BudgetRefusal)


def test_a_call_fits_when_it_reaches_the_cap_and_not_when_it_passes_it() -> None:
    cap = SpendingCap("day", nanos=100, tokens=100)

    assert cap.allows(Amount(40, 40), Amount(60, 60))
    assert not cap.allows(Amount(40, 40), Amount(61, 1))
    assert not cap.allows(Amount(40, 40), Amount(1, 61))


def test_what_has_no_price_fits_into_no_cap_of_money() -> None:
    assert not SpendingCap("day", nanos=100).allows(Amount(), Amount(None, 1))
    assert SpendingCap("day", tokens=100).allows(Amount(), Amount(None, 1))


def test_the_first_cap_without_space_is_named_and_a_job_of_the_clock_is_skipped() -> None:
    wide, tight = SpendingCap("wide", tokens=1000), SpendingCap("tight", tokens=10)
    spent = [(wide, Amount(), Amount()), (tight, Amount(), Amount())]

    stopped = check_budgets(spent, Amount(0, 11), BILL)
    skipped = check_budgets(spent, Amount(0, 11), CallAccount(job="heartbeat"))

    assert isinstance(stopped, BudgetRefusal) and (stopped.cap, stopped.kind) == (tight, "stop")
    assert isinstance(skipped, BudgetRefusal) and skipped.kind == "skip"
    assert check_budgets(spent, Amount(0, 10), BILL) is None


def test_a_day_is_free_again_at_midnight_and_a_conversation_with_the_next_one() -> None:
    assert seconds_until_reset(SpendingCap("day", tokens=1), NOON) == 12 * 3600
    assert seconds_until_reset(SpendingCap("chat", tokens=1, per="session"), NOON) is None


# --- estimates that are to be too large, never too small


def test_small_letters_of_a_word_weigh_a_third_and_everything_else_its_bytes() -> None:
    assert max_tokens_of((), "abcdef") == 2
    assert max_tokens_of((), "The cat sat") == 3
    assert max_tokens_of((), "ABC") == 3
    assert max_tokens_of((), "x  =  1") == 7
    assert max_tokens_of((), "你好世界") == 12
    assert max_tokens_of((), "ab你") == 4


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ("7 " * 30_000, 60_000),
        ("{}();" * 1000, 5000),
        ("\n" * 500, 500),
        ("🙂" * 100, 300),
        ("a b " * 100, 200),
    ],
)
def test_a_text_that_no_vocabulary_shortens_is_not_weighed_too_light(text: str, counted: int) -> None:
    assert max_tokens_of((User((Text(text),)),)) >= counted


@given(st.text(), st.text())
def test_a_text_never_weighs_more_than_its_bytes_nor_less_than_its_words(text: str, more: str) -> None:
    weight = max_tokens_of((), text)
    assert len(text.split()) <= weight <= len(text.encode("utf-8", "surrogatepass"))
    assert max_tokens_of((), text + more) <= weight + max_tokens_of((), more)


def test_a_picture_weighs_what_the_dearest_service_counts_for_the_largest() -> None:
    assert max_tokens_of((User((Image("aGk="),)),)) >= 2833 + 8 * 5667


def test_every_block_of_a_message_counts() -> None:
    whole = (
        User((Text("hello"), Image("aGk="))),
        Assistant((Thinking("hm"), Text("ok"), ToolCall("c", "ls", {"path": "x" * 300}))),
        ToolResultMessage("c", "ls", (Text("y" * 300),)),
    )

    assert max_tokens_of(whole) > 48_169 + 200
    assert estimated_answer_tokens(30, None) == 10
    assert estimated_answer_tokens(0, whole[1]) > 100  # type: ignore[arg-type]


# --- nothing ever passes a cap, whatever comes between


class Moves:
    """Calls that come, set their worst aside, and end with what they cost, in any order."""

    steps = st.lists(
        st.one_of(
            st.tuples(st.just("begin"), st.integers(0, 60), st.integers(0, 60)),
            st.tuples(st.just("end"), st.integers(0, 30), st.integers(0, 100)),
        ),
        max_size=40,
    )


@given(Moves.steps, st.integers(1, 200), st.integers(1, 200))
def test_what_is_spent_and_reserved_never_passes_a_cap(
    steps: list[tuple[str, int, int]], nanos: int, tokens: int
) -> None:
    cap, spent, held = SpendingCap("c", nanos, tokens), Amount(), list[Amount]()
    for what, first, second in steps:
        total = sum(held, spent)
        if what == "begin":
            worst = Amount(first, second)
            if check_budgets([(cap, total, Amount())], worst, BILL) is None:
                held.append(worst)
        elif held:
            worst = held.pop(first % len(held))
            assert worst.nanos is not None
            spent += Amount(worst.nanos * second // 100, worst.tokens * second // 100)
        total = sum(held, spent)
        assert total.nanos is not None and total.nanos <= nanos and total.tokens <= tokens


@settings(max_examples=25, deadline=None)
@given(Moves.steps, st.integers(1, 200))
def test_two_processes_of_one_home_keep_a_cap_together(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], tokens: int
) -> None:
    path = tmp_path_factory.mktemp("home") / "state.db"
    databases = [Database(path), Database(path)]
    books = [UsageLedger(database, Clock(now=lambda: NOON)) for database in databases]
    cap, held, spent = SpendingCap("c", tokens=tokens), list[tuple[tuple[int, int], int]](), 0
    for number, (what, first, second) in enumerate(steps):
        book = books[number % 2]
        if what == "begin":
            kept = book.reserve([cap], BILL, "fake/m1", Usage(input=first, output=second), None)
            fits = spent + sum(worst for _, worst in held) + first + second <= tokens
            assert isinstance(kept, BudgetRefusal) is not fits
            if not isinstance(kept, BudgetRefusal):
                held.append((kept, first + second))
        elif held:
            key, worst = held.pop(first % len(held))
            spent += worst * second // 100
            book.settle(key, Usage(input=worst * second // 100), None, "said")
        assert books[0].spent(cap, BILL)[0].tokens == spent + sum(worst for _, worst in held) <= tokens
    for database in databases:
        database.close()


def test_what_a_dead_process_had_reserved_stays_counted(tmp_path: Path) -> None:
    first, cap = Database(tmp_path / "state.db"), SpendingCap("c", tokens=100)
    UsageLedger(first).reserve([cap], BILL, "fake/m1", Usage(input=60), None)
    first.close()

    after = Database(tmp_path / "state.db")
    assert UsageLedger(after).spent(cap, BILL) == (Amount(0, 60), Amount(0, 60))
    after.close()


# --- what a call under a cap costs us


def past(count: int) -> tuple[User | Assistant, ...]:
    return tuple(
        User((Text(f"question {at} 问"),)) if at % 2 else Assistant((Text("answer"),)) for at in range(count)
    )


def steps(spending: UsageMeter, messages: tuple[User | Assistant, ...]) -> int:
    """Count the functions, Python and built-in, that a check of the caps for one model call uses."""
    request, count = Request("m1", SystemPrompt("be kind"), messages), 0

    def step(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(step)
    try:
        call = spending.begin_call(FakeProvider(), request)
    finally:
        sys.setprofile(None)
    call.end()
    return count


def test_to_weigh_a_request_costs_what_came_new_and_not_the_whole_past(tmp_path: Path) -> None:
    spending = UsageMeter(UsageLedger(Database(tmp_path / "state.db")), (SpendingCap("c", tokens=10**9),))
    long, short = past(1000), past(10)
    for messages in (short, long):  # each is read once
        steps(spending, messages)

    new = (User((Text("and now?"),)),)
    assert steps(spending, (*long, *new)) < steps(spending, (*short, *new)) + 20


@given(st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_a_conversation_that_grew_weighs_what_it_weighs_at_once(lengths: list[int]) -> None:
    whole, weighed = past(12), IncrementalCache(TokenBound)
    for length in lengths:
        assert weighed.get(whole[:length]).tokens == max_tokens_of(whole[:length])
