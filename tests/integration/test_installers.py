"""claw from wheels by pipx and by uv tool: it starts, installs one plugin after another, and knows how it is upgraded."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from core.source import ROOT, members
from integration.test_packaging import wheel_of

pytestmark = [pytest.mark.index, pytest.mark.timeout(600), pytest.mark.xdist_group("wheels")]
PLUGINS = ("acme-status", "acme-mood")


def run(*words: str | Path, environ: Mapping[str, str]) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=dict(environ), timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for member in [*members(), *(ROOT / "examples" / name for name in PLUGINS)]:
        wheel_of(member, folder)
    return folder


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the programs pipx and uv."""
    place = tmp_path_factory.mktemp("tools") / "venv"
    run(sys.executable, "-m", "venv", place, environ=os.environ)
    run(place / "bin/python", "-m", "pip", "install", "-q", "pipx", "uv", environ=os.environ)
    return place / "bin"


INSTALL = {
    "pipx": ("pipx", "install", "--python", sys.executable, "--pip-args=--find-links {wheels}"),
    "uv tool": ("uv", "tool", "install", "--python", sys.executable, "--find-links", "{wheels}"),
}
UPGRADE = {"pipx": "pipx upgrade --include-injected claw-core", "uv tool": "uv tool upgrade claw-core"}


@pytest.mark.parametrize("kind", INSTALL)
def test_claw_works_as_a_tool_of_its_own(kind: str, wheels: Path, tools: Path, tmp_path: Path) -> None:
    program, *words = (word.format(wheels=wheels) for word in INSTALL[kind])
    index = subprocess.run(
        [tools / "python", "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True
    ).stdout.strip()  # uv reads no settings of pip
    environ = {**os.environ, "HOME": str(tmp_path), "CLAW_HOME": str(tmp_path / "claw")}
    environ |= {"UV_DEFAULT_INDEX": index} if index and "UV_DEFAULT_INDEX" not in environ else {}
    environ |= {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    environ |= {"UV_TOOL_DIR": str(tmp_path / "uv"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    run(tools / program, *words, "claw-core[standard]", environ=environ)
    claw = tmp_path / "bin/claw"

    assert run(claw, "--version", environ=environ).startswith("claw ")
    for name in PLUGINS:
        [wheel] = wheels.glob(f"claw_plugin_{name.replace('-status', '').replace('-', '_')}-*.whl")
        run(claw, "plugins", "install", wheel, "--yes", environ=environ)
    listed = json.loads(run(claw, "plugins", "list", "--json", environ=environ))["plugins"]
    origins = {one["id"]: one["origin"] for one in listed}
    assert (origins["acme"], origins["acme-mood"]) == ("layer", "layer")
    assert "acme-1: fine" in run(
        claw, "tools", "call", "acme_status", "--args", '{"name": "acme-1"}', environ=environ
    )
    assert run(claw, "upgrade", environ=environ).strip() == UPGRADE[kind]
