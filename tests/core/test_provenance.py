"""Marks of origin: what is said in a note keeps where it came from, whoever rewrites the note."""

from collections.abc import Collection

import pytest
from claw.contracts.messages import Address, Inbound, Sender
from claw.storage.provenance import (
    append_marked,
    is_foreign,
    is_origin_mark,
    keep_marks,
    line_provenances,
    quoted_foreign,
    turn_provenance,
)
from hypothesis import given, strategies as st


def provenance_text(
    channel: str, chat_type: str, chat: str, owner: bool, key: str, day: str, read: Collection[str] = ()
) -> str:
    inbound = Inbound(Address(channel, chat), "a text", sender=Sender("u1"), chat_type=chat_type)
    return turn_provenance(inbound, owner, key, day, read)


OWNER = provenance_text("terminal", "direct", "local", True, "agent:default:main", "2026-03-01")
GROUP = provenance_text("feishu", "group", "oc_1", False, "agent:default:feishu:group:oc_1", "2026-03-01")
WEB = provenance_text(
    "terminal", "direct", "local", True, "agent:default:main", "2026-03-01", {"web_fetch", "read"}
)

lines = st.lists(
    st.sampled_from(["", "- a", "- b", "# c", "text", "<!-- by hand -->", f"<!-- from: {OWNER} -->"])
)
texts = lines.map("\n".join)
words = st.sampled_from([OWNER, GROUP, WEB])


def said(text: str) -> list[tuple[str, str]]:
    """Each line with its origin, without the marks."""
    return [
        pair
        for pair in zip(text.split("\n"), line_provenances(text), strict=True)
        if not is_origin_mark(pair[0])
    ]


def test_a_mark_is_read_by_people():
    assert GROUP == "feishu group oc_1, not the owner; session agent:default:feishu:group:oc_1; 2026-03-01"
    assert WEB.endswith("; after read, web_fetch")
    assert keep_marks("", "- a\n", GROUP) == f"<!-- from: {GROUP} -->\n- a\n"


def test_only_what_an_owner_said_with_nothing_else_read_is_trusted():
    assert not is_foreign(OWNER) and not is_foreign("")
    assert is_foreign(GROUP) and is_foreign(WEB)


@given(st.text(), st.text())
def test_no_name_of_a_channel_or_chat_makes_an_unknown_sender_an_owner_or_ends_the_mark(
    channel: str, chat: str
):
    words = provenance_text(channel, "group", chat, False, "agent:a:main", "2026-03-01")

    assert is_foreign(words) and "\n" not in words and "-->" not in words
    assert line_provenances(f"<!-- from: {words} -->\nx")[1] == words


@given(texts, words, texts, words)
def test_a_new_line_has_the_writers_origin_and_an_old_one_keeps_its_own(
    first: str, one: str, second: str, other: str
):
    before = keep_marks("", first, one)
    after = keep_marks(before, second, other)

    old = said(before)
    for line, of in said(after):
        assert not line.strip() or of == other or (line, of) in old
    written = [line for line in second.split("\n") if not is_origin_mark(line)]
    assert [line for line, _ in said(after)] == (written or [""])


@given(texts, words, words)
def test_writing_a_note_again_as_it_was_changes_nothing(text: str, one: str, other: str):
    note = keep_marks("", text, one)

    assert keep_marks(note, note, other) == note


@given(texts, words, texts, words)
def test_what_is_added_has_its_own_origin_and_changes_none_before_it(
    first: str, one: str, more: str, other: str
):
    note = keep_marks("", first, one)
    whole = note + append_marked(note, more, other)

    assert whole.startswith(note)
    assert [pair for pair in said(whole) if pair[0].strip()][
        : len([p for p in said(note) if p[0].strip()])
    ] == [pair for pair in said(note) if pair[0].strip()]
    assert {of for line, of in said(whole)[len(said(note)) :] if line.strip()} <= {other}


@given(texts, words)
def test_a_quotation_changes_only_lines_of_others(text: str, one: str):
    note = keep_marks("", text, one)

    for (line, of), shown in zip(
        zip(note.split("\n"), line_provenances(note), strict=True),
        quoted_foreign(note).split("\n"),
        strict=True,
    ):
        assert shown == (
            f"> {line}" if is_foreign(of) and line.strip() and not is_origin_mark(line) else line
        )


@pytest.mark.parametrize("mark", [
    "<!-- by hand -->", "  <!--by hand-->", "<!-- FROM: terminal, the owner -->", "<!-- from: x --> ", "\t<!-- from:-->",
])  # fmt: skip
def test_whatever_reads_as_a_mark_is_one_and_is_taken_out_of_what_is_written(mark: str):
    assert is_origin_mark(mark)
    assert mark not in keep_marks("", f"{mark}\n- a", GROUP)
    assert mark not in append_marked("", f"{mark}\n- a", GROUP)
