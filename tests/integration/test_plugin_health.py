"""Plugin health: the faults of plugins × the surfaces that speak of them; once a process met a fault, no cell is wrong.

Every fault is installed on one machine. One process loads all of it; then each surface is asked in a process of its own.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from claw.host.health import HUNG, LoadFailure, PluginHealth
from third_party import Machine, installed, plugin_code

pytestmark = pytest.mark.xdist_group("plugin health")  # one worker makes the machine

BOOM = "raise RuntimeError('no luck')"
HOOK = "from claw import hookimpl\n@hookimpl\ndef register_tools(config):\n    "
DECLARED = {"kinds": ["tool"], "tools": [{"name": "lazy_do", "description": "Do."}]}
WRAP = """
from claw import hookimpl
class Lost:
    name, position = "lost", 50
    def wrap(self, provider):
        return None
@hookimpl
def register_provider_middleware(config):
    return [Lost()]
"""
CHANNEL = "from claw import hookimpl\n@hookimpl\ndef register_channels(config):\n    1 / 0"


@dataclass(frozen=True)
class Fault:
    """A plugin, what it does wrong, and what is said of it.

    :param stage: the stage that every surface names.
    :param cause: words of the cause.
    """

    code: str
    stage: str
    cause: str
    manifest: dict[str, Any] | None = None
    tool: str = ""
    config: dict[str, Any] = field(default_factory=dict)


FAULTS = {
    "raises": Fault(BOOM, "import", "RuntimeError: no luck"),
    "exits": Fault("raise SystemExit(3)", "import", "SystemExit: 3"),
    "syntax": Fault("def broken(:", "import", "SyntaxError"),
    "nodep": Fault("import no_such_library", "import", "no_such_library"),
    "hook": Fault(HOOK + "1 / 0", "register", "ZeroDivisionError"),
    "nolist": Fault(HOOK + "return [object()]", "register", "register_tools answered with object"),
    "wraps": Fault(WRAP, "register", "its middleware answers with a provider that has no stream"),
    "hangs": Fault(HOOK + "import time; time.sleep(60)", "register", "did not come back within 10 s"),
    "lazy": Fault(BOOM, "import", "RuntimeError: no luck", DECLARED, tool="lazy_do"),
    "radio": Fault(CHANNEL, "register", "ZeroDivisionError", {"kinds": ["channel"], "channels": ["radio"]}),
}
RADIO = {"channels": {"radio": {}}, "locale": "en"}


@dataclass
class Seen:
    """Output of each command that shows the state of a plugin."""

    machine: Machine
    rows: dict[str, dict[str, Any]]
    loads: dict[str, int]

    def document(self, *words: str) -> dict[str, Any]:
        """The JSON document of a command."""
        said = self.machine.claw(*words, "--json")
        assert "Traceback" not in said.err
        document: dict[str, Any] = json.loads(said.out)
        return document


def counted(code: str) -> str:
    """The code, which also leaves a mark whenever it is imported."""
    return f"open(__file__ + '.loads', 'a').write('x')\n{code}" if "broken" not in code else code


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    root = tmp_path_factory.mktemp("health")
    site = root / "site"
    for id, fault in FAULTS.items():
        installed(site, id, counted(fault.code), fault.manifest)
    installed(site, "sound", plugin_code("sound_do"))
    machine = Machine(root / "machine", [site])
    machine.configured(json.dumps(RADIO))
    called = machine.claw("tools", "call", "lazy_do")  # a process that takes turns, and calls the lazy tool
    assert called.code == 1
    assert "no luck" in called.err
    rows = {one["id"]: one for one in json.loads(machine.claw("plugins", "list", "--json").out)["plugins"]}
    return Seen(machine, rows, {id: loads(machine, id) for id in FAULTS})


def loads(machine: Machine, id: str) -> int:
    mark = Path(machine.path[0], f"stranger_{id}", "__init__.py.loads")
    return len(mark.read_text()) if mark.exists() else 0


faulty = pytest.mark.parametrize("id", FAULTS)


@faulty
def test_the_list_of_plugins_says_it(seen, id):
    row, fault = seen.rows[id], FAULTS[id]

    assert (row["state"], row["stage"]) == ("quarantined", fault.stage)
    assert fault.cause in row["why"]
    assert row["mend"]


def test_a_sound_plugin_beside_them_is_loaded(seen):
    assert seen.rows["sound"]["state"] == "loaded"


def test_the_list_imports_no_plugin(seen):
    assert {id: loads(seen.machine, id) for id in FAULTS} == seen.loads


@faulty
def test_info_says_it(seen, id):
    said = seen.document("plugins", "info", id)

    assert (said["state"], said["stage"]) == ("quarantined", FAULTS[id].stage)
    assert FAULTS[id].cause in said["why"]


@pytest.fixture(scope="module")
def status(seen) -> Any:
    return seen.machine.claw("status"), seen.document("status")


def test_status_counts_and_names_them(seen, status):
    text, facts = status

    assert facts["plugins"]["quarantined"] == len(FAULTS)
    for id, fault in FAULTS.items():
        [line] = [
            line for line in text.err.splitlines() if f"plugin {id} was disabled at {fault.stage}" in line
        ]
        assert fault.cause in line


@pytest.fixture(scope="module")
def findings(seen) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = seen.document("doctor")["findings"]
    return found


@faulty
def test_doctor_says_it(findings, id):
    found = [one for one in findings if one["about"] == id and one["grave"]]

    assert any(FAULTS[id].cause in one["problem"] and one["kind"] == FAULTS[id].stage for one in found)
    assert all(one["mend"] for one in found)


def test_explain_does_not_call_the_tool_of_a_faulty_plugin_available(seen):
    said = seen.document("tools", "explain", "lazy_do")

    assert not said["available"]
    assert "plugin lazy was disabled at import: RuntimeError: no luck" in said["why"]


def test_explain_names_the_plugins_whose_tools_are_not_known(seen):
    said = seen.document("tools", "explain", "raises_do")

    assert not said["available"]
    assert "raises" in said["why"]


def test_the_list_of_channels_says_it(seen):
    [row] = seen.document("channels", "list")["channels"]

    assert (row["channel"], row["state"]) == ("radio", "quarantined")
    assert "ZeroDivisionError" in row["why"]


def test_a_process_does_not_wait_again_for_one_that_hangs(seen):
    before = loads(seen.machine, "hangs")
    said = seen.machine.claw("tools", "explain", "sound_do")

    assert said.code == 0
    assert "plugin hangs was disabled at register" in said.err
    assert loads(seen.machine, "hangs") == before == 1


def test_any_other_failure_is_tried_again_by_the_next_process(seen):
    before = loads(seen.machine, "raises")
    seen.machine.claw("tools", "explain", "sound_do")

    assert loads(seen.machine, "raises") == before + 1


@pytest.fixture
def alone(tmp_path: Path) -> Machine:
    """A machine with one plugin, ``odd``, which fails at import; a process has met it."""
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", BOOM)])
    machine.configured('{"locale": "en"}')
    machine.claw("tools", "list")
    return machine


def state_of(machine: Machine) -> str:
    rows = json.loads(machine.claw("plugins", "list", "--json").out)["plugins"]
    return next(str(one["state"]) for one in rows if one["id"] == "odd")


def code_of(machine: Machine) -> Path:
    return Path(machine.path[0], "stranger_odd", "__init__.py")


def test_changed_files_and_a_success_end_it(alone):
    assert state_of(alone) == "quarantined"

    code_of(alone).write_text(plugin_code("odd_do"))

    assert state_of(alone) == "untried"
    assert alone.claw("tools", "explain", "odd_do").code == 0
    assert state_of(alone) == "loaded"


def test_a_cause_outside_of_its_files_ends_with_the_next_process_that_loads_it(tmp_path):
    code = "import late_library\n" + plugin_code("odd_do")
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", code)])
    machine.configured('{"locale": "en"}')
    machine.claw("tools", "list")
    assert state_of(machine) == "quarantined"

    (tmp_path / "site" / "late_library.py").write_text("")
    machine.claw("tools", "list")

    assert state_of(machine) == "loaded"


def test_retry_loads_one_that_hung_again(tmp_path):
    code = (
        f"import os, time\nif os.path.exists({str(tmp_path / 'slow')!r}):\n    time.sleep(60)\n"
        + plugin_code("odd_do")
    )
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", code)])
    machine.configured('{"locale": "en"}')
    PluginHealth(machine.home / "plugins").record(LoadFailure("odd", HUNG, "import", "it hung"))
    assert state_of(machine) == "quarantined"

    said = machine.claw("plugins", "retry", "odd")

    assert said.code == 0, said
    assert state_of(machine) == "loaded"


SHORT = """
import claw.host.isolation
object.__setattr__(claw.host.isolation.DEFAULT_TIMEOUTS, "import_seconds", 3.0)
"""


@pytest.mark.parametrize("words", [("plugins", "doctor", "slow"), ("plugins", "retry", "slow")])
def test_an_import_that_ends_later_than_a_start_waits_is_no_success(tmp_path, words):
    site = installed(tmp_path / "site", "slow", "import time\ntime.sleep(5)\n" + plugin_code("slow_do"))
    (site / "sitecustomize.py").write_text(SHORT)
    machine = Machine(tmp_path / "machine", [site])
    machine.configured("{locale: en}")

    said = machine.claw(*words)

    assert said.code == 1
    assert "it did not come back within 3 s" in said.out
    listed = machine.claw("plugins", "list").out
    assert "it is loaded again after a day" in next(line for line in listed.splitlines() if "slow" in line)


def test_retry_of_one_that_fails_again_says_so(alone):
    said = alone.claw("plugins", "retry")

    assert said.code == 1
    assert "odd" in said.out
    assert "no luck" in said.out


def test_one_that_ends_the_process_is_named_before_it_is_recorded(tmp_path):
    code = "import os\nos._exit(9)"
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", code)])
    machine.configured('{"locale": "en"}')

    assert machine.claw("tools", "list").code == 9
    assert state_of(machine) == "quarantined"
    assert machine.claw("tools", "list").code == 9
    assert "crashed 2 times" in machine.claw("plugins", "list").out
    assert machine.claw("tools", "list").code == 0

    retried = machine.claw("plugins", "retry", "odd")
    assert retried.code == 1
    assert "ended with code 9" in retried.out


def test_check_of_an_installed_plugin_says_it(alone):
    said = alone.claw("plugins", "check", "odd")

    assert said.code == 4
    assert "RuntimeError: no luck" in said.err


def test_doctor_of_plugins_records_what_it_finds(tmp_path):
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", BOOM)])
    machine.configured('{"locale": "en"}')
    assert state_of(machine) == "untried"

    assert machine.claw("plugins", "doctor", "odd").code == 1
    assert state_of(machine) == "quarantined"
    code_of(machine).write_text(plugin_code("odd_do"))
    machine.claw("plugins", "doctor", "odd")

    assert state_of(machine) == "loaded"


def test_doctor_of_plugins_names_the_stage_at_which_the_process_ended(tmp_path):
    code = HOOK + "import os; os._exit(7)"
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", code)])
    machine.configured('{"locale": "en"}')

    said = machine.claw("plugins", "doctor", "odd")
    info = json.loads(machine.claw("plugins", "info", "odd", "--json").out)

    assert "ended with code 7" in said.out and " ms" not in said.out
    assert (info["state"], info["stage"]) == ("quarantined", "register")


def test_the_start_of_a_gateway_and_the_status_of_channels_say_it(tmp_path):
    site = installed(tmp_path / "site", "odd", BOOM)
    installed(site, "radio", CHANNEL, FAULTS["radio"].manifest)
    machine = Machine(tmp_path / "machine", [site])
    machine.configured(json.dumps(RADIO))
    try:
        said = machine.claw("gateway", "start")
        [row] = json.loads(machine.claw("channels", "status", "--json").out)["channels"]
    finally:
        machine.claw("gateway", "stop", "--now")

    assert said.code == 1, said  # none of its channels works
    assert "plugin odd was disabled at import: RuntimeError: no luck" in said.err
    [line] = [one for one in said.err.splitlines() if "radio" in one]
    assert line.startswith("channel radio failed: ZeroDivisionError")
    assert row["state"] == "failed"
    assert "ZeroDivisionError" in row["detail"]


def test_a_gateway_that_runs_without_a_repaired_plugin_is_named(alone):
    try:
        alone.claw("gateway", "start")
        code_of(alone).write_text(plugin_code("odd_do"))
        alone.claw("tools", "list")  # a new process loads it: the gateway still has not
        listed, status, found = alone.claw("plugins", "list"), alone.claw("status"), alone.claw("doctor")
        alone.claw("gateway", "restart")
        after = alone.claw("plugins", "list")
    finally:
        alone.claw("gateway", "stop", "--now")

    for said in (listed.out, status.err, found.out):
        [line] = [one for one in said.splitlines() if "runs without it" in one]
        assert "odd" in line
        assert "no luck" in line
        assert "claw gateway restart" in line
    assert "runs without it" not in after.out


def test_a_record_is_read_in_the_language_of_the_reader(tmp_path):
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", "x = 1")])
    machine.claw("tools", "list", LANG="zh_CN.UTF-8")

    english, chinese = (machine.claw("plugins", "list", LANG=one) for one in ("C.UTF-8", "zh_CN.UTF-8"))

    assert "implements no hook" in english.out
    assert "implements no hook" not in chinese.out


def test_changed_settings_end_a_failure_of_settings(tmp_path):
    code = "from claw import Section, hookimpl\nclass Wanted(Section):\n    number: int = 1\n"
    code += HOOK + "config.plugin(Wanted)\n    return []"
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", code)])
    machine.configured('{"locale": "en", "plugins": {"entries": {"odd": {"config": {"number": "x"}}}}}')
    machine.claw("tools", "list")
    assert state_of(machine) == "quarantined"

    machine.configured('{"locale": "en", "plugins": {"entries": {"odd": {"config": {"number": 2}}}}}')

    assert state_of(machine) == "untried"
    machine.claw("tools", "list")
    assert state_of(machine) == "loaded"


def test_a_home_that_cannot_be_written_is_no_reason_to_stop(alone):
    (alone.home / "state.db").chmod(0o400)
    os.chmod(alone.home / "plugins", 0o500)

    assert alone.claw("plugins", "list").code == 0


TWO = """
from claw import Tool, hookimpl

