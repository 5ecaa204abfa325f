"""Each suite passes what is sound, and of each broken twin fails exactly the test of the promise that it breaks."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

import pytest
import pytest_claw

TWINS = Path(__file__).parent / "twins"
FILES = sorted(TWINS.glob("of_*.py"))
ODD = [TWINS / "like_irc.py"]
"""Objects of which a suite asks for less."""
pytestmark = pytest.mark.xdist_group("twins")  # one worker runs each file once

Outcomes = dict[str, dict[str, set[str]]]


def promises(file: Path) -> dict[str, str]:
    """Class → the test that it must fail; empty for the sound one."""
    found = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            found[node.name] = _breaks(node)
    return found


def _breaks(node: ast.ClassDef) -> str:
    for line in node.body:
        if not isinstance(line, ast.Assign):
            continue
        names, values = line.targets[0], line.value
        pairs = (
            zip(names.elts, values.elts, strict=True)
            if isinstance(names, ast.Tuple) and isinstance(values, ast.Tuple)
            else [(names, values)]
        )
        for name, value in pairs:
            if isinstance(name, ast.Name) and name.id == "breaks" and isinstance(value, ast.Constant):
                return str(value.value)
    raise AssertionError(f"{node.name} does not say what it breaks")


TWIN = [(file, twin, breaks) for file in [*FILES, *ODD] for twin, breaks in promises(file).items()]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Outcomes]:
    return {}


@pytest.fixture
def outcomes(ran: dict[Path, Outcomes], file: Path, tmp_path: Path) -> Outcomes:
    """Class → outcome → names of its tests, of one run of the file in a process of its own."""
    if file not in ran:
        report = tmp_path / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            str(file),
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ]
        done = subprocess.run(
            [*command, "-o", "addopts=", "--import-mode=importlib", f"--junitxml={report}"],
            cwd=TWINS, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        assert report.exists(), done.stdout + done.stderr
        reported: Outcomes = defaultdict(lambda: defaultdict(set))
        for case in ElementTree.parse(report).iter("testcase"):
            outcome = next(
                (part.tag for part in case if part.tag in ("failure", "error", "skipped")), "passed"
            )
            twin = case.attrib["classname"].rpartition(".")[2]
            reported[twin][outcome].add(case.attrib["name"].partition("[")[0])
        ran[file] = reported
    return ran[file]


@pytest.mark.parametrize(
    ("file", "twin", "breaks"), TWIN, ids=[f"{file.stem}-{twin}" for file, twin, _ in TWIN]
)
def test_a_twin_fails_exactly_the_test_of_its_promise(
    outcomes: Outcomes, file: Path, twin: str, breaks: str
) -> None:
    reported = outcomes[twin]
    assert reported["error"] == set()
    assert reported["failure"] == ({breaks} if breaks else set())
    assert reported["passed"], "nothing was tried"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_promise_of_a_suite_has_its_broken_twin(file: Path) -> None:
    name = "".join(part.title() for part in file.stem.removeprefix("of_").split("_"))
    suite = getattr(pytest_claw, f"{name}Suite")
    tests = {name for name in dir(suite) if name.startswith("test_")}
    assert tests == set(promises(file).values()) - {""}
