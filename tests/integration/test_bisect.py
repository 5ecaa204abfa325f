"""``claw plugins bisect``: the plugin that makes a command fail is found in few runs, and no file of the user changes."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from claw_admin.doctor.bisect import find_culprit
from third_party import Machine, installed, plugin_code

PLUGINS = [f"p{number:02}" for number in range(64)]


class Command:
    """A command that fails when a plugin is among those enabled."""

    def __init__(self, *culprits: str, always: bool = False) -> None:
        self.culprits, self.always, self.runs = set(culprits), always, 0

    def fails(self, enabled: Sequence[str]) -> bool:
        self.runs += 1
        return self.always or (bool(self.culprits) and self.culprits <= set(enabled))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 33, 64])
def test_any_one_is_found_with_one_run_more_than_halvings(count):
    for culprit in PLUGINS[:count]:
        command = Command(culprit)
        assert find_culprit(PLUGINS[:count], command.fails) == culprit
        assert command.runs <= max(2, math.ceil(math.log2(count)) + 1)


@pytest.mark.parametrize(
    "command",
    [Command(), Command(always=True), Command("p01", "p60")],
    ids=["none", "always", "two together"],
)
@pytest.mark.parametrize("count", [1, 2, 64])
def test_no_plugin_is_blamed_for_what_no_plugin_does_alone(command, count):
    assert find_culprit(PLUGINS[:count], command.fails) == ""


def test_without_third_party_plugins_nothing_is_run():
    command = Command(always=True)

    assert find_culprit([], command.fails) == ""
    assert command.runs == 0


def files(machine: Machine) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in machine.home.rglob("*") if path.is_file()}


def test_the_command_finds_it_and_leaves_the_home_as_it_is(tmp_path):
    site = tmp_path / "site"
    for id in ("one", "two", "three"):
        installed(site, id, plugin_code(f"{id}_do"))
    installed(site, "bomb", "import os\nos._exit(7)")
    machine = Machine(tmp_path / "machine", [site])
    machine.configured("# mine\nlocale: en\ntools: {alsoAllow: [one_do]}\n")
    before = files(machine)

    said = machine.claw("plugins", "bisect", "--json", "--", "claw", "tools", "list")

    assert said.code == 1, said
    document = json.loads(said.out)
    assert (document["plugin"], document["suspects"]) == ("bomb", ["bomb", "one", "three", "two"])
    assert document["runs"] <= 3
    after = files(machine)
    assert {path: after[path] for path in before} == before
    assert {Path(path).parts[len(machine.home.parts)] for path in after.keys() - before.keys()} <= {"cache"}


def test_a_command_that_does_not_fail_has_no_culprit(tmp_path):
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "one", plugin_code("one_do"))])
    machine.configured("locale: en\n")

    said = machine.claw("plugins", "bisect", "--", "claw", "tools", "list")

    assert said.code == 0, said
    assert "the command does not fail with every plugin enabled" in said.out
