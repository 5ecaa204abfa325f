"""Claw with all of its first-party distributions but one: a feature less, said plainly, and never a guard less."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from environments import Environment, closure_of, needs_of, projects
from integration import guard_run
from third_party import installed

REQUIRED = frozenset(needs_of("claw-core"))
"""Distributions that core depends on. What is in it for a while only (core/pyproject.toml) fails as expected below."""
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
    "claw-sessions": _typed("sessions", "list"),
    "claw-skills": _typed("skills", "list"),
    "claw-telegram": _typed("config", "validate", channels={"telegram": {"token": "1:x"}}),
    "claw-tools-std": _typed("tools", "explain", "read"),
}
"""For each plugin: a use of it that must be answered with the name of the package."""


def _still_required(name: str) -> Any:
    reason = "core still imports it"
    return pytest.param(
        name, marks=[pytest.mark.xdist_group(name), pytest.mark.xfail(name in REQUIRED, reason=reason)]
    )


def _config(home: Path, more: dict[str, Any]) -> dict[str, Any]:
    return {
        "agents": {"defaults": {"model": "scripted/m1", "workspace": str(home / "work")}},
        "tools": {"deny": ["forbidden"]},
        **more,
    }


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


@pytest.fixture(scope="module", params=[*map(_still_required, CASES)])
def run(request: pytest.FixtureRequest, scripted: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Claw used once without one distribution."""
    name = request.param
    environment = Environment(tmp_path_factory.mktemp("without"), set(projects()) - {name}, [scripted])
    (environment.home / "work").mkdir()
    (environment.home / "work" / "AGENTS.md").write_text("Be kind.\n")
    environment.configure(
        _config(environment.home, {"providers": {"scripted": {"apiKey": guard_run.SECRET}}})
    )
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


def test_every_other_plugin_works_unless_it_needs_the_absent_one(run: Run) -> None:
    """One whose distribution depends on the absent one may be quarantined, with the reason."""
    distributions = {plugin["distribution"]: plugin for plugin in run.plugins.values()}
    assert run.name not in distributions
    for name, plugin in distributions.items():
        if plugin["state"] not in ("loaded", "idle"):
            assert plugin["state"] == "quarantined"
            assert run.name in closure_of([name]), plugin
            assert run.name.replace("-", "_") in plugin["why"], plugin


def test_doctor_reports_on_the_rest(run: Run) -> None:
    if run.name == "claw-admin":
        pytest.skip("doctor comes with it")
    if run.name in needs_of("claw-admin"):
        pytest.xfail("claw-admin depends on it")
    code, out, err = run.facts["doctor"]
    broken = {name for name, plugin in run.plugins.items() if plugin["state"] == "quarantined"}
    wrong = {one["about"]: one["problem"] for one in json.loads(out)["findings"] if one["grave"]}
    assert (code, err) == (1 if wrong else 0, ""), out
    assert broken <= set(wrong), out
    for problem in wrong.values():  # of a plugin that is loaded at its first use, only doctor knows
        assert run.name in problem.replace("_", "-"), out


@pytest.mark.parametrize("name", [*map(_still_required, sorted(set(CASES) - LIBRARIES))])
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
