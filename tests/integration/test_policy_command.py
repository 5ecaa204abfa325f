"""``claw policy``: rules laid open, scenarios as tests, and what a changed file would change."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from claw.app import App, load_setup
from claw.cli.main import app
from claw.config.summary import plugins_that_bring
from claw.policy.catalog import CORE_TOOLS
from claw_admin.policy.judged_run import judge_scenario
from claw_config_sdk import Scenario
from core.source import ROOT
from typer.testing import CliRunner, Result

EXAMPLE = ROOT / "examples" / "policy"


def claw(*words: object) -> Result:
    return CliRunner().invoke(app, ["policy", *map(str, words)])


def document(*words: object) -> dict[str, Any]:
    answer = claw(*words, "--json")
    return {"code": answer.exit_code, **json.loads(answer.stdout)}


@pytest.fixture
def neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugins that examples/policy speaks of are installed, with every core tool that is theirs by name."""
    site = tmp_path / "site"
    unreleased = dict.fromkeys(("agents", "clock"), "tools-std")
    owners = {name: unreleased.get(id, id) for name, id in plugins_that_bring("tools").items()}
    owners |= {"gateway": "http"}
    for plugin in sorted(set(owners.values())):
        tools = [{"name": name, "description": "."} for name in CORE_TOOLS if owners.get(name) == plugin]
        package = site / f"stub_{plugin.replace('-', '_')}"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "claw-plugin.json").write_text(
            json.dumps({"id": plugin, "kinds": ["tool"], "tools": tools})
        )
        installed(site, plugin, package.name)
    shutil.copytree(ROOT / "examples" / "acme-status" / "claw_plugin_acme", site / "claw_plugin_acme")
    installed(site, "acme", "claw_plugin_acme")
    monkeypatch.syspath_prepend(site)


def installed(site: Path, plugin: str, package: str) -> None:
    name = {"memory": "claw-memory-search"}.get(plugin, f"claw-{plugin}")
    metadata = site / f"{name.replace('-', '_')}-9.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.0\n")
    (metadata / "entry_points.txt").write_text(f"[claw.plugins]\n{plugin} = {package}\n")


# --- claw policy test, claw policy diff: the example that we ship


MUTATIONS = {
    # a line of the config: what it becomes; does a scenario fail; does a run gain a tool
    "# The rules": ("# Rules", False, False),
    "  profile: coding": ("  profile: minimal", True, False),
    "  alsoAllow: [memory_search]": ("  alsoAllow: [memory_get]", True, True),
    "  deny: [apply_patch]": ("  deny: []", True, True),
    "openai: {deny: [acme_status]}": ("openai: {}", True, True),
    "allow: [read, write, acme_status], deny: [write]": ("allow: [read, write, acme], deny: []", True, True),
    "allow: [read, write, acme_status], deny": ("allow: [read, acme_status], deny", False, False),
    "tools: {deny: [exec]}": ("tools: {deny: [exec, process]}", True, False),
    "tools: {profile: default}": ("tools: {profile: full, deny: [message]}", True, False),
    "allow: [acme_restart]}": ("deny: [gateway]}", True, False),
    "allow: [acme]}": ("allow: [acme_status]}", True, False),
    '["group:plugins"]': (
        "[acme, read, exec]",
        True,
        False,
    ),  # other plugins with optional tools are installed
    "alsoAllow: [acme], deny: [acme_restart]": ("alsoAllow: [acme]", True, True),
    "[read, write, grep]": ("[read, write, grep, ls]", True, True),
}


@pytest.mark.usefixtures("neighbours", "home")
def test_the_example_holds_and_a_file_does_not_differ_from_itself() -> None:
    config = EXAMPLE / "config.yaml"
    assert claw("test", EXAMPLE / "seeds.yaml", "--config", config).exit_code == 0
    assert claw("diff", config, config).exit_code == 0


@pytest.mark.usefixtures("neighbours", "home")
@pytest.mark.parametrize("line", MUTATIONS)
def test_one_line_changed_is_seen_by_the_scenarios_and_a_gain_by_the_comparison(
    line: str, tmp_path: Path
) -> None:
    text = (EXAMPLE / "config.yaml").read_text(encoding="utf-8")
    assert text.count(line) == 1
    becomes, fails, gains = MUTATIONS[line]
    changed = tmp_path / "changed.yaml"
    changed.write_text(text.replace(line, becomes), encoding="utf-8")

    assert claw("test", EXAMPLE / "seeds.yaml", "--config", changed).exit_code == (5 if fails else 0)
    assert claw("diff", EXAMPLE / "config.yaml", changed).exit_code == (1 if gains else 0)


# --- claw policy test


