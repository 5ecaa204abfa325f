"""Hooks: the order in which answers are asked, and the slots of which one answer is in force."""

import json
import subprocess
import sys
from typing import Any

import pytest
from claw import CallContext, Review, hookimpl
from claw.contracts.errors import ConfigError
from claw.testing import FakeProvider, FakeTool, Harness, calls, says
from third_party import Machine, installed


class Reviewer:
    """Record that it was asked, and the view of the call."""

    def __init__(self, name: str, asked: list[str], position: float | None = None) -> None:
        self.name, self.asked, self.contexts = name, asked, list[CallContext]()
        if position is not None:
            self.position = position

    def before(self, call: Any, context: CallContext) -> Review | None:
        self.asked.append(self.name)
        self.contexts.append(context)
        return None

    def after(self, call: Any, result: Any, context: CallContext) -> None:
        self.contexts.append(context)


def plugin(hook: str, *answers: Any, **marks: bool) -> Any:
    """A plugin that answers one hook."""
    made = type("Plugin", (), {})()

    @hookimpl(**marks)
    def answer(config: Any) -> list[Any]:
        return list(answers)

    setattr(made, hook, answer)
    return made


class Engine:
    """A context engine that shows everything."""

    def __init__(self, name: str) -> None:
        self.name = name

    def wrap(self, call: Any, turn: Any) -> Any:
        return call

    async def compact(self, turn: Any, focus: str) -> str:
        return ""

    async def before_reset(self, turn: Any) -> None: ...


async def test_reviewers_are_asked_by_position_then_by_plugin_id_and_marks_come_before_positions():
    asked: list[str] = []
    plugins = {
        "zeta": plugin("register_reviewers", Reviewer("first by position", asked, 5)),
        "beta": plugin("register_reviewers", Reviewer("b", asked)),
        "alpha": plugin("register_reviewers", Reviewer("a", asked)),
        "late": plugin("register_reviewers", Reviewer("last", asked, 0), trylast=True),
        "early": plugin("register_reviewers", Reviewer("early", asked, 900), tryfirst=True),
    }
    model = FakeProvider(calls("look"), says("done"))
    async with Harness(model, tools=[FakeTool("look")], plugins=plugins) as harness:
        await harness.send("go")
    assert asked == ["early", "first by position", "a", "b", "last"]


async def test_a_reviewer_learns_who_calls_what_and_what_the_model_has_read():
    judge = Reviewer("judge", [])
    model = FakeProvider(calls("fetch"), calls("look"), says("done"))
    tools = [FakeTool("fetch"), FakeTool("look", effects="once", owner_only=True)]
    async with Harness(model, tools=tools, plugins={"judge": plugin("register_reviewers", judge)}) as harness:
        await harness.send("go")
    [before_fetch, _, before_look, after_look] = judge.contexts
    assert before_fetch.session_key and before_fetch.turn and before_fetch.address.channel == "terminal"
    assert before_fetch.owner and before_fetch.agent == "default"
    assert before_fetch.provenance == frozenset() and before_look.provenance == {"fetch"}
    assert before_look.tool and (before_look.tool.plugin, before_look.tool.effects) == ("acme", "once")
    assert before_look.tool.owner_only and after_look.turn == before_fetch.turn


async def test_the_file_chooses_the_answer_of_a_slot_by_plugin_or_by_name():
    plugins = {
        "alpha": plugin("register_context_engines", Engine("plain")),
        "beta": plugin("register_context_engines", Engine("clever")),
    }
    for chosen in ("beta", "clever"):
        config = {"plugins": {"slots": {"context": chosen}}}
        async with Harness(FakeProvider(), plugins=plugins, config=config) as harness:
            assert harness.app.registry.engine.plugin == "beta"


async def test_without_a_choice_a_third_party_does_not_displace_the_answer_of_claw():
    for mark in ({}, {"tryfirst": True}):
        plugins = {"alpha": plugin("register_context_engines", Engine("plain"), **mark)}
        async with Harness(FakeProvider(), plugins=plugins) as harness:
            assert harness.app.registry.engine.plugin == "context"
            [line] = [line for line in harness.log_lines if "plugins.slots.context" in line]
            assert "alpha" in line and "plugin context is used" in line


async def test_without_a_choice_and_without_claws_own_the_first_in_order_is_in_force():
    plugins = {
        "alpha": plugin("register_context_engines", Engine("plain")),
        "beta": plugin("register_context_engines", Engine("clever")),
    }
    without = {"plugins": {"entries": {"context": {"enabled": False}}}}
    async with Harness(FakeProvider(), plugins=plugins, config=without) as harness:
        assert harness.app.registry.engine.plugin == "alpha"
        assert any("plugins.slots.context" in line and "beta" in line for line in harness.log_lines)
    async with Harness(FakeProvider(), plugins={"beta": plugins["beta"]}, config=without) as harness:
        assert harness.app.registry.engine.plugin == "beta"
        assert not any("plugins.slots" in line for line in harness.log_lines)


