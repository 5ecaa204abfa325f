"""Texts cut into messages: nothing is lost, nothing is too long, code stays code."""

import re

import pytest
from claw.contracts.channel import ChannelLimits
from claw_channel_sdk.splitting import BlockSettings, BlockSplitter, split_text
from hypothesis import given, strategies as st

LETTERS = st.text(st.characters(codec="utf-8", exclude_characters="`~()"), max_size=120)
WORD = st.from_regex(r"[a-z]{1,9}|😀|中文", fullmatch=True)
LINE = st.lists(WORD, min_size=1, max_size=12).map(" ".join)
PROSE = st.lists(LINE, min_size=1, max_size=6).map("\n".join)


@st.composite
def code(draw):
    """A fenced block, now and then in a list, with shorter fences inside."""
    mark = draw(st.sampled_from(["```", "~~~", "````"]))
    opening = draw(st.sampled_from(["", "  "])) + mark + draw(st.sampled_from(["", "py", "json title"]))
    inner = st.sampled_from(["", "    if x:", "```py" if mark == "~~~" else "~~~", "``"])
    lines = draw(st.lists(LINE | inner, max_size=12))
    return "\n".join([opening, *lines, mark])


ANSWERS = st.lists(PROSE | code(), min_size=1, max_size=6).map("\n\n".join)
LIMITS = st.builds(ChannelLimits, text_chars=st.integers(40, 300), utf16=st.booleans())


def size(text: str, limits: ChannelLimits) -> int:
    return len(text.encode("utf-16-le")) // 2 if limits.utf16 else len(text)


def letters(text: str) -> str:
    return "".join(text.split())


def opened_at_end(piece: str) -> str:
    """The marks of the fence that is open at the end of a text; empty when none is."""
    marks = ""
    for line in piece.splitlines():
        if found := re.match(r"[ \t]*(`{3,}|~{3,})(.*)", line):
            if not marks and not (found[1][0] == "`" and "`" in found[2]):
                marks = found[1]
            elif marks and found[1].startswith(marks) and not found[2].strip():
                marks = ""
    return marks


class TestAWholeAnswer:
    @given(LETTERS, st.builds(ChannelLimits, text_chars=st.integers(2, 40), utf16=st.booleans()))
    def test_of_plain_prose_every_letter_comes_through_in_order_and_fits(self, text, limits):
        for mode in ("plain", "markdown", "paragraph"):
            pieces = split_text(text, limits, mode)
            assert letters("".join(pieces)) == letters(text)
            assert all(0 < size(piece, limits) <= limits.text_chars for piece in pieces)
            assert all(piece.strip() for piece in pieces)

    @given(ANSWERS, LIMITS)
    def test_every_piece_fits_and_closes_the_code_that_it_opens(self, text, limits):
        for mode in ("markdown", "paragraph"):
            for piece in split_text(text, limits, mode):
                assert size(piece, limits) <= limits.text_chars
                assert opened_at_end(piece) == ""

    @given(ANSWERS, LIMITS)
    def test_what_was_said_comes_through_code_and_all(self, text, limits):
        pieces = split_text(text, limits)
        fence = re.compile(r"^[ \t]*(`{3,}|~{3,}).*$", re.M)
        assert letters("".join(fence.sub("", piece) for piece in pieces)) == letters(fence.sub("", text))

    @given(st.text(max_size=80), st.integers(1, 9), st.booleans())
    def test_any_text_ends_in_pieces_that_fit(self, text, most, utf16):
        limits = ChannelLimits(text_chars=most, utf16=utf16)
        for piece in split_text(text, limits):
            assert size(piece, limits) <= max(most, 2 if utf16 else 1)

    def test_code_keeps_its_indent_and_its_blank_lines_over_a_cut(self):
        body = "def f():\n    if x:\n\n        return 1\n    return 2"
        pieces = split_text(f"```py\n{body}\n```", ChannelLimits(text_chars=30))
        inner = [piece.removeprefix("```py\n").removesuffix("```") for piece in pieces]
        assert len(pieces) > 1
        assert "".join(inner) == body + "\n"

    def test_code_that_just_fits_leaves_no_empty_block_behind(self):
        pieces = split_text("```\nabcdef\n```\nand so on and on", ChannelLimits(text_chars=14))
        assert pieces == ("```\nabcdef\n```", "and so on and", "on")

    def test_a_short_answer_stays_as_it_is_and_a_blank_one_is_none(self):
        assert split_text(" a\n", ChannelLimits(text_chars=4)) == (" a\n",)
        assert split_text(" \n ", ChannelLimits()) == ()
        assert split_text("", ChannelLimits()) == ()

    def test_utf16_counts_an_emoji_twice_and_never_halves_it(self):
        assert split_text("😀😀😀", ChannelLimits(text_chars=4, utf16=True)) == ("😀😀", "😀")
        assert split_text("😀😀😀", ChannelLimits(text_chars=3, utf16=True)) == ("😀", "😀", "😀")

    def test_an_accent_and_a_joined_emoji_stay_with_their_letter(self):
        assert split_text("xxe\u0301y", ChannelLimits(text_chars=3)) == ("xx", "e\u0301y")
        family = "👨\u200d👩\u200d👧"
        assert split_text("ab" + family, ChannelLimits(text_chars=5)) == ("ab", family)

    def test_paragraphs_are_messages_of_their_own_but_not_inside_of_code(self):
        text = "one\n\ntwo\nthree\n \n```\na\n\nb\n```"
        assert split_text(text, ChannelLimits(), "paragraph") == ("one", "two\nthree", "```\na\n\nb\n```")

    def test_a_fence_without_end_is_closed_at_each_cut(self):
        pieces = split_text("```\n" + "x\n" * 20, ChannelLimits(text_chars=20))
        assert [opened_at_end(piece) for piece in pieces[:-1]] == [""] * (len(pieces) - 1)

    def test_a_code_span_of_three_marks_on_one_line_opens_nothing(self):
        text = "```inline``` and then " + "word " * 10
        assert all("```" not in piece for piece in split_text(text, ChannelLimits(text_chars=30))[1:])


