"""One judgement of the config file: ``config validate``, ``doctor``, ``config set``, ``gateway start`` and ``channels
status`` say the same of it.
"""

import json
from pathlib import Path

import pytest
from claw.cli.main import app
from typer.testing import CliRunner, Result


def claw(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "claw"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("CLAW_HOME", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


def configured(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text, encoding="utf-8")
    (home / "config.yaml").chmod(0o600)


ERROR, PROBLEM, NOTE = "error", "problem", "note"
"""An error: the file is refused. A problem: something does not work. A note: something has no effect."""

CASES = [
    ("providers: {openai: {baseUrl: sk-not-a-url}}", "providers.openai.baseUrl", PROBLEM, "not an HTTP address"),
    ("providers: {openai: {baseUrl: 'ftp://x/y'}}", "providers.openai.baseUrl", PROBLEM, "not an HTTP address"),
    ("providers: {openai: {baseUrl: 'http://'}}", "providers.openai.baseUrl", PROBLEM, "not an HTTP address"),
    ("providers: {acme: {apiKey: x}}", "providers.acme", NOTE, "no installed plugin provides"),
    ("channels: {acme: {}}", "channels.acme", NOTE, "no installed plugin provides"),
    ("plugins: {entries: {nix: {}}}", "plugins.entries.nix", NOTE, "not installed"),
    ("models: {aliases: {m: a/b}}\nmodel: {primary: m, fallbacks: [a/b]}", "model.fallbacks[0]", NOTE, "no fallback"),
    ("tools: {allow: []}", "tools.allow", NOTE, "restricts nothing"),
    ("tools: {allow: [raed]}", "tools.allow[0]", NOTE, "Did you mean read?"),
    ("tools: {deny: [dangerous_tool]}", "tools.deny[0]", NOTE, "claw tools list --all"),
    ("sandbox: {mode: all}", "sandbox.mode", PROBLEM, "every turn is refused"),
    ("agents: {list: [{id: a, sandbox: {mode: all}}]}", "agents.list[0].sandbox.mode", PROBLEM, "a sandbox"),
    ("sandbox: {mode: all, backend: docker}", "sandbox.mode", PROBLEM, "the sandbox docker"),
    ("cron: {jobs: [{id: a, schedule: '0 9 * * *'}]}", "cron", NOTE, "not built yet"),
    ("agents: {list: [{id: ../evil}]}", "agents.list[0].id", ERROR, "is a path"),
    ("channels: {acme: {enabled: 'yes'}}", "channels.acme.enabled", ERROR, "true or false"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "severity", "said"), CASES, ids=[one[0] for one in CASES])
def test_validate_and_doctor_say_the_same(home: Path, text: str, key: str, severity: str, said: str) -> None:
    configured(home, text)

    validated, checked = claw("config", "validate", "--json"), claw("doctor", "--json")

    judged = json.loads(validated.stdout)
    warnings = {one["key"]: f"{one['problem']}. {one['fix']}" for one in judged["warnings"]}
    errors = {one["key"]: f"{one['problem']}. {one['fix']}" for one in judged["errors"]}
    assert said in (errors if severity == ERROR else warnings)[key]
    assert validated.exit_code == (3 if severity == ERROR else 0)
    findings = [one for one in json.loads(checked.stdout)["findings"] if one["kind"] == "config"]
    assert [one["about"].partition(": ")[2].partition(" ")[0] for one in findings] == [*errors, *warnings]
    [found] = [one for one in findings if one["about"].partition(": ")[2].partition(" ")[0] == key]
    assert said in f"{found['problem']}. {found['mend']}"
    assert found["grave"] is (severity != NOTE)
    assert checked.exit_code == 1 or severity == NOTE
