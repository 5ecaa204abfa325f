"""Tools for many files at once: grep and find. They see what ripgrep sees (``glob``), within a time limit."""

import posixpath
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import regex
from claw import ToolContext, ToolError, ToolResult, tool

from claw_tools_std import glob as globs

MOST_SECONDS = 20.0
MOST_FILE_BYTES = 20_000_000
MOST_LINE_CHARS = 500
MOST_CHARS = 50_000
MOST_PATTERN_CHARS = 10_000
MOST_REPEATS = 100_000
_REPEAT = regex.compile(r"(.)\{\s*(\d+)", regex.DOTALL)


@dataclass
class SearchBudget:
    """The remaining budget of a search: time, matching lines, characters. ``stopped`` says what ran out."""

    matches: int
    chars: int = MOST_CHARS
    deadline: float = field(default_factory=lambda: time.monotonic() + MOST_SECONDS)
    stopped: str = ""

    def seconds_left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            self.stopped = f"stopped after {MOST_SECONDS:g} s"
        return max(left, 0.001)

    def go_on(self) -> bool:
        self.seconds_left()
        return not self.stopped


@tool(effects="none")
def grep(
    ctx: ToolContext,
    pattern: str,
    path: str | None = None,
    glob: str | None = None,
    ignore_case: bool | None = None,
    context: int | None = None,
    limit: int | None = None,
) -> ToolResult:
    """Search files for a regex, line by line, as rg does (ignore files count); glob narrows files."""
    compiled = _compiled(pattern, bool(ignore_case))
    budget = SearchBudget(max(limit or 100, 1))
    around = min(max(context or 0, 0), 20)
    lines: list[str] = []
    found = 0
    for shown, data in _texts(ctx, path or ".", globs.only(glob), budget):
        for block in _blocks(_decoded(data), compiled, around, budget):
            if around and lines:
                lines.append("--")
            for number, line, hit in block:
                mark = ":" if hit else "-"
                lines.append(f"{shown}{mark}{number}{mark}{_short(line)}")
                budget.chars -= len(lines[-1])
                found += hit
        if budget.chars <= 0:
            budget.stopped = budget.stopped or "more matches left out"
        if budget.stopped:
            break
    return _formatted(lines, found, "No matches.", budget, "narrow path, glob or pattern")


@tool(effects="none")
def find(context: ToolContext, pattern: str, path: str | None = None, limit: int | None = None) -> ToolResult:
    """Find files by glob (*.py, src/**/*.ts), as rg --files -g does."""
    budget = SearchBudget(max(limit or 500, 1))
    top = _normalized(path or ".")
    lines: list[str] = []
    for below, _ in globs.files_to_search(
        top, globs.only(pattern), context.files.entries, context.files.read, budget.go_on
    ):
        if budget.matches <= 0 or budget.chars <= 0:
            budget.stopped = f"the first {len(lines)}"
            break
        lines.append(posixpath.join("" if top == "." else top, below))
        budget.matches -= 1
        budget.chars -= len(lines[-1])
    return _formatted(lines, len(lines), "No files.", budget, "narrow path or pattern")


def _formatted(lines: list[str], found: int, nothing: str, budget: SearchBudget, advice: str) -> ToolResult:
    text = "".join(f"{line}\n" for line in lines) or f"{nothing}\n"
    if budget.stopped:
        text += f"[{budget.stopped}; {advice}]\n"
    return ToolResult(text, {"found": found, "stopped": budget.stopped})


def _compiled(pattern: str, ignore_case: bool) -> Any:
    if len(pattern) > MOST_PATTERN_CHARS or _repeats(pattern) > MOST_REPEATS:
        raise ToolError("the pattern is too large, or counts too high: search for less at once")
    try:
        return regex.compile(pattern, regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0))
    except (regex.error, RecursionError) as wrong:
        raise ToolError(
            "the pattern is no regular expression: {wrong}",
            wrong=wrong,
            fix="Put a backslash before ( [ . * + ? when they are meant as they are",
        ) from None


