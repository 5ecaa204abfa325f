"""Sessions: the past of each conversation on disk, one append-only file each, one writer, repaired when opened.

``agents/ID/sessions/UUID.jsonl``, its lock ``UUID.jsonl.lock`` beside it; ``state.db`` knows which key has which file.
A turn opens its session, appends, flushes and releases it. Between turns the session stays in memory with its file
open, so that a warm turn opens nothing; the kernel lock is free then, and another process may write: the file's state
is compared at the next open, and read again if it changed.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from uuid import uuid4

import msgspec

from claw import shelf, store
from claw.clock import SYSTEM, Clock, instant
from claw.errors import ClawError
from claw.guard.names import safe_name, session_file
from claw.past import Past
from claw.record import Entry, Header, MessageRecord, Other, Reading, Record, encode, read, rewritten
from claw.store import Database, Disk, Lock, cannot_write
from claw.syncing import Syncing
from claw.transcript import Assistant, Message, User, sendable
from claw.usage import Ledger
from claw.words import say

_INDEX = """CREATE TABLE IF NOT EXISTS sessions
    (key TEXT PRIMARY KEY, id TEXT NOT NULL, agent TEXT NOT NULL) WITHOUT ROWID"""
_DAMAGED = (
    "{count:damaged line of this session was|damaged lines of this session were} left out. The file as it was: "
    "{place}"
)
_BEHEADED = "The first line of this session was lost and is written anew. The file as it was: {place}"
_UNREADABLE = "Nothing in this session's file can be read. It was set aside as {place}; a new session begins"
_OFF_THE_LOOP_BYTES = 1 << 18  # 256 KB are read in about 2 ms: below that a thread costs more than it saves


class Session:
    """One conversation's past. Made by ``Sessions.open``, which also takes its lock; ``release`` when the turn is over.

    In one process it is shared: who opens it again while it is held gets the same object, and the lock goes when the
    last holder lets go. Turns are kept apart by their lane, other processes by the kernel lock.
    """

    def __init__(self, house: "Sessions", key: str, agent_id: str, cwd: str) -> None:
        self.key = key
        self.agent_id = agent_id
        self.id = ""
        self.path = Path()
        self.notices: tuple[str, ...] = ()
        self.used_at = house.clock.monotonic()
        self._house = house
        self._cwd = cwd
        self._past = Past.of([])
        self._gate = asyncio.Lock()
        self._holders = 0
        self._lock: Lock | None = None
        self._fd = -1
        self._state: tuple[int, ...] = ()
        self._next_id = int.from_bytes(os.urandom(4), "big")
        self._line_is_open = self._unsynced = self._name_is_new = False

    @property
    def messages(self) -> tuple[Message, ...]:
        """What a model may be sent of the past: the path to the newest record, every call with its result."""
        return self._past.sendable()

    @property
    def spoken(self) -> Sequence[Message]:
        """The path to the newest record as it was said, calls without results and all."""
        return self._past.messages

    def before(self, at: int) -> tuple[Message, ...]:
        """What a model may be sent of the first ``at`` messages of ``spoken``."""
        return sendable(self._past.messages[:at])

    @property
    def last_heard_at(self) -> float | None:
        """When a person last wrote, seconds since 1970; None when nobody has."""
        return self._past.moment_of(lambda said: isinstance(said, User) and not said.kind)

    @property
    def now(self) -> float:
        """The time, by the clock of its records."""
        return self._house.clock.now()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All records of the file, in file order."""
        return tuple(self._past.entries)

    @property
    def usage(self) -> Ledger:
        """What the whole session has cost, and how full its newest prompt was."""
        return self._past.usage

    @property
    def past(self) -> Past:
        """The past with what compaction asks about. Read it; only ``append`` adds to it."""
        return self._past

    def id_of(self, message: Message) -> str:
        """The record that holds this very message; empty when none does."""
        record = self._past.newest(lambda said: said is message)
        return record.id if record else ""

    @property
    def answered_at(self) -> float | None:
        """When a model last answered, seconds since 1970; None when none has."""
        return self._past.moment_of(lambda said: isinstance(said, Assistant))

    @property
    def size_bytes(self) -> int:
        """How large its file is."""
        return os.fstat(self._fd).st_size if self._fd >= 0 else 0

    @property
    def busy(self) -> bool:
        """Held by a turn, or about to be."""
        return self._holders > 0 or self._gate.locked()

    def append(self, message: Message) -> str:
        """Write a message behind the newest record, at once, in one system call; answers with the record's id.

        It survives a killed process when this returns; a power cut, after the turn's ``flush``.

        :raises ClawError: the disk refused; the file is as it was.
        """
        return self.append_entry(MessageRecord(message=message))

    def append_entry(self, entry: Record) -> str:
        """The same for a record of any kind; its id, parent and moment are filled in here."""
        if not self._holders:
            raise RuntimeError("the session was released: open it again before writing")
        past = self._past
        self._next_id = (self._next_id + 1) & 0xFFFFFFFF
        while (name := f"{self._next_id:08x}") in past.ids:
            self._next_id = (self._next_id + 1) & 0xFFFFFFFF
        parent = past.entries[-1].id if past.entries else None
        moment = instant(self._house.clock.now())
        entry, line = encode(msgspec.structs.replace(entry, id=name, parent_id=parent, timestamp=moment))
        try:
            self._house.disk.append(self._fd, b"\n" + line if self._line_is_open else line)
        except OSError as refused:
            raise cannot_write(self.path, refused) from refused
        self._line_is_open, self._unsynced = False, True
        past.add(entry)
        return name

    async def flush(self) -> None:
        """Bring what was appended onto the medium, off the loop, and wait for it.

        :raises ClawError: the disk refused.
        """
        try:
            await asyncio.wrap_future(self._house.syncing.now(self))
        except OSError as refused:
            raise cannot_write(self.path, refused) from refused

    def flush_soon(self, refused: Callable[[ClawError], None] = lambda why: None) -> None:
        """Bring what was appended onto the medium a moment after the turn: what ends together is synced together. A power
        cut within that moment takes back the turn's lines, as it does the ledger's newest commits.

        :param refused: told when the disk refuses; what it refused is tried with the next turn.
        """
        if self._unsynced:
            self._house.syncing.soon(self, lambda why: refused(cannot_write(self.path, why)))

    async def reset(self) -> None:
        """Begin anew under the same key: the file is renamed ``*.reset.TIMESTAMP``, and a new one takes its place."""
        if not self._holders:
            raise RuntimeError("the session was released: open it again before resetting it")
        old_path, old_lock, new_id = self.path, self._lock, str(uuid4())
        new_lock = self._house.lock_of(self.key, self._house.path_of(self.agent_id, new_id))
        new_lock.take()
        with suppress(FileNotFoundError):
            self._house.disk.set_aside(old_path, "reset", self._house.clock)
        shelf.put_aside(old_path.parent.parent, self.key, self.id)
        self._house.point(self.key, self.agent_id, new_id)
        self._close_file()
        if old_lock:
            old_lock.close()
        self.id, self.path, self._lock = new_id, self._house.path_of(self.agent_id, new_id), new_lock
        self._load()

    def release(self) -> None:
        """The turn is over: other processes may write. The last holder's call frees the lock; more calls do nothing."""
        if self._holders == 0:
            return
        self._holders -= 1
        if self._holders == 0:
            self._let_go()
            self._house.keep_few()

    # --- for Sessions -------------------------------------------------------------------------------------------

    async def hold(self) -> None:
        """Take the lock, and read the file unless it is as we left it. Called by ``Sessions.open``."""
        async with self._gate:
            if self._holders == 0:
                try:
                    await self._take()
                except BaseException:
                    self.drop()
                    raise
            self._holders += 1

    def drop(self) -> None:
        """Forget the past and close the files: only what is on disk remains."""
        self._close_file()
        if self._lock:
            self._lock.close()
        self._lock, self._past, self.id = None, Past.of([]), ""

    async def _take(self) -> None:
        self.notices = ()
        if self._lock and self._fd >= 0:
            self._lock.take()
            if _state(self._fd) == self._state:
                return
        while (found := self._house.id_of(self.key, self.agent_id)) != self.id or not self._lock:
            # Asked again once the lock is ours: another process may have reset the session in between.
            self.drop()
            self.id, self.path = found, self._house.path_of(self.agent_id, found)
            self._house.disk.make_folder(self.path.parent)
            self._lock = self._house.lock_of(self.key, self.path)
            self._lock.take()
        self._close_file()
        if self.path.exists() and self.path.stat().st_size > _OFF_THE_LOOP_BYTES:
            await asyncio.to_thread(self._load)
        else:
            self._load()

    def _let_go(self) -> None:
        self.used_at = self._house.clock.monotonic()
        if self._fd >= 0:
            self._state = _state(self._fd)
        if self._lock:
            self._lock.free()

    def _close_file(self) -> None:
        self._house.syncing.done(self)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def sync(self) -> None:
        """For ``Syncing``, in its thread. :raises OSError: the disk refused."""
        if not self._unsynced:
            return
        self._unsynced = False  # before, not after: what is appended meanwhile is for the next time
        try:
            self._house.disk.sync(self._fd)
            if self._name_is_new:
                self._house.disk.sync_folder(self.path.parent)
                self._name_is_new = False
        except OSError:
            self._unsynced = True
            raise

    def _load(self) -> None:
        try:
            data, reading = self._sound(self._open_file())
            if not data:
                self._house.disk.append(self._fd, encode(self._header())[1])
                self._unsynced = self._name_is_new = True
        except OSError as refused:
            raise _unreadable(self.path, refused) from refused
        self._line_is_open = bool(data) and not data.endswith(b"\n")
        self._past = Past.of(list(reading.entries))

    def _open_file(self) -> bytes:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self.path, flags, 0o600)
        with FileIO(self._fd, closefd=False) as file:
            return file.readall()

    def _header(self) -> Header:
        return Header(id=self.id, timestamp=instant(self._house.clock.now()), cwd=self._cwd, key=self.key)

    def _sound(self, data: bytes) -> tuple[bytes, Reading]:
        """The file once what cannot be read is out of the way, and what it says."""
        reading = read(data)
        if not data or not (reading.reason or reading.bad_lines):
            return data, reading
        lost = self._header() if reading.reason else None
        if lost:
            reading = read(data, lost)
        if all(isinstance(entry, Other) for entry in reading.entries) and lost:
            return self._begin_afresh(data), Reading(lost)
        return self._mend(data, reading.bad_lines, lost), reading

    def _begin_afresh(self, data: bytes) -> bytes:
        """A file without any record is nobody's past that we could read: out of the way with it, unless it is blank."""
        self._close_file()
        if data.strip():
            place = self._house.disk.set_aside(self.path, "bad", self._house.clock)
            self.notices += (say(_UNREADABLE, place=place),)
        else:
            self.path.unlink()
        return self._open_file()

    def _mend(self, data: bytes, bad_lines: tuple[int, ...], lost: Header | None) -> bytes:
        """Rewrite the file without its bad lines, the damaged bytes kept beside it.

        :param lost: the first line, when the file has none.
        """
        backup = store.aside(self.path, "bak", self._house.clock)
        self._house.disk.replace(backup, data)
        self._close_file()
        self._house.disk.replace(self.path, rewritten(data, bad_lines, lost))
        said = _DAMAGED if bad_lines else _BEHEADED
        self.notices += (say(said, count=len(bad_lines), place=backup),)
        return self._open_file()


