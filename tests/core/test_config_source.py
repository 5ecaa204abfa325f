"""The file as a plain tree: the accepted YAML and JSON, and the line of each key."""

import json
from pathlib import Path

import pytest
from claw.config import source
from claw.contracts.errors import ConfigError
from hypothesis import given, strategies as st

WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
TREES = st.dictionaries(
    WORDS,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
        lambda below: st.lists(below, max_size=4) | st.dictionaries(WORDS, below, max_size=4),
        max_leaves=12,
    ),
    max_size=4,
)


def refusal(text: str, *, json_only: bool = False) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        source.parse_config(text, json_only=json_only, file="config")
    return caught.value


def test_every_key_has_its_line_and_list_entries_too() -> None:
    tree, lines = source.parse_config("agents:\n  list:\n  - id: a\n  - id: b\n    name: B\n")
    assert tree == {"agents": {"list": [{"id": "a"}, {"id": "b", "name": "B"}]}}
    assert lines[("agents", "list", 1)] == 4
    assert lines[("agents", "list", 1, "name")] == 5


def test_json_has_lines_as_yaml_has() -> None:
    tree, lines = source.parse_config('{\n  "a": {"b": [1,\n 2]},\n  "c{": "}"\n}', json_only=True)
    assert tree == {"a": {"b": [1, 2]}, "c{": "}"}
    assert (lines[("a", "b", 1)], lines[("c{",)]) == (3, 4)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("off", "off"),
        ("yes", "yes"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("007", 7),
        ("0x10", 16),
        ("true", True),
        ("~", None),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("'1'", "1"),
        ('"true"', "true"),
        ("+1", 1),
    ],
)
def test_a_word_without_quotes_means_what_yaml_1_2_says(written: str, meant: object) -> None:
    assert source.parse_config(f"key: {written}")[0] == {"key": meant}


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "twice"),
        ("a:\n\tb: 1\n", 2, "tab"),
        ("a: 1\n<<<<<<< HEAD\n", 2, "conflict"),
        ("a: &x 1\nb: *x\n", 1, "anchors"),
        ("a: !!python/name:os.system\n", 1, "tag"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("- a\n", 1, "mapping"),
        ("a: [1\n", 1, "never closed"),
        ("? [a]\n: 1\n", 1, "key must be a string"),
    ],
)
def test_bad_yaml_is_reported_with_its_line(text: str, line: int, word: str) -> None:
    error = refusal(text)
    assert error.line == line
    assert word in str(error)
    assert "column" in str(error)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ('{"a": 1,\n "a": 2}', 2, "twice"),
        ('{"a": 1,}', 1, "JSON"),
        ('{"a": ', 1, "unexpected end"),
        ('{"a": "x', 1, "unexpected end"),
        ("[]", 1, "mapping"),
        ('{"a": NaN}', None, "NaN"),
        ("a: 1", 1, "JSON"),
    ],
)
def test_bad_json_is_reported_with_its_line(text: str, line: int | None, word: str) -> None:
    error = refusal(text, json_only=True)
    assert error.line == line
    assert word in str(error)


@pytest.mark.parametrize("json_only", [True, False])
@pytest.mark.parametrize("text", ["", "  \n", "\n\n"])
def test_an_empty_file_is_called_empty(text: str, json_only: bool) -> None:
    assert "empty" in str(refusal(text, json_only=json_only))


def test_a_file_of_comments_is_called_empty() -> None:
    assert "empty" in str(refusal("# nothing\n"))


@pytest.mark.parametrize("json_only", [True, False])
def test_a_bomb_of_brackets_is_refused_and_crashes_nothing(json_only: bool) -> None:
    assert "deeper" in str(refusal('{"a":' * 100_000, json_only=json_only))


@pytest.mark.parametrize("name", ["config.toml", "config.json5", "openclaw.json"])
def test_a_config_file_of_another_format_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x = 1")
    with pytest.raises(ConfigError, match=f"{name} is not read") as refused:
        source.find_config(tmp_path)
    assert "config.yaml" in str(refused.value)
    (tmp_path / "config.yaml").write_text("{}")
    assert source.find_config(tmp_path) == tmp_path / "config.yaml"


def test_one_home_has_one_file(tmp_path: Path) -> None:
    assert source.find_config(tmp_path / "nowhere") is None
    (tmp_path / "config.json").write_text("{}")
    assert source.find_config(tmp_path) == tmp_path / "config.json"
    (tmp_path / "config.yaml").write_text("{}")
    with pytest.raises(ConfigError, match=r"config\.yaml and config\.json"):
        source.find_config(tmp_path)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.write_bytes(b"a: 1\n\xff"), "UTF-8"),
        (lambda path: path.write_bytes(b"#" * (source.MAX_BYTES + 1)), "larger"),
    ],
)
def test_a_file_that_is_none_is_reported_by_name(tmp_path: Path, make: object, word: str) -> None:
    path = tmp_path / "config.yaml"
    make(path)  # type: ignore[operator]
    with pytest.raises(ConfigError, match=word) as caught:
        source.read_config(path)
    assert str(path) in str(caught.value)


@given(TREES)
def test_json_reads_back_as_it_was_written(tree: dict[str, object]) -> None:
    assert source.parse_config(json.dumps(tree), json_only=True)[0] == tree


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")), st.booleans())
def test_any_text_is_read_or_refused(text: str, json_only: bool) -> None:
    try:
        tree, lines = source.parse_config(text, json_only=json_only)
    except ConfigError:
        return
    assert isinstance(tree, dict)
    assert all(1 <= line <= text.count("\n") + text.count("\r") + 1 for line in lines.values())


@given(st.text(alphabet="{}[]:,-#&*!|>\"'\\ \n\tab0%@`?"), st.booleans())
def test_any_knot_of_signs_is_read_or_refused(text: str, json_only: bool) -> None:
    try:
        source.parse_config(text, json_only=json_only)
    except ConfigError:
        pass