async def run(arguments, context):
    return "done"

PARAMETERS = {"type": "object", "properties": {}}

@hookimpl
def register_tools(config):
    return [Tool("odd_do", text, PARAMETERS, run) for text in TEXTS]
"""
PARTS = {
    "twice": (
        TWO.replace("TEXTS", "('Do.', 'Do more.')"),
        "provides the tool odd_do more than once",
        "must remove one",
    ),
    "no description": (
        TWO.replace("TEXTS", "[' ']"),
        "its tool odd_do has no description",
        "must describe it",
    ),
    "returns nothing": (HOOK + "[]", "its hook register_tools returns nothing", "update or uninstall"),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_cannot_be_used_is_said_alike_by_each_command(tmp_path, part):
    code, cause, fix = PARTS[part]
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", code)])
    machine.configured('{"locale": "en"}')

    for command in (("plugins", "doctor", "odd"), ("doctor",)):
        said = json.loads(machine.claw(*command, "--json").out)["findings"]
        found = [one for one in said if one["about"] == "odd" and one["grave"]]
        assert [(cause in one["problem"], fix in one["mend"]) for one in found] == [(True, True)]
    chat = machine.claw("chat", "hello")
    assert chat.err.count("odd_do" if "odd_do" in cause else "register_tools") == 1
    [row] = [
        one
        for one in json.loads(machine.claw("plugins", "list", "--json").out)["plugins"]
        if one["id"] == "odd"
    ]
    assert cause in row["why"]
    assert fix in row["mend"]
    assert "tools.suppliers" not in machine.claw("tools", "explain", "odd_do").out


def test_doctor_of_a_plugin_that_hangs_says_that_it_waits(tmp_path):
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", plugin_code("odd_do"))])
    machine.configured('{"locale": "en"}')
    PluginHealth(machine.home / "plugins").record(LoadFailure("odd", HUNG, "import", "it hung"))
    assert state_of(machine) == "quarantined"

    assert "loading odd again, up to 90 s" in machine.claw("plugins", "doctor", "odd").err
    assert "loading odd again" not in machine.claw("plugins", "doctor", "odd").err


def test_one_that_no_process_has_loaded_is_not_called_loaded(tmp_path):
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", plugin_code("odd_do"))])

    assert state_of(machine) == "untried"
    assert "claw plugins doctor loads it" in machine.claw("plugins", "list").out
    assert "1 untried" in machine.claw("status").out

    assert machine.claw("chat", "hello").code == 0
    assert state_of(machine) == "loaded"
    assert "untried" not in machine.claw("status").out


@pytest.mark.parametrize("kind", ["observer", "section", "reviewer", "tool", "channel"])
def test_doctor_finds_one_that_fails_in_every_process_before_any_other_command_ran(tmp_path, kind):
    named = (
        {"tools": [{"name": "odd_do"}]}
        if kind == "tool"
        else {"channels": ["odd"]}
        if kind == "channel"
        else {}
    )
    machine = Machine(
        tmp_path / "machine", [installed(tmp_path / "site", "odd", BOOM, {"kinds": [kind], **named})]
    )
    machine.configured(
        '{"locale": "en", "channels": {"odd": {}}}' if kind == "channel" else '{"locale": "en"}'
    )

    said = machine.claw("doctor")

    assert (said.code, said.out.count("no luck")) == (1, 1), said
    assert "no problems found" not in said.out


def test_doctor_waits_once_for_one_that_hangs(tmp_path):
    """Every hook but one of this plugin is sound, and the doctor asks them in several passes."""
    code = plugin_code("odd_do") + (
        "@hookimpl\ndef register_observers(config):\n    import time\n"
        f"    open({str(tmp_path / 'asked')!r}, 'a').write('x')\n    time.sleep(60)\n"
    )
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "odd", code)])
    machine.configured('{"locale": "en"}')

    said = machine.claw("doctor")

    assert said.code == 1 and "it did not come back within 10 s" in said.out
    assert (tmp_path / "asked").read_text() == "x"


def test_tools_list_says_of_a_tool_that_no_process_has_loaded_it_yet(tmp_path):
    machine = Machine(
        tmp_path / "machine",
        [installed(tmp_path / "site", "odd", BOOM, {"kinds": ["tool"], "tools": [{"name": "odd_do"}]})],
    )
    machine.configured('{"locale": "en"}')

    [row] = [line for line in machine.claw("tools", "list", "--all").out.splitlines() if "odd_do" in line]
    assert "nothing has loaded its plugin yet" in row

    machine.claw("tools", "explain", "odd_do")
    [row] = [line for line in machine.claw("tools", "list", "--all").out.splitlines() if "odd_do" in line]
    assert "not available" in row and "no luck" in row


def test_plugins_doctor_says_nothing_of_plugins_that_nobody_configured(tmp_path):
    said = Machine(tmp_path / "machine").claw("plugins", "doctor")

    assert (said.code, said.out, said.err) == (0, "no problems found\n", "")
