"""Programs that only look, and only at files of this agent: which these are, and what of theirs is refused."""

import re
from collections.abc import Sequence
from pathlib import Path

from claw import ToolContext, ToolError

READERS = frozenset({
    "basename", "cat", "cmp", "comm", "cut", "date", "df", "diff", "dirname", "du", "echo", "expr", "false", "file",
    "find", "grep", "head", "id", "join", "ls", "md5sum", "nl", "od", "paste", "printf", "pwd", "realpath", "rg", "seq",
    "sha1sum", "sha256sum", "sort", "stat", "tail", "tr", "tree", "true", "uname", "uniq", "uptime", "wc", "which",
    "whoami",
})  # fmt: skip
# Readers whose words are no paths.
_WORDS_ONLY = frozenset({"basename", "dirname", "echo", "expr", "false", "printf", "seq", "tr", "true"})
# Long options that only look, of any reader. Others are refused, abbreviated ones too: GNU programs understand those.
_LONG_OPTIONS = frozenset(
    [
        "--after-context",
        "--all",
        "--almost-all",
        "--before-context",
        "--brief",
        "--bytes",
        "--color",
        "--colour",
        "--context",
        "--count",
        "--exclude",
        "--exclude-dir",
        "--extended-regexp",
        "--files",
        "--files-with-matches",
        "--files-without-match",
        "--fixed-strings",
        "--glob",
        "--help",
        "--hidden",
        "--human-readable",
        "--iglob",
        "--ignore-case",
        "--include",
        "--invert-match",
        "--iso-8601",
        "--line-number",
        "--lines",
        "--max-count",
        "--max-depth",
        "--no-filename",
        "--no-heading",
        "--no-ignore",
        "--null",
        "--numeric-sort",
        "--only-matching",
        "--recursive",
        "--reverse",
        "--sort",
        "--summarize",
        "--time-style",
        "--total",
        "--type",
        "--unified",
        "--unique",
        "--utc",
        "--version",
        "--with-filename",
        "--word-regexp",
        "--words",
    ]
)
# Short options by which a reader writes, sets, starts a program, follows links, or reads the names of further files.
_SHORT_OPTIONS = {
    "date": re.compile(r"-[a-zA-Z]*[sf].*"),
    "diff": re.compile(r"-[a-zA-Z]*[rl].*"),
    "du": re.compile(r"-[a-zA-Z]*[LDH].*"),
    "file": re.compile(r"-[a-zA-Z]*[CzZfmLE].*"),
    "find": re.compile(r"-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls|files0-from|follow|L|H)"),
    "grep": re.compile(r"-[a-zA-Z]*R.*"),
    "rg": re.compile(r"-[a-zA-Z]*[Lz].*"),
    "sort": re.compile(r"-[a-zA-Z]*[oT].*"),
    "tree": re.compile(r"-[a-zA-Z]*[olR].*"),
}


def check_reader(words: Sequence[str], context: ToolContext) -> None:
    """Hold a reader to what it is for: looking, inside the fence."""
    name, refused = words[0], _SHORT_OPTIONS.get(words[0])
    for word in words[1:]:
        long = word.startswith("--") and word != "--" and word.partition("=")[0] not in _LONG_OPTIONS
        if name not in _WORDS_ONLY and (long or (refused and refused.fullmatch(word))):
            raise ToolError(
                "{program} {option} may do more than look",
                where="tools.exec.allow",
                fix="Leave it out; or an operator can add {program} there",
                program=name,
                option=word,
            )
    for path in _paths(words):
        _check_inside(name, path, context)
    if name == "uniq" and len([word for word in words[1:] if not word.startswith("-")]) > 1:
        raise ToolError("uniq with two files writes the second one", where="tools.exec.allow")


def _paths(words: Sequence[str]) -> list[str]:
    """What in the words of a reader may be a path: operands, and values of options."""
    name, rest = words[0], words[1:]
    if name in _WORDS_ONLY:
        return []
    if name in ("grep", "rg") and not any(re.fullmatch(r"--.+|-[A-Za-z0-9]*[ef].*", word) for word in rest):
        pattern = next(
            (word for word in rest if not word.startswith("-")), None
        )  # the first operand is no file
        rest = [word for word in rest if word is not pattern]
    found = []
    for word in rest:
        if not word.startswith("-"):
            found.append(word)
        elif not (
            name in ("cut", "join", "paste", "sort") and re.match(r"-[dt]", word)
        ):  # a delimiter may be a slash
            found += [word.partition("=")[2], "" if word.startswith("--") else word[2:]]
    return [path for path in found if path]


def _check_inside(program: str, path: str, context: ToolContext) -> None:
    """Refuse a word that names something outside of the fence, by ``..``, from the root, or through a link."""
    try:
        context.files.stat(path)
    except ToolError:
        leads_out = path.startswith(("/", "~")) or ".." in path.split("/")
        if leads_out or (Path(context.files.workspace) / path).exists():
            raise ToolError(
                "{program} may only look at files of this agent, and {path} is none",
                program=program,
                path=path,
            ) from None
