"""Changing the file: one key, comments stay, a change that would break it is refused."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from claw.config import source
from claw.config.summary import PluginKeys
from claw.contracts.errors import BusyError, ConfigError, UsageError
from claw_config_sdk import Lock, editor, get_value
from hypothesis import HealthCheck, given, settings, strategies as st

ORIGINAL = """\
# my house
agents:
    defaults:   # for all
        model:   "anthropic/claude-sonnet-4-6"   # the best
    list:
    - id: coder   # the one

      tools:
          allow: [ read,   write ]
    -   id: writer
        name: 'W'
subagents:
    maxConcurrent: 30

tools: {deny: [gateway]}   # never
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "config.yaml"
    file.write_text(ORIGINAL, encoding="utf-8")
    return file


def changed(before: str, after: str) -> tuple[list[str], list[str]]:
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


@pytest.mark.parametrize(
    ("key", "value", "gone", "come"),
    [
        (
            "subagents.maxConcurrent",
            60,
            ["    maxConcurrent: 30"],
            ["    maxConcurrent: 60"],
        ),
        (
            "agents.defaults.subagents.maxConcurrent",
            60,
            ["    maxConcurrent: 30"],
            ["    maxConcurrent: 60"],
        ),
        ("agents.list[writer].name", "X", ["        name: 'W'"], ["        name: 'X'"]),
        ("agents.list[1].name", "X", ["        name: 'W'"], ["        name: 'X'"]),
        (
            "tools.deny[]",
            "exec",
            ["tools: {deny: [gateway]}   # never"],
            ["tools: {deny: [gateway, exec]}   # never"],
        ),
        ("models.leastContext", 1234, [], ["models:", "    leastContext: 1234"]),
        (
            "telegram.allowFrom[]",
            "7",
            [],
            ["channels:", "    telegram:", "        allowFrom:", "        - '7'"],
        ),
    ],
)
def test_only_the_lines_of_the_key_change(
    path: Path, key: str, value: Any, gone: list[str], come: list[str]
) -> None:
    keys = PluginKeys(short_forms={"telegram": ("channels", "telegram")})
    assert editor.set_value(path, key, value, owners=lambda read: keys)
    assert changed(ORIGINAL, path.read_text(encoding="utf-8")) == (gone, come)


def test_what_is_so_already_is_not_written(path: Path) -> None:
    before = path.stat().st_mtime_ns
    assert not editor.set_value(path, "subagents.maxConcurrent", 30)
    assert not editor.set_value(path, "tools.deny[]", "gateway")
    assert not editor.unset_value(path, "models.leastContext")
    assert path.stat().st_mtime_ns == before


def test_unset_takes_a_key_or_an_entry_out(path: Path) -> None:
    assert editor.unset_value(path, "agents.list[coder].tools")
    assert editor.unset_value(path, "tools.deny[0]")
    tree = source.read_config(path).tree
    assert tree["agents"]["list"][0] == {"id": "coder"}
    assert tree["tools"] == {"deny": []}
    assert "# my house" in path.read_text(encoding="utf-8")


def test_a_file_without_any_key_left_is_still_a_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    editor.set_value(path, "locale", "zh")
    assert editor.unset_value(path, "locale")
    assert source.read_config(path).tree == {}
    assert editor.set_value(path, "locale", "en")
    assert source.read_config(path).tree == {"locale": "en"}


