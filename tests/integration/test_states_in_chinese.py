"""In Chinese, the tables say states, kinds and stages in Chinese; documents (``--json``) keep the English words."""

import json
import re
from pathlib import Path

import pytest
from claw.contracts.diagnostics import BLOCKED, DISABLED, IDLE, INCOMPATIBLE, LOADED, QUARANTINED, UNTRIED
from claw.host.manifest import KINDS
from integration.surfaces import (
    CHANNELS,
    DOCTOR,
    LISTED,
    STATUS,
    STATUS_OF_CHANNELS,
    TOOLS,
    Forked,
    World,
    machine_in,
    server,  # noqa: F401 - a fixture
)
from third_party import plugin_code

STATES = (LOADED, IDLE, DISABLED, BLOCKED, QUARANTINED, INCOMPATIBLE)
STAGES = ("find", "import", "register", "config", "run", "stop", "integrity")
PLUGINS = ("good", "rests", "off", "denied", "bad", "old")  # in the order of STATES
TOOL = {"kinds": ["tool"], "tools": [{"name": "one_do", "description": "Do."}]}
OPTIONAL = {"kinds": ["tool"], "tools": [{"name": "two_do", "description": "Do.", "optional": True}]}
WORLD = World(
    cells={},
    plugins={
        "good": (plugin_code("one_do"), TOOL),
        "rests": (plugin_code("two_do", options="optional=True"), OPTIONAL),
        "off": (plugin_code("three_do"), {"kinds": ["tool"]}),
        "denied": (plugin_code("four_do"), {"kinds": ["tool"]}),
        "bad": ("1 / 0", {**TOOL, "tools": [{"name": "five_do", "description": "Do."}]}),
        "old": (plugin_code("six_do"), {"kinds": ["tool"], "api": ">=9,<10"}),
    },
    config={
        "locale": "zh",
        "plugins": {"deny": ["denied"], "entries": {"off": {"enabled": False}}},
        "mcpServers": {"quiet": {"command": "true", "disabled": True}, "far": {"command": "true"}},
        "channels": {"telegram": {"enabled": False}, "slack": {"enabled": True}},
    },
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory, server: Forked) -> Forked:  # noqa: F811
    machine = machine_in(WORLD, tmp_path_factory.mktemp("states"), server)
    machine.claw("plugins", "doctor")  # loads each plugin once: until then its state is untried
    return machine


@pytest.mark.parametrize(
    "surface",
    [
        LISTED, STATUS, DOCTOR, TOOLS, CHANNELS, STATUS_OF_CHANNELS, "plugins doctor", "plugins doctor bad",
        "tools explain five_do", *(f"plugins info {id}" for id in PLUGINS),
    ],
)  # fmt: skip
def test_no_surface_says_a_state_or_a_stage_in_english(machine: Forked, surface: str) -> None:
    said = machine.claw(*surface.split())

    english = "|".join((*STATES, *STAGES, "absent"))
    names = r"(?m)^[\w-]+(?= )|claw [a-z]+ .*|\S+\.enabled\b.*|/\S+"  # of tools and plugins; commands, keys and paths
    texts = re.sub(names, "", said.out + said.err)
    assert re.findall(rf"(?<![\w.-])({english})(?![\w.-])", texts) == []


def test_the_list_says_states_and_kinds_in_chinese(machine: Forked) -> None:
    said = machine.claw("plugins", "list").out

    cells = {row[0]: row for row in (re.split(r" {2,}", line) for line in said.splitlines())}
    assert [cells[id][2] for id in PLUGINS] == ["已加载", "空闲", "已停用", "已阻止", "已隔离", "不兼容"]
    assert cells["tools-std"][3] == "工具"
    assert not set(KINDS) & {word for row in cells.values() for word in re.split(r"[,、]", row[3])}


def test_the_details_of_a_plugin_have_chinese_labels(machine: Forked) -> None:
    said = machine.claw("plugins", "info", "bad").out

    assert {"状态：已隔离", "环节：导入", "种类：工具"} <= set(said.splitlines())
    labels = [line.partition("：")[0] for line in said.splitlines()]
    assert [label for label in labels if label.isascii()] == []


def test_the_documents_keep_the_english_words(machine: Forked) -> None:
    listed = json.loads(machine.claw("plugins", "list", "--json").out)["plugins"]
    found = {one["id"]: one for one in listed}

    assert [found[id]["state"] for id in PLUGINS] == list(STATES)
    assert found["bad"]["stage"] == "import" and found["bad"]["kinds"] == ["tool"]
    assert LOADED in json.loads(machine.claw("status", "--json").out)["plugins"]


def test_the_states_of_mcp_servers_are_in_chinese_and_those_of_the_document_in_english(
    machine: Forked,
) -> None:
    shown = machine.claw("mcp", "list").out
    data = json.loads(machine.claw("mcp", "list", "--json").out)["servers"]

    assert "quiet  已停用  true" in shown and "far  尚未连接  true" in shown
    assert [one["state"] for one in data] == ["disabled", "not reached yet"]


def test_every_state_kind_and_stage_has_its_chinese(machine: Forked) -> None:
    from claw import i18n

    chinese = i18n.translations("zh")
    assert [word for word in (*STATES, UNTRIED, *KINDS, *STAGES) if word not in chinese] == []


def test_in_english_the_details_name_the_fix(tmp_path: Path, server: Forked) -> None:  # noqa: F811
    english = machine_in(World({}, {"old": WORLD.plugins["old"]}), tmp_path, server)

    labels = [line.partition(": ")[0] for line in english.claw("plugins", "info", "old").out.splitlines()]

    assert {"id", "state", "why", "stage", "fix"} <= set(labels) and "mend" not in labels
