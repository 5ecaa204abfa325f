"""``claw doctor`` asks the diagnostics of plugins, in order, and an error in one is a finding about its plugin."""

import json
from pathlib import Path
from typing import Any

import pytest
from environments import Environment, projects
from third_party import Machine, installed

CODE = """
from claw import Finding, hookimpl

class Acme:
    name = "acme-lamp"
    {members}
    {check}

@hookimpl
def register_diagnostics(config):
    return [Acme()]
"""
MANIFEST = {"kinds": ["diagnostic"]}
LAMP = "def check(self, context): return [Finding('lamp', 'dark', f'out, online {context.online}', 'replace it')]"


def a_machine(
    tmp_path: Path,
    check: str = LAMP,
    members: str = "",
    config: str = "",
    manifest: dict[str, Any] = MANIFEST,
) -> Machine:
    site = tmp_path / "site"
    site.mkdir()
    code = CODE.format(check=check, members=members)
    machine = Machine(tmp_path, [installed(site, "acme", code, manifest)])
    machine.home.chmod(0o700)
    if config:
        machine.configured(config)
        (machine.home / "config.yaml").chmod(0o600)
    return machine


def findings(machine: Machine, *words: str) -> tuple[int, list[dict[str, Any]]]:
    result = machine.claw("doctor", "--json", *words)
    return result.code, [
        one for one in json.loads(result.out)["findings"] if one["about"] in ("lamp", "acme")
    ]


@pytest.mark.parametrize("check", [LAMP, f"async {LAMP}"])
def test_what_a_third_party_finds_is_reported(tmp_path, check):
    code, [one] = findings(a_machine(tmp_path, check))
    assert (code, one["about"], one["kind"], one["grave"]) == (1, "lamp", "dark", True)
    assert (one["problem"], one["mend"]) == ("out, online False", "replace it")


@pytest.mark.parametrize(
    ("check", "result"),
    [
        ("def check(self, context): raise RuntimeError('the lamp fell')", "the lamp fell"),
        ("async def check(self, context): raise SystemExit('the lamp fell')", "the lamp fell"),
        ("def check(self, context): return 7", "int"),
    ],
)
def test_a_check_that_raises_is_a_finding_about_its_plugin_and_the_others_are_asked(tmp_path, check, result):
    config = "channels: {http: {}}\ngateway: {bind: 192.0.2.1, auth: {token: abcdefghijklmnop1234}}\n"
    machine = a_machine(tmp_path, check, config=config)

    code, [one] = findings(machine)

    assert (code, one["about"], one["kind"]) == (1, "acme", "check")
    assert "acme-lamp" in one["problem"] and result in one["problem"]
    others = json.loads(machine.claw("doctor", "--json").out)["findings"]
    assert "port" in [one["kind"] for one in others], "that of claw-http"


DARK = "def check_config(self, setup): return [Finding('tools.allow', 'dark', 'no lamp', 'Buy one', False)]"
ALLOW = "locale: en\ntools: {allow: [group:fs]}\n"


def test_what_a_third_party_finds_in_the_file_is_a_warning_with_its_line(tmp_path):
    machine = a_machine(tmp_path, members=DARK, config=ALLOW)
    assert "config.yaml:2: tools.allow: no lamp. Buy one" in machine.claw("config", "validate").err
    assert "no lamp" not in machine.claw("chat", "hello").err


def test_one_that_checks_the_file_at_every_start_is_asked_by_a_chat_too(tmp_path):
    machine = a_machine(tmp_path, members=DARK, config=ALLOW, manifest=MANIFEST | {"configChecks": True})
    for words in (("config", "validate"), ("chat", "hello"), ("channels", "status")):
        lines = [line for line in machine.claw(*words).err.splitlines() if "no lamp" in line]
        assert len(lines) == 1, words
        assert lines[0].endswith("config.yaml:2: tools.allow: no lamp. Buy one")


