"""Message splitting: split a complete answer (``split_text``), or one that streams in (``BlockSplitter``). Pure.

A cut removes only white space; a fenced code block is closed before a cut and opened again after it. No piece is
longer than its limit, and no character is split.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from claw import ChannelLimits

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})([^\n]*)$", re.M)
_BLANK_LINES = re.compile(r"\n[ \t\r]*\n[ \t\r\n]*")
_SENTENCE = re.compile(r"[.!?](?=\s|$)|[。！？]")
_LOOK_AHEAD = 200  # characters after a cut that are searched for the closing line of a fence
_JOINERS = "\u200d\ufe0f"


@dataclass(frozen=True, slots=True)
class _Fence:
    """A fenced block in a text: from its opening line to the end of its closing one, or to the end of the text."""

    start: int
    end: int
    opening: str
    closing: str

    @property
    def body(self) -> int:
        return self.start + len(self.opening) + 1


def split_text(
    text: str, limits: ChannelLimits, mode: Literal["markdown", "plain", "paragraph"] = "markdown"
) -> tuple[str, ...]:
    """Split ``text`` into messages that fit: at the last line end, else the last blank, else anywhere.

    :param limits: ``text_chars`` of 0 means no limit.
    :param mode: markdown keeps fences whole; paragraph splits at every blank line outside of fences first; plain does
        neither.
    :returns: texts that are not blank, in order; none for a blank text.
    """
    cut = _cut_plain if mode == "plain" else _cut_markdown
    return tuple(
        piece
        for part in (_paragraphs(text) if mode == "paragraph" else (text,))
        for piece in _pieces(part, limits, cut)
        if piece.strip()
    )


_Cut = Callable[[str, ChannelLimits], tuple[str, str]]


def _pieces(text: str, limits: ChannelLimits, cut: _Cut) -> Iterator[str]:
    rest = text
    while limits.text_chars > 0 and _fitting_chars(rest, limits) < len(rest):
        piece, rest = cut(rest, limits)
        yield piece
    yield rest


def _paragraphs(text: str) -> Iterator[str]:
    fences, start = _fences(text), 0
    for gap in _BLANK_LINES.finditer(text):
        if _fence_at(fences, gap.start()) is None:
            yield text[start : gap.start()]
            start = gap.end()
    yield text[start:]


def _cut_plain(text: str, limits: ChannelLimits) -> tuple[str, str]:
    """Return the first piece and the rest."""
    end = _fitting_chars(text, limits)
    at = _find_break(text, end, ()) or _character_boundary(text, end)
    return text[:at].rstrip(), text[at:].lstrip()


def _cut_markdown(text: str, limits: ChannelLimits) -> tuple[str, str]:
    """Return the first piece and the rest; the rest begins with the opening line of a fence that was split."""
    end = _fitting_chars(text, limits)
    fences = _fences(text[: end + _LOOK_AHEAD])
    at = _find_break(text, end, fences)
    if not at:
        at = _character_boundary(text, end)
        fence = _fence_at(fences, at)
        if fence and (halves := _cut_fence(text, fence, limits)):
            return halves
    return text[:at], _after(text, at)


def _after(text: str, at: int) -> str:
    """Return the text after a cut outside of fences, without one blank and all line ends that follow."""
    return text[at + 1 if text[at : at + 1].isspace() else at :].lstrip("\n")


def _cut_fence(text: str, fence: _Fence, limits: ChannelLimits) -> tuple[str, str] | None:
    """Close the fence as late as possible, preferably at a line end; return None when not one letter fits."""
    at = text.rfind("\n", fence.body, _fitting_chars(text, limits, reserved=len(fence.closing))) + 1
    if at:
        piece = text[:at] + fence.closing
    else:
        at = _character_boundary(
            text, _fitting_chars(text, limits, reserved=len(fence.closing) + 1), fence.body
        )
        if at <= fence.body:
            return None
        piece = f"{text[:at]}\n{fence.closing}"
    left = text[at : fence.end].strip()
    # Only its closing line is left.
    if fence.end <= len(text) and "\n" not in left and not left.strip(fence.closing[-1]):
        return piece, text[fence.end :].lstrip("\n")
    return piece, f"{fence.opening}\n{text[at:]}"


def _find_break(text: str, end: int, fences: tuple[_Fence, ...], start: int = 1) -> int:
    """Return the last line end before ``end`` outside of fences, else the last blank outside of parentheses, else 0."""
    at = text.rfind("\n", start, end)
    while at > 0:
        fence = _fence_at(fences, at)
        if fence is None:
            return at
        at = text.rfind("\n", start, max(fence.start, start))
    found = depth = 0
    for at in range(end):
        char = text[at]
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= depth > 0
        elif not depth and at >= start and char.isspace() and _fence_at(fences, at) is None:
            found = at
    return found


def _fences(text: str) -> tuple[_Fence, ...]:
    """Return every fenced block, in order, at any indent, as a fence in a list is indented."""
    found: list[_Fence] = []
    opened: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        _, marks, info = line.groups()
        if opened is None:
            if marks[0] == "~" or "`" not in info:
                opened = line
        elif marks.startswith(opened[2]) and not info.strip():
            found.append(_Fence(opened.start(), line.end(), opened[0], opened[1] + opened[2]))
            opened = None
    if opened:
        found.append(_Fence(opened.start(), len(text) + 1, opened[0], opened[1] + opened[2]))
    return tuple(found)


def _fence_at(fences: tuple[_Fence, ...], at: int) -> _Fence | None:
    """Return the fence that a cut before the character ``at`` would split."""
    return next((fence for fence in fences if fence.start < at < fence.end), None)


def _fitting_chars(text: str, limits: ChannelLimits, reserved: int = 0) -> int:
    """Return how many characters of ``text`` fit beside ``reserved`` others; at least 1 if none is reserved."""
    limit = max(limits.text_chars - reserved, 0 if reserved else 1)
    if not limits.utf16:
        return min(limit, len(text))
    units = 0
    for at, char in enumerate(text[: limit + 1]):
        units += 2 if ord(char) > 0xFFFF else 1
        if units > limit:
            return at if reserved else max(at, 1)
    return min(limit, len(text))


def _character_boundary(text: str, end: int, start: int = 0) -> int:
    """Return ``end``, or a position shortly before it that splits no accent and no joined emoji."""
    for at in range(end, max(end - 12, start), -1):
        joined = at < len(text) and (text[at] in _JOINERS or unicodedata.combining(text[at]))
        if not joined and text[at - 1] != "\u200d":
            return at
    return end


@dataclass(frozen=True, slots=True)
class BlockSettings:
    """The sizes of the blocks of a streamed answer, and the places where they may end.

    :param min_chars: smallest block; the last one may be smaller.
    :param prefer: the kind of break that is tried first; paragraph falls back to newline and then sentence, the other
        kinds to nothing. At ``max_chars`` any blank is allowed, and then any character.
    :param each_paragraph: send every paragraph as soon as it is complete, however short.
    """

    min_chars: int = 800
    max_chars: int = 1200
    prefer: Literal["paragraph", "newline", "sentence"] = "paragraph"
    each_paragraph: bool = False


class BlockSplitter:
    """Split a streamed answer into blocks, one message each. Holds the text that was not sent yet."""

    def __init__(self, shape: BlockSettings = BlockSettings()) -> None:
        self._least = max(shape.min_chars, 1)
        self._limits = ChannelLimits(text_chars=max(shape.max_chars, self._least))
        self._breaks = _BREAKS[shape.prefer]
        self._each_paragraph = shape.each_paragraph
        self._pending, self._started = "", False

    def feed(self, text: str) -> tuple[str, ...]:
        """Add a piece of the answer; return the blocks that may be sent now."""
        if self._started and not self._pending:
            text = text.lstrip("\n")
        self._pending += text
        gone = self._take_paragraphs() if self._each_paragraph else self._take(self._least)
        return tuple(block for block in gone if block.strip())

    def finish(self) -> tuple[str, ...]:
        """End the answer; return the remaining blocks."""
        gone = []
        while len(self._pending) > self._limits.text_chars:
            gone.append(self._cut(1))
        rest, self._pending = self._pending, ""
        return tuple(block for block in (*gone, rest) if block.strip())

    def _take(self, least: int) -> Iterator[str]:
        """Take blocks: the first one from ``least`` characters, further ones only at the maximum size."""
        enough = least
        while len(self._pending) >= enough:
            block = self._cut(least)
            if not block:
                return
            yield block
            enough = self._limits.text_chars

    def _take_paragraphs(self) -> Iterator[str]:
        while True:
            fences = _fences(self._pending)
            gaps = (gap for gap in _BLANK_LINES.finditer(self._pending) if not _fence_at(fences, gap.start()))
            gap = next(gaps, None)
            if gap and gap.start() <= self._limits.text_chars:
                yield self._pending[: gap.start()]
                self._pending, self._started = self._pending[gap.end() :], True
            elif len(self._pending) >= self._limits.text_chars:
                yield self._cut(1)
            else:
                return

    def _cut(self, least: int) -> str:
        """Take the next block; return an empty text when it may not end anywhere yet."""
        text, most = self._pending, self._limits.text_chars
        fences = _fences(text)
        at = next((at for kind in self._breaks if (at := kind(text[:most], least, fences))), 0)
        if not at and len(text) >= most:
            at = _last_blank(text[:most], least, fences) or _character_boundary(text, most)
            fence = _fence_at(fences, at)
            halves = _cut_fence(text, fence, self._limits) if fence else None
            if halves:
                block, self._pending = halves
                self._started = True
                return block
        if at:
            self._pending, self._started = _after(text, at), True
        return text[:at]


_Break = Callable[[str, int, tuple[_Fence, ...]], int]


def _last_paragraph(text: str, least: int, fences: tuple[_Fence, ...]) -> int:
    at = text.rfind("\n\n")
    while at + 1 >= least and at >= 0:
        for place in (at, at + 1):
            if place >= least and _fence_at(fences, place) is None:
                return place
        at = text.rfind("\n\n", 0, at + 1)
    return 0


def _last_line(text: str, least: int, fences: tuple[_Fence, ...]) -> int:
    return _last(text, least, fences, "\n".__eq__)


def _last_blank(text: str, least: int, fences: tuple[_Fence, ...]) -> int:
    return _last(text, least, fences, str.isspace)


def _last(text: str, least: int, fences: tuple[_Fence, ...], fits: Callable[[str], bool]) -> int:
    places = range(len(text) - 1, least - 1, -1)
    return next((at for at in places if fits(text[at]) and _fence_at(fences, at) is None), 0)


def _last_sentence(text: str, least: int, fences: tuple[_Fence, ...]) -> int:
    ends = (match.end() for match in _SENTENCE.finditer(text) if match.start() >= least)
    return max((end for end in ends if _fence_at(fences, end) is None), default=0)


_BREAKS: dict[str, tuple[_Break, ...]] = {
    "paragraph": (_last_paragraph, _last_line, _last_sentence),
    "newline": (_last_line,),
    "sentence": (_last_sentence,),
}


def text_width(text: str) -> int:
    """Return the width in a monospaced font, where East Asian wide characters take two columns."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
