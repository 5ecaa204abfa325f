"""The limits of a bot as a pure decision: for any calls at any times no limit is exceeded, and no chat waits for ever."""

from collections.abc import Sequence
from itertools import pairwise

from claw_telegram.call_budget import BOT, CHAT, GROUP, CallBudget, CallKind, CountedCall, Limit, is_group
from claw_telegram.pacer import kind_of
from hypothesis import example, given, strategies as st

CHATS = ("1", "2", "3", "-100", "-200", "@news")
KINDS = st.sampled_from(("post", "edit", "sign"))
CALLS = st.lists(st.tuples(st.floats(0, 0.5), st.sampled_from(CHATS), KINDS, st.booleans()), max_size=120)
Counted = tuple[float, str, CallKind]


def counted_calls(calls: Sequence[tuple[float, str, CallKind, bool]]) -> list[Counted]:
    """Return the calls of a bot that calls after each pause; it waits for a call, or leaves it out if it is optional."""
    budget, now, made = CallBudget(), 0.0, []
    for pause, chat, kind, optional in calls:
        now += pause
        wait = budget.wait(chat, kind, now, optional=optional)
        if wait and optional:
            continue
        now += wait
        assert budget.wait(chat, kind, now) < 1e-6, "the wait is long enough"
        budget.count(chat, kind, now)
        made.append((now, chat, kind))
    return made


def keeps(limit: Limit, times: Sequence[float]) -> bool:
    return all(
        later - first > limit.seconds - 1e-6
        for first, later in zip(times, times[limit.calls :], strict=False)
    )


@given(CALLS)
@example([(0.0, "1", "sign", False)] * 70)
@example([(0.0, "-100", "post", False)] * 50)
def test_whatever_is_called_no_limit_is_exceeded(calls: list[tuple[float, str, CallKind, bool]]) -> None:
    made = counted_calls(calls)
    assert keeps(BOT, [at for at, _, _ in made])
    for chat in CHATS:
        here = [(at, kind) for at, one, kind in made if one == chat]
        assert keeps(CHAT, [at for at, kind in here if kind == "post"])
        assert not is_group(chat) or keeps(GROUP, [at for at, kind in here if kind != "sign"])


@given(st.lists(st.tuples(st.sampled_from(CHATS), KINDS, st.floats(0, 2), st.floats(0, 1)), max_size=100))
@example([("1", "sign", at % 3 / 2, at % 2) for at in range(90)])
def test_however_long_calls_are_on_their_way_no_limit_is_exceeded_where_they_arrive(
    calls: list[tuple[str, CallKind, float, float]],
) -> None:
    """A call takes some time, and arrives at a fraction of it."""
    budget, now, arrived = CallBudget(), 0.0, list[Counted]()
    running: list[tuple[float, CountedCall]] = []

    def advance(to: float) -> float:
        for end, call in sorted(running, key=lambda one: one[0]):
            if end <= to:
                running.remove((end, call))
                call.end(end)
        return to

    for chat, kind, seconds, fraction in calls:
        while (wait := budget.wait(chat, kind, now)) > 0:
            now = advance(min([now + wait, *(end for end, _ in running)]))
        made = budget.count(chat, kind, now)
        made.start()
        running.append((now + seconds, made))
        arrived.append((now + seconds * fraction, chat, kind))
        now = advance(now)
    assert keeps(BOT, sorted(at for at, _, _ in arrived))
    for chat in CHATS:
        here = sorted((at, kind) for at, one, kind in arrived if one == chat)
        assert keeps(CHAT, [at for at, kind in here if kind == "post"])
        assert not is_group(chat) or keeps(GROUP, [at for at, kind in here if kind != "sign"])


def test_a_group_takes_twenty_messages_a_minute_and_the_next_one_waits() -> None:
    budget = CallBudget()
    for at in range(20):
        assert budget.wait("-100", "post", at * 1.1) == 0
        budget.count("-100", "post", at * 1.1)
    assert abs(20 * 1.1 + budget.wait("-100", "post", 20 * 1.1) - 60) < 1e-6
    assert budget.wait("-200", "post", 20 * 1.1) == budget.wait("100", "post", 20 * 1.1) == 0


