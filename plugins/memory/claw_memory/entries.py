"""Split a note into entries: list items and paragraphs, each under its heading. Pure.

The notes of one day have little in common: the vector of a chunk of many lines would match everything and
nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from claw.runtime import is_origin_mark, line_provenances

from claw_memory.cutting import cut

_HEADING = re.compile(r"#{1,6}\s+\S")
_ITEM = re.compile(r"^([-*+]|\d{1,9}[.)])\s")
_FENCE = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class NoteEntry:
    """Lines that belong together.

    :param first: number of its first line, from 1.
    :param heading: the heading above it, without its marks; empty when there is none.
    """

    first: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class NotePiece:
    """The unit of the index: an entry, or a part of a long one.

    :param first: its first line; ``last``: its last one, inclusive.
    :param origin: provenance of the words, as claw marked them; empty for a person's own.
    """

    first: int
    last: int
    heading: str
    text: str
    origin: str = ""

    @property
    def indexed(self) -> str:
        """The text that is searched."""
        return indexed(self.heading, self.text)


def pieces_of(text: str, chunk_tokens: int, overlap_tokens: int) -> Iterator[NotePiece]:
    """Yield the entries of a note, long ones in parts (``cut``)."""
    said = line_provenances(text)
    for entry in entries(text):
        for part in cut(entry.text, chunk_tokens, overlap_tokens):
            if part.text.strip():
                before = entry.first - 1
                yield NotePiece(
                    before + part.start, before + part.end, entry.heading, part.text, said[before]
                )


def indexed(heading: str, text: str) -> str:
    """Return the text with its heading, which gives it meaning, and without the list marker, which does
    not.
    """
    said = _ITEM.sub("", text, count=1)
    return f"{heading}\n{said}" if heading else said


def entries(text: str) -> Iterator[NoteEntry]:
    """Yield every entry, in order. A list item includes what is indented below it; a fenced block is never split;
    a heading is an entry only when nothing follows it, and a provenance mark ends the entry before it.
    """
    heading, heading_at = "", 0
    held: list[str] = []
    first, fence = 1, ""
    for number, line in enumerate((*text.split("\n"), "# end"), 1):
        is_mark = is_origin_mark(line)
        fence = "" if is_mark else fence
        if not fence and (is_mark or _HEADING.match(line) or _ITEM.match(line) or not line.strip()):
            if held:
                yield NoteEntry(first, heading, "\n".join(held))
                heading_at = 0
            held = []
        if is_mark:
            continue
        if not fence and _HEADING.match(line):
            if heading_at:
                yield NoteEntry(heading_at, "", heading)
            heading, heading_at = line.lstrip("#").strip(), number
            continue
        if found := _FENCE.match(line):
            fence = found[1] if not fence else "" if found[1] == fence else fence
        if line.strip() or fence:
            first = first if held else number
            held.append(line)
    if held:  # unclosed fence
        yield NoteEntry(first, heading, "\n".join(held[:-1]))
