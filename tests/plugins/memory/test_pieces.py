"""The pieces of a note, and the query made from a question."""

import sqlite3
from itertools import pairwise

from claw_memory.cutting import cut
from claw_memory.entries import entries, pieces_of
from claw_memory.question import any_of, fts_query, spaced, terms
from claw_memory.ranking import decayed, merge, varied
from claw_memory.script import script_of
from claw_memory.session import cites
from hypothesis import given, strategies as st

NOTE = """# People

- Mara is allergic
  to hazelnuts.
- Tom is not.

## Work

We chose Postgres.
It was close.

```
- no item

# no heading
```
## Empty
"""


def test_an_entry_is_a_list_item_or_a_paragraph_under_its_heading():
    assert [(entry.first, entry.heading, entry.text) for entry in entries(NOTE)] == [
        (3, "People", "- Mara is allergic\n  to hazelnuts."),
        (5, "People", "- Tom is not."),
        (9, "Work", "We chose Postgres.\nIt was close."),
        (12, "Work", "```\n- no item\n\n# no heading\n```"),
        (17, "", "Empty"),
    ]


def test_a_fence_that_never_ends_loses_nothing():
    assert [entry.text for entry in entries("a\n\n```\nb\n\nc")] == ["a", "```\nb\n\nc"]


@given(st.text(st.sampled_from("ab #-`\n\t你"), max_size=200))
def test_every_line_with_a_word_is_in_an_entry_and_lines_are_counted_right(text: str):
    lines = text.split("\n")
    held: dict[int, str] = {}
    for entry in entries(text):
        for number, line in enumerate(entry.text.split("\n"), entry.first):
            assert number not in held
            held[number] = line
            assert line in lines[number - 1]
    headings = {entry.heading for entry in entries(text)}
    for number, line in enumerate(lines, 1):
        words = line.strip("# \t`-")
        assert not words or number in held or line.lstrip("#").strip() in headings


@given(st.text(max_size=400), st.integers(8, 60), st.integers(0, 20))
def test_pieces_together_hold_every_line_in_order(text: str, tokens: int, overlap: int):
    pieces = cut(text, tokens, overlap)

    assert pieces[0].start == 1 and pieces[-1].end == len(text.split("\n"))
    for one, following in pairwise(pieces):
        assert one.start <= following.start <= one.end + 1
    if not overlap:
        assert "".join(piece.text.replace("\n", "") for piece in pieces) == text.replace("\n", "")
        assert all(len(piece.text) <= max(32, tokens * 4) for piece in pieces)


def test_a_long_entry_is_indexed_in_parts_with_its_heading():
    text = "# Log\n\n" + "\n".join(f"line {number} of many" for number in range(40))

    pieces = list(pieces_of(text, 50, 0))

    assert len(pieces) > 3 and pieces[0].first == 3 and pieces[-1].last == 42
    assert all(piece.indexed.startswith("Log\nline ") for piece in pieces)


@given(st.text(max_size=80))
def test_whatever_is_asked_is_a_query_that_full_text_search_understands(question: str):
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE words USING fts5 (body)")
    queries = [spaced(query) if (query := fts_query(question)) else "", any_of(terms(question))]

    for query in filter(None, queries):
        db.execute("SELECT rowid FROM words WHERE words MATCH ?", (query,)).fetchall()
    db.close()


def test_chinese_is_asked_for_by_character_and_by_pair_without_words_that_say_nothing():
    assert terms("我的牙医") == ('"牙"', '"医"', '"的 牙"', '"牙 医"')
    assert terms("What is the Router of 路由?") == ('"router"', '"路"', '"由"', '"路 由"')
    assert terms("who is it") == ('"who"', '"is"', '"it"')
    assert terms("?!") == ()


def test_the_script_of_a_text_is_that_of_most_of_its_letters():
    texts = ["The cabin.", "小屋 key", "山小屋のかぎ", "Ключ", "42", ""]

    assert [script_of(text) for text in texts] == ["LATIN", "LATIN", "JAPANESE", "CYRILLIC", "LATIN", "LATIN"]
    assert script_of("备用钥匙在小屋 key") == "CJK"


def test_what_says_the_same_gives_way_to_something_else():
    said = {"a": {"x", "y"}, "b": {"x", "y"}, "c": {"z"}}
    scored = [("a", 0.9), ("b", 0.8), ("c", 0.5)]

    assert [key for key, _ in varied(scored, said.__getitem__, 0.5, 2)] == ["a", "c"]
    assert varied(scored, said.__getitem__, 1.0, 2) == scored[:2]


def test_half_of_a_score_is_left_after_the_half_life_and_the_future_is_new():
    assert decayed(0.8, 30 * 86_400, 30) == 0.4
    assert decayed(0.8, -5, 30) == 0.8


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), unique_by=lambda one: one[0]))
def test_a_list_merged_with_nothing_keeps_its_members(scored: list[tuple[int, float]]):
    assert {key for key, _ in merge(scored, [], 1, 0)} == {key for key, _ in scored}


def test_sources_are_reported_as_configured_and_not_to_a_group_by_itself():
    private, shared = "agent:a:telegram:direct:7", "agent:a:telegram:group:-100"

    assert cites("auto", private) and not cites("auto", shared)
    assert cites("on", shared) and not cites("off", private)


def test_each_entry_keeps_the_origin_that_is_marked_above_it():
    group = "feishu group oc_1, not the owner; session agent:a:feishu:group:oc_1; 2026-03-01"
    marked = f"<!-- from: {group} -->\n- Tom pays.\n```\nopen\n<!-- by hand -->\n"
    text = f"# People\n\n- Mara is ill.\n{marked}- Ann is here.\n"

    found = [(piece.first, piece.text, piece.origin) for piece in pieces_of(text, 400, 0)]

    assert found == [
        (3, "- Mara is ill.", ""), (5, "- Tom pays.\n```\nopen", group), (9, "- Ann is here.", ""),
    ]  # fmt: skip
    assert {piece.heading for piece in pieces_of(text, 400, 0)} == {"People"}
