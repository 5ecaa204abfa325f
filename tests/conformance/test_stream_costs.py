"""Cost of a streamed call compared with a bare client, in counts that do not depend on the load of the machine.

The times are in ``bench`` (``streams.py``): CPU of our call beside that of a bare client.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from claw.contracts.provider import Finished, TextDelta
from claw_testing.services import AnthropicService, OpenAIService, ServiceReply
from core.source import ROOT
from models import asks, provider
from typed import TypedGoogleService, TypedMistralService

WIRES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "messages": (AnthropicService, "anthropic", {}),
    "chat": (OpenAIService, "openai", {}),
    "responses": (OpenAIService, "openai", {"api": "responses"}),
    "gemini": (TypedGoogleService, "google", {}),
    "mistral": (TypedMistralService, "mistral", {}),
}
MOST_CALLS = 25
"""Calls of functions of claw and its plugins for one word, a generator's going on counted too."""


@contextmanager
def counting(count: Callable[[], None]) -> Iterator[None]:
    """``count`` is called for each function of ours that is begun or gone on with."""

    def seen(frame: Any, event: str, _: Any) -> None:
        name = frame.f_globals.get("__name__", "")
        if event == "call" and name.startswith("claw") and not name.startswith("claw.testing"):
            count()

    sys.setprofile(seen)
    try:
        yield
    finally:
        sys.setprofile(None)


def test_a_streamed_call_costs_little_more_than_a_bare_client() -> None:
    """The budget is twice; a busy machine in a short run may double that, an object per event costs far more."""
    command = [sys.executable, str(ROOT / "bench/streams.py"), "--words", "300", "--calls", "10"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    times = {wire: figures["times"] for wire, figures in json.loads(done.stdout).items()}
    assert len(times) == 5
    assert {wire: figure for wire, figure in times.items() if figure > 10} == {}


def wordy(words: int) -> ServiceReply:
    """An answer of so many pieces of text, each an event of its own."""

    async def play(line: Any) -> None:
        first = next(at for at, event in enumerate(line.events) if b'"hello' in event)
        await line.send_head()
        await line.send(*line.events[:first], *[line.events[first]] * words, *line.events[first + 1 :])

    return ServiceReply(text="hello hello ", play=play)


async def calls_of(wire: str, words: int) -> int:
    """Count the calls of our functions for an answer of this many words."""
    service, plugin, section = WIRES[wire]
    called, received = 0, 0

    def count() -> None:
        nonlocal called
        called += 1

    async with (
        service([wordy(1), wordy(words)]) as there,
        provider(there.url, plugin, **section) as model,
    ):
        async for _ in model.stream(asks()):  # imports the vendor's library
            pass
        with counting(count):
            async for event in model.stream(asks()):
                received += isinstance(event, TextDelta)
        assert isinstance(event, Finished)
    assert received >= words
    return called


@pytest.mark.parametrize("wire", WIRES)
async def test_a_word_takes_few_calls_however_long_the_answer_is(wire: str) -> None:
    few, many, more = [await calls_of(wire, words) for words in (100, 300, 500)]
    assert (more - many) / 200 <= MOST_CALLS
    # each read of the connection costs as well, and how many words come at once is the machine's; squared it would be 2
    assert (more - many) / (many - few) < 1.5, "the longer, the dearer each word"
