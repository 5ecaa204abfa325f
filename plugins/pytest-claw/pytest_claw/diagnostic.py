"""Conformance tests of a check of ``claw doctor``."""

import inspect
import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import pytest
from claw import Finding
from claw.testing import FakeProvider, Harness

from pytest_claw.hook import HookSuite


class DiagnosticSuite(HookSuite):
    """The promises of a check. ``make`` is yours: make one that finds something too, in a second class.

    :cvar config: the config file of the claw that is checked.
    """

    members = ("check",)
    config: Mapping[str, Any] = {}
    limit_seconds = 30.0

    def test_it_returns_findings(self, subject: Any, tmp_path: Path) -> None:
        for finding in self.findings(subject, tmp_path):
            assert isinstance(finding, Finding), f"{finding!r}"

    def test_every_finding_says_what_to_do(self, subject: Any, tmp_path: Path) -> None:
        for finding in self.findings(subject, tmp_path):
            about, kind, problem, fix = [str(value) for value in astuple(finding)[:4]]
            assert about.strip(), f"about what: {finding!r}"
            assert kind.split() == [kind], f"kind is one word: {finding!r}"
            assert problem.strip(), f"the problem is missing: {finding!r}"
            assert fix.strip(), f"the fix is missing: {finding!r}"

    def test_it_changes_nothing(self, subject: Any, tmp_path: Path) -> None:
        home = tmp_path / "home"
        self.findings(_NoCheck(), tmp_path)  # the files of a new claw
        before = _files(home)
        first = self.findings(subject, tmp_path)
        assert _files(home) == before, "it changed a file of the home"
        assert self.findings(subject, tmp_path) == first, "the second check finds something else"

    def findings(self, diagnostic: Any, folder: Path) -> list[Any]:
        """Return what the check finds in a new claw, whose home is ``folder/home``."""

        async def found() -> list[Any]:
            async with Harness(FakeProvider(), config=self.config, home=folder / "home") as harness:
                try:
                    answer = diagnostic.check(CheckContext(harness.app.setup, os.environ))
                    return list(await answer if inspect.isawaitable(answer) else answer)
                except Exception as error:  # noqa: BLE001 - the check's code
                    pytest.fail(f"it raised {error!r}")

        listed: list[Any] = self.run(found())
        return listed


@dataclass(frozen=True)
class CheckContext:
    """The subject of a check, as ``claw doctor`` hands it over (``claw.DiagnosticContext``)."""

    setup: Any
    environ: Mapping[str, str]
    online: bool = False
    channel: str = ""


class _NoCheck:
    def check(self, context: Any) -> list[Finding]:
        return []


def _files(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "state.db" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
