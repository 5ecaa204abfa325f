"""session_context: a tree of records and a leaf → what a model is shown."""

from pathlib import Path
from typing import Any

from claw.contracts.transcript import Assistant, Message, Text, User
from claw.storage.records import (
    BRANCH_SUMMARY,
    SUMMARY,
    CompactionRecord,
    MessageRecord,
    Record,
)
from claw_sessions.records import (
    BranchSummary,
    CustomMessage,
    ModelChange,
    ThinkingLevelChange,
    UnknownRecord,
    build_context,
)

FUNCTIONS = ("claw_sessions.records:build_context",)


def check(case: dict[str, Any], tmp_path: Path) -> None:
    given = case["input"]
    leaf = {"leaf": given["leaf_id"]} if "leaf_id" in given else {}
    found = build_context([_entry(raw) for raw in given["entries"]], **leaf)
    assert {
        "context": [_words(message) for message in found.messages],
        "thinking_level": found.thinking_level,
        "model": found.model,
    } == case["expect"]


def _entry(raw: dict[str, Any]) -> Record:
    place = {"id": raw["id"], "parent_id": raw["parent"]}
    match raw["type"]:
        case "message":
            said = (Text(raw["text"]),)
            model = raw.get("model") or "anthropic/m1"
            message = User(said) if raw["role"] == "user" else Assistant(said, model=model)
            return MessageRecord(message=message, **place)
        case "compaction":
            kept, tokens = raw["first_kept_id"], raw["tokens_before"]
            return CompactionRecord(
                summary=raw["summary"], first_kept_entry_id=kept, tokens_before=tokens, **place
            )
        case "branch_summary":
            return BranchSummary(summary=raw["summary"], from_id=raw.get("from_id") or "", **place)
        case "custom":
            return UnknownRecord(raw=raw, **place)
        case "custom_message":
            return CustomMessage(content=(Text(raw["text"]),), **place)
        case "thinking_level_change":
            return ThinkingLevelChange(thinking_level=raw["level"], **place)
        case "model_change":
            parts = (raw.get("provider"), raw.get("model") or raw.get("model_id"))
            return ModelChange(model="/".join(filter(None, parts)), **place)
    raise AssertionError(f"a kind of record that this adapter does not know: {raw['type']}")


def _words(message: Message) -> str:
    text = "".join(block.text for block in message.content if isinstance(block, Text))
    if isinstance(message, User):
        return f"custom:{text}" if message.kind else text
    for marker, prefix in ((SUMMARY, "summary:"), (BRANCH_SUMMARY, "branch_summary:")):
        if text.startswith(marker):
            return prefix + text.removeprefix(marker)
    return text
