"""Nothing acknowledged is lost, nothing is said twice, no effect is repeated: the real gateway, killed many times.

The checker of the rig is tested first: with histories that violate an invariant.
"""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from rigs.checker import Asked, ChatMessage, History, Reply, Taken, Turn, faults
from rigs.kill import Report, many_deaths

SEEDS, KILLS = 6, 50
FULL_KILLS, FULL_KILLS_EACH = 10_000, 50
TOGETHER = 6

ASKED = (
    Asked(1, "telegram", "direct", "plain"),
    Asked(2, "telegram", "direct", "long"),
    Asked(3, "feishu", "group", "jot"),
    Asked(4, "discord", "group", "hush"),
    Asked(5, "discord", "group", "aside"),
)
GOOD = History(
    ASKED,
    frozenset({1, 2, 3, 4, 5}),
    visible=(
        ChatMessage("telegram", "direct", "m1p1x1 yes"),
        ChatMessage("telegram", "direct", "m2p1x2 so"),
        ChatMessage("telegram", "direct", "m2p2x2 it is"),
        ChatMessage("feishu", "group", "m3p1x1 done"),
    ),
    taken=(
        Taken(1, "answered", "a"), Taken(2, "answered", "b"), Taken(3, "answered", "c"), Taken(4, "answered", "d"),
        Taken(5, "heard", None),
    ),
    turns=(Turn("a", "delivered"), Turn("b", "delivered"), Turn("c", "delivered"), Turn("d", "silent")),
    replies=(
        Reply("a", "telegram", "m1p1x1 yes", "paid"),
        Reply("b", "telegram", "m2p1x2 so", "paid"),
        Reply("b", "telegram", "m2p2x2 it is", "paid"),
        Reply("c", "feishu", "m3p1x1 done", "paid"),
    ),
    effects=(3,),
    recorded=(1, 2, 3, 4),
)  # fmt: skip


def only(history: History) -> str:
    """The one fault of a history, by its first word."""
    [fault] = faults(history)
    return fault.partition(":")[0]


def test_the_judge_finds_no_fault_in_a_good_history():
    assert faults(GOOD) == []


def test_a_message_that_was_acknowledged_and_is_not_in_the_inbox_is_lost():
    assert only(replace(GOOD, taken=GOOD.taken[:-1])) == "lost"
    assert faults(replace(GOOD, taken=GOOD.taken[:-1], acknowledged=frozenset({1, 2, 3, 4}))) == []


def test_an_answer_that_is_nowhere_in_part_or_in_another_chat_is_lost():
    assert only(replace(GOOD, visible=GOOD.visible[1:])) == "lost"
    assert only(replace(GOOD, visible=(*GOOD.visible[:2], GOOD.visible[3]))) == "lost"
    elsewhere = ChatMessage("feishu", "direct", GOOD.visible[3].text)
    assert only(replace(GOOD, visible=(*GOOD.visible[:3], elsewhere))) == "lost"


def test_silence_where_an_answer_was_wanted_is_lost():
    assert only(replace(GOOD, turns=(Turn("a", "stopped"), *GOOD.turns[1:]))) == "lost"


def test_a_turn_that_failed_needs_a_notice_that_is_there():
    failed = replace(
        GOOD,
        visible=GOOD.visible[:3],
        turns=(*GOOD.turns[:2], Turn("c", "failed"), GOOD.turns[3]),
        replies=(*GOOD.replies[:3], Reply("c", "feishu", "sorry", "paid")),
    )
    assert only(failed) == "lost"
    assert faults(replace(failed, visible=(*failed.visible, ChatMessage("feishu", "group", "sorry")))) == []


def marked(history: History, row: int, marks: int = 1) -> History:
    """The same, with one row of the ledger sent again knowingly."""
    replies = list(history.replies)
    replies[row] = replace(replies[row], marks=marks)
    return replace(history, replies=tuple(replies))


def test_a_double_is_a_fault_where_the_service_drops_repeats_and_elsewhere_unless_it_is_marked():
    both = replace(GOOD, visible=(*GOOD.visible, GOOD.visible[3]))
    assert only(both) == only(marked(both, 3)) == "doubled"
    twice = replace(GOOD, visible=(GOOD.visible[0], *GOOD.visible))
    assert only(twice) == "doubled"
    assert faults(marked(twice, 0)) == []


def test_each_mark_excuses_one_double():
    often = replace(GOOD, visible=(*(GOOD.visible[0],) * 4, *GOOD.visible))
    assert only(marked(often, 0)) == only(marked(often, 0, 3)) == "doubled"
    assert faults(marked(often, 0, 4)) == []


def test_a_mark_excuses_the_message_that_it_is_on_and_no_other_of_its_turn():
    twice = replace(GOOD, visible=(*GOOD.visible[:2], GOOD.visible[1], *GOOD.visible[2:]))
    assert faults(marked(twice, 1)) == []
    assert only(marked(twice, 2)) == "doubled"


def test_a_notice_may_be_repeated_where_repeats_show_and_as_often_as_a_send_was_cut():
    notice = Reply("a", "telegram", "claw crashed 3 times", "paid", is_notice=True)
    shown = ChatMessage("telegram", "direct", notice.text)
    twice = replace(GOOD, visible=(*GOOD.visible, shown, shown), replies=(*GOOD.replies, notice), doubts=1)
    assert faults(twice) == []
    assert only(replace(twice, doubts=0)) == "unexpected", "nothing was cut"
    assert only(replace(twice, visible=(*twice.visible, shown))) == "unexpected", (
        "one send was cut, two are repeated"
    )
    assert only(replace(twice, idempotent=frozenset({"telegram"}))) == "unexpected", (
        "the service drops repeats"
    )
    said = replace(notice, is_notice=False)
    assert only(replace(twice, replies=(*GOOD.replies, said))) == "unexpected", "an answer"
    elsewhere = ChatMessage("feishu", "direct", notice.text)
    assert only(replace(twice, visible=(*GOOD.visible, shown, elsewhere))) == "unexpected", (
        "never queued there"
    )


