"""Ten minutes of refusals on any subset of keys: few requests, no turn lost, well again within 30 seconds."""

import itertools

import pytest
from rigs.storm import BEFORE_SECONDS, STORM_SECONDS, Weather, rage, storms, subsets

HOUSES = (
    (("a", 1),),
    (("a", 3),),
    (("a", 2), ("b", 1)),
    (("a", 1), ("b", 1), ("c", 1)),
)  # fmt: skip
PER_MINUTE = (6.0, 60.0)
END = BEFORE_SECONDS + STORM_SECONDS
LONGEST_CALL = 5.0


def weathers(kind: str, wait_seconds: float, full: bool) -> list[Weather]:
    """One in thirteen of them, or all: gateways, what the service asks for, how many people write, who refuses."""
    all_of_them = [
        Weather(harness, sick, kind, after, rate, wait_seconds, seed)
        for seed, (harness, after, rate) in enumerate(itertools.product(HOUSES, (None, 5.0), PER_MINUTE))
        for sick in subsets(harness)
        if after is None or kind == "429"
    ]
    return all_of_them if full else all_of_them[::13]


@pytest.mark.parametrize("kind", ["429", "529", "503"])
def test_a_storm_costs_few_requests_and_whoever_waits_is_answered(kind: str, full: bool) -> None:
    for weather in weathers(kind, 900.0, full):
        seen = rage(weather)
        requests, ideal = storms(seen, weather)

        assert requests <= 2 * ideal, f"{requests} requests where {ideal} would have done: {weather}"
        assert (seen.lost, seen.refused) == ([], []), weather
        assert len(seen.answered) == len(seen.begun)
        late = [at for begun, at in seen.answered if at > max(begun, END + 30) + LONGEST_CALL]
        assert late == [], f"not well again within 30 s: {weather}"


@pytest.mark.parametrize("kind", ["429", "529", "503"])
def test_who_may_not_wait_so_long_is_told_why_there_is_no_answer(kind: str, full: bool) -> None:
    for weather in weathers(kind, 120.0, full):
        seen = rage(weather)
        requests, ideal = storms(seen, weather)

        assert requests <= 2 * ideal
        assert seen.lost == []
        assert len(seen.answered) + len(seen.refused) == len(seen.begun)
        assert all(at - begun < 120 + LONGEST_CALL for begun, at in seen.answered)
