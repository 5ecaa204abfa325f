"""The memory of one agent: its notes, their index, and the search over both.

A search first indexes what changed on disk, within a time limit. A search without results never rebuilds the
index.
"""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from posixpath import dirname
from threading import Lock
from typing import TypeVar

from claw import t

from claw_memory.entries import indexed
from claw_memory.hookspecs import Embedder
from claw_memory.index import Counts, Index, IndexedChunk
from claw_memory.notes import Notes, dated
from claw_memory.question import any_of, fts_query, spaced, terms, words_of
from claw_memory.ranking import by_score, decayed, merge, text_score, varied
from claw_memory.script import ANY_TEXT, script_of
from claw_memory.settings import MemorySettings
from claw_memory.tables import DamagedIndexError
from claw_memory.vectors import Vectors, packed

T = TypeVar("T")

_log = logging.getLogger(__name__)

SNIPPET_CHARS = 700
_CATCH_UP_SECONDS = 0.5
_COMMON = 1_000  # a word in more chunks than this says little, and is slow to search
_MOST_ROWS = 4_000
_LEAST_SCORE = 0.5
_QUESTION_CHARS = 1_000
_TEXTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A search result.

    :param score: from 0 to 1.
    :param changed: when its file was last changed, seconds since 1970.
    :param fresh: true if the file on disk still has this text.
    :param origin: provenance of the words, as claw marked them; empty for a person's own.
    """

    path: str
    first: int
    last: int
    text: str
    score: float
    changed: float
    fresh: bool
    origin: str = ""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The results of a search, and the state of the index.

    :param behind: files whose latest text is not indexed yet.
    :param waiting: chunks without a vector, found by their words alone.
    :param by_meaning: true if vectors were used; otherwise ``why_not`` has the reason.
    """

    hits: tuple[SearchHit, ...]
    behind: int
    waiting: int
    by_meaning: bool
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The content of the index, and the number of files whose index is out of date."""

    counts: Counts
    behind: int


class Memory:
    """The memory of one agent: its notes and their index.

    :param own: ``CLAW_HOME/agents/ID/agent``.
    :param index: path of the index.
    """

    def __init__(self, own: Path, index: Path, settings: MemorySettings) -> None:
        self.notes = Notes(own)
        self.index = Index(index, settings.chunk_tokens, settings.overlap_tokens)
        self._settings = settings
        self._vectors = Vectors()
        self._comparing = Lock()

    def search(
        self,
        question: str,
        embedder: Embedder | None,
        most: int,
        within: str = "",
        now: float | None = None,
    ) -> SearchAnswer:
        """Return the chunks that answer a question best.

        Changed files are indexed first, within half a second; the answer names the remaining ones.

        :param embedder: None = by words alone.
        :param within: only files whose paths have this prefix, for a chat that may not see all.
        :param now: seconds since 1970.
        """
        moment = time.time() if now is None else now
        return self._with_retry(lambda: self._search(question, embedder, most, within, moment))

    def state(self) -> State:
        """Return the state of the index; change nothing, and do not create a missing index."""
        if not self.index.path.exists():
            return State(Counts(0, 0, 0, ""), len(self.notes.look()))
        return self._with_retry(
            lambda: State(self.index.counts(), len(self.index.differing(self.notes.look())))
        )

    def sync(self, goes_on: Callable[[int, int], bool] = lambda done, all_: True, rests_ns: int = 0) -> int:
        """Index every changed file; return the number of files that still wait because they changed too
        recently.
        """
        return len(self._with_retry(lambda: self.index.sync(self.notes, None, goes_on, rests_ns)))

    def embed(self, embedder: Embedder, goes_on: Callable[[int], bool] = lambda done: True) -> int:
        """Make the missing vectors; return the number of embedded texts.

        :param goes_on: called after each batch with the number done; False stops.
        :raises Exception: what the embedder raises.
        """
        return self._with_retry(lambda: self._embed(embedder, goes_on))

    def _embed(self, embedder: Embedder, goes_on: Callable[[int], bool]) -> int:
        name, done = _name(embedder), 0
        self.index.use_embedder(name)
        if not self.index.centres():
            self.index.keep_centres(_mean_vectors(embedder))
        while goes_on(done):
            some = self.index.without_vector(_TEXTS_AT_ONCE)
            if not some:
                break
            vectors = packed(embedder.embed([text for _, text in some], query=False))
            rows = [(mark, script_of(text), data) for (mark, text), data in zip(some, vectors, strict=True)]
            if not self.index.keep_vectors(name, rows):
                break  # another process uses another embedder
            done += len(some)
        return done

    def _with_retry(self, act: Callable[[], T]) -> T:
        """Run ``act``; run it a second time if it found the index damaged, since the index is then
        recreated.
        """
        try:
            return act()
        except DamagedIndexError:
            return act()

    def _search(
        self, question: str, embedder: Embedder | None, most: int, within: str, now: float
    ) -> SearchAnswer:
        question = question[:_QUESTION_CHARS]
        behind = self.index.sync(self.notes, _CATCH_UP_SECONDS)
        candidates = most * self._settings.candidates
        by_text = self._by_text(question, candidates, within)
        by_meaning, why_not = self._by_meaning(question, embedder, candidates, within)
        weights = self._settings.vector_weight, self._settings.text_weight
        merged = by_text if why_not else merge(by_meaning, by_text, *weights)
        by_words = dict(by_text)  # a chunk without a vector is scored by its words alone
        least = 0.0 if why_not else self._settings.min_score
        scored = [one for one in merged if max(one[1], by_words.get(one[0], 0.0)) >= least]
        found = self.index.found(piece for piece, _ in scored)
        best = self._best([one for one in scored if one[0] in found], found, most, now)
        wanted = words_of(question)
        hits = tuple(
            _hit(found[piece], score, wanted, found[piece].path not in behind) for piece, score in best
        )
        return SearchAnswer(hits, len(behind), self.index.counts().waiting, not why_not, why_not)

    def _by_text(self, question: str, most: int, within: str) -> list[tuple[int, float]]:
        """Find chunks with words of the question: more words, and rarer ones, score higher."""
        every = fts_query(question)
        if every is None:
            return []
        all_ = self.index.counts().pieces
        holders = {term: self.index.holders(term, _COMMON + 1) for term in terms(question)}
        telling = _rarest_words(holders)
        ranked = dict(self.index.match(spaced(every), most, within))
        if telling:
            ranked |= dict(self.index.match(any_of(telling), most, within))
        whole = sum(_weight(count, all_) for count in holders.values())
        return by_score((piece, _text_score(rank, whole)) for piece, rank in ranked.items())

    def _by_meaning(
        self, question: str, embedder: Embedder | None, most: int, within: str
    ) -> tuple[list[tuple[int, float]], str]:
        """Find chunks of similar meaning; return them with an empty text, or none with the reason."""
        if embedder is None:
            return [], t("no embedder is active")
        try:
            vector = embedder.embed([question], query=True)[0]
            self.index.use_embedder(_name(embedder))
            seen = self.index.pieces_within(within) if within else None
            with self._comparing:
                every = most if seen is None else self.index.counts().pieces
                near = self._vectors.nearest(self.index, question, vector, every)
        except DamagedIndexError:
            raise
        except Exception as why:  # noqa: BLE001 - an embedder is third-party code; words alone answer too
            _log.warning("embedder %s failed", _name(embedder), exc_info=why)
            return [], t(
                "embedder {name} failed: {why}", name=embedder.name, why=f"{type(why).__name__}: {why}"
            )
        return [(piece, score) for piece, score in near if (seen is None or piece in seen) and score > 0][
            :most
        ], ""

    def _best(
        self, scored: Sequence[tuple[int, float]], found: Mapping[int, IndexedChunk], most: int, now: float
    ) -> list[tuple[int, float]]:
        """Return the best candidates, weighted by age and variety as configured; of equal texts only one."""
        decay, mmr = self._settings.time_decay, self._settings.mmr
        scored = _deduplicated(scored, found)
        if decay.enabled:
            days = {piece: dated(found[piece].path) for piece, _ in scored}
            scored = by_score(
                (
                    piece,
                    score
                    if (day := days[piece]) is None
                    else decayed(score, now - day, decay.half_life_days),
                )
                for piece, score in scored
            )
        if mmr.enabled:
            return varied(scored, lambda piece: words_of(found[piece].text), mmr.weight, most)
        return list(scored[:most])


def _deduplicated(
    scored: Sequence[tuple[int, float]], found: Mapping[int, IndexedChunk]
) -> list[tuple[int, float]]:
    """Keep the best of equal texts within one folder; notes from other chats are kept beside it."""
    first: dict[tuple[str, str], tuple[int, float]] = {}
    for piece, score in scored:
        note = found[piece]
        first.setdefault((dirname(note.path), indexed(note.heading, note.text)), (piece, score))
    return list(first.values())


def _text_score(rank: float, whole: float) -> float:
    """Return the score of a rank, by the share of the question that it covers.

    :param whole: the sum of the weights of all words of the question. In a small index all weights are low; this
    normalizes them.
    """
    return max(text_score(rank), _LEAST_SCORE) * min(-rank / whole, 1.0) ** 2


def _rarest_words(holders: Mapping[str, int]) -> list[str]:
    """Select the rarest words whose chunks are quickly searched; a common word if all are common."""
    chosen, rows = list[str](), 0
    for term in sorted((term for term, count in holders.items() if count), key=holders.__getitem__):
        rows += holders[term]
        if chosen and (rows > _MOST_ROWS or holders[term] > _COMMON):
            break
        chosen.append(term)
    return chosen


def _weight(holders: int, all_: int) -> float:
    """Return the weight of a word, as in ``bm25()`` (https://www.sqlite.org/fts5.html#the_bm25_function,
    IDF).
    """
    return max(math.log((all_ - holders + 0.5) / (holders + 0.5)), 1e-6) if holders < all_ else 1e-6


def _name(embedder: Embedder) -> str:
    return f"{embedder.name}/{embedder.model}"


def _mean_vectors(embedder: Embedder) -> list[tuple[str, bytes]]:
    """Return for each script the mean vector of its sample sentences."""
    import numpy as np

    return [
        (
            script,
            np.mean(np.asarray(embedder.embed(texts, query=False), dtype=np.float32), axis=0)
            .astype("<f2")
            .tobytes(),
        )
        for script, texts in ANY_TEXT.items()
    ]


def _hit(found: IndexedChunk, score: float, wanted: Set[str], fresh: bool) -> SearchHit:
    first, last, text = snippet(found.text, found.first, wanted)
    return SearchHit(
        found.path, first, last, text, round(score, 4), found.changed_ns / 1e9, fresh, found.origin
    )


def snippet(text: str, first: int, wanted: Set[str]) -> tuple[int, int, str]:
    """Return at most ``SNIPPET_CHARS`` of a chunk, as whole lines, from where most of the wanted words are.

    :param first: number of its first line.
    :returns: first and last line, and the text.
    """
    lines = text.split("\n")
    if len(text) <= SNIPPET_CHARS:
        return first, first + len(lines) - 1, text
    if len(lines) == 1:
        return first, first, text[:SNIPPET_CHARS]
    best, most = 0, -1
    for begin in range(len(lines)):
        shown = _window(lines, begin)
        count = len(wanted & words_of("\n".join(lines[begin:shown])))
        if count > most:
            best, most = begin, count
    end = _window(lines, best)
    return first + best, first + end - 1, "\n".join(lines[best:end])[:SNIPPET_CHARS]


def _window(lines: Sequence[str], begin: int) -> int:
    """Return the index behind the last line that fits."""
    size, end = 0, begin
    while end < len(lines) and (end == begin or size + len(lines[end]) < SNIPPET_CHARS):
        size += len(lines[end]) + 1
        end += 1
    return end