def test_an_answer_is_visible_once_even_if_it_is_called_a_notice():
    twice = replace(GOOD, visible=(GOOD.visible[0], *GOOD.visible), doubts=1)
    called = replace(GOOD.replies[0], is_notice=True)
    assert only(replace(twice, replies=(called, *GOOD.replies[1:]))) == "doubled"


def test_what_was_not_said_to_us_or_wanted_silence_is_not_answered():
    for number, kind in ((4, "hush"), (5, "aside")):
        said = f"m{number}p1x1 did you ask me?"
        replies = Reply("d", "discord", said, "paid")
        answered = replace(
            GOOD,
            visible=(*GOOD.visible, ChatMessage("discord", "group", said)),
            replies=(*GOOD.replies, replies),
        )
        [fault] = faults(answered)
        assert fault.startswith("unwanted") and kind in fault


def test_what_a_failed_turn_showed_may_be_answered_once_more_and_not_twice():
    half, sorry = GOOD.visible[0], ChatMessage("telegram", "direct", "sorry")
    failed = replace(
        GOOD,
        visible=(half, sorry, *GOOD.visible),
        turns=(Turn("a", "failed"), *GOOD.turns[1:]),
        replies=(
            Reply("a", "telegram", "sorry", "paid"),
            replace(GOOD.replies[0], turn="b"),
            *GOOD.replies[1:],
        ),
    )
    assert faults(failed) == []
    thrice = replace(failed, visible=(half, *failed.visible))
    assert only(thrice) == "doubled"
    also = (Reply("b", "telegram", "sorry", "paid"), *failed.replies)
    again = replace(thrice, turns=(*failed.turns[:1], Turn("b", "failed"), *failed.turns[2:]), replies=also)
    assert faults(again) == [], "the turn that made up for it failed too"


def test_a_send_in_doubt_is_reported_in_its_chat_and_is_visible_or_not():
    unsure = replace(GOOD.replies[0], state="unknown")
    notice = Reply("a", "telegram", "did it arrive?", "paid")
    total = replace(
        GOOD,
        visible=(*GOOD.visible, ChatMessage("telegram", "direct", notice.text)),
        replies=(unsure, *GOOD.replies[1:], notice),
        doubts=1,
    )
    gone = replace(total, visible=total.visible[1:])
    assert faults(total) == faults(gone) == []
    assert only(replace(gone, visible=gone.visible[:-1])) == "lost", "nobody was told"
    assert only(replace(total, doubts=0)) == "in doubt", "nothing was cut"
    assert only(replace(gone, idempotent=frozenset({"telegram"}))) == "in doubt", "it can be sent again"


def test_answers_and_their_parts_are_in_the_order_of_the_questions():
    first, second, third, other = GOOD.visible
    assert only(replace(GOOD, visible=(second, third, first, other))) == "out of order"
    assert only(replace(GOOD, visible=(first, third, second, other))) == "out of order"


def test_an_effect_happens_once():
    assert only(replace(GOOD, effects=(3, 3))) == "repeated"
    assert faults(replace(GOOD, effects=())) == [], "it may have been cut: the model is told so"


def test_nothing_is_left_open():
    assert "open" in only(replace(GOOD, turns=(*GOOD.turns, Turn("e", None))))
    assert (
        only(replace(GOOD, replies=(*GOOD.replies[:3], replace(GOOD.replies[3], state="sending")))) == "open"
    )


def test_a_transcript_loads_and_holds_each_question_once():
    assert only(replace(GOOD, unreadable=("x.jsonl: call 1 has no result",))) == "transcript"
    assert only(replace(GOOD, recorded=(*GOOD.recorded, 1))) == "transcript"


def test_nothing_is_visible_that_is_not_pending():
    assert only(replace(GOOD, visible=(*GOOD.visible, ChatMessage("feishu", "group", "…")))) == "unexpected"


@pytest.mark.xdist_group("rig")
@pytest.mark.timeout(6 * 3600)
async def test_a_gateway_that_is_killed_at_any_moment_keeps_every_promise(tmp_path, full, record_property):
    each = FULL_KILLS_EACH if full else KILLS
    seeds = range(FULL_KILLS // FULL_KILLS_EACH if full else SEEDS)
    slots, wrong, total = asyncio.Semaphore(TOGETHER), [], Report()

    async def history(seed: int) -> None:
        async with slots:
            rig, history = await many_deaths(seed, each, tmp_path / str(seed))
        wrong.extend(f"seed {seed}: {fault}" for fault in faults(history))
        total.kills += rig.report.kills
        total.fired += rig.report.fired
        total.asked += len(history.asked)
        total.lost += rig.report.lost
        total.doubts += sum(one.state == "unknown" for one in history.replies)
        total.marks += sum(one.marks for one in history.replies)

    async with asyncio.TaskGroup() as all_histories:
        for seed in seeds:
            all_histories.create_task(history(seed))

    record_property("rig", str(total))
    print(total, *wrong, sep="\n")
    assert wrong == []
    assert total.kills >= 100
    assert sum((total.fired - Counter(time=total.kills)).values()) >= total.kills / 5, (
        "fail points are passed"
    )
