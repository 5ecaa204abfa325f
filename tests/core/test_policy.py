"""Policy: what may be used, by whom, where. The table ``tool_policy`` holds every rule; this page holds the promises."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw.agent import turn_context
from claw.cli import tools
from claw.config.loader import Config
from claw.config.summary import plugins_that_bring
from claw.contracts.messages import Sender
from claw.policy.catalog import CORE_TOOLS, PROFILES, TOOL_GROUPS, matches_pattern, normalise_tool_name
from claw.policy.decision import Judgement
from claw.policy.engine import judge_runs, judge_tools, resolve_tools
from claw.policy.layers import LAYERS, Layer, ListEntry
from claw.policy.subjects import RunFacts, ToolFact, tool_fact
from claw.testing import FakeTool
from claw_admin.policy import judged_run
from config_files import load_config
from hypothesis import given, settings, strategies as st

OWNER = RunFacts(owner=True, provider="anthropic", model="opus")
# core tools that no released plugin brings yet, with the plugin that the seeds name
UNRELEASED = {"web_search": "tools-std", "web_fetch": "tools-std", "gateway": "http"}
SUPPLIERS = plugins_that_bring("tools") | UNRELEASED
CORE = tuple(ToolFact(name, supplier=SUPPLIERS[name]) for name in CORE_TOOLS if name in SUPPLIERS)
ACME = (ToolFact("acme_status", "acme", "acme"), ToolFact("acme_reset", "acme", "acme", optional=True))
SKY = (ToolFact("weather", "sky", "sky"), ToolFact("storm", "sky", "sky", optional=True))
FACTS = CORE + ACME + SKY


def config_of(home: Path, tree: dict[str, Any]) -> Config:
    (home / "config.json").write_text(json.dumps(tree), encoding="utf-8")
    return load_config(home, {})


def standing(
    home: Path, tree: dict[str, Any], run: RunFacts = OWNER, facts: tuple[ToolFact, ...] = FACTS
) -> set[str]:
    return set(resolve_tools(config_of(home, tree), run, facts).allowed_names)


# -- promises -----------------------------------------------------------------------------------------------

NAMES = [normalise_tool_name(fact.name) for fact in FACTS]
WORDS = st.sampled_from(
    [*NAMES[:6], "acme", "sky", "acme_reset", "group:plugins", "group:fs", "*", "e*", "*_*", "nope"]
)
A_FEW = settings(max_examples=40, deadline=None)
ENTRIES = st.lists(st.builds(ListEntry, WORDS, st.just("somewhere")), max_size=4).map(tuple)


@st.composite
def layers(draw: st.DrawFn) -> list[Layer]:
    """Nine layers with lists of any kind; what opts in is held apart, so that it can be kept the same."""
    found = []
    for name in LAYERS:
        allow, deny = draw(st.none() | ENTRIES), draw(ENTRIES)
        strict = name in ("sandbox", "subagent")
        found.append(Layer(name, "somewhere.allow", allow=allow or None, deny=deny, strict=strict))
    return [replace(found[0], opt_ins=draw(ENTRIES)), *found[1:]]


@A_FEW
@given(layers(), layers(), st.integers(0, 8))
def test_a_layer_more_never_adds_a_tool(one: list[Layer], other: list[Layer], at: int) -> None:
    before = set(judge_tools(FACTS, one, OWNER).allowed_names)
    more = [*one[:at], replace(other[at], opt_ins=()), *one[at:]]
    assert set(judge_tools(FACTS, more, OWNER).allowed_names) <= before


@A_FEW
@given(layers(), st.integers(0, 8), WORDS)
def test_a_denial_more_never_adds_a_tool(one: list[Layer], at: int, word: str) -> None:
    before = set(judge_tools(FACTS, one, OWNER).allowed_names)
    harder = replace(one[at], deny=(*one[at].deny, ListEntry(word, "somewhere")))
    assert set(judge_tools(FACTS, [*one[:at], harder, *one[at + 1 :]], OWNER).allowed_names) <= before


@A_FEW
@given(layers(), st.integers(0, 8), st.sampled_from(NAMES), st.booleans())
def test_denied_is_denied_whatever_else_is_said(one: list[Layer], at: int, name: str, owner: bool) -> None:
    harder = replace(one[at], deny=(*one[at].deny, ListEntry(name, "somewhere")))
    judged = judge_tools(FACTS, [*one[:at], harder, *one[at + 1 :]], replace(OWNER, owner=owner))
    assert name not in judged.allowed_names
    assert not judged.rulings[name].allowed


@A_FEW
@given(layers(), st.randoms())
def test_the_order_of_layers_changes_only_whom_to_blame(one: list[Layer], random: Any) -> None:
    shuffled = list(one)
    random.shuffle(shuffled)
    assert judge_tools(FACTS, one, OWNER).positions == judge_tools(FACTS, shuffled, OWNER).positions


@A_FEW
@given(layers())
def test_every_tool_has_one_ruling_and_the_standing_ones_keep_their_order(one: list[Layer]) -> None:
    judged = judge_tools(FACTS, one, OWNER)
    assert set(judged.rulings) == {fact.name for fact in FACTS}
    assert list(judged.positions) == sorted(judged.positions)
    assert judged.allowed_names == tuple(fact.name for fact in FACTS if judged.rulings[fact.name].allowed)
    assert all(ruling.allowed or ruling.reason for ruling in judged.rulings.values())


@A_FEW
@given(layers(), layers())
def test_a_fallback_only_takes_away(one: list[Layer], other: list[Layer]) -> None:
    other_model = OWNER.with_model("openai/gpt-4o")
    judged = judge_runs(FACTS, [(OWNER, one), (other_model, other)])
    assert set(judged.positions) == set(judge_tools(FACTS, one, OWNER).positions) & set(
        judge_tools(FACTS, other, other_model).positions
    )


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_covers_a_name_as_the_plainest_reading_says(pattern: str, name: str) -> None:
    def covers(rest: str, left: str) -> bool:
        if not rest:
            return not left
        if rest[0] == "*":
            return any(covers(rest[1:], left[at:]) for at in range(len(left) + 1))
        return left[:1] == rest[0] and covers(rest[1:], left[1:])

    assert matches_pattern(pattern, name) == covers(pattern, name)


def test_the_judgement_is_quick_for_five_hundred_tools_in_nine_layers(tmp_path: Path) -> None:
    facts = tuple(ToolFact(f"tool_{n}", f"plugin_{n % 50}", optional=n % 5 == 0) for n in range(500))
    lists = {
        "allow": ["group:plugins", "read", *(f"plugin_{n}" for n in range(40))],
        "deny": ["*_13", "tool_7"],
    }
    tree = {
        "tools": {
            **lists,
            "byProvider": {"anthropic": lists},
            "sandbox": {"tools": lists},
            "subagents": {"tools": lists},
        },
        "agents": {"list": [{"id": "a", "tools": {**lists, "byProvider": {"anthropic/opus": lists}}}]},
        "channels": {"telegram": {"groups": {"-1": {"tools": lists}}}},
    }
    config = config_of(tmp_path, tree)
    run = replace(OWNER, channel="telegram", group="-1", sandboxed=True, depth=1)
    resolve_tools(config, run, facts)
    best = min(_seconds(lambda: resolve_tools(config, run, facts)) for _ in range(5))
    print(
        f"500 tools in nine layers: {best * 1000:.2f} ms"
    )  # the budget is 2 ms; the gate allows for a busy machine
    assert best < 0.020


def _seconds(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def test_a_long_pattern_against_a_long_name_takes_no_time() -> None:
    assert _seconds(lambda: matches_pattern("a*" * 2000 + "b", "a" * 20_000)) < 1


# -- one resolver -------------------------------------------------------------------------------------------


def test_a_turn_and_the_commands_ask_the_same_function() -> None:
    assert turn_context.resolve_tools is judged_run.resolve_tools is resolve_tools
    # The command of core asks what a turn asks, the rulings of the runtime.
    assert "rulings" in tools._judgement.__code__.co_names
    assert not hasattr(tools, "resolve_tools")


# -- the worked example of the seeds (003, 5.3) -------------------------------------------------------------


def test_the_worked_example_of_the_seeds(tmp_path: Path) -> None:
    tree = {
        "tools": {"profile": "coding", "alsoAllow": ["memory_search"], "deny": ["apply_patch"]},
        "agents": {"list": [{"id": "safe-agent", "tools": {"deny": ["exec"]}}]},
    }
    judged = resolve_tools(config_of(tmp_path, tree), OWNER, FACTS)

    wanted = {"read", "write", "edit", "process", "web_search", "memory_search"}
    assert wanted <= set(judged.allowed_names)
    assert set(judged.allowed_names) == {*PROFILES["coding"], "memory_search"} - {"apply_patch", "exec"}
    reported = {
        name: (judged.rulings[name].stage, judged.rulings[name].shown_key)
        for name in ("apply_patch", "exec", "cron")
    }
    assert reported == {
        "apply_patch": ("global", "tools.deny"),
        "exec": ("agent", "agents.list[0].tools.deny (safe-agent)"),
        "cron": ("profile", "tools.profile"),
    }


# -- the allow examples of the seeds (004): each switches on what it says -----------------------------------

EVERYTHING_REQUIRED = {fact.name for fact in FACTS if not fact.optional}


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        (
            {"allow": ["read", "exec", "acme_reset"], "deny": [], "profile": "default"},
            {"read", "exec", "acme_reset"},
        ),
        ({"allow": ["acme_reset"]}, EVERYTHING_REQUIRED | {"acme_reset"}),
        ({"allow": ["acme"]}, EVERYTHING_REQUIRED | {"acme_reset"}),
        ({"allow": ["group:plugins"]}, EVERYTHING_REQUIRED | {"acme_reset", "storm"}),
        (
            {"allow": ["read", "acme", "storm", "group:plugins"], "deny": ["weather"]},
            {"read", "acme_status", "acme_reset", "storm"},
        ),
        ({"profile": "default"}, EVERYTHING_REQUIRED),
        (
            {
                "byProvider": {
                    "anthropic": {"allow": ["read"], "deny": []},
                    "openai": {"allow": ["ls"], "deny": []},
                }
            },
            {"read"},
        ),
    ],
    ids=["names", "one tool", "one plugin", "all plugins", "together", "profile", "by provider"],
)
def test_the_allow_examples_of_the_seeds(tmp_path: Path, lists: dict[str, Any], expected: set[str]) -> None:
    assert standing(tmp_path, {"tools": lists}) == expected


def test_the_agents_example_of_the_seeds(tmp_path: Path) -> None:
    tree = {
        "agents": {
            "list": [
                {"id": "main", "tools": {"allow": ["acme_reset", "storm"], "deny": []}},
                {"id": "test-agent", "tools": {"allow": ["read", "ls"], "deny": ["exec"]}},
            ]
        }
    }
    assert {"acme_reset", "storm"} <= standing(tmp_path, tree, replace(OWNER, agent_id="main"))
    assert standing(tmp_path, tree, replace(OWNER, agent_id="test-agent")) == {"read", "ls"}


def test_the_sandbox_example_of_the_seeds(tmp_path: Path) -> None:
    lists = {"allow": ["read"], "deny": ["exec"]}
    assert standing(tmp_path, {"tools": {"sandbox": {"tools": lists}}}, replace(OWNER, sandboxed=True)) == {
        "read"
    }


# -- where the field disagrees ------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["*", "acme_*"])
def test_patterns_do_not_switch_optional_tools_on(tmp_path: Path, word: str) -> None:
    assert "acme_reset" not in standing(tmp_path, {"tools": {"alsoAllow": [word]}})
    assert "acme_reset" not in standing(tmp_path, {"tools": {"profile": "full"}})


@pytest.mark.parametrize("words", [["nope"], ["nothing_*"], ["group:agents"], ["acme", "nope"]])
def test_a_list_that_names_anything_but_plugin_tools_restricts(tmp_path: Path, words: list[str]) -> None:
    assert "read" not in standing(tmp_path, {"tools": {"allow": words}})


def test_a_plugin_that_supplies_core_tools_is_denied_with_them(tmp_path: Path) -> None:
    assert "memory_search" not in standing(tmp_path, {"tools": {"deny": ["memory"]}})


def test_core_tools_are_no_plugin_tools(tmp_path: Path) -> None:
    assert standing(tmp_path, {"tools": {"deny": ["group:plugins"]}}) == {fact.name for fact in CORE}


def test_an_owner_is_not_assumed(tmp_path: Path) -> None:
    assert standing(tmp_path, {}, replace(OWNER, owner=False)) & {"cron", "gateway"} == set()
    declared = (ToolFact("acme_wipe", "acme", owner_only=True),)
    assert standing(tmp_path, {}, replace(OWNER, owner=False), declared) == set()
    assert standing(tmp_path, {}, OWNER, declared) == {"acme_wipe"}


def test_sub_agents_may_spawn_only_when_configured_and_only_above_the_cap(tmp_path: Path) -> None:
    allowed = {"tools": {"subagents": {"tools": {"allowSpawn": True}}}}
    assert "sessions_spawn" not in standing(tmp_path, {}, replace(OWNER, depth=1))
    assert "sessions_spawn" in standing(tmp_path, allowed, replace(OWNER, depth=1))
    assert "sessions_spawn" not in standing(tmp_path, allowed, replace(OWNER, depth=2))


def test_a_sandbox_never_has_a_tool_called_like_a_channel_by_default(tmp_path: Path) -> None:
    tree = {"channels": {"telegram": {}}, "tools": {"sandbox": {"tools": {"allow": ["telegram", "read"]}}}}
    facts = (*FACTS, ToolFact("telegram", "acme"))
    assert standing(tmp_path, tree, replace(OWNER, sandboxed=True), facts) == {"read"}


def test_groups_and_their_senders_are_read_in_both_forms(tmp_path: Path) -> None:
    entry = {"tools": {"deny": ["exec"]}, "toolsBySender": {"username:Ann": {}}}
    forms = [{"-1": entry}, [{"chatId": "-1", **entry}]]
    run = replace(OWNER, channel="Telegram", group="-1", sender=Sender("5"))
    for groups in forms:
        tree = {"channels": {"telegram": {"groups": groups}}}
        assert "exec" not in standing(tmp_path, tree, run)
        assert "exec" in standing(tmp_path, tree, replace(run, sender=Sender("6", username="@ann")))


# -- fallbacks ----------------------------------------------------------------------------------------------


def test_a_tool_that_a_fallback_would_not_have_falls_and_the_fallback_is_named(tmp_path: Path) -> None:
    config = config_of(tmp_path, {"tools": {"byProvider": {"openai": {"deny": ["exec"]}}}})
    judged = resolve_tools(config, OWNER, FACTS, ["openai/gpt-4o"])
    ruling = judged.rulings["exec"]
    assert (ruling.allowed, ruling.fallback, ruling.key) == (
        False,
        "openai/gpt-4o",
        "tools.byProvider.openai.deny",
    )
    assert ruling.reason.endswith("because of fallback openai/gpt-4o")
    assert resolve_tools(config, OWNER, FACTS).rulings["exec"].allowed


# -- whose tool it is ---------------------------------------------------------------------------------------


def kinds(
    name: str, plugin: str, suppliers: dict[str, str], *, first_party: bool = False
) -> tuple[bool, str]:
    fact = tool_fact(FakeTool(name).tool, plugin, suppliers, first_party=first_party)
    return fact.plugin is None, fact.assigned_to


def test_a_reserved_name_makes_a_core_tool_only_of_a_plugin_of_the_release_train() -> None:
    assert kinds("read", "tools-std", {}, first_party=True) == (True, "")
    assert kinds("read", "acme", {}) == (False, "")
    assert kinds("read", "tools-std", {}) == (False, ""), "an id gives no right"
    assert kinds("other", "tools-std", {}, first_party=True) == (False, "")


def test_a_name_that_was_handed_over_is_core_at_its_new_supplier_and_lost_to_the_old_one() -> None:
    assert kinds("read", "acme", {"Read": "acme"}) == (True, "")
    assert kinds("read", "tools-std", {"Read": "acme"}, first_party=True) == (False, "acme")


def names_of(judged: Judgement) -> list[tuple[str, str | None]]:
    return [(judged.facts[at].name, judged.facts[at].plugin) for at in judged.positions]


def test_who_registers_a_reserved_name_is_passed_over_even_when_nobody_supplies_it() -> None:
    judged = judge_tools((ToolFact("browser", "acme"), ToolFact("acme_ok", "acme")), (), OWNER)
    assert names_of(judged) == [("acme_ok", "acme")]
    assert [(one.fact.name, one.kind) for one in judged.conflicts] == [("browser", "reserved")]


# -- words that name nothing --------------------------------------------------------------------------------


# -- the catalogue ------------------------------------------------------------------------------------------


def test_groups_and_profiles_name_core_tools_only() -> None:
    assert set().union(*TOOL_GROUPS.values()) <= set(CORE_TOOLS)
    assert set().union(*PROFILES.values()) - {"*"} <= set(CORE_TOOLS)


def test_names_are_compared_trimmed_in_lower_case_and_by_alias() -> None:
    assert [normalise_tool_name(name) for name in (" Bash ", "APPLY-PATCH", "Read")] == [
        "exec",
        "apply_patch",
        "read",
    ]


def test_a_clash_of_names_is_reported_with_both_owners() -> None:
    facts = (*CORE[:1], ToolFact("read", "acme"), ToolFact("search", "p1"), ToolFact("search", "p2"))
    assert [str(conflict) for conflict in judge_tools(facts, (), OWNER).conflicts] == [
        "tool read of plugin acme is skipped: its name read is reserved for a core tool "
        "(provided by tools-std)",
        "tool search of plugin p2 is skipped: plugin p1 already provides the name search",
    ]


def test_where_two_models_would_have_different_owners_of_a_name_nobody_has_it(tmp_path: Path) -> None:
    facts = (ToolFact("search", "p1", optional=True), ToolFact("search", "p2"))
    config = config_of(tmp_path, {"tools": {"byProvider": {"openai": {"alsoAllow": ["p1"]}}}})
    assert names_of(resolve_tools(config, OWNER, facts)) == [("search", "p2")]
    judged = resolve_tools(config, OWNER, facts, ["openai/gpt-4o"])
    assert judged.allowed_names == ()
    assert "plugin p1" in judged.rulings["search"].reason
