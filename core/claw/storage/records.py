"""Records: what a session consists of, each one line of JSON, and the messages that a model is shown of them. Pure.

Each record has an id, and the id of the record that it follows.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from claw.contracts.text import repair_tree, to_json
from claw.contracts.transcript import Assistant, Image, Message, Text, Usage, User

UNKNOWN_PARENT = ""  # a parent id that no record can have: the record follows the one before it
SUMMARY = "Summary:\n"
BRANCH_SUMMARY = "Summary of a branch that was left:\n"


class Record(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="type"):
    """The fields of every record: an id (8 hex digits, unique in the file), the id of the record it follows,
    a time.

    :param parent_id: None for a root.
    :param timestamp: ISO 8601, UTC.
    """

    id: str = ""
    parent_id: str | None = UNKNOWN_PARENT
    timestamp: str = ""


class MessageRecord(Record, frozen=True, kw_only=True, tag="message"):
    """A message."""

    message: Message


class CompactionRecord(Record, frozen=True, kw_only=True, tag="compaction"):
    """A summary that replaces, from here on, all records before ``first_kept_entry_id``; their lines stay.

    :param usage: cost of the summary.
    """

    summary: str
    first_kept_entry_id: str = ""
    tokens_before: int = 0
    details: Any = None
    usage: Usage | None = None


class BranchSummary(Record, frozen=True, kw_only=True, tag="branch_summary"):
    """A summary of a branch that was left."""

    summary: str
    from_id: str = ""


class Omission(Record, frozen=True, kw_only=True, tag="left_out"):
    """A cut: records between the last kept one and this one are no longer shown, because a service refused
    them. Lines stay.

    :param last_kept_entry_id: empty = no earlier message stays.
    :param summary: the content that was cut.
    """

    last_kept_entry_id: str = ""
    summary: str = ""


class CustomMessage(Record, frozen=True, kw_only=True, tag="custom_message"):
    """A message that a plugin adds to the conversation."""

    content: tuple[Text | Image, ...]
    custom_type: str = "custom"


class MemoryFlushRecord(Record, frozen=True, kw_only=True, tag="memory_flush"):
    """The mark of a memory flush. State: shown to no model.

    :param compactions: number of compactions before it; ``size_bytes`` is the size of the file then.
    :param usage: its cost.
    """

    compactions: int = 0
    size_bytes: int = 0
    usage: Usage | None = None


class ModelChange(Record, frozen=True, kw_only=True, tag="model_change"):
    """A change of model: from here on ``provider/model`` answers."""

    model: str


class ThinkingLevelChange(Record, frozen=True, kw_only=True, tag="thinking_level_change"):
    """A change of the thinking level, from here on."""

    thinking_level: str


class UnknownRecord(Record, frozen=True, kw_only=True):
    """A record of an unknown kind or shape: kept in the file as it is, shown to no model."""

    raw: dict[str, Any]


KnownRecord = (
    MessageRecord
    | CompactionRecord
    | BranchSummary
    | Omission
    | CustomMessage
    | MemoryFlushRecord
    | ModelChange
    | ThinkingLevelChange
)
Entry = KnownRecord | UnknownRecord
Line = TypeVar("Line", bound=msgspec.Struct)


class Context(msgspec.Struct, frozen=True):
    """The content of the path from a record to the root.

    :param messages: oldest first, not yet paired.
    :param model: ``provider/model`` of the newest answer or change on the path; None before any.
    """

    messages: tuple[Message, ...] = ()
    thinking_level: str = "off"
    model: str | None = None


def build_context(entries: Sequence[Entry], leaf: str | None = UNKNOWN_PARENT) -> Context:
    """Return what a model is shown: the path from ``leaf`` to the root, with its last compaction in force.

    :param leaf: id of a record; unknown or omitted means the last one, None the position before the first.
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
    return Context(tuple(message for entry in _active(path) if (message := message_of(entry))), level, model)


