"""The distributions of this repository: their dependencies, one release train, and the extra ``standard``."""

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import claw
import pytest
from claw.config.summary import package_of
from claw.host.manifest import find_plugin, installed_plugins, release_train
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
def test_all_first_party_distributions_are_one_release_train(name: str) -> None:
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
    assert {"claw-memory-search", "claw-skills", "claw-tools-std"} <= names
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


def test_core_depends_on_no_other_first_party_distribution() -> None:
    dependencies = PROJECTS["claw-core"][1]["project"]["dependencies"]
    assert [line for line in dependencies if line.split()[0] in PROJECTS] == []


PLUGIN_PROJECTS = {
    next(iter(data["project"]["entry-points"]["claw.plugins"])): (name, folder)
    for name, (folder, data) in PROJECTS.items()
    if "claw.plugins" in data["project"].get("entry-points", {})
}


def test_the_metadata_of_core_names_the_distribution_of_every_first_party_plugin() -> None:
    names = {name for name, _ in PLUGIN_PROJECTS.values()}
    assert release_train() == names
    assert {one.distribution for one in installed_plugins() if one.is_first_party} == names
    extra = PROJECTS["claw-core"][1]["project"]["optional-dependencies"]["all"]
    assert [line.split()[0] for line in extra] == sorted(names)


def test_the_id_of_a_first_party_plugin_is_refused_to_any_other_distribution() -> None:
    fault = find_plugin("telegram", "claw_telegram", "claw-telegrams", "1.0").fault
    assert fault is not None and "its id belongs to claw" in fault.problem
    assert find_plugin("telegram", "claw_telegram", "Claw_Telegram", "1.0").is_first_party
    assert not find_plugin("acme", "claw_telegram", "claw-plugin-acme", "1.0").is_first_party


def test_the_table_for_hints_names_the_package_of_each_plugin() -> None:
    assert {id: package_of(id) for id in PLUGIN_PROJECTS} == {
        id: name for id, (name, _) in PLUGIN_PROJECTS.items()
    }


HINT = re.compile(r"(?:plugins|pip) install (?:-[-\w]+ )*[\"']?(claw-[a-z][\w-]*|pytest-claw)")
TEXTS = [
    *(path for part in ("core", "plugins", "sdk") for path in (ROOT / part).rglob("*.py")),
    *(path for part in ("core", "plugins", "sdk") for path in (ROOT / part).rglob("*.md")),
    *(path for part in ("core", "plugins", "sdk") for path in (ROOT / part).rglob("locale/zh/*.json")),
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("README*.md"),
]


def test_no_hint_and_no_page_names_a_package_that_is_not_ours() -> None:
    named = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in TEXTS
        if "node_modules" not in path.parts
        for name in HINT.findall(path.read_text(encoding="utf-8"))
        if name not in PROJECTS and not name.startswith("claw-plugin-")
    }
    assert named == set()


def _downloaded(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(folder), name]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def whole_index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """An index that has ``claw-memory``, another project's: one without it is a part of PyPI, and cannot tell.

    Last run: 2026-11-28, 35 names, each free or ours.
    """
    if _downloaded("claw-memory", tmp_path_factory.mktemp("index")).returncode:
        pytest.skip(
            "the index that pip uses does not have claw-memory, so it cannot tell which names are free"
        )


@pytest.mark.index
@pytest.mark.usefixtures("whole_index")
@pytest.mark.parametrize("name", sorted(PROJECTS))
def test_a_first_party_name_is_ours_or_free_on_the_index(name: str, tmp_path: Path) -> None:
    done = _downloaded(name, tmp_path)
    if done.returncode:
        assert "No matching distribution" in done.stderr, done.stderr
        return
    [file] = tmp_path.iterdir()
    assert file.suffix == ".whl"
    with zipfile.ZipFile(file) as wheel:
        metadata = next(one for one in wheel.namelist() if one.endswith(".dist-info/METADATA"))
        assert name == "claw-core" or "Requires-Dist: claw-core" in wheel.read(metadata).decode(), metadata
