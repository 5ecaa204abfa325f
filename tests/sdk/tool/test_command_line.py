"""Command lines: plain words, and what joins plain commands, are read as a shell reads them; all else is refused."""

import shlex
import subprocess

import pytest
from claw.contracts.errors import ToolError
from claw_tool_sdk import CommandStep, split_commands, split_single_command
from hypothesis import given, settings, strategies as st

LETTERS = st.sampled_from([*"ab -_./=:,@%+^!#~'\"\t", "中", "é", "$", "\\", "*", ";", "\n"])
QUOTED = st.text(st.sampled_from([*"ab $;|*~#!\\`&", "中"]), max_size=5).map(lambda text: f"'{text}'")
LINES = st.lists(st.text(LETTERS, max_size=6) | QUOTED, min_size=1, max_size=6).map("".join)


@given(line=LINES.map("x ".__add__))
@settings(max_examples=40, deadline=None)
def test_a_shell_reads_the_same_words(line: str) -> None:
    try:
        words = split_single_command(line)
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
        (r"ls a\ b \$HOME \\ c\;d \~ \'", ["ls", "a b", "$HOME", "\\", "c;d", "~", "'"]),
    ],
)
def test_plain_words_and_plain_quotes_are_read(line: str, words: list[str] | None) -> None:
    if words is None:
        with pytest.raises(ToolError):
            split_single_command(line)
    else:
        assert split_single_command(line) == words


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("ls; id", ";"), ("ls | wc", "|"), ("ls & id", "&"), ("cat < x", "<"), ("ls > x", ">"), ("echo $HOME", "$"),
        ("echo `id`", "`"), ("echo \"$(id)\"", "$"), ("ls *.py", "*"), ("ls a?", "?"), ("ls [ab]", "["),
        ("echo {a,b}", "{"), ("(ls)", "("), ("ls ~", "~"), ("x --to=~/y", "~"), ("ls \"a\\ b\"", "\\"),
        ("ls a\\", "\\"), ("ls # all", "#"),
        ("A=1 ls", "A="),
        ("A+=1 ls", "A+="), ("! ls", "!"), ("while true", "while"), ("ls\nid", "line break"), ("ls\rid", "line break"),
        ("ls 'a\nb'", "line break"), ("ls \x00", "x00"), ("ls\u00a0-l", "xa0"), ("ls \x1b[0m", "x1b"),
        ("ls\u2003x", "u2003"),
    ],
)  # fmt: skip
def test_what_a_shell_would_act_on_is_refused_by_name(line: str, named: str) -> None:
    with pytest.raises(ToolError) as refused:
        split_single_command(line)
    assert named in str(refused.value) and "tools.exec.mode: full" in str(refused.value)


@pytest.mark.parametrize("line", ["", "  ", "''", "' ' x", "ls 'a", 'ls "a'])
def test_a_line_without_a_program_or_with_an_open_quote_is_refused(line: str) -> None:
    with pytest.raises(ToolError):
        split_single_command(line)


JOINED = st.lists(
    st.tuples(
        LINES.map("printf %s\\\\0 ".__add__), st.sampled_from([";", "&&", "||", "|", "&", ";;", "|&", ""])
    ),
    min_size=1,
    max_size=4,
).map(lambda pieces: "".join(f"{line}{join}" for line, join in pieces))


@given(line=JOINED)
@settings(max_examples=60, deadline=None)
def test_a_shell_starts_the_same_commands(line: str) -> None:
    """Each step, written out in quotes alone, makes a line that does the same."""
    try:
        steps = split_commands(line)
    except ToolError:
        return
    again = " ".join(f"{shlex.join(step.words)} {step.then}" for step in steps)
    one, other = (
        subprocess.run(["bash", "-c", each], capture_output=True, check=False) for each in (line, again)
    )
    assert (one.returncode, one.stdout) == (other.returncode, other.stdout)
    # commands of a pipe speak in any order
    assert sorted(one.stderr.splitlines()) == sorted(other.stderr.splitlines())


def test_a_line_is_read_into_its_commands() -> None:
    line = "git log --oneline|head -n 5 && echo 'a; b' || true ; wc -l"
    assert split_commands(line) == (
        CommandStep(("git", "log", "--oneline"), "|"),
        CommandStep(("head", "-n", "5"), "&&"),
        CommandStep(("echo", "a; b"), "||"),
        CommandStep(("true",), ";"),
        CommandStep(("wc", "-l")),
    )


@pytest.mark.parametrize(
    "line",
    ["ls &", "ls & id", "ls |& wc", "ls ;; id", "ls &&& id", "ls ||| id", "| wc", "ls |", "ls ;", "ls && ; id",
     "ls | !id",
     "ls && A=1 id", "ls | while true", "ls &> x", "ls; then", "ls;\nid"],
)  # fmt: skip
def test_a_line_that_a_shell_reads_in_another_way_is_refused(line: str) -> None:
    with pytest.raises(ToolError):
        split_commands(line)


def test_a_word_of_any_length_is_read() -> None:
    assert split_single_command("echo " + "a=''" * 100_000) == ["echo", "a=" * 100_000]
