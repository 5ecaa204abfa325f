"""Records: what a session consists of, each one line of JSON, and the messages that a model is shown of them. Pure.

Each record has an id, and the id of the record that it follows.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from claw.contracts.text import to_json
from claw.contracts.transcript import Assistant, Message, Text, Usage

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

    def shown(self) -> Message | None:
        """Return the message that a model is shown for this record; None for state."""
        return None


class MessageRecord(Record, frozen=True, kw_only=True, tag="message"):
    """A message."""

    message: Message

    def shown(self) -> Message:
        """Return the message."""
        return self.message


class CompactionRecord(Record, frozen=True, kw_only=True, tag="compaction"):
    """A summary that replaces, from here on, all records before ``first_kept_entry_id``; their lines stay.

    :param usage: cost of the summary.
    """

    summary: str
    first_kept_entry_id: str = ""
    tokens_before: int = 0
    details: Any = None
    usage: Usage | None = None

    def shown(self) -> Message:
        """Return the summary."""
        return Assistant(content=(Text(SUMMARY + self.summary),))


class Omission(Record, frozen=True, kw_only=True, tag="left_out"):
    """A cut: records between the last kept one and this one are no longer shown, because a service refused
    them. Lines stay.

    :param last_kept_entry_id: empty = no earlier message stays.
    :param summary: the content that was cut.
    """

    last_kept_entry_id: str = ""
    summary: str = ""

    def shown(self) -> Message | None:
        """Return the summary of what was cut, if there is one."""
        return Assistant(content=(Text(BRANCH_SUMMARY + self.summary),)) if self.summary else None


class MemoryFlushRecord(Record, frozen=True, kw_only=True, tag="memory_flush"):
    """The mark of a memory flush. State: shown to no model.

    :param compactions: number of compactions before it; ``size_bytes`` is the size of the file then.
    :param usage: its cost.
    """

    compactions: int = 0
    size_bytes: int = 0
    usage: Usage | None = None


KnownRecord = MessageRecord | CompactionRecord | Omission | MemoryFlushRecord
Line = TypeVar("Line", bound=msgspec.Struct)


def shown_messages(entries: Sequence[Record]) -> list[Message]:
    """Return the messages that a model is shown of a session, not yet paired: the last compaction is in force.

    :param entries: each one follows the one before it.
    """
    return [message for entry in _active(entries) if (message := entry.shown())]


def _active(path: Sequence[Record]) -> Iterable[Record]:
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


def _without_left_out(path: Sequence[Record]) -> Sequence[Record]:
    """Return the path without records that were left out; compactions among them stay, so that what they
    replaced stays hidden.
    """
    if not any(isinstance(entry, Omission) for entry in path):
        return path
    remaining: list[Record] = []
    for entry in path:
        if isinstance(entry, Omission):
            last = entry.last_kept_entry_id
            stays = next((place + 1 for place, one in enumerate(remaining) if one.id == last), 0)
            remaining[stays:] = [one for one in remaining[stays:] if isinstance(one, CompactionRecord)]
        remaining.append(entry)
    return remaining


_LINE: msgspec.json.Decoder[KnownRecord] = msgspec.json.Decoder(KnownRecord)
_UNREADABLE = msgspec.DecodeError, ValueError, RecursionError  # ValueError: a tag that is not UTF-8


def encode_record(record: Line) -> tuple[Line, bytes]:
    """Return the record in the form in which it will be read, and its line with the line end.

    Text that is not valid Unicode (a lone surrogate from a model or a file name) becomes U+FFFD in both.
    """
    record, line = to_json(record)
    return record, line + b"\n"


def decode_record(line: bytes) -> Record | None:
    """Return the record of a line that :func:`encode_record` wrote; None when this claw does not know its kind."""
    with suppress(*_UNREADABLE):
        return _LINE.decode(line)
    with suppress(*_UNREADABLE):  # a number beyond 64 bits
        record: KnownRecord = msgspec.convert(json.loads(line), KnownRecord)
        return record
    return None
