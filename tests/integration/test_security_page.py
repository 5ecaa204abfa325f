"""SECURITY.md promises only what a test holds: each sentence has the names of its tests, and they exist."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECTION = (
    (ROOT / "SECURITY.md")
    .read_text(encoding="utf-8")
    .partition("## What claw guarantees")[2]
    .partition("\n## ")[0]
)
PROMISES = dict(re.findall(r"^- (.+)\n((?:  - .+\n)*)", SECTION, re.MULTILINE))


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("promise", PROMISES)
def test_each_sentence_has_tests_that_exist(promise: str) -> None:
    assert promise.endswith(".") and ". " not in promise, "one sentence"
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PROMISES[promise])
    assert named
    assert [name for path, name in named if name not in functions_of(path)] == []


def test_there_are_promises() -> None:
    assert len(PROMISES) > 10


def test_no_module_of_the_current_folder_is_imported(tmp_path: Path) -> None:
    for name in ("typer", "yaml", "claw_tools_std", "claw_prompt", "sitecustomize", "json"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write(__name__)\n")
    claw = Path(sys.executable).with_name("claw")

    done = subprocess.run(
        [claw, "plugins", "list"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, (tmp_path / "imported").exists()) == (0, False), done.stderr
