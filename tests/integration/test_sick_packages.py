"""Broken third-party packages in one claw with sound ones: each is listed, explained, called, used, and stopped.

No word is wrong, nothing hangs beyond its limit, and nobody else is touched. ``sick_families.py`` is the table; each
family is a process of its own. What a plugin does wrong at each of its stages is in test_fault_matrix.py.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from integration.sick import Sick
from integration.sick_families import LLM, MCP, PLUGINS, server_name

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("sick")]
TESTS = Path(__file__).parents[1]
ROWS = [
    *(("mcp", name, one) for name, one in MCP.items()),
    *(("llm", name, one) for name, one in LLM.items()),
    *(("plugins", name, one) for name, one in PLUGINS.items()),
]
STOP_SECONDS = 10.0


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    @cache
    def lived(family: str) -> dict[str, Any]:
        root = tmp_path_factory.mktemp(family)
        (root / "site").mkdir()
        words = [sys.executable, "-m", "integration.sick", family, str(root)]
        done = subprocess.run(words, cwd=TESTS, capture_output=True, text=True, timeout=280)
        assert done.returncode == 0, done.stderr
        return {**json.loads(done.stdout), "said": done.stderr, "root": root}

    return lived


def test_there_are_enough_of_them() -> None:
    assert len(ROWS) >= 60


@pytest.mark.parametrize(
    ("family", "name", "sick"), ROWS, ids=[f"{family}-{name}" for family, name, _ in ROWS]
)
def test_it_is_explained_called_and_used_in_a_turn(family: str, name: str, sick: Sick, seen: Any) -> None:
    lived = seen(family)
    row = lived["rows"][name]

    assert row["listed"] is sick.is_there
    if sick.is_there:
        assert row["explained"].strip() == ""
        assert sick.said in row["called"]
        assert row["answered"].startswith("told: ") and sick.said in row["answered"]
    else:
        assert sick.said in lived["account"] + json.dumps(lived["states"])
        assert " not found" in row["called"] and row["explained"].strip()
        assert family != "mcp" or sick.said in row["explained"]
    assert row["seconds"] < sick.seconds
    assert "all is well" in row["sound"]
    prefix = {"mcp": f"{server_name(name)}__", "llm": f"{name.replace('-', '_')}__", "plugins": ""}[family]
    assert [tool for tool in sick.absent if prefix + tool in lived["names"]] == []
    told = "".join((lived["account"], *lived["log"], lived["said"]))
    assert [tool for tool in sick.absent if prefix + tool not in told and f" {tool} " not in told] == []


@pytest.mark.parametrize("family", ["mcp", "llm", "plugins"])
def test_no_word_is_wrong_and_nothing_is_left(family: str, seen: Any) -> None:
    lived = seen(family)
    words = json.dumps([lived["rows"], lived["account"], lived["log"], lived["states"]]) + lived["said"]

    assert "Traceback" not in words.replace("  | Traceback (most recent call last)", "")
    assert "fault of ours" not in words and "pydantic.dev" not in words
    assert lived["close"] < STOP_SECONDS
    assert lived["states"]["fakes"].startswith("loaded")
    mark = f"HOME={lived['root']}".encode()
    assert [
        one.with_name("cmdline").read_bytes()
        for one in Path("/proc").glob("[0-9]*/environ")
        if _has(one, mark)
    ] == []


def _has(environ: Path, mark: bytes) -> bool:
    try:
        return mark in environ.read_bytes()
    except OSError:
        return False
