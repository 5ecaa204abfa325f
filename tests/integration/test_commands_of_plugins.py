"""Commands come from plugins: nobody is locked out, groups can be joined, and a missing package is named."""

import json
import shutil
from pathlib import Path

import pytest
from core.source import ROOT
from environments import Environment, projects
from third_party import Machine, Said, installed, plugin_code

NOTES = """
import typer
from claw import hookimpl

@hookimpl
def register_commands(app):
    sub = typer.Typer()
    sub.command("list")(lambda: typer.echo("two notes"))
    sub.callback()(lambda: None)
    app.add_typer(sub, name="notes")
    app.command("plugins audit")(lambda: typer.echo(f"audited as {app.info.name}"))
    app.command("plugins list")(lambda: typer.echo("hijacked"))
    app.command("doctor")(lambda: typer.echo("hijacked"))
    app.command("models tune")(lambda: typer.echo("tuned"))
"""
MANIFEST = {
    "kinds": ["command"],
    "commands": {
        "notes": "Notes of yours.",
        "plugins audit": "Look twice.",
        "plugins list": "Not this one.",
        "plugins gone": "",
        "doctor": "Not this one.",
        "models tune": "",
    },
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with the plugin ``acme``, which registers commands."""
    site = tmp_path / "site"
    site.mkdir()
    machine = Machine(tmp_path, [installed(site, "acme", NOTES, MANIFEST)])
    machine.home.chmod(0o700)
    return machine


def test_a_command_and_sub_commands_of_groups_of_core_and_of_a_plugin_come_from_a_third_party(machine):
    assert machine.claw("notes", "list").out == "two notes\n"
    assert machine.claw("plugins", "audit").out == "audited as plugins audit\n"
    assert machine.claw("models", "tune").out == "tuned\n"
    assert "models tune" not in machine.claw("models", "list").out, "the owner's commands are there too"


def test_a_name_that_is_taken_stays_with_core_and_with_the_operators_plugin(machine):
    for words in (["plugins", "list"], ["doctor"]):
        assert "hijacked" not in machine.claw(*words).out


def test_a_command_that_is_declared_and_not_provided_is_a_fault_of_its_plugin(machine):
    result = machine.claw("plugins", "gone")
    assert (result.code, "acme" in result.line, "plugins gone" in result.line) == (4, True, True)


def test_the_list_of_commands_is_made_from_manifests(machine):
    (machine.path[0] / "stranger_acme" / "__init__.py").write_text("open(__file__ + '.ran', 'w')\n")
    zh = machine.path[0] / "stranger_acme" / "locale" / "zh"
    zh.mkdir(parents=True)
    (zh / "acme.json").write_text('{"Notes of yours.": "你的笔记。"}')

    english, chinese = machine.claw("--help").out, machine.claw("--help", LANG="zh_CN.UTF-8").out

    assert "Notes of yours." in english and "Check the installation" in english and "聊天" not in english
    assert "你的笔记。" in chinese and "检查安装和配置" in chinese and "在此终端与智能体对话" in chinese
    assert "Look twice." in machine.claw("plugins", "--help").out
    assert not [*machine.path[0].rglob("*.ran")]


# Nobody is locked out


LOCKED_OUT = {
    "disabled": "plugins: {entries: {admin: {enabled: false}}}\n",
    "denied": "plugins: {deny: [admin]}\n",
    "not in the allow list": "plugins: {allow: [offline]}\n",
    "a key that does not exist": "tools: {alow: [read]}\n",
    "a file that does not parse": "plugins: {entries: [\n",
    "a required plugin that is not there": "plugins: {entries: {nowhere: {required: true}}}\n",
}


@pytest.mark.parametrize("config", LOCKED_OUT.values(), ids=LOCKED_OUT)
def test_who_broke_the_config_can_still_look_and_repair(machine, config):
    machine.configured(config)
    (machine.home / "config.yaml").chmod(0o600)
    broken = "entries: [" in config
    is_wrong = any(word in config for word in ("alow", "entries: [", "nowhere"))

    looked = json.loads(machine.claw("doctor", "--json").out)
    assert bool(looked["findings"]) == is_wrong, "doctor reports a wrong file only"
    assert not broken or looked["findings"][0]["kind"] == "config"
    assert "Traceback" not in machine.claw("plugins", "doctor", "acme").err
    assert "stranger-acme" in machine.claw("plugins", "verify").out
    listed = machine.claw("plugins", "list")
    assert "acme" in listed.out and "admin" in listed.out
    assert listed.code == (3 if broken else 0)
    changed = machine.claw("plugins", "disable", "acme")
    assert "config.yaml:" in changed.line if broken else "acme: disabled" in changed.out
    assert machine.claw("status", "--help").code == 0


def test_administration_whose_files_changed_runs_all_the_same_and_says_so(tmp_path):
    site = tmp_path / "site"
    shutil.copytree(ROOT / "plugins" / "admin" / "claw_admin", site / "claw_admin")
    info = site / "claw_admin-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: claw-admin\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[claw.plugins]\nadmin = claw_admin\n")
    (info / "RECORD").write_text("claw_admin/__init__.py,,\n")
    machine = Machine(tmp_path, [site])
    (machine.home / "pylock.toml").write_text(f'[tool.claw.records]\nclaw-admin = "{"0" * 64}"\n')

    result = machine.claw("plugins", "verify")
    assert (result.code, "claw_admin-0.1.0.dist-info/RECORD: " in result.out) == (1, True)
    assert "plugin admin is quarantined" in result.line
    assert "quarantined" in machine.claw("plugins", "list").out
    assert machine.claw("plugins", "lock", "--accept").code == 0
    assert machine.claw("status").err == ""


def test_a_third_party_is_not_run_when_the_lock_cannot_be_read(machine):
    (machine.home / "pylock.toml").write_text("no lock at all [")
    result = machine.claw("notes", "list")
    assert (result.code, result.out, "the lock cannot be used" in result.line) == (1, "", True)


def test_only_our_own_distributions_may_provide_commands_for_operators(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    code = plugin_code("acme_status") + NOTES
    machine = Machine(tmp_path, [installed(site, "acme", code, {**MANIFEST, "operator": True})])
    machine.configured("plugins: {entries: {acme: {enabled: false}}}\n")

    result = machine.claw("notes", "list")

    assert result.code == 2
    assert "is part of plugin acme, which is disabled" in result.line


# A package that is not installed


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with all of ours but claw-admin."""
    return Environment(tmp_path_factory.mktemp("without"), set(projects()) - {"claw-admin"})


def without_admin(environment: Environment, *words: str) -> Said:
    done = environment.claw(*words)
    return Said(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    "words", ["doctor", "status", "policy show", "plugins install x", "plugins enable x", "init"]
)
def test_a_command_of_a_missing_package_names_the_package(elsewhere, words):
    result = without_admin(elsewhere, *words.split())
    name = " ".join(words.split()[: 2 if words.startswith("plugins") else 1])
    assert (result.code, result.out) == (2, "")
    assert result.line == f"claw: claw {name} comes with claw-admin. pip install claw-admin"


def test_a_misspelt_command_of_a_missing_package_gets_the_nearest(elsewhere):
    assert "did you mean claw doctor?" in without_admin(elsewhere, "docter").line
    assert "did you mean claw plugins enable?" in without_admin(elsewhere, "plugins", "enabel").line


def test_without_administration_claw_chats_lists_and_explains(elsewhere):
    assert "offline" in without_admin(elsewhere, "chat", "--model", "offline/rules", "hello").out
    listed = without_admin(elsewhere, "plugins", "list")
    assert (listed.code, "offline" in listed.out, "admin" in listed.out) == (0, True, False)
    explained = without_admin(elsewhere, "tools", "explain", "read")
    assert (explained.code, explained.out.startswith("read: available")) == (0, True)
    assert "Check the installation" not in without_admin(elsewhere, "--help").out
