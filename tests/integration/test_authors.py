"""An author's first hour: a new plugin passes its own tests, its manifest is held to its code, and both are linted."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from claw import UsageError
from claw.cli.main import app
from claw.host.manifest import parse_manifest
from claw.runtime import Manifest, ToolDeclaration
from claw_author import linting, manifest_builder, scaffold
from core.source import ROOT
from typer.testing import CliRunner, Result

PROJECTS = sorted(
    path.parent
    for path in [*ROOT.glob("plugins/*/pyproject.toml"), *ROOT.glob("examples/*/pyproject.toml")]
    if "claw.plugins" in path.read_text()
)


def claw(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture(params=scaffold.KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A new plugin of each kind, written once."""

    @cache
    def of(kind: str) -> Path:
        folder = tmp_path_factory.mktemp(kind) / "new"
        done = claw("plugins", "new", "wind-chime", "--kind", kind, "--path", folder)
        assert done.exit_code == 0, done.output
        return folder

    return of


@pytest.fixture
def project(kind: str, written: Callable[[str], Path], tmp_path: Path) -> Path:
    """A new plugin of that kind, to do with as one likes."""
    return Path(shutil.copytree(written(kind), tmp_path / "new"))


def test_a_new_plugin_depends_on_each_first_party_library_that_it_imports(
    project: Path, package: Path
) -> None:
    code = "\n".join(path.read_text() for path in package.glob("*.py"))
    imported = {name.replace("_", "-") for name in re.findall(r"^from (claw_\w+_sdk) import", code, re.M)}
    declared = tomllib.loads((project / "pyproject.toml").read_text())["project"]["dependencies"]
    assert set(declared) == {"claw-core", *imported}


