"""What a home's disk says, read as anybody could: SQL and lines of JSON."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from rigs.checker import Owed, Taken, Turn

_NUMBER = re.compile(r"(?:ask|aside)-(\d+)")


def rows(home: Path, query: str) -> list[tuple[Any, ...]]:
    """Of ``state.db``, while a gateway may write; empty while there is none."""
    path = home / "state.db"
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as database:
            return database.execute(query).fetchall()
    except sqlite3.OperationalError:  # no such table yet
        return []


def quiet(home: Path) -> bool:
    """Whether nothing waits, runs or is owed."""
    left = """SELECT (SELECT count(*) FROM inbox WHERE state IN ('new', 'taken'))
              + (SELECT count(*) FROM turns WHERE ended_at_ms IS NULL)
              + (SELECT count(*) FROM owed WHERE state IN ('owed', 'sending'))"""
    return rows(home, left) == [(0,)]


def taken(home: Path) -> Iterator[Taken]:
    """The inbox, in the order of arrival."""
    for body, state, turn in rows(home, "SELECT body, state, turn FROM inbox ORDER BY number"):
        for number in _NUMBER.findall(json.loads(body)["text"]):
            yield Taken(int(number), state, turn)


def turns(home: Path) -> Iterator[Turn]:
    """All turns."""
    for row in rows(home, "SELECT turn, outcome FROM turns"):
        yield Turn(*row)


def owed(home: Path) -> Iterator[Owed]:
    """All that was owed, in its order."""
    query = "SELECT turn, channel, body, state, repeated FROM owed ORDER BY number"
    for turn, channel, body, state, repeated in rows(home, query):
        yield Owed(turn, channel, json.loads(body)["text"], state, repeated)


def recorded(home: Path) -> tuple[list[int], list[str]]:
    """Questions in the transcripts, and what is wrong with these."""
    numbers: list[int] = []
    wrong: list[str] = []
    for path in sorted(home.glob("agents/*/sessions/*.jsonl*")):
        if path.suffix == ".lock":
            continue
        if path.suffix != ".jsonl":
            wrong.append(f"{path.name} was set aside")
            continue
        open_calls: list[str] = []
        for line in path.read_text().splitlines():
            message = json.loads(line).get("message") or {}
            text = json.dumps(message)
            if message.get("role") == "user":
                numbers += map(int, re.findall(r"ask-(\d+)", text))
            open_calls += re.findall(r'"type": "toolCall", "id": "([^"]+)"', text)
            if message.get("role") == "toolResult":
                open_calls = [id for id in open_calls if id not in text]
        wrong += [f"{path.name}: call {id} has no result" for id in open_calls]
    return numbers, wrong
