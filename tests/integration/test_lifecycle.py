"""Plugins are installed, updated, taken out, locked and verified as one set; the environment of claw stays as it is."""

import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from claw.contracts.errors import BusyError, ClawError, UsageError
from claw.host.overlay import GATEWAY_LOCK
from claw_admin.plugin_manager.environment import environment_kind
from claw_admin.plugin_manager.lock import lock_text
from claw_admin.plugin_manager.pip import Pip, PluginRequirement, error_from_output, parse_requirement
from claw_admin.plugin_manager.plan import InstallPlan, Pin, plan_change
from claw_admin.plugin_manager.transaction import (
    STEPS,
    LayerStore,
    plan_install,
    plan_sync,
    plan_uninstall,
    require_outside_environment,
)
from claw_config_sdk import Lock
from claw_tool_sdk import pip_command
from core.source import ROOT, with_core
from integration.test_packaging import Venv, wheel_of
from third_party import plugin_code

pytestmark = pytest.mark.xdist_group("lifecycle")  # one worker builds the wheels
PLUGIN = """
[build-system]
requires = ["flit_core >=3.11,<5"]
build-backend = "flit_core.buildapi"
[project]
name = "{name}"
version = "{version}"
description = "For a test."
dependencies = {needs}
[project.entry-points."claw.plugins"]
{id} = "{package}"
"""


