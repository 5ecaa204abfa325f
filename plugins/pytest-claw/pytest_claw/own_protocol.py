"""Conformance tests of a provider whose protocol no service of ``claw_testing.services`` speaks, or that has none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from claw import (
    Assistant,
    Credential,
    Finished,
    Image,
    ProviderError,
    Request,
    SystemPrompt,
    Text,
    TextDelta,
    ToolCall,
    ToolSpec,
    User,
)
from claw.testing import tool_result_of

from pytest_claw.hook import HookSuite

_CALL = ToolCall("call-1", "ls", {"path": "."})
_TOOL = ToolSpec("ls", "List a folder.", {"type": "object", "properties": {"path": {"type": "string"}}})
_DOT = Image(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_PAST = (
    User((Text("What is here?"),)),
    Assistant((Text("I look."), _CALL), model="another/model", stop_reason="tool_use"),
    tool_result_of(_CALL, "notes.txt"),
    User((Text("And this?"), _DOT)),
)


class OwnProtocolSuite(HookSuite):
    """The promises of a provider, whatever it speaks. ``model``, and ``make`` or ``provider``, are yours.

    It stands for ``ProviderSuite``, which also plays answers of a service word by word, and its failures.

    :cvar model: a model that it answers with.
    :cvar unknown_model: one that it does not have; empty if any name will do.
    :cvar keys: its keys, which must never be shown.
    :cvar stop_seconds: within which an answer must end when it is cancelled.
    """

    members = ("stream", "context_tokens", "credentials")
    limit_seconds = 10.0
    model = ""
    unknown_model = "a-model-that-nobody-has"
    keys: tuple[str, ...] = ()
    stop_seconds = 1.0

    @asynccontextmanager
    async def provider(self, folder: Path) -> AsyncIterator[Any]:
        """Yield the provider: ``make(folder)``. Override it to start your fake of its service before, and to stop it."""
        yield self.make(folder)

    @pytest.fixture
    def subject(self, tmp_path: Path) -> Any:
        """Return a provider for the tests of its members."""

        async def made() -> Any:
            async with self.provider(tmp_path) as provider:
                return provider

        return self.run(made())

    def test_an_answer_is_its_pieces(self, tmp_path: Path) -> None:
        async def trial() -> None:
            async with self.provider(tmp_path) as provider:
                shown, ends = await self._answer(provider)
                assert len(ends) == 1, "the last event is Finished, and nothing comes behind it"
                assert shown == ends[0].text != "", "the pieces are not the answer"
                assert ends[0].stop_reason in ("stop", "length"), f"{ends[0].stop_reason!r}"

        self.run(trial())

    def test_two_answers_at_once_are_whole(self, tmp_path: Path) -> None:
        async def trial() -> None:
            async with self.provider(tmp_path) as provider:
                for shown, ends in await asyncio.gather(self._answer(provider), self._answer(provider)):
                    assert [end.text for end in ends] == [shown], "two answers at once were mixed"

        self.run(trial())

    def test_a_conversation_of_other_providers_is_accepted(self, tmp_path: Path) -> None:
        async def trial() -> None:
            async with self.provider(tmp_path) as provider:
                _, ends = await self._answer(provider, messages=_PAST, tools=(_TOOL,))
                assert ends, "no answer to a history with calls, results and a picture"

        self.run(trial())

    def test_an_answer_that_is_left_leaves_nothing(self, tmp_path: Path) -> None:
        async def trial() -> None:
            async with self.provider(tmp_path) as provider:
                before = asyncio.all_tasks()
                async with aclosing(provider.stream(self.request(provider))) as events:
                    await anext(events)
                await asyncio.sleep(0.05)
                left = asyncio.all_tasks() - before
                assert [str(task.get_coro()) for task in left] == [], "it left tasks behind"

        self.run(trial())

    def test_a_cancelled_answer_ends_at_once(self, tmp_path: Path) -> None:
        async def trial() -> None:
            async with self.provider(tmp_path) as provider:
                task = asyncio.ensure_future(self._answer(provider))
                await asyncio.sleep(0)
                task.cancel()
                _, late = await asyncio.wait({task}, timeout=self.stop_seconds)
                assert not late, f"it went on for {self.stop_seconds:g} s after it was cancelled"

        self.run(trial())

    def test_a_model_that_it_does_not_have_is_an_error_with_a_reason(self, tmp_path: Path) -> None:
        if not self.unknown_model:
            pytest.skip("any name of a model will do")

        async def trial() -> None:
            async with self.provider(tmp_path) as provider:
                with pytest.raises(ProviderError) as raised:
                    await self._answer(provider, model=self.unknown_model)
                assert raised.value.reason == "model_not_found", f"{raised.value.reason!r}"

        self.run(trial())

    def test_it_has_a_window_and_credentials(self, subject: Any) -> None:
        window, credentials = subject.context_tokens(self.model), subject.credentials()
        assert window is None or (isinstance(window, int) and window > 0), f"context_tokens: {window!r}"
        assert credentials, "one credential at least, with an empty secret if it needs none"
        assert all(isinstance(one, Credential) for one in credentials), f"{credentials!r}"

    def test_a_key_is_never_shown(self, tmp_path: Path) -> None:
        async def trial() -> None:
            async with self.provider(tmp_path) as provider:
                shown = [repr(provider), str(vars(provider) if hasattr(provider, "__dict__") else "")]
                try:
                    shown.append((await self._answer(provider, model=self.unknown_model or self.model))[0])
                except ProviderError as why:
                    shown.append(f"{why} {why!r}")
                assert not [key for key in self.keys if any(key in text for text in shown)], "a key is shown"

        self.run(trial())

    def request(self, provider: Any, **fields: Any) -> Request:
        """Return a request with the provider's own credential."""
        usual = {
            "model": self.model,
            "system": SystemPrompt("You are claw."),
            "messages": (User((Text("hello"),)),),
            "credential": provider.credentials()[0],
        }
        return Request(**{**usual, **fields})

    async def _answer(self, provider: Any, **fields: Any) -> tuple[str, list[Assistant]]:
        """Return the streamed text, and the messages that ended the answer."""
        shown, ends = "", list[Assistant]()
        async for event in provider.stream(self.request(provider, **fields)):
            if isinstance(event, TextDelta) and not ends:
                shown += event.text
            elif isinstance(event, Finished):
                ends.append(event.message)
            else:
                assert not ends, f"{event!r} comes behind Finished"
        return shown, ends
