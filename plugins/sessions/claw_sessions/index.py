"""Read-only index of the session files of a home: current and archived conversations, lookup by name."""

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path

import msgspec
from claw import Assistant, ClawError, UsageError, User, nearest
from claw.runtime import MessageRecord, estimate_tokens, sendable
from claw_config_sdk import lock_holder, open_state

from claw_sessions.records import build_context
from claw_sessions.session_file import ParsedSession, SessionHeader, parse_session
from claw_sessions.store import JsonlSessionStore
from claw_sessions.usage import SessionUsage, usage_of

CURRENT, LEFT_OVER = "current", "left over"
_FILE = re.compile(
    r"(?P<id>.+)\.jsonl(?:\.(?P<state>reset|deleted|bad|bak)\.(?P<at>\d{8}T\d{6}\.\d{3})Z(?:-\d+)?(?:\.gz)?)?"
)
_HEADER_BYTES = 1 << 16


@dataclass(frozen=True)
class SessionFile:
    """A session file.

    :param key: session key; empty when neither the file nor the index names one.
    :param state: current; reset, deleted, bad or bak of an archived file; "left over" when its key has a newer file.
    :param changed_at: time of the last write, or of archiving; seconds since 1970.
    """

    key: str
    agent: str
    id: str
    path: Path
    state: str
    size_bytes: int
    changed_at: float

    @property
    def name(self) -> str:
        """The name for use in a command: the session key of a current file, else the file name."""
        return self.key if self.state == CURRENT and self.key else self.path.name

    @property
    def archived_stamp(self) -> str:
        """The time of archiving as in the file name: short and practically unique. Empty for a file not archived."""
        _, aside, at = self.path.name.removesuffix(".gz").rpartition(f".{self.state}.")
        return at if aside else ""

    @property
    def pid(self) -> int | None:
        """The process that holds the lock of the file; None when it is free."""
        return (
            lock_holder(self.path.with_name(self.path.name + ".lock"))
            if self.state in (CURRENT, LEFT_OVER)
            else None
        )


@dataclass(frozen=True)
class ConversationStats:
    """Statistics of a conversation.

    :param messages: number of messages of people and of text answers; calls and results are not counted.
    :param tokens: estimated size of the history that a model would be sent.
    :param usage: usage as reported by the services.
    :param last_user_message_at: time of the last message of a person, ISO 8601; empty without one.
    """

    messages: int
    tokens: int
    usage: SessionUsage
    last_user_message_at: str


def list_sessions(home: Path, agent: str = "") -> tuple[SessionFile, ...]:
    """List all session files, newest first.

    :param agent: list the files of this agent only.
    """
    current = session_index(home)
    found = [
        kept
        for path in home.glob(f"agents/{agent or '*'}/sessions/*.jsonl*")
        if (kept := _inspect(path, current)) is not None
    ]
    found.sort(key=lambda kept: (kept.changed_at, kept.path.name), reverse=True)
    return tuple(_resolve_current(found, set(current)))


def session_index(home: Path) -> dict[str, str]:
    """Read the session index, session key → session id, from ``state.db``; empty when there is no database."""
    with open_state(home) as database:
        if database is None:
            return {}
        JsonlSessionStore(home, database)
        return dict(database.read("SELECT key, id FROM sessions"))


def find_session(found: Sequence[SessionFile], name: str) -> SessionFile:
    """Find a conversation by session key, the end of a key (``main``), or a file's name, id or time of archiving.

    :raises UsageError: none or several match; the nearest key is named.
    """
    exact = [kept for kept in found if name in (kept.name, kept.path.name)]
    tails = [kept for kept in found if kept.state == CURRENT and _has_tail(kept, name)]
    files = [kept for kept in found if name and name in (kept.id, kept.archived_stamp)]
    for fitting in (exact, tails, files):
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise _several(name, [kept.name for kept in fitting])
    raise _not_found(found, name)


def find_files(found: Sequence[SessionFile], name: str) -> list[SessionFile]:
    """Find all files of a session key, archived ones too; for the name of a file, that file.

    A backup without a header names no key: it belongs to the key of the other files of its session.

    :raises UsageError: none or several match; the nearest key is named.
    """
    keys = {kept.key for kept in found if kept.key and (kept.key == name or _has_tail(kept, name))}
    wanted = {name} if name in keys else keys
    if not wanted:
        return [find_session(found, name)]
    if len(wanted) > 1:
        raise _several(name, sorted(wanted))
    ids = {(kept.agent, kept.id) for kept in found if kept.key in wanted}
    return [kept for kept in found if kept.key in wanted or (not kept.key and (kept.agent, kept.id) in ids)]


