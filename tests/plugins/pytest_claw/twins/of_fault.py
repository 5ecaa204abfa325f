"""One provider that bears what it meets, and twins that do not; of the faults those few on which they differ."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import claw_openai
from claw import Assistant, Finished, ProviderError, hookimpl
from claw_testing.services import OpenAIService
from pytest_claw import FaultSuite
from pytest_claw.faults import FAULTS


def only(*names: str) -> dict[str, str]:
    return {name: "" for name in FAULTS if name not in names}


class Changed:
    """The sound plugin, with the streams of its providers changed."""

    @hookimpl
    def register_providers(self, config: Any) -> Any:
        for one in claw_openai.register_providers(config):
            one.stream = self.changed(one.stream)
            yield one

    def changed(self, stream: Any) -> Any:
        raise NotImplementedError


class Hiding(Changed):
    def changed(self, stream: Any) -> Any:
        async def hiding(request: Any) -> AsyncIterator[Any]:
            try:
                async for event in stream(request):
                    yield event
            except ProviderError:
                yield Finished(Assistant())

        return hiding


class Insisting(Changed):
    def changed(self, stream: Any) -> Any:
        async def insisting(request: Any) -> AsyncIterator[Any]:
            for last in (False, True):
                try:
                    async for event in stream(request):
                        yield event
                    return
                except ProviderError:
                    if last:
                        raise
                    await asyncio.sleep(0)

        return insisting


class TestSound(FaultSuite):
    breaks = ""
    plugin, name, service = claw_openai, "openai", OpenAIService
    fault_ends = only(
        "no answer", "an end mark and silence", "429, a pause in seconds", "calls without an id"
    )


class TestHiding(TestSound):
    breaks = "test_a_fault_ends_in_time_with_its_reason_and_the_next_call_is_answered"
    plugin = Hiding()
    fault_ends = only("two end marks", "429, a pause in seconds")


class TestInsisting(TestSound):
    breaks = "test_a_fault_ends_in_time_with_its_reason_and_the_next_call_is_answered"
    plugin = Insisting()
    fault_ends = only("two end marks", "503")


class TestWaiting(TestSound):
    breaks = "test_a_fault_ends_in_time_with_its_reason_and_the_next_call_is_answered"
    limits: ClassVar[dict[str, float]] = {}
    fault_ends = only("two end marks", "no answer")
