"""The distributions of this repository: their dependencies, one release train, and the extra ``standard``."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import claw
import pytest
from core.source import ROOT, members

PROJECTS: dict[str, tuple[Path, dict[str, Any]]] = {
    data["project"]["name"]: (folder, data)
    for folder in members()
    for data in [tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))]
}
TRAIN = f"=={'.'.join(claw.__version__.split('.')[:2])}.*"


def _requirements(name: str) -> dict[str, str]:
    """Return distribution → version range of what one depends on, extras included."""
    project = PROJECTS[name][1]["project"]
    lines = [
        *project["dependencies"],
        *(x for extra in project.get("optional-dependencies", {}).values() for x in extra),
    ]
    parts = (re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?\s*(.*)", line) for line in lines)
    return {part[1]: part[2] for part in parts if part}


@pytest.mark.parametrize("name", sorted(PROJECTS))
def test_all_distributions_of_ours_are_one_release_train(name: str) -> None:
    project = PROJECTS[name][1]["project"]
    assert project.get("version", claw.__version__) == claw.__version__
    ours = {one: range for one, range in _requirements(name).items() if one in PROJECTS}
    if name != "claw-core":
        assert "claw-core" in ours
    assert {one: range for one, range in ours.items() if range != TRAIN} == {}


def test_the_extra_standard_holds_every_plugin_that_says_it_is_a_standard_part() -> None:
    manifests = (json.loads(path.read_text()) for path in ROOT.glob("plugins/*/*/claw-plugin.json"))
    standard = {f"claw-{one['id']}" for one in manifests if one.get("standard")}
    extra = PROJECTS["claw-core"][1]["project"]["optional-dependencies"]["standard"]
    names = {line.split()[0] for line in extra}
    assert standard <= names
    assert {"claw-memory", "claw-skills", "claw-tools-std"} <= names
    assert extra == sorted(extra)


def test_nothing_in_the_extra_standard_belongs_to_one_vendor() -> None:
    """Providers and channels are chosen by a person, apart from the provider that needs no service."""
    extra = PROJECTS["claw-core"][1]["project"]["optional-dependencies"]["standard"]
    for line in extra:
        folder, data = PROJECTS[line.split()[0]]
        manifest = json.loads(
            (folder / data["tool"]["flit"]["module"]["name"] / "claw-plugin.json").read_text()
        )
        assert not manifest.get("channels")
        assert all(provider.get("fallback") for provider in manifest.get("providers", ()))


def test_core_depends_on_no_other_distribution_of_ours() -> None:
    dependencies = PROJECTS["claw-core"][1]["project"]["dependencies"]
    assert [line for line in dependencies if line.split()[0] in PROJECTS] == []
