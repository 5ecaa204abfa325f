"""One sound observer, and for each promise a twin that breaks it and no other."""

import sys
import time
from pathlib import Path
from typing import Any

from claw import StepEnded, ToolEnded, TurnEnded
from pytest_claw import ObserverSuite


class Counter:
    """Counts the turns."""

    turns = 0

    async def on_event(self, event: Any) -> None:
        self.turns += isinstance(event, TurnEnded)


class TestSound(ObserverSuite):
    kind: type[Counter] = Counter
    breaks = ""

    def make(self, folder: Path) -> Any:
        return self.kind()


class Misplaced(Counter):
    position = "first"


class TestHasNoNumberAsPosition(TestSound):
    kind, breaks = Misplaced, "test_it_has_the_members_of_its_hook"


class Presuming(Counter):
    """It expects results of every step: it fails as soon as a step had none, once."""

    async def on_event(self, event: Any) -> None:
        if isinstance(event, StepEnded) and not self.turns:
            _ = event.results[0]


class TestExpectsResults(TestSound):
    kind, breaks = Presuming, "test_it_takes_every_event_of_a_turn"

    def test_it_is_quick(self, subject: Any) -> None:
        """It raises there too."""

    def test_it_prints_nothing(self, subject: Any, capfd: Any) -> None:
        """It raises there too."""


class Strict(Counter):
    async def on_event(self, event: Any) -> None:
        if event.__class__.__module__ != TurnEnded.__module__:
            raise TypeError(f"no such event: {event!r}")


class TestKnowsOnlyTodaysEvents(TestSound):
    kind, breaks = Strict, "test_it_ignores_an_event_of_a_later_version"


class Slow(Counter):
    async def on_event(self, event: Any) -> None:
        if isinstance(event, ToolEnded):
            time.sleep(0.2)


class TestTakesLong(TestSound):
    kind, breaks, quick_seconds = Slow, "test_it_is_quick", 0.1


class Noisy(Counter):
    async def on_event(self, event: Any) -> None:
        sys.stdout.write(f"{event}\n")


class TestPrints(TestSound):
    kind, breaks = Noisy, "test_it_prints_nothing"
