"""One sound reviewer, and for each promise a twin that breaks it and no other."""

import time
from pathlib import Path
from typing import Any

from claw import CallContext, Review, ToolCall, ToolResult
from pytest_claw import ReviewerSuite


class Careful:
    """Refuses to delete a folder, and counts the results."""

    results = 0

    def before(self, call: ToolCall, context: CallContext) -> Any:
        line = str(call.arguments.get("command", ""))
        return Review("deny", "delete single files") if line.startswith("rm -r") else None

    def after(self, call: ToolCall, result: ToolResult, context: CallContext) -> Any:
        self.results += 1


class TestSound(ReviewerSuite):
    kind: type[Careful] = Careful
    calls = (ToolCall("c9", "exec", {"command": "rm -r build"}),)
    breaks = ""

    def make(self, folder: Path) -> Any:
        return self.kind()


class Misplaced(Careful):
    position = "first"


class TestHasNoNumberAsPosition(TestSound):
    kind, breaks = Misplaced, "test_it_has_the_members_of_its_hook"


class Curt(Careful):
    def before(self, call: ToolCall, context: CallContext) -> Any:
        return super().before(call, context) is None


class TestAnswersYesOrNo(TestSound):
    kind, breaks = Curt, "test_it_answers_every_call_with_a_review_or_nothing"


class Silent(Careful):
    def before(self, call: ToolCall, context: CallContext) -> Any:
        return Review("deny") if super().before(call, context) else None


class TestGivesNoReason(TestSound):
    kind, breaks = Silent, "test_it_answers_every_call_with_a_review_or_nothing"


class Trusting(Careful):
    """It looks at the second word of a line that it has only once it saw the call before."""

    met = False

    def before(self, call: ToolCall, context: CallContext) -> Any:
        self.met = self.met or call.id == "c9"
        return Review("allow", arguments=["ls"] if self.met else None)  # type: ignore[arg-type]  that is its fault


class TestReturnsArgumentsThatAreAList(TestSound):
    kind, breaks = Trusting, "test_it_answers_every_call_with_a_review_or_nothing"


class Abrupt(Careful):
    def before(self, call: ToolCall, context: CallContext) -> Any:
        review = super().before(call, context)
        return Review("deny", review.why, end_turn=True) if review else None  # type: ignore[arg-type]  that is its fault


class TestEndsTheTurnWithoutAText(TestSound):
    kind, breaks = Abrupt, "test_it_answers_every_call_with_a_review_or_nothing"


class Meddling(Careful):
    def before(self, call: ToolCall, context: CallContext) -> Any:
        call.arguments["checked"] = True


class TestChangesTheCall(TestSound):
    kind, breaks = Meddling, "test_it_changes_nothing_in_place"


class Slow(Careful):
    def before(self, call: ToolCall, context: CallContext) -> Any:
        if call.id == "c9":
            time.sleep(0.2)


class TestTakesLong(TestSound):
    kind, breaks, quick_seconds = Slow, "test_it_is_quick", 0.1


class Rewriting(Careful):
    def after(self, call: ToolCall, result: ToolResult, context: CallContext) -> Any:
        return "all is well"


class TestReturnsTextAsAResult(TestSound):
    kind, breaks = Rewriting, "test_it_returns_results_as_results"


class Nosy(Careful):
    all_calls = True

    def before(self, call: ToolCall, context: CallContext) -> Any:
        assert context.tool is not None
        return super().before(call, context)


class TestFailsWithoutATool(TestSound):
    kind, breaks = Nosy, "test_it_copes_with_calls_that_cannot_run"
