"""A storm: services that refuse for ten minutes, on a clock of our own, while people go on writing.

The time of the loop is simulated: whoever sleeps is woken at once, and the clock says that it was later.
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
    """Waits for nothing: the time that it should wait has passed when it returns."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing is left that could happen"
        found = super().select(0)
        if not found:
            self.passed += max(0.0, timeout)
        return found


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes as fast as there is nothing to do."""

    def __init__(self) -> None:
        self._selected = _Selector()
        super().__init__(self._selected)

    def time(self) -> float:
        return self._selected.passed


@dataclass(frozen=True)
class Weather:
    """One storm.

    :param providers: name → how many keys; each serves one model and follows the one before it.
    :param sick: the keys that refuse, ``(provider, number)``.
    :param kind: how: 429, 529, 503.
    :param retry_after: what the service asks for; None = it does not say.
    :param turns: how many are begun in a minute.
    :param wait_seconds: what a turn may wait.
    """

    providers: tuple[tuple[str, int], ...]
    sick: frozenset[tuple[str, int]]
    kind: str
    retry_after: float | None
    turns: float
    wait_seconds: float
    seed: int


@dataclass
class Seen:
    """The result of a storm.

    :param requests: moments of requests. ``answered``: when each turn that was answered began, and when it was.
    :param refused: what turns said that ended without an answer. ``lost``: those that did not even say that.
    """

    requests: list[float] = field(default_factory=list)
    begun: list[float] = field(default_factory=list)
    answered: list[tuple[float, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


class _Service:
    """A model service under that weather."""

    def __init__(self, name: str, keys: int, weather: Weather, seen: Seen, dice: random.Random) -> None:
        self.name, self._keys, self._weather, self._seen, self._dice = name, keys, weather, seen, dice

    def credentials(self) -> tuple[Credential, ...]:
        return tuple(Credential(str(at), f"sk-{at}") for at in range(self._keys))

    def context_tokens(self, model: str) -> int:
        return 200_000

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        now = asyncio.get_running_loop().time
        self._seen.requests.append(now())
        await asyncio.sleep(self._dice.uniform(0.1, 1.0))
        assert request.credential is not None
        storms = BEFORE_SECONDS <= now() < BEFORE_SECONDS + STORM_SECONDS
        if storms and (self.name, int(request.credential.name)) in self._weather.sick:
            asked = self._weather.retry_after
            headers = {} if asked is None else {"retry-after": f"{asked:g}"}
            text = "overloaded" if self._weather.kind == "529" else "not now"
            raise provider_error(self.name, status=STATUS[self._weather.kind], text=text, headers=headers)
        yield TextDelta("fine")
        await asyncio.sleep(self._dice.uniform(0.5, 3.0))
        yield Finished(says("fine"))


def rage(weather: Weather) -> Seen:
    """Let it storm, and see."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(_rage(weather))


async def _rage(weather: Weather) -> Seen:
    seen, dice = Seen(), random.Random(weather.seed)
    now = asyncio.get_running_loop().time
    keys = KeyPool(None, Clock(lambda: 1_800_000_000 + now(), now))
    services: dict[str, Any] = {
        name: _Service(name, count, weather, seen, dice) for name, count in weather.providers
    }
    models = [ModelRef(name, "m") for name, _ in weather.providers]

    async def turn(number: int) -> None:
        selection = KeySelection(keys, wait_seconds=weather.wait_seconds)
        options = ModelOptions(session_key=f"s{number % 16}", notice=_nobody)
        ask = with_fallback(models, services, Request("", SystemPrompt(""), ()), selection, options)
        begun = now()
        seen.begun.append(begun)
        try:
            async for event in ask((), "auto"):
                if isinstance(event, Finished):
                    seen.answered.append((begun, now()))
                    return
            seen.lost.append("it ended without an answer")
        except ProviderError as why:
            seen.refused.append(str(why))
        except Exception as why:
            seen.lost.append(repr(why))

    async with asyncio.TaskGroup() as group:
        number = 0
        while now() < BEFORE_SECONDS + STORM_SECONDS + AFTER_SECONDS:
            group.create_task(turn(number))
            number += 1
            await asyncio.sleep(dice.expovariate(weather.turns / 60))
    return seen


async def _nobody(text: str) -> None:
    pass


def storms(seen: Seen, weather: Weather) -> tuple[int, float]:
    """Requests in the storm, and what would have been needed: one for each turn and one probe for each provider and
    twenty seconds."""
    begin, end = BEFORE_SECONDS, BEFORE_SECONDS + STORM_SECONDS
    turns = sum(begin <= at < end for at in seen.begun)
    probes = len(weather.providers) * (STORM_SECONDS / PROBE_SECONDS)
    return sum(begin <= at < end for at in seen.requests), turns + probes


def subsets(providers: Sequence[tuple[str, int]]) -> list[frozenset[tuple[str, int]]]:
    """All sets of keys that may refuse, but none."""
    every = [(name, at) for name, count in providers for at in range(count)]
    return [
        frozenset(key for at, key in enumerate(every) if number >> at & 1)
        for number in range(1, 1 << len(every))
    ]
