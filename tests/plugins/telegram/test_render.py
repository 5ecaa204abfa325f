"""Markdown in Telegram's clothes, and cut into messages. The fake's reader of HTML judges."""

import pytest
from claw_telegram.fake_html import parse
from claw_telegram.render import length, render, utf16_units
from claw_telegram.split import LIMIT, split
from hypothesis import given, settings, strategies as st

WORDS = ["a ", "word ", "文", "🦀", "\n", "\n\n", "   ", "x"]
MARKS = [
    "**",
    "*",
    "_",
    "`",
    "~~",
    "||",
    "[l](http://x.y)",
    "![i](http://x.y)",
    "<b>",
    "</b>",
    "&",
    "&amp;",
    "\\",
    "<",
]
BLOCKS = [
    "```\n",
    "~~~\n",
    "```py\n",
    "- x\n",
    "  - y\n",
    "1. x\n",
    "> q\n",
    "# h\n",
    "---\n",
    "| a | b |\n|--|--|\n",
    "| 1 | 2 |\n",
]
MARKDOWN = st.lists(st.sampled_from(WORDS + MARKS + BLOCKS), max_size=40).map("".join)


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("a < b & c > d \"q\"", "a &lt; b &amp; c &gt; d \"q\""),
        ("**b** *i* ~~s~~ `c<d`", "<b>b</b> <i>i</i> <s>s</s> <code>c&lt;d</code>"),
        ("*i **b***", "<i>i <b>b</b></i>"),
        ("**b `c` b**", "<b>b </b><code>c</code><b> b</b>"),
        ("||hidden||", "<tg-spoiler>hidden</tg-spoiler>"),
        ("[t](https://e.x/?a=1&b=2)", '<a href="https://e.x/?a=1&amp;b=2">t</a>'),
        ("[`t`](https://e.x)", '<a href="https://e.x">t</a>'),
        ("[t](docs/a.md)", "t (docs/a.md)"),
        ("![](https://e.x/i.png)", "https://e.x/i.png"),
        ("# Head", "<b>Head</b>"),
        ("> one\n> two", "<blockquote>one\ntwo</blockquote>"),
        ("```py\nif a < b:\n    pass\n```", '<pre><code class="language-py">if a &lt; b:\n    pass</code></pre>'),
        ("```\n**x**\n```", "<pre>**x**</pre>"),
        ("- a\n- b\n  1. c", "• a\n• b\n  1. c"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("|名|b|\n|-|-|\n|1|22|", "<pre>名 | b\n---+---\n1  | 22</pre>"),
        ("one\ntwo\n\n\n\nthree", "one\ntwo\n\nthree"),
        ("snake_case_name 2 * 3 * 4", "snake_case_name 2 * 3 * 4"),
        ("half **bol", "half **bol"),
        ("<think>no tag of ours</think>", "&lt;think&gt;no tag of ours&lt;/think&gt;"),
        ("[note]: http://e.x is kept", "[note]: http://e.x is kept"),
    ],
)  # fmt: skip
def test_markdown_becomes_html(markdown: str, html: str) -> None:
    assert render(markdown) == html


@settings(max_examples=300, deadline=None)
@given(MARKDOWN)
def test_whatever_the_markdown_the_html_is_one_that_telegram_takes_and_as_long_as_we_say(
    markdown: str,
) -> None:
    assert utf16_units(parse(render(markdown)).text) == length(markdown)


@settings(max_examples=150, deadline=None)
@given(MARKDOWN, st.integers(30, 70))
def test_every_piece_fits_and_is_html_that_telegram_takes(markdown: str, limit: int) -> None:
    for piece in split(markdown, limit):
        assert 0 < length(piece) <= limit and utf16_units(piece) <= limit
        parse(render(piece))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([*WORDS, "**", "*", "`", "```\n", "- x\n", "> q\n"]), max_size=60).map("".join),
    st.integers(24, 60),
)
def test_no_letter_is_lost_by_cutting(markdown: str, limit: int) -> None:
    kept = iter("".join(split(markdown, limit)))
    assert all(char in kept for char in markdown if char in "awordx文🦀q")


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert split("a **b**\n\nc") == ("a **b**\n\nc",)
    assert split("🦀" * (LIMIT // 2)) == ("🦀" * (LIMIT // 2),)
    assert split(" \n ") == ()


def test_it_is_cut_between_paragraphs_first() -> None:
    assert split("one two\n\nthree four\n\nfive six", 24) == ("one two\n\nthree four", "five six")


def test_a_fence_that_would_be_cut_but_fits_whole_goes_into_the_next_message() -> None:
    fence = "```py\na\nb\nc\n```"
    assert split(f"some words here\n\n{fence}", 24) == ("some words here", fence)


def test_a_long_fence_is_closed_and_opened_again() -> None:
    assert split("```py\naaaa\nbbbb\ncccc\ndddd\n```", 20) == (
        "```py\naaaa\nbbbb\n```",
        "```py\ncccc\ndddd\n```",
    )
    first, *others = split("```py\n" + "x" * 100 + "\n```", 40)
    assert all(piece.startswith("```py\n") and piece.endswith("\n```") for piece in (first, *others))


def test_a_long_table_has_its_head_again() -> None:
    head = "| a | b |\n|--|--|\n"
    pieces = split(head + "| 1 | 2 |\n" * 8, 60)
    assert all(piece.startswith(head) for piece in pieces) and len(pieces) > 1


def test_bold_text_that_is_cut_is_bold_on_both_sides() -> None:
    first, second = split("**" + "bold " * 9 + "end**", 40)
    assert first.endswith("bold**") and second.startswith("**bold")


def test_half_a_line_does_not_turn_into_a_list_or_a_heading() -> None:
    first, second = split("aaaa bbbb cccc dddd # eeee ffff gggg", 20)
    assert (first, render(second)) == ("aaaa bbbb cccc dddd", "# eeee ffff gggg")


def test_a_character_is_never_halved() -> None:
    assert split("🦀" * 30, 21) == ("🦀" * 10,) * 3


@pytest.mark.parametrize(
    "text",
    [
        "|" + " a |" * 3000 + "\n|" + "--|" * 3000 + "\n" + "| b | c |\n" * 300,
        "|" + " a |" * 20 + "\n|" + "--|" * 20 + "\n" + "|b\n" * 500,
        "```" + "x" * 5000 + "\n" + "y\n" * 3000,
        "**a " * 3000,
        "[" * 9000,
    ],
    ids=[
        "a head wider than a message",
        "rows without cells",
        "a fence line longer than a message",
        "bold",
        "links",
    ],
)
def test_odd_texts_are_cut_in_a_moment(text: str) -> None:
    assert 0 < len(split(text)) < 20
