"""Explain: for every gate, layer and cause, what is said to stand in the way does, and the printed edit is true.

Each case is a file that takes one tool away. Explain must name the stage; carrying out the edits it prints, on the file
itself, must make the tool appear or move the answer to a later stage, and must let no other tool through.
"""

import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from claw import i18n
from claw.config.loader import Config
from claw.config.summary import plugins_that_bring
from claw.contracts.messages import Sender
from claw.host.manifest import InstalledPlugin, Manifest, ToolDeclaration
from claw.host.state import PluginState
from claw.policy.catalog import CORE_TOOLS, PROFILES
from claw.policy.decision import Judgement
from claw.policy.engine import CLOSING_CHECKS, resolve_tools
from claw.policy.layers import LAYERS
from claw.policy.subjects import RunFacts, ToolFact, tool_fact
from claw_admin.policy.explain import Explanation, JudgedTools, explain_tool
from claw_admin.policy.fixes import PLACEHOLDER, ConfigEdit
from claw_config_sdk import parse_value, set_value, unset_value
from config_files import load_config
from hypothesis import HealthCheck, given, settings, strategies as st

STAGES = ("optional", "name", *LAYERS, *CLOSING_CHECKS, "")
OWNER = RunFacts(
    agent_id="", channel="telegram", sender=Sender("7"), owner=True, provider="anthropic", model="opus"
)


@dataclass(frozen=True)
class RegisteredTool:
    """A tool as a plugin registers it."""

    name: str
    plugin: str
    optional: bool = False
    owner_only: bool = False
    description: str = "does a thing"
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object"})


# core tools that no released plugin brings yet, with the plugin that the seeds name
UNRELEASED = {"web_search": "tools-std", "web_fetch": "tools-std", "gateway": "http"}
SUPPLIERS = plugins_that_bring("tools") | UNRELEASED
REGISTERED = (
    *(RegisteredTool(name, SUPPLIERS[name]) for name in CORE_TOOLS if name in SUPPLIERS),
    RegisteredTool("acme_status", "acme"),
    RegisteredTool("acme_reset", "acme", optional=True),
    RegisteredTool("weather", "sky"),
    RegisteredTool("list_maker", "lists", parameters={"type": "array"}),
)


def write(home: Path, tree: dict[str, Any]) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / "config.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False), encoding="utf-8")
    return path


def ask(
    home: Path, tool: str, run: RunFacts = OWNER, registered: tuple[RegisteredTool, ...] = REGISTERED,
    fallbacks: tuple[str, ...] = (), lacking: str = "",
) -> tuple[Explanation, Judgement, Config]:  # fmt: skip
    config = load_config(home, {})
    suppliers = config.settings.tools.suppliers
    facts = [
        tool_fact(
            one, one.plugin, suppliers,
            first_party=one.plugin in SUPPLIERS.values(), lacks=_lacks(one, config, lacking),
        )
        for one in registered
    ]  # fmt: skip
    facts.sort(key=lambda fact: fact.plugin is not None)
    judged = resolve_tools(config, owned(run, config), facts, fallbacks)
    return explain_tool(tool, config, JudgedTools(judged)), judged, config


def _lacks(tool: RegisteredTool, config: Config, lacking: str) -> str:
    """``weather`` needs a place; it looks for it in its own section."""
    entry = config.settings.plugins.entries.get("sky")
    return lacking if lacking and tool.name == "weather" and not (entry and entry.config) else ""


def owned(run: RunFacts, config: Config) -> RunFacts:
    known = run.sender is not None and f"{run.channel}:{run.sender.id}" in config.settings.owners
    return replace(run, owner=run.owner or known)


def carry_out(edits: tuple[ConfigEdit, ...], path: Path, value: Any = {"place": "Berlin"}) -> None:  # noqa: B006
    """Do what the printed commands say, read back from their text."""
    for edit in edits:
        program, noun, verb, key, *rest = shlex.split(edit.command)
        assert (program, noun) == ("claw", "config")
        if verb == "unset":
            assert unset_value(path, key)
        else:
            assert set_value(path, key, value if edit.value == PLACEHOLDER else parse_value(rest[0]))


