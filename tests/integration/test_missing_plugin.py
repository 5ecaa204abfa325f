"""Claw with all of its first-party distributions but one: a feature less, said plainly, and never a guard less."""

import json
import sys
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from claw.runtime import CURRENT_LINK, LAYERS_FOLDER, LOCK_FILE, METADATA_FILE
from environments import Environment, closure_of, needs_of, projects
from integration import guard_run
from integration.gateways import CHANNEL, until
from third_party import installed

CASES = sorted(set(projects()) - {"claw-core"})
LIBRARIES = {
    "claw-channel-sdk",
    "claw-config-sdk",
    "claw-http-sdk",
    "claw-provider-sdk",
    "claw-testing",
    "claw-tool-sdk",
}


@dataclass(frozen=True)
class Absence:
    """A command that uses a plugin that is not installed.

    :param words: the command; its output names the distribution.
    :param config: added to the config file.
    """

    words: tuple[str, ...]
    config: dict[str, Any]


def _typed(*words: str, **config: Any) -> Absence:
    return Absence(words, config)


ABSENT = {
    "claw-admin": _typed("status"),
    "claw-anthropic": _typed("config", "validate", providers={"anthropic": {"apiKey": "k"}}),
    "claw-approvals": _typed("approvals", "list"),
    "claw-author": _typed("plugins", "new", "acme"),
    "claw-budgets": _typed("config", "validate", budgets={"day": {"usd": 1, "per": "day"}}),
    "claw-context": _typed("sessions", "compact"),
    "claw-discord": _typed("config", "validate", channels={"discord": {"token": "t"}}),
    "claw-feishu": _typed("config", "validate", channels={"feishu": {"appId": "a", "appSecret": "s"}}),
    "claw-gateway": _typed("gateway", "status"),
    "claw-google": _typed("config", "validate", providers={"google": {"apiKey": "k"}}),
    "claw-http": _typed("config", "validate", channels={"http": {}}),
    "claw-llm-bridge": _typed("llm-bridge", "list"),
    "claw-local": _typed("local", "setup"),
    "claw-loop-guard": _typed("config", "validate", tools={"loopDetection": {"enabled": True}}),
    "claw-mcp": _typed("mcp", "list"),
    "claw-memory-search": _typed("memory", "search", "x"),
    "claw-mistral": _typed("config", "validate", providers={"mistral": {"apiKey": "k"}}),
    "claw-models": _typed("models", "list"),
    "claw-offline": _typed("chat", "hello", agents={}),
    "claw-openai": _typed("config", "validate", providers={"openai": {"apiKey": "k"}}),
    "claw-prompt": _typed("prompt", "show"),
    "claw-prompted-tools": _typed(
        "config", "validate", providers={"scripted": {"models": {"m1": {"tools": "prompt"}}}}
    ),
    "claw-sandbox": _typed(
        "chat", "hello", agents={"defaults": {"model": "scripted/m1", "sandbox": {"mode": "all"}}}
    ),
    "claw-sessions": _typed("sessions", "list"),
    "claw-skills": _typed("skills", "list"),
    "claw-telegram": _typed("config", "validate", channels={"telegram": {"token": "1:x"}}),
    "claw-terminal": _typed("chat", "/status"),
    "claw-tools-std": _typed("tools", "explain", "read"),
}
"""For each plugin: a use of it that must be answered with the name of the package."""


def _config(home: Path, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "agents": {"defaults": {"model": "scripted/m1", "workspace": str(home / "work")}},
        "tools": {"deny": ["forbidden"]},
        **more,
    }


MARKED = """
from pathlib import Path
from claw import hookimpl, tool

@tool
def {name}() -> str:
    \"""Note that it ran.\"""
    with open(Path.home() / "ran.txt", "a") as file:
        file.write("{name}\\n")
    return "{name} ran"

@hookimpl
def register_tools(config):
    return [{name}]
"""


def _record(folder: Path, package: str) -> str:
    """Write the RECORD of a distribution, as pip does; return its hash."""
    digests = {
        path: urlsafe_b64encode(sha256(path.read_bytes()).digest()).decode().rstrip("=")
        for path in sorted((folder / package).iterdir())
    }
    record = folder / f"{package}-1.0.dist-info" / "RECORD"
    record.write_text(
        "".join(f"{path.relative_to(folder)},sha256={one},1\n" for path, one in digests.items())
    )
    return sha256(record.read_bytes()).hexdigest()