@given(CALLS)
def test_nothing_waits_while_no_limit_is_reached(calls: list[tuple[float, str, CallKind, bool]]) -> None:
    few, budget, now = calls[: CHAT.calls], CallBudget(), 0.0
    for pause, chat, kind, _ in few:
        now += pause
        assert budget.wait(chat, kind, now) == 0
        budget.count(chat, kind, now)


@given(st.floats(0.1, 600), st.floats(0, 600), KINDS)
def test_a_refused_chat_is_closed_for_the_time_of_the_refusal_and_no_other_is(
    seconds: float, later: float, kind: CallKind
) -> None:
    budget = CallBudget()
    budget.record_refusal("1", seconds, 5.0)
    budget.record_refusal("1", seconds / 2, 5.0)
    wait = budget.wait("1", kind, 5.0 + later)
    assert abs(wait - max(0.0, seconds - later)) < 1e-6
    assert budget.wait("2", kind, 5.0 + later) == 0


@given(st.lists(st.sampled_from(CHATS), min_size=1, max_size=8))
def test_several_chats_that_are_refused_at_a_time_close_the_bot(chats: list[str]) -> None:
    budget = CallBudget()
    for at, chat in enumerate(chats):
        budget.record_refusal(chat, 3.0, at / 10)
    is_closed = budget.wait("another", "post", len(chats) / 10) > 0
    assert is_closed == (len(set(chats)) >= 3)


def test_chats_that_are_refused_one_after_another_close_no_other() -> None:
    budget = CallBudget()
    for at, chat in enumerate(CHATS):
        budget.record_refusal(chat, 300.0, at * 0.6)
    assert budget.wait("another", "post", 4.0) == 0


@given(st.lists(st.sampled_from(CHATS), min_size=2, max_size=60))
def test_a_chat_with_many_waiting_calls_delays_another_by_one_call(arrivals: list[str]) -> None:
    budget, now = CallBudget(), 0.0
    waiting: dict[str, list[CallKind]] = {}
    for chat in arrivals:
        waiting.setdefault(chat, []).append("sign")
    order: list[str] = []
    while waiting:
        chat, wait = budget.next_chat({one: kinds[0] for one, kinds in waiting.items()}, now)
        now += wait
        if chat is not None:
            budget.count(chat, waiting[chat].pop(), now)
            order.append(chat)
            waiting = {one: kinds for one, kinds in waiting.items() if kinds}
    assert sorted(order) == sorted(arrivals)
    for chat in set(arrivals):
        turns = [at for at, one in enumerate(order) if one == chat]
        between = [order[first + 1 : then] for first, then in pairwise(turns)]
        assert all(len(others) == len(set(others)) for others in between), "nobody has two calls between them"


@given(CALLS)
def test_what_may_be_skipped_leaves_room_for_what_may_not(
    calls: list[tuple[float, str, CallKind, bool]],
) -> None:
    optional = [(0.0, chat, kind, True) for _, chat, kind, _ in calls]
    made = counted_calls(optional)
    assert len(made) <= BOT.calls - BOT.spare
    for chat in CHATS:
        assert sum(one == chat and kind == "post" for _, one, kind in made) <= CHAT.calls - CHAT.spare


def test_methods_are_counted_as_the_limits_do() -> None:
    kinds = {
        "sendMessage": "post", "sendDocument": "post", "sendPoll": "post", "copyMessage": "post",
        "editMessageText": "edit", "sendChatAction": "sign", "sendMessageDraft": "sign", "deleteMessage": "sign",
        "setMessageReaction": "sign", "getUpdates": None, "setMyCommands": None, "answerCallbackQuery": None,
    }  # fmt: skip
    assert {method: kind_of(method) for method in kinds} == kinds