async def test_a_slot_that_names_nobody_stops_the_start_with_its_key():
    plugins = {"alpha": plugin("register_context_engines", Engine("plain"))}
    harness = Harness(FakeProvider(), plugins=plugins, config={"plugins": {"slots": {"context": "gamma"}}})
    with pytest.raises(ConfigError, match="gamma") as wrong:
        _ = harness.app
    assert wrong.value.where == "plugins.slots.context" and "alpha" in (wrong.value.fix or "")


def test_hooks_list_shows_every_hook_with_who_answers_in_order(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "claw", "hooks", "list", "--json"],
        env={"CLAW_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    listed = {one["hook"]: one for one in json.loads(done.stdout)["hooks"]}
    sections = listed["register_prompt_sections"]["answers"]
    assert [one["position"] for one in sections] == sorted(one["position"] for one in sections)
    assert listed["register_context_engines"]["slot"] == "context"
    assert "read" in [one["name"] for one in listed["register_tools"]["answers"]]


WINDOW = """
from claw import hookimpl

class Engine:
    name, position = "window", 7

    def wrap(self, call, turn):
        return call

    async def compact(self, turn, focus):
        return ""

    async def before_reset(self, turn):
        pass

class Mirror:
    def on_event(self, event):
        pass

@hookimpl(tryfirst=True)
def register_context_engines(config):
    return [Engine()]

@hookimpl
def register_observers(config):
    return [Mirror()]
"""


@pytest.fixture
def machine(tmp_path):
    """A machine with a second context engine, whose plugin id comes first."""
    manifest = {"kinds": ["context", "observer"], "observers": ["mirror"]}
    return Machine(tmp_path, [installed(tmp_path / "site", "acme", WINDOW, manifest)])


def test_doctor_and_hooks_list_name_both_plugins_of_a_slot_until_one_is_chosen(machine):
    findings = json.loads(machine.claw("doctor", "--json").out)["findings"]
    [found] = [one for one in findings if one["kind"] == "slot"]
    assert found["about"] == "acme" and "context" in found["problem"]
    assert "plugins.slots.context context" in found["mend"]
    listed = json.loads(machine.claw("hooks", "list", "--json").out)["hooks"]
    [engines] = [one["answers"] for one in listed if one["hook"] == "register_context_engines"]
    assert {one["plugin"]: one["inForce"] for one in engines} == {"acme": False, "context": True}

    machine.configured("plugins: {slots: {context: window}}")
    findings = json.loads(machine.claw("doctor", "--json").out)["findings"]
    assert [one for one in findings if one["kind"] == "slot"] == []


def test_a_slot_that_names_nobody_is_an_error_of_the_file_on_every_surface_before_a_start(machine):
    machine.configured("locale: en\nplugins: {slots: {context: windoww, models: none}}")
    near, far = (
        f"config.yaml:2: plugins.slots.{slot}: no active plugin provides" for slot in ("context", "models")
    )

    for words in (("config", "validate"), ("channels", "status"), ("doctor",)):
        said = machine.claw(*words)
        [one] = [line for line in (said.out + said.err).splitlines() if f"{near} windoww" in line]
        [other] = [line for line in (said.out + said.err).splitlines() if f"{far} none" in line]
        assert "Did you mean window?" in one and "choose one of: failover, models" in other, words
    assert machine.claw("config", "validate").code == 3
    assert machine.claw("chat", "hello").err.startswith("claw: plugins.slots.")
    assert f"{near} wind " in machine.claw("config", "set", "plugins.slots.context", "wind").err


def test_plugins_info_shows_order_position_and_slot_of_each_contribution(machine):
    info = json.loads(machine.claw("plugins", "info", "acme", "--json").out)
    assert info["contributions"] == [
        {
            "hook": "register_context_engines", "name": "window", "order": 1, "position": 7, "slot": "context",
            "inForce": False,
        },
        {
            "hook": "register_observers", "name": "Mirror", "order": 1, "position": 100, "slot": "",
            "inForce": True,
        },
    ]  # fmt: skip
    text = machine.claw("plugins", "info", "acme").out
    assert "register_context_engines: window, order 1, position 7, plugins.slots.context: inactive" in text
    assert "register_observers: Mirror, order 1, position 100" in text


def test_plugins_info_of_a_plugin_that_is_not_in_use_imports_nothing(machine):
    machine.configured("plugins: {entries: {acme: {enabled: false}}}")
    info = json.loads(machine.claw("plugins", "info", "acme", "--json").out)
    assert info["state"] == "disabled" and info["contributions"] == []