def _add_layer(home: Path) -> None:
    """Install two plugins as ``claw plugins install`` does, write a lock, and change a file of the second one."""
    layer = home / LAYERS_FOLDER / f"1-{sys.implementation.cache_tag}"
    records = {}
    for name in ("layered", "changed"):
        parameters = {"type": "object", "properties": {}}
        tools = [{"name": name, "description": "Note that it ran.", "parameters": parameters}]
        installed(layer, name, MARKED.format(name=name), {"kinds": ["tool"], "tools": tools})
        records[f"stranger-{name}"] = _record(layer, f"stranger_{name}")
    (layer / METADATA_FILE).write_text(json.dumps({"records": records}))
    (home / LAYERS_FOLDER / CURRENT_LINK).symlink_to(layer.name)
    rows = "".join(f'{name} = "{digest}"\n' for name, digest in records.items())
    (home / LOCK_FILE).write_text(f"[tool.claw.records]\n{rows}")
    (layer / "stranger_changed" / "__init__.py").write_text(MARKED.format(name="changed") + "# more\n")


def _served(environment: Environment) -> list[str]:
    """Start the gateway, write two messages into the channel ``post``, stop it; return the answers."""
    folder = environment.home / "post"
    started = environment.claw("gateway", "start")
    assert started.returncode == 0, started.stdout + started.stderr
    try:
        answers: list[str] = []
        for number, text in enumerate(("call harmless {}", "call forbidden {}"), 1):
            (folder / f"part-{number}").write_text(text)
            (folder / f"part-{number}").rename(folder / f"in-{number}")
            until(lambda count=number: len(answers_of(folder)) >= count, 30)
        answers = answers_of(folder)
    finally:
        environment.claw("gateway", "stop")
    return answers


def answers_of(folder: Path) -> list[str]:
    return (folder / "out").read_text().splitlines() if (folder / "out").exists() else []