@pytest.mark.parametrize("key", ["dm_policy", "dmPolicy"])
def test_a_key_keeps_the_spelling_of_the_file(tmp_path: Path, key: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("telegram:\n  dm_policy: pairing\n", encoding="utf-8")
    editor.set_value(path, f"channels.telegram.{key}", "disabled")
    assert source.read_config(path).tree == {"telegram": {"dm_policy": "disabled"}}


def test_a_lone_star_becomes_a_list_when_something_is_added(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("tools:\n  allow: '*'\n", encoding="utf-8")
    editor.set_value(path, "tools.allow[]", "demo")
    assert source.read_config(path).tree == {"tools": {"allow": ["*", "demo"]}}


def test_a_change_that_would_break_the_file_is_refused_and_nothing_is_written(path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean coding"):
        editor.set_value(path, "tools.profile", "codng")
    with pytest.raises(ConfigError, match=r"agents\.list\[0\]\.id"):
        editor.unset_value(path, "agents.list[coder].id")
    assert path.read_text(encoding="utf-8") == ORIGINAL


def test_a_file_that_is_wrong_already_can_be_fixed_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("tools: {profle: x}\ngatway: {}\n", encoding="utf-8")
    assert editor.unset_value(path, "gatway")
    assert editor.unset_value(path, "tools.profle")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("agents.list[codr].name", "Did you mean coder"),
        ("agents.list[7].name", "2 entries"),
        ("tools..deny", "not a valid key"),
        ("", "not a valid key"),
        ("a b", "not a valid key"),
    ],
)
def test_a_key_that_leads_nowhere_is_reported(path: Path, key: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        editor.set_value(path, key, "x")


def test_json_keeps_its_indentation(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{\n    "tools": {\n        "deny": []\n    }\n}\n', encoding="utf-8")
    editor.set_value(path, "tools.deny[]", "exec")
    assert path.read_text(encoding="utf-8").splitlines()[3] == '            "exec"'
    path.write_text('{"tools": {}}', encoding="utf-8")
    editor.set_value(path, "tools.profile", "coding")
    assert path.read_text(encoding="utf-8") == '{"tools": {"profile": "coding"}}'


def test_a_new_file_is_for_its_owner_alone_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "config.yaml"
    editor.set_value(path, "locale", "zh")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o640)
    editor.set_value(path, "locale", "en")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_two_editors_do_not_lose_a_change(path: Path) -> None:
    lock = Lock(path.parent / "config.lock")
    lock.take()
    try:
        with pytest.raises(BusyError):
            editor.set_value(path, "locale", "zh")
    finally:
        lock.close()


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("true", True),
        ("3", 3),
        ("[a, b]", ["a", "b"]),
        ("{a: 1}", {"a": 1}),
        ("null", None),
        ("word", "word"),
        ("", ""),
        ("*", "*"),
        ("group:plugins", "group:plugins"),
        ("@me", "@me"),
        ('"3"', "3"),
        ("off", "off"),
        ("a: b", "a: b"),
    ],
)
def test_a_typed_value_is_yaml_or_else_itself(typed: str, value: object) -> None:
    assert editor.parse_value(typed) == value


WORDS = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\ufeff\ufffe\uffff"),
    min_size=1,
    max_size=8,
)
CONFIG = st.dictionaries(
    WORDS.filter(lambda word: word not in ("env", "file")),
    st.integers() | st.booleans() | WORDS | st.lists(WORDS, max_size=3),
    max_size=4,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    tree=CONFIG,
    name=WORDS,
    value=st.integers() | st.booleans() | WORDS | st.lists(WORDS, max_size=2) | CONFIG,
    ext=st.sampled_from(["yaml", "json"]),
)
def test_set_then_get_gives_it_back_and_all_else_is_as_it_was(
    tmp_path: Path, tree: dict[str, Any], name: str, value: Any, ext: str
) -> None:
    path = tmp_path / f"config.{ext}"
    before = {"locale": "zh", "plugins": {"entries": {"demo": {"config": tree}}}}
    path.write_text(json.dumps(before, ensure_ascii=ext == "json"), encoding="utf-8")
    key = f"plugins.entries.demo.config[{json.dumps(name)}]"

    editor.set_value(path, key, value)

    after = source.read_config(path).tree
    assert get_value(after, key, {}) == value
    assert after["locale"] == "zh"
    assert {**after["plugins"]["entries"]["demo"]["config"], name: None} == {**tree, name: None}
    assert editor.unset_value(path, key)
    tree.pop(name, None)
    assert source.read_config(path).tree["plugins"]["entries"]["demo"]["config"] == tree
