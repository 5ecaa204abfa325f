"""Names of packages in texts: only packages of this repository, so that no hint leads to somebody else's package."""

import json
import re
import tomllib

import pytest
from claw.config.summary import install_hint
from core.source import ROOT

INSTALLED = re.compile(r"(?:plugins install|pip install|uv tool install|pipx install)\s+['\"]?(claw[a-z-]*)")
PLACES = ("core/**/*.py", "plugins/**/*.py", "sdk/**/*.py", "docs/*.md", "plugins/*/README.md", "README.md")


def ours() -> set[str]:
    """The names of all distributions of this repository, those that the tests' examples install included."""
    files = [*ROOT.glob("*/pyproject.toml"), *ROOT.glob("*/*/pyproject.toml"), ROOT / "pyproject.toml"]
    read = (tomllib.loads(path.read_text()).get("project", {}) for path in files if path.exists())
    return {project["name"] for project in read if "name" in project}


def test_every_package_of_the_table_is_one_of_this_repository() -> None:
    table = json.loads((ROOT / "core/claw/config/package_hints.json").read_text(encoding="utf-8"))
    packages = {str(entry["package"]) for entry in table.values()} - {""}
    assert packages <= ours()
    assert all(name.startswith("claw-") for name in packages)


def test_no_text_names_another_package() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for place in PLACES
        for path in ROOT.glob(place)
        if "locale" not in path.parts and not {".venv", "build", "dist"} & {*path.parts}
        for name in INSTALLED.findall(path.read_text(encoding="utf-8"))
    }
    known = ours() | {"claw", "claw-plugin-wind-chime"}  # the reader's own package in docs/publishing.md
    assert {(path, name) for path, name in found if name.rstrip("-") not in known} == set()


@pytest.mark.parametrize("unknown", ["telegrem", "claw-memory", "raed", "clock"])
def test_a_hint_for_an_unknown_id_names_no_package(unknown: str) -> None:
    assert install_hint(unknown) == f"install the package that provides {unknown}"