def package(
    folder: Path, name: str, version: str = "1.0", needs: Sequence[str] = (), api: str = ">=1,<2"
) -> Path:
    """The source of a small plugin distribution."""
    id, module = name.removeprefix("claw-plugin-"), name.replace("-", "_")
    source = folder / f"{name}-{version}"
    (source / module).mkdir(parents=True)
    project = PLUGIN.format(name=name, version=version, needs=json.dumps(list(needs)), id=id, package=module)
    (source / "pyproject.toml").write_text(project)
    (source / module / "__init__.py").write_text(
        f'"""{name}."""\n\nVERSION = "{version}"\n' + plugin_code(f"{id}_do")
    )
    manifest = {"id": id, "api": api, "kinds": ["tool"], "tools": [{"name": f"{id}_do", "optional": True}]}
    (source / module / "claw-plugin.json").write_text(json.dumps(manifest))
    return source


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the index in these tests."""
    folder, sources = tmp_path_factory.mktemp("index"), tmp_path_factory.mktemp("sources")
    for source in (
        ROOT / "examples/acme-status",
        package(sources, "claw-plugin-tide", "1.0", needs=["claw-plugin-base"]),
        package(sources, "claw-plugin-tide", "2.0", needs=["claw-plugin-base"]),
        package(sources, "claw-plugin-base"),
        package(sources, "claw-plugin-greedy", needs=["pluggy<1"]),
        package(sources, "claw-plugin-future", api=">=9"),
    ):
        wheel_of(source, folder)
    return folder


class Person:
    """Somebody with a home of their own, who types commands; the index is a folder."""

    def __init__(self, home: Path, wheels: Path) -> None:
        self.home = home
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(home), "CLAW_HOME": str(home), "LANG": "C.UTF-8",
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_CONFIG_FILE": os.devnull,
        }  # fmt: skip

    def types(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "claw", *words]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environ, cwd=self.home, timeout=60
        )

    def does(self, *words: str) -> str:
        done = self.types("plugins", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def plugins(self) -> dict[str, Any]:
        listed = json.loads(self.does("list", "--json"))["plugins"]
        return {one["id"]: one for one in listed if one["origin"] == "layer"}

    def file(self, inside: str) -> Path:
        return self.home / "plugins.d/current" / inside


@pytest.fixture
def person(tmp_path: Path, wheels: Path) -> Person:
    return Person(tmp_path, wheels)


def environment_now() -> list[str]:
    site = next(Path(folder) for folder in sys.path if folder.endswith("site-packages"))
    return sorted(entry.name for entry in site.iterdir())


# --- the story, with the real pip


def test_a_plugin_is_installed_used_updated_and_taken_out_and_the_environment_stays_as_it_is(
    person: Person,
) -> None:
    before = environment_now()

    output = person.does("install", "claw-plugin-tide==1.0", "--yes")

    assert "claw-plugin-base" in output
    assert "tide 1.0: idle" in output
    assert {id: one["version"] for id, one in person.plugins().items()} == {"base": "1.0", "tide": "1.0"}

    person.does("install", "claw-plugin-tide", "--yes")  # the pin is let go of; what fits stays
    assert person.plugins()["tide"]["version"] == "1.0"
    output = person.does("update", "tide", "--yes")
    assert ["claw-plugin-tide", "1.0", "2.0"] in [line.split() for line in output.splitlines()]
    assert person.plugins()["tide"]["version"] == "2.0"

    output = person.does("uninstall", "tide", "--yes")
    assert "claw-plugin-base" in output  # nobody needs it any more
    assert person.plugins() == {}
    assert environment_now() == before


def test_a_folder_a_wheel_an_editable_folder_and_a_repository_can_be_installed(
    person: Person, wheels: Path
) -> None:
    sources = person.home / "src"
    folder, edited = package(sources, "claw-plugin-one"), package(sources, "claw-plugin-two")
    repository = package(sources, "claw-plugin-three")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    wheel = next(wheels.glob("claw_plugin_base-*.whl"))

    person.does("install", str(folder), str(wheel), "-e", str(edited), f"git+file://{repository}", "--yes")

    plugins = person.plugins()
    assert plugins.keys() == {"one", "two", "three", "base"}
    assert plugins["two"]["folder"] == str(edited / "claw_plugin_two")
    person.does("uninstall", "one", "--yes")  # and the others are taken over as they are
    assert person.plugins().keys() == {"two", "three", "base"}

    person.does("lock")
    shutil.rmtree(person.home / "plugins.d")
    person.does("sync", "--frozen", "--yes")
    assert person.plugins().keys() == {"two", "three", "base"}


def test_a_newer_wheel_or_folder_takes_the_place_of_what_is_there_and_the_rest_stays(
    person: Person, wheels: Path
) -> None:
    older, newer = package(person.home, "claw-plugin-one"), package(person.home, "claw-plugin-one", "2.0")
    person.does("install", "claw-plugin-tide==1.0", str(older), "--yes")

    person.does("install", str(next(wheels.glob("claw_plugin_tide-2.0-*.whl"))), "--yes")
    person.does("install", str(newer), "--yes")
    person.does("update", "--yes")  # to what the new wheel and the new folder hold

    versions = {id: one["version"] for id, one in person.plugins().items()}
    assert versions == {"base": "1.0", "one": "2.0", "tide": "2.0"}


def test_what_claw_runs_with_is_never_changed(person: Person) -> None:
    refused = person.types("plugins", "install", "claw-plugin-greedy", "--yes")

    assert refused.returncode == 1
    assert "pluggy<1" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert person.plugins() == {}

    for words in (("install", "pluggy"), ("update", "tools-std"), ("uninstall", "tools-std")):
        refused = person.types("plugins", *words, "--yes")
        assert refused.returncode == 2
        assert "the environment" in refused.stderr


def test_the_command_for_an_extra_of_what_claw_runs_with_has_the_extra() -> None:
    with pytest.raises(UsageError, match=re.escape("-U 'claw-mcp[sdk]'")):
        require_outside_environment(["claw-mcp[sdk]>=0.1"], {"claw-mcp": "0.1.0"})


def test_a_package_that_the_index_does_not_have_is_one_clear_line(person: Person) -> None:
    refused = person.types("plugins", "install", "claw-browser", "--yes")

    assert refused.returncode == 1
    assert refused.stderr.strip().splitlines()[-1].startswith("claw: the index has no package claw-browser")
    assert len(refused.stderr.strip().splitlines()) == 1


def test_what_would_change_is_shown_first_and_nobody_there_to_be_asked_means_no(person: Person) -> None:
    assert person.types("plugins", "install", "claw-plugin-base").returncode == 2
    assert person.plugins() == {}


def test_a_dry_run_shows_the_changes_and_leaves_nothing_also_beside_a_running_gateway(person: Person) -> None:
    for wanted in ("claw-plugin-tide==1.0", "claw-plugin-tide"):  # the second one lets go of the pin
        person.does("install", wanted, "--yes")
    layers = person.home / "plugins.d"
    before = {path: path.stat().st_mtime_ns for path in layers.rglob("*")}
    gateway = Lock(person.home / GATEWAY_LOCK, "a gateway runs", "stop it")
    gateway.take()
    try:
        for words, row in (
            (("install", "claw-plugin-future"), ["claw-plugin-future", "-", "1.0"]),
            (("update", "tide"), ["claw-plugin-tide", "1.0", "2.0"]),
            (("uninstall", "tide"), ["claw-plugin-base", "1.0", "-"]),
        ):
            output = person.does(*words, "--dry-run")
            assert row in [line.split() for line in output.splitlines()]
            assert output.splitlines()[-1] == "nothing was changed (--dry-run)"
            planned = json.loads(person.does(*words, "--dry-run", "--json"))
            assert (planned["done"], planned["plugins"]) == (False, [])
            assert (
                dict(zip(("name", "old", "new"), (word.strip("-") for word in row), strict=True))
                in planned["changes"]
            )
    finally:
        gateway.close()
    assert before == {path: path.stat().st_mtime_ns for path in layers.rglob("*")}

    refused = person.types("plugins", "install", "claw-plugin-future", "--dry-run", "--yes")
    assert (refused.returncode, "--yes has no effect with --dry-run" in refused.stderr) == (2, True)


def test_an_install_says_what_came_what_it_costs_and_how_to_switch_it_on(person: Person) -> None:
    output = person.does("install", "claw-plugin-acme", "--yes")
    lines = [line.strip() for line in output.splitlines()]
    assert "kinds: tool" in lines
    [tools] = [line for line in lines if line.startswith("tools: ")]
    assert re.fullmatch(
        r"tools: acme_status, acme_restart \(optional\); about [1-9][0-9]* tokens in each request", tools
    )
    assert "its optional tools are switched on by: claw config set 'tools.alsoAllow[]' acme" in lines
    assert "grade: not known here; claw plugins grade acme finds it" in lines

    person.does("uninstall", "acme", "--yes")
    [acme] = json.loads(person.does("install", "claw-plugin-acme", "--yes", "--json"))["plugins"]
    assert (acme["id"], acme["kinds"], acme["toolTokens"] > 0) == ("acme", ["tool"], True)


def test_a_plugin_for_another_api_is_installed_and_reported_as_incompatible(person: Person) -> None:
    assert "incompatible" in person.does("install", "claw-plugin-future", "--yes")


def test_a_plugin_is_disabled_and_enabled_through_the_file(person: Person) -> None:
    person.does("install", "claw-plugin-acme", "--yes")
    (person.home / "config.yaml").write_text("# mine\nplugins:\n  deny: [acme]\n")

    assert "disabled" in person.does("disable", "acme")
    assert "loaded" in person.does("enable", "acme")

    assert (person.home / "config.yaml").read_text().startswith("# mine\n")
    assert person.plugins()["acme"]["state"] == "loaded"


def test_the_page_on_installing_does_what_it_shows(person: Person) -> None:
    page = (ROOT / "docs/installing.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.S | re.M):
        for part in block.split("$ ")[1:]:
            command, *shown = part.splitlines()
            done = person.types(*shlex.split(command)[1:])
            assert done.returncode == 0, command + done.stderr
            output = {" ".join(line.split()) for line in done.stdout.splitlines()}
            assert {" ".join(line.split()) for line in shown} <= output, command


def bare(folder: Path, name: str, code: str, entry: str = "", manifest: str = "") -> Path:
    """The source of a distribution with this code.

    :param entry: the line of its entry point, if it has one.
    """
    module = name.replace("-", "_")
    source = folder / f"{name}-bare"
    (source / module).mkdir(parents=True)
    project = PLUGIN.format(name=name, version="1.0", needs="[]", id="x", package=module)
    head, _, _ = project.partition("[project.entry-points")
    entries = f'[project.entry-points."claw.plugins"]\n{entry}\n' if entry else ""
    (source / "pyproject.toml").write_text(head + entries)
    (source / module / "__init__.py").write_text(f'"""{name}."""\n{code}\n')
    if manifest:
        (source / module / "claw-plugin.json").write_text(manifest)
    return source


def test_a_package_that_provides_no_plugin_is_not_installed(person: Person) -> None:
    refused = person.types("plugins", "install", str(bare(person.home, "plain-library", "x = 1")), "--yes")

    assert refused.returncode == 2
    assert "plain-library contains no plugin for claw, so it was not installed" in refused.stderr
    assert not (person.home / "plugins.d" / "current").exists()

    server = bare(person.home, "mcp-server-bare", "def main():\n    pass")
    with (server / "pyproject.toml").open("a") as project:
        project.write('[project.scripts]\nmcp-server-bare = "mcp_server_bare:main"\n')
    refused = person.types("plugins", "install", str(server), "--yes")
    assert "for an MCP server: claw mcp install NAME mcp-server-bare" in refused.stderr


MISSPELT = plugin_code("odd_do").replace("def register_tools", "def register_tool")
UNMARKED = plugin_code("odd_do").replace("@hookimpl\n", "")


@pytest.mark.parametrize(
    ("code", "entry", "manifest", "output"),
    [
        (MISSPELT, 'odd = "odd"', "", "claw has no hook register_tool; the nearest one is register_tools"),
        (UNMARKED, 'odd = "odd"', "", "its function register_tools is not marked with @hookimpl"),
        ("x = 1", 'odd = "odd"', "", "its package odd implements no hook"),
        (plugin_code("odd_do"), 'odd = "odd:plugin"', "", "its entry point names odd:plugin"),
        (
            plugin_code("odd_do"),
            'odd = "odd"',
            '{"id": "odd"}',
            "its manifest lists nothing that register_tools provides",
        ),
        ("raise RuntimeError('no luck')", 'odd = "odd"', "", "RuntimeError: no luck"),
    ],
)
def test_a_plugin_of_which_nothing_would_be_used_says_so_when_it_is_installed_and_ever_after(
    person: Person, code: str, entry: str, manifest: str, output: str
) -> None:
    said = person.does("install", str(bare(person.home, "odd", code, entry, manifest)), "--yes")

    assert "odd 1.0: quarantined" in said
    assert output in said
    assert output in person.plugins()["odd"]["why"]
    assert output in person.types("doctor").stdout
    checked = person.types("plugins", "doctor", "odd")
    assert output in checked.stdout
    assert "no problems" not in checked.stderr


# --- lock and verify


def test_one_changed_byte_is_found_its_plugin_quarantined_and_then_restored(person: Person) -> None:
    person.does("install", "claw-plugin-acme", "--yes")
    person.does("lock")
    assert person.plugins()["acme"]["state"] == "loaded"
    file = person.file("claw_plugin_acme/__init__.py")
    content = file.read_bytes()
    file.write_bytes(content.replace(b"a", b"b", 1))

    verified = person.types("plugins", "verify")
    assert verified.returncode == 1
    assert str(file.name) in verified.stdout
    bad = person.plugins()["acme"]
    assert (bad["state"], bad["stage"]) == ("quarantined", "integrity")
    assert person.types("status").returncode == 0  # claw goes on

    person.does("sync", "--yes")
    assert person.file("claw_plugin_acme/__init__.py").read_bytes() == content
    assert person.plugins()["acme"]["state"] == "loaded"
    person.does("verify")


def test_a_changed_file_is_used_again_once_the_operator_says_so(person: Person) -> None:
    person.does("install", "claw-plugin-acme", "--yes")
    person.does("lock")
    file = person.file("claw_plugin_acme/__init__.py")
    file.write_bytes(file.read_bytes() + b"# mine\n")
    assert person.types("plugins", "lock").returncode == 1

    person.does("lock", "--accept")

    assert (
        person.plugins()["acme"]["state"] == "untried"
    )  # in use, and no process has loaded the changed file
    person.types("plugins", "doctor")
    assert person.plugins()["acme"]["state"] == "loaded"
    person.does("verify")


def test_the_lock_restores_the_same_set_and_refuses_other_bytes(person: Person, wheels: Path) -> None:
    person.does("install", "claw-plugin-tide==1.0", "--yes")
    person.does("lock")
    shutil.rmtree(person.home / "plugins.d")

    person.does("sync", "--frozen", "--yes")
    assert person.plugins()["tide"]["version"] == "1.0"

    shutil.rmtree(person.home / "plugins.d")
    lock = person.home / "pylock.toml"
    locked = tomllib.loads(lock.read_text())["packages"][0]["wheels"][0]["hashes"]["sha256"]
    lock.write_text(lock.read_text().replace(locked, "0" * 64))
    refused = person.types("plugins", "sync", "--frozen", "--yes")
    assert refused.returncode == 1
    assert "differs from the planned or locked one" in refused.stderr
    assert person.plugins() == {}


def test_the_lock_is_the_standard_file() -> None:
    pylock = pytest.importorskip("packaging.pylock", reason="packaging 26 reads it; pip install packaging")
    pins = [
        Pin("a", "1", "index", "https://files.example/a-1-py3-none-any.whl", "0" * 64, needs=("b", "pytest")),
        Pin("b", "2", "index", "https://files.example/b-2.tar.gz", "1" * 64),
        Pin("c", "3", "git", "https://code.example/c", commit="f" * 40, asked="git+https://code.example/c"),
        Pin("d", "4", "directory", "file:///src/d%20d", editable=True, asked="-e /src/d d"),
        Pin("e", "5", "file", "file:///w/e-5-py3-none-any.whl", "2" * 64),
    ]

    tree = tomllib.loads(lock_text(pins, {"a": "9"}, {'a/"odd"\\name': "8"}))

    read = pylock.Pylock.from_dict(tree)
    assert [str(one.name) for one in read.packages] == ["a", "b", "c", "d", "e"]
    assert tree["packages"][3]["directory"]["path"] == "/src/d d"
    assert tree["tool"]["claw"]["accepted"] == {'a/"odd"\\name': "8"}


# --- killed at any moment


class Shelf:
    """An index of wheels that needs no pip: for the moments between two system calls."""

    def __init__(self, wheels: Path) -> None:
        self.wheels = wheels

    def pin(self, name: str, version: str = "1.0", asked: str = "") -> Pin:
        return Pin(name, version, "index", "x.whl", f"{name}{version}".ljust(64, "0"), asked=asked or name)

    def resolve(self, roots: Sequence[PluginRequirement], scratch: Path, **options: Any) -> tuple[Pin, ...]:
        return tuple(self.pin(*root.text.split("==")) for root in roots)

    def fetch(self, pins: Sequence[Pin], target: Path, scratch: Path) -> None:
        for pin in pins:
            spelled = pin.name.replace("-", "_")
            with zipfile.ZipFile(next(self.wheels.glob(f"{spelled}-{pin.version}-*.whl"))) as wheel:
                wheel.extractall(target)


class Killed(BaseException):
    """The process is gone."""


def change(home: Path, shelf: Any, *names: str, step: Callable[[str], None] = lambda name: None) -> None:
    layers = LayerStore(home, step=step)
    with layers.transaction():
        layers.apply(plan_install(layers, shelf, [PluginRequirement(name) for name in names]), shelf)


def the_set(home: Path) -> dict[str, str]:
    """Return the distributions that a start would find, with their versions; the code of each must be there."""
    current = home / "plugins.d/current"
    assert {pin.name for pin in LayerStore(home).pins} == {
        info.name.partition("-")[0].replace("_", "-") for info in current.glob("*.dist-info")
    }
    for pin in LayerStore(home).pins:
        code = (current / pin.name.replace("-", "_") / "__init__.py").read_text()
        assert f'VERSION = "{pin.version}"' in code
    return {pin.name: pin.version for pin in LayerStore(home).pins}


BEFORE = {"claw-plugin-tide": "1.0", "claw-plugin-base": "1.0"}
AFTER = {"claw-plugin-tide": "2.0", "claw-plugin-base": "1.0", "claw-plugin-future": "1.0"}
CHANGE = ("claw-plugin-tide==2.0", "claw-plugin-future")


@pytest.fixture(scope="module")
def first(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("first")
    change(home, Shelf(wheels), "claw-plugin-tide==1.0", "claw-plugin-base")
    assert the_set(home) == BEFORE
    return home


def moments(home: Path, wheels: Path) -> list[str]:
    output_lines: list[str] = []
    change(home, Shelf(wheels), *CHANGE, step=output_lines.append)
    assert the_set(home) == AFTER
    return output_lines


def test_a_change_that_dies_at_any_moment_leaves_the_set_before_or_after(
    first: Path, wheels: Path, tmp_path: Path
) -> None:
    names = moments(shutil.copytree(first, tmp_path / "whole", symlinks=True), wheels)
    assert len(names) == len(set(names)) == 2 * len(STEPS) >= 30

    outcomes = []
    for number, name in enumerate(names):
        home = shutil.copytree(first, tmp_path / str(number), symlinks=True)

        def die(output_lines: str, name: str = name) -> None:
            if output_lines == name:
                raise Killed

        with pytest.raises(Killed):
            change(home, Shelf(wheels), *CHANGE, step=die)
        outcomes.append(the_set(home))
        assert outcomes[-1] in (BEFORE, AFTER), name
        change(home, Shelf(wheels), *CHANGE)  # the next one finds its way, and tidies up
        assert the_set(home) == AFTER, name
        assert not (home / "plugins.d/.new").exists()
    # One moment divides them.
    assert [key for key, _ in itertools.groupby(outcomes)] == [BEFORE, AFTER]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[4])
from integration.test_lifecycle import CHANGE, Shelf, change
def die(name):
    if name == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
change(Path(sys.argv[1]), Shelf(Path(sys.argv[2])), *CHANGE, step=die)
"""


