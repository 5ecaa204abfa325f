"""Parts of a plugin that need no code, its skills and MCP servers: the manifest is held to the package."""

import json
from pathlib import Path
from typing import Any

from claw.cli.main import app
from typer.testing import CliRunner, Result

PROJECT = """
[project]
name = "claw-plugin-coffee"
version = "1.0"
description = "All about coffee."
[project.entry-points."claw.plugins"]
coffee = "claw_plugin_coffee"
"""
SERVERS = {"beans": {"url": "https://beans.example/mcp", "envAllow": ["BEANS_TOKEN"]}}


def project(folder: Path, code: str = '"""Skills alone."""', **manifest: Any) -> Path:
    package = folder / "claw_plugin_coffee"
    package.mkdir()
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text(code)
    if manifest:
        (package / "claw-plugin.json").write_text(json.dumps({"id": "coffee", **manifest}))
    return folder


def skill(folder: Path, name: str) -> None:
    place = folder / "claw_plugin_coffee/skills" / name
    place.mkdir(parents=True)
    (place / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Do it.\n---\n")


def claw(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def manifest_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "claw_plugin_coffee/claw-plugin.json").read_text())
    return found


def test_build_lists_the_skills_of_the_package_and_check_names_a_difference(tmp_path: Path):
    folder = project(tmp_path)
    skill(folder, "brew")
    (folder / "claw_plugin_coffee/skills/no-skill").mkdir()

    assert claw("plugins", "build", folder).exit_code == 0
    assert (manifest_of(folder)["skills"], manifest_of(folder)["kinds"]) == (["brew"], ["skill"])
    assert claw("plugins", "check", folder).exit_code == 0

    skill(folder, "grind")
    checked = claw("plugins", "check", folder)
    assert checked.exit_code == 1
    assert "not as in the code: skills" in checked.stdout
    assert claw("plugins", "build", folder, "--check").exit_code == 1
    assert claw("plugins", "build", folder).exit_code == 0
    assert manifest_of(folder)["skills"] == ["brew", "grind"]


def test_build_keeps_the_servers_that_the_author_wrote(tmp_path: Path):
    folder = project(tmp_path, name="Coffee", description="All about it.", mcpServers=SERVERS)

    assert claw("plugins", "build", folder).exit_code == 0

    assert (manifest_of(folder)["mcpServers"], manifest_of(folder)["kinds"]) == (SERVERS, ["mcp-server"])
    assert claw("plugins", "check", folder).exit_code == 0


def test_a_package_that_ships_nothing_needs_a_hook(tmp_path: Path):
    built = claw("plugins", "build", project(tmp_path))

    assert "implements no hook" in str(built.exception)