@dataclass
class Sessions:
    """All sessions of a home: finds, opens and keeps them.

    :param home: ``CLAW_HOME``.
    :param database: ``state.db``; its index can be made again from the files' first lines.
    :param warm: how many sessions that no turn holds stay in memory (two descriptors each); the idlest go first.
    """

    home: Path
    database: Database
    clock: Clock = SYSTEM
    disk: Disk = store.SYSTEM
    warm: int = 128
    _known: dict[str, Session] = field(default_factory=dict)
    _indexed: bool = False
    syncing: Syncing = field(default_factory=Syncing)

    def __post_init__(self) -> None:
        self.database.tables("session", _INDEX)

    async def open(self, session_key: str, agent_id: str, cwd: str = "") -> Session:
        """The session of a key, ours until ``release``; a key that has none gets one, its file written at once.

        :param cwd: noted in the header of a new file.
        :raises BusyError: another process holds it; its pid is named.
        :raises ClawError: the file cannot be read or written.
        """
        session = self._known.get(session_key)
        if session is None:
            session = self._known[session_key] = Session(self, session_key, agent_id, cwd)
        try:
            await session.hold()
        except BaseException:
            if not session.busy:
                self._known.pop(session_key, None)
            raise
        return session

    def path_of(self, agent_id: str, session_id: str) -> Path:
        """Where a session's file is. No id, whatever is in it, leaves ``agents/AGENT/sessions``."""
        return session_file(self.home / "agents" / safe_name(agent_id) / "sessions", session_id)

    def lock_of(self, key: str, path: Path) -> Lock:
        """The lock of a session's file, not yet taken."""
        return Lock(
            path.with_name(path.name + ".lock"),
            "process {pid} is using this session",
            "Wait until its turn is over, end that process, or talk in another session (--session NAME)",
            where=key,
        )

    def id_of(self, key: str, agent_id: str) -> str:
        """The session id of a key; a new one is noted when there is none."""
        if not self._indexed:
            self._index_files()
        rows = self.database.read("SELECT id FROM sessions WHERE key = ?", key)
        if not rows:
            self.database.write(
                "INSERT OR IGNORE INTO sessions VALUES (?, ?, ?)", key, str(uuid4()), agent_id
            )
            rows = self.database.read("SELECT id FROM sessions WHERE key = ?", key)
        return str(rows[0][0])

    def point(self, key: str, agent_id: str, session_id: str) -> None:
        """From now on ``key`` has this session."""
        self.database.write("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", key, session_id, agent_id)

    def keep_few(self) -> None:
        """Forget the idlest beyond ``warm``."""
        if len(self._known) <= self.warm:
            return
        idle = sorted((s for s in self._known.values() if not s.busy), key=lambda session: session.used_at)
        for session in idle[: len(self._known) - self.warm]:
            session.drop()
            del self._known[session.key]

    def close(self) -> None:
        """Let go of all sessions and their locks; the files stay."""
        for session in self._known.values():
            session.drop()
        self._known.clear()

    def _index_files(self) -> None:
        """Make a lost index again: the newest file of each key, as its first line says."""
        self._indexed = True
        if self.database.read("SELECT 1 FROM sessions LIMIT 1"):
            return
        files = sorted(self.home.glob("agents/*/sessions/*.jsonl"), key=lambda path: path.stat().st_mtime)
        for path in files:
            with suppress(OSError, ValueError), path.open("rb") as file:
                header = read(file.readline(1 << 16)).header
                if header and header.key and session_file(path.parent, header.id) == path:
                    self.point(header.key, path.parent.parent.name, header.id)


def _state(fd: int) -> tuple[int, ...]:
    """What changes when another process writes, renames, replaces or removes the file behind ``fd``."""
    now = os.fstat(fd)
    return now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _unreadable(path: Path, refused: OSError) -> ClawError:
    return ClawError(
        "cannot open this session: {reason}",
        where=str(path),
        fix="Mend the permissions of this file and its folder, or move the file away: a new session begins then",
        reason=refused.strerror or str(refused),
    )