@pytest.mark.parametrize(
    "moment",
    ["clean up: done", "download locked packages: begin", "assemble: done", "number the generation: done",
     "create the link: done", "activate: done", "remove old generations: begin"],
)  # fmt: skip
def test_a_real_kill_leaves_the_set_before_or_after_and_no_lock(
    first: Path, wheels: Path, tmp_path: Path, moment: str
) -> None:
    home = shutil.copytree(first, tmp_path / "copy", symlinks=True)
    words = [sys.executable, "-c", KILLED, str(home), str(wheels), moment, str(ROOT / "tests")]

    assert subprocess.run(words, capture_output=True).returncode == -signal.SIGKILL

    expected = AFTER if moment in ("activate: done", "remove old generations: begin") else BEFORE
    assert the_set(home) == expected
    change(home, Shelf(wheels), *CHANGE)
    assert the_set(home) == AFTER


def test_pip_killed_midway_leaves_the_set_as_it_was(person: Person) -> None:
    person.does("install", "claw-plugin-base", "--yes")
    words = [sys.executable, "-m", "claw", "plugins", "install", "claw-plugin-tide", "--yes"]
    with subprocess.Popen(
        words, env=person.environ, cwd=person.home, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        process.stdout.readline()  # the plan was shown: from now on pip fetches
        process.kill()
    assert person.plugins().keys() == {"base"}
    person.does("install", "claw-plugin-tide", "--yes")
    assert person.plugins().keys() == {"base", "tide"}


# --- a gateway, and other processes


def test_a_running_gateway_keeps_its_plugins_unless_the_change_is_staged(
    first: Path, wheels: Path, tmp_path: Path
) -> None:
    from claw.host.overlay import promote_staged

    home = shutil.copytree(first, tmp_path / "copy", symlinks=True)
    gateway = Lock(home / GATEWAY_LOCK)
    gateway.take()
    with pytest.raises(BusyError, match=f"process {os.getpid()}.*--staged"):
        change(home, Shelf(wheels), *CHANGE)

    layers = LayerStore(home, staged=True)
    with layers.transaction():
        layers.apply(
            plan_install(layers, Shelf(wheels), [PluginRequirement(name) for name in CHANGE]), Shelf(wheels)
        )  # type: ignore[arg-type]
    current = os.readlink(home / "plugins.d/current")
    assert not promote_staged(str(home))
    assert os.readlink(home / "plugins.d/current") == current

    gateway.close()
    assert promote_staged(str(home))
    assert the_set(home) == AFTER


def test_the_last_two_layers_are_kept_and_those_that_a_process_works_with(
    first: Path, wheels: Path, tmp_path: Path
) -> None:
    import fcntl

    home = shutil.copytree(first, tmp_path / "copy", symlinks=True)
    used = os.open((home / "plugins.d/current").resolve(), os.O_RDONLY)
    fcntl.flock(used, fcntl.LOCK_SH)
    for _ in range(3):
        change(home, Shelf(wheels), *CHANGE)
    numbers = [int(folder.name.partition("-")[0]) for folder in (home / "plugins.d").glob("*-cpython-*")]
    assert sorted(numbers) == [1, 3, 4]

    os.close(used)
    change(home, Shelf(wheels), *CHANGE)
    numbers = [int(folder.name.partition("-")[0]) for folder in (home / "plugins.d").glob("*-cpython-*")]
    assert sorted(numbers) == [4, 5]


def test_a_layer_of_another_python_is_left_out_and_said_so(person: Person) -> None:
    person.does("install", "claw-plugin-base", "--yes")
    root = person.home / "plugins.d"
    (root / "9-cpython-39").symlink_to(os.readlink(root / "current"))
    (root / "current").unlink()
    (root / "current").symlink_to("9-cpython-39")

    listed = person.types("plugins", "list")

    assert listed.returncode == 0
    assert "claw plugins sync" in listed.stderr
    person.does("sync", "--yes")
    assert person.plugins().keys() == {"base"}


def test_without_a_layer_nothing_of_it_is_imported(person: Person) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "claw", "plugins", "list"], capture_output=True, text=True,
        env=person.environ, check=True,
    )  # fmt: skip
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert {name for name in imported if name.startswith("claw_admin")} == set()


