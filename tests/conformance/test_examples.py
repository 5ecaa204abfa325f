"""Each example package passes its own tests, and every hook has an example."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from claw.host import hookspecs
from core.source import ROOT

EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda one: one.name)
def test_an_example_passes_its_own_tests(folder: Path, tmp_path: Path) -> None:
    # A temporary folder of its own: pytest removes those of other runs, which may be writing there.
    own = f"--basetemp={tmp_path / 'own'}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", own, "tests"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True, timeout=150,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_every_hook_has_an_example() -> None:
    sources = [
        path.read_text(encoding="utf-8") for folder in EXAMPLES for path in folder.glob("claw_plugin_*/*.py")
    ]
    hooks = {name for name in vars(hookspecs) if name.startswith("register_")}
    shown = {hook for hook in hooks if any(f"def {hook}(" in source for source in sources)}
    assert hooks - shown == set()
