"""Simulation of model services that refuse requests for ten minutes while messages keep arriving.

The time of the event loop is simulated: a task that sleeps is resumed at once, and the clock is advanced.
"""

import asyncio
import random
import selectors
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from claw.contracts.errors import ProviderError
from claw.contracts.extensions import ModelOptions
from claw.contracts.provider import (
    Credential,
    Finished,
    ModelEvent,
    ModelRef,
    Request,
    SystemPrompt,
    TextDelta,
)
from claw.storage.clock import Clock
from claw.testing import says
from claw_models.failover import KeySelection, with_fallback
from claw_models.key_pool import KeyPool
from claw_provider_sdk.errors import provider_error

BEFORE_SECONDS, STORM_SECONDS, AFTER_SECONDS = 30.0, 600.0, 120.0
STATUS = {"429": 429, "529": 529, "503": 503}
PROBE_SECONDS = 20.0


class _Selector(selectors.SelectSelector):
    """A selector that returns at once and advances the time by its timeout."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "no task can make progress"
        found = super().select(0)
        if not found:
            self.passed += max(0.0, timeout)
        return found


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop that advances its time whenever no task is ready."""

    def __init__(self) -> None:
        self._selected = _Selector()
        super().__init__(self._selected)

    def time(self) -> float:
        return self._selected.passed


@dataclass(frozen=True)
class Storm:
    """One combination of failures.

    :param providers: name → number of keys; each provider serves one model and is the fallback of the one before.
    :param failing: the keys that refuse, ``(provider, number)``.
    :param kind: the HTTP status: 429, 529, 503.
    :param retry_after: seconds in ``Retry-After``; None = the header is missing.
    :param turns: turns that begin per minute.
    :param wait_seconds: the longest wait of a turn for a key.
    """

    providers: tuple[tuple[str, int], ...]
    failing: frozenset[tuple[str, int]]
    kind: str
    retry_after: float | None
    turns: float
    wait_seconds: float
    seed: int


@dataclass
class StormResult:
    """The result of a storm.

    :param requests: the times of all requests.
    :param begun: the times at which turns began.
    :param answered: begin and end of each turn that got an answer.
    :param refused: error messages of the turns that failed with a ProviderError.
    :param lost: turns that ended in any other way.
    """

    requests: list[float] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    answered: list[tuple[float, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


class _Service:
    """A model service during that storm."""

    def __init__(self, name: str, keys: int, storm: Storm, result: StormResult, rng: random.Random) -> None:
        self.name = name
        self._keys = keys
        self._storm = storm
        self._result = result
        self._rng = rng

    def credentials(self) -> tuple[Credential, ...]:
        return tuple(Credential(str(at), f"sk-{at}") for at in range(self._keys))

    def context_tokens(self, model: str) -> int:
        return 200_000

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        now = asyncio.get_running_loop().time
        self._result.requests.append(now())
        await asyncio.sleep(self._rng.uniform(0.1, 1.0))
        assert request.credential is not None
        refuses = BEFORE_SECONDS <= now() < BEFORE_SECONDS + STORM_SECONDS
        if refuses and (self.name, int(request.credential.name)) in self._storm.failing:
            asked = self._storm.retry_after
            headers = {} if asked is None else {"retry-after": f"{asked:g}"}
            text = "overloaded" if self._storm.kind == "529" else "not now"
            raise provider_error(self.name, status=STATUS[self._storm.kind], text=text, headers=headers)
        yield TextDelta("fine")
        await asyncio.sleep(self._rng.uniform(0.5, 3.0))
        yield Finished(says("fine"))


def run_storm(storm: Storm) -> StormResult:
    """Simulate one storm."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(_run(storm))


async def _run(storm: Storm) -> StormResult:
    result, rng = StormResult(), random.Random(storm.seed)
    now = asyncio.get_running_loop().time
    keys = KeyPool(None, Clock(lambda: 1_800_000_000 + now(), now))
    services: dict[str, Any] = {
        name: _Service(name, count, storm, result, rng) for name, count in storm.providers
    }
    models = [ModelRef(name, "m") for name, _ in storm.providers]

    async def turn(number: int) -> None:
        selection = KeySelection(keys, wait_seconds=storm.wait_seconds)
        options = ModelOptions(session_key=f"s{number % 16}", notice=_ignore)
        ask = with_fallback(models, services, Request("", SystemPrompt(""), ()), selection, options)
        begun = now()
        result.begun.append(begun)
        try:
            async for event in ask((), "auto"):
                if isinstance(event, Finished):
                    result.answered.append((begun, now()))
                    return
            result.lost.append("it ended without an answer")
        except ProviderError as why:
            result.refused.append(str(why))
        except Exception as why:
            result.lost.append(repr(why))

    async with asyncio.TaskGroup() as group:
        number = 0
        while now() < BEFORE_SECONDS + STORM_SECONDS + AFTER_SECONDS:
            group.create_task(turn(number))
            number += 1
            await asyncio.sleep(rng.expovariate(storm.turns / 60))
    return result


async def _ignore(text: str) -> None:
    pass


def count_requests(result: StormResult, storm: Storm) -> tuple[int, float]:
    """Count the requests in the storm, and those an ideal client sends: one per turn, and one probe per provider
    every 20 seconds."""
    begin, end = BEFORE_SECONDS, BEFORE_SECONDS + STORM_SECONDS
    turns = sum(begin <= at < end for at in result.begun)
    probes = len(storm.providers) * (STORM_SECONDS / PROBE_SECONDS)
    return sum(begin <= at < end for at in result.requests), turns + probes


def subsets(providers: Sequence[tuple[str, int]]) -> list[frozenset[tuple[str, int]]]:
    """Return all non-empty sets of keys."""
    every = [(name, at) for name, count in providers for at in range(count)]
    return [
        frozenset(key for at, key in enumerate(every) if number >> at & 1)
        for number in range(1, 1 << len(every))
    ]
