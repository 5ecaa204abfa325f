"""Words in all conversations, the newest first: the files are read line by line, and no more of them than needed."""

import heapq
import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from claw.clock import instant
from claw.conversations.kept import Kept, opened
from claw.conversations.told import CALL, Passage, passages
from claw.record import Header, encode, read

_AROUND = 70
_UNSURE = re.compile(
    "\\\\[u/]|[\u0300-\u036f]"
)  # how others may write what we write as it is; a mark that joins with an escape's letter
_WIDE, _COMBINING = re.compile("[０-９Ａ-Ｚａ-ｚ]"), re.compile("[\u0300-\u036f]")
_NARROW = {code: code - 0xFEE0 for code in range(0xFF10, 0xFF5B) if _WIDE.match(chr(code))}
_FIRST = encode(Header(id="-"))[1]


@dataclass(frozen=True)
class Hit:
    """Where the words stand.

    :param at: ISO 8601, UTC.
    :param before: what stands before the first word, on one line, cut; ``found`` is that word as it stands there.
    """

    at: str
    kept: Kept
    passage: Passage
    before: str
    found: str
    after: str


@dataclass(frozen=True, order=True)
class _Find:
    at: str
    line: int
    kept: Kept = field(compare=False)
    passage: Passage = field(compare=False)


def search(
    conversations: Iterable[Kept], text: str, limit: int = 20, clean: Callable[[str], str] = str
) -> tuple[Hit, ...]:
    """The newest ``limit`` passages in which every word of ``text`` stands.

    Case and width do not count (``ＡＢＣ`` is ``abc``), nor does the order of the words; Chinese needs no blanks.

    :param conversations: a file is not opened when it was last written before the oldest hit that counts.
    :param clean: applied to what is shown of a hit.
    """
    words = [folded(word) for word in text.split()]
    newest: list[_Find] = []
    for kept in sorted(conversations, key=lambda kept: kept.at, reverse=True):
        if not words or (len(newest) == limit and newest[0].at > instant(kept.at)):
            break
        with suppress(OSError, EOFError, zlib.error):  # gone, or damaged, since it was listed
            for find in _in_file(kept, words):
                if len(newest) < limit:
                    heapq.heappush(newest, find)
                else:
                    heapq.heappushpop(newest, find)
    return tuple(_hit(find, words[0], clean) for find in sorted(newest, reverse=True))


def folded(text: str) -> str:
    """As it is compared: without capitals, full-width letters as others, accents composed."""
    if _WIDE.search(text):
        text = text.translate(_NARROW)
    if _COMBINING.search(text):
        text = unicodedata.normalize("NFC", text)
    return text.casefold()


def _in_file(kept: Kept, words: Sequence[str]) -> Iterator[_Find]:
    written = [json.dumps(word, ensure_ascii=False)[1:-1] for word in words]
    with opened(kept.path) as file:
        for number, line in enumerate(file):
            decoded = line.decode("utf-8", "replace")
            plain = folded(decoded)
            if not all(word in plain for word in written) and not _UNSURE.search(decoded):
                continue
            for passage in passages(read(_FIRST + line).entries, str):
                plain = folded(_searched(passage))
                if all(word in plain for word in words):
                    yield _Find(passage.at or instant(kept.at), number, kept, passage)


def _searched(passage: Passage) -> str:
    return f"{passage.who} {passage.text}" if passage.kind == CALL else passage.text


def _hit(find: _Find, word: str, clean: Callable[[str], str]) -> Hit:
    text = _searched(find.passage)
    start, end = _span(text, word)
    before = f"{'…' if start > _AROUND else ''}{text[max(0, start - _AROUND) : start]}"
    after = f"{text[end : end + _AROUND]}{'…' if end + _AROUND < len(text) else ''}"
    shown = (clean(re.sub(r"\s+", " ", part)) for part in (before, text[start:end], after))
    return Hit(find.at, find.kept, find.passage, *shown)


def _span(text: str, word: str) -> tuple[int, int]:
    """Where ``word``, folded, stands in ``text``; its beginning when only the whole, folded, holds it."""
    plain = folded(text)
    places: Sequence[int] = range(len(text))
    if len(plain) != len(text):
        letters = [folded(letter) for letter in text]
        plain = "".join(letters)
        places = [place for place, letter in enumerate(letters) for _ in letter]
    at = plain.find(word)
    return (places[at], places[at + len(word) - 1] + 1) if at >= 0 else (0, 0)
