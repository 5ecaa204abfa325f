"""Records: what the lines of a session file say, and what a model is shown of them. Pure.

A header, then records with an id and the id of the record they follow. Only a line feed ends a line.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from claw.transcript import Assistant, Image, Message, Text, Usage, User
from claw.unicode import tree, written

NOT_SAID = ""  # a parent id that no record can have: the record hangs on the one before it
SUMMARY = "Summary:\n"
BRANCH_SUMMARY = "Summary of a branch that was left:\n"


class Header(msgspec.Struct, frozen=True, tag="session", tag_field="type", rename="camel"):
    """First line of a session file.

    :param key: the session key it was opened under, so that a lost index can be made again.
    """

    id: str
    version: int = 3
    timestamp: str = ""
    cwd: str = ""
    key: str = ""


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """What all records have: an id (8 hex digits, unique in the file), the id of the record it follows, a moment.

    :param parent_id: None for a root.
    :param timestamp: ISO 8601, UTC.
    """

    id: str = ""
    parent_id: str | None = NOT_SAID
    timestamp: str = ""


class MessageRecord(Record, frozen=True, kw_only=True, tag="message"):
    """Something said."""

    message: Message


class Compaction(Record, frozen=True, kw_only=True, tag="compaction"):
    """What came before ``first_kept_entry_id`` is shown as this summary from here on; the lines stay.

    :param usage: what writing it cost.
    """

    summary: str
    first_kept_entry_id: str = ""
    tokens_before: int = 0
    details: Any = None
    usage: Usage | None = None


class BranchSummary(Record, frozen=True, kw_only=True, tag="branch_summary"):
    """What happened on a branch that was left."""

    summary: str
    from_id: str = ""


class LeftOut(Record, frozen=True, kw_only=True, tag="left_out"):
    """What stands between a record and this one is shown to no model any more: a service refused it. The lines stay.

    :param last_kept_entry_id: empty = nothing said before this stays.
    :param summary: what it was about.
    """

    last_kept_entry_id: str = ""
    summary: str = ""


class CustomMessage(Record, frozen=True, kw_only=True, tag="custom_message"):
    """Something that a plugin puts into the conversation."""

    content: tuple[Text | Image, ...]
    custom_type: str = "custom"


class MemoryFlush(Record, frozen=True, kw_only=True, tag="memory_flush"):
    """What matters was saved to memory here. State: shown to no model.

    :param compactions: how many the conversation had seen; ``size_bytes`` how large its file was.
    :param usage: what it cost.
    """

    compactions: int = 0
    size_bytes: int = 0
    usage: Usage | None = None


class ModelChange(Record, frozen=True, kw_only=True, tag="model_change"):
    """From here on ``provider/model`` answers."""

    model: str


class ThinkingLevelChange(Record, frozen=True, kw_only=True, tag="thinking_level_change"):
    """From here on the model thinks this much."""

    thinking_level: str


class Other(Record, frozen=True, kw_only=True):
    """A record of a kind, or a shape, that we do not know: kept in the file as it is, shown to no model."""

    raw: dict[str, Any]


Known = (
    MessageRecord
    | Compaction
    | BranchSummary
    | LeftOut
    | CustomMessage
    | MemoryFlush
    | ModelChange
    | ThinkingLevelChange
)
Entry = Known | Other
Line = TypeVar("Line", bound=Header | Record)


class Context(msgspec.Struct, frozen=True):
    """What the path from a record to the root says.

    :param messages: oldest first, not yet paired.
    :param model: ``provider/model`` of the newest answer or change on the path; None before any.
    """

    messages: tuple[Message, ...] = ()
    thinking_level: str = "off"
    model: str | None = None


def context(entries: Sequence[Entry], leaf: str | None = NOT_SAID) -> Context:
    """What a model is shown: the path from ``leaf`` to the root, the last compaction on it in force.

    :param leaf: id of a record; unknown or not given means the last one, None the place before the first.
    """
    path = _path(entries, leaf)
    level, model = "off", None
    for entry in path:
        if isinstance(entry, ThinkingLevelChange):
            level = entry.thinking_level
        elif isinstance(entry, ModelChange):
            model = entry.model
        elif isinstance(entry, MessageRecord) and isinstance(entry.message, Assistant):
            model = entry.message.model or model
    return Context(tuple(message for entry in _in_force(path) if (message := shown(entry))), level, model)


def shown(entry: Entry) -> Message | None:
    """What a model reads of one record; None for state, labels and what we do not know."""
    match entry:
        case MessageRecord():
            return entry.message
        case Compaction():
            return Assistant(content=(Text(SUMMARY + entry.summary),))
        case BranchSummary() | LeftOut() if entry.summary:
            return Assistant(content=(Text(BRANCH_SUMMARY + entry.summary),))
        case CustomMessage():
            return User(content=entry.content, kind=entry.custom_type or "custom")
    return None


def in_force(entries: Sequence[Entry]) -> Compaction | None:
    """The last compaction on the path to the newest record; None when nothing was compacted."""
    path = _path(entries, NOT_SAID)
    return next((entry for entry in reversed(path) if isinstance(entry, Compaction)), None)


def _path(entries: Sequence[Entry], leaf: str | None) -> list[Entry]:
    if leaf is None or not entries:
        return []
    place_of: dict[str, int] = {}
    parents: list[int | None] = []
    for place, entry in enumerate(entries):  # a parent stands before its child, so that no circle can be
        parents.append(place_of.get(entry.parent_id) if entry.parent_id is not None else None)
        place_of[entry.id] = place
    at: int | None = place_of.get(leaf, len(entries) - 1)
    path = []
    while at is not None:
        path.append(entries[at])
        at = parents[at]
    return path[::-1]


def _in_force(path: Sequence[Entry]) -> Iterable[Entry]:
    """The last compaction, what it kept, and what follows it; the whole path when there is none. Without what was left
    out."""
    path = _standing(path)
    compactions = [place for place, entry in enumerate(path) if isinstance(entry, Compaction)]
    if not compactions:
        return path
    last = compactions[-1]
    compaction = path[last]
    assert isinstance(compaction, Compaction)
    first = next((p for p in range(last) if path[p].id == compaction.first_kept_entry_id), last)
    kept = [entry for entry in path[first:last] if not isinstance(entry, Compaction)]
    return [compaction, *kept, *path[last + 1 :]]


def _standing(path: Sequence[Entry]) -> Sequence[Entry]:
    """The path without what was left out; a compaction in there stays: what went before it does not come back."""
    if not any(isinstance(entry, LeftOut) for entry in path):
        return path
    standing: list[Entry] = []
    for entry in path:
        if isinstance(entry, LeftOut):
            last = entry.last_kept_entry_id
            stays = next((place + 1 for place, one in enumerate(standing) if one.id == last), 0)
            standing[stays:] = [one for one in standing[stays:] if isinstance(one, Compaction)]
        standing.append(entry)
    return standing


class Reading(msgspec.Struct, frozen=True):
    """A session file, read.

    :param header: None when there is no valid one; then ``reason`` says so and nothing else counts.
    :param entries: in file order, exact repetitions once, each one's parent the one before it.
    :param bad_lines: numbers (from 1) of the lines that are no record: torn, foreign, not JSON, not an object.
    :param reason: ``empty session file`` or ``invalid session header``, else empty.
    """

    header: Header | None
    entries: tuple[Entry, ...] = ()
    bad_lines: tuple[int, ...] = ()
    reason: str = ""


_BOM = b"\xef\xbb\xbf"
_line: msgspec.json.Decoder[Header | Known] = msgspec.json.Decoder(Header | Known)


def encode(record: Line) -> tuple[Line, bytes]:
    """The record as it will be read again, and its line, the end included.

    Text that is not Unicode (a lone surrogate, as a model or a file name may bring it) becomes U+FFFD in both.
    """
    record, line = written(record)
    return record, line + b"\n"


def lines_of(data: bytes) -> list[bytes]:
    """The lines of a file without their ends, a byte-order mark at the start left out; the last may be empty."""
    return data.removeprefix(_BOM).split(b"\n")


def read(data: bytes, lost: Header | None = None) -> Reading:
    """Read a session file. A bad line costs only itself, and every record follows the one before it.

    claw never goes back to an earlier record: one that seems to was moved, doubled or damaged, or follows one that is
    gone. So nothing that can be read is out of sight.

    :param lost: stands for the first line of a file that has lost its own; then every line is looked at for records.
    """
    header, first = lost, lost is None
    entries: list[Entry] = []
    bad: list[int] = []
    seen: dict[str, bytes] = {}
    for number, line in enumerate(lines_of(data), 1):
        bare = line.strip()
        if not bare:
            continue
        record = _record(bare)
        if record is None:
            bad.append(number)
        elif first:
            first = False
            if isinstance(record, Header) and record.id:
                header = record
        elif isinstance(record, Header) or (isinstance(record, Other) and not record.id):
            continue
        elif not record.id:
            bad.append(number)
        elif seen.get(record.id) != bare:
            before = entries[-1].id if entries else None
            if record.parent_id != before:
                record = msgspec.structs.replace(record, parent_id=before)
            seen[record.id] = bare
            entries.append(record)
    if header is None:
        return Reading(None, (), tuple(bad), "empty session file" if first else "invalid session header")
    return Reading(header, tuple(entries), tuple(bad))


def rewritten(data: bytes, bad_lines: Sequence[int], lost: Header | None = None) -> bytes:
    """The file without its bad and blank lines, each line with its end.

    :param lost: is put in front.
    """
    bad = set(bad_lines)
    lines = [line.rstrip(b"\r") for number, line in enumerate(lines_of(data), 1) if number not in bad]
    head = encode(lost)[1] if lost else b""
    return head + b"".join(line + b"\n" for line in lines if line.strip())


def _record(line: bytes) -> Header | Entry | None:
    try:
        return _line.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):  # ValueError: a tag that is not UTF-8
        return _odd_record(line)


def _odd_record(line: bytes) -> Header | Entry | None:
    """A line that is not quite ours: a short form, a lone surrogate, a number beyond 64 bits, an unknown kind."""
    try:
        raw = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    raw = tree(raw)
    message = raw.get("message")
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        raw = raw | {"message": message | {"content": [{"type": "text", "text": message["content"]}]}}
    try:
        known: Header | Known = msgspec.convert(raw, Header | Known)
        return known
    except (msgspec.ValidationError, RecursionError):
        pass
    if not isinstance(raw.get("id"), str) or not isinstance(raw.get("type"), str):
        return Other(raw=raw)
    parent = raw.get("parentId", NOT_SAID)
    return Other(id=raw["id"], parent_id=parent if isinstance(parent, str | None) else NOT_SAID, raw=raw)
