"""Tests of the tools, and of the manifest against the code."""

import json
from importlib.resources import files
from types import SimpleNamespace

import claw_plugin_acme
import pytest

TOOLS = {tool.name: tool for tool in claw_plugin_acme.register_tools(None)}
MANIFEST = json.loads(files(claw_plugin_acme).joinpath("claw-plugin.json").read_text())


@pytest.mark.parametrize("line", MANIFEST["tools"], ids=lambda line: line["name"])
def test_the_manifest_says_what_the_code_does(line):
    tool = TOOLS[line["name"]]
    assert line["description"] == tool.description
    assert line["parameters"] == tool.parameters
    assert line.get("optional", False) == tool.optional
    assert line.get("effects", "none") == tool.effects


def test_the_manifest_leaves_no_tool_out():
    assert [line["name"] for line in MANIFEST["tools"]] == list(TOOLS)


@pytest.mark.parametrize(("verbose", "says"), [(False, "db-1: fine"), (True, "db-1: fine, 3 jobs waiting")])
async def test_a_machine_reports_how_it_is(verbose, says):
    assert await TOOLS["acme_status"].run({"name": "db-1", "verbose": verbose}, None) == says


async def test_a_restart_says_what_it_does_while_it_does_it():
    told = []
    answer = await TOOLS["acme_restart"].run({"name": "db-1"}, SimpleNamespace(progress=told.append))
    assert (told, answer) == (["restarting db-1"], "db-1 is starting again")