GROUP, BOXED, GPT = {"group": "-100"}, {"sandboxed": True}, {"provider": "openai", "model": "gpt-4.1"}
NO_EXEC, LS = {"deny": ["exec"]}, {"allow": ["ls"]}


def mine(tools: dict[str, Any]) -> dict[str, Any]:
    """A file in which one agent has its own section."""
    return {"agents": {"list": [{"id": "a", "tools": tools}]}}


CASES: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
    # optional: nothing names it; a profile, a list, both scopes closed by a list
    ("optional", "acme_reset", {}, {}),
    ("optional", "acme_reset", {"agents": {"list": [{"id": "coder"}]}}, {}),
    ("optional", "acme_reset", {"tools": {"profile": "coding"}}, {}),
    ("optional", "acme_reset", {"tools": {"allow": ["read"]}}, {}),
    ("optional", "acme_reset", {"tools": {"allow": "*"}}, {}),
    ("optional", "acme_reset", {"tools": {"alsoAllow": "*", "profile": "full"}}, {}),
    ("optional", "acme_reset", {"tools": {"alsoAllow": ["weather"]}}, {}),
    ("optional", "acme_reset", {"tools": {"allow": ["weather"]}}, {}),
    (
        "optional",
        "acme_reset",
        {"tools": {"allow": ["weather"]}, **mine({"allow": ["acme_status"]})},
        {},
    ),
    # profile: of claw, of the agent, of all agents, beside lists that leave no space
    ("profile", "memory_search", {"tools": {"profile": "coding"}}, {}),
    ("profile", "memory_search", {"tools": {"profile": "coding", "also_allow": ["message"]}}, {}),
    ("profile", "memory_search", {"tools": {"profile": "coding", "allow": ["read"]}}, {}),
    ("profile", "exec", {"tools": {"profile": "coding"}, **mine({"profile": "minimal"})}, {}),
    ("profile", "exec", {"agents": {"defaults": {"tools": {"profile": "minimal"}}}}, {}),
    (
        "profile",
        "message",
        {"tools": {"alsoAllow": ["cron"]}, **mine({"profile": "minimal"})},
        {},
    ),
    (
        "profile",
        "message",
        {"tools": {"allow": ["read"]}, **mine({"profile": "minimal", "allow": ["read"]})},
        {},
    ),
    # provider profile
    ("providerProfile", "exec", {"tools": {"byProvider": {"anthropic": {"profile": "minimal"}}}}, {}),
    ("providerProfile", "exec", {"tools": {"byProvider": {"Anthropic/Opus": {"profile": "minimal"}}}}, {}),
    ("providerProfile", "exec", {"tools": {"byProvider": {"openai/gpt-4.1": {"profile": "minimal"}}}}, GPT),
    # global, and its forms of deny
    ("global", "exec", {"tools": {"deny": ["exec"]}}, {}),
    ("global", "exec", {"tools": {"deny": ["web_fetch", " Bash ", "exec"]}}, {}),
    ("global", "exec", {"tools": {"deny": ["group:runtime"]}}, {}),
    ("global", "exec", {"tools": {"deny": ["e*", "grep"]}}, {}),
    ("global", "exec", {"tools": {"deny": "*"}}, {}),
    ("global", "acme_status", {"tools": {"deny": ["acme"]}}, {}),
    ("global", "weather", {"tools": {"deny": ["group:plugins"]}}, {}),
    ("global", "exec", {"tools": {"allow": ["read"]}}, {}),
    ("global", "exec", {"tools": {"allow": ["read", "exec*x"], "deny": ["exec"]}}, {}),
    ("global", "exec", {"tools": {"allow": ["nothing_*"]}}, {}),
    # global by provider
    ("globalProvider", "exec", {"tools": {"byProvider": {"anthropic": {"deny": ["exec"]}}}}, {}),
    ("globalProvider", "exec", {"tools": {"by_provider": {"anthropic/opus": {"allow": ["read"]}}}}, {}),
    # agent
    ("agent", "exec", mine({"deny": ["exec"]}), {}),
    ("agent", "exec", {"agents": {"list": [{"id": "b"}, {"id": "a", "tools": {"allow": ["read"]}}]}}, {"agent_id": "a"}),
    ("agent", "exec", {"agents": {"entries": {"b": {}, "a": {"tools": {"allow": ["read"]}}}}}, {"agent_id": "a"}),
    ("agent", "exec", {"agents": {"defaults": {"tools": {"deny": ["exec"]}}}}, {}),
    # agent by provider
    ("agentProvider", "exec", mine({"byProvider": {"anthropic": {"deny": ["exec"]}}}), {}),
    ("agentProvider", "exec", mine({"byProvider": {"anthropic": {"allow": ["ls"]}}}), {}),
    # group: as a map, as a list, at the top level, by sender, by default entry
    ("group", "exec", {"channels": {"telegram": {"groups": {"-100": {"tools": NO_EXEC}}}}}, GROUP),
    ("group", "exec", {"channels": {"telegram": {"groups": [{"chatId": "-1"}, {"chatId": "-100", "tools": LS}]}}}, GROUP),
    ("group", "exec", {"telegram": {"groups": [{"chatId": "-100", "tools": LS}]}}, GROUP),
    ("group", "exec", {"telegram": {"groups": {"*": {"tools": NO_EXEC}}}}, GROUP),
    (
        "group",
        "exec",
        {"telegram": {"groups": {"-100": {"toolsBySender": {"id:7": LS}}}}},
        GROUP,
    ),
    # sandbox: claw's own lists, claw's, the agent's, and the other spelling
    ("sandbox", "web_search", {}, BOXED),
    ("sandbox", "cron", {}, BOXED),
    ("sandbox", "exec", {"tools": {"sandbox": {"tools": {"deny": ["exec"]}}}}, BOXED),
    ("sandbox", "exec", {"tools": {"sandbox": {"tools": {"allow": ["read"]}}}}, BOXED),
    ("sandbox", "exec", {"sandbox": {"tools": {"deny": ["gateway", "exec"]}}}, BOXED),
    ("sandbox", "exec", mine({"sandbox": {"tools": {"allow": ["read"]}}}), BOXED),
    # sub-agent: claw's own denials, lifted or not, and lists
    ("subagent", "gateway", {}, {"depth": 1}),
    ("subagent", "message", {}, {"depth": 2}),
    ("subagent", "sessions_spawn", {}, {"depth": 1}),
    ("subagent", "sessions_spawn", {}, {"depth": 3}),
    ("subagent", "sessions_spawn", {"tools": {"subagents": {"tools": {"allowSpawn": True}}}}, {"depth": 2}),
    ("subagent", "exec", {"tools": {"subagents": {"tools": {"deny": ["exec"]}}}}, {"depth": 1}),
    ("subagent", "exec", {"tools": {"subagents": {"tools": {"allow": ["read"]}}}}, {"depth": 1}),
    # gates behind the layers
    ("owner-only", "cron", {}, {"owner": False}),
    ("owner-only", "cron", {}, {"owner": False, "sender": None}),
    ("provider-schema", "list_maker", {}, {}),
)  # fmt: skip


