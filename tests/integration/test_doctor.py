"""``claw plugins doctor`` and ``claw doctor``: problems are found, named, and fixed where that is safe."""

import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from claw_admin.doctor.plugin_checks import format_import_chain
from claw_admin.doctor.probe import ImportTime, ProbeResult, heaviest_chain, parse_import_times
from third_party import TOOL, Machine, installed, plugin_code

MANIFEST: dict[str, Any] = {
    "kinds": ["tool"],
    "tools": [{"name": "acme_status", "description": "Say how it is."}],
}
SLOW = "import time\ntime.sleep({seconds})\n"
READS_A_SETTING = """
from claw import Section, hookimpl
class Settings(Section):
    town: str
@hookimpl
def register_tools(config):
    config.plugin(Settings)
    return []
"""


EMPTY = "from claw import hookimpl\n\n@hookimpl\ndef register_tools(config):\n    return []\n"


def a_machine(
    tmp_path: Path, code: str, manifest: dict[str, Any] | None = MANIFEST, config: str = ""
) -> Machine:
    """A machine with the plugin ``acme``."""
    site = tmp_path / "site"
    site.mkdir()
    machine = Machine(tmp_path, [installed(site, "acme", code, manifest)])
    machine.home.chmod(0o700)
    if config:
        machine.configured(config)
        (machine.home / "config.yaml").chmod(0o600)
    return machine


def findings(machine: Machine, *words: str, **environ: str) -> tuple[int, list[dict[str, Any]]]:
    said = machine.claw("plugins", "doctor", "acme", "--json", *words, **environ)
    return said.code, json.loads(said.out)["findings"]


def kinds(found: list[dict[str, Any]], grave: bool = True) -> list[str]:
    return [one["kind"] for one in found if one["grave"] is grave]


MANY_TOOLS = """
from claw import Tool, hookimpl

async def run(arguments, context):
    return "done"

@hookimpl
def register_tools(config):
    schema = {"type": "object", "properties": {}}
    return [Tool(f"acme_{number:03}", "Acme does one thing. " * 30, schema, run) for number in range(140)]
"""


def test_tools_beyond_the_limit_of_the_service_are_said_by_doctor_and_tools_list(tmp_path):
    description = "Acme does one thing. " * 30
    tools = [{"name": f"acme_{number:03}", "description": description} for number in range(140)]
    machine = a_machine(
        tmp_path,
        MANY_TOOLS,
        MANIFEST | {"tools": tools},
        "providers: {openai: {apiKey: sk-of-a-test}, other: {baseUrl: 'http://127.0.0.1:9/v1', apiKey: x}}\n"
        "agents: {defaults: {model: {primary: openai/gpt-4o, fallbacks: [other/m]}}}\n",
    )

    listed, checked = machine.claw("tools", "list", "--json"), machine.claw("doctor")

    body = json.loads(listed.out)
    [left] = body["leftOut"]
    names = [one["name"] for one in body["tools"]]
    assert (left["model"], left["limit"], left["count"]) == ("openai/gpt-4o", 128, len(names))
    assert left["tools"] == names[128:]
    text = f"openai/gpt-4o takes 128 tools in a request, and the run has {len(names)}: the last {len(names) - 128} are"
    assert f"{text} left out (make the list shorter with tools.deny" in checked.out
    shown = machine.claw("tools", "list").err
    assert text in shown
    tokens = re.compile(
        r"the tools take about 2\d,\d{3} tokens of each request, most of them .*acme_000 \(1\d\d\), "
    )
    assert tokens.search(shown) and tokens.search(checked.out)
    machine.configured("providers: {other: {baseUrl: 'http://127.0.0.1:9/v1', apiKey: x}}\nmodel: other/m\n")
    assert json.loads(machine.claw("tools", "list", "--json").out)["leftOut"] == []


def test_a_sound_plugin_has_nothing_wrong(tmp_path):
    machine = a_machine(tmp_path, plugin_code("acme_status"), MANIFEST)

    code, found = findings(machine)

    assert (code, found) == (0, [])