def _repeats(pattern: str) -> float:
    """Return how often its parts are expanded in memory when it is compiled: ``(?:a{9}){9}`` is expanded
    81 times.
    """
    alone, nested = float(len(pattern)), 1.0
    for before, count in _REPEAT.findall(pattern):
        if before in ")}?+*" or before.isspace():  # of a group, or of a repetition
            nested *= max(float(count), 1.0)
        else:
            alone += float(count)
    return alone * nested


def _normalized(path: str) -> str:
    return posixpath.normpath(path)


def _texts(
    context: ToolContext, path: str, wanted: globs.GlobSelection, budget: SearchBudget
) -> Iterator[tuple[str, bytes]]:
    """Yield every text file to search: its path as shown, and its content."""
    top, files = _normalized(path), context.files
    if files.stat(top).kind == "file":
        yield top, files.read(top, MOST_FILE_BYTES)
        return
    for below, _ in globs.files_to_search(top, wanted, files.entries, files.read, budget.go_on):
        shown = posixpath.join("" if top == "." else top, below)
        try:
            data = files.read(shown, MOST_FILE_BYTES)
        except ToolError:  # deleted, or not readable: go on with the others
            continue
        if not budget.go_on():
            return
        yield shown, data


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    end = data.find(b"\0")  # binary from there on: rg stops too
    start = data.rfind(b"\n", 0, end) + 1 if end >= 0 else 0
    return (
        data[: len(data) if end < 0 else _text_end(end, start)]
        .removeprefix(b"\xef\xbb\xbf")
        .decode("utf-8", "replace")
    )


def _text_end(end: int, line_start: int) -> int:
    """Return where rg stops in a file with a NUL: at once when it is in the first 64 KiB, else before the
    NUL's line.
    """
    return 0 if end < 65536 else line_start


def _blocks(text: str, pattern: Any, around: int, budget: SearchBudget) -> list[list[tuple[int, str, bool]]]:
    """Return blocks of (line number, line, is a match), with ``around`` lines of context; adjacent blocks
    are merged.
    """
    if not _may_match(text, pattern, budget):
        return []
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    hits = set(_hits(lines, pattern, budget))
    blocks: list[list[tuple[int, str, bool]]] = []
    for hit in sorted(hits):
        first = max(hit - around, 0)
        if blocks and first <= blocks[-1][-1][0]:
            first = blocks[-1][-1][0]
        else:
            blocks.append([])
        for index in range(first, min(hit + around + 1, len(lines))):
            blocks[-1].append((index + 1, lines[index], index in hits))
    return blocks


def _hits(lines: list[str], pattern: Any, budget: SearchBudget) -> Iterator[int]:
    for index, line in enumerate(lines):
        if _hit(line, pattern, budget):
            if budget.matches <= 0:
                budget.stopped = "more matches left out"
            else:
                budget.matches -= 1
                yield index
        if budget.stopped:
            return


def _may_match(text: str, pattern: Any, budget: SearchBudget) -> bool:
    """Search the whole text once, to skip the lines of most files; for patterns where the result is the
    same.
    """
    if any(part in pattern.pattern for part in ("(?", r"\A", r"\Z", r"\G")):
        return True
    return _hit(text, pattern, budget) or bool(budget.stopped)


def _hit(text: str, pattern: Any, budget: SearchBudget) -> bool:
    try:
        # Lets other threads run meanwhile, and has a timeout: a model's pattern may take exponential time.
        return pattern.search(text, timeout=budget.seconds_left(), concurrent=True) is not None
    except TimeoutError:
        budget.stopped = f"stopped after {MOST_SECONDS:g} s: the pattern takes too long"
        return False


def _short(line: str) -> str:
    line = line.rstrip("\r")
    return line if len(line) <= MOST_LINE_CHARS else f"{line[:MOST_LINE_CHARS]} [...]"