@pytest.mark.parametrize(("stage", "tool", "tree", "changes"), CASES)
def test_the_printed_edit_lets_the_tool_through_or_moves_the_answer_to_a_later_stage(
    stage: str, tool: str, tree: dict[str, Any], changes: dict[str, Any], tmp_path: Path
) -> None:
    path = write(tmp_path, tree)
    run = replace(OWNER, **changes)
    answer, before, _ = ask(tmp_path, tool, run)
    assert not answer.available and answer.stage == stage
    assert answer.edits or answer.fix
    if answer.edits:
        carry_out(answer.edits, path)
        after, judged, _ = ask(tmp_path, tool, run)
        assert STAGES.index(after.stage) > STAGES.index(stage)
        freed = set(judged.allowed_names) - set(before.allowed_names)
        assert stage == "owner-only" or frees_many(answer) or freed <= {after.name}


def frees_many(answer: Explanation) -> bool:
    """Beside filled allow lists a profile cannot be widened: it can only be taken away."""
    return any(edit.value == "full" for edit in answer.edits)


def test_the_cases_leave_no_stage_out() -> None:
    elsewhere = {"name", "channel-fit", "missing-setting", ""}
    assert {stage for stage, *_ in CASES} == set(STAGES) - elsewhere


@pytest.mark.parametrize(("stage", "tool", "tree", "changes"), CASES)
def test_reasons_are_reported_in_chinese_too(
    stage: str, tool: str, tree: dict[str, Any], changes: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path, tree)
    i18n.add_translations("claw_admin")
    i18n.use_language("zh")
    try:
        answer, _, _ = ask(tmp_path, tool, replace(OWNER, **changes))
        texts = [
            answer.why,
            *([answer.fix] if answer.fix else []),
            *(step.note for step in answer.steps if step.note),
        ]
    finally:
        i18n.use_language("en")
    assert all(re.search("[\u4e00-\u9fff]", text) for text in texts), texts


