"""Conformance tests of a sandbox for commands."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_claw.hook import HookSuite

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


class SandboxSuite(HookSuite):
    """The promises of a sandbox. ``make`` is yours. Where ``probe`` says that it does not work, nothing is run."""

    members = ("probe", "wrap")

    def test_its_probe_is_text(self, subject: Any) -> None:
        reason = self.run(subject.probe())
        assert isinstance(reason, str), f"{reason!r}: an empty text when it works, else the reason"

    def test_a_command_line_is_wrapped_whole(self, subject: Any, tmp_path: Path) -> None:
        argv = ["printf", "%s", "two words; $HOME 'quoted'"]
        wrapped = subject.wrap(argv, workspace=tmp_path, environment=ENVIRONMENT)
        assert isinstance(wrapped, list), f"{wrapped!r} is no list"
        assert [word for word in wrapped if not isinstance(word, str)] == [], "a word is no text"
        assert wrapped[-len(argv) :] == argv, "each word of the command stays one word, at the end"
        assert len(wrapped) > len(argv), "the command runs as it is"
        assert argv == ["printf", "%s", "two words; $HOME 'quoted'"], "it changed the words in place"

    def test_a_command_runs_and_may_write_in_the_workspace(self, subject: Any, tmp_path: Path) -> None:
        done = self._ran(subject, tmp_path, "echo inside > file.txt && cat file.txt")
        assert (done.returncode, done.stdout) == (0, "inside\n"), done.stderr
        assert (tmp_path / "workspace/file.txt").read_text() == "inside\n"

    def test_a_command_may_not_write_outside_of_the_workspace(self, subject: Any, tmp_path: Path) -> None:
        outside = tmp_path / "outside.txt"
        self._ran(subject, tmp_path, f"echo outside > {outside}")
        assert not outside.exists(), "a command wrote outside of the workspace"

    def _ran(self, sandbox: Any, folder: Path, script: str) -> "subprocess.CompletedProcess[str]":
        if reason := self.run(sandbox.probe()):
            pytest.skip(f"it does not work here: {reason}")
        workspace = folder / "workspace"
        workspace.mkdir(exist_ok=True)
        line = sandbox.wrap(["sh", "-c", script], workspace=workspace, environment=ENVIRONMENT)
        environment = {**ENVIRONMENT, "HOME": os.environ.get("HOME", "/")}
        return subprocess.run(
            line, check=False, cwd=workspace, env=environment, capture_output=True, text=True, timeout=30
        )
