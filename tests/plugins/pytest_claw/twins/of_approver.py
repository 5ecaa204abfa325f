"""One sound approver, and for each promise a twin that breaks it and no other."""

import asyncio
from pathlib import Path
from typing import Any

from claw import ApprovalRequest, Decision
from pytest_claw import ApproverSuite


class Panel:
    """Asks a person, who answers by setting a future."""

    name = "panel"

    def __init__(self) -> None:
        self.open: dict[str, asyncio.Future[bool]] = {}

    async def ask(self, request: ApprovalRequest) -> Any:
        question = self.open[request.digest] = asyncio.get_running_loop().create_future()
        try:
            return self.decision(await question)
        finally:
            del self.open[request.digest]

    def decision(self, allowed: bool) -> Any:
        return Decision("once") if allowed else Decision("deny", "the person said no")


class TestSound(ApproverSuite):
    kind: type[Panel] = Panel
    breaks = ""
    stop_seconds = 0.3

    def make(self, folder: Path) -> Any:
        return self.kind()

    async def answer(self, approver: Any, allow: bool) -> None:
        for question in approver.open.values():
            question.set_result(allow)


class Nameless(Panel):
    name = ""


class TestHasNoName(TestSound):
    kind, breaks = Nameless, "test_it_has_the_members_of_its_hook"


class Timid(Panel):
    def decision(self, allowed: bool) -> Any:
        return Decision("deny", "better not")


class TestAllowsNothing(TestSound):
    kind, breaks = Timid, "test_a_call_that_is_allowed_may_run"


class Boolean(Panel):
    def decision(self, allowed: bool) -> Any:
        return super().decision(allowed) if allowed else None


class TestRefusesWithNothing(TestSound):
    kind, breaks = Boolean, "test_a_call_that_is_refused_may_not_run"

    def test_another_call_is_asked_about_again(self, subject: Any) -> None:
        """It refuses with nothing there too."""


class Generous(Panel):
    """Allows everything of a turn once one call was allowed."""

    allowed = False

    async def ask(self, request: ApprovalRequest) -> Any:
        if self.allowed:
            return Decision("once")
        answer = await super().ask(request)
        self.allowed = answer.allowed
        return answer


class TestAllowsTheNextCallToo(TestSound):
    kind, breaks = Generous, "test_another_call_is_asked_about_again"


class Impatient(Panel):
    """Takes silence for consent."""

    async def ask(self, request: ApprovalRequest) -> Any:
        try:
            async with asyncio.timeout(0.1):
                return await super().ask(request)
        except TimeoutError:
            return Decision("once")


class TestTakesSilenceForConsent(TestSound):
    kind, breaks = Impatient, "test_nothing_is_allowed_without_an_answer"


class Stubborn(Panel):
    """Goes on when the turn was stopped."""

    async def ask(self, request: ApprovalRequest) -> Any:
        try:
            return await super().ask(request)
        except asyncio.CancelledError:
            await asyncio.sleep(0.6)
            raise


class TestGoesOn(TestSound):
    kind, breaks = Stubborn, "test_a_stopped_turn_ends_the_question"