def test_the_next_line_that_a_new_plugin_prints_runs_its_tests(tmp_path: Path) -> None:
    printed = claw("plugins", "new", "wind-chime", "--path", tmp_path / "new").output
    [line] = [one.removeprefix("next: ") for one in printed.splitlines() if one.startswith("next: ")]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(["bash", "-c", line], env=environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.fixture
def package(project: Path) -> Path:
    return project / "claw_plugin_wind_chime"


def test_a_new_plugin_passes_its_own_tests_its_manifest_fits_and_there_is_nothing_to_fix(
    project: Path, kind: str
) -> None:
    own = f"--basetemp={project.parent / 'own'}"  # pytest removes the temporary folders of other runs
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-p", "no:xdist", own],
        cwd=project, env={**os.environ, "PYTHONPATH": str(project)}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert claw("plugins", "build", project, "--check").exit_code == 0
    checked = claw("plugins", "check", project, "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["findings"]) == (0, [])
    manifest = parse_manifest((project / "claw_plugin_wind_chime/claw-plugin.json").read_text(), "wind-chime")
    assert manifest.kinds == (kind,)


def test_a_new_plugin_has_what_is_needed_to_publish_it(project: Path, package: Path) -> None:
    wanted = {"LICENSE", "README.md", "pyproject.toml", ".gitignore", ".github/workflows/test.yml"}
    wanted |= {f"{package.name}/__init__.py", f"{package.name}/py.typed", "tests/test_wind_chime.py"}
    there = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert wanted <= there
    there = {name for name in there if "__pycache__" not in name}
    left = [name for name in there if "@" in name or "@plugin@" in (project / name).read_text()]
    assert left == [], "a name was not filled in"
    (project / "dist").mkdir()
    build = "from flit_core.buildapi import build_wheel; print(build_wheel('dist'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=project, capture_output=True, text=True, check=True
    )
    inside = zipfile.ZipFile(project / "dist" / done.stdout.split()[-1]).namelist()
    assert f"{package.name}/claw-plugin.json" in inside
    assert any(name.endswith("entry_points.txt") for name in inside)


def test_new_code_of_a_new_plugin_reads_well(project: Path) -> None:
    rules = ["--isolated", "--no-cache", "--line-length", "122", "--select", "E,F,I,UP,B,SIM"]
    command = [sys.executable, "-m", "ruff", "check", *rules, "."]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("kind", ["tool"])
def test_a_changed_tool_is_found_and_build_fixes_it(project: Path, package: Path) -> None:
    code = package / "__init__.py"
    code.write_text(
        code.read_text().replace("verbose: bool", "very: bool").replace("param verbose", "param very")
    )

    stale = claw("plugins", "build", project, "--check")
    assert stale.exit_code == 1
    assert "tools: wind_chime_status: parameters" in stale.output
    assert claw("plugins", "check", project).exit_code == 1

    assert claw("plugins", "build", project).exit_code == 0
    assert claw("plugins", "build", project, "--check").exit_code == 0
    [tool] = parse_manifest((package / "claw-plugin.json").read_text(), "wind-chime").tools
    assert list(tool.parameters["properties"]) == ["name", "very"]


@pytest.mark.parametrize("kind", ["tool"])
def test_what_an_author_wrote_by_hand_stays(project: Path, package: Path) -> None:
    file = package / "claw-plugin.json"
    tree = json.loads(file.read_text()) | {"name": "Chime", "env": ["CHIME_KEY"], "kinds": []}
    file.write_text(json.dumps(tree))

    assert claw("plugins", "build", project).exit_code == 0
    manifest = parse_manifest(file.read_text(), "wind-chime")
    assert (manifest.name, manifest.env, manifest.kinds) == ("Chime", ("CHIME_KEY",), ("tool",))


@pytest.mark.parametrize("kind", ["tool"])
@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise RuntimeError('no such machine')", "no such machine"),
        ("raise SystemExit(3)", "ended without an answer"),
        ("import claw_plugin_of_nobody", "claw_plugin_of_nobody"),
    ],
)
def test_code_that_cannot_be_imported_is_reported_in_one_line(
    project: Path, package: Path, code: str, error: str
) -> None:
    (package / "__init__.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "claw", "plugins", "build", str(project)], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert error in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("kind", ["tool"])
def test_what_a_plugin_prints_is_not_taken_for_its_answer(project: Path, package: Path) -> None:
    code = package / "__init__.py"
    code.write_text("print('{}')\n" + code.read_text())
    assert claw("plugins", "build", project, "--check").exit_code == 0


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    done = claw("plugins", "new", "chime", "--path", tmp_path)
    assert done.exit_code == 2 or "not empty" in str(done.exception)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["notes.txt"]


def test_a_command_of_a_plugin_that_is_switched_off_says_how_to_switch_it_on() -> None:
    claw("config", "set", "plugins.entries.author.enabled", "false")
    error = str(claw("plugins", "new", "chime").exception)
    assert "claw plugins new is part of plugin author, which is disabled" in error
    fix = error.rpartition(" claw config ")[2].split()
    assert claw("config", *fix).exit_code == 0
    assert claw("plugins", "new", "--help").exit_code == 0


def test_the_commands_for_authors_are_among_those_for_plugins() -> None:
    shown = claw("plugins", "--help").stdout
    assert all(f" {name} " in shown for name in ("list", "info", "new", "build", "check"))


@pytest.mark.parametrize("name", ["", "9lives", "../up", "a--b", "wind chime", "风铃"])
def test_a_name_that_cannot_be_an_id_is_refused(name: str, tmp_path: Path) -> None:
    done = claw("plugins", "new", name, "--path", tmp_path / "new")
    assert "cannot be the id of a plugin" in str(done.exception)
    assert not (tmp_path / "new").exists()


ALL_THE_SAME = {
    ("feishu_bitable_write", "openai-strict")
}  # a record's fields have the names that people gave them


@pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)
def test_our_own_plugins_and_the_examples_are_as_their_manifests_say(project: Path) -> None:
    done = claw("plugins", "check", project, "--json")
    findings = json.loads(done.stdout)["findings"]
    assert [one for one in findings if (one["where"], one["rule"]) not in ALL_THE_SAME] == []


# --- the lint: findings, by rule

