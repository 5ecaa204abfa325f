"""Ten minutes of refusals on any subset of keys: few requests, no turn lost, healthy within 30 seconds."""

import itertools

import pytest
from rigs.storm import BEFORE_SECONDS, STORM_SECONDS, Storm, count_requests, run_storm, subsets

KEY_COUNTS_BY_PROVIDER = (
    (("a", 1),),
    (("a", 3),),
    (("a", 2), ("b", 1)),
    (("a", 1), ("b", 1), ("c", 1)),
)  # fmt: skip
PER_MINUTE = (6.0, 60.0)
END = BEFORE_SECONDS + STORM_SECONDS
LONGEST_CALL = 5.0


def storm_cases(kind: str, wait_seconds: float, full: bool) -> list[Storm]:
    """One combination in 13, or all: keys per provider, Retry-After, messages per minute, failing keys."""
    all_of_them = [
        Storm(key_counts, failing, kind, after, rate, wait_seconds, seed)
        for seed, (key_counts, after, rate) in enumerate(
            itertools.product(KEY_COUNTS_BY_PROVIDER, (None, 5.0), PER_MINUTE)
        )
        for failing in subsets(key_counts)
        if after is None or kind == "429"
    ]
    return all_of_them if full else all_of_them[::13]


@pytest.mark.parametrize("kind", ["429", "529", "503"])
def test_a_storm_costs_few_requests_and_whoever_waits_is_answered(kind: str, full: bool) -> None:
    for storm in storm_cases(kind, 900.0, full):
        result = run_storm(storm)
        requests, ideal = count_requests(result, storm)

        assert requests <= 2 * ideal, f"{requests} requests where {ideal} would have done: {storm}"
        assert (result.lost, result.refused) == ([], []), storm
        assert len(result.answered) == len(result.begun)
        late = [at for begun, at in result.answered if at > max(begun, END + 30) + LONGEST_CALL]
        assert late == [], f"not healthy within 30 s: {storm}"


@pytest.mark.parametrize("kind", ["429", "529", "503"])
def test_a_turn_whose_wait_is_limited_ends_with_the_reason(kind: str, full: bool) -> None:
    for storm in storm_cases(kind, 120.0, full):
        result = run_storm(storm)
        requests, ideal = count_requests(result, storm)

        assert requests <= 2 * ideal
        assert result.lost == []
        assert len(result.answered) + len(result.refused) == len(result.begun)
        assert all(at - begun < 120 + LONGEST_CALL for begun, at in result.answered)
