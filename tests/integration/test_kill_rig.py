"""Nothing acknowledged is lost, nothing is said twice, no effect is repeated: the real gateway, killed again and again.

What the judge of the rig lets pass is tried first: histories in which a promise was broken.
"""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest
from rigs.checker import Asked, History, Owed, Stands, Taken, Turn, faults
from rigs.kill import Report, many_deaths

SEEDS, KILLS = 6, 50
FULL_KILLS, FULL_KILLS_EACH = 10_000, 50
TOGETHER = 4

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
    stands=(
        Stands("telegram", "direct", "m1p1x1 yes"),
        Stands("telegram", "direct", "m2p1x2 so"),
        Stands("telegram", "direct", "m2p2x2 it is"),
        Stands("feishu", "group", "m3p1x1 done"),
    ),
    taken=(
        Taken(1, "answered", "a"), Taken(2, "answered", "b"), Taken(3, "answered", "c"), Taken(4, "answered", "d"),
        Taken(5, "heard", None),
    ),
    turns=(Turn("a", "delivered"), Turn("b", "delivered"), Turn("c", "delivered"), Turn("d", "silent")),
    owed=(
        Owed("a", "telegram", "m1p1x1 yes", "paid"),
        Owed("b", "telegram", "m2p1x2 so", "paid"),
        Owed("b", "telegram", "m2p2x2 it is", "paid"),
        Owed("c", "feishu", "m3p1x1 done", "paid"),
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


def test_an_answer_that_stands_nowhere_in_part_or_in_another_chat_is_lost():
    assert only(replace(GOOD, stands=GOOD.stands[1:])) == "lost"
    assert only(replace(GOOD, stands=(*GOOD.stands[:2], GOOD.stands[3]))) == "lost"
    elsewhere = Stands("feishu", "direct", GOOD.stands[3].text)
    assert only(replace(GOOD, stands=(*GOOD.stands[:3], elsewhere))) == "lost"


def test_silence_where_an_answer_was_wanted_is_lost():
    assert only(replace(GOOD, turns=(Turn("a", "stopped"), *GOOD.turns[1:]))) == "lost"


def test_a_turn_that_failed_needs_a_notice_that_stands_there():
    failed = replace(
        GOOD,
        stands=GOOD.stands[:3],
        turns=(*GOOD.turns[:2], Turn("c", "failed"), GOOD.turns[3]),
        owed=(*GOOD.owed[:3], Owed("c", "feishu", "sorry", "paid")),
    )
    assert only(failed) == "lost"
    assert faults(replace(failed, stands=(*failed.stands, Stands("feishu", "group", "sorry")))) == []


def marked(history: History, row: int, marks: int = 1) -> History:
    """The same, with one row of the ledger sent again knowingly."""
    owed = list(history.owed)
    owed[row] = replace(owed[row], marks=marks)
    return replace(history, owed=tuple(owed))


def test_a_double_is_a_fault_where_the_service_drops_repeats_and_elsewhere_unless_it_is_marked():
    both = replace(GOOD, stands=(*GOOD.stands, GOOD.stands[3]))
    assert only(both) == only(marked(both, 3)) == "doubled"
    twice = replace(GOOD, stands=(GOOD.stands[0], *GOOD.stands))
    assert only(twice) == "doubled"
    assert faults(marked(twice, 0)) == []


def test_each_mark_excuses_one_double():
    often = replace(GOOD, stands=(*(GOOD.stands[0],) * 4, *GOOD.stands))
    assert only(marked(often, 0)) == only(marked(often, 0, 3)) == "doubled"
    assert faults(marked(often, 0, 4)) == []


def test_a_mark_excuses_the_message_that_it_is_on_and_no_other_of_its_turn():
    twice = replace(GOOD, stands=(*GOOD.stands[:2], GOOD.stands[1], *GOOD.stands[2:]))
    assert faults(marked(twice, 1)) == []
    assert only(marked(twice, 2)) == "doubled"


def test_what_was_not_said_to_us_or_wanted_silence_is_not_answered():
    for number, kind in ((4, "hush"), (5, "aside")):
        said = f"m{number}p1x1 did you ask me?"
        owed = Owed("d", "discord", said, "paid")
        answered = replace(
            GOOD, stands=(*GOOD.stands, Stands("discord", "group", said)), owed=(*GOOD.owed, owed)
        )
        [fault] = faults(answered)
        assert fault.startswith("unwanted") and kind in fault


def test_what_a_failed_turn_showed_may_be_answered_once_more_and_not_twice():
    half, sorry = GOOD.stands[0], Stands("telegram", "direct", "sorry")
    failed = replace(
        GOOD,
        stands=(half, sorry, *GOOD.stands),
        turns=(Turn("a", "failed"), *GOOD.turns[1:]),
        owed=(Owed("a", "telegram", "sorry", "paid"), replace(GOOD.owed[0], turn="b"), *GOOD.owed[1:]),
    )
    assert faults(failed) == []
    thrice = replace(failed, stands=(half, *failed.stands))
    assert only(thrice) == "doubled"
    also = (Owed("b", "telegram", "sorry", "paid"), *failed.owed)
    again = replace(thrice, turns=(*failed.turns[:1], Turn("b", "failed"), *failed.turns[2:]), owed=also)
    assert faults(again) == [], "the turn that made up for it failed too"


def test_a_send_in_doubt_is_told_in_its_chat_and_stands_or_not():
    unsure = replace(GOOD.owed[0], state="unknown")
    notice = Owed("a", "telegram", "did it arrive?", "paid")
    told = replace(
        GOOD,
        stands=(*GOOD.stands, Stands("telegram", "direct", notice.text)),
        owed=(unsure, *GOOD.owed[1:], notice),
        doubts=1,
    )
    gone = replace(told, stands=told.stands[1:])
    assert faults(told) == faults(gone) == []
    assert only(replace(gone, stands=gone.stands[:-1])) == "lost", "nobody was told"
    assert only(replace(told, doubts=0)) == "in doubt", "nothing was cut"
    assert only(replace(gone, idempotent=frozenset({"telegram"}))) == "in doubt", "it can be sent again"


def test_answers_and_their_parts_stand_in_the_order_of_the_questions():
    first, second, third, other = GOOD.stands
    assert only(replace(GOOD, stands=(second, third, first, other))) == "out of order"
    assert only(replace(GOOD, stands=(first, third, second, other))) == "out of order"


def test_an_effect_happens_once():
    assert only(replace(GOOD, effects=(3, 3))) == "repeated"
    assert faults(replace(GOOD, effects=())) == [], "it may have been cut: the model is told so"


def test_nothing_is_left_open():
    assert "open" in only(replace(GOOD, turns=(*GOOD.turns, Turn("e", None))))
    assert only(replace(GOOD, owed=(*GOOD.owed[:3], replace(GOOD.owed[3], state="sending")))) == "open"


def test_a_transcript_loads_and_holds_each_question_once():
    assert only(replace(GOOD, unreadable=("x.jsonl: call 1 has no result",))) == "transcript"
    assert only(replace(GOOD, recorded=(*GOOD.recorded, 1))) == "transcript"


def test_nothing_stands_that_nobody_owed():
    assert only(replace(GOOD, stands=(*GOOD.stands, Stands("feishu", "group", "…")))) == "unowed"


@pytest.mark.xdist_group("rig")
@pytest.mark.timeout(6 * 3600)
async def test_a_gateway_that_is_killed_at_any_moment_keeps_every_promise(tmp_path, full, record_property):
    each = FULL_KILLS_EACH if full else KILLS
    seeds = range(FULL_KILLS // FULL_KILLS_EACH if full else SEEDS)
    room, wrong, told = asyncio.Semaphore(TOGETHER), [], Report()

    async def history(seed: int) -> None:
        async with room:
            rig, history = await many_deaths(seed, each, tmp_path / str(seed))
        wrong.extend(f"seed {seed}: {fault}" for fault in faults(history))
        told.kills += rig.report.kills
        told.fired += rig.report.fired
        told.asked += len(history.asked)
        told.lost += rig.report.lost
        told.doubts += sum(one.state == "unknown" for one in history.owed)
        told.marks += sum(one.marks for one in history.owed)

    async with asyncio.TaskGroup() as all_histories:
        for seed in seeds:
            all_histories.create_task(history(seed))

    record_property("rig", str(told))
    print(told, *wrong, sep="\n")
    assert wrong == []
    assert told.kills >= 100
    assert sum((told.fired - Counter(time=told.kills)).values()) >= told.kills / 5, "fail points are passed"
