"""The records of session files, which may be those of other hosts: further kinds, short forms, trees of records. Pure."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from claw import Assistant, Image, Message, Text, User
from claw.runtime import (
    BRANCH_SUMMARY,
    UNKNOWN_PARENT,
    CompactionRecord,
    MemoryFlushRecord,
    MessageRecord,
    Omission,
    Record,
    repair_tree,
    shown_messages,
)


class BranchSummary(Record, frozen=True, kw_only=True, tag="branch_summary"):
    """A summary of a branch that was left."""

    summary: str
    from_id: str = ""

    def shown(self) -> Message | None:
        """Return the summary, unless it is empty."""
        return Assistant(content=(Text(BRANCH_SUMMARY + self.summary),)) if self.summary else None


class CustomMessage(Record, frozen=True, kw_only=True, tag="custom_message"):
    """A message that an extension of a host added to the conversation."""

    content: tuple[Text | Image, ...]
    custom_type: str = "custom"

    def shown(self) -> Message:
        """Return it as a message that is no person's."""
        return User(content=self.content, kind=self.custom_type or "custom")


class ModelChange(Record, frozen=True, kw_only=True, tag="model_change"):
    """A change of model: from here on ``provider/model`` answers."""

    model: str


class ThinkingLevelChange(Record, frozen=True, kw_only=True, tag="thinking_level_change"):
    """A change of the thinking level, from here on."""

    thinking_level: str


class UnknownRecord(Record, frozen=True, kw_only=True):
    """A record of an unknown kind or shape: kept in the file as it is, shown to no model."""

    raw: dict[str, Any]


Known = (
    MessageRecord
    | CompactionRecord
    | Omission
    | MemoryFlushRecord
    | BranchSummary
    | CustomMessage
    | ModelChange
    | ThinkingLevelChange
)
_LINE: msgspec.json.Decoder[Known] = msgspec.json.Decoder(Known)


def decode_line(line: bytes) -> Record | None:
    """Return the record of one line; None when the line is no JSON object.

    What is an object but no known record is an :class:`UnknownRecord`.
    """
    try:
        return _LINE.decode(line)
    except (msgspec.DecodeError, ValueError, RecursionError):  # ValueError: a tag that is not UTF-8
        return _lenient_record(line)


def _lenient_record(line: bytes) -> Record | None:
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
        known: Known = msgspec.convert(raw, Known)
        return known
    except (msgspec.ValidationError, RecursionError):
        pass
    if not isinstance(raw.get("id"), str) or not isinstance(raw.get("type"), str):
        return UnknownRecord(raw=raw)
    parent = raw.get("parentId", UNKNOWN_PARENT)
    return UnknownRecord(
        id=raw["id"], parent_id=parent if isinstance(parent, str | None) else UNKNOWN_PARENT, raw=raw
    )


class Context(msgspec.Struct, frozen=True):
    """The content of the path from a record to the root.

    :param messages: oldest first, not yet paired.
    :param model: ``provider/model`` of the newest answer or change on the path; None before any.
    """

    messages: tuple[Message, ...] = ()
    thinking_level: str = "off"
    model: str | None = None


def build_context(entries: Sequence[Record], leaf: str | None = UNKNOWN_PARENT) -> Context:
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
    return Context(tuple(shown_messages(path)), level, model)


def _path(entries: Sequence[Record], leaf: str | None) -> list[Record]:
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
