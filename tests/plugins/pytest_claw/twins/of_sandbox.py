"""One sound sandbox, and for each promise a twin that breaks it and no other.

The sound one is a stand-in that works everywhere: a program that runs a command only if its words name no absolute path.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_claw import SandboxSuite

GUARD = (
    "import subprocess, sys; "
    "sys.exit(1 if any('> /' in word for word in sys.argv[1:]) else subprocess.call(sys.argv[1:]))"
)


class Guard:
    name = "guard"

    async def probe(self) -> Any:
        return ""

    def wrap(self, argv: Sequence[str], *, workspace: Path, environment: Mapping[str, str]) -> Any:
        return [sys.executable, "-c", GUARD, *argv]


class TestSound(SandboxSuite):
    kind: type[Guard] = Guard
    breaks = ""
    limit_seconds = 30.0

    def make(self, folder: Path) -> Any:
        return self.kind()


class Nameless(Guard):
    name = ""


class TestHasNoName(TestSound):
    kind, breaks = Nameless, "test_it_has_the_members_of_its_hook"


class Boolean(Guard):
    async def probe(self) -> Any:
        return False


class TestProbesWithABoolean(TestSound):
    kind, breaks = Boolean, "test_its_probe_is_text"


class Joining(Guard):
    def wrap(self, argv: Sequence[str], *, workspace: Path, environment: Mapping[str, str]) -> Any:
        if argv[0] != "printf":
            return super().wrap(argv, workspace=workspace, environment=environment)
        return [sys.executable, "-c", GUARD, " ".join(argv)]


class TestJoinsTheWords(TestSound):
    kind, breaks = Joining, "test_a_command_line_is_wrapped_whole"


class Closed(Guard):
    def wrap(self, argv: Sequence[str], *, workspace: Path, environment: Mapping[str, str]) -> Any:
        return ["false", *argv]


class TestRunsNothing(TestSound):
    kind, breaks = Closed, "test_a_command_runs_and_may_write_in_the_workspace"


class Open(Guard):
    def wrap(self, argv: Sequence[str], *, workspace: Path, environment: Mapping[str, str]) -> Any:
        return ["env", *argv]


class TestLetsEverythingThrough(TestSound):
    kind, breaks = Open, "test_a_command_may_not_write_outside_of_the_workspace"
