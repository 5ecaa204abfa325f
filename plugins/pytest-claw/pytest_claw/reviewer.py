"""Conformance tests of a reviewer of tool calls."""

import copy
import inspect
import time
from typing import Any

import pytest
from claw import Address, CallContext, Review, Sender, ToolCall, ToolResult, ToolTraits

from pytest_claw.hook import HookSuite

CALLS = (
    ToolCall("c1", "exec", {"command": "ls -l"}),
    ToolCall("c2", "read", {"file_path": "notes.txt"}),
    ToolCall("c3", "a_tool_of_somebody_else", {}),
    ToolCall("c4", "exec", {"command": None, "more": [{"deep": [1, 2.5, True]}]}),
    ToolCall("c5", "exec", {"command": ["ls"], "": ""}),
    ToolCall("c6", "write", {"content": "long " * 2000}),
)


class ReviewerSuite(HookSuite):
    """The promises of a reviewer. ``make`` is yours.

    :cvar calls: calls to review beside the usual ones.
    :cvar quick_seconds: within which one review must end: each call of the turn waits for it.
    """

    members = ("before",)
    is_named = False
    calls: tuple[ToolCall, ...] = ()
    quick_seconds = 0.5

    def context(self, call: ToolCall, **given: Any) -> CallContext:
        """Return the context of a call of a person at the terminal."""
        facts = {
            "turn": "turn-1",
            "session_key": "agent:default:main",
            "agent": "default",
            "address": Address("terminal", "main"),
            "sender": Sender("user-1"),
            "tool": ToolTraits(call.name, "acme"),
        }
        return CallContext(**{**facts, **given})

    def test_it_answers_every_call_with_a_review_or_nothing(self, subject: Any) -> None:
        for call in self._calls():
            review = self._asked(subject.before, call, self.context(call))
            assert review is None or isinstance(review, Review), f"{call.name}: {review!r}"
            if review is not None:
                assert review.verdict in ("allow", "ask", "deny"), f"{call.name}: {review.verdict!r}"
                assert isinstance(review.arguments, dict | None), f"{call.name}: arguments are a dict"
                for field in ("why", "note", "end_turn"):
                    given = getattr(review, field)
                    assert isinstance(given, str), f"{call.name}: {field} is a text, not {given!r}"
                assert review.verdict == "allow" or review.why.strip(), (
                    f"{call.name}: the model reads why it may not"
                )

    def test_it_changes_nothing_in_place(self, subject: Any) -> None:
        for call in self._calls():
            before = copy.deepcopy(call.arguments)
            self._asked(subject.before, call, self.context(call))
            assert call.arguments == before, "other arguments are returned in Review.arguments"

    def test_it_is_quick(self, subject: Any) -> None:
        for call in self._calls():
            begun = time.monotonic()
            self._asked(subject.before, call, self.context(call))
            took = time.monotonic() - begun
            assert took <= self.quick_seconds, f"{call.name} took {took:.2f} s, and after 5 s claw denies"

    def test_it_returns_results_as_results(self, subject: Any) -> None:
        if not hasattr(subject, "after"):
            pytest.skip("it has no after")
        for call in self._calls():
            self._asked(subject.before, call, self.context(call))
            for result in (ToolResult("fine"), ToolResult("it failed", is_error=True)):
                answer = self._asked(subject.after, call, result, self.context(call))
                assert answer is None or isinstance(answer, ToolResult), f"{call.name}: {answer!r}"

    def test_it_copes_with_calls_that_cannot_run(self, subject: Any) -> None:
        if not getattr(subject, "all_calls", False):
            pytest.skip("it is not asked about them")
        for call in copy.deepcopy(CALLS):
            context = self.context(call, tool=None, problem="there is no such tool")
            review = self._asked(subject.before, call, context)
            assert review is None or isinstance(review, Review), f"{call.name}: {review!r}"

    def _calls(self) -> tuple[ToolCall, ...]:
        """Return new copies of the calls, so that no test sees what a reviewer did in another."""
        return copy.deepcopy((*CALLS, *self.calls))

    def _asked(self, method: Any, *given: Any) -> Any:
        async def asked() -> Any:
            answer = method(*given)
            return await answer if inspect.isawaitable(answer) else answer

        try:
            return self.run(asked())
        except TimeoutError:
            raise
        except Exception as error:  # noqa: BLE001 - the reviewer's code
            pytest.fail(f"{given[0].name}: it raised {error!r}, so claw would deny the call")