def test_what_the_code_provides_is_held_against_the_manifest(tmp_path):
    tools = [{"name": "acme_status", "optional": True}, {"name": "acme_gone"}]
    code = plugin_code("acme_status") + TOOL.format(name="acme_secret", body="return ''", options="").replace(
        "return [acme_secret]", "return [acme_status, acme_secret]"
    )
    machine = a_machine(tmp_path, code, {"kinds": ["tool"], "tools": tools})

    exit_code, found = findings(machine)

    assert exit_code == 1
    parts = [one["problem"] for one in found if one["kind"] == "part"]
    assert any("acme_secret, which its manifest does not list" in problem for problem in parts)
    assert any("acme_gone, which its code does not provide" in problem for problem in parts)
    differing = next(
        problem for problem in parts if "tool acme_status: manifest and code differ in" in problem
    )
    assert "optional" in differing


def test_a_plugin_that_cannot_be_imported_is_named_with_its_cause(tmp_path):
    machine = a_machine(tmp_path, "import no_such_library_anywhere", MANIFEST)

    code, found = findings(machine)

    assert code == 1
    [one] = [one for one in found if one["grave"]]
    assert (one["kind"], one["about"]) == ("import", "acme")
    assert "no_such_library_anywhere" in one["problem"]


@pytest.mark.parametrize("code", ["import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_a_plugin_that_ends_the_process_ends_only_its_own(tmp_path, code):
    machine = a_machine(tmp_path, code)

    for _ in range(2):
        exit_code, found = findings(machine)
        assert (exit_code, kinds(found)) == (1, ["import"])

    assert "the process ended with code" in machine.claw("plugins", "list").out


@pytest.mark.parametrize(
    ("act", "named"),
    [
        (
            "import socket\ntry: socket.create_connection(('127.0.0.1', 9), 0.1)\nexcept OSError: pass",
            "127.0.0.1",
        ),
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])", "python"),
        ("import os\nos.system('true')", "true"),
        ("open(__file__ + '.note', 'w').close()", "__init__.py.note"),
    ],
)
def test_what_it_touches_and_does_not_declare_is_seen(tmp_path, act, named):
    machine = a_machine(tmp_path, f"{act}\n{plugin_code('acme_status')}")

    code, found = findings(machine)

    [one] = found
    assert (code, one["kind"]) == (1, "capability")
    assert named in one["problem"]


@pytest.mark.parametrize("network", [True, ["127.0.0.1"], ["localhost"]])
def test_what_it_declares_it_may_touch(tmp_path, network):
    act = "import socket\ntry: socket.create_connection(('localhost', 9), 0.1)\nexcept OSError: pass"
    machine = a_machine(
        tmp_path, f"{act}\n{plugin_code('acme_status')}", {**MANIFEST, "capabilities": {"network": network}}
    )

    code, found = findings(machine)

    assert kinds(found) == (["capability"] if network == ["127.0.0.1"] else [])
    assert code == bool(found)


def test_a_deprecated_call_of_its_own_is_reported(tmp_path):
    code = f"import warnings\nwarnings.warn('use acme2', DeprecationWarning, stacklevel=1)\n{plugin_code('acme_status')}"
    exit_code, found = findings(a_machine(tmp_path, code))

    [one] = found
    assert (exit_code, one["kind"]) == (0, "deprecated")
    assert "use acme2" in one["problem"]
    assert "__init__.py:2" in one["problem"]


def test_missing_variables_tools_that_sleep_and_a_range_without_end_are_reported_and_count_for_nothing(
    tmp_path,
):
    tools = [{"name": "acme_status", "description": "Say how it is.", "optional": True}]
    manifest = {"kinds": ["tool"], "tools": tools, "env": ["ACME_KEY"], "api": ">=1"}
    machine = a_machine(tmp_path, plugin_code("acme_status", options="optional=True"), manifest)

    code, found = findings(machine)
    assert (code, sorted(kinds(found, grave=False))) == (0, ["api", "env", "optional"])

    fix = next(one["mend"] for one in found if one["kind"] == "optional")
    assert machine.claw(*fix.replace("'", "").split()[1:]).code == 0
    assert sorted(kinds(findings(machine, ACME_KEY="x")[1], grave=False)) == ["api"]


def test_a_setting_that_is_missing_is_found_before_the_code_is_there_and_in_it(tmp_path):
    schema = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
    machine = a_machine(
        tmp_path, READS_A_SETTING, {"kinds": ["section"], "promptSections": ["x"], "configSchema": schema}
    )

    code, found = findings(machine)

    assert code == 1
    assert {one["kind"] for one in found} >= {"setting", "config"}
    assert "plugins.entries.acme.config.town" in next(
        one["problem"] for one in found if one["kind"] == "setting"
    )


