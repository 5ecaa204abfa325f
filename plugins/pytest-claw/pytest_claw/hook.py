"""The base of the suites for objects that answer a hook, and a provider with a script for some of them."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from claw import (
    Assistant,
    Credential,
    Finished,
    ModelEvent,
    Request,
    SystemPrompt,
    Text,
    TextDelta,
    User,
)


class HookSuite:
    """The settings of a suite. ``make`` is yours; the rest has defaults.

    :cvar members: functions that the objects must have.
    :cvar is_named: they must have a ``name``.
    :cvar limit_seconds: within which one call must end.
    """

    members: ClassVar[tuple[str, ...]] = ()
    is_named = True
    limit_seconds = 5.0

    def make(self, folder: Path) -> Any:
        """Return a new object to test. Its state belongs into ``folder``: a second call with the same folder is what a
        restart of the process does.
        """
        pytest.fail(f"{type(self).__name__}.make is not written: return the object to test")

    @pytest.fixture
    def subject(self, tmp_path: Path) -> Any:
        """Return the object to test."""
        return self.make(tmp_path)

    def test_it_has_the_members_of_its_hook(self, subject: Any) -> None:
        missing = [name for name in self.members if not callable(getattr(subject, name, None))]
        assert missing == [], f"a {type(subject).__name__} needs these functions"
        if self.is_named:
            assert isinstance(subject.name, str), "name is text"
            assert subject.name.strip(), "name is empty"
        position = getattr(subject, "position", 100)
        assert isinstance(position, int | float), f"position is a number, not {position!r}"

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run ``work`` in an event loop of its own, within ``limit_seconds``."""

        async def limited() -> Any:
            async with asyncio.timeout(self.limit_seconds):
                return await work

        return asyncio.run(limited())


KEYS = (Credential("main", "sk-of-a-test"), Credential("spare", "sk-of-another-test"))
REQUEST = Request(
    "model-x", SystemPrompt("You are claw."), (User((Text("hello"),)),), max_tokens=100, credential=KEYS[0]
)


class ScriptedProvider:
    """A provider that streams two pieces, and records what it is asked.

    :param error: raised in place of an answer.
    :param gate: an event that it waits for before the second piece.
    :ivar requests: the requests it received; ``closed`` the number of streams that ended.
    """

    custom_fact = "a fact that only this provider has"

    def __init__(
        self, name: str = "one", *, error: Exception | None = None, gate: asyncio.Event | None = None
    ) -> None:
        self.name, self.requests, self.closed = name, list[Request](), 0
        self._error, self._gate = error, gate

    async def stream(self, request: Request) -> AsyncIterator[ModelEvent]:
        """Stream ``Good day,`` and the name of the requested model."""
        self.requests.append(request)
        try:
            await asyncio.sleep(0)
            if self._error:
                raise self._error
            yield TextDelta("Good day, ")
            if self._gate:
                await self._gate.wait()
            await asyncio.sleep(0)
            yield TextDelta(request.model)
            yield Finished(Assistant((Text(f"Good day, {request.model}"),), model="unnamed"))
        finally:
            self.closed += 1

    def context_tokens(self, model: str) -> int:
        """Return a small window."""
        return 8000

    def credentials(self) -> Sequence[Credential]:
        """Return two keys."""
        return KEYS


async def collected(stream: AsyncIterator[ModelEvent]) -> tuple[str, ModelEvent | None]:
    """Return the text of all pieces, and the last event."""
    pieces, last = list[str](), None
    async for last in stream:
        if isinstance(last, TextDelta):
            pieces.append(last.text)
    return "".join(pieces), last


async def closed_after_first(stream: Any, provider: ScriptedProvider) -> int:
    """Read one event of a stream and close it; return the number of streams of ``provider`` that ended."""
    await anext(stream)
    await stream.aclose()
    await asyncio.sleep(0)
    return provider.closed