OBJECT = {"type": "object", "properties": {}}


def found(**fields: Any) -> list[str]:
    tool = {"name": "chime_ring", "description": "Ring the chime.", "parameters": OBJECT} | fields
    manifest = Manifest(
        id="chime", name="Chime", description="A chime.", kinds=("tool",), tools=(ToolDeclaration(**tool),)
    )
    return [finding.rule for finding in linting.findings(manifest)]


def of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}, "required": ["x"]}


@pytest.mark.parametrize(
    ("fields", "rules"),
    [
        ({}, []),
        ({"name": "9ring"}, ["name"]),
        ({"name": "ring the chime"}, ["name"]),
        ({"name": "r" * 65}, ["name"]),
        ({"description": ""}, ["description"]),
        ({"description": "Chime ring"}, ["description"]),
        ({"description": "Ring. " * 300}, ["description"]),
        ({"description": "敲响风铃"}, []),
        ({"parameters": {"type": "string"}}, ["anthropic"]),
        ({"parameters": OBJECT | {"anyOf": [{"required": ["x"]}]}}, ["anthropic"]),
        ({"parameters": {"type": "object", "properties": {"the x": {"type": "string"}}}}, ["anthropic"]),
        ({"parameters": of({"type": "strange"})}, ["anthropic"]),
        ({"parameters": {"type": "object"}}, ["openai-strict"]),
        ({"parameters": of({"type": "object", "additionalProperties": {"type": "string"}})}, ["openai-strict"]),
        ({"parameters": of({"not": {"type": "string"}})}, ["openai-strict", "gemini"]),
        ({"parameters": of({"type": "array"})}, ["openai-strict", "gemini"]),
        ({"parameters": of({"type": "integer", "enum": [1, 2]})}, ["gemini"]),
        ({"parameters": of({"$ref": "#/$defs/T"}) | {"$defs": {"T": of({"$ref": "#/$defs/T"})}}}, ["gemini"]),
        ({"parameters": of({"type": "string", "description": "long " * 900})}, ["price"]),
    ],
)  # fmt: skip
def test_a_tool_that_is_not_welcome_everywhere_is_reported_by_rule(
    fields: dict[str, Any], rules: list[str]
) -> None:
    assert found(**fields) == rules


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"id": "Chime"}, "id"),
        ({"name": ""}, "manifest"),
        ({"description": " "}, "manifest"),
        ({"api": "1.x"}, "manifest"),
        ({"channels": ("chime",)}, "manifest"),
        ({"env": ("chime_key",)}, "env"),
    ],
)
def test_a_field_of_the_manifest_that_misleads_is_reported_by_rule(fields: dict[str, Any], rule: str) -> None:
    sound = {"id": "chime", "name": "Chime", "description": "A chime.", "kinds": ()}
    assert [finding.rule for finding in linting.findings(Manifest(**sound | fields))] == [rule]


@pytest.mark.parametrize("kind", ["tool"])
def test_a_rule_that_an_author_does_not_share_can_be_left_out(project: Path, package: Path) -> None:
    code = package / "__init__.py"
    code.write_text(code.read_text().replace("name: str,", "name: dict[str, str],"))
    claw("plugins", "build", project)

    assert "(openai-strict)" in claw("plugins", "check", project).output
    assert claw("plugins", "check", project, "--ignore", "openai-strict").exit_code == 0


@pytest.mark.parametrize("kind", ["tool"])
@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ('@tool(effects="none")', "@tool", 8),
        ('@tool(effects="none")', "@tool(optional=True)", 8),
        ("[wind_chime_status]", '[Tool("ring", "Ring.", {}, wind_chime_status.run)]', 21),
    ],
)
def test_a_tool_that_declares_no_effects_is_reported_with_its_line(
    before: str, after: str, line: int, project: Path, package: Path
) -> None:
    code = package / "__init__.py"
    code.write_text(code.read_text().replace(before, after))
    claw("plugins", "build", project)

    done = claw("plugins", "check", project, "--json")
    found = [one for one in json.loads(done.stdout)["findings"] if one["rule"] == "effects"]
    assert [one["where"] for one in found] == [f"claw_plugin_wind_chime/__init__.py:{line}"]
    assert 'effects="once"' in found[0]["problem"]


