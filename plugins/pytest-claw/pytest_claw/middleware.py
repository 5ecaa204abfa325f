"""Conformance tests of provider middleware."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from claw import Finished, ProviderError, TextDelta

from pytest_claw.hook import REQUEST, HookSuite, ScriptedProvider, closed_after_first, collected


class MiddlewareSuite(HookSuite):
    """The promises of a wrapper round every provider. ``make`` is yours."""

    members = ("wrap",)

    def test_the_answer_is_passed_on(self, subject: Any) -> None:
        provider = ScriptedProvider()
        shown, last = self.run(collected(subject.wrap(provider).stream(REQUEST)))
        assert shown == "Good day, model-x"
        assert isinstance(last, Finished), "the last event is Finished"
        assert last.message.text == shown
        assert [request.messages for request in provider.requests] == [REQUEST.messages], (
            "one call is one request"
        )

    def test_each_piece_is_passed_on_as_it_comes(self, subject: Any) -> None:
        async def streamed() -> None:
            gate = asyncio.Event()
            stream = subject.wrap(ScriptedProvider(gate=gate)).stream(REQUEST)
            try:
                async with asyncio.timeout(self.limit_seconds / 2):
                    first = await anext(stream)
            except TimeoutError:
                pytest.fail("nothing came before the whole answer was there")
            assert isinstance(first, TextDelta), f"the first event is {first!r}"
            gate.set()
            await collected(stream)

        self.run(streamed())

    def test_what_it_does_not_know_is_passed_on(self, subject: Any) -> None:
        provider = ScriptedProvider()
        wrapped = subject.wrap(provider)
        for name in ("name", "custom_fact"):
            assert getattr(wrapped, name, None) == getattr(provider, name), f"{name} is lost"
        assert wrapped.context_tokens("model-x") == 8000
        assert tuple(wrapped.credentials()) == tuple(provider.credentials())
        assert not hasattr(wrapped, "nothing_has_this"), "it has what its provider does not have"

    def test_an_error_is_passed_on(self, subject: Any) -> None:
        error = ProviderError("too many requests", reason="rate_limit", retryable=True)
        with pytest.raises(ProviderError) as raised:
            self.run(collected(subject.wrap(ScriptedProvider(error=error)).stream(REQUEST)))
        assert (raised.value.reason, raised.value.retryable) == ("rate_limit", True)

    def test_closing_the_answer_closes_the_stream(self, subject: Any) -> None:
        provider = ScriptedProvider()
        closed = self.run(closed_after_first(subject.wrap(provider).stream(REQUEST), provider))
        assert closed == 1, "the connection of a stopped turn stays open"

    def test_two_answers_at_once_do_not_mix(self, subject: Any) -> None:
        async def both() -> list[str]:
            wrapped = subject.wrap(ScriptedProvider())
            streams = [wrapped.stream(replace(REQUEST, model=model)) for model in ("first", "second")]
            return [shown for shown, _ in await asyncio.gather(*map(collected, streams))]

        assert self.run(both()) == ["Good day, first", "Good day, second"]

    def test_its_statements_at_the_end_of_a_turn_are_sql(self, subject: Any) -> None:
        if not hasattr(subject, "at_end"):
            pytest.skip("it has no at_end")
        self.run(collected(subject.wrap(ScriptedProvider()).stream(REQUEST)))
        for statement in subject.at_end("turn-1"):
            sql, values = statement
            assert (type(sql), type(values)) == (str, tuple), f"{statement!r}"