def _several(name: str, keys: Sequence[str]) -> UsageError:
    problem, names = "{name} matches several conversations: {keys}", [*keys[:5]]
    return UsageError(problem, fix="Give the full name", name=name, keys=names)


def _not_found(found: Sequence[SessionFile], name: str) -> UsageError:
    if not found:
        return UsageError("there is no conversation {name}, and no other one yet", name=name)
    if aside := next((kept for kept in found if kept.key == name or _has_tail(kept, name)), None):
        return UsageError(
            "the conversation {name} is archived",
            fix="claw sessions show {file} shows it",
            name=aside.key,
            file=aside.archived_stamp or aside.path.name,
        )
    keys = [kept.key for kept in found if kept.state == CURRENT and kept.key]
    if not keys:
        return UsageError(
            "there is no conversation {name}", fix="claw sessions list --aside shows archived ones", name=name
        )
    by_word = {word: key for key in keys for word in (key, key.rpartition(":")[2])}
    near = by_word.get(nearest(name, by_word) or "")
    fix = (
        "did you mean {near}? claw sessions list shows them all"
        if near
        else "claw sessions list shows them all"
    )
    return UsageError("there is no conversation {name}", fix=fix, name=name, near=near)


def _has_tail(kept: SessionFile, name: str) -> bool:
    return kept.key.endswith(f":{name.lower()}")


def read_bytes(kept: SessionFile) -> bytes:
    """Read the file, decompressed.

    :raises ClawError: it cannot be read.
    """
    try:
        with open_session_file(kept.path) as file:
            return file.read()
    except (OSError, EOFError, zlib.error) as refused:
        why = getattr(refused, "strerror", None) or str(refused)
        raise ClawError("cannot be read: {why}", where=str(kept.path), why=why) from refused


def open_session_file(path: Path) -> "BufferedReader | gzip.GzipFile":
    """Open a session file for reading; a compressed one is decompressed while it is read."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def parse_stored_session(kept: SessionFile, data: bytes) -> ParsedSession:
    """Parse a session file; one without a valid header gets the header from ``kept``."""
    reading = parse_session(data)
    if reading.reason != "invalid session header":
        return reading
    again = parse_session(data, SessionHeader(id=kept.id, key=kept.key))
    return msgspec.structs.replace(again, reason=reading.reason)


def conversation_stats(reading: ParsedSession) -> ConversationStats:
    """Compute the statistics of a conversation."""
    counted = list(counted_messages(reading.entries))
    last_message_at = next((one.timestamp for one in reversed(counted) if isinstance(one.message, User)), "")
    tokens = sum(map(estimate_tokens, sendable(build_context(reading.entries).messages)))
    return ConversationStats(len(counted), tokens, usage_of(reading.entries), last_message_at)


def counted_messages(entries: Iterable[object]) -> Iterator[MessageRecord]:
    """Yield the messages of people and the text answers; calls, results and notes of claw are not counted."""
    for entry in entries:
        message = entry.message if isinstance(entry, MessageRecord) else None
        is_question = isinstance(message, User) and not message.kind
        if isinstance(entry, MessageRecord) and (
            is_question or (isinstance(message, Assistant) and message.text.strip())
        ):
            yield entry


def _inspect(path: Path, current: Mapping[str, str]) -> SessionFile | None:
    name = _FILE.fullmatch(path.name)
    try:
        if name is None or not path.is_file():
            return None
        stat = path.stat()
        with open_session_file(path) as file:
            header = parse_session(file.readline(_HEADER_BYTES)).header
    except (OSError, EOFError, zlib.error):
        header = None
        if name is None or not path.exists():
            return None
        stat = path.stat()
    key = header.key if header else next((key for key, id in current.items() if id == name["id"]), "")
    at = _parse_stamp(name["at"]) if name["at"] else stat.st_mtime
    return SessionFile(
        key, path.parent.parent.name, name["id"], path, _state(name, key, current), stat.st_size, at
    )


def _state(name: re.Match[str], key: str, current: Mapping[str, str]) -> str:
    if name["state"]:
        return name["state"]
    return CURRENT if current.get(key, name["id"]) == name["id"] else LEFT_OVER


def _resolve_current(found: Iterable[SessionFile], indexed: set[str]) -> Iterator[SessionFile]:
    """Mark the left-over files. Without an index entry the newest file of a key is current, as in the store."""
    seen: set[str] = set()
    for kept in found:
        if kept.state == CURRENT and kept.key and kept.key not in indexed:
            if kept.key in seen:
                yield SessionFile(
                    kept.key, kept.agent, kept.id, kept.path, LEFT_OVER, kept.size_bytes, kept.changed_at
                )
                continue
            seen.add(kept.key)
        yield kept


def _parse_stamp(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC).timestamp()
