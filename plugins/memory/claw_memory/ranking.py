"""Scores, and the order of results by score. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import TypeVar

K = TypeVar("K")

SECONDS_A_DAY = 86_400


def text_score(rank: float) -> float:
    """Convert a rank of full-text search to a score from 0 to 1, higher is better.

    :param rank: the value of SQLite's ``bm25()``: negative, the lower the better. A value of 0 or more is a
        list position.
    """
    return 1 / (1 + rank) if rank >= 0 else -rank / (1 - rank)


def merge(
    vector: Iterable[tuple[K, float]],
    text: Iterable[tuple[K, float]],
    vector_weight: float,
    text_weight: float,
) -> list[tuple[K, float]]:
    """Return the weighted sum of both scores, best first; a result of one search gets 0 for the other.

    Equal scores keep the order vector first, then text.
    """
    scores: dict[K, float] = {}
    for found, weight in ((vector, vector_weight), (text, text_weight)):
        for key, score in found:
            scores[key] = scores.get(key, 0.0) + weight * score
    return by_score(scores.items())


def by_score(scored: Iterable[tuple[K, float]]) -> list[tuple[K, float]]:
    """Sort by score, best first; equal scores keep their order."""
    return sorted(scored, key=lambda one: -one[1])


def decayed(score: float, age_seconds: float, half_life_days: float) -> float:
    """Return the score decayed by age: half of it after ``half_life_days``. A time in the future counts as
    now.
    """
    return score * math.exp2(-max(age_seconds, 0.0) / SECONDS_A_DAY / half_life_days)


def varied(
    scored: Sequence[tuple[K, float]], words: Callable[[K], Set[str]], weight: float, most: int
) -> list[tuple[K, float]]:
    """Select the best results that differ: maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998).

    :param scored: best first.
    :param words: the words of a candidate; the similarity of two is their Jaccard index.
    :param weight: of the score against the difference from the chosen ones; 1 changes nothing.
    :param most: how many to choose. Each keeps its own score.
    """
    said: Mapping[K, Set[str]] = {key: words(key) for key, _ in scored}
    left, chosen = list(scored), list[tuple[K, float]]()
    top = scored[0][1] if scored and scored[0][1] > 0 else 1.0
    while left and len(chosen) < most:

        def worth(one: tuple[K, float]) -> float:
            likest = max((_alike(said[one[0]], said[key]) for key, _ in chosen), default=0.0)
            return weight * one[1] / top - (1 - weight) * likest

        best = max(left, key=worth)
        left.remove(best)
        chosen.append(best)
    return chosen


def _alike(one: Set[str], other: Set[str]) -> float:
    both = len(one | other)
    return len(one & other) / both if both else 0.0