def test_a_tool_that_does_not_fit_the_channel_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, {"tools": {"suppliers": {"tts": "acme"}}})
    answer, _, _ = ask(
        path.parent, "tts", replace(OWNER, channel="voice"), (*REGISTERED, RegisteredTool("tts", "acme"))
    )
    assert answer.stage == "channel-fit"
    assert answer.edits == ()
    assert "another channel" in answer.fix


def test_a_missing_setting_is_named_and_setting_it_lets_the_tool_through(tmp_path: Path) -> None:
    path = write(tmp_path, {})
    key = "plugins.entries.sky.config"
    answer, _, _ = ask(tmp_path, "weather", lacking=key)
    assert (answer.stage, answer.key) == ("missing-setting", key)
    carry_out(answer.edits, path)
    assert ask(tmp_path, "weather", lacking=key)[0].available


def test_where_no_single_edit_can_help_the_two_that_do_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path, {"tools": {"allow": ["read"], "deny": ["exec"]}})
    answer, _, _ = ask(tmp_path, "exec")
    assert [edit.command for edit in answer.edits] == [
        "claw config unset 'tools.deny[0]'",
        "claw config set 'tools.allow[]' exec",
    ]
    carry_out(answer.edits, path)
    assert ask(tmp_path, "exec")[0].available


def test_the_deciding_rule_is_reported_with_its_key_index_id_and_line(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "agents:\n  list:\n    - id: coder\n      tools:\n        deny:\n          - grep\n          - exec\n"
    )
    answer, _, config = ask(tmp_path, "exec")
    assert (answer.key, answer.whose, answer.line) == ("agents.list[0].tools.deny[1]", "coder", 7)
    assert answer.file == config.file
    assert answer.why == "agents.list[0].tools.deny (coder) denies it (exec)"


def test_every_gate_and_layer_is_reported_in_order_in_or_out(tmp_path: Path) -> None:
    write(tmp_path, {"tools": {"profile": "minimal", "deny": ["exec"]}})
    answer, _, _ = ask(tmp_path, "exec")
    assert tuple(step.stage for step in answer.steps) == STAGES[:-1]
    assert [step.stage for step in answer.steps if not step.passes] == ["profile", "global"]


def test_an_available_tool_is_reported_as_such_with_all_its_steps_in(tmp_path: Path) -> None:
    write(tmp_path, {"tools": {"allow": ["acme", "read"]}})
    answer, _, _ = ask(tmp_path, "acme_reset")
    assert answer.available and not answer.edits and not answer.stage
    assert all(step.passes for step in answer.steps)
    assert answer.steps[0].note == "tools.allow enables it (acme)"


def test_an_alias_is_the_tool_it_stands_for(tmp_path: Path) -> None:
    write(tmp_path, {})
    assert ask(tmp_path, " Bash ")[0].name == "exec"


def test_a_fallback_that_would_not_have_the_tool_is_named_and_its_edit_helps(tmp_path: Path) -> None:
    path = write(tmp_path, {"tools": {"byProvider": {"openai": {"deny": ["exec"]}}}})
    answer, _, _ = ask(tmp_path, "exec", fallbacks=("openai/gpt-4o",))
    assert answer.spare == "openai/gpt-4o"
    assert answer.why.endswith("because of fallback openai/gpt-4o")
    carry_out(answer.edits, path)
    assert ask(tmp_path, "exec", fallbacks=("openai/gpt-4o",))[0].available


