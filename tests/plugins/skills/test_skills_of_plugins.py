"""Skills that a plugin ships: found without its code, below every other skill, and gone with the plugin."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from claw.testing import FakeProvider, Harness, calls, combined, says
from claw_skills import register_commands
from third_party import Machine, installed
from typer.testing import CliRunner

NO_CODE = "raise SystemExit('imported to be inspected')"
MANIFEST: dict[str, Any] = {"kinds": ["skill"], "skills": ["brew", "grind"]}


def skill(folder: Path, name: str, description: str, **front: str) -> Path:
    folder = folder / name
    folder.mkdir(parents=True)
    lines = [f"{key}: {value}" for key, value in {"name": name, "description": description, **front}.items()]
    (folder / "SKILL.md").write_text("---\n" + "\n".join(lines) + "\n---\nHeat the water.\n")
    return folder


def coffee(root: Path, code: str = NO_CODE, **manifest: Any) -> Path:
    """Install the plugin ``coffee``, whose package has two skills."""
    place = installed(root / "site", "coffee", code, {**MANIFEST, **manifest})
    shipped = place / "stranger_coffee/skills"
    skill(shipped, "brew", "of the plugin")
    skill(shipped, "grind", "of the plugin", metadata='{"requires": {"bins": ["no-such-mill"]}}')
    return place


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a person who works in ``tmp_path/work``."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLAW_HOME", str(tmp_path / "claw"))
    (tmp_path / "claw").mkdir()
    return tmp_path / "claw"


def skills(*words: str) -> str:
    app = typer.Typer()
    register_commands(app)
    return CliRunner().invoke(app, ["skills", *words], catch_exceptions=False).stdout


def rows() -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in json.loads(skills("list", "--json"))["skills"]}


def test_a_shipped_skill_is_listed_with_its_plugin_and_its_requirements_hold(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = coffee(tmp_path)
    monkeypatch.syspath_prepend(str(place))

    found = rows()

    assert (found["brew"]["source"], found["brew"]["listed"]) == ("plugin:coffee", True)
    assert Path(found["brew"]["file"]) == place / "stranger_coffee/skills/brew/SKILL.md"
    assert (found["grind"]["listed"], found["grind"]["why"]) == (False, "not on PATH: no-such-mill")
    assert "+ brew  (plugin:coffee)  of the plugin" in skills("list")


@pytest.mark.parametrize("place", ["work/skills", "claw/skills", ".agents/skills", "more"])
def test_every_skill_of_the_operator_wins(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    monkeypatch.syspath_prepend(str(coffee(tmp_path)))
    skill(tmp_path / place, "brew", "of the operator")
    (home / "config.yaml").write_text(f"skills: {{extraDirs: [{tmp_path / 'more'}]}}\n")

    assert rows()["brew"]["description"] == "of the operator"


@pytest.mark.parametrize(
    ("config", "manifest"),
    [
        ("plugins: {entries: {coffee: {enabled: false}}}", {}),
        ("plugins: {deny: [coffee]}", {}),
        ("plugins: {allow: [skills]}", {}),
        ("", {"api": ">=9"}),
        ("", {"requires": ["no-such-plugin"]}),
        ("", {"unknown": 1}),
    ],
)
def test_a_plugin_that_may_not_be_used_ships_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, manifest: dict[str, Any]
):
    monkeypatch.syspath_prepend(str(coffee(tmp_path, **manifest)))
    (home / "config.yaml").write_text(f"locale: en\n{config}\n")

    assert rows() == {}


def test_one_is_switched_off_as_any_other(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(coffee(tmp_path)))
    (home / "config.yaml").write_text("skills: {entries: {brew: {enabled: false}}}\n")

    assert not rows()["brew"]["listed"]


def test_only_declared_folders_count_and_no_link_leads_out_of_the_package(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = coffee(tmp_path, skills=["brew", "outside", "..", "../../secret"])
    monkeypatch.syspath_prepend(str(place))
    shipped = place / "stranger_coffee/skills"
    (shipped / "outside").symlink_to(skill(tmp_path, "secret", "not of the plugin"))
    (shipped / "brew" / "SKILL.md").rename(shipped / "brew" / "real.md")
    (shipped / "brew" / "SKILL.md").symlink_to("real.md")

    assert rows().keys() == {"brew"}


def listed(machine: Machine) -> set[str]:
    return {row["name"] for row in json.loads(machine.claw("skills", "list", "--json").out)["skills"]}


def test_a_plugin_that_failed_ships_nothing_until_it_loads(tmp_path: Path):
    machine = Machine(tmp_path / "machine", [coffee(tmp_path, "raise ValueError('no beans')")])
    assert machine.claw("plugins", "doctor", "coffee").code == 1
    assert listed(machine) == set()

    code = tmp_path / "site/stranger_coffee/__init__.py"
    code.write_text('"""Skills alone: other files end the record of a failure."""')
    assert machine.claw("plugins", "doctor", "coffee").code == 0

    info = json.loads(machine.claw("plugins", "info", "coffee", "--json").out)
    assert (info["state"], info["skills"], info["kinds"]) == ("idle", ["brew", "grind"], ["skill"])
    assert info["why"] == "its skills and MCP servers are used without its code"
    assert listed(machine) == {"brew", "grind"}


def test_the_doctor_names_a_skill_that_the_package_lacks(tmp_path: Path):
    machine = Machine(tmp_path / "machine", [coffee(tmp_path, skills=["brew", "roast"])])

    lines = machine.claw("doctor").out.splitlines()

    [found] = [line for line in lines if "its manifest lists skills" in line]
    assert "coffee" in found and found.count("roast") == 1 and "brew" not in found


async def test_an_agent_reads_a_shipped_skill_and_cannot_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    place = coffee(tmp_path)
    monkeypatch.syspath_prepend(str(place))
    file = str(place / "stranger_coffee/skills/brew/SKILL.md")
    model = FakeProvider(
        combined(calls("read", file_path=file), calls("write", file_path=file, content="Burn it.")),
        calls("read", file_path=str(place / "stranger_coffee/claw-plugin.json")),
        says("Done."),
    )

    async with Harness(model, installed=True, home=tmp_path / "claw") as harness:
        await harness.send("make coffee")

    assert f"<location>{file}</location>" in model.requests[0].request.system.stable
    read, written = model.requests[1].tool_results
    assert "Heat the water." in read.content[0].text
    assert written.is_error and "Heat the water." in Path(file).read_text()
    assert model.requests[2].tool_results[-1].is_error  # the rest of the package is not the agent's to read
