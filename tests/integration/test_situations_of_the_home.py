"""Situations of a home that no setting describes: two plugins with one id, rights that change, files of a wrong kind."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from integration.forked_claw import ForkServer
from integration.surfaces import Forked, server
from third_party import Machine, installed, plugin_code

assert server  # a fixture


def said(machine: Machine, *words: str, plain: bool = False, **environ: str) -> str:
    answer = machine.claw(*words, plain=plain, **environ)
    assert "internal error" not in answer.err
    return " ".join((answer.out + answer.err).split())


def test_of_two_plugins_with_one_id_the_first_is_used_and_every_surface_says_so(tmp_path: Path) -> None:
    first = installed(tmp_path / "a", "tides", plugin_code("tide"), package="stranger_one")
    second = installed(tmp_path / "b", "tides", plugin_code("tide2"), package="stranger_two")
    machine = Machine(tmp_path / "machine", [first, second])
    twice = "stranger_two is not used: stranger_one provides a plugin with this id"

    info = said(machine, "plugins", "info", "tides")

    assert "distribution: stranger_one" in info and "state: loaded" in info and twice in info
    assert "tide: available (plugin tides)" in said(machine, "tools", "explain", "tide")
    assert "tide2: not available" in said(machine, "tools", "explain", "tide2")
    for words in (("plugins", "list"), ("doctor",), ("plugins", "doctor"), ("chat", "hi")):
        assert twice in said(machine, *words), words


def test_a_manifest_that_becomes_readable_is_read(tmp_path: Path) -> None:
    manifest = {"kinds": ["tool"], "tools": [{"name": "tide"}]}
    site = installed(tmp_path / "site", "tides", plugin_code("tide"), manifest)
    machine = Machine(tmp_path / "machine", [site])
    file = site / "stranger_tides" / "claw-plugin.json"
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    file.chmod(0)
    said(machine, "chat", "hi", plain=True)  # the home is in use from now on
    assert "its manifest cannot be read" in said(machine, "plugins", "list", plain=True)

    file.chmod(0o644)

    assert "its manifest cannot be read" not in said(machine, "plugins", "list", plain=True)


@pytest.mark.parametrize("name", ["agents", "logs", "plugins"])
def test_doctor_names_a_file_in_the_place_of_a_folder(tmp_path: Path, name: str) -> None:
    machine = Machine(tmp_path / "machine")
    (machine.home / name).write_text("")
    assert f"{machine.home / name}: a file is in the place of a folder" in said(machine, "doctor")


def test_doctor_gives_no_advice_for_files_about_a_folder_in_their_place(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine")
    (machine.home / "state.db").mkdir(mode=0o755)
    answer = said(machine, "doctor")
    assert "state.db: a folder is in the place of a file" in answer and "chmod 600" not in answer


def test_doctor_names_a_workspace_that_cannot_be_made(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine")
    machine.configured("workspace: /dev/null/x")
    assert "the workspace of agent default cannot be created: /dev/null is no folder" in said(
        machine, "doctor"
    )


def test_a_key_that_no_header_can_have_is_named_by_its_variable(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "machine", environ={"OPENAI_API_KEY": "sk-\u00e9"})
    assert "the key in OPENAI_API_KEY has a line break, or a letter that no key has" in said(
        machine, "chat", "hi"
    )
    assert "OPENAI_API_KEY: the key contains a letter that no key has" in said(machine, "doctor")


@pytest.mark.parametrize(
    "words",
    [
        "doctor",
        "doctor --json",
        "doctor telegram",
        "config validate",
        "models status",
        "channels status",
        "tools list",
        "tools explain exec",
        "hooks list",
        "plugins info telegram",
    ],
)
def test_a_command_that_only_looks_makes_no_home(tmp_path: Path, server: ForkServer, words: str) -> None:
    machine, home = Forked(tmp_path / "machine"), tmp_path / "none" / "home"
    machine.server = server
    said(machine, *words.split(), CLAW_HOME=str(home))
    assert not home.parent.exists()


def test_a_plugin_that_ends_the_process_is_recorded_by_a_command_that_only_looks(tmp_path: Path) -> None:
    """Also where there was no home: it would end every first start."""
    site = installed(tmp_path / "site", "odd", "import os\nos._exit(9)")
    machine, home = Machine(tmp_path / "machine", [site]), tmp_path / "none" / "home"
    codes = [machine.claw("tools", "list", CLAW_HOME=str(home)).code for _ in range(3)]
    assert codes == [9, 9, 0]


def test_doctor_names_the_tables_of_every_plugin_that_lack_a_column(tmp_path: Path) -> None:
    """Those that are declared as a plugin registers, later, by claw itself, and by a plugin of a third party."""
    body = plugin_code("tide") + (
        "\n\n@hookimpl\ndef register_filters(config):\n"
        "    config.database.tables('tides', 'CREATE TABLE IF NOT EXISTS tides (at INTEGER, height REAL)')\n"
        "    return []\n"
    )
    machine = Machine(tmp_path / "machine", [installed(tmp_path / "site", "tides", body)])
    machine.configured("channels: {http: {token: abcdefghijklmnopqrstuvwxyz0123456789}}")
    tables = {
        "approvals": "verdict", "spending": "nanos", "keys": "body", "sessions": "agent", "owed": "why",
        "pairing_requests": "denied", "pairing_people": "since_ms", "gateway_runs": "body", "overrides": "chosen",
        "http_sessions": "until_ms", "http_calls": "options", "http_lost": "lost_at_ms", "tides": "height",
    }  # fmt: skip
    with closing(sqlite3.connect(machine.home / "state.db")) as state:
        for table in tables:
            state.execute(f"CREATE TABLE {table} (other TEXT)")
        state.commit()

    answer = said(machine, "doctor")

    for table, column in tables.items():
        assert column in answer.partition(f"its table {table} has no ")[2].partition(":")[0], table
    with closing(sqlite3.connect(machine.home / "state.db")) as state:
        found = {name for (name,) in state.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert found - {*tables} <= {"plugin_failures"}  # the checks change nothing


def test_a_state_whose_tables_lack_a_column_is_named_by_doctor_and_by_each_command_that_needs_it(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path / "machine")
    with closing(sqlite3.connect(machine.home / "state.db")) as state:
        state.execute("CREATE TABLE turns (turn TEXT PRIMARY KEY, session_key TEXT)")
        state.commit()
    wrong = "It is not as this version of claw needs it: use the version that wrote it, or move it elsewhere"

    doctor = machine.claw("doctor")
    assert doctor.code == 1
    assert (
        "state.db: its table turns has no began_at_ms, ended_at_ms, outcome" in doctor.out
        and wrong in doctor.out
    )
    for words in (("chat", "hi"), ("turns", "list"), ("gateway", "run")):
        answer = machine.claw(*words)
        assert answer.code and wrong in answer.err and "Traceback" not in answer.err, words

    (machine.home / "state.db").unlink()
    assert machine.claw("chat", "hi").code == 0
    assert "state.db: its table" not in machine.claw("doctor").out