def test_what_is_not_as_expected_is_reported_with_the_rule_that_decides(home: Path, tmp_path: Path) -> None:
    (home / "config.yaml").write_text("tools:\n  deny: [exec]\n")
    file = tmp_path / "scenarios.yaml"
    file.write_text("scenarios:\n  - {name: shell, has: [bash], lacks: [read]}\n  - {lacks: [exec]}\n")

    lines = claw("test", file).stdout.splitlines()

    assert [line.split()[:2] for line in lines] == [
        ["scenario", "tool"],
        ["shell", "exec"],
        ["shell", "read"],
    ]
    assert "tools.deny denies it (exec)" in lines[1] and "config.yaml:2" in lines[1]
    assert "nothing removes it" in lines[2]
    answer = document("test", file)
    assert (answer["code"], answer["passed"]) == (5, False)
    assert [len(one["differences"]) for one in answer["scenarios"]] == [2, 0]
    assert (
        answer["scenarios"][0]["differences"][0]["edits"][0]["command"] == "claw config unset 'tools.deny[0]'"
    )


def test_a_tool_that_nobody_knows_is_never_as_expected(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "scenarios.json"
    file.write_text(json.dumps({"scenarios": [{"lacks": ["exce", "group:ui", "group:plugins"]}]}))
    answer = document("test", file)
    assert answer["code"] == 5
    assert [one["name"] for one in answer["scenarios"][0]["differences"]] == ["exce"]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("scenarios:\n  - {agent: default, has: [read], lack: [exec]}\n", 3, ("yaml:2", "lack", "lacks")),
        (
            "scenarios:\n  - has: [read]\n  - agent: default\n",
            3,
            ("yaml:3", "scenarios[1]", "expects nothing"),
        ),
        ("scenarios: []\n", 3, ("scenarios", "contains no scenario")),
        ("scenarios:\n  - {agent: nobody, has: [read]}\n", 2, ("nobody",)),
        ("scenarios:\n  - {depth: -1, has: [read]}\n", 3, ("scenarios[0].depth", "at least 0")),
    ],
)
def test_a_file_of_scenarios_that_is_wrong_is_reported_with_its_place(
    text: str, code: int, words: tuple[str, ...], home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "scenarios.yaml"
    file.write_text(text)
    why = claw("test", file).exception
    assert getattr(why, "exit_code", None) == code
    assert all(word in str(why) for word in words), why


# --- claw policy diff


def test_runs_that_change_alike_are_reported_once(home: Path, tmp_path: Path) -> None:
    (home / "config.yaml").write_text("tools:\n  deny: [exec]\n")
    new = tmp_path / "new.yaml"
    new.write_text("tools:\n  deny: [ls]\n")

    answer = claw("diff", "-", new)

    assert answer.exit_code == 1
    assert answer.stdout.splitlines()[1].split("  ")[0] == "default, owner, terminal and 11 more"
    assert "exec (tools-std)" in answer.stdout and "ls (tools-std)" in answer.stdout
    assert claw("diff", new, new).stdout == ""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"allow": ["read"]}, {"allow": ["read"], "profile": "full"}),
        ({}, {"byProvider": {"openai": {"deny": ["exec"]}}}),
        ({}, {"subagents": {"tools": {"deny": ["exec"]}}}),
    ],
)
def test_nothing_is_gained_by_a_rule_that_only_takes_away(
    old: dict[str, Any], new: dict[str, Any], home: Path, tmp_path: Path
) -> None:
    files = [written(tmp_path / f"{name}.json", tools=tree) for name, tree in (("old", old), ("new", new))]
    assert claw("diff", *files).exit_code == 0
    assert claw("diff", *reversed(files)).exit_code == (1 if document("diff", *files)["changed"] else 0)


@pytest.mark.parametrize(
    "group",
    [
        {"-7": {"tools": {"deny": ["exec"]}}},
        {"*": {"tools": {"deny": ["exec"]}}},
        {"-7": {}, "*": {"toolsBySender": {"id:42": {"deny": ["exec"]}}}},
        {"-7": {"toolsBySender": {"username:@Bob": {"deny": ["exec"]}}}},
    ],
)
def test_a_group_or_a_person_who_is_freed_is_noticed(
    group: dict[str, Any], home: Path, tmp_path: Path
) -> None:
    old = written(tmp_path / "old.json", channels={"telegram": {"groups": group}})
    new = written(tmp_path / "new.json", channels={"telegram": {}})
    answer = document("diff", old, new)
    assert answer["code"] == 1
    assert {tuple(one["gained"]) for one in answer["changed"]} == {("exec",)}
    assert {one["scenario"]["channel"] for one in answer["changed"]} == {"telegram"}


def test_a_new_agent_gains_all_that_it_has_and_one_that_goes_loses_it(home: Path, tmp_path: Path) -> None:
    old = written(tmp_path / "old.json", agents={"list": [{"id": "one"}]})
    new = written(tmp_path / "new.json", agents={"list": [{"id": "one"}, {"id": "two"}]})
    assert {one["scenario"]["agent"] for one in document("diff", old, new)["changed"]} == {"two"}
    assert (document("diff", old, new)["code"], document("diff", new, old)["code"]) == (1, 0)


