"""Fault tests of a provider: calls to a service that fails in every known way."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from claw import UNREADABLE_CALL, Assistant, Finished, Provider, ProviderError, TextDelta
from claw_testing import ReceivedRequest, ServiceReply

from pytest_claw.faults import ANSWER, FAULTS, KEY, UNREADABLE, WireFault, at
from pytest_claw.provider_base import ProviderSuiteBase, asks

GRACE_SECONDS = 5.0
_AGAIN = "Here I am again."
_warm: set[int] = set()


class FaultSuite(ProviderSuiteBase):
    """A call that meets a fault ends in time, with the right reason, and leaves the provider usable: a
    hundred faults, by name.

    ``plugin``, ``name`` and ``service`` are yours: see :class:`pytest_claw.provider_base.ProviderSuiteBase`.

    :cvar limits: keys of ``providers.NAME`` that make its limits short, in seconds.
    :cvar fault_ends: by the name of a fault, other allowed ends for this protocol: reasons of
        ``ProviderError``, or ``answer``; empty = it is not tried.
    """

    limits: Mapping[str, float] = {
        "beginTimeoutSeconds": 0.3,
        "idleTimeoutSeconds": 0.2,
        "timeoutSeconds": 0.8,
    }
    fault_ends: Mapping[str, str] = {}

    @pytest.mark.parametrize("fault", FAULTS)
    def test_a_fault_ends_in_time_with_its_reason_and_the_next_call_is_answered(self, fault: str) -> None:
        what = FAULTS[fault]
        ends = self.fault_ends.get(fault, " ".join(what.ends)).split()
        if not ends:
            pytest.skip("this protocol knows no such thing")
        asyncio.run(self._run_fault(what, ends))

    async def _run_fault(self, fault: WireFault, ends: list[str]) -> None:
        replies = iter([] if fault.where else [fault.reply])
        limits = (
            self.limits if "timeout" in ends else {}
        )  # long enough that a busy machine does not trigger it

        def script(request: ReceivedRequest) -> ServiceReply:
            return next(replies, ServiceReply(text=_AGAIN))

        await self._warm()
        async with (
            self.service(script) as service,
            at(fault.where, service.url) as url,
            self.provider(url, **limits) as model,
        ):
            await self._ends(fault, ends, model, max(limits.values(), default=0.0))
            if fault.where:
                return
            assert len(service.requests) == 1, "one attempt is one request"
            assert await _retry(model, tries=3 if limits else 1) == _AGAIN, "the next call is answered"
            await _closed(service)
            assert service.refusals == []

    async def _warm(self) -> None:
        """Make a first call without limits, which imports the vendor's library."""
        if id(self.plugin) not in _warm:
            _warm.add(id(self.plugin))
            async with self.service([_AGAIN]) as service, self.provider(service.url) as model:
                await _collect(model)

    async def _ends(self, fault: WireFault, ends: list[str], model: Provider, longest: float) -> None:
        began = time.monotonic()
        shown, error, message = "", None, None
        try:
            shown, message = await asyncio.wait_for(_collect(model), longest + GRACE_SECONDS)
        except ProviderError as failed:
            error = failed
        assert time.monotonic() - began < longest + GRACE_SECONDS
        unread = message and {call.name for call in message.tool_calls} == {UNREADABLE_CALL}
        reason = error.reason if error else UNREADABLE if unread else ANSWER
        assert reason in ends, f"{fault.name}: {error or message}"
        if reason == UNREADABLE:
            assert shown == fault.reply.text
            return
        if error is None:
            _check_answer(fault, shown, message)
            return
        shown_error = f"{error} {error!r} {vars(error)!r} {error.__cause__!r}"
        assert KEY not in shown_error, "the key is shown"
        assert not {"\n", "<"} & set(str(error)), "an error is one line in words"
        pause = error.retry_after_seconds
        if fault.wait is None:
            assert not pause, f"the service asked for no pause, the error says {pause} s"
        else:
            least, most = fault.wait
            assert least <= (-1 if pause is None else pause) <= most, f"a pause of {pause} s"


def _check_answer(fault: WireFault, shown: str, message: Assistant | None) -> None:
    assert message is not None, "the last event is Finished"
    assert shown == message.text == fault.reply.text
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    assert calls == [(name, dict(given)) for name, given in fault.reply.calls]
    assert all(call.id for call in message.tool_calls)
    assert message.model.endswith("/model-x") or not message.model, "the model that was asked is named"


async def _retry(model: Provider, tries: int) -> str:
    while True:
        tries -= 1
        try:
            return (await asyncio.wait_for(_collect(model), GRACE_SECONDS))[0]
        except ProviderError as error:
            if error.reason != "timeout" or not tries:
                raise


async def _closed(service: Any) -> None:
    for _ in range(100):
        if service.open <= 1:
            return
        await asyncio.sleep(0.02)
    pytest.fail("the broken connection is still open")


async def _collect(model: Provider) -> tuple[str, Assistant | None]:
    shown, last = [], None
    async for event in model.stream(asks()):
        if isinstance(event, TextDelta):
            shown.append(event.text)
        last = event
    return "".join(shown), last.message if isinstance(last, Finished) else None
