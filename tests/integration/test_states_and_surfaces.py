"""States of the world × the surfaces that speak of them: no cell calls something loaded, available or sound that is not.

Each state is a home of its own; the commands run in it one after the other, as people would type them.
"""

from typing import Any

import pytest
from claw.host.health import HUNG, LoadFailure, PluginHealth
from integration.surfaces import (
    CHANNELS,
    DOCTOR,
    DOCTOR_OF_PLUGINS,
    EXPLAIN,
    INFO,
    LISTED,
    STATUS,
    STATUS_OF_CHANNELS,
    TOOLS,
    VALIDATE,
    Cell,
    Forked,
    World,
    cell,
    machine_in,
    may,
    server,  # noqa: F401 - a fixture
    wrong_cells,
)
from third_party import plugin_code

TOOL_HOOK = "from claw import hookimpl\n@hookimpl\ndef register_tools(config):\n    "
BOOM = "raise RuntimeError('no luck')"
DECLARED: dict[str, Any] = {"kinds": ["tool"], "tools": [{"name": "bad_do", "description": "Do."}]}
FORMS = """
from claw import Tool, hookimpl
async def run(arguments, context):
    return "done"
form = Tool("bad_do", "Do less.", {"type": "object", "properties": {}}, run)
@hookimpl
def register_tools(config):
    parameters = {"type": "object", "properties": {}}
    return [Tool("bad_do", "Do.", parameters, run, effects="once", without={'other': form})]
"""
PICKY = """
from claw import ChannelConfig, Section, hookimpl
class Wanted(Section):
    number: int = 1
@hookimpl
def register_tools(config):
    config.plugin(Wanted)
    return []
"""
RADIO = """
from claw import ChannelConfig, hookimpl
class Wanted(ChannelConfig):
    number: int = 1
@hookimpl
def register_channels(config):
    config.channel("radio", Wanted)
    return []
"""


def faulty(stage: str, cause: str, **other: Cell) -> dict[str, Cell]:
    """The cells of a plugin that does not load."""
    cells = {
        LISTED: cell(rf"^bad .* quarantined\b.*{cause}"),
        INFO: cell("^state: quarantined$", f"^stage: {stage}$", f"^why: .*{cause}"),
        STATUS: cell(r"plugins: .*\b1 quarantined", f"plugin bad was disabled at {stage}: .*{cause}"),
        DOCTOR: cell(f"problem: (bad: )?.*{cause}", code=1),
        EXPLAIN: cell("bad_do: not available", r"\bbad\b", code=1),
    }
    return cells | {name.replace("_", " "): what for name, what in other.items()}


def partly(problem: str) -> dict[str, Cell]:
    """The cells of a plugin that loads, and of which a part cannot be used."""
    return {
        LISTED: may(f"^bad .*{problem}"),
        INFO: may(problem),
        STATUS: may(f"warning: plugin bad: .*{problem}"),
        DOCTOR: cell(f"problem: bad: .*{problem}", code=1),
    }


def hung(machine: Forked) -> None:
    """A process before this one waited for the plugin, and recorded that it hangs."""
    why = "it did not come back within 10 s"
    PluginHealth(machine.home / "plugins").record(LoadFailure("bad", HUNG, "register", why))


def harmless(code: str) -> World:
    """A plugin that takes from every other what Python needs, which claw undoes: each of them loads."""
    cells = {
        LISTED: Cell((r"^bad .* loaded",), ("quarantined",)),
        DOCTOR: may("no problems found", code=0),
        STATUS: Cell((), ("quarantined",)),
        "tools list": may(r"plugin bad changed .*; claw has undone it"),
    }
    return World(cells, {"bad": (plugin_code("bad_do") + f"\nimport json, sys\n{code}", None)})


UNUSED = "stranger_memory is not used: claw-[a-z-]+ provides a plugin with this id"
NOTHING_LISTED = "its manifest lists nothing that register_tools provides"
BROKEN = "RuntimeError: broken by another"
BREAKABLE = (
    "import sys\nif hasattr(sys, 'broken'):\n    raise RuntimeError('broken by another')\n"
    + plugin_code("bad_do")
)
OF_SETTING = {"plugins": {"entries": {"bad": {"config": {"number": "x"}}}}}
NOT_A_NUMBER = "must be a whole number"
OF_NUMBER = f"plugins.entries.bad.config.number: {NOT_A_NUMBER}"

