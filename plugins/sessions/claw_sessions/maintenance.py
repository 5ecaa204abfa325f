"""Maintenance of session files: end, repair, compress, remove. Only a purge and the retention settings delete data."""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from claw import UsageError
from claw.runtime import (
    Clock,
    Database,
    Overrides,
    cannot_write,
    dated_name,
    replace_file,
    set_aside,
)

from claw_sessions.index import (
    CURRENT,
    LEFT_OVER,
    SessionFile,
    list_sessions,
    parse_stored_session,
    read_bytes,
)
from claw_sessions.results import archive_results, delete_results
from claw_sessions.session_file import SessionHeader, lines_of, without_bad_lines
from claw_sessions.settings import Retention
from claw_sessions.store import JsonlSessionStore

_CLOCK = Clock()
_ARCHIVED = ("reset", "deleted")


@dataclass(frozen=True)
class DamagedLine:
    """A line that is not a record.

    :param line: number of the line in the original file, from 1.
    :param at_byte: offset of the line in the original file, from 0.
    """

    line: int
    at_byte: int
    bytes: int


@dataclass(frozen=True)
class RepairResult:
    """The result of a repair.

    :param bad_lines: the lines that were removed.
    :param restored_header: True when the header was lost and has been written again.
    :param backup: the backup of the original file; None when no repair was needed.
    """

    session: SessionFile
    bad_lines: tuple[DamagedLine, ...] = ()
    restored_header: bool = False
    backup: Path | None = None


@dataclass(frozen=True)
class ArchiveResult:
    """The result, or the plan, of :func:`archive`."""

    compressed: tuple[SessionFile, ...] = ()
    removed: tuple[SessionFile, ...] = ()
    freed_bytes: int = 0


def end_session(home: Path, kept: SessionFile, tag: str, clock: Clock = _CLOCK) -> Path:
    """End a conversation: rename its file and clear its overrides (``/model``).

    :param tag: ``reset`` or ``deleted``; either way the next message of the key starts a new session.
    :returns: the new path of the file.
    :raises BusyError: a process holds it.
    :raises ClawError: the disk refused; the conversation is as it was, and the next call can end it.
    """
    with _locked(home, kept, clock) as database:
        is_current = kept.key and kept.state == CURRENT
        try:
            if is_current:
                archive_results(kept.path.parent.parent, kept.key, kept.id)
            place = set_aside(kept.path, tag, clock)
        except OSError as refused:
            raise cannot_write(kept.path, refused) from refused
        delete = "DELETE FROM sessions WHERE key = ? AND id = ?", (kept.key, kept.id)
        renew = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (kept.key, str(uuid4()), kept.agent)
        if is_current:
            database.write_all(delete if tag == "deleted" else renew)
            Overrides(database).clear(kept.key)
    return place


def purge_session(home: Path, kept: SessionFile, clock: Clock = _CLOCK) -> None:
    """Remove a file for good, with the tool results that belong to it; a current conversation is ended before.

    :raises BusyError: a process holds it.
    :raises ClawError: it cannot be removed.
    """
    current = kept.state in (CURRENT, LEFT_OVER)
    place = end_session(home, kept, "deleted", clock) if current else kept.path
    try:
        place.unlink(missing_ok=True)
        if place.suffix != ".gz":  # it may have been compressed since it was listed
            place.with_name(f"{place.name}.gz").unlink(missing_ok=True)
        _remove_remains(kept)
    except OSError as refused:
        raise cannot_write(place, refused) from refused


def repair_session(home: Path, kept: SessionFile, clock: Clock = _CLOCK) -> RepairResult:
    """Remove the lines of a session file that are not records, and restore a missing header.

    A backup of the original file stays beside it.

    :raises BusyError: a process holds it.
    :raises ClawError: it cannot be read or written.
    """
    with _locked(home, kept, clock):
        data = read_bytes(kept)
        reading = parse_stored_session(kept, data)
        if not data.strip() or not (reading.reason or reading.bad_lines):
            return RepairResult(kept)
        lost = SessionHeader(id=kept.id, key=kept.key) if reading.reason else None
        place = dated_name(kept.path, "bak", clock)
        try:
            replace_file(place, data)
            replace_file(kept.path, without_bad_lines(data, reading.bad_lines, lost))
        except OSError as refused:
            raise cannot_write(kept.path, refused) from refused
        return RepairResult(kept, bad_lines(data, reading.bad_lines), bool(reading.reason), place)