class TestNames:
    def test_a_reserved_name_can_be_handed_over(self, tmp_path: Path) -> None:
        path = write(tmp_path, {})
        registered = (RegisteredTool("browser", "acme"),)
        answer, _, _ = ask(tmp_path, "browser", registered=registered)
        assert answer.stage == "name"
        assert [edit.command for edit in answer.edits] == ["claw config set tools.suppliers.browser acme"]
        carry_out(answer.edits, path)
        after, _, _ = ask(tmp_path, "browser", registered=registered)
        assert after.available and after.core

    def test_a_core_tool_is_reported_with_whoever_wanted_its_name_and_can_be_handed_over(
        self, tmp_path: Path
    ) -> None:
        path = write(tmp_path, {})
        registered = (RegisteredTool("read", "tools-std"), RegisteredTool("read", "acme"))
        answer, _, _ = ask(tmp_path, "read", registered=registered)
        assert answer.available and answer.plugin == "tools-std"
        (_, edits), = answer.rivals  # fmt: skip
        carry_out(edits, path)
        after, _, _ = ask(tmp_path, "read", registered=registered)
        assert after.available and after.plugin == "acme"

    def test_of_two_plugins_the_first_has_the_name_until_it_is_handed_over(self, tmp_path: Path) -> None:
        path = write(tmp_path, {})
        registered = (RegisteredTool("search", "p1"), RegisteredTool("search", "p2"))
        answer, _, _ = ask(tmp_path, "search", registered=registered)
        assert answer.plugin == "p1"
        carry_out(answer.rivals[0][1], path)
        assert ask(tmp_path, "search", registered=registered)[0].plugin == "p2"

    def test_a_plugin_called_like_a_core_tool_provides_nothing(self, tmp_path: Path) -> None:
        write(tmp_path, {})
        answer, _, _ = ask(
            tmp_path,
            "exec_more",
            registered=(RegisteredTool("exec", "tools-std"), RegisteredTool("exec_more", "Bash")),
        )
        assert answer.stage == "name" and not answer.edits
        assert "plugin id" in answer.fix


class TestBeyondPolicy:
    """Causes that policy never sees, because no plugin registered the tool."""

    @staticmethod
    def standing(state: str, plugin: str = "acme", **more: Any) -> PluginState:
        manifest = Manifest(plugin, tools=(ToolDeclaration("acme_status"),))
        return PluginState(
            InstalledPlugin(plugin, "claw_acme", "claw-acme", "1", manifest=manifest), state, **more
        )

    def ask(self, home: Path, tool: str, *plugin_states: PluginState) -> Explanation:
        config = load_config(home, {})
        judged = resolve_tools(config, OWNER, [ToolFact("read", supplier="tools-std")])
        answer = explain_tool(tool, config, JudgedTools(judged), plugin_states)
        assert not answer.available and not answer.steps
        return answer

    def test_disabled(self, tmp_path: Path) -> None:
        path = write(tmp_path, {"plugins": {"entries": {"acme": {"enabled": False}}}})
        answer = self.ask(tmp_path, "acme_status", self.standing("disabled"))
        assert (answer.stage, answer.key, answer.line) == ("disabled", "plugins.entries.acme.enabled", 4)
        carry_out(answer.edits, path)
        assert load_config(tmp_path, {}).settings.plugins.entries["acme"].enabled

    def test_blocked_by_deny(self, tmp_path: Path) -> None:
        path = write(tmp_path, {"plugins": {"deny": ["x", "acme"]}})
        answer = self.ask(tmp_path, "acme_status", self.standing("blocked"))
        assert (answer.stage, answer.key) == ("blocked", "plugins.deny[1]")
        carry_out(answer.edits, path)
        assert load_config(tmp_path, {}).settings.plugins.deny == ("x",)

    def test_blocked_because_not_allowed(self, tmp_path: Path) -> None:
        path = write(tmp_path, {"plugins": {"allow": ["x"]}})
        answer = self.ask(tmp_path, "acme_status", self.standing("blocked"))
        carry_out(answer.edits, path)
        assert load_config(tmp_path, {}).settings.plugins.allow == ("x", "acme")

    def test_quarantined_is_reported_with_stage_cause_and_fix(self, tmp_path: Path) -> None:
        write(tmp_path, {})
        set_aside = self.standing(
            "quarantined", stage="import", why="ValueError: boom", fix="update claw-acme"
        )
        answer = self.ask(tmp_path, "acme_status", set_aside)
        assert answer.stage == "quarantined"
        assert "import" in answer.why and "boom" in answer.why and answer.fix == "update claw-acme"

    def test_incompatible(self, tmp_path: Path) -> None:
        write(tmp_path, {})
        answer = self.ask(
            tmp_path, "acme_status", self.standing("incompatible", why="made for 2", fix="get another")
        )
        assert (answer.stage, answer.fix) == ("incompatible", "get another")

    def test_installed_and_loaded_but_it_does_not_provide_it(self, tmp_path: Path) -> None:
        write(tmp_path, {})
        assert self.ask(tmp_path, "acme_status", self.standing("loaded")).stage == "not-brought"

    def test_not_installed_names_the_plugin_that_would_supply_it(self, tmp_path: Path) -> None:
        write(tmp_path, {})
        answer = self.ask(tmp_path, "memory_search")
        assert (answer.stage, answer.plugin) == ("not-installed", "memory")
        assert [edit.command for edit in answer.edits] == ["claw plugins install claw-memory-search"]

    def test_handed_to_a_plugin_that_is_not_there(self, tmp_path: Path) -> None:
        path = write(tmp_path, {"tools": {"suppliers": {"browser": "acme"}}})
        answer = self.ask(tmp_path, "browser")
        assert (answer.stage, answer.key) == ("not-installed", "tools.suppliers.browser")
        carry_out(answer.edits, path)
        assert self.ask(tmp_path, "browser").stage == "no-supplier"

    def test_a_reserved_name_without_a_supplier_names_the_key_that_hands_it_over(
        self, tmp_path: Path
    ) -> None:
        write(tmp_path, {})
        answer = self.ask(tmp_path, "canvas")
        assert answer.stage == "no-supplier" and "tools.suppliers.canvas" in answer.fix

    def test_an_unknown_name_gets_the_nearest(self, tmp_path: Path) -> None:
        write(tmp_path, {})
        answer = self.ask(tmp_path, "acme_statsu", self.standing("idle"))
        assert answer.stage == "unknown" and answer.fix == "did you mean acme_status?"