@pytest.mark.parametrize(
    ("effects", "said"), [("once", "once"), ("idempotent", "idempotent"), (None, "none")]
)
def test_a_new_tool_declares_the_effects_that_its_author_named(
    effects: str | None, said: str, tmp_path: Path
) -> None:
    named = ["--effects", effects] if effects else []
    done = claw("plugins", "new", "wind-chime", "--path", tmp_path / "new", *named)
    assert done.exit_code == 0, done.output
    code = (tmp_path / "new" / "claw_plugin_wind_chime" / "__init__.py").read_text()
    assert f'@tool(effects="{said}")' in code


def test_unknown_effects_of_a_new_tool_are_a_usage_error(tmp_path: Path) -> None:
    done = claw("plugins", "new", "wind-chime", "--path", tmp_path / "new", "--effects", "onse")
    assert isinstance(done.exception, UsageError) and "did you mean once?" in str(done.exception)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("kind", ["tool"])
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("'x'", "register_tools answered with str, which has no name, description, run, parameters"),
        ("[None]", "register_tools answered with NoneType, which has no name, description, run, parameters"),
        ("7", "register_tools answered with int, which is no list"),
    ],
)
def test_a_hook_that_answers_with_something_else_is_named_with_the_fix(
    project: Path, package: Path, answer: str, problem: str
) -> None:
    code = package / "__init__.py"
    before, hook, _ = code.read_text().partition("def register_tools")
    code.write_text(f"{before}{hook}(config):\n    return {answer}\n")

    checked, built = claw("plugins", "check", project), claw("plugins", "build", project)

    said = f"{problem}: it must return a list of tools"
    assert checked.exit_code == 1 and f"claw_plugin_wind_chime: {said} (hooks)" in checked.output.splitlines()
    assert built.exit_code != 0 and said in str(built.exception)


MIDDLEWARE = """

class Lost:
    name = "lost"
    def wrap(self, provider):
        return None

@hookimpl
def register_provider_middleware(config):
    return [Lost()]
"""
COMMAND = """

from claw.runtime import FunctionCommand

@hookimpl
def register_chat_commands(config):
    return [FunctionCommand("Bad Name", "Do it.", print)]
"""


@pytest.mark.parametrize("kind", ["tool"])
@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (
            MIDDLEWARE,
            "its middleware answers with a provider that has no stream, credentials, context_tokens",
        ),
        (COMMAND, "a chat command is named 'Bad Name'"),
    ],
)
def test_check_names_what_a_start_would_quarantine(
    project: Path, package: Path, code: str, problem: str
) -> None:
    file = package / "__init__.py"
    file.write_text(file.read_text() + code)

    checked = claw("plugins", "check", project)

    assert checked.exit_code == 1 and f"claw_plugin_wind_chime: {problem}" in checked.output


@pytest.mark.parametrize("kind", ["tool"])
def test_check_shows_the_whole_error_of_several_lines(project: Path, package: Path) -> None:
    file = package / "__init__.py"
    file.write_text(file.read_text() + "\nraise ValueError('no luck\\nsecond line')\n")

    checked = claw("plugins", "check", project)

    assert "ValueError: no luck second line" in str(checked.exception)


@pytest.mark.parametrize("kind", ["tool"])
def test_the_form_of_a_tool_without_another_one_is_in_the_manifest(project: Path, package: Path) -> None:
    code = package / "__init__.py"
    form = (
        "    form = replace(wind_chime_status, description='Report briefly.')\n"
        "    return [replace(wind_chime_status, without={'process': form})]"
    )
    text = code.read_text().replace("    return [wind_chime_status]", form)
    code.write_text(text.replace("from claw import", "from dataclasses import replace\n\nfrom claw import"))

    assert "tools: wind_chime_status: without" in claw("plugins", "build", project, "--check").output
    assert claw("plugins", "build", project).exit_code == 0
    assert claw("plugins", "build", project, "--check").exit_code == 0
    [tool] = parse_manifest((package / "claw-plugin.json").read_text(), "wind-chime").tools
    assert tool.without["process"].description == "Report briefly."
    assert tool.without["process"].parameters == tool.parameters


