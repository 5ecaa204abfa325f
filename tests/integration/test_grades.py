"""``claw plugins grade``: its rules one by one, and the grade of our own plugins, which is the highest."""

import ast
import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
from claw_author.linting import unannotated
from claw_author.project import find
from claw_author.registrations import HOOKS
from claw_author.scaffold import KINDS
from pytest_claw import SUITE_OF_HOOK

ROOT = Path(__file__).parents[2]
OURS = sorted(
    file.parent.name
    for file in ROOT.glob("plugins/*/pyproject.toml")
    if "claw.plugins" in tomllib.loads(file.read_text())["project"].get("entry-points", {})
)
QUICK = "loop-guard"
"""The plugin that each run of the tests grades; ``--full`` grades all."""
SUITES = {kind.kind: SUITE_OF_HOOK[hook] for hook, kind in HOOKS.items()} | {"command": "CommandSuite"}
STANDS_FOR = {"OwnProtocolSuite": "ProviderSuite"}


@cache
def suites_in(file: Path) -> dict[str, set[str]]:
    """Class → the suites that it is of, of each class of a file of tests."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    }

    def of(name: str) -> set[str]:
        if name.endswith("Suite"):
            return {STANDS_FOR.get(name, name)}
        return set().union(*map(of, bases.get(name, ())))

    return {name: of(name) for name in bases}


@pytest.mark.parametrize("plugin", OURS)
def test_a_suite_is_named_for_each_kind_of_a_plugin_of_ours(plugin: str) -> None:
    project = find(ROOT / "plugins" / plugin)
    found = set[str]()
    for word in project.conformance:
        path, _, name = word.partition("::")
        classes = suites_in((project.folder / path).resolve())
        found |= classes[name] if name else set().union(*classes.values())
    kinds = json.loads(project.manifest.read_text())["kinds"]
    assert {SUITES[kind] for kind in kinds if kind in SUITES} - found == set()


@pytest.mark.parametrize("plugin", OURS)
def test_a_plugin_of_ours_is_typed(plugin: str) -> None:
    project = find(ROOT / "plugins" / plugin)
    assert (project.manifest.parent / "py.typed").is_file()
    assert [one for name, code in project.modules() for one in unannotated(ast.parse(code), name)] == []


@pytest.mark.parametrize("plugin", OURS)
def test_a_plugin_of_ours_has_the_highest_grade(plugin: str, tmp_path: Path, full: bool) -> None:
    if plugin != QUICK and not full:
        pytest.skip("--full grades all plugins")
    assert_is_platinum(ROOT / "plugins" / plugin, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_generated_plugin_has_the_highest_grade(kind: str, tmp_path: Path, full: bool) -> None:
    if not full:
        pytest.skip("--full grades a new plugin of each kind")
    project = tmp_path / "new"
    claw(tmp_path, "plugins", "new", "wind-chime", "--kind", kind, "--path", str(project))
    assert_is_platinum(project, tmp_path)


def claw(home: Path, *words: str) -> str:
    environ = {"CLAW_HOME": str(home / "home"), "HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    command = [sys.executable, "-m", "claw", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environ, timeout=600).stdout


def assert_is_platinum(project: Path, home: Path) -> None:
    graded = json.loads(claw(home, "plugins", "grade", str(project), "--json"))
    assert {rule["rule"]: rule["why"] for rule in graded["rules"] if not rule["kept"]} == {}
    assert graded["grade"] == "platinum"