def bad_lines(data: bytes, bad_lines: Sequence[int]) -> tuple[DamagedLine, ...]:
    """Locate the bad lines of a file."""
    lines = lines_of(data)
    start = len(data) - sum(map(len, lines)) - len(lines) + 1  # after a byte-order mark
    found = []
    for number, line in enumerate(lines, 1):
        if number in bad_lines:
            found.append(DamagedLine(number, start, len(line)))
        start += len(line) + 1
    return tuple(found)


def apply_retention(
    home: Path, keep: Retention, clock: Clock = _CLOCK, *, pretend: bool = False
) -> ArchiveResult:
    """Compress and remove archived files as ``session.keep`` says; current files are not touched.

    :param pretend: return the plan and change nothing.
    :raises ClawError: a file cannot be written.
    """
    if not (keep.compress_after or keep.remove_after or keep.max_size is not None):
        return ArchiveResult()
    plan = plan_retention(
        [kept for kept in list_sessions(home) if kept.state in _ARCHIVED], keep, clock.now()
    )
    if pretend:
        return plan
    freed = 0
    for kept in plan.removed:
        with suppress(FileNotFoundError):
            kept.path.unlink()
            freed += kept.size_bytes
        _remove_remains(kept)
    for kept in plan.compressed:
        packed = gzip.compress(read_bytes(kept), mtime=0)
        try:
            replace_file(kept.path.with_name(kept.path.name + ".gz"), packed)
            kept.path.unlink(missing_ok=True)
        except OSError as refused:
            raise cannot_write(kept.path, refused) from refused
        freed += kept.size_bytes - len(packed)
    return ArchiveResult(plan.compressed, plan.removed, freed)


def plan_retention(old: Sequence[SessionFile], keep: Retention, now: float) -> ArchiveResult:
    """Select the archived files to compress and to remove. Pure.

    The size limit uses the present file sizes: space freed by compression counts from the next run on.
    """
    oldest_first = sorted(old, key=lambda kept: kept.changed_at)
    removed = [
        kept for kept in oldest_first if keep.remove_after and now - kept.changed_at > keep.remove_after
    ]
    rest = oldest_first[len(removed) :]
    size = sum(kept.size_bytes for kept in rest)
    while rest and keep.max_size is not None and size > keep.max_size:
        size -= rest[0].size_bytes
        removed.append(rest.pop(0))
    compressed = [
        kept
        for kept in rest
        if keep.compress_after and now - kept.changed_at > keep.compress_after and kept.path.suffix != ".gz"
    ]
    return ArchiveResult(tuple(compressed), tuple(removed), sum(kept.size_bytes for kept in removed))


@contextmanager
def _locked(home: Path, kept: SessionFile, clock: Clock) -> Iterator[Database]:
    """Hold the lock of a conversation.

    :raises UsageError: it is archived already.
    """
    if kept.state not in (CURRENT, LEFT_OVER):
        problem = "{name} is archived and cannot be changed"
        raise UsageError(
            problem, fix="claw sessions show and claw sessions export can read it", name=kept.path.name
        )
    database = Database(home / "state.db", clock)
    lock = JsonlSessionStore(home, database, clock).lock_of(kept.key or kept.path.name, kept.path)
    try:
        lock.take()
        if not kept.path.exists():
            raise UsageError("{name} was archived a moment ago", name=kept.name)
        yield database
    finally:
        lock.close()
        database.close()


def _remove_remains(kept: SessionFile) -> None:
    """Remove the lock and the stored tool results of a session without any file left; its id is never used again."""
    if all(path.suffix == ".lock" for path in kept.path.parent.glob(f"{kept.id}.jsonl*")):
        with suppress(FileNotFoundError):
            kept.path.with_name(f"{kept.id}.jsonl.lock").unlink()
        delete_results(kept.path.parent.parent, kept.id)
