"""Nothing in the config file that has no effect, or another than it seems to have, is accepted in silence."""

from pathlib import Path

import pytest
from claw.config.loader import Config
from claw.contracts.errors import ConfigError
from claw_admin.config_checks.file_warnings import file_warnings
from config_files import load_config


def read(home: Path, text: str) -> Config:
    (home / "config.yaml").write_text(text, encoding="utf-8")
    return load_config(home, {"ON": "true"}, plugins=True)


def warnings(home: Path, text: str) -> list[str]:
    return [f"{one.key}: {one.problem}" for one in file_warnings(read(home, text))]


@pytest.mark.parametrize(
    ("text", "key", "line", "said"),
    [
        ("channels:\n  acme: {enabled: 'yes'}", "channels.acme.enabled", 2, "true or false"),
        ("channels:\n  acme: {enabled: no}", "channels.acme.enabled", 2, "true or false"),
        ("skills: {allow: []}\ncompaction: {enabled: 'off'}", "compaction.enabled", 2, "true or false"),
        (
            "channels:\n  acme: {dm_policy: open, dmPolicy: disabled}",
            "channels.acme.dm_policy",
            2,
            "dmPolicy",
        ),
        ("agents:\n  list:\n    - id: ../evil", "agents.list[0].id", 3, "such as evil"),
        ("agents:\n  list:\n    - id: a\\b", "agents.list[0].id", 3, "is a path"),
    ],
)
def test_what_is_not_what_it_seems_is_refused_with_its_line(
    tmp_path: Path, text: str, key: str, line: int, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, text)
    assert (refused.value.key, refused.value.line) == (key, line)
    assert said in str(refused.value)


def test_a_switch_may_come_from_the_environment(tmp_path: Path) -> None:
    assert read(tmp_path, "channels: {acme: {enabled: '${ON}'}}").settings.channels["acme"].enabled


@pytest.mark.parametrize("place", ["agents: {defaults: ", "agents: {list: [{id: a, "])
def test_a_fallback_that_was_tried_already_is_warned_about(tmp_path: Path, place: str) -> None:
    inner = "model: {primary: x/a, fallbacks: [x/b, x/a, x/b]}"
    text = f"{place}{inner}}}]}}" if "list" in place else f"{place}{{{inner}}}}}"
    found = [line for line in warnings(tmp_path, text) if "no fallback" in line]
    assert [line.partition(":")[0][-12:] for line in found] == ["fallbacks[1]", "fallbacks[2]"]


def test_a_list_without_the_agent_that_was_in_use_is_warned_about(tmp_path: Path) -> None:
    text = "agents: {list: [{id: helper}]}"
    assert warnings(tmp_path, text) == []

    (tmp_path / "agents" / "default").mkdir(parents=True)

    [said] = warnings(tmp_path, text)
    assert said.startswith("agents.list: the agent default is not in the list")
    assert warnings(tmp_path, "agents: {list: [{id: default}, {id: helper}]}") == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("heartbeat: {every: 30m}", "heartbeat"),
        ("cron: {jobs: [{id: a, schedule: '0 9 * * *'}]}", "cron"),
        ("hooks: {enabled: true, token: abcdefghijklmnop}", "hooks"),
    ],
)
def test_a_feature_that_is_not_built_is_warned_about(tmp_path: Path, text: str, key: str) -> None:
    [said] = warnings(tmp_path, text)
    assert said.startswith(f"{key}: it has no effect") and "not built yet" in said


@pytest.mark.parametrize("text", ["heartbeat: {every: off}", "cron: {jobs: []}", "hooks: {enabled: false}"])
def test_a_feature_that_is_not_built_and_not_asked_for_is_no_warning(tmp_path: Path, text: str) -> None:
    assert warnings(tmp_path, text) == []