@pytest.mark.usefixtures("neighbours")
def test_a_plugin_that_is_enabled_and_a_name_handed_over_are_gains(home: Path, tmp_path: Path) -> None:
    off = written(tmp_path / "off.json", plugins={"entries": {"acme": {"enabled": False}}})
    on = written(tmp_path / "on.json")
    assert document("diff", off, on)["changed"][0]["gained"] == {"acme_status": "acme"}


def test_only_the_runs_of_a_file_are_compared_when_there_is_one(home: Path, tmp_path: Path) -> None:
    old, new = written(tmp_path / "old.json", tools={"deny": ["exec"]}), written(tmp_path / "new.json")
    runs = written(tmp_path / "runs.json", scenarios=[{"sandbox": True, "name": "boxed"}, {"depth": 1}])
    answer = document("diff", old, new, "--scenarios", runs)
    assert (answer["scenarios"], answer["gains"], answer["code"]) == (2, 2, 1)
    assert answer["changed"][0]["scenario"]["name"] == "boxed"


def written(path: Path, **tree: Any) -> Path:
    path.write_text(json.dumps(tree or {"locale": "en"}), encoding="utf-8")
    return path


# --- claw policy show


def test_show_has_every_gate_and_layer_with_key_line_and_what_it_takes_away(home: Path) -> None:
    (home / "config.yaml").write_text(
        "tools:\n  profile: coding\n  alsoAllow: [message]\n"
        "  byProvider: {openai: {deny: [ls]}}\n"
        "agents:\n  list:\n    - id: coder\n      tools: {deny: [exec]}\n"
        "      model: {primary: anthropic/a, fallbacks: [openai/b]}\n"
    )
    answer = document("show")
    stages = {stage["stage"]: stage for stage in answer["stages"]}

    assert list(stages)[2:11] == [
        *("profile", "providerProfile", "global", "globalProvider", "agent", "agentProvider"),
        *("group", "sandbox", "subagent"),
    ]
    rules = [(rule["kind"], rule["words"], rule["key"], rule["line"]) for rule in stages["profile"]["rules"]]
    assert rules == [
        ("profile", ["coding"], "tools.profile", 2),
        ("alsoAllow", ["message"], "tools.alsoAllow", 3),
    ]
    assert stages["profile"]["takes"] == ["memory_search", "memory_get", "session_status"]
    [rule] = stages["globalProvider"]["rules"]
    assert (rule["model"], rule["line"], stages["globalProvider"]["takes"]) == ("openai/b", 4, ["ls"])
    [rule] = stages["agent"]["rules"]
    assert (rule["key"], rule["whose"], rule["line"]) == ("agents.list[0].tools.deny", "coder", 8)
    assert stages["sandbox"]["rules"] == []
    lines = claw("show").stdout
    assert "agents.list[0].tools.deny (coder), line 8" in lines and "no rule" in lines


@pytest.mark.usefixtures("neighbours")
def test_show_distinguishes_an_opt_in_from_a_restriction_and_our_own_lists_from_those_of_the_file(
    home: Path,
) -> None:
    (home / "config.yaml").write_text("tools:\n  allow: [acme_restart]\n")
    lines = claw("show", "--sandbox", "--depth", "1").stdout.splitlines()
    [line] = [line for line in lines if line.startswith("global ")]
    assert "enables, restricts nothing" in line
    assert all("claw's built-in list" in line for line in lines if line.startswith(("sandbox", "subagent")))


# --- the same rulings as everywhere, and nothing left behind


@pytest.mark.usefixtures("neighbours")
def test_the_manifests_alone_say_what_a_running_gateway_says(home: Path) -> None:
    shutil.copy(EXAMPLE / "config.yaml", home)
    setup = load_setup()
    here = App(setup)
    for agent in setup.config.agent_ids:
        asked = Scenario(agent=agent)
        assert judge_scenario(asked, setup) == judge_scenario(asked, here.runtime)


def test_no_home_is_made_and_no_database(home: Path, tmp_path: Path) -> None:
    home.rmdir()
    config = written(tmp_path / "config.json", tools={"deny": ["exec"]})
    runs = written(tmp_path / "runs.json", scenarios=[{"lacks": ["exec"]}])
    codes = [
        claw(*words).exit_code
        for words in (("show",), ("test", runs, "--config", config), ("diff", config, "-"))
    ]
    assert codes == [0, 0, 1]
    assert not home.exists()


def test_a_plugin_whose_tools_no_manifest_lists_is_named(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / "silent").mkdir(parents=True)
    (site / "silent" / "__init__.py").write_text("raise SystemExit('imported')\n")
    installed(site, "silent", "silent")
    monkeypatch.syspath_prepend(site)
    assert "plugin silent has no manifest" in claw("show").stderr
