"""The page of pytest-claw is true: its examples pass unchanged."""

import re
import subprocess
import sys
from pathlib import Path

from core.source import ROOT

PAGE = ROOT / "plugins/pytest-claw/README.md"
QUIET = ("-p", "no:xdist", "-p", "no:cacheprovider")


def test_every_suite_of_the_page_passes(tmp_path: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.S | re.M)
    for number, program in enumerate(programs):
        (tmp_path / f"test_{number}.py").write_text(program)
    (tmp_path / "pytest.ini").touch()  # the settings of no folder above
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", *QUIET, f"--basetemp={tmp_path}-own"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(programs) == 5


def test_a_suite_without_its_subject_says_what_to_write(tmp_path: Path) -> None:
    names = ("ToolSuite", "SectionSuite", "ChannelSuite", "ProviderSuite", "ReviewerSuite")
    classes = "\n".join(f"class Test{name}({name}):\n    pass\n" for name in names)
    (tmp_path / "test_empty.py").write_text(f"from pytest_claw import {', '.join(names)}\n\n{classes}")
    (tmp_path / "pytest.ini").touch()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *QUIET, f"--basetemp={tmp_path}-own"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 1
    for documented in (
        "TestToolSuite.tool is not set", "TestSectionSuite.section is not set", "TestChannelSuite.place is not written",
        "TestProviderSuite does not set plugin, name, service", "TestReviewerSuite.make is not written",
    ):  # fmt: skip
        assert documented in done.stdout


def test_nothing_of_claw_is_imported_before_a_suite_is() -> None:
    script = "import sys, pytest_claw; print([name for name in sys.modules if name.split('.')[0] == 'claw'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