PLUGINS: dict[str, World] = {
    "fails at import": World(
        faulty("import", r"RuntimeError: no luck \(stranger_bad/__init__.py:1\)"), {"bad": (BOOM, None)}
    ),
    "fails at import, at its first call": World(
        faulty("import", "RuntimeError: no luck"), {"bad": (BOOM, DECLARED)}, before=("tools call bad_do",)
    ),
    "fails at import, and explain meets it first": World(
        {EXPLAIN: cell("not available", "no luck", code=1), LISTED: cell("quarantined.*no luck")},
        {"bad": (BOOM, DECLARED)},
        before=(),
    ),
    "fails at import, and info meets it first": World(
        {INFO: cell("^state: quarantined$", "no luck")}, {"bad": (BOOM, DECLARED)}, before=()
    ),
    "fails at import, and doctor meets it first": World(
        {DOCTOR: cell("no luck", code=1), STATUS: cell("1 quarantined")}, {"bad": (BOOM, DECLARED)}, before=()
    ),
    "fails at register": World(
        faulty("register", r"ZeroDivisionError: division by zero \(stranger_bad/__init__.py:4\)"),
        {"bad": (TOOL_HOOK + "return 1 / 0", None)},
    ),
    "answers a hook with a text": World(
        faulty("register", "register_tools answered with str"), {"bad": (TOOL_HOOK + "return 'x'", None)}
    ),
    "its tool has another form in its code than in its manifest": World(
        partly("tool bad_do: manifest and code differ in without"),
        {"bad": (FORMS, DECLARED)},
        before=("tools call bad_do",),
    ),
    "its tool has other parameters and other effects in its code than in its manifest": World(
        partly("tool bad_do: manifest and code differ in parameters, effects"),
        {
            "bad": (
                FORMS.replace("{'other': form}", "{}")
                .replace('"properties": {}}', '"properties": {"a": {}}}')
                .replace("once", "none"),
                DECLARED,
            )
        },
        before=("tools call bad_do",),
    ),
    "its settings are refused": World(
        faulty("config", OF_NUMBER) | {VALIDATE: may(OF_NUMBER), STATUS_OF_CHANNELS: cell(OF_NUMBER)},
        {"bad": (PICKY, None)},
        OF_SETTING,
    ),
    "its settings are refused, at its first call": World(
        faulty("config", OF_NUMBER) | {VALIDATE: may(OF_NUMBER), STATUS_OF_CHANNELS: cell(OF_NUMBER)},
        {"bad": (PICKY, DECLARED)},
        OF_SETTING,
        before=("tools call bad_do",),
    ),
    "the settings of its channel are refused": World(
        {
            LISTED: cell(f"quarantined.*channels.radio.number: {NOT_A_NUMBER}"),
            STATUS: cell("1 quarantined", NOT_A_NUMBER),
            DOCTOR: cell(NOT_A_NUMBER, code=1),
            VALIDATE: may(f"channels.radio.number: {NOT_A_NUMBER}"),
            CHANNELS: cell(f"radio .* quarantined .*{NOT_A_NUMBER}"),
        },
        {"bad": (RADIO, {"kinds": ["channel"], "channels": ["radio"]})},
        {"channels": {"radio": {"number": "x"}}},
    ),
    "hangs": World(
        faulty("register", "it did not come back within 10 s"),
        {"bad": (plugin_code("bad_do"), None)},
        prepare=hung,
    ),
    "takes the import path": harmless("sys.path.clear()"),
    "takes the importers": harmless("sys.meta_path.clear()"),
    "takes a function of Python": harmless("json.dumps = None"),
    "kills the process": World(
        faulty("import", "claw crashed 2 times while loading it"),
        {"bad": ("import os\nos._exit(9)", None)},
        before=("tools list", "tools list"),
    ),
    "provides nothing": World(faulty("register", "implements no hook"), {"bad": ("x = 1", None)}),
    "its hook is misspelt": World(
        faulty("register", "no hook register_tool; the nearest one is register_tools"),
        {"bad": (plugin_code("bad_do").replace("register_tools", "register_tool"), None)},
    ),
    "its hook is not marked": World(
        faulty("register", "register_tools is not marked with @hookimpl"),
        {"bad": (plugin_code("bad_do").replace("@hookimpl\n", ""), None)},
    ),
    "one of its hooks is misspelt": World(
        {**partly("the nearest one is register_prompt_sections"), EXPLAIN: may("bad_do: available", code=0)},
        {
            "bad": (
                plugin_code("bad_do") + "@hookimpl\ndef register_prompt_section(config):\n    return []\n",
                None,
            )
        },
    ),
    "two of its hooks are misspelt": World(
        {
            **partly("the nearest one is register_prompt_sections.*the nearest one is register_filters"),
            DOCTOR: cell(
                "problem: bad: .*the nearest one is register_prompt_sections",
                "problem: bad: .*the nearest one is register_filters",
                "2 problems",
                code=1,
            ),
        },
        {
            "bad": (
                plugin_code("bad_do")
                + "@hookimpl\ndef register_prompt_section(config):\n    return []\n"
                + "@hookimpl\ndef register_filter(config):\n    return []\n",
                None,
            )
        },
    ),
    "its code lacks a tool of its manifest": World(
        {
            **partly("the tool bad_do, which its code does not"),
            EXPLAIN: cell("not available", code=1),
            TOOLS: cell("^bad_do .*not available .*its code does not"),
        },
        {"bad": (TOOL_HOOK + "return []", DECLARED)},
        before=("tools call bad_do",),
    ),
    "its manifest lists nothing": World(
        {
            LISTED: may("^bad .* idle .*its manifest lists nothing that claw uses"),
            "plugins check bad": cell("not as in the code: ", code=1),
            DOCTOR: cell(f"problem: bad: {NOTHING_LISTED}", "1 problem found", code=1),
            "plugins list --json": cell(NOTHING_LISTED),
            INFO: cell("^state: quarantined$", f"^why: {NOTHING_LISTED}"),
            STATUS: cell("1 quarantined", NOTHING_LISTED),
        },
        {"bad": (plugin_code("bad_do"), {})},
    ),
    "another plugin breaks it": World(
        {
            DOCTOR_OF_PLUGINS: cell(f"problem: bad: it loads in a process of its own, .*{BROKEN}", code=1),
            **faulty("import", BROKEN),
        },
        {"aaa": ("import sys\nsys.broken = 1\n" + plugin_code("aaa_do"), None), "bad": (BREAKABLE, None)},
    ),
    "it needs a plugin that is not there": World(
        faulty("find", "it needs plugin nowhere"),
        {"bad": (plugin_code("bad_do"), {**DECLARED, "requires": ["nowhere"]})},
    ),
    "it needs a plugin that fails": World(
        {**faulty("find", "it needs plugin other"), STATUS: cell("2 quarantined", "it needs plugin other")},
        {"bad": (plugin_code("bad_do"), {**DECLARED, "requires": ["other"]}), "other": (BOOM, None)},
    ),
    "its manifest is wrong": World(
        faulty("find", "its manifest is invalid"),
        {"bad": (plugin_code("bad_do"), '{"id": "bad", "kinds": 7}')},
    ),
    "it is made for another claw": World(
        {
            LISTED: cell("incompatible .*it needs plugin API >=9"),
            INFO: cell("^state: incompatible$"),
            STATUS: cell("1 incompatible", "it needs plugin API >=9"),
            DOCTOR: cell("it needs plugin API >=9", code=1),
            EXPLAIN: cell("not available", "not compatible", code=1),
        },
        {"bad": (plugin_code("bad_do"), {**DECLARED, "api": ">=9"})},
    ),
    "it is disabled": World(
        {
            LISTED: cell("disabled .*plugins.entries.bad.enabled is false"),
            INFO: cell("^state: disabled$"),
            STATUS: cell("1 disabled"),
            DOCTOR: may(),
            EXPLAIN: cell("not available", "is disabled", "enabled true", code=1),
        },
        {"bad": (plugin_code("bad_do"), DECLARED)},
        {"plugins": {"entries": {"bad": {"enabled": False}}}},
    ),
    "its tool has the name of a core tool": World(
        {
            LISTED: may("^bad .*tool ls of plugin bad is skipped"),
            INFO: may("^why: .*tool ls of plugin bad is skipped", "^register_tools: ls, .*inactive$"),
            STATUS: may("warning: plugin bad: tool ls of plugin bad is skipped"),
            DOCTOR: cell("problem: bad: tool ls of plugin bad is skipped", "1 problem found", code=1),
            DOCTOR_OF_PLUGINS: cell("problem: bad: tool ls of plugin bad is skipped", code=1),
            "tools explain ls": may("from plugin tools-std", "plugin bad also provides .* was not used"),
        },
        {"bad": (plugin_code("ls"), None)},
    ),
    "its tool has the name of a core tool, and its doctor meets it first": World(
        {
            DOCTOR_OF_PLUGINS: cell(
                "problem: bad: tool ls of plugin bad is skipped", "1 problem found", code=1
            )
        },
        {"bad": (plugin_code("ls"), None)},
        before=(),
    ),
    "its tool has the name of another's": World(
        {
            LISTED: may("^bad .*tool do of plugin bad is skipped"),
            INFO: may("^why: .*tool do of plugin bad is skipped", "^register_tools: do, .*inactive$"),
            STATUS: may("warning: plugin bad: .*tool do of plugin bad is skipped"),
            DOCTOR: cell("problem: bad: tool do of plugin bad is skipped", code=1),
            DOCTOR_OF_PLUGINS: cell("problem: bad: tool do of plugin bad is skipped", code=1),
            "tools explain do": may("plugin aaa", "plugin bad also provides .* was not used"),
        },
        {
            "aaa": (plugin_code("do"), None),
            "bad": (plugin_code("do"), {"kinds": ["tool"], "tools": [{"name": "do"}]}),
        },
    ),
    "the schema of its tool is unsound": World(
        {
            LISTED: Cell((), ("tools are offered",)),
            INFO: may("its tool bad_do is withheld"),
            DOCTOR: cell("tool bad_do is withheld: .*the type at the top must be object", code=1),
            EXPLAIN: cell("not available", "the type at the top must be object", code=1),
        },
        {
            "bad": (
                plugin_code("bad_do"),
                {"kinds": ["tool"], "tools": [{"name": "bad_do", "parameters": {"type": "x"}}]},
            )
        },
    ),
    "it has the id of a plugin of claw's own": World(
        {
            LISTED: may(r"^memory .* loaded\b", rf"^memory .* quarantined .*{UNUSED}"),
            "plugins info memory": may("^state: loaded$", UNUSED),
            STATUS: cell("1 quarantined", f"plugin memory: {UNUSED}"),
            "tools list": Cell((f"plugin memory: {UNUSED}",), ("was disabled",)),
            DOCTOR: cell(f"problem: memory: {UNUSED}", "1 problem found", code=1),
            "plugins doctor memory": cell(f"problem: memory: {UNUSED}", "1 problem found", code=1),
            "plugins disable memory": Cell(("memory: disabled",)),
            "plugins list --json": Cell(('"state": ?"disabled"', '"state": ?"quarantined"')),
        },
        {"memory": (plugin_code("bad_do"), None)},
    ),
    "policy denies its tool": World(
        {
            LISTED: Cell((), ("tools are offered",)),
            DOCTOR: may("no problems found", code=0),
            EXPLAIN: cell("not available", "tools.deny denies it", "claw config unset", code=1),
        },
        {"bad": (plugin_code("bad_do"), None)},
        {"tools": {"deny": ["bad_do"]}},
    ),
}


@pytest.mark.parametrize("state", PLUGINS)
def test_no_surface_says_a_wrong_word_about_a_plugin(state, tmp_path, server):  # noqa: F811
    world = PLUGINS[state]

    assert wrong_cells(world, machine_in(world, tmp_path, server)) == []
