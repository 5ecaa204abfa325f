"""Command lines: plain words are read as a shell reads them, and everything else is refused."""

import subprocess

import pytest
from claw.errors import ToolError
from claw.guard.command import split_plain
from hypothesis import given, settings, strategies as st

LETTERS = st.sampled_from([*"ab -_./=:,@%+^!#~'\"\t", "中", "é", "$", "\\", "*", ";", "\n"])
QUOTED = st.text(st.sampled_from([*"ab $;|*~#!\\`&", "中"]), max_size=5).map(lambda text: f"'{text}'")
LINES = st.lists(st.text(LETTERS, max_size=6) | QUOTED, min_size=1, max_size=6).map("".join)


@given(line=LINES.map("x ".__add__))
@settings(max_examples=40, deadline=None)
def test_a_shell_reads_the_same_words(line: str) -> None:
    try:
        words = split_plain(line)
    except ToolError:
        return
    shell = subprocess.run(["sh", "-c", rf"printf '%s\0' {line}"], capture_output=True, check=True)
    assert shell.stdout.decode().split("\0")[:-1] == words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ls -la docs", ["ls", "-la", "docs"]),
        ("  git\tcommit -m 'a; b $c' ", ["git", "commit", "-m", "a; b $c"]),
        ('grep --include="*.py" "it\'s"', ["grep", "--include=*.py", "it's"]),
        ("printf '' \"\"", ["printf", "", ""]),
        ("find . ! -name x a#b x=~y~", None),
        ("make CC=gcc a#b a~", ["make", "CC=gcc", "a#b", "a~"]),
        ("echo 你好", ["echo", "你好"]),
    ],
)
def test_plain_words_and_plain_quotes_are_read(line: str, words: list[str] | None) -> None:
    if words is None:
        with pytest.raises(ToolError):
            split_plain(line)
    else:
        assert split_plain(line) == words


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ls; id", ";"), ("ls | wc", "|"), ("ls & id", "&"), ("cat < x", "<"), ("ls > x", ">"), ("echo $HOME", "$"),
        ("echo `id`", "`"), ("echo \"$(id)\"", "$"), ("ls *.py", "*"), ("ls a?", "?"), ("ls [ab]", "["),
        ("echo {a,b}", "{"), ("(ls)", "("), ("ls ~", "~"), ("x --to=~/y", "~"), ("ls a\\ b", "\\"), ("ls # all", "#"),
        ("A=1 ls", "A="),
        ("A+=1 ls", "A+="), ("! ls", "!"), ("while true", "while"), ("ls\nid", "line end"), ("ls\rid", "line end"),
        ("ls 'a\nb'", "line end"), ("ls \x00", "x00"), ("ls\u00a0-l", "xa0"), ("ls \x1b[0m", "x1b"),
        ("ls\u2003x", "u2003"),
    ],
)  # fmt: skip
def test_what_a_shell_would_act_on_is_refused_by_name(line: str, named: str) -> None:
    with pytest.raises(ToolError) as refused:
        split_plain(line)
    assert named in str(refused.value) and "tools.exec.mode: full" in str(refused.value)


@pytest.mark.parametrize("line", ["", "  ", "''", "' ' x", "ls 'a", 'ls "a'])
def test_a_line_without_a_program_or_with_an_open_quote_is_refused(line: str) -> None:
    with pytest.raises(ToolError):
        split_plain(line)