# --- pure parts


def test_what_stays_is_taken_over_and_what_nobody_needs_goes() -> None:
    a = Pin("a", "1", "index", sha256="1", asked="a", needs=("lib",))
    lib, other = Pin("lib", "1", "index", sha256="2"), Pin("other", "1", "index", sha256="3")
    b = Pin("b", "1", "index", sha256="4", needs=("lib",))

    made = plan_change((a, lib, other), (b,), {"a": "a", "b": "b==1"})

    assert [pin.name for pin in made.kept] == ["a", "lib"]
    assert [(pin.name, pin.asked) for pin in made.fetched] == [("b", "b==1")]
    assert [(one.name, one.old, one.new) for one in made.changes] == [("b", "", "1"), ("other", "1", "")]
    assert made.refetching({"lib"}).fetched == (*made.fetched, lib)


def test_another_one_that_needs_it_keeps_a_package_from_being_taken_out(first: Path, tmp_path: Path) -> None:
    layers = LayerStore(shutil.copytree(first, tmp_path / "copy", symlinks=True))
    pins = [*(pin for pin in layers.pins if pin.name != "claw-plugin-tide")]
    assert plan_uninstall(layers, ["claw-plugin-tide"]).new == tuple(pins)
    assert plan_sync(layers, pins) == InstallPlan(layers.pins, tuple(pins), ())


