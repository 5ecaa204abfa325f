"""Readable passages from session records: one for each message, call, result, summary or note. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from claw import Assistant, Image, Text, Thinking, ToolCall, ToolResultMessage, User, t
from claw.runtime import (
    CompactionRecord,
    MemoryFlushRecord,
    MessageRecord,
    Omission,
    Record,
    escape_controls,
    with_ellipsis,
)

from claw_sessions.records import (
    BranchSummary,
    CustomMessage,
    ModelChange,
    ThinkingLevelChange,
    UnknownRecord,
)

PERSON, AGENT, CALL, RESULT, SUMMARY, NOTE = "person", "agent", "call", "result", "summary", "note"
_LINE_CHARS = 100


@dataclass(frozen=True)
class Passage:
    """One readable item of a conversation.

    :param id: id of its record.
    :param at: ISO 8601; may be empty.
    :param kind: person, agent, call, result, summary or note.
    :param author: the model that answered, the tool, or the source of a note.
    :param text: the text; the arguments as JSON for a call.
    """

    id: str
    at: str
    kind: str
    author: str = ""
    text: str = ""
    images: tuple[Image, ...] = ()
    is_error: bool = False
    thinking: str = ""


_METADATA = re.compile(  # before the words: the trusted section, a block, or the last line
    r"(?:## Inbound Context \(trusted metadata\)\n(?:(?!```)[^\n]+\n)*"
    r"|[A-Z][a-z ]+ \(untrusted(?: metadata|, for context)\):\n)"
    r"```json\n(?:(?!```)[^\n]*\n)*```\n*|\[message_id: [A-Za-z0-9_.:@=+/$-]{1,256}\]\n"
)


def strip_metadata(text: str) -> str:
    """Return the person's words without the metadata before them, which files of other hosts keep."""
    while found := _METADATA.match(text):
        text = text[found.end() :]
    return text


def passages(entries: Iterable[Record], clean: Callable[[str], str] = escape_controls) -> Iterator[Passage]:
    """Convert records to readable passages, in order.

    :param clean: applied to every text.
    """
    for entry in entries:
        for passage in _to_passages(entry):
            who, text, thinking = clean(passage.author), clean(passage.text), clean(passage.thinking)
            yield replace(passage, author=who, text=text, thinking=thinking)


def one_line(passage: Passage) -> str:
    """Render a call or a result on one line."""
    if passage.kind == CALL:
        return with_ellipsis(f"{passage.author} {passage.text}", _LINE_CHARS)
    lines = passage.text.strip().splitlines() or [""]
    more = t("(and {count:more line|more lines})", count=len(lines) - 1) if len(lines) > 1 else ""
    first = with_ellipsis(lines[0], _LINE_CHARS) or (t("a picture") if passage.images else t("nothing"))
    line = f"{passage.author}: {first}" + (f" {more}" if more else "")
    return t("{line} — failed", line=line) if passage.is_error else line


def heading(passage: Passage) -> str:
    """Return the heading of a passage: its author, for people."""
    match passage.kind:
        case "person":
            return t("person")
        case "agent":
            return passage.author or t("agent")
        case "call":
            return t("calls {tool}", tool=passage.author)
        case "result":
            return (
                t("{tool} failed", tool=passage.author)
                if passage.is_error
                else t("{tool} result", tool=passage.author)
            )
        case "summary":
            return t("summary of earlier messages")
    return passage.author or t("note")


def _to_passages(entry: Record) -> Iterator[Passage]:
    id, at = entry.id, entry.timestamp
    match entry:
        case MessageRecord(message=User() as said):
            kind = NOTE if said.kind else PERSON
            yield Passage(id, at, kind, said.kind, strip_metadata(_text(said.content)), _images(said.content))
        case MessageRecord(message=Assistant() as answer):
            yield from _answer(id, at, answer)
        case MessageRecord(message=ToolResultMessage() as result):
            images = _images(result.content)
            yield Passage(id, at, RESULT, result.tool_name, result.text, images, result.is_error)
        case CompactionRecord() | BranchSummary() | Omission():
            yield Passage(id, at, SUMMARY, text=entry.summary)
        case CustomMessage():
            yield Passage(id, at, NOTE, entry.custom_type, _text(entry.content), _images(entry.content))
        case MemoryFlushRecord():
            yield Passage(id, at, NOTE, t("memory"), t("memory was saved before compaction"))
        case ModelChange():
            yield Passage(id, at, NOTE, t("model"), entry.model)
        case ThinkingLevelChange():
            yield Passage(id, at, NOTE, t("thinking"), entry.thinking_level)
        case UnknownRecord():
            yield Passage(id, at, NOTE, t("unknown"), json.dumps(entry.raw, ensure_ascii=False, default=repr))


def _answer(id: str, at: str, answer: Assistant) -> Iterator[Passage]:
    """Convert an answer: its text, then its calls in order."""
    failed = answer.stop_reason in ("error", "aborted")
    words = answer.text.strip()
    thinking = "\n".join(block.text for block in answer.content if isinstance(block, Thinking) and block.text)
    if failed:
        words = "\n".join(filter(None, (words, f"({answer.error or answer.stop_reason})")))
    if words or thinking:
        yield Passage(id, at, AGENT, answer.model, words, is_error=failed, thinking=thinking)
    for block in answer.content:
        if isinstance(block, ToolCall):
            arguments = json.dumps(block.arguments, ensure_ascii=False, default=repr)
            yield Passage(id, at, CALL, block.name, arguments)


def _text(content: Iterable[object]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _images(content: Iterable[object]) -> tuple[Image, ...]:
    return tuple(block for block in content if isinstance(block, Image))