@pytest.mark.parametrize(
    ("check", "result"),
    [
        ("raise RuntimeError('the lamp fell')", "the lamp fell"),
        ("raise SystemExit('the lamp fell')", "the lamp fell"),
        ("return 7", "int"),
        ("return ['dark']", "str"),
        ("import time; time.sleep(60)", "within 10 s"),
    ],
)
def test_a_check_of_the_file_that_fails_is_named_and_the_others_are_asked(tmp_path, check, result):
    members = f"def check_config(self, setup): {check}"
    config = ALLOW + "sandbox: {mode: all}\nplugins: {deny: [sandbox]}\n"
    machine = a_machine(tmp_path, members=members, config=config, manifest=MANIFEST | {"configChecks": True})

    validated, chat = machine.claw("config", "validate"), machine.claw("chat", "hello")

    assert validated.code == 1
    for said in (validated.err, chat.err):
        [line] = [line for line in said.splitlines() if "acme-lamp" in line]
        assert "acme: its check acme-lamp failed: " in line and result in line
        assert "sandbox.mode: every turn is refused" in said, "that of claw-admin"


def test_a_plugin_that_does_not_load_is_a_finding(tmp_path):
    machine = a_machine(tmp_path)
    (machine.path[0] / "stranger_acme" / "__init__.py").write_text("raise RuntimeError('no wire')\n")
    code, [one] = findings(machine)
    assert (code, one["about"], one["kind"], "no wire" in one["problem"]) == (1, "acme", "import", True)


def test_a_plugin_that_the_operator_keeps_out_is_not_asked(tmp_path):
    assert findings(a_machine(tmp_path, config="plugins: {deny: [acme]}\n")) == (0, [])


def test_no_plugin_is_asked_while_the_config_is_wrong(tmp_path):
    machine = a_machine(tmp_path, config="tools: {alow: [read]}\n")
    assert findings(machine) == (1, [])
    assert "wait for a valid config file" in machine.claw("doctor").out


def test_for_a_channel_only_the_checks_of_channels_are_asked(tmp_path):
    config = "channels: {telegram: {token: '1:x', enabled: false}}\n"
    assert findings(a_machine(tmp_path, config=config), "telegram")[1] == []


def test_a_check_of_channels_gets_the_name_of_the_channel(tmp_path):
    check = "def check(self, context): return [Finding('lamp', 'seen', context.channel)]"
    machine = a_machine(tmp_path, check, "subject = 'channels'", "channels: {telegram: {enabled: false}}\n")
    assert [one["problem"] for one in findings(machine, "telegram")[1]] == ["telegram"]


def test_a_plugin_adds_facts_to_the_status_and_replaces_none(tmp_path):
    members = "def status(self, context): return {'lamp': 'dark', 'home': 'elsewhere'}"
    machine = a_machine(tmp_path, members=members)
    result = machine.claw("status").out
    assert "lamp: dark\n" in result and f"home: {machine.home}\n" in result


def test_doctor_and_status_leave_the_home_as_it_is(tmp_path):
    machine = a_machine(tmp_path)
    before = sorted(machine.home.rglob("*"))
    findings(machine)
    machine.claw("status")
    assert {path.relative_to(machine.home).parts[0] for path in {*machine.home.rglob("*")} - {*before}} <= {
        "cache"
    }


def test_without_the_gateway_a_channel_cannot_be_checked_and_the_package_is_named(tmp_path):
    environment = Environment(tmp_path, set(projects()) - {"claw-gateway"})
    assert "claw-gateway" in environment.claw("doctor", "telegram").stderr
    assert json.loads(environment.claw("doctor", "--json").stdout)["kind"] == "doctor"


def test_without_claw_admin_the_file_is_judged_and_the_package_that_finds_more_is_named(tmp_path):
    environment = Environment(tmp_path, set(projects()) - {"claw-admin"})
    environment.configure({"tools": {"allow": []}, "owners": ["bob"]})

    validated, chat = environment.claw("config", "validate"), environment.claw("chat", "hello")

    assert (validated.returncode, "pip install claw-admin" in validated.stderr) == (2, True)
    assert (chat.returncode, chat.stderr) == (0, "")
    environment.configure({"agents": {"list": [{"id": "a"}, {"id": "a"}]}})
    assert environment.claw("chat", "hello").returncode == 3, "a guard stays"
