"""Summary without a model: identifiers, requests of people, failures, files. Pure.

The last fallback of compaction: it always works, and invents nothing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from claw import Assistant, Message, ToolResultMessage, User
from claw.runtime import truncate, with_ellipsis

from claw_context.rendering import searchable_text

MAX_FAILURES, FAILURE_CHARS = 8, 240
_REQUEST_CHARS = 300
_IDENTIFIER_CHARS = 200
_SEARCHED_CHARS = 200_000  # searched per message
_MAX_FILES = 40

# Runs of identifier characters, also inside Chinese text; one character class, so that matching takes linear time.
_RUN = re.compile(r"[A-Za-z0-9_~./@:%+?=&#-]+")
_QUOTED = re.compile(r"`([^`\n]{2,80})`")
_READ_TOOLS = frozenset({"read"})
_WRITE_TOOLS = frozenset({"write", "edit", "apply_patch"})
_PATH_ARGUMENTS = ("file_path", "path")


@dataclass(frozen=True, slots=True)
class TouchedFiles:
    """Paths that tools touched, each once, in the order of their last use."""

    read: tuple[str, ...]
    modified: tuple[str, ...]


def identifiers(messages: Iterable[Message], most_chars: int) -> tuple[str, ...]:
    """Collect identifiers, newest first, as many as fit: words with a digit, paths, addresses, quoted code.

    A model cannot reconstruct them once they are lost.
    """
    kept: dict[str, None] = {}
    left = most_chars
    for message in reversed(list(messages)):
        text = searchable_text(message)[:_SEARCHED_CHARS]
        found = [run.strip(".:?=&#-").removesuffix("/") for run in _RUN.findall(text)]
        for name in (*filter(_is_identifier, found), *_QUOTED.findall(text)):
            if name not in kept:
                left -= len(name) + 2
                if left < 0:
                    return tuple(kept)
                kept[name] = None
    return tuple(kept)


def _is_identifier(run: str) -> bool:
    if not 3 <= len(run) <= _IDENTIFIER_CHARS:
        return False
    return any(map(str.isdigit, run)) or "://" in run or run.count("/") > 1 or "@" in run.strip("@")


def failed_calls(messages: Iterable[Message]) -> tuple[str, ...]:
    """List the newest failed tool calls, one line each: tool name and the beginning of the result."""
    failed = [m for m in messages if isinstance(m, ToolResultMessage) and m.is_error]
    lines = (f"{m.tool_name}: {' '.join(m.text.split())}" for m in failed[-MAX_FAILURES:])
    return tuple(with_ellipsis(line, FAILURE_CHARS) for line in lines)


def touched_files(messages: Iterable[Message]) -> TouchedFiles:
    """List the files that calls have read or changed; a changed file is not listed as read."""
    read: dict[str, None] = {}
    modified: dict[str, None] = {}
    for message in messages:
        for call in message.tool_calls if isinstance(message, Assistant) else ():
            touched = read if call.name in _READ_TOOLS else modified if call.name in _WRITE_TOOLS else None
            paths = (call.arguments.get(key) for key in _PATH_ARGUMENTS)
            for path in paths if touched is not None else ():
                if isinstance(path, str) and path and touched is not None:
                    touched.pop(path, None)
                    touched[path] = None
    only_read = [path for path in read if path not in modified]
    return TouchedFiles(tuple(only_read[-_MAX_FILES:]), tuple([*modified][-_MAX_FILES:]))


def summary_appendix(messages: Sequence[Message]) -> str:
    """Return the appendix of a model's summary: tool failures, files read and changed. Empty when there are none."""
    touched = touched_files(messages)
    return _sections(
        ("Tool failures", failed_calls(messages)),
        ("Files read", touched.read),
        ("Files changed", touched.modified),
    )


def digest(messages: Sequence[Message], previous: str, most_chars: int) -> str:
    """Summarise without a model, in at most ``most_chars``.

    :param previous: the summary so far: its head and tail are kept, in at most two fifths of the length.
    """
    head = truncate(previous, most_chars * 2 // 5, min_keep=most_chars // 8) if previous else ""
    rest = summary_appendix(messages)
    rest = truncate(rest, most_chars // 5, min_keep=most_chars // 10)
    left = max(0, most_chars - len(head) - len(rest) - 200)
    names = ", ".join(identifiers(messages, left // 2))
    asked = user_requests(messages, left - len(names))
    body = _sections(("What people wrote", asked), ("Identifiers", (names,) if names else ()))
    return "\n\n".join(filter(None, (head, body, rest)))[:most_chars]


def user_requests(messages: Iterable[Message], most_chars: int) -> tuple[str, ...]:
    """List the beginnings of the messages of people, oldest first; the newest ones when not all fit."""
    lines: list[str] = []
    for message in reversed(list(messages)):
        if isinstance(message, User) and not message.kind:
            line = with_ellipsis(" ".join(searchable_text(message).split()), _REQUEST_CHARS)
            most_chars -= len(line) + 3
            if most_chars < 0:
                break
            lines.append(line)
    return tuple(reversed([line for line in lines if line]))


def _sections(*parts: tuple[str, Sequence[str]]) -> str:
    return "\n\n".join(
        f"## {title}\n" + "\n".join(f"- {line}" for line in lines) for title, lines in parts if lines
    )