def message_of(entry: Entry) -> Message | None:
    """Return the message that a model is shown for one record; None for state, labels and unknown records."""
    match entry:
        case MessageRecord():
            return entry.message
        case CompactionRecord():
            return Assistant(content=(Text(SUMMARY + entry.summary),))
        case BranchSummary() | Omission() if entry.summary:
            return Assistant(content=(Text(BRANCH_SUMMARY + entry.summary),))
        case CustomMessage():
            return User(content=entry.content, kind=entry.custom_type or "custom")
    return None


def active_compaction(entries: Sequence[Entry]) -> CompactionRecord | None:
    """Return the last compaction on the path to the newest record; None when nothing was compacted."""
    path = _path(entries, UNKNOWN_PARENT)
    return next((entry for entry in reversed(path) if isinstance(entry, CompactionRecord)), None)


def _path(entries: Sequence[Entry], leaf: str | None) -> list[Entry]:
    if leaf is None or not entries:
        return []
    place_of: dict[str, int] = {}
    parents: list[int | None] = []
    for place, entry in enumerate(entries):  # a parent precedes its child, so no cycle is possible
        parents.append(place_of.get(entry.parent_id) if entry.parent_id is not None else None)
        place_of[entry.id] = place
    at: int | None = place_of.get(leaf, len(entries) - 1)
    path = []
    while at is not None:
        path.append(entries[at])
        at = parents[at]
    return path[::-1]


def _active(path: Sequence[Entry]) -> Iterable[Entry]:
    """Return the last compaction, the records it kept, and those that follow; the whole path when there is
    none. Records that were left out are not included.
    """
    path = _without_left_out(path)
    compactions = [place for place, entry in enumerate(path) if isinstance(entry, CompactionRecord)]
    if not compactions:
        return path
    last = compactions[-1]
    compaction = path[last]
    assert isinstance(compaction, CompactionRecord)
    first = next((p for p in range(last) if path[p].id == compaction.first_kept_entry_id), last)
    kept = [entry for entry in path[first:last] if not isinstance(entry, CompactionRecord)]
    return [compaction, *kept, *path[last + 1 :]]


def _without_left_out(path: Sequence[Entry]) -> Sequence[Entry]:
    """Return the path without records that were left out; compactions among them stay, so that what they
    replaced stays hidden.
    """
    if not any(isinstance(entry, Omission) for entry in path):
        return path
    remaining: list[Entry] = []
    for entry in path:
        if isinstance(entry, Omission):
            last = entry.last_kept_entry_id
            stays = next((place + 1 for place, one in enumerate(remaining) if one.id == last), 0)
            remaining[stays:] = [one for one in remaining[stays:] if isinstance(one, CompactionRecord)]
        remaining.append(entry)
    return remaining


_line: msgspec.json.Decoder[KnownRecord] = msgspec.json.Decoder(KnownRecord)


def encode_record(record: Line) -> tuple[Line, bytes]:
    """Return the record in the form in which it will be read, and its line with the line end.

    Text that is not valid Unicode (a lone surrogate from a model or a file name) becomes U+FFFD in both.
    """
    record, line = to_json(record)
    return record, line + b"\n"


def decode_record(line: bytes) -> Entry | None:
    """Return the record of one line; None when the line is no JSON object.

    What is an object but no known record is an :class:`UnknownRecord`.
    """
    try:
        return _line.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):  # ValueError: a tag that is not UTF-8
        return _lenient_record(line)


def _lenient_record(line: bytes) -> Entry | None:
    """Parse a line that the strict decoder refuses: a short form, a lone surrogate, a number beyond 64 bits,
    an unknown kind.
    """
    try:
        raw = json.loads(line.decode())
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    raw = repair_tree(raw)
    message = raw.get("message")
    if isinstance(message, dict) and isinstance(message.get("content"), str):
        raw = raw | {"message": message | {"content": [{"type": "text", "text": message["content"]}]}}
    try:
        known: KnownRecord = msgspec.convert(raw, KnownRecord)
        return known
    except (msgspec.ValidationError, RecursionError):
        pass
    if not isinstance(raw.get("id"), str) or not isinstance(raw.get("type"), str):
        return UnknownRecord(raw=raw)
    parent = raw.get("parentId", UNKNOWN_PARENT)
    return UnknownRecord(
        id=raw["id"], parent_id=parent if isinstance(parent, str | None) else UNKNOWN_PARENT, raw=raw
    )
