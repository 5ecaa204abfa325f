"""Programs that only read, and only files of this agent: their list, and their arguments that are refused."""

import posixpath
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
# Long options of any reader that only read. Others are refused, also abbreviations: GNU programs accept
# those.
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
# Options by which a reader writes, sets, starts a program, follows links, or reads the names of further files; and
# those whose value is a file, if they do not come first in a cluster: a value is only recognized behind the first
# letter.
_REFUSED = {
    "date": re.compile(r"-[a-zA-Z]*[sf].*|-[a-ce-zA-HJ-Z]+r.*"),
    "diff": re.compile(r"-[a-zA-Z0-9]*[rl].*|-[a-zA-Z0-9]+[XS].*|--recursive"),
    # they take --files for --files0-from
    "du": re.compile(r"-[a-zA-Z0-9]*[LDH].*|-[a-zA-Z0-9]+X.*|--files.*"),
    "file": re.compile(r"-[a-zA-Z0-9]*[CzZfmLE].*|--files.*"),
    "find": re.compile(r"-(exec|execdir|ok|okdir|delete|fprint|fprint0|fprintf|fls|files0-from|follow|L|H)"),
    "grep": re.compile(r"-[a-zA-Z0-9]*R.*|-[a-df-zA-Z0-9]+f.*"),
    "ls": re.compile(r"-[a-zA-Z0-9]*L.*"),
    "md5sum": re.compile(r"-[a-zA-Z]*c.*"),
    "rg": re.compile(r"-[a-zA-Z0-9.]*[Lz].*|-((?![degjmrtABCEMT])[a-zA-Z0-9.])+f.*"),
    "sha1sum": re.compile(r"-[a-zA-Z]*c.*"),
    "sha256sum": re.compile(r"-[a-zA-Z]*c.*"),
    "sort": re.compile(r"-[a-zA-Z0-9]*[oT].*|--files.*"),
    "tree": re.compile(r"-[a-zA-Z0-9]*[olR].*"),
    "wc": re.compile(r"--files.*"),
}


def check_reader(words: Sequence[str], context: ToolContext, folder: str = ".") -> None:
    """Refuse a command of a reader that does more than read inside the workspace.

    :param folder: where it is started, as the model wrote it.
    :raises ToolError: it may do more.
    """
    name, refused = words[0], _REFUSED.get(words[0])
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
        _check_inside(name, path, context, folder)
    if name == "uniq" and len(_operands(words)) > 1:
        raise ToolError("uniq with two files writes the second one", where="tools.exec.allow")
    if name == "date" and any(map(_sets_clock, words, words[1:])):
        raise ToolError("date with a time sets the clock", where="tools.exec.allow")


def _operands(words: Sequence[str]) -> list[str]:
    """Return the words that are not options; ``-`` (stdin) and all words behind ``--`` are not options
    either.
    """
    rest = list(words[1:])
    end = rest.index("--") if "--" in rest else len(rest)
    return [word for word in rest[:end] if word == "-" or not word.startswith("-")] + rest[end + 1 :]


def _sets_clock(before: str, word: str) -> bool:
    return not word.startswith(("+", "-")) and not re.fullmatch(r"-[a-zA-Z]*[dr]", before)


def _paths(words: Sequence[str]) -> list[str]:
    """Return the words of a reader that may be paths: operands, and values of options."""
    name, rest = words[0], words[1:]
    if name in _WORDS_ONLY:
        return []
    found = _operands(words)
    if name in ("grep", "rg") and not any(re.fullmatch(r"--.+|-[A-Za-z0-9.]*[ef].*", word) for word in rest):
        found = found[1:]  # the first one is the pattern
    for word in rest:
        a_delimiter = name in ("cut", "join", "paste", "sort") and re.match(r"-[dt]", word)  # may be a slash
        if word.startswith("-") and not a_delimiter:
            found += [word.partition("=")[2], "" if word.startswith("--") else word[2:]]
    return [path for path in found if path]


def _is_there(workspace: Path, path: str) -> bool:
    """Return true if a word that is no file of the agent is a name on the disk all the same.

    No link is followed: one over ``/proc/self`` leads the program elsewhere than claw.
    """
    whole = workspace / path
    links = (place.is_symlink() for place in (whole, *whole.parents) if place.is_relative_to(workspace))
    return any(links) or whole.exists()


def _check_inside(program: str, path: str, context: ToolContext, folder: str) -> None:
    """Refuse a word that names something outside of the workspace, by ``..``, from the root, or through a
    link.
    """
    there = posixpath.join(folder, path)
    try:
        kind = context.files.stat(there).kind
    except ToolError:
        leads_out = path.startswith(("/", "~")) or ".." in path.split("/")
        if leads_out or _is_there(Path(context.files.workspace), there):
            raise ToolError(
                "{program} may only look at files of this agent, and {path} is none",
                program=program,
                path=path,
            ) from None
        return
    if program == "diff" and kind == "dir":
        raise ToolError("in a folder diff follows links: name two files", where="tools.exec.allow")