def test_a_tool_with_an_unsound_schema_is_named_by_every_command(tmp_path):
    tools = [{"name": "acme_status", "parameters": {"type": "array"}}]
    machine = a_machine(tmp_path, plugin_code("acme_status"), {"kinds": ["tool"], "tools": tools})

    reported = machine.claw("doctor")
    assert reported.code == 1
    assert "its tool acme_status is withheld" in reported.out

    explained = machine.claw("tools", "explain", "acme_status")
    assert explained.code == 1
    assert "model services do not accept its parameters" in explained.out


def test_without_a_manifest_it_says_what_that_costs(tmp_path):
    code, found = findings(a_machine(tmp_path, plugin_code("acme_status"), None))

    assert (code, kinds(found, grave=False)) == (0, ["manifest"])
    assert " ms" in found[0]["problem"]


def test_a_slow_import_is_measured_and_its_chain_named_and_a_budget_holds_it(tmp_path):
    machine = a_machine(tmp_path, f"import stranger_acme.middle\n{plugin_code('acme_status')}")
    package = machine.path[0] / "stranger_acme"
    (package / "middle.py").write_text("import stranger_acme.heavy\n")
    (package / "heavy.py").write_text(SLOW.format(seconds=0.2))

    said = machine.claw("plugins", "doctor", "acme", "--cost")
    assert said.code == 0
    assert re.search(
        r"stranger_acme \d+ ms > stranger_acme.middle \d+ ms > stranger_acme.heavy \d{3} ms", said.out
    )

    reported = json.loads(machine.claw("plugins", "doctor", "acme", "--json", "--budget-ms", "150").out)
    [plugin] = reported["plugins"]
    assert 190 <= plugin["importMs"] < 1000  # waiting for a processor is not counted
    assert kinds(reported["findings"]) == ["budget"]
    assert machine.claw("plugins", "doctor", "acme", "--budget-ms", "150").code == 1
    assert machine.claw("plugins", "doctor", "acme", "--budget-ms", "5000").code == 0


def test_the_chain_agrees_with_python_s_own_log(tmp_path):
    (tmp_path / "a.py").write_text("import b, json.tool\n")
    (tmp_path / "b.py").write_text("import c\n")
    (tmp_path / "c.py").write_text(SLOW.format(seconds=0.1))
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import a"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    cumulative = {line.split("|")[2].strip(): int(line.split("|")[1]) / 1000
                  for line in done.stderr.splitlines()[1:] if line.count("|") == 2}  # fmt: skip

    chain = heaviest_chain(parse_import_times(done.stderr.splitlines()))

    assert [link.module for link in chain] == ["a", "b", "c"]
    assert [link.ms for link in chain] == [cumulative[name] for name in ("a", "b", "c")]


def test_a_chain_ends_where_no_import_is_half_of_the_one_above():
    forest = [(ImportTime("a", 100.0), [(ImportTime("b", 30.0), []), (ImportTime("c", 40.0), [])])]
    assert format_import_chain(ProbeResult(chain=heaviest_chain(forest))) == "a 100 ms"
    assert heaviest_chain([]) == ()


def test_fix_switches_off_what_fails_at_every_start_and_says_so(tmp_path):
    machine = a_machine(tmp_path, "raise RuntimeError('never works')", MANIFEST, "# mine\nlocale: en\n")

    said = machine.claw("plugins", "doctor", "acme", "--fix")

    assert said.code == 0
    assert "claw config set plugins.entries.acme.enabled false" in said.out
    assert (machine.home / "config.yaml").read_text().startswith("# mine\n")
    assert "disabled" in machine.claw("plugins", "list").out


def test_fix_leaves_a_required_plugin_alone(tmp_path):
    config = "plugins: {entries: {acme: {required: true}}}\n"
    machine = a_machine(tmp_path, "raise RuntimeError('never works')", MANIFEST, config)

    assert machine.claw("plugins", "doctor", "acme", "--fix").code == 1
    assert (machine.home / "config.yaml").read_text() == config


def test_a_plugin_that_the_operator_keeps_out_is_not_run(tmp_path):
    machine = a_machine(tmp_path, "open(__file__ + '.ran', 'w')", MANIFEST, "plugins: {deny: [acme]}\n")

    findings(machine)

    assert not [*machine.path[0].rglob("*.ran")]


