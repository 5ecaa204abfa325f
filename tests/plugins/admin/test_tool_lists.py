"""Warnings about tool lists: words that name nothing, and lists that restrict nothing."""

from pathlib import Path

import pytest
from claw.config.summary import plugins_that_bring
from claw.policy.catalog import CORE_TOOLS
from claw.policy.subjects import ToolFact
from claw_admin.config_checks.tool_lists import unknown_words, unrestricted_lists
from config_files import load_config

# core tools that no released plugin brings yet, with the plugin that the seeds name
UNRELEASED = {"web_search": "tools-std", "web_fetch": "tools-std", "gateway": "http"}
SUPPLIERS = plugins_that_bring("tools") | UNRELEASED
FACTS = (
    *(ToolFact(name, supplier=SUPPLIERS[name]) for name in CORE_TOOLS if name in SUPPLIERS),
    ToolFact("weather", "sky", "sky"),
    ToolFact("storm", "sky", "sky", optional=True),
)


def test_words_that_name_nothing_are_reported_with_their_place_and_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "tools:\n  deny:\n    - exc\n    - exec\n  exec:\n    allow: [git]\n"
        "plugins:\n  deny: [whatever]\n"
        "channels:\n  telegram:\n    groups:\n      '-1':\n"
        "        tools: {allow: ['read*', weather, idle, 'zz*', idle_do, 'idle_*']}\n"
    )
    config = load_config(tmp_path, {}, plugins=True)
    found = unknown_words(config, FACTS, ["idle", "idle_do"])
    assert [(error.key, error.line) for error in found] == [
        ("tools.deny[0]", 3),
        ("channels.telegram.groups.-1.tools.allow[3]", 13),
    ]
    assert "Did you mean exec?" in str(found[0])


@pytest.mark.parametrize(
    ("text", "key", "near"),
    [
        ("tools: {allow: [read, exce]}", "tools.allow[1]", "exec"),
        ("tools: {sandbox: {tools: {deny: [group:fz]}}}", "tools.sandbox.tools.deny[0]", "group:fs"),
        (
            "agents: {list: [{id: a, tools: {byProvider: {x: {deny: [raed]}}}}]}",
            "agents.list[0].tools.byProvider.x.deny[0]",
            "read",
        ),
    ],
)
def test_a_word_in_any_tool_list_is_judged(tmp_path: Path, text: str, key: str, near: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    [found] = unknown_words(load_config(tmp_path, {}), FACTS)
    assert (found.key, found.fix) == (key, f"Did you mean {near}?")


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("tools: {allow: []}", ["tools.allow"]),
        (
            "agents: {list: [{id: a, tools: {byProvider: {x: {allow: []}}}}]}",
            ["agents.list[0].tools.byProvider.x.allow"],
        ),
        ("tools: {allow: [read], deny: []}", []),
        ("plugins: {allow: []}", []),
    ],
)
def test_an_empty_allow_list_is_warned_about_because_it_allows_everything(
    tmp_path: Path, text: str, keys: list[str]
) -> None:
    (tmp_path / "config.yaml").write_text(text)
    found = [*unrestricted_lists(load_config(tmp_path, {}))]
    assert [one.key for one in found] == keys
    assert all("deny: ['*']" in one.fix for one in found)