WORDS = [
    "read",
    "exec",
    "memory_search",
    "acme_status",
    "acme_reset",
    "acme",
    "weather",
    "group:fs",
    "group:plugins",
    "e*",
    "*",
    "nope",
]
LISTS = st.lists(st.sampled_from(WORDS), max_size=3)
TOOLS = ["read", "exec", "memory_search", "acme_reset", "weather"]


@st.composite
def scope(draw: st.DrawFn) -> dict[str, Any]:
    """A section of tool lists, as a person may write it."""
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        found["profile"] = draw(st.sampled_from([*PROFILES, "default"]))
    if draw(st.booleans()):
        found["deny"] = draw(LISTS)
    if draw(st.booleans()):
        found[draw(st.sampled_from(["allow", "alsoAllow"]))] = draw(LISTS)
    return found


@st.composite
def tree(draw: st.DrawFn) -> dict[str, Any]:
    harness, agent = draw(scope()), draw(scope())
    if draw(st.booleans()):
        harness["byProvider"] = {"anthropic": draw(scope())}
    lists = draw(scope())
    lists.pop("profile", None)
    lists.pop("alsoAllow", None)
    if draw(st.booleans()):
        harness["sandbox"] = {"tools": lists}
    return {"tools": harness, "agents": {"list": [{"id": "a", "tools": agent}]}}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree(), st.sampled_from(TOOLS), st.booleans())
def test_following_the_edits_ends_with_the_tool_and_lets_no_other_one_through(
    tmp_path_factory: pytest.TempPathFactory, file: dict[str, Any], tool: str, sandboxed: bool
) -> None:
    path = write(tmp_path_factory.mktemp("home"), file)
    run = replace(OWNER, sandboxed=sandboxed)
    answer, before, _ = ask(path.parent, tool, run)
    widened = False
    while not answer.available:
        carry_out(answer.edits, path)
        widened |= frees_many(answer)
        after, judged, _ = ask(path.parent, tool, run)
        assert STAGES.index(after.stage) > STAGES.index(answer.stage), (answer, after)
        assert widened or set(judged.allowed_names) <= {*before.allowed_names, after.name}
        answer = after
