"""``claw plugins grade``: each rule finds what breaks it, and the grade is that of the files that were graded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from claw_author.grades import GRADES, RULES, broken, grade_of, unchecked
from claw_author.readme import readme_problems

PROJECT = """
[project]
name = "claw-plugin-leaky"
version = "1.0"
description = "A plugin with flaws."
[project.entry-points."claw.plugins"]
leaky = "claw_plugin_leaky"
"""
CODE = '''
import subprocess, sys, threading, time
from claw import hookimpl, tool

kept = []

@tool(effects="none")
def leak(name: str) -> str:
    """Leave a thread, a process and an open file behind.

    :param name: of the file.
    """
    thread = threading.Thread(target=time.sleep, args=(2,), name="left behind", daemon=True)
    thread.start()
    subprocess.run([sys.executable, "-c", ""])
    open(name, "w").write("x")
    return "done"

@hookimpl
def register_tools(config):
    return [leak]

@hookimpl
def register_commands(app):
    """Add a command that no suite tries."""
    app.command("leaky")(lambda: None)
'''
TESTS = """
from pathlib import Path

import pytest
from claw_plugin_leaky import leak
from pytest_claw import ToolSuite

class TestLeak(ToolSuite):
    tool = leak

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.sample = {"name": str(tmp_path / "left.txt")}

def test_that_is_of_no_suite() -> None:
    raise SystemExit("it does not run")
"""


def graded(folder: Path, home: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "claw", "plugins", "grade", str(folder), "--json"]
    environ = {"CLAW_HOME": str(home), "HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=100)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_each_flaw_of_a_project_is_named_by_its_rule(tmp_path: Path) -> None:
    folder, package = tmp_path / "leaky", tmp_path / "leaky/claw_plugin_leaky"
    (folder / "tests").mkdir(parents=True)
    package.mkdir()
    for file, text in (
        (folder / "pyproject.toml", PROJECT),
        (folder / "tests/test_leaky.py", TESTS),
        (folder / "README.md", "```sh\nclaw no-such-command\n```\n"),
        (package / "__init__.py", CODE),
    ):
        file.write_text(text)
    environ = {"CLAW_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    build = [sys.executable, "-m", "claw", "plugins", "build", str(folder)]
    subprocess.run(build, check=True, capture_output=True, env=environ)

    report = graded(folder, tmp_path / "home")

    rules = {one["rule"]: one["why"] for one in report["rules"] if not one["kept"]}
    assert report["grade"] == "bronze"
    assert rules.keys() == {"access", "typed", "conformance", "closes", "docs"}
    used = "\n".join(rules["access"])
    assert "python" in used and "capabilities.subprocess" in used and "left.txt" in used
    assert "there is no py.typed" in rules["typed"]
    assert rules["conformance"] == ["no test is of CommandSuite"]
    closes = "\n".join(rules["closes"])
    assert "thread left behind" in closes and "unclosed file" in closes
    assert rules["docs"][0].startswith("README.md:2: ")


def test_a_grade_needs_its_rules_and_those_below() -> None:
    kept = {rule: broken() for rules in RULES.values() for rule in rules}
    assert grade_of(kept) == GRADES[-1] == "platinum"
    assert grade_of({**kept, "typed": broken("no annotation")}) == "bronze"
    assert grade_of({**kept, "docs": unchecked("no project")}) == "gold"
    assert grade_of({**kept, "loads": broken("it does not")}) == "none"


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("```python\nprint(1)\n```", ""),
        ("```python\nprint(x)\n```", "NameError"),
        ("<!-- not run: it needs a service -->\n\n```python\nprint(x)\n```", ""),
        ("```text\nprint(x)\n```", ""),
    ],
)
def test_the_programs_of_a_readme_run(tmp_path: Path, block: str, problem: str) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"# Leaky\n\n{block}\n")
    found = list(readme_problems(file, {}))
    assert bool(found) == bool(problem)
    assert all(problem in one for one in found)
