"""Packages as users install them: every member as a wheel, core alone in a fresh venv, a third-party plugin beside it."""

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from core.source import ROOT, SPLIT_OFF, members

MEMBERS = members()
pytestmark = pytest.mark.xdist_group("packaging")  # one worker makes the two environments
EXAMPLES = sorted(path.parent for path in ROOT.glob("examples/*/pyproject.toml"))
BUILD = """
import os, sys
from flit_core.buildapi import build_wheel
os.chdir(sys.argv[1])
print(build_wheel(sys.argv[2]))
"""


def wheel_of(member: Path, folder: Path) -> Path:
    """Build a member with its back end, as an installer would, without isolation."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-c", BUILD, str(member), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return folder / done.stdout.split()[-1]


@pytest.mark.parametrize("member", MEMBERS + EXAMPLES, ids=lambda path: path.name)
def test_every_member_builds_a_wheel_with_all_that_it_needs(member: Path, tmp_path: Path) -> None:
    wheel = wheel_of(member, tmp_path / "wheels")
    inside = set(zipfile.ZipFile(wheel).namelist())

    package = next(member.glob("*/__init__.py")).parent
    wanted = {
        str(path.relative_to(member))
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    assert wanted <= inside
    if package.name not in (
        "claw",
        "pytest_claw",
        *SPLIT_OFF,
    ):  # a plugin of pytest, not of claw; no plugins yet
        assert f"{package.name}/claw-plugin.json" in inside
        assert any(name.endswith("entry_points.txt") for name in inside)
    if member in MEMBERS:
        assert f"{package.name}/py.typed" in inside


class Venv:
    """A fresh environment with what was installed into it, and a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder / "venv", folder / "home"
        self.home.mkdir(parents=True)
        self.links: list[str] = []  # folders with wheels of ours, which are on no index yet
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.folder)], check=True)

    def install(self, *words: str) -> None:
        base = f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
        pip = [base, "-m", "pip", "--python", str(self.folder / "bin/python"), "install", "-q", "-q", *words]
        for folder in {os.path.dirname(word) for word in words if ".whl" in word}:
            pip += ["--find-links", folder]  # what core depends on of ours
            self.links.append(folder)
        environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
        for pause in (15, 60, 0):  # an index that is away for a moment is asked again, as in .ci/run
            done = subprocess.run(pip, capture_output=True, text=True, env=environment)
            if done.returncode == 0 or not pause:
                break
            time.sleep(pause)
        assert done.returncode == 0, done.stdout + done.stderr

    def claw(self, *words: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}
        environment |= {"PIP_FIND_LINKS": " ".join(dict.fromkeys(self.links))} if self.links else {}
        command = [str(self.folder / "bin/claw"), *words]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=self.home, timeout=60
        )

    def ask(self, *words: str) -> Any:
        """The document that a read command prints with ``--json``."""
        done = self.claw(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def tools(self) -> set[str]:
        return {tool["name"] for tool in self.ask("tools", "list")["tools"]}

    def plugins(self) -> dict[str, Any]:
        return {plugin["id"]: plugin for plugin in self.ask("plugins", "list")["plugins"]}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for member in MEMBERS + EXAMPLES:
        wheel_of(member, folder)
    return folder


@pytest.fixture(scope="module")
def core_alone(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """``claw-core`` and nothing else of ours, its dependencies from the index."""
    venv = Venv(tmp_path_factory.mktemp("core-alone"))
    venv.install(str(next(wheels.glob("claw_core-*.whl"))), "-c", str(ROOT / "constraints.txt"))
    return venv


@pytest.fixture(scope="module")
def with_acme(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """``claw-core`` with the two example plugins of somebody else."""
    venv = Venv(tmp_path_factory.mktemp("with-acme"))
    names = ("claw_core", "claw_plugin_acme", "claw_plugin_acme_mood")
    core, *ours = (str(next(wheels.glob(f"{name}-*.whl"))) for name in names)
    venv.install(f"{core}[standard]", *ours, "-c", str(ROOT / "constraints.txt"))
    return venv


@pytest.mark.index
@pytest.mark.timeout(300)
def test_core_alone_reports_its_version_has_no_plugins_and_says_what_it_needs_to_answer(
    core_alone: Venv,
) -> None:
    assert core_alone.claw("--version").stdout.startswith("claw ")
    assert core_alone.plugins() == {}
    reply = core_alone.claw("chat", "hello")
    assert reply.returncode == 3
    assert "claw-offline" in reply.stderr


@pytest.mark.index
@pytest.mark.timeout(300)
def test_a_required_tool_is_there_once_installed_and_an_optional_one_is_not(with_acme: Venv) -> None:
    assert with_acme.plugins()["acme"]["tools"] == [
        {"name": "acme_status", "optional": False, "ownerOnly": False},
        {"name": "acme_restart", "optional": True, "ownerOnly": False},
    ]
    assert "acme_status" in with_acme.tools()
    assert "acme_restart" not in with_acme.tools()
    assert with_acme.claw("tools", "explain", "acme_restart").returncode == 1


@pytest.mark.index
@pytest.mark.timeout(300)
@pytest.mark.parametrize("entry", ["acme_restart", "acme", "group:plugins"])
def test_an_optional_tool_is_switched_on_by_its_name_its_plugin_or_the_group(
    with_acme: Venv, entry: str
) -> None:
    written = with_acme.claw("config", "set", "tools.allow", json.dumps([entry]))
    try:
        assert written.returncode == 0, written.stderr
        assert {"acme_status", "acme_restart"} <= with_acme.tools()
        assert with_acme.claw("tools", "explain", "acme_restart").returncode == 0
    finally:
        with_acme.claw("config", "unset", "tools.allow")
    assert "acme_restart" not in with_acme.tools()


@pytest.mark.index
@pytest.mark.timeout(300)
def test_a_plugins_tool_runs_through_the_same_gate(with_acme: Venv) -> None:
    done = with_acme.claw("tools", "call", "acme_status", "--args", '{"name": "db-1"}')
    assert done.returncode == 0, done.stderr
    assert "db-1: fine" in done.stdout
    assert with_acme.claw("tools", "call", "acme_restart", "--args", '{"name": "db-1"}').returncode == 1


@pytest.mark.index
@pytest.mark.timeout(300)
def test_a_plugins_section_is_in_the_prompt_and_belongs_to_it(with_acme: Venv) -> None:
    shown = with_acme.ask("prompt", "show")
    [mood] = [section for section in shown["sections"] if section["section"] == "mood"]
    assert mood["plugin"] == "acme-mood"
