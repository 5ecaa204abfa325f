"""Splitting a long answer into messages. Pure.

A piece is Markdown again. Formatting that a cut goes through (a fence, a table, bold text …) is closed at the end of one
piece and reopened at the start of the next.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from claw_telegram.render import length, utf16_units, visible_text

LIMIT = 4096
"""Length limit of one message, in UTF-16 units: https://core.telegram.org/bots/api#sendmessage."""
_FENCE = re.compile(r"^\s*(`{3,}|~{3,})(.*)$")
_TABLE_RULE = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)+\|?\s*$")
_MARKS = re.compile(r"[*_~`\[|]")
_BLOCK = re.compile(r"\s*(?:\d{1,9}(?=[.)]\s)|(?=```|~~~|#{1,6}\s|[-+*]\s|>|\|))")
_CLOSERS = ("**", "*", "***", "_", "__", "~~", "`", "``", "||")
_TRIES = 4
_LOOKBACK_CHARS = 1600  # characters before a cut that are searched for open formatting


@dataclass(frozen=True, slots=True)
class _Cut:
    """A position where a piece may end.

    :param close: closing markup at the end of the piece; ``reopen`` starts the next one.
    :param at: where the piece ends in the text; ``after`` where the next one begins.
    """

    at: int
    after: int
    close: str = ""
    reopen: str = ""


def split(text: str, limit: int = LIMIT) -> tuple[str, ...]:
    """Cut Markdown into pieces that each show at most ``limit`` UTF-16 units, and are no longer than that as text.

    Preferred cuts: between paragraphs, before a fence or a table that fits whole, between lines, words, letters.
    """
    found: list[str] = []
    rest = _strip_blank_lines(text)
    while rest:
        if utf16_units(rest) <= limit and length(rest) <= limit:
            found.append(rest)
            break
        piece, rest = _cut_first(rest, limit)
        found.append(piece)
    return tuple(piece for piece in found if visible_text(piece).strip())


def _cut_first(text: str, limit: int) -> tuple[str, str]:
    """Cut off the first piece of a text that does not fit; the rest is always shorter than the text."""
    tried = limit
    while True:
        cut = _find_cut(text, tried)
        if utf16_units(cut.reopen) + utf16_units(cut.close) > limit * 2 // 3:  # more markup than content
            cut = _Cut(cut.at, cut.after)
        piece = text[: cut.at].rstrip() + cut.close
        if tried <= 8 or (utf16_units(piece) <= limit and length(piece) <= limit):
            break
        tried = tried * 3 // 4  # padded table columns or reopened markup need the space
    rest = _strip_blank_lines(text[cut.after :])
    within_a_line = not cut.reopen and text[cut.after - 1 : cut.after] != "\n"
    if within_a_line and (
        start := _BLOCK.match(rest)
    ):  # at the start of a line it would be read as a list, a fence …
        framed = f"{rest[: start.end()]}\\{rest[start.end() :]}"
    else:
        framed = cut.reopen + rest if rest else ""
    return piece, framed if len(framed) < len(text) else rest


def _find_cut(text: str, limit: int) -> _Cut:
    """Return the best cut such that the part before it takes at most ``limit`` units."""
    most = _prefix_length(text, limit)
    lines = [
        cut for cut in _line_ends(text, most) if utf16_units(text[: cut.at]) + utf16_units(cut.close) <= limit
    ]
    low = most // 2
    between = [
        cut for cut in lines if not cut.reopen and cut.at >= low and text[cut.at : cut.at + 2] == "\n\n"
    ]
    if between:
        return between[-1]
    whole = _cut_before_block(text, lines, most, limit)
    if whole:
        return whole
    if lines and lines[-1].at >= low:
        return (
            lines[-1]
            if lines[-1].reopen
            else _choose_cut(text, [cut for cut in lines if cut.at >= low and not cut.reopen])
        )
    inside = _inline_cut(text, most)
    if inside.reopen:
        end = _prefix_length(text, limit - utf16_units(inside.close))
        return _Cut(end, end, inside.close, inside.reopen) if end > len(inside.reopen) else _Cut(most, most)
    blanks = [
        _Cut(hit.start(), hit.end())
        for hit in re.finditer(r" +", text[: most + 1])
        if hit.start() >= max(low, 1)
    ]
    return _choose_cut(text, [*([_Cut(most, most)] if not blanks else []), *blanks])


