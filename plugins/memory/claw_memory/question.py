"""Full-text queries (FTS5) from questions, and texts as FTS5 tokenizes them. Pure.

Each CJK character is a word: the tokenizer would take a whole CJK sentence for one word.
"""

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

_WORD = re.compile(r"\w+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]")
_CJK_OR_NOT = re.compile(f"{_CJK.pattern}+|[^\\W{_CJK.pattern[1:-1]}]+")

# Stop words: they say nothing about the subject.
_ENGLISH_WORDS = """
    a about after again all also am an and any are as at be been before but by can could did do does doing for from get
    had has have he her hers him his how i if in into is it its just let me more most my no not of off on one or our out
    over own please she should so some such tell than that the their them then there these they this those to up us
    was we were what when where which while who whom whose why will with would you your s t d ll m re ve
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_CHINESE = frozenset("的了吗呢吧啊么是在有和与或就都也还我你他她它们这那个些哪谁什怎把被给对从到为以及其之于")


def fts_query(question: str) -> str | None:
    """Return a query for all words of the question, quoted; None when it has none. CJK is not yet spaced."""
    words = _WORD.findall(question)
    return " AND ".join(f'"{word}"' for word in words) or None


def spaced(text: str) -> str:
    """Return the text with blanks around every CJK character, full-width letters and digits normalized."""
    return _CJK.sub(r" \g<0> ", unicodedata.normalize("NFKC", text))


def terms(question: str) -> tuple[str, ...]:
    """Return the search terms, each as a query: words, and CJK characters alone and in pairs.

    Stop words are left out, unless there are no others.
    """
    found = list[str]()
    for run in _CJK_OR_NOT.findall(unicodedata.normalize("NFKC", question)):
        found += _pairs(run) if _CJK.match(run) else [run.lower()]
    telling = [
        term for term in found if term not in _ENGLISH and not _CHINESE.issuperset(term.replace(" ", ""))
    ]
    return tuple(dict.fromkeys(f'"{term}"' for term in telling or found))


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text without stop words, to compare it with another."""
    return frozenset(terms(text))


def any_of(wanted: Iterable[str]) -> str:
    """Return a query that finds texts with at least one of ``terms``."""
    return " OR ".join(wanted)


def _pairs(run: str) -> list[str]:
    return [*run, *(f"{one} {next_}" for one, next_ in pairwise(run))]