def test_two_plugins_with_one_channel_are_both_named(tmp_path):
    machine = a_machine(tmp_path, "", {"kinds": ["channel"], "channels": ["bells"]})
    installed(machine.path[0], "bell", "", {"kinds": ["channel"], "channels": ["bells"]})

    said = machine.claw("plugins", "doctor", "bell")

    assert said.code == 1
    assert "bells of plugin bell is skipped: plugin acme already provides that name" in said.out


def test_an_unknown_plugin_is_a_mistake_that_names_the_nearest(tmp_path):
    said = a_machine(tmp_path, "").claw("plugins", "doctor", "acmee")
    assert said.code == 2
    assert "did you mean acme?" in said.line


# claw as a whole


def run_doctor(machine: Machine, *words: str, **environ: str) -> tuple[int, list[dict[str, Any]]]:
    said = machine.claw("doctor", "--json", *words, **environ)
    return said.code, json.loads(said.out)["findings"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.home.chmod(0o700)
    assert machine.claw("chat", "--model", "offline/rules", "hello").code == 0
    return machine


def test_a_gateway_after_a_first_chat_is_sound(machine):
    said = machine.claw("doctor")
    assert said.code == 0
    assert "no problems found" in said.out


def test_what_others_may_read_is_found_and_closed(machine):
    machine.configured("locale: en\n")
    for path, mode in (
        (machine.home, 0o755),
        (machine.home / "config.yaml", 0o644),
        (machine.session, 0o640),
    ):
        path.chmod(mode)

    code, found = run_doctor(machine)
    assert (code, kinds(found)) == (1, ["permissions"] * 3)
    assert found[0]["mend"] == f"chmod 700 {machine.home}"

    assert machine.claw("doctor", "--fix").code == 0
    assert machine.home.stat().st_mode & 0o777 == 0o700
    assert machine.session.stat().st_mode & 0o777 == 0o600
    assert run_doctor(machine)[0] == 0


def test_a_damaged_session_is_found_with_its_line_and_the_next_message_repairs_it(machine):
    with machine.session.open("ab") as file:
        file.write(b'{"torn')

    code, found = run_doctor(machine)
    assert (code, kinds(found)) == (1, ["session"])
    assert found[0]["about"] == str(machine.session)

    machine.claw("chat", "--model", "offline/rules", "hello again")
    assert run_doctor(machine)[0] == 0


def test_a_damaged_database_is_found(machine):
    with closing(sqlite3.connect(machine.home / "state.db")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path = machine.home / "state.db"
    path.write_bytes(b"no database at all" * 1000)

    code, found = run_doctor(machine)

    assert (code, kinds(found)) == (1, ["state"])
    assert path.read_bytes().startswith(b"no database"), "the doctor only looks"


def test_a_wrong_config_is_reported_with_its_key_and_the_rest_is_looked_at_all_the_same(machine):
    machine.configured("tools: {alow: [read]}\n")
    (machine.home / "config.yaml").chmod(0o600)
    machine.session.chmod(0o644)

    code, found = run_doctor(machine)

    assert (code, kinds(found)) == (1, ["config", "permissions"])
    assert "tools.alow" in found[0]["about"]


def test_a_provider_without_a_key_is_found_and_one_with_a_key_is_not(machine):
    machine.configured("agents: {defaults: {model: anthropic/claude-x}}\n")
    (machine.home / "config.yaml").chmod(0o600)

    code, found = run_doctor(machine)
    assert (code, kinds(found)) == (1, ["config"])
    assert "ANTHROPIC_API_KEY" in next(one["mend"] for one in found if one["grave"])

    assert run_doctor(machine, ANTHROPIC_API_KEY="sk-ant-not-a-real-one")[0] == 0


@pytest.mark.parametrize(
    ("facts", "code", "reported"),
    [
        ("contextTokens: 9000", 1, "an agent with tools needs at least 16,000"),
        ("contextTokens: 20000", 0, "is small for tools and longer conversations"),
        ("contextTokens: 9000, tools: none", 0, "it gets no tools"),
        ("tools: prompt", 0, "tools are described in its prompt"),
    ],
)
def test_a_model_without_tools_or_too_small_for_them_is_reported(machine, facts, code, reported):
    machine.configured(
        "agents: {defaults: {model: openai/m}}\n"
        f"providers: {{openai: {{apiKey: sk-not-a-real-one, models: {{m: {{{facts}}}}}}}}}\n"
    )
    (machine.home / "config.yaml").chmod(0o600)

    ended, found = run_doctor(machine)

    # One that cannot work is a warning about the file, with its place.
    [one] = [one for one in found if one["about"].rpartition(": ")[2] == "openai/m"]
    assert (ended, one["grave"]) == (code, bool(code))
    assert reported in one["problem"]


def test_what_a_provider_says_of_its_model_is_received_when_it_is_asked(machine):
    machine.configured("agents: {defaults: {model: local/x}}\n")
    (machine.home / "config.yaml").chmod(0o600)

    assert not [one for one in run_doctor(machine)[1] if one["about"] == "local/x"]
    asked = run_doctor(machine, "--online")[1]
    assert [one["kind"] for one in asked if one["about"] == "local/x"] == ["tools", "model"]


def test_a_quarantined_plugin_is_found_without_being_imported(tmp_path):
    machine = a_machine(tmp_path, "open(__file__ + '.ran', 'w')", {"api": ">=2,<3"})

    code, found = run_doctor(machine)

    assert (code, [(one["about"], one["kind"]) for one in found if one["grave"]]) == (1, [("acme", "find")])
    assert not [*machine.path[0].rglob("*.ran")]


def test_whether_the_models_answer_is_asked_only_when_wanted(machine):
    assert machine.claw("doctor", "--online").code == 0

    machine.configured(
        "agents: {defaults: {model: openai/none}}\n"
        "providers: {openai: {apiKey: sk-none, baseUrl: 'http://127.0.0.1:9/v1'}}\n"
    )
    (machine.home / "config.yaml").chmod(0o600)
    assert run_doctor(machine)[0] == 0

    code, found = run_doctor(machine, "--online")
    assert (code, kinds(found)) == (1, ["model"])
    assert found[-1]["about"] == "openai/none"


# A channel

BELL = """
from claw import ClawError, Finding, ChannelLimits, hookimpl
class Bell:
    name, capabilities, limits = "bells", frozenset(), ChannelLimits()
    async def run(self, inbox): ...
    async def send(self, outbound): ...
    {diagnose}
@hookimpl
def register_channels(config):
    return [Bell()]
"""
ASKED = "async def diagnose(self): {body}"


def asked_of_a_channel(tmp_path: Path, diagnose: str, *words: str) -> tuple[int, list[dict[str, Any]]]:
    manifest = {"kinds": ["channel"], "channels": ["bells"]}
    machine = a_machine(tmp_path, BELL.format(diagnose=diagnose), manifest, "channels: {bells: {}}\n")
    return run_doctor(machine, *(words or ("bells",)))


def test_a_channel_looks_at_itself_and_what_it_finds_is_at_its_key(tmp_path):
    body = (
        "return [Finding('', 'rust', 'it squeaks', 'oil it'), Finding('x', 'dust', 'a little', grave=False)]"
    )

    code, found = asked_of_a_channel(tmp_path, ASKED.format(body=body))

    assert code == 1
    assert [(one["about"], one["kind"], one["grave"]) for one in found] == [
        ("channels.bells", "rust", True),
        ("x", "dust", False),
    ]


@pytest.mark.parametrize(
    ("body", "kind", "reported"),
    [
        ("raise ClawError('no bell rings', fix='hang one up')", "check", "no bell rings"),
        ("raise SystemExit('fell down')", "check", "fell down"),
        ("return 7", "check", "int"),
    ],
)
def test_a_check_that_fails_is_a_finding(tmp_path, body, kind, reported):
    code, [one] = asked_of_a_channel(tmp_path, ASKED.format(body=body))

    assert (code, one["kind"], one["about"]) == (1, kind, "channels.bells")
    assert reported in one["problem"]


def test_a_channel_without_a_check_says_so_and_that_counts_for_nothing(tmp_path):
    code, [one] = asked_of_a_channel(tmp_path, "")

    assert (code, one["kind"]) == (0, "unchecked")


def test_a_channel_that_is_switched_off_or_that_nobody_provides_is_reported(tmp_path):
    machine = a_machine(tmp_path, EMPTY, None, "channels: {bells: {}, gongs: {enabled: false}}\n")

    assert [(one["about"], one["kind"]) for one in run_doctor(machine, "bells")[1]] == [
        ("channels.bells", "absent")
    ]
    assert [(one["about"], one["kind"]) for one in run_doctor(machine, "gongs")[1]] == [
        ("channels.gongs", "disabled")
    ]
