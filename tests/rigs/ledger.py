"""The rows and transcripts of a home, read with SQL and as lines of JSON."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from rigs.checker import Reply, Taken, Turn

_NUMBER = re.compile(r"(?:ask|aside)-(\d+)")
_KEYS_OF_NOTICES = (":doubt", ":cut", ":left")
_ENDS_OF_ANSWERS = ("stop", "length")


def rows(home: Path, query: str) -> list[tuple[Any, ...]]:
    """Read rows of ``state.db`` while a gateway may write; empty while there is none."""
    path = home / "state.db"
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=5)) as database:
            return database.execute(query).fetchall()
    except sqlite3.OperationalError:  # no such table yet
        return []


def quiet(home: Path) -> bool:
    """Return true if no message waits, no turn runs and no reply is pending."""
    return unsettled(home) == 0


def unsettled(home: Path) -> int | None:
    """Count the messages that wait, the turns that run, the replies that are pending and the searches for parts of
    streams; None = no database yet."""
    left = """SELECT (SELECT count(*) FROM inbox WHERE state IN ('new', 'taken'))
              + (SELECT count(*) FROM turns WHERE ended_at_ms IS NULL)
              + (SELECT count(*) FROM owed WHERE state IN ('owed', 'sending'))
              + (SELECT count(*) FROM watched JOIN turns USING (turn) WHERE ended_at_ms IS NOT NULL
                 AND streamed > json_array_length(CAST(shown AS TEXT)) AND EXISTS (
                 SELECT 1 FROM owed WHERE owed.turn = turns.turn AND state = 'paid' AND channel = 'telegram'))"""
    return next((count for (count,) in rows(home, left)), None)


def taken(home: Path) -> Iterator[Taken]:
    """The inbox, in the order of arrival."""
    for body, state, turn in rows(home, "SELECT body, state, turn FROM inbox ORDER BY number"):
        for number in _NUMBER.findall(json.loads(body)["text"]):
            yield Taken(int(number), state, turn)


def turns(home: Path) -> Iterator[Turn]:
    """All turns."""
    for row in rows(home, "SELECT turn, outcome FROM turns"):
        yield Turn(*row)


def replies(home: Path) -> Iterator[Reply]:
    """All replies, in their order."""
    query = "SELECT turn, channel, body, state, repeated FROM owed ORDER BY number"
    for turn, channel, body, state, repeated in rows(home, query):
        reply = json.loads(body)
        is_answer = reply.get("stop_reason", "stop") in _ENDS_OF_ANSWERS
        is_notice = not is_answer or reply["key"].endswith(_KEYS_OF_NOTICES)
        yield Reply(turn, channel, reply["text"], state, repeated, is_notice)


def recorded(home: Path) -> tuple[list[int], list[str]]:
    """Questions in the transcripts, and the errors found in these."""
    numbers: list[int] = []
    wrong: list[str] = []
    for path in sorted(home.glob("agents/*/sessions/*.jsonl*")):
        if path.suffix == ".lock":
            continue
        if path.suffix != ".jsonl":
            wrong.append(f"{path.name} was moved away")
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
