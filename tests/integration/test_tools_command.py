"""``claw tools``: what is printed is what a turn would get, and the exit code is an answer too."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from claw.app import App, load_setup
from claw.cli.main import app
from claw.runtime import terminal_message
from claw_admin.policy.judged_run import judge_scenario
from claw_config_sdk import Scenario
from typer.testing import CliRunner, Result


def claw(*words: str) -> Result:
    return CliRunner().invoke(app, ["tools", *words])


def configured(home: Path, **tree: Any) -> None:
    (home / "config.json").write_text(json.dumps(tree), encoding="utf-8")


def test_a_list_names_tool_plugin_state_price_and_reason_one_line_each(home: Path) -> None:
    configured(home, tools={"deny": ["exec"]})
    lines = claw("list", "--all").stdout.splitlines()
    assert lines[0].split() == ["tool", "plugin", "state", "tokens", "why"]
    [warned] = [line for line in lines if line.startswith("exec ")]
    assert "tools-std" in warned and "tools.deny denies it (exec)" in warned
    [read] = [line.split() for line in lines if line.startswith("read ")]
    assert read[1:3] == ["tools-std", "available"] and int(read[3]) > 0


def test_a_plain_list_has_only_what_the_run_has_and_says_that_there_is_more(home: Path) -> None:
    configured(home, tools={"profile": "minimal"})
    answer = claw("list")
    assert [line.split()[0] for line in answer.stdout.splitlines()[1:]] == [
        "read",
        "write",
        "edit",
        "ls",
        "grep",
        "find",
    ]
    assert "claw tools list --all" in answer.stderr


def test_the_list_is_what_a_turn_of_that_agent_gets(home: Path) -> None:
    entry = {
        "id": "coder",
        "tools": {"profile": "coding", "deny": ["exec"]},
        "model": {"primary": "offline/rules"},
    }
    configured(home, agents={"list": [entry]}, tools={"byProvider": {"offline": {"deny": ["ls"]}}})
    harness = App(load_setup())
    context = asyncio.run(harness.resolve_turn(terminal_message("")))
    assert judge_scenario(Scenario(), harness.runtime) == context.judgement
    listed = json.loads(claw("list", "--json").stdout)
    assert listed["schemaVersion"] == 1
    assert [tool["name"] for tool in listed["tools"]] == list(context.tools)


def test_explain_leaves_with_0_for_an_available_tool_and_1_for_any_other(home: Path) -> None:
    configured(home, tools={"deny": ["exec"]})
    assert [claw("explain", name).exit_code for name in ("read", "exec", "sessions_send", "no_such")] == [
        0,
        1,
        1,
        1,
    ]


def test_explain_prints_rule_place_and_the_command_that_fixes(home: Path) -> None:
    (home / "config.yaml").write_text("tools:\n  deny:\n    - exec\n")
    text = claw("explain", "bash").stdout
    assert "exec: not available" in text
    assert f"tools.deny[0]  {home}/config.yaml:3" in text
    assert "claw config unset 'tools.deny[0]'" in text
    verdicts = [line.split()[1] for line in text.splitlines() if line.startswith("    ")]
    assert (verdicts.count("in"), verdicts.count("out")) == (14, 1)


def test_explain_knows_the_flags_of_the_run(home: Path) -> None:
    configured(
        home, channels={"telegram": {"groups": {"-1": {"tools": {"deny": ["ls"]}}}}}, owners=["telegram:7"]
    )
    where = ("--channel", "telegram", "--sender", "7")
    assert claw("explain", "ls", *where).exit_code == 0
    assert claw("explain", "ls", *where, "--group", "-1").exit_code == 1
    assert claw("explain", "web_search", "--sandbox", "--depth", "1").exit_code == 1
    body = json.loads(claw("explain", "ls", *where, "--group", "-1", "--json").stdout)
    assert (body["schemaVersion"], body["stage"], body["run"]["owner"]) == (1, "group", True)
    assert body["edits"][0]["command"] == "claw config unset 'channels.telegram.groups.-1.tools.deny[0]'"


def test_a_model_that_is_named_is_judged_alone(home: Path) -> None:
    model = {"primary": "offline/rules", "fallbacks": ["openai/gpt-4o"]}
    configured(
        home, agents={"defaults": {"model": model}}, tools={"byProvider": {"openai": {"deny": ["ls"]}}}
    )
    assert "because of fallback openai/gpt-4o" in claw("explain", "ls").stdout
    assert claw("explain", "ls", "--model", "offline/rules").exit_code == 0


def test_words_that_name_nothing_are_reported_on_stderr_and_absent_core_tools_too(home: Path) -> None:
    configured(home, tools={"profile": "coding", "alsoAllow": ["sessions_send", "raed"]})
    told = claw("list").stderr
    assert "sessions_send is not available" in told
    assert "there is no tool, plugin or group raed" in told and "Did you mean read?" in told


@pytest.mark.parametrize(("variable", "shown"), [("PWD", True), ("OLDPWD", True), ("DB_PWD", False)])
def test_the_folder_of_the_shell_is_no_secret_though_its_variable_is_called_like_one(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, shown: bool
) -> None:
    configured(home, tools={"alsoAllow": ["raed"]})
    monkeypatch.setenv(variable, str(home))
    assert (str(home / "config.json") in claw("list").stderr) is shown


def test_a_call_goes_through_the_gate_of_a_turn(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hello.txt").write_text("hello")
    monkeypatch.chdir(tmp_path)
    answer = claw("call", "read", "--args", '{"file_path": "hello.txt"}')
    assert answer.exit_code == 0 and "hello" in answer.stdout
    wrong = claw("call", "read", "--args", "{}")
    assert wrong.exit_code == 1 and "file_path" in wrong.stderr
    configured(home, tools={"deny": ["read"]})
    refused = claw("call", "read", "--args", '{"file_path": "hello.txt"}', "--json")
    assert refused.exit_code == 1 and "tools.deny" in json.loads(refused.stdout)["text"]


def test_arguments_that_are_no_json_object_are_refused_with_the_form_to_write(home: Path) -> None:
    for text in ("{", "[]"):
        assert '--args \'{"key": "value"}\'' in str(claw("call", "read", "--args", text).exception)


def test_a_variable_for_commands_reaches_an_agent_with_tools_of_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_MODE", "dark")
    agents = {"list": [{"id": "a", "tools": {"deny": ["ls"]}}]}
    configured(home, tools={"exec": {"mode": "full", "envAllow": ["ACME_MODE"]}}, agents=agents)
    assert "mode=dark" in claw("call", "exec", "--args", '{"command": "echo mode=$ACME_MODE"}').stdout