@pytest.mark.parametrize(
    ("files", "is_venv", "kind"),
    [
        ([], True, "venv"),
        ([], False, "system"),
        (["pipx_metadata.json"], True, "pipx"),
        (["uv-receipt.toml"], True, "uv tool"),
        (["EXTERNALLY-MANAGED"], False, "managed"),
        (["EXTERNALLY-MANAGED"], True, "venv"),
    ],
)
def test_the_kind_of_an_environment_is_read_from_what_its_maker_left(
    tmp_path: Path, files: list[str], is_venv: bool, kind: str
) -> None:
    for name in files:
        (tmp_path / name).touch()
    assert environment_kind(tmp_path, tmp_path, is_venv=is_venv) == kind


@pytest.mark.parametrize(
    ("output_lines", "wanted"),
    [
        (["ERROR: No matching distribution found for claw-x"], "has no package claw-x"),
        (
            ["ERROR: none fits (from versions: 1.0, 2.0)", "ERROR: No matching distribution found for x==9"],
            "available: 1.0, 2.0",
        ),
        (
            ["WARNING: Retrying (Retry(total=1)) after connection broken", "ERROR: No matching distribution found for x"],
            "cannot be reached",
        ),
        (["The conflict is caused by:", "    a 1 depends on b<1", "    c 1 has b>1", "", "To"], "a 1 depends on b<1; c"),
        (["ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE."], "planned or locked"),
        (["building", "ERROR: it broke {here}"], "it broke {here}"),
        (
            ["Traceback:", "ValueError: no name", "error: subprocess-exited-with-error", "exit code: 1", "ERROR: failed"],
            "ValueError: no name; failed",
        ),
        (
            ["╰─> [2 lines of output]", "  File x", "  KeyError: 'name'", "      [end of output]", "ERROR: failed"],
            "KeyError: 'name'; failed",
        ),
        ([], "nothing was changed"),
    ],
)  # fmt: skip
def test_what_pip_says_at_its_end_becomes_one_sentence(output_lines: list[str], wanted: str) -> None:
    assert wanted in str(error_from_output(output_lines))


