"""What is kept of messages without asking a model: identifiers, the words of people, failures, files. Pure.

The last rung of compaction: it always works, and it never makes anything up.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from claw.compaction.rendering import texts
from claw.transcript import Assistant, Message, ToolResult, User
from claw.truncation import shortened, truncate

MOST_FAILURES, FAILURE_CHARS = 8, 240
_ASKED_CHARS = 300
_IDENTIFIER_CHARS = 200
_LOOKED_AT_CHARS = 200_000  # of one message
_FILES = 40

# Runs of what identifiers are made of, also amid Chinese; one class each, so that time grows with length alone.
_RUN = re.compile(r"[A-Za-z0-9_~./@:%+?=&#-]+")
_QUOTED = re.compile(r"`([^`\n]{2,80})`")
_READS = frozenset({"read"})
_WRITES = frozenset({"write", "edit", "apply_patch"})
_PATHS = ("file_path", "path")


@dataclass(frozen=True, slots=True)
class Files:
    """Paths that tools touched, each once, in the order of their last use."""

    read: tuple[str, ...]
    modified: tuple[str, ...]


def identifiers(messages: Iterable[Message], most_chars: int) -> tuple[str, ...]:
    """The identifiers in what was said, newest first, as many as fit: words with a digit, paths, addresses, quoted code.

    These are what a model cannot make up again once they are gone.
    """
    kept: dict[str, None] = {}
    room = most_chars
    for message in reversed(list(messages)):
        text = texts(message)[:_LOOKED_AT_CHARS]
        found = [run.strip(".:?=&#-").removesuffix("/") for run in _RUN.findall(text)]
        for name in (*filter(_identifies, found), *_QUOTED.findall(text)):
            if name not in kept:
                room -= len(name) + 2
                if room < 0:
                    return tuple(kept)
                kept[name] = None
    return tuple(kept)


def _identifies(run: str) -> bool:
    if not 3 <= len(run) <= _IDENTIFIER_CHARS:
        return False
    return any(map(str.isdigit, run)) or "://" in run or run.count("/") > 1 or "@" in run.strip("@")


def failures(messages: Iterable[Message]) -> tuple[str, ...]:
    """The newest tool calls that failed, one line each: name and the head of what was said."""
    failed = [m for m in messages if isinstance(m, ToolResult) and m.is_error]
    lines = (f"{m.tool_name}: {' '.join(m.text.split())}" for m in failed[-MOST_FAILURES:])
    return tuple(shortened(line, FAILURE_CHARS) for line in lines)


def files(messages: Iterable[Message]) -> Files:
    """What was read and what was changed, by the calls; a file that was changed is not listed as read."""
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    for message in messages:
        for call in message.tool_calls if isinstance(message, Assistant) else ():
            touched = read if call.name in _READS else modified if call.name in _WRITES else None
            paths = (call.arguments.get(key) for key in _PATHS)
            for path in paths if touched is not None else ():
                if isinstance(path, str) and path and touched is not None:
                    touched.pop(path, None)
                    touched[path] = None
    only_read = [path for path in read if path not in modified]
    return Files(tuple(only_read[-_FILES:]), tuple([*modified][-_FILES:]))


def appendix(messages: Sequence[Message]) -> str:
    """What is added to a model's summary: tool failures, files read and changed. Empty when there were none."""
    touched = files(messages)
    return _sections(
        ("Tool failures", failures(messages)), ("Files read", touched.read), ("Files changed", touched.modified)
    )  # fmt: skip


def digest(messages: Sequence[Message], previous: str, most_chars: int) -> str:
    """A summary that needs no model, of at most ``most_chars``.

    :param previous: the summary so far: its head and tail stay, in two fifths of the room at most.
    """
    head = truncate(previous, most_chars * 2 // 5, min_keep=most_chars // 8) if previous else ""
    rest = appendix(messages)
    rest = truncate(rest, most_chars // 5, min_keep=most_chars // 10)
    room = max(0, most_chars - len(head) - len(rest) - 200)
    names = ", ".join(identifiers(messages, room // 2))
    asked = asked_for(messages, room - len(names))
    body = _sections(("What people wrote", asked), ("Identifiers", (names,) if names else ()))
    return "\n\n".join(filter(None, (head, body, rest)))[:most_chars]


def asked_for(messages: Iterable[Message], most_chars: int) -> tuple[str, ...]:
    """The heads of what people wrote, oldest first; the newest ones when not all fit."""
    lines: list[str] = []
    for message in reversed(list(messages)):
        if isinstance(message, User) and not message.kind:
            line = shortened(" ".join(texts(message).split()), _ASKED_CHARS)
            most_chars -= len(line) + 3
            if most_chars < 0:
                break
            lines.append(line)
    return tuple(reversed([line for line in lines if line]))


def _sections(*parts: tuple[str, Sequence[str]]) -> str:
    return "\n\n".join(
        f"## {title}\n" + "\n".join(f"- {line}" for line in lines) for title, lines in parts if lines
    )
