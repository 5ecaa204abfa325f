"""Each command prints one JSON document with ``--json``; the exceptions are listed with their reasons."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from claw.cli.main import app
from third_party import Machine

OTHER_OUTPUT = {
    "completion": "a shell script",
    "config schema": "a JSON Schema",
    "gateway run": "a log, as JSON lines when config says so",
    "help": "the help of a command",
    "mcp serve": "messages of the Model Context Protocol",
}
"""Commands without ``--json`` → what they print."""


def leaves(command: Any, path: tuple[str, ...], parent: Any = None) -> Iterator[tuple[str, Any]]:
    """Yield every command that is no group, with its words."""
    command = command.load() if hasattr(command, "load") else command
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    context = typer.Context(command, info_name=" ".join(path), parent=parent)
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*path, name), context)


def test_every_command_has_json_or_a_reason() -> None:
    found = dict(leaves(typer.main.get_command(app), ()))
    assert len(found) > 70
    without = {
        name for name, command in found.items() if not any("--json" in one.opts for one in command.params)
    }
    assert without == set(OTHER_OUTPUT)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("json"))
    machine.home.chmod(0o700)
    assert machine.claw("chat", "hello").code == 0
    return machine


CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("init", "init", {"configWritten": True}),
    ("init", "init", {"configWritten": False, "files": []}),
    ("config set locale en", "config-changed", {"key": "locale", "changed": False, "warnings": []}),
    ("config set locale -x", "error", {"exitCode": 3}),
    ("config set agents.defaults.model offline/rules", "config-changed", {"changed": True}),
    ("config unset agents.defaults.model", "config-changed", {"key": "agents.defaults.model", "changed": True}),
    ("models use offline/rules", "model-selected", {"model": "offline/rules", "ready": True, "why": ""}),
    ("auth add openai --name work", "key-added", {"provider": "openai", "name": "work", "inOrder": True}),
    ("auth order openai work", "key-order", {"provider": "openai", "order": ["work"]}),
    ("auth remove openai work", "key-removed", {"provider": "openai", "name": "work"}),
    ("plugins disable skills", "plugin-state", {"plugin": "skills", "state": "disabled"}),
    ("plugins enable skills", "plugin-state", {"plugin": "skills"}),
    ("plugins new chime", "plugin-project", {"folder": "claw-plugin-chime", "plugin": "chime", "template": "tool"}),
    ("plugins build claw-plugin-chime", "plugin-manifest", {"changes": [], "written": False}),
    ("sessions export main", "session-export", {"key": "agent:default:main"}),
    ("sessions export main --out talk.md", "session-exported", {"file": "talk.md", "form": "md"}),
    ("gateway stop", "gateway-stopped", {"pid": None, "killed": False}),
    ("gateway install --print", "gateway-service", {"written": False}),
    ("approvals revoke nothing", "error", {"exitCode": 2, "problem": "there is no permanent approval nothing"}),
    ("pairing forget telegram:7", "error", {"exitCode": 2, "problem": "telegram:7 is not paired"}),
    ("mcp refresh", "mcp-refreshed", {"servers": []}),
    ("mcp accept nothing", "error", {"exitCode": 2}),
    ("mcp add docs --url https://docs.example --no-connect", "mcp-added", {"server": "docs"}),
    ("mcp remove docs", "mcp-removed", {"server": "docs"}),
    ("plugins search acme echo", "plugin-search", {}),
    ("plugins index index.json claw-telegram", "plugin-index-written", {"plugins": 1, "key": ""}),
]  # fmt: skip


def test_a_script_reads_what_each_command_did(machine: Machine) -> None:
    for words, kind, facts in CHANGES:
        said = machine.claw(*words.split(), "--json", stdin="sk-a-key-for-this-test\n")
        document = json.loads(said.out)
        assert (document["schemaVersion"], document["kind"]) == (1, kind), words
        assert document | facts == document, words
        assert said.code == facts.get("exitCode", 0), words


def test_a_gateway_is_started_and_stopped_by_a_script(machine: Machine) -> None:
    machine.configured("channels: {http: {port: 0, token: t-0123456789abcdef}}\n")
    started = json.loads(machine.claw("gateway", "start", "--json").out)
    try:
        assert started["kind"] == "gateway-started"
        os.kill(started["pid"], 0)
        again = json.loads(machine.claw("gateway", "start", "--json").out)
        assert (again["alreadyRunning"], again["pid"]) == (True, started["pid"])
        restarted = json.loads(machine.claw("gateway", "restart", "--json").out)
        assert restarted["kind"] == "gateway-started"
        assert restarted["pid"] != restarted["stoppedPid"] == started["pid"]
    finally:
        stopped = json.loads(machine.claw("gateway", "stop", "--now", "--json").out)
    assert (stopped["pid"], stopped["killed"]) == (restarted["pid"], True)
    assert not Path(f"/proc/{restarted['pid']}/exe").exists()
