"""Conformance tests of an approver."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from claw import Address, ApprovalRequest, Decision, Sender

from pytest_claw.hook import HookSuite

REQUEST = ApprovalRequest(
    "agent:default:main", "default", "turn-1", "exec", "the command changes files", "rm -r build", "digest-1",
    Address("fake", "chat-1"), Sender("user-1", "Ann"), arguments={"command": "rm -r build"},
)  # fmt: skip


class ApproverSuite(HookSuite):
    """The promises of an approver. ``make`` and ``answer`` are yours.

    :cvar stop_seconds: within which a cancelled question must end.
    """

    members = ("ask",)
    stop_seconds = 1.0

    async def answer(self, approver: Any, allow: bool) -> None:
        """Answer the open question as a person would; called once for each question, while ``ask`` waits."""
        pytest.fail(f"{type(self).__name__}.answer is not written: let a person allow or refuse the request")

    def test_a_call_that_is_allowed_may_run(self, subject: Any) -> None:
        decision = self.run(self._asked(subject, allow=True))
        assert isinstance(decision, Decision), f"{decision!r}"
        assert decision.allowed, f"{decision!r}"

    def test_a_call_that_is_refused_may_not_run(self, subject: Any) -> None:
        decision = self.run(self._asked(subject, allow=False))
        assert isinstance(decision, Decision), f"{decision!r}"
        assert not decision.allowed, f"{decision!r}"

    def test_another_call_is_asked_about_again(self, subject: Any) -> None:
        other = replace(REQUEST, digest="digest-2", shown="rm -r src", arguments={"command": "rm -r src"})

        async def twice() -> Any:
            await self._asked(subject, allow=True)
            return await self._asked(subject, other, allow=False)

        assert not self.run(twice()).allowed, "the answer to one call decided about another"

    def test_nothing_is_allowed_without_an_answer(self, subject: Any) -> None:
        async def waited() -> Any:
            question = asyncio.ensure_future(subject.ask(REQUEST))
            done, _ = await asyncio.wait({question}, timeout=0.2)
            question.cancel()
            await asyncio.wait({question}, timeout=self.stop_seconds)
            return done and question.result()

        decision = self.run(waited())
        assert not decision or not decision.allowed, "it allowed the call by itself"

    def test_a_stopped_turn_ends_the_question(self, subject: Any) -> None:
        async def stopped() -> set[Any]:
            question = asyncio.ensure_future(subject.ask(REQUEST))
            await asyncio.sleep(0.05)
            question.cancel()
            _, late = await asyncio.wait({question}, timeout=self.stop_seconds)
            return late

        assert not self.run(stopped()), f"it went on for {self.stop_seconds:g} s"

    async def _asked(self, approver: Any, request: ApprovalRequest = REQUEST, *, allow: bool) -> Any:
        question = asyncio.ensure_future(approver.ask(request))
        await asyncio.sleep(0.02)
        if not question.done():
            await self.answer(approver, allow)
        return await question
