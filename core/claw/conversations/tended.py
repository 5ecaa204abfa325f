"""What is done to conversations: put aside, mended, compressed, removed. Only what the settings remove is ever lost."""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from claw import shelf
from claw.clock import SYSTEM as SYSTEM_CLOCK, Clock
from claw.config.sessions import Keep
from claw.conversations.kept import CURRENT, LEFT, Kept, content, conversations, reading_of
from claw.errors import UsageError
from claw.overrides import Overrides
from claw.record import Header, lines_of, rewritten
from claw.session import Sessions
from claw.store import SYSTEM as DISK, Database, aside, cannot_write

_ARCHIVED = ("reset", "deleted")


@dataclass(frozen=True)
class Damage:
    """A line that is no record.

    :param line: counted from 1; ``at_byte`` from 0, in the file as it was.
    """

    line: int
    at_byte: int
    bytes: int


@dataclass(frozen=True)
class Mended:
    """What a repair has done.

    :param damages: what was left out; empty when nothing was wrong.
    :param header: the first line was lost and was written anew.
    :param place: the file as it was, every byte of it; None when nothing was wrong.
    """

    kept: Kept
    damages: tuple[Damage, ...] = ()
    header: bool = False
    place: Path | None = None


@dataclass(frozen=True)
class Archived:
    """What an archiving has done, or would do."""

    compressed: tuple[Kept, ...] = ()
    removed: tuple[Kept, ...] = ()
    freed_bytes: int = 0


def put_aside(home: Path, kept: Kept, tag: str, clock: Clock = SYSTEM_CLOCK) -> Path:
    """End a conversation: its file is renamed, and what was chosen in it (``/model``) is taken back.

    :param tag: ``reset`` or ``deleted``. Either way the next message under its key begins anew.
    :returns: where the file is now.
    :raises BusyError: a process holds it.
    """
    with _held(home, kept, clock) as database:
        place = DISK.set_aside(kept.path, tag, clock)
        gone = "DELETE FROM sessions WHERE key = ? AND id = ?", (kept.key, kept.id)
        anew = "INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", (kept.key, str(uuid4()), kept.agent)
        if kept.key and kept.state == CURRENT:
            shelf.put_aside(kept.path.parent.parent, kept.key, kept.id)
            database.write_all(gone if tag == "deleted" else anew)
            Overrides(database).clear(kept.key)
    return place


def repair(home: Path, kept: Kept, clock: Clock = SYSTEM_CLOCK) -> Mended:
    """Leave out the lines of a conversation that are no records, and give it a first line again when it has none.

    The file as it was stays beside it, so that no byte is lost.

    :raises BusyError: a process holds it.
    :raises ClawError: it cannot be read or written.
    """
    with _held(home, kept, clock):
        data = content(kept)
        reading = reading_of(kept, data)
        if not data.strip() or not (reading.reason or reading.bad_lines):
            return Mended(kept)
        lost = Header(id=kept.id, key=kept.key) if reading.reason else None
        place = aside(kept.path, "bak", clock)
        try:
            DISK.replace(place, data)
            DISK.replace(kept.path, rewritten(data, reading.bad_lines, lost))
        except OSError as refused:
            raise cannot_write(kept.path, refused) from refused
        return Mended(kept, damages(data, reading.bad_lines), bool(reading.reason), place)


def damages(data: bytes, bad_lines: Sequence[int]) -> tuple[Damage, ...]:
    """Where the bad lines of a file are."""
    lines = lines_of(data)
    start = len(data) - sum(map(len, lines)) - len(lines) + 1  # behind a byte-order mark
    found = []
    for number, line in enumerate(lines, 1):
        if number in bad_lines:
            found.append(Damage(number, start, len(line)))
        start += len(line) + 1
    return tuple(found)


def archive(home: Path, keep: Keep, clock: Clock = SYSTEM_CLOCK, *, pretend: bool = False) -> Archived:
    """Compress and remove what was reset or deleted, as ``session.keep`` says; what goes on is not touched.

    :param pretend: say what would be done, and do nothing.
    :raises ClawError: a file cannot be written.
    """
    if not (keep.compress_after or keep.remove_after or keep.max_size is not None):
        return Archived()
    plan = planned([kept for kept in conversations(home) if kept.state in _ARCHIVED], keep, clock.now())
    if pretend:
        return plan
    freed = 0
    for kept in plan.removed:
        with suppress(FileNotFoundError):
            kept.path.unlink()
            freed += kept.size_bytes
        _forget_rest(kept)
    for kept in plan.compressed:
        packed = gzip.compress(content(kept), mtime=0)
        try:
            DISK.replace(kept.path.with_name(kept.path.name + ".gz"), packed)
            kept.path.unlink(missing_ok=True)
        except OSError as refused:
            raise cannot_write(kept.path, refused) from refused
        freed += kept.size_bytes - len(packed)
    return Archived(plan.compressed, plan.removed, freed)


def planned(old: Sequence[Kept], keep: Keep, now: float) -> Archived:
    """Which of the conversations that were set aside are to go. Pure.

    Size is judged as the files are now: what compressing frees counts the next time.
    """
    oldest_first = sorted(old, key=lambda kept: kept.at)
    removed = [kept for kept in oldest_first if keep.remove_after and now - kept.at > keep.remove_after]
    rest = oldest_first[len(removed) :]
    size = sum(kept.size_bytes for kept in rest)
    while rest and keep.max_size is not None and size > keep.max_size:
        size -= rest[0].size_bytes
        removed.append(rest.pop(0))
    compressed = [
        kept
        for kept in rest
        if keep.compress_after and now - kept.at > keep.compress_after and kept.path.suffix != ".gz"
    ]
    return Archived(tuple(compressed), tuple(removed), sum(kept.size_bytes for kept in removed))


@contextmanager
def _held(home: Path, kept: Kept, clock: Clock) -> Iterator[Database]:
    """The conversation is ours meanwhile.

    :raises UsageError: it was set aside already.
    """
    if kept.state not in (CURRENT, LEFT):
        problem = "{name} was set aside: nothing is done to it any more"
        raise UsageError(problem, fix="claw sessions show and export read it", name=kept.path.name)
    database = Database(home / "state.db", clock)
    lock = Sessions(home, database, clock).lock_of(kept.key or kept.path.name, kept.path)
    try:
        lock.take()
        if not kept.path.exists():
            raise UsageError("{name} was set aside a moment ago", name=kept.name)
        yield database
    finally:
        lock.close()
        database.close()


def _forget_rest(kept: Kept) -> None:
    """The lock of a session whose last file is gone, and its tools' long answers; its id is never used again."""
    if all(path.suffix == ".lock" for path in kept.path.parent.glob(f"{kept.id}.jsonl*")):
        with suppress(FileNotFoundError):
            kept.path.with_name(f"{kept.id}.jsonl.lock").unlink()
        shelf.forget(kept.path.parent.parent, kept.id)
