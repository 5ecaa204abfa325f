"""``run.py``: one command on a bare Python. Here a stand-in for uv does the installing; one test does it for real."""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from core.source import ROOT, members

RUN = ROOT / "run.py"

# Notes its arguments, then puts the two scripts into the venv, as an install would.
STAND_IN = """#!{python}
import os, sys, time
from pathlib import Path
root = Path(sys.argv[sys.argv.index("--python") + 1]).parents[2]
if (root / "slow").exists():
    (root / "begun").touch()
    time.sleep(float((root / "slow").read_text()))
with open(root / "installs.log", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if (root / "broken").exists():
    sys.exit("no such package")
for name in ("claw", "pytest", "mkdocs"):
    (root / ".venv/bin" / name).write_text("import os, sys; print(os.getpid(), os.getcwd(), sys.argv[1:])")
"""


class Clone:
    """A clone with two members, on a machine whose uv is our stand-in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for member in ("core", "plugins/one"):
            (folder / member).mkdir(parents=True)
            (folder / member / "pyproject.toml").write_text("[project]\n")
        (folder / "plugins" / "not-a-member").mkdir()
        (folder / "pyproject.toml").write_text(
            '[dependency-groups]\ndev = ["pytest", "ruff"]\ndocs = ["mkdocs"]\n'
        )
        (folder / "constraints.txt").write_text("pytest==9\n")
        shutil.copy(RUN, folder)
        (folder / "bin").mkdir()
        uv = folder / "bin" / "uv"
        uv.write_text(STAND_IN.format(python=sys.executable))
        uv.chmod(0o755)

    def start(
        self, *arguments: str, cwd: Path | None = None, before: str = "", path: str = ""
    ) -> subprocess.Popen[str]:
        """Start ``run.py``; ``before`` is code that changes the Python it runs on."""
        run = self.folder / "run.py"
        changed = f"import sys; {before}; sys.argv = {[str(run), *arguments]!r}"
        command = [sys.executable, str(run), *arguments]
        if before:
            command = [
                sys.executable,
                "-c",
                f"{changed}; import runpy; runpy.run_path({str(run)!r}, run_name='__main__')",
            ]
        environment = {**os.environ, "PATH": path or f"{self.folder / 'bin'}:/usr/bin:/bin"}
        return subprocess.Popen(
            command, cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def run(self, *arguments: str, **more: Any) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        process = self.start(*arguments, **more)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    @property
    def installs(self) -> list[str]:
        log = self.folder / "installs.log"
        return log.read_text().splitlines() if log.exists() else []

    @property
    def stamps(self) -> list[Path]:
        return sorted((self.folder / ".venv").glob("*.stamp*"))


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


def test_the_first_run_installs_all_members_on_one_line_and_then_is_claw(clone: Clone) -> None:
    code, out, err = clone.run("chat", "what files are here?")

    assert (code, err.count("claw:")) == (0, 2)
    assert "['chat', 'what files are here?']" in out
    backend, members = clone.installs
    assert "flit_core" in backend
    assert (
        f"-e {clone.folder}/core -e {clone.folder}/plugins/one -c {clone.folder}/constraints.txt" in members
    )
    assert "--no-build-isolation" in members


def test_a_stamp_that_fits_starts_no_process_and_takes_no_time(clone: Clone) -> None:
    clone.run()
    (clone.folder / "slow").write_text("30")
    before = time.monotonic()
    process = clone.start("--version")
    out, err = process.communicate(timeout=60)

    assert time.monotonic() - before < 10
    assert out.split()[0] == str(process.pid), "claw is the process that run.py was"
    assert err == ""
    assert len(clone.installs) == 2


@pytest.mark.parametrize("name", ["constraints.txt", "core/pyproject.toml", "plugins/one/pyproject.toml"])
def test_a_change_of_what_is_asked_for_installs_again(clone: Clone, name: str) -> None:
    clone.run()
    with (clone.folder / name).open("a") as file:
        file.write("\n# changed\n")
    clone.run()
    clone.run()
    assert len(clone.installs) == 4


def test_a_new_plugin_is_installed(clone: Clone) -> None:
    clone.run()
    (clone.folder / "plugins/not-a-member/pyproject.toml").write_text("[project]\n")
    clone.run()
    assert "plugins/not-a-member" in clone.installs[-1]


def test_a_venv_whose_python_is_gone_is_recreated(clone: Clone) -> None:
    clone.run()
    (clone.folder / ".venv/bin/python").unlink()
    code, _, err = clone.run()
    assert code == 0
    assert "making .venv" in err


def test_a_folder_that_was_moved_is_installed_again(clone: Clone) -> None:
    clone.run()
    moved = Path(shutil.move(clone.folder, clone.folder.with_name("moved")))
    clone.folder = moved
    assert clone.run()[0] == 0
    assert len(clone.installs) == 4


def test_an_install_that_fails_says_why_leaves_no_stamp_and_is_tried_again(clone: Clone) -> None:
    (clone.folder / "broken").touch()
    code, out, err = clone.run("chat")
    assert (code, out) == (1, "")
    assert "no such package" in err
    assert clone.stamps == []

    (clone.folder / "broken").unlink()
    assert clone.run("chat")[0] == 0


def test_an_install_that_is_interrupted_leaves_no_stamp(clone: Clone) -> None:
    (clone.folder / "slow").write_text("30")
    process = clone.start("chat")
    wait_for(clone.folder / "begun")
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)

    assert process.returncode == 130
    assert "Traceback" not in err.split("claw:")[-1]
    assert clone.stamps == []


def test_of_two_first_runs_at_once_one_waits(clone: Clone) -> None:
    (clone.folder / "slow").write_text("0.5")
    first = clone.start("chat")
    wait_for(clone.folder / "begun")
    second = clone.start("chat")
    (_, err_first), (_, err_second) = first.communicate(timeout=60), second.communicate(timeout=60)

    assert (first.returncode, second.returncode) == (0, 0)
    assert "waiting" in err_second
    assert "waiting" not in err_first
    assert len(clone.installs) == 2


def test_docs_installs_the_tools_of_the_docs_group_once_and_becomes_mkdocs_at_the_root(
    clone: Clone, tmp_path: Path
) -> None:
    for _ in range(2):
        _, out, _ = clone.run("docs", cwd=tmp_path)
        assert f"{clone.folder} ['build']" in out
    assert len(clone.installs) == 3
    assert " mkdocs -c" in clone.installs[-1] and "-e" not in clone.installs[-1].split()
    assert "['serve']" in clone.run("docs", "serve")[1]


def test_test_installs_the_tools_of_the_dev_group_once_and_becomes_pytest(
    clone: Clone, tmp_path: Path
) -> None:
    (clone.folder / "tests").mkdir()
    code, out, _ = clone.run("test", "tests", "--full", cwd=tmp_path)
    assert (code, len(clone.installs)) == (0, 3)
    assert "pytest ruff -c" in clone.installs[2]
    assert f"{clone.folder} ['tests', '--full']" in out, "run from the root, wherever it is called"

    tables = tmp_path / "tables"
    tables.mkdir()
    _, out, _ = clone.run("test", "--cases", "tables", cwd=tmp_path)
    assert f"'--cases={tables}']" in out, "a folder is the caller's"
    assert len(clone.installs) == 3


@pytest.mark.parametrize(
    "words", [("--fixtures", "wire"), ("--fixtures=wire",), ("--fixtures", "wire", "-x")]
)
def test_a_folder_of_fixtures_is_distinguished_from_pytests_own_word(
    clone: Clone, tmp_path: Path, words
) -> None:
    (tmp_path / "wire").mkdir()
    assert f"'--wire-fixtures={tmp_path / 'wire'}'" in clone.run("test", *words, cwd=tmp_path)[1]
    assert "'--fixtures']" in clone.run("test", "--fixtures", cwd=tmp_path)[1]


@pytest.mark.parametrize("name", ["--cases", "--fixtures"])
def test_a_folder_that_is_not_there_is_said_in_one_line(clone: Clone, tmp_path: Path, name: str) -> None:
    code, _, said = clone.run("test", name, "gone", cwd=tmp_path)
    assert (code, said.strip().splitlines()[-1]) == (2, f"claw: {name} takes a folder, and gone is none")


def test_the_whole_suite_runs_on_all_cores_and_a_few_files_in_one_process(clone: Clone) -> None:
    (clone.folder / "tests").mkdir()
    assert "'--dist', 'loadgroup', '--full']" in clone.run("test", "--full")[1]
    assert "['tests']" in clone.run("test", "tests", cwd=clone.folder)[1].replace(f"{clone.folder}/", "")
    assert "['-n0', '-x']" in clone.run("test", "-n0", "-x")[1]


def test_a_plugin_of_pytest_comes_with_the_test_tools_and_not_before(clone: Clone) -> None:
    folder = clone.folder / "plugins/not-a-member"
    (folder / "pyproject.toml").write_text("[project.entry-points.pytest11]\n")
    clone.run()
    assert str(folder) not in " ".join(clone.installs)
    clone.run("test")
    assert f"-e {folder}" in clone.installs[-1]


def test_chat_does_not_need_the_test_tools(clone: Clone) -> None:
    clone.run("chat")
    assert not any("pytest ruff" in line for line in clone.installs)


def test_an_older_python_is_reported_in_one_line(clone: Clone) -> None:
    code, out, err = clone.run(before="sys.version_info = (3, 10, 4)")
    assert (code, out) == (1, "")
    assert err.startswith("claw needs Python 3.11 or newer")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("absent", "package"), [("pip", "python3-pip"), ("venv", "python3-venv")])
def test_what_is_missing_is_named_with_the_package_that_provides_it(
    clone: Clone, absent: str, package: str
) -> None:
    before = f"sys.modules['ensurepip'] = None; sys.modules[{absent!r}] = None"
    code, out, err = clone.run(before=before, path="/nowhere")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].endswith(f"apt install {package}")
    assert "Traceback" not in err
    assert clone.stamps == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every account on this machine may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_folder_is_said_to_be_one(open_folder: Path) -> None:
    clone = Clone(open_folder / "clone")
    python = next((p for p in ("/usr/bin/python3", sys.executable) if readable_by_all(p)), None)
    if python is None:
        pytest.skip("no Python that another account may start: apt install python3")
    clone.folder.chmod(0o555)
    account: dict[str, Any] = {"user": 65534, "group": 65534} if os.getuid() == 0 else {}
    command = [python, str(clone.folder / "run.py"), "chat"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, **account)
    clone.folder.chmod(0o755)

    assert done.returncode == 1
    assert "cannot be written" in done.stderr.splitlines()[-1]
    assert "Copy this folder" in done.stderr
    assert "Traceback" not in done.stderr


def readable_by_all(python: str) -> bool:
    path = Path(python)
    if not path.exists():
        return False
    version = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True
    )
    new_enough = tuple(int(number) for number in version.stdout.split()) >= (3, 11)
    return new_enough and all(folder.stat().st_mode & 0o001 for folder in [*path.resolve().parents])


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_run_py_needs_the_standard_library_only() -> None:
    tree = ast.parse(RUN.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names)


OURS = {tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] for folder in members()}


def test_every_package_that_is_asked_for_has_its_pin_and_no_address_is_named() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[A-Za-z0-9_.+!-]+", line) for line in lines), lines
    pinned = {plain(line.split("==")[0]) for line in lines}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    asked = [*groups["dev"], *groups["docs"]]
    for path in [folder / "pyproject.toml" for folder in members()]:
        project = tomllib.loads(path.read_text())["project"]
        asked += project["dependencies"]
        asked += project.get("optional-dependencies", {}).get("standard", [])
    assert {plain(re.split(r"[ \[<>=!~;]", line)[0]) for line in asked} - pinned <= OURS


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.index
@pytest.mark.timeout(300)
@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_a_clone_runs_on_debians_own_python_and_answers(installer: str, tmp_path: Path) -> None:
    python = "/usr/bin/python3"
    if not readable_by_all(python):
        pytest.skip("no /usr/bin/python3 of 3.11 or newer: apt install python3 python3-pip")
    clone = tmp_path / "clone"
    for name in ("core", "sdk", "plugins"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("run.py", "constraints.txt", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, clone)
    path = "/usr/bin:/bin"
    if installer == "uv":
        subprocess.run([python, "-m", "venv", "--without-pip", str(tmp_path / "uv")], check=True)
        pip = [python, "-m", "pip", "--python", str(tmp_path / "uv/bin/python"), "install", "-q", "-q", "uv"]
        subprocess.run(pip, check=True)
        path = f"{tmp_path}/uv/bin:{path}"
    # With this machine's own index settings, and nothing else of the tests' environment.
    environment = {**os.environ, "PATH": path, "HOME": str(tmp_path)}
    command = [
        python,
        str(clone / "run.py"),
        "chat",
        "what files are here, and what does README.md say first?",
    ]
    done = subprocess.run(
        command, cwd=clone, capture_output=True, text=True, env=environment, timeout=280, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "run.py" in done.stdout
    assert "WARNING" not in done.stderr