@pytest.fixture(scope="module")
def post(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A third-party channel: a folder of messages."""
    code = CHANNEL.replace("{body}", "pass").replace("{more}", "")
    return installed(
        tmp_path_factory.mktemp("post"), "post", code, {"kinds": ["channel"], "channels": ["post"]}
    )


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A third-party plugin whose model calls the given tool."""
    return installed(tmp_path_factory.mktemp("scripted"), "scripted", guard_run.PLUGIN, guard_run.MANIFEST)


@dataclass(frozen=True)
class Run:
    """One case: the environment without a distribution, and what ``guard_run.py`` found in it."""

    name: str
    environment: Environment
    facts: dict[str, Any]

    @property
    def plugins(self) -> dict[str, dict[str, Any]]:
        code, out, err = self.facts["plugins"]
        assert code == 0, err
        return {plugin["id"]: plugin for plugin in json.loads(out)["plugins"]}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in CASES]
)
def run(
    request: pytest.FixtureRequest, scripted: Path, post: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """Claw used once without one distribution."""
    name = request.param
    others = [scripted, post]
    environment = Environment(tmp_path_factory.mktemp("without"), set(projects()) - {name}, others)
    (environment.home / "work").mkdir()
    (environment.home / "post").mkdir()
    (environment.home / "work" / "AGENTS.md").write_text("Be kind.\n")
    channel = {"folder": str(environment.home / "post"), "dmPolicy": "allowlist", "allowFrom": ["ann"]}
    more = {"providers": {"scripted": {"apiKey": guard_run.SECRET}}, "channels": {"post": channel}}
    environment.configure(_config(environment.home, more))
    _add_layer(environment.home / ".claw")
    done = environment.run(guard_run.__file__)
    assert done.returncode == 0, done.stderr
    return Run(name, environment, json.loads(done.stdout))


def test_a_turn_is_answered_and_its_tool_runs(run: Run) -> None:
    assert run.facts["answer"] == "harmless ran"
    assert "harmless" in run.facts["ran"]


def test_what_policy_denies_does_not_run(run: Run) -> None:
    assert "tools.deny" in run.facts["denied"]
    assert "forbidden" not in run.facts["ran"]


def test_a_call_that_needs_a_person_is_refused(run: Run) -> None:
    assert run.facts["unapproved"]
    assert "risky" not in run.facts["ran"]


def test_the_workspace_fence_holds(run: Run) -> None:
    assert "outside" in run.facts["fence"]
    assert not run.facts["outside"]


def test_rule_files_stay_as_they_are(run: Run) -> None:
    """Both tools ran; what they wrote is gone, and the model was given the name of the file."""
    assert {"put", "bypass"} <= set(run.facts["ran"])
    assert run.facts["rulesAfter"] == "Be kind.\n"
    assert "AGENTS.md" in run.facts["rules"]
    assert "AGENTS.md" in run.facts["bypass"]


def test_secrets_are_masked(run: Run) -> None:
    assert run.facts["secret"] == "The key is ***."


def test_a_person_who_is_not_allowed_is_not_admitted(run: Run) -> None:
    assert run.facts["admitted"] is False


def test_a_plugin_of_the_layer_runs_and_a_changed_one_does_not(run: Run) -> None:
    assert run.facts["layer"] == "layered ran"
    assert "changed" not in run.facts["ran"]
    changed = run.plugins["changed"]
    assert (changed["state"], changed["stage"]) == ("quarantined", "integrity"), changed


def test_the_gateway_answers_and_its_policy_holds(run: Run) -> None:
    if run.name == "claw-gateway" or run.name in needs_of("claw-gateway"):
        pytest.skip("the gateway comes with it")
    answer, denied = _served(run.environment)
    assert answer == "harmless ran"
    assert "tools.deny" in denied
    assert "forbidden" not in (run.environment.home / "ran.txt").read_text()


def test_every_other_plugin_works_unless_it_needs_the_absent_one(run: Run) -> None:
    """One whose distribution depends on the absent one may be quarantined, with the reason."""
    distributions = {plugin["distribution"]: plugin for id, plugin in run.plugins.items() if id != "changed"}
    assert run.name not in distributions
    for name, plugin in distributions.items():
        if plugin["state"] not in ("loaded", "idle"):
            assert plugin["state"] == "quarantined"
            assert run.name in closure_of([name]), plugin
            assert run.name.replace("-", "_") in plugin["why"], plugin


def test_doctor_reports_on_the_rest(run: Run) -> None:
    if run.name == "claw-admin" or run.name in needs_of("claw-admin"):
        pytest.skip("doctor comes with it, or needs it")
    code, out, err = run.facts["doctor"]
    broken = {name for name, plugin in run.plugins.items() if plugin["state"] == "quarantined"}
    wrong = {one["about"]: one["problem"] for one in json.loads(out)["findings"] if one["grave"]}
    assert (code, err) == (1 if wrong else 0, ""), out
    assert broken <= set(wrong), out
    del wrong["changed"]
    for problem in wrong.values():  # of a plugin that is loaded at its first use, only doctor knows
        assert run.name in problem.replace("_", "-"), out


@pytest.mark.parametrize("name", sorted(set(CASES) - LIBRARIES))
def test_whoever_uses_the_absent_plugin_reads_which_package_provides_it(
    name: str, scripted: Path, tmp_path: Path
) -> None:
    used = ABSENT[name]
    environment = Environment(tmp_path, set(projects()) - {name}, [scripted])
    environment.configure(_config(environment.home, used.config))

    done = environment.claw(*used.words)

    said = done.stdout + done.stderr
    assert "broke" not in said
    assert name in said


def test_the_fakes_for_tests_say_which_package_provides_them(tmp_path: Path) -> None:
    environment = Environment(tmp_path, set(projects()) - {"claw-testing"})
    done = environment.run("-c", "from claw.testing import Harness")
    assert done.returncode == 1
    assert "pip install pytest-claw" in done.stderr


def test_an_upgrade_names_all_distributions_that_are_released_together(tmp_path: Path) -> None:
    environment = Environment(tmp_path, projects())
    done = environment.claw("upgrade")
    assert done.returncode == 0, done.stderr
    for name in ("claw-core", "claw-admin", "claw-gateway", "claw-telegram"):
        assert name in done.stdout
