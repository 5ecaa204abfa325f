"""``llm-tools-*`` packages that nobody here wrote, from the index: opted in, called, broken and repaired by what claw
prints."""

import json
import sqlite3
from typing import Any

import pytest
from integration.test_packaging import Venv
from plugins.fresh_environment import built, flip_first_byte, module, obey, printed, remove

pytestmark = [pytest.mark.index, pytest.mark.timeout(600), pytest.mark.xdist_group("llm tools of others")]
PACKAGES = ("simpleeval", "quickjs", "sqlite", "todo", "patch", "readonly-fs", "trigger-error")


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    """claw with the bridge, llm, and seven of its tool plugins."""
    folder = tmp_path_factory.mktemp("llm")
    venv = Venv(folder)
    core, plugin = built(folder / "wheels", "llm-bridge")
    venv.install(core, f"{plugin}[llm]", *(f"llm-tools-{name}" for name in PACKAGES))
    return venv


@pytest.fixture
def opted_in(venv: Venv) -> Venv:
    assert venv.claw("config", "set", "tools.alsoAllow", '["llm-bridge"]').returncode == 0
    return venv


def bridged(venv: Venv) -> set[str]:
    """The tools of the bridge; those of other plugins have no package in their name."""
    return {name for name in venv.tools() if "__" in name}


def call(venv: Venv, name: str, **arguments: Any) -> str:
    done = venv.claw("tools", "call", name, "--args", json.dumps(arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_installed_is_not_switched_on_and_the_list_says_how(venv: Venv) -> None:
    venv.claw("config", "unset", "tools.alsoAllow")
    bridge = venv.plugins()["llm-bridge"]

    assert bridge["state"] == "idle"
    assert bridge["mend"] == "claw config set 'tools.alsoAllow[]' llm-bridge"
    assert bridged(venv) == set()
    obey(venv, [bridge["mend"]])
    assert "simpleeval__simple_eval" in venv.tools()


def test_one_tool_is_switched_on_by_its_name_alone(venv: Venv) -> None:
    venv.claw("config", "set", "tools.alsoAllow", '["simpleeval__simple_eval"]')
    assert bridged(venv) == {"simpleeval__simple_eval"}


def test_every_package_provides_its_tools_by_the_name_of_the_package(opted_in: Venv) -> None:
    bridged_plugins = {name.partition("__")[0] for name in bridged(opted_in)}
    # sqlite's toolbox cannot be made without a path: the list says which setting it wants
    assert bridged_plugins == {name.replace("-", "_") for name in PACKAGES} - {"sqlite"}
    listed = opted_in.claw("llm-bridge", "list").stdout
    assert "run: claw config set plugins.entries.llm-bridge.config.toolboxes.SQLite.path VALUE" in listed


def test_functions_and_toolboxes_do_their_work(opted_in: Venv) -> None:
    things = opted_in.home / "things.db"
    with sqlite3.connect(things) as database:
        database.execute("create table thing (name, kg)")
        database.execute("insert into thing values ('anvil', 5)")
    key = "plugins.entries.llm-bridge.config.toolboxes.SQLite.path"
    assert opted_in.claw("config", "set", key, str(things)).returncode == 0

    assert call(opted_in, "sqlite__SQLite_query", sql="select kg from thing") == '[{"kg": 5}]'
    assert call(opted_in, "simpleeval__simple_eval", expression="6*7") == "42"
    assert call(opted_in, "quickjs__QuickJS_execute_javascript", javascript="6*7") == "42"
    assert "session" in call(opted_in, "todo__Todo_begin")
    (opted_in.home / "note.txt").write_text("the anvil")
    assert "the anvil" in call(opted_in, "patch__Patch_read", file_path=str(opted_in.home / "note.txt"))
    assert "note.txt" in call(opted_in, "readonly_fs__ReadonlyFsTools_glob", glob_patterns=["*.txt"])
    failed = opted_in.claw(
        "tools", "call", "trigger_error__trigger_error", "--args", '{"message": "on purpose"}'
    )
    assert failed.returncode == 1
    assert "on purpose (llm plugin llm-tools-trigger-error)" in failed.stderr


def test_a_plugin_that_lost_a_dependency_is_left_out_and_fixed_by_what_is_printed(opted_in: Venv) -> None:
    remove(opted_in, "simpleeval")

    found = opted_in.claw("tools", "list")
    assert found.returncode == 0
    assert "llm-tools-simpleeval is left out: ModuleNotFoundError" in found.stderr
    checked = opted_in.claw("llm-bridge", "check")
    assert checked.returncode == 1
    obey(opted_in, [command for command in printed(checked.stdout) if "simpleeval" in command])
    assert call(opted_in, "simpleeval__simple_eval", expression="6*7") == "42"


def test_a_changed_byte_is_named_at_the_call_and_fixed_by_what_is_printed(opted_in: Venv) -> None:
    assert "quickjs__quickjs" in opted_in.tools()
    flip_first_byte(module(opted_in, "llm_tools_quickjs.py"))

    failed = opted_in.claw("tools", "call", "quickjs__quickjs", "--args", '{"javascript": "x"}')
    assert failed.returncode == 1
    assert "the llm plugin llm-tools-quickjs cannot be used: SyntaxError" in failed.stderr
    obey(opted_in, [failed.stderr.strip().rpartition("The operator fixes it with: ")[2]])
    script = "function execute() { return 42; }"
    assert call(opted_in, "quickjs__quickjs", javascript=script) == "42"
    assert "quickjs" not in opted_in.claw("llm-bridge", "check").stdout
