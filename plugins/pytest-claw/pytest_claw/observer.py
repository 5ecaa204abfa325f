"""Conformance tests of an observer of turns."""

import inspect
import time
from typing import Any

import pytest
from claw import (
    Assistant,
    AttemptFailed,
    Event,
    MessageRecorded,
    Notice,
    Retrying,
    RunEnded,
    StepEnded,
    StepStarted,
    Text,
    TextStreamed,
    ThinkingStreamed,
    ToolBegan,
    ToolCall,
    ToolEnded,
    ToolProgress,
    ToolResult,
    TurnEnded,
    TurnStarted,
    User,
)

from pytest_claw.hook import HookSuite

_CALL, _ANSWER = ToolCall("c1", "read", {"file_path": "notes.txt"}), Assistant((Text("Good day."),))
EVENTS = (
    TurnStarted("turn-1", "default", "agent:default:main", "fake/m1"),
    MessageRecorded(User((Text("hello"),))),
    StepStarted(1),
    ThinkingStreamed("hm"),
    TextStreamed("Good "),
    AttemptFailed("fake/m1", "main", "rate_limit", "too many requests"),
    Retrying("fake/m1", "rate_limit", 0.5),
    ToolBegan(_CALL),
    ToolProgress("c1", "half"),
    ToolEnded(_CALL, ToolResult("a note")),
    MessageRecorded(_ANSWER),
    StepEnded(_ANSWER, ()),
    Notice("another model answers"),
    RunEnded("stop"),
    TurnEnded("turn-1", "delivered", "Good day."),
)


class EventOfLaterVersion(Event, frozen=True):
    """An event that no observer knows."""

    what: str = "news"


class ObserverSuite(HookSuite):
    """The promises of an observer. ``make`` is yours.

    :cvar quick_seconds: within which it must be done with an event.
    """

    members = ("on_event",)
    is_named = False
    quick_seconds = 0.5

    def test_it_takes_every_event_of_a_turn(self, subject: Any) -> None:
        for event in EVENTS:
            self._notify(subject, event)

    def test_it_ignores_an_event_of_a_later_version(self, subject: Any) -> None:
        self._notify(subject, EventOfLaterVersion())

    def test_it_is_quick(self, subject: Any) -> None:
        for event in EVENTS:
            begun = time.monotonic()
            self._notify(subject, event)
            took = time.monotonic() - begun
            assert took <= self.quick_seconds, f"{type(event).__name__} took {took:.2f} s; claw waits 2 s"

    def test_it_prints_nothing(self, subject: Any, capfd: pytest.CaptureFixture[str]) -> None:
        capfd.readouterr()
        for event in EVENTS:
            self._notify(subject, event)
        assert capfd.readouterr().out == "", "stdout belongs to the command that is running"

    def _notify(self, observer: Any, event: Event) -> None:
        async def notify() -> None:
            answer = observer.on_event(event)
            if inspect.isawaitable(answer):
                await answer

        try:
            self.run(notify())
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 - the observer's code
            pytest.fail(f"{type(event).__name__}: it raised {error!r}")