@pytest.mark.parametrize("kind", ["tool"])
def test_a_tool_given_twice_is_named_by_check_and_build(project: Path, package: Path) -> None:
    code = package / "__init__.py"
    code.write_text(code.read_text().replace("[wind_chime_status]", "[wind_chime_status, wind_chime_status]"))

    checked, built = claw("plugins", "check", project), claw("plugins", "build", project)

    said = "its code provides the tool wind_chime_status more than once; only one is used"
    assert checked.exit_code == 1 and f"claw_plugin_wind_chime: {said} (hooks)" in checked.output.splitlines()
    assert built.exit_code != 0 and said in str(built.exception)


@pytest.mark.parametrize("kind", ["tool"])
def test_a_wrong_answer_is_said_in_chinese(
    project: Path, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAW_HOME", str(tmp_path / "zh"))
    (tmp_path / "zh").mkdir(mode=0o700)
    (tmp_path / "zh" / "config.yaml").write_text("locale: zh\n")
    code = package / "__init__.py"
    before, hook, _ = code.read_text().partition("def register_tools")
    code.write_text(f"{before}{hook}(config):\n    return 7\n")
    command = [sys.executable, "-m", "claw", "plugins", "check", str(project)]

    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert "register_tools 返回了 int，它不是列表：必须返回由 tools 组成的列表" in checked.stdout


def test_an_installed_plugin_is_checked_by_its_id() -> None:
    assert claw("plugins", "check", "tools-std").exit_code == 0
    assert "did you mean" in str(claw("plugins", "check", "tools-st").exception)


def test_what_is_written_is_read_back_the_same() -> None:
    for project in PROJECTS:
        [file] = project.glob("*/claw-plugin.json")
        manifest = parse_manifest(file.read_text(), json.loads(file.read_text())["id"])
        assert parse_manifest(manifest_builder.manifest_text(manifest), manifest.id) == manifest


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (
            ("def register_tools", "def register_tool"),
            "claw has no hook register_tool; the nearest one is register_tools",
        ),
        (("@hookimpl\n", ""), "its function register_tools is not marked with @hookimpl"),
    ],
)
def test_no_manifest_is_written_for_code_with_a_hook_that_nobody_asks(
    written: Callable[[str], Path], tmp_path: Path, wrong: tuple[str, str], problem: str
) -> None:
    folder = Path(shutil.copytree(written("tool"), tmp_path / "new"))
    [file] = folder.glob("*/__init__.py")
    file.write_text(file.read_text().replace(*wrong))
    before = (file.parent / "claw-plugin.json").read_text()

    built, checked = claw("plugins", "build", folder), claw("plugins", "check", folder)

    assert built.exit_code == 1
    assert problem in str(built.exception)
    assert (file.parent / "claw-plugin.json").read_text() == before
    assert checked.exit_code == 1
    assert problem in checked.output


def test_the_plugin_of_the_readme_is_one_file_and_is_checked_without_a_manifest(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, language in (("pyproject.toml", "toml"), ("claw_plugin_acme.py", "python")):
        block = re.search(rf"`{name}`:\n\n```{language}\n(.*?)```", text, re.S)
        assert block
        (tmp_path / name).write_text(block[1], encoding="utf-8")

    checked, built = claw("plugins", "check", tmp_path), claw("plugins", "build", tmp_path)

    assert (checked.exit_code, "no findings" in checked.output) == (0, True), checked.output
    assert built.exit_code == 1
    assert "a plugin of one file has no manifest" in str(built.exception or built.output)
    assert not list(tmp_path.rglob("claw-plugin.json"))
