"""The text of questions and answers.

A question contains ``ask-QUESTION-KIND``. An answer has PARTS parts; each begins ``ans-QUESTION-rRUN-PARTofPARTS`` and
the last is followed by ``over-QUESTION-rRUN``. An answer with a file sends ``file-QUESTION.txt`` behind that. RUN is the
number of the model request, so two answers to one question differ, and a cut is seen at every place.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

_QUESTION = r"[a-z]+\d+\.\d+"
ASK = re.compile(rf"\bask-({_QUESTION})-([a-z]+)\b")
PART = re.compile(rf"\bans-({_QUESTION})-r(\d+)-(\d+)of(\d+)\b")
OVER = re.compile(rf"\bover-({_QUESTION})-r(\d+)\b")
FILE = re.compile(rf"\bfile-({_QUESTION})\.txt\b")
_FILES = re.compile(rf"(?:\s*\bfile-{_QUESTION}\.txt)+$")
_CUT = re.compile(rf"\b(?:ans|over)-({_QUESTION})?\S*")
_FILLER = "word "
_NOTICE_LETTERS = 15
PARTS = {"plain": 3, "long": 4, "longest": 12}
_CHARS = {"plain": 60, "long": 1500, "longest": 1500}


def question_text(question: str, kind: str) -> str:
    """Return the words of a person."""
    return f"ask-{question}-{kind}"


def file_name(question: str) -> str:
    """Return the name of the file in the answer to a question."""
    return f"file-{question}.txt"


def answer_parts(question: str, run: int, kind: str) -> list[str]:
    """Return the parts of an answer, in the pieces in which the model streams them."""
    count, chars = PARTS.get(kind, PARTS["plain"]), _CHARS.get(kind, _CHARS["plain"])
    filler = (_FILLER * (chars // len(_FILLER))).strip()
    parts = [f"ans-{question}-r{run}-{at}of{count} {filler}. " for at in range(1, count + 1)]
    return [*parts, f"over-{question}-r{run}."]


def files_of(text: str) -> list[str]:
    """Return the questions whose files a visible message has: their names are its end; one in a sentence is no file."""
    found = _FILES.search(text)
    return FILE.findall(found[0]) if found else []


@dataclass(frozen=True)
class Piece:
    """A part of an answer in a text: ``part`` = 0 is the end mark, -1 a label that is cut.

    :ivar run: -1 = unknown.
    """

    question: str
    run: int
    part: int
    parts: int
    offset: int


@lru_cache(100_000)
def pieces(text: str) -> tuple[Piece, ...]:
    """Return the parts of answers in a text, in order."""
    found = [Piece(m[1], int(m[2]), int(m[3]), int(m[4]), m.start()) for m in PART.finditer(text)]
    found += [Piece(m[1], int(m[2]), 0, 0, m.start()) for m in OVER.finditer(text)]
    whole = {piece.offset for piece in found}
    found += [Piece(m[1] or "", -1, -1, 0, m.start()) for m in _CUT.finditer(text) if m.start() not in whole]
    return tuple(sorted(found, key=lambda piece: piece.offset))


@lru_cache(100_000)
def notice(text: str) -> str:
    """Return what a text says beside answers; empty if that is no sentence."""
    rest = FILE.sub(" ", OVER.sub(" ", PART.sub(" ", text)))
    rest = " ".join(re.sub(r"\bword\b[.…]?", " ", _CUT.sub(" ", rest)).split())
    return rest if sum(map(str.isalpha, rest)) >= _NOTICE_LETTERS else ""


def whole_runs(found: Iterable[Piece]) -> Counter[int]:
    """Return how often each run's answer is whole, of the pieces of one question."""
    return Counter(dict(_whole_runs(tuple(found))))


@lru_cache(100_000)
def _whole_runs(found: tuple[Piece, ...]) -> tuple[tuple[int, int], ...]:
    counts: dict[int, Counter[int]] = {}
    sizes: dict[int, int] = {}
    for piece in found:
        if piece.part >= 0:
            counts.setdefault(piece.run, Counter())[piece.part] += 1
            sizes[piece.run] = max(sizes.get(piece.run, 0), piece.parts)
    return tuple(
        (run, min(parts[at] for at in range(sizes[run] + 1)))
        for run, parts in counts.items()
        if sizes[run] and all(parts[at] for at in range(sizes[run] + 1))
    )
