"""What is in a conversation, made readable: one passage for each thing that was said, called, answered or noted. Pure."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from claw.envelope import strip
from claw.record import (
    BranchSummary,
    Compaction,
    CustomMessage,
    Entry,
    LeftOut,
    MemoryFlush,
    MessageRecord,
    ModelChange,
    Other,
    ThinkingLevelChange,
)
from claw.transcript import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from claw.truncation import shortened
from claw.words import say

PERSON, AGENT, CALL, RESULT, SUMMARY, NOTE = "person", "agent", "call", "result", "summary", "note"
_SHORT = 100
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)  # by a terminal, or by who reads it


@dataclass(frozen=True)
class Passage:
    """One thing that happened.

    :param id: of its record.
    :param at: ISO 8601; may be empty.
    :param kind: person, agent, call, result, summary or note.
    :param who: the model that answered, the tool, or what put a note there.
    :param text: the words; for a call its arguments as JSON.
    """

    id: str
    at: str
    kind: str
    who: str = ""
    text: str = ""
    images: tuple[Image, ...] = ()
    is_error: bool = False
    thinking: str = ""


def harmless(text: str) -> str:
    """The text with what would move a cursor, ring, or turn the order of letters round written out, ``⟨U+001B⟩``."""
    return _OBEYED.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))


def passages(entries: Iterable[Entry], clean: Callable[[str], str] = harmless) -> Iterator[Passage]:
    """Everything in the records that a person may want to read, in order.

    :param clean: applied to every text.
    """
    for entry in entries:
        for passage in _of(entry):
            told = clean(passage.who), clean(passage.text), clean(passage.thinking)
            yield replace(passage, who=told[0], text=told[1], thinking=told[2])


def short(passage: Passage) -> str:
    """A call or a result on one line."""
    if passage.kind == CALL:
        return shortened(f"{passage.who} {passage.text}", _SHORT)
    lines = passage.text.strip().splitlines() or [""]
    more = say("(and {count:more line|more lines})", count=len(lines) - 1) if len(lines) > 1 else ""
    first = shortened(lines[0], _SHORT) or (say("a picture") if passage.images else say("nothing"))
    told = f"{passage.who}: {first}" + (f" {more}" if more else "")
    return say("{told} — failed", told=told) if passage.is_error else told


def title(passage: Passage) -> str:
    """Who speaks, for people."""
    match passage.kind:
        case "person":
            return say("person")
        case "agent":
            return passage.who or say("agent")
        case "call":
            return say("calls {tool}", tool=passage.who)
        case "result":
            return (
                say("{tool} failed", tool=passage.who)
                if passage.is_error
                else say("{tool} answers", tool=passage.who)
            )
        case "summary":
            return say("summary of what came before")
    return passage.who or say("note")


def _of(entry: Entry) -> Iterator[Passage]:
    id, at = entry.id, entry.timestamp
    match entry:
        case MessageRecord(message=User() as said):
            kind = NOTE if said.kind else PERSON
            yield Passage(id, at, kind, said.kind, strip(_words(said.content)), _images(said.content))
        case MessageRecord(message=Assistant() as answer):
            yield from _answer(id, at, answer)
        case MessageRecord(message=ToolResult() as result):
            images = _images(result.content)
            yield Passage(id, at, RESULT, result.tool_name, result.text, images, result.is_error)
        case Compaction() | BranchSummary() | LeftOut():
            yield Passage(id, at, SUMMARY, text=entry.summary)
        case CustomMessage():
            yield Passage(id, at, NOTE, entry.custom_type, _words(entry.content), _images(entry.content))
        case MemoryFlush():
            yield Passage(id, at, NOTE, say("memory"), say("what matters was saved before a compaction"))
        case ModelChange():
            yield Passage(id, at, NOTE, say("model"), entry.model)
        case ThinkingLevelChange():
            yield Passage(id, at, NOTE, say("thinking"), entry.thinking_level)
        case Other():
            yield Passage(
                id, at, NOTE, say("unknown"), json.dumps(entry.raw, ensure_ascii=False, default=repr)
            )


def _answer(id: str, at: str, answer: Assistant) -> Iterator[Passage]:
    """Its words, then each call, as they stand in it."""
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


def _words(content: Iterable[object]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _images(content: Iterable[object]) -> tuple[Image, ...]:
    return tuple(block for block in content if isinstance(block, Image))