class TestAnAnswerThatStreamsIn:
    @given(ANSWERS, st.integers(1, 40), st.sampled_from(["paragraph", "newline", "sentence"]), st.booleans())
    def test_however_it_comes_it_goes_out_whole_in_blocks_that_fit(self, text, step, prefer, each):
        blocks = BlockSplitter(BlockSettings(40, 90, prefer, each))

        gone = [
            block for start in range(0, len(text), step) for block in blocks.feed(text[start : start + step])
        ]
        gone += blocks.finish()

        fence = re.compile(r"^[ \t]*(`{3,}|~{3,}).*$", re.M)
        assert letters("".join(fence.sub("", block) for block in gone)) == letters(fence.sub("", text))
        assert all(len(block) <= 90 and opened_at_end(block) == "" for block in gone)

    @given(st.lists(LINE, min_size=1, max_size=30).map("\n\n".join), st.integers(1, 30))
    def test_no_block_but_the_last_is_smaller_than_the_minimum(self, text, step):
        blocks = BlockSplitter(BlockSettings(50, 120))
        gone = [
            block for start in range(0, len(text), step) for block in blocks.feed(text[start : start + step])
        ]
        assert all(len(block) >= 50 for block in gone)

    def test_a_block_goes_as_soon_as_a_paragraph_ends_behind_the_minimum(self):
        blocks = BlockSplitter(BlockSettings(10, 100))
        assert blocks.feed("A paragraph.") == ("A paragraph.",)
        assert blocks.feed("\n\nThe next") == ()
        assert blocks.finish() == ("The next",)

    def test_each_paragraph_goes_however_short(self):
        blocks = BlockSplitter(BlockSettings(500, 900, each_paragraph=True))
        assert blocks.feed("a\n\nb\n") == ("a",)
        assert blocks.feed("\n\nc") == ("b",)
        assert blocks.finish() == ("c",)

    @pytest.mark.parametrize("prefer", ["paragraph", "sentence"])
    def test_chinese_sentences_end_blocks_too(self, prefer):
        assert BlockSplitter(BlockSettings(4, 20, prefer)).feed("你好，世界。我在") == ("你好，世界。",)

    def test_code_is_not_parted_before_the_maximum_is_reached(self):
        blocks = BlockSplitter(BlockSettings(10, 60))
        assert blocks.feed("```\nline one\n\nline two\n") == ()
        assert blocks.feed("```\n\nDone.") == ("```\nline one\n\nline two\n```",)
