"""A damaged conversation file opens, loses no undamaged line, and continues.

A damage is made from a number, so a failure names it. A sample is run; ``--full`` runs the figure of the plan.
"""

import json
import random
from itertools import count

import pytest
from claw.contracts.transcript import Assistant, Text, Thinking, ToolCall, ToolResultMessage, Usage, User
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.storage.files import Disk
from claw.storage.records import (
    CompactionRecord,
    MemoryFlushRecord,
    MessageRecord,
)
from claw_context.session_figures import figures_of
from claw_sessions.document import render_lines
from claw_sessions.index import SessionFile, conversation_stats, parse_stored_session
from claw_sessions.records import CustomMessage, ModelChange, ThinkingLevelChange
from claw_sessions.render import passages
from claw_sessions.session_file import parse_session
from claw_sessions.store import JsonlSessionStore
from msgspec.structs import replace
from rigs.chaos import Chaos, refused
from rigs.damage import damaged

SAMPLE, FULL = 3000, 100_000
PARTS = 10
TRANSCRIPTS = 24
KEY = "agent:a:main"
UNSYNCED = Disk(
    sync=lambda fd: None, sync_all=lambda fd: None
)  # it is bytes that are damaged here, not a machine


def talk(session, seed):
    """A conversation as it comes to be: every kind of record, half of them without a compaction."""
    chaos = Chaos(seed, size=30)
    compacted = seed % 2
    session.append(User((Text("go on 好"),), source="17"))
    session.append(
        Assistant(
            (Thinking("well", signature="s", maker="anthropic"), Text("I look."), ToolCall("t1", "read", {"n": 1})),
            model="anthropic/m1", stop_reason="tool_use", usage=Usage(input=7, output=2, cache_read=3),
        )
    )  # fmt: skip
    session.append(ToolResultMessage("t1", "read", (Text("a\nb\u2028c"),), details={"kept": [1, None, 2.5]}))
    session.append_entry(ModelChange(model="openai/m2"))
    session.append_entry(ThinkingLevelChange(thinking_level="high"))
    session.append_entry(CustomMessage(content=(Text("by a plugin"),), custom_type="weather"))
    session.append_entry(MemoryFlushRecord(compactions=1, size_bytes=900))
    for message in chaos.history(6):
        session.append(message)
    if compacted:
        kept = session.entries[4].id
        session.append_entry(
            CompactionRecord(summary="they talked", first_kept_entry_id=kept, details={"files": ["a"]})
        )
        chaos.fill(session, 6)
    session.append(User((Text("and the end?"),)))


@pytest.fixture
async def sessions(tmp_path):
    seconds = count(1_772_366_400)
    clock = Clock(now=lambda: float(next(seconds)))
    made = JsonlSessionStore(tmp_path, Database(tmp_path / "state.db"), clock, UNSYNCED)
    yield made
    made.close()
    made.database.close()


async def transcripts(sessions):
    """Files as they were written, with the records that their lines hold."""
    made = []
    for seed in range(TRANSCRIPTS):
        session = await sessions.open(f"agent:a:talk{seed}", "a")
        talk(session, seed)
        session.release()
        data = session.path.read_bytes()
        kept = dict(zip(data.splitlines()[1:], parse_session(data).entries, strict=True))
        made.append((data, {line: replace(entry, parent_id=None) for line, entry in kept.items()}))
    return made


def lines_of(data):
    return [line.strip() for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]


def identity(line):
    """The id that a line gives; none for the first line of a file, and for what was never a record."""
    try:
        record = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return repr(line)
    match record:
        case {"type": str(kind), "id": str(id_)} if kind != "session":
            return id_.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case {}:
            return ""
    return repr(line)


def in_order(wanted, found):
    found = iter(found)
    return all(one in found for one in wanted)


def check_what_is_left(session, data, records):
    """Every undamaged line is there, in its order, and in the requests to the model."""
    whole = list(dict.fromkeys(line for line in lines_of(data) if line in records))
    loaded = [replace(entry, parent_id=None) for entry in session.entries]
    assert in_order([records[line] for line in whole], loaded), "an untouched line is lost"
    if not any(isinstance(record, CompactionRecord) for record in session.entries):
        said = [records[line].message for line in whole if isinstance(records[line], MessageRecord)]
        assert in_order(said, session.unpaired_messages), "an untouched line is out of sight"


def check_messages(session, data, before):
    """A line that cannot be read is reported, and a copy of the damaged file is kept, every byte."""
    beside = [
        path
        for path in session.path.parent.glob(f"{session.path.name}.*")
        if path.suffix != ".lock" and path.read_bytes() == data
    ]
    if not session.notices:
        lost = set(map(identity, lines_of(data))) - {entry.id for entry in session.entries} - {""}
        assert lost == set(), "a line is lost without a word"
    assert len(beside) == bool(session.notices)
    assert all(str(beside[0]) in notice for notice in session.notices)
    if not session.notices and data.strip():
        assert session.path.read_bytes() == data, "changed without a word"


def check_that_it_can_be_looked_at(session, data):
    kept = SessionFile(KEY, "a", session.id, session.path, "current", len(data), 0.0)
    reading = parse_stored_session(kept, data)
    assert list(render_lines(list(passages(reading.entries)))) is not None
    conversation_stats(reading)
    for fact in (session.time_of(bool), session.context_tokens, figures_of(session), session.size_bytes):
        assert fact is not NotImplemented


async def one_damage(sessions, number, data, records):
    sessions.assign(KEY, "a", "s1")
    path = sessions.path_of("a", "s1")
    path.write_bytes(data)

    session = await sessions.open(KEY, "a")
    check_what_is_left(session, data, records)
    check_messages(session, data, records)
    check_that_it_can_be_looked_at(session, data)
    loaded, appended = list(session.entries), session.append(User((Text("still there?"),)))
    assert refused(session.messages, number) == ""
    session.append(Assistant((Text("yes"),), model="fake/m1"))
    session.release()
    session.unload()

    again = await sessions.open(KEY, "a")
    assert again.notices == ()
    assert list(again.entries[:-2]) == loaded
    assert again.entries[-2].id == appended
    assert [message.content for message in again.messages[-2:]] == [
        (Text("still there?"),),
        (Text("yes"),),
    ]
    again.release()
    again.unload()
    for left in path.parent.glob("s1.jsonl*"):
        left.unlink()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_damage_costs_more_than_the_lines_it_touches(part, sessions, full):
    written = await transcripts(sessions)
    number = (FULL if full else SAMPLE) // PARTS
    for seed in range(part * number, (part + 1) * number):
        dice = random.Random(seed)
        whole, records = dice.choice(written)
        data, harm = damaged(whole, dice)
        try:
            await one_damage(sessions, seed, data, records)
        except Exception as failed:
            raise AssertionError(f"damage {seed}: {harm}") from failed
