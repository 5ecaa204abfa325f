"""A note as the entries it consists of: list items, paragraphs, each under its heading. Pure.

What was noted on one day has little in common, so that a piece of many lines would mean everything and nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_HEADING = re.compile(r"#{1,6}\s+\S")
ITEM = re.compile(r"^([-*+]|\d{1,9}[.)])\s")
_FENCE = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Entry:
    """Whole lines that belong together.

    :param first: number of its first line, from 1.
    :param heading: the line above that it stands under, without its marks; empty when there is none.
    """

    first: int
    heading: str
    text: str


def entries(text: str) -> Iterator[Entry]:
    """Every entry, in order. A list item holds what is indented below it; a fenced block is never parted; a heading is
    an entry only when nothing follows it."""
    heading, heading_at = "", 0
    held: list[str] = []
    first, fence = 1, ""
    for number, line in enumerate((*text.split("\n"), "# end"), 1):
        if not fence and (_HEADING.match(line) or ITEM.match(line) or not line.strip()):
            if held:
                yield Entry(first, heading, "\n".join(held))
                heading_at = 0
            held = []
        if not fence and _HEADING.match(line):
            if heading_at:
                yield Entry(heading_at, "", heading)
            heading, heading_at = line.lstrip("#").strip(), number
            continue
        if found := _FENCE.match(line):
            fence = found[1] if not fence else "" if found[1] == fence else fence
        if line.strip() or fence:
            first = first if held else number
            held.append(line)
    if held:  # a fence that never ends
        yield Entry(first, heading, "\n".join(held[:-1]))
