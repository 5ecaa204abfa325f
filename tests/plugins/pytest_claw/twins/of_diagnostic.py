"""One sound check, and for each promise a twin that breaks it and no other."""

from pathlib import Path
from typing import Any

from claw import Finding
from pytest_claw import DiagnosticSuite


class NoKey:
    """Finds that a key is missing."""

    name = "no-key"

    async def check(self, context: Any) -> Any:
        return [Finding("acme", "no-key", "acme has no key", "set ACME_KEY")]


class TestSound(DiagnosticSuite):
    kind: type[NoKey] = NoKey
    breaks = ""

    def make(self, folder: Path) -> Any:
        return self.kind()


class Nameless(NoKey):
    name = ""


class TestHasNoName(TestSound):
    kind, breaks = Nameless, "test_it_has_the_members_of_its_hook"


class Textual(NoKey):
    async def check(self, context: Any) -> Any:
        return ["acme has no key"]


class TestReturnsText(TestSound):
    kind, breaks = Textual, "test_it_returns_findings"

    def test_every_finding_says_what_to_do(self, subject: Any, tmp_path: Path) -> None:
        """Text has no fix."""


class Helpless(NoKey):
    async def check(self, context: Any) -> Any:
        return [Finding("acme", "no-key", "acme has no key")]


class TestKnowsNoFix(TestSound):
    kind, breaks = Helpless, "test_every_finding_says_what_to_do"


class Meddling(NoKey):
    async def check(self, context: Any) -> Any:
        (context.setup.config.home / "checked.txt").touch()
        return await super().check(context)


class TestWritesAFile(TestSound):
    kind, breaks = Meddling, "test_it_changes_nothing"
