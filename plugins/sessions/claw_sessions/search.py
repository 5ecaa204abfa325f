"""Full-text search over session files, newest first; files are read line by line, and only as many as needed."""

import heapq
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from claw.runtime import encode_record, iso_time

from claw_sessions.index import SessionFile, open_session_file
from claw_sessions.render import CALL, Passage, passages
from claw_sessions.session_file import SessionHeader, parse_session

_CONTEXT_CHARS = 70
# A JSON escape that another writer may use, or a combining mark after one: decide on the decoded text.
_MAY_BE_ESCAPED = re.compile("\\\\[u/]|[\u0300-\u036f]")
_FULL_WIDTH, _COMBINING = re.compile("[０-９Ａ-Ｚａ-ｚ]"), re.compile("[\u0300-\u036f]")
_TO_HALF_WIDTH = {code: code - 0xFEE0 for code in range(0xFF10, 0xFF5B) if _FULL_WIDTH.match(chr(code))}
_HEADER_LINE = encode_record(SessionHeader(id="-"))[1]


@dataclass(frozen=True)
class MemoryHit:
    """A search result.

    :param at: ISO 8601, UTC.
    :param before: the text before the first word, on one line, shortened.
    :param found: the first word as written in the text.
    :param after: the text after it, like ``before``.
    """

    at: str
    session: SessionFile
    passage: Passage
    before: str
    found: str
    after: str


@dataclass(frozen=True, order=True)
class _Match:
    at: str
    line: int
    kept: SessionFile = field(compare=False)
    passage: Passage = field(compare=False)


def search_sessions(
    conversations: Iterable[SessionFile], text: str, limit: int = 20, clean: Callable[[str], str] = str
) -> tuple[MemoryHit, ...]:
    """Find the newest ``limit`` passages that contain every word of ``text``.

    Case, width (``ＡＢＣ`` equals ``abc``) and the order of the words do not matter; Chinese needs no blanks.

    :param conversations: a file last written before the oldest of ``limit`` hits is not opened.
    :param clean: applied to the shown text of a hit.
    """
    words = [normalised(word) for word in text.split()]
    newest: list[_Match] = []
    for kept in sorted(conversations, key=lambda kept: kept.changed_at, reverse=True):
        if not words or (len(newest) == limit and newest[0].at > iso_time(kept.changed_at)):
            break
        with suppress(OSError, EOFError, zlib.error):  # removed or damaged since it was listed
            for find in _search_file(kept, words):
                if len(newest) < limit:
                    heapq.heappush(newest, find)
                else:
                    heapq.heappushpop(newest, find)
    return tuple(_to_hit(find, words[0], clean) for find in sorted(newest, reverse=True))


def normalised(text: str) -> str:
    """Normalise for comparison: case folded, full-width letters narrowed, accents composed."""
    if _FULL_WIDTH.search(text):
        text = text.translate(_TO_HALF_WIDTH)
    if _COMBINING.search(text):
        text = unicodedata.normalize("NFC", text)
    return text.casefold()


def _search_file(kept: SessionFile, words: Sequence[str]) -> Iterator[_Match]:
    json_words = [json.dumps(word, ensure_ascii=False)[1:-1] for word in words]
    with open_session_file(kept.path) as file:
        for number, line in enumerate(file):
            decoded = line.decode("utf-8", "replace")
            plain = normalised(decoded)
            if not all(word in plain for word in json_words) and not _MAY_BE_ESCAPED.search(decoded):
                continue
            for passage in passages(parse_session(_HEADER_LINE + line).entries, str):
                plain = normalised(_searchable_text(passage))
                if all(word in plain for word in words):
                    yield _Match(passage.at or iso_time(kept.changed_at), number, kept, passage)


def _searchable_text(passage: Passage) -> str:
    return f"{passage.author} {passage.text}" if passage.kind == CALL else passage.text


def _to_hit(find: _Match, word: str, clean: Callable[[str], str]) -> MemoryHit:
    text = _searchable_text(find.passage)
    start, end = _span(text, word)
    before = f"{'…' if start > _CONTEXT_CHARS else ''}{text[max(0, start - _CONTEXT_CHARS) : start]}"
    after = f"{text[end : end + _CONTEXT_CHARS]}{'…' if end + _CONTEXT_CHARS < len(text) else ''}"
    shown = (clean(re.sub(r"\s+", " ", part)) for part in (before, text[start:end], after))
    return MemoryHit(find.at, find.kept, find.passage, *shown)


def _span(text: str, word: str) -> tuple[int, int]:
    """Locate the folded ``word`` in ``text``; (0, 0) when it matches only across letters folded together."""
    plain = normalised(text)
    places: Sequence[int] = range(len(text))
    if len(plain) != len(text):
        folded = [normalised(char) for char in text]
        plain = "".join(folded)
        places = [place for place, char in enumerate(folded) for _ in char]
    at = plain.find(word)
    return (places[at], places[at + len(word) - 1] + 1) if at >= 0 else (0, 0)