def _cut_before_block(text: str, lines: list[_Cut], most: int, limit: int) -> _Cut | None:
    """Return the cut before the fence or table that contains the limit, if that block fits whole into the
    next message."""
    if not lines or not lines[-1].reopen:
        return None
    outside = [cut for cut in lines if not cut.reopen]
    if not outside or outside[-1].at < most // 8:
        return None
    start = outside[-1].after
    later = (cut.at for cut in _line_ends(text[start:], len(text) - start) if not cut.reopen)
    block_ends = next(later, len(text) - start)
    return outside[-1] if utf16_units(text[start : start + block_ends]) <= limit else None


def _line_ends(text: str, most: int) -> Iterator[_Cut]:
    """Yield every end of a line up to ``most``, with the markup open there."""
    fence, reopen = "", ""
    header, table = "", ""
    at = 0
    while at <= most:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end]
        opens = _FENCE.match(line)
        if fence:
            if opens and opens[1].startswith(fence) and not opens[2].strip():
                fence = reopen = ""
        elif opens and "`" not in opens[2]:
            fence, reopen, table = opens[1], line + "\n", ""
        elif _TABLE_RULE.match(line) and "|" in header:
            table = f"{header}\n{line}\n"
        elif "|" not in line:
            table = ""
        header = line
        if end > most or end == len(text):
            return
        next_end = text.find("\n", end + 1)
        below = text[end + 1 : next_end if next_end >= 0 else None]
        if fence:
            inset = reopen[: len(reopen) - len(reopen.lstrip())]
            yield _Cut(end, end + 1, f"\n{inset}{fence}", reopen)
        elif table and "|" in below:
            yield _Cut(end, end + 1, "", table)
        elif not ("|" in line and _TABLE_RULE.match(below)):  # never between a table's header and its rule
            yield _Cut(end, end + 1)
        at = end + 1


def _inline_cut(text: str, most: int) -> _Cut:
    """Return a cut in the middle of the line at ``most``, with the markup open there."""
    before = list(_line_ends(text, most))
    return before[-1] if before and before[-1].close else _Cut(0, 0)


def _choose_cut(text: str, places: list[_Cut]) -> _Cut:
    """Return the last cut that goes through no formatting; else the last cut, with formatting closed and reopened."""
    last = places[-_TRIES:]
    found = (_balanced_cut(text, cut, ("",)) for cut in reversed(last))
    return next(filter(None, found), None) or _balanced_cut(text, last[-1], _CLOSERS) or last[-1]


def _balanced_cut(text: str, cut: _Cut, closers: tuple[str, ...]) -> _Cut | None:
    """Try the closers; return the cut with the first one after which both sides render the same text as the whole."""
    start = max(text.rfind("\n\n", 0, cut.at) + 1, cut.at - _LOOKBACK_CHARS)
    end = text.find("\n\n", cut.after)
    end = min(end if end >= 0 else len(text), cut.after + _LOOKBACK_CHARS // 4)
    left, right = text[start : cut.at].rstrip(), text[cut.after : end].lstrip()
    if not _MARKS.search(left):
        return cut
    whole = _visible_text(text[start:end])
    for closer in closers:
        if _visible_text(left + closer) + _visible_text(closer + right) == whole:
            return _Cut(cut.at, cut.after, closer, closer)
    return None


def _visible_text(text: str) -> str:
    """Return the visible text without white space."""
    return "".join(visible_text(text).split())


def _prefix_length(text: str, limit: int) -> int:
    """Return how many characters take at most ``limit`` units; at least one, never half a surrogate pair."""
    taken = 0
    for at, char in enumerate(text):
        taken += 2 if char > "\uffff" else 1
        if taken > limit:
            return max(at, 1)
    return len(text)


def _strip_blank_lines(text: str) -> str:
    """Strip empty lines at both ends."""
    return re.sub(r"\A(?:[ \t]*\n)+", "", text.rstrip())
