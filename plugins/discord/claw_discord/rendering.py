"""Conversion of model Markdown into Discord's: tables become code blocks, deep headings become bold text. Pure."""

import re
from collections.abc import Iterator

from claw_channel_sdk import text_width

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_DEEP_HEADING = re.compile(r" {0,3}#{4,6}\s+(.+?)\s*#*\s*")
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_CELL_ENDS = re.compile(r"(?<!\\)\|")


# Start of markup in Discord's Markdown; not an underscore inside a word, nor a single sign of a pair.
_MARK = re.compile(
    r"[\\*`]|~~|\|\||(?<!\w)_|_(?!\w)|<(?=[@#:/atid])|\[(?=[^\]\n]*\]\()|^[ \t]*(?:-#|#{1,3}|>{1,3})(?=\s)",
    re.MULTILINE,
)


def escape_markdown(text: str) -> str:
    """Escape a plain text so that Discord's Markdown shows each character."""
    return _MARK.sub(lambda mark: re.sub(r"(\S)", r"\\\1", mark[0]), text)


def render(text: str) -> str:
    """Convert a text to Discord's Markdown; code blocks stay unchanged."""
    return "\n".join(_lines(text.split("\n")))


def _lines(lines: list[str]) -> Iterator[str]:
    fence, at = "", 0
    while at < len(lines):
        line = lines[at]
        opened = _FENCE.match(line)
        if fence:
            closes = opened and opened[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
        elif opened:
            fence = opened[1]
        elif rows := _table(lines, at):
            yield from ("```", *_aligned([_cells(row) for row in rows if row != lines[at + 1]]), "```")
            at += len(rows)
            continue
        elif deep := _DEEP_HEADING.fullmatch(line):
            line = f"**{deep[1].strip('*')}**"
        yield line
        at += 1


def _table(lines: list[str], at: int) -> list[str]:
    """Return the lines of the table that begins here (header, rule, rows); empty when there is none."""
    if "|" not in lines[at] or at + 1 >= len(lines):
        return []
    rule = lines[at + 1]
    if "|" not in rule or not _RULE.fullmatch(rule) or len(_cells(rule)) != len(_cells(lines[at])):
        return []
    end = at + 2
    while end < len(lines) and "|" in lines[end] and not _FENCE.match(lines[end]):
        end += 1
    return lines[at:end]


def _cells(row: str) -> list[str]:
    inner = row.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in _CELL_ENDS.split(inner)]


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    columns = max(map(len, rows))
    widths = [max(text_width(row[at]) if at < len(row) else 0 for row in rows) for at in range(columns)]
    for number, row in enumerate(rows):
        cells = [cell + " " * (width - text_width(cell)) for cell, width in zip(row, widths, strict=False)]
        yield " | ".join(cells).rstrip()
        if number == 0:
            yield "-+-".join("-" * width for width in widths)