@pytest.mark.parametrize(
    ("text", "name"),
    [("claw-x", "claw-x"), ("Claw_X==1.0", "claw-x"), ("x[extra]>=1", "x"), ("git+https://h/x", "")],
)
def test_a_requirement_is_known_by_its_name_when_it_has_one(text: str, name: str) -> None:
    assert parse_requirement(text).name == name


@pytest.mark.parametrize("text", ["", "!", "./not-there", "x/y.whl"])
def test_a_requirement_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(ClawError):
        parse_requirement(text)


def test_pip_serves_this_python_in_some_way() -> None:
    done = subprocess.run([*pip_command(), "--version"], capture_output=True, text=True)
    assert done.returncode == 0
    assert Pip(pip_command(), os.environ)


# --- the next core


@pytest.mark.index
@pytest.mark.timeout(600)
def test_the_next_core_is_rehearsed_and_names_the_plugins_that_would_break(
    wheels: Path, tmp_path: Path
) -> None:
    core, built = tmp_path / "core", tmp_path / "wheels"
    shutil.copytree(ROOT / "core", core, ignore=shutil.ignore_patterns("__pycache__"))
    for member in with_core():
        wheel_of(member, built)
    now = wheel_of(core, built)
    for file, old, new in (
        ("__init__.py", '__version__ = "0.1.0"', '__version__ = "0.9.0"'),
        ("host/manifest.py", "API_VERSION = (1, 0)", "API_VERSION = (2, 0)"),
    ):
        text = (core / "claw" / file).read_text()
        assert old in text
        (core / "claw" / file).write_text(text.replace(old, new))
    following = wheel_of(core, built)
    (tmp_path / "src").mkdir()
    either = wheel_of(package(tmp_path / "src", "claw-plugin-either", api=">=1,<3"), wheels)
    tied = wheel_of(
        package(tmp_path / "src", "claw-plugin-tied", needs=["claw-core<0.5"], api=">=1,<3"), wheels
    )
    venv = Venv(tmp_path / "person")
    venv.install(f"{now}[standard]", "-c", str(ROOT / "constraints.txt"))
    installed = venv.claw(
        "plugins",
        "install",
        *map(str, wheels.glob("claw_plugin_acme-*.whl")),
        str(either),
        str(tied),
        "--yes",
    )
    assert installed.returncode == 0, installed.stderr

    same = venv.claw("upgrade", "--check", "--to", str(now))
    assert same.returncode == 0, same.stdout + same.stderr

    done = venv.claw("upgrade", "--check", "--to", str(following), "--json")

    assert done.returncode == 1, done.stderr
    output = json.loads(done.stdout)
    assert (output["core"], output["api"]) == ("0.9.0", "2.0")
    fates = {one["plugin"]: one["why"] for one in output["plugins"]}
    assert fates["either"] == ""
    assert "plugin API >=1,<2" in fates["acme"]
    assert "claw-core<0.5" in fates["tied"]
    assert venv.claw("--version").stdout == "claw 0.1.0\n"


def test_a_text_that_begins_with_a_dot_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert parse_requirement(".").text == str(tmp_path)
    assert parse_requirement("..").text == str(tmp_path.parent)
