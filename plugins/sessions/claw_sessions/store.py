"""The session store of claw: a conversation is an append-only file with one writer, repaired when it is opened.

``agents/ID/sessions/UUID.jsonl``, its lock ``UUID.jsonl.lock`` beside it; ``state.db`` maps session keys to
files. A turn opens its session, appends, flushes and releases it. Between turns the session stays in memory
with its file open, so that a warm turn opens nothing; the kernel lock is free then, and another process may
write: the file's state is compared at the next open, and the file is read again if it changed.
"""

import asyncio
import errno
import os
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any
from uuid import uuid4

from claw import ClawError, Inbound, User, t
from claw.runtime import (
    SYSTEM_CLOCK,
    SYSTEM_DISK,
    BaseSession,
    Clock,
    Database,
    Disk,
    Record,
    cannot_write,
    dated_name,
    encode_record,
    iso_time,
    safe_file_name,
    zone_of,
)
from claw_config_sdk import Lock, lock_holder

from claw_sessions.background_sync import BackgroundSync
from claw_sessions.freshness import is_fresh, reset_policy
from claw_sessions.records import UnknownRecord
from claw_sessions.results import archive_results, delete_results
from claw_sessions.session_file import ParsedSession, SessionHeader, parse_session, without_bad_lines
from claw_sessions.settings import ResetSettings

_INDEX = """CREATE TABLE IF NOT EXISTS sessions
    (key TEXT PRIMARY KEY, id TEXT NOT NULL, agent TEXT NOT NULL) WITHOUT ROWID"""
_DAMAGED = (
    "{count:damaged line of this session was|damaged lines of this session were} left out. "
    "Copy of the damaged file: {place}"
)
_NO_HEADER = "The first line of this session was lost and was rewritten. Copy of the damaged file: {place}"
_NO_RECORDS = "The session file is unreadable and was moved to {place}; a new session starts"
_THREAD_BYTES = 1 << 18  # 256 KB are read in about 2 ms: for less, a thread costs more than it saves


class Session(BaseSession):
    """The history of one conversation. Made by ``JsonlSessionStore.open``, which also takes its lock; ``release`` it
    after the turn.

    It is shared within a process: opening it again while it is held returns the same object, and the lock
    goes with the last holder. The session queue keeps turns apart, the kernel lock keeps processes apart.
    """

    def __init__(self, sessions: "JsonlSessionStore", key: str, agent_id: str, cwd: str) -> None:
        super().__init__(key, agent_id, "", clock=sessions.clock)
        self.path = Path()
        self.used_at = sessions.clock.monotonic()
        self._sessions = sessions
        self._cwd = cwd
        self._opening = asyncio.Lock()
        self._holders = 0
        self._lock: Lock | None = None
        self._fd = -1
        self._file_state: tuple[int, ...] = ()
        self._line_is_open = self._unsynced = self._is_new_file = False

    @property
    def size_bytes(self) -> int:
        """Size of its file."""
        return os.fstat(self._fd).st_size if self._fd >= 0 else 0

    @property
    def is_busy(self) -> bool:
        """True if a turn holds it, or is about to."""
        return self._holders > 0 or self._opening.locked()

    def write(self, entry: Record, line: bytes) -> None:
        """Append a record to the file, at once, in one system call. After this it survives a killed process; after the
        turn's ``flush``, a power cut.

        :raises ClawError: the disk refused; the file is as it was.
        """
        if not self._holders:
            raise RuntimeError("the session was released: open it again before writing")
        try:
            self._sessions.disk.append(self._fd, b"\n" + line if self._line_is_open else line)
        except OSError as refused:
            raise cannot_write(self.path, refused) from refused
        self._line_is_open, self._unsynced = False, True

    async def flush(self) -> None:
        """Sync appended records to the medium, off the event loop, and wait for it.

        :raises ClawError: the disk refused.
        """
        try:
            await asyncio.wrap_future(self._sessions.syncing.sync_now(self))
        except OSError as refused:
            raise cannot_write(self.path, refused) from refused

    def flush_soon(self, refused: Callable[[ClawError], None] = lambda why: None) -> None:
        """Sync appended records shortly after the turn, batched with others. A power cut before that loses
        the turn's lines, as it does the newest commits of the journal.

        :param refused: called when the disk refuses; the sync is tried again with the next turn.
        """
        if self._unsynced:
            self._sessions.syncing.schedule(self, lambda why: refused(cannot_write(self.path, why)))

    async def reset(self) -> None:
        """Start a new file under the same key; the old one is renamed ``*.reset.TIMESTAMP``."""
        if not self._holders:
            raise RuntimeError("the session was released: open it again before resetting it")
        old_path, old_lock, new_id = self.path, self._lock, str(uuid4())
        new_lock = self._sessions.lock_of(self.key, self._sessions.path_of(self.agent_id, new_id))
        new_lock.take()
        with suppress(FileNotFoundError):
            self._sessions.disk.set_aside(old_path, "reset", self._sessions.clock)
        archive_results(old_path.parent.parent, self.key, self.id)
        self._sessions.assign(self.key, self.agent_id, new_id)
        self._close_file()
        if old_lock:
            old_lock.close()
        self.id, self.path, self._lock = new_id, self._sessions.path_of(self.agent_id, new_id), new_lock
        self._load()

    def release(self) -> None:
        """End the turn: other processes may write. The last holder's call frees the lock; more calls do
        nothing.
        """
        holders, self._holders = self._holders, max(0, self._holders - 1)
        if holders == 1:
            self._release_lock()
            self._sessions.evict_idle(self._sessions.warm)

    # --- for Sessions -------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Take the lock, and read the file if it changed since we left it. Called by ``JsonlSessionStore.open``."""
        async with self._opening:
            while self._holders == 0:
                try:
                    await self._take()
                    break
                except BaseException as why:
                    self.unload()
                    if getattr(why.__cause__, "errno", 0) != errno.EMFILE or not self._sessions.evict_idle(0):
                        raise
            self._holders += 1

    def unload(self) -> None:
        """Forget the history and close the files: only the file on disk remains."""
        self._close_file()
        if self._lock:
            self._lock.close()
        self._lock, self.id = None, ""
        self.load(())

    async def _take(self) -> None:
        self.notices = ()
        if self._lock and self._fd >= 0:
            self._lock.take()
            if _file_state(self._fd) == self._file_state:
                return
        while (found := self._sessions.id_of(self.key, self.agent_id)) != self.id or not self._lock:
            # Looked up again once the lock is ours: another process may have reset the session in between.
            self.unload()
            self.id, self.path = found, self._sessions.path_of(self.agent_id, found)
            self._sessions.disk.make_folder(self.path.parent)
            self._lock = self._sessions.lock_of(self.key, self.path)
            self._lock.take()
        self._close_file()
        if self.path.exists() and self.path.stat().st_size > _THREAD_BYTES:
            await asyncio.to_thread(self._load)
        else:
            self._load()
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if 0 < soft < 2 * self._fd:  # the lowest free descriptor: more than half of them are in use
            self._sessions.evict_idle(0)

    def _release_lock(self) -> None:
        self.used_at = self._sessions.clock.monotonic()
        if self._fd >= 0:
            self._file_state = _file_state(self._fd)
        if self._lock:
            self._lock.free()

    def _close_file(self) -> None:
        self._sessions.syncing.finish(self)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def sync(self) -> None:
        """Sync, in the thread of ``BackgroundSync``. :raises OSError: the disk refused."""
        if not self._unsynced:
            return
        self._unsynced = False  # before, not after: a line appended meanwhile needs the next sync
        try:
            self._sessions.disk.sync(self._fd)
            if self._is_new_file:
                self._sessions.disk.sync_folder(self.path.parent)
                self._is_new_file = False
        except OSError:
            self._unsynced = True
            raise

    def _load(self) -> None:
        try:
            data, reading = self._repaired(self._open_file())
            if not data:
                self._sessions.disk.append(self._fd, encode_record(self._header())[1])
                self._unsynced = self._is_new_file = True
        except OSError as refused:
            raise _cannot_open(self.path, refused) from refused
        self._line_is_open = bool(data) and not data.endswith(b"\n")
        self.load(reading.entries)

    def _open_file(self) -> bytes:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self.path, flags, 0o600)
        with FileIO(self._fd, closefd=False) as file:
            return file.readall()

    def _header(self) -> SessionHeader:
        return SessionHeader(
            id=self.id, timestamp=iso_time(self._sessions.clock.now()), cwd=self._cwd, key=self.key
        )

    def _repaired(self, data: bytes) -> tuple[bytes, ParsedSession]:
        """Repair the file if parts of it cannot be read; return its bytes and its content."""
        reading = parse_session(data)
        if not data or not (reading.reason or reading.bad_lines):
            return data, reading
        lost = self._header() if reading.reason else None
        if lost:
            reading = parse_session(data, lost)
        if all(isinstance(entry, UnknownRecord) for entry in reading.entries) and lost:
            return self._start_over(data), ParsedSession(lost)
        return self._rewrite(data, reading.bad_lines, lost), reading

    def _start_over(self, data: bytes) -> bytes:
        """Rename a file without any readable record, unless it is blank, and start a new one."""
        self._close_file()
        if data.strip():
            place = self._sessions.disk.set_aside(self.path, "bad", self._sessions.clock)
            self.notices += (t(_NO_RECORDS, place=place),)
        else:
            self.path.unlink()
        return self._open_file()

    def _rewrite(self, data: bytes, bad_lines: tuple[int, ...], lost: SessionHeader | None) -> bytes:
        """Rewrite the file without its bad lines; the damaged bytes are kept in a file beside it.

        :param lost: the header, when the file has none.
        """
        backup = dated_name(self.path, "bak", self._sessions.clock)
        self._sessions.disk.replace(backup, data)
        self._close_file()
        self._sessions.disk.replace(self.path, without_bad_lines(data, bad_lines, lost))
        said = _DAMAGED if bad_lines else _NO_HEADER
        self.notices += (t(said, count=len(bad_lines), place=backup),)
        return self._open_file()


@dataclass
class JsonlSessionStore:
    """All sessions of a home: finds, opens and caches them.

    :param home: ``CLAW_HOME``.
    :param database: ``state.db``; its index can be rebuilt from the files' headers.
    :param warm: limit of sessions kept in memory that no turn holds (two descriptors each); the longest idle
        go first, and all of them when more than half of the descriptors of this process are in use.
    """

    home: Path
    database: Database
    clock: Clock = SYSTEM_CLOCK
    disk: Disk = SYSTEM_DISK
    warm: int = 128
    name: str = "files"
    _known: dict[str, Session] = field(default_factory=dict)
    _indexed: bool = False
    syncing: BackgroundSync = field(default_factory=BackgroundSync)

    def __post_init__(self) -> None:
        self.database.tables("session", _INDEX)

    async def open(self, session_key: str, agent_id: str, cwd: str = "") -> Session:
        """Open the session of a key and hold it until ``release``; a new key gets a new session, its file
        written at once.

        :param cwd: noted in the header of a new file.
        :raises BusyError: another process holds it; its pid is named.
        :raises ClawError: the file cannot be read or written.
        """
        session = self._known.get(session_key)
        if session is None:
            session = self._known[session_key] = Session(self, session_key, agent_id, cwd)
        try:
            await session.acquire()
        except BaseException:
            if not session.is_busy:
                self._known.pop(session_key, None)
            raise
        return session

    def conversations(self) -> list[tuple[str, str]]:
        """Return session key and agent id of each conversation."""
        return [
            (str(key), str(agent)) for key, agent in self.database.read("SELECT key, agent FROM sessions")
        ]

    def expired(self, session: BaseSession, message: Inbound, agent: Any, config: Any) -> bool:
        """Return true if the conversation is over by ``session.reset`` and its siblings, as the file has them now."""
        last = session.time_of(lambda said: isinstance(said, User) and not said.kind)
        kind = "thread" if message.address.thread else message.chat_type
        policy = reset_policy(ResetSettings.of(config), kind, message.address.channel)
        zone = zone_of(agent.settings.user_timezone)
        return last is not None and not is_fresh(policy, last, session.now, zone)

    def holder(self, key: str) -> int | None:
        """Return the process that runs a turn in a conversation; None when none does, 0 when it is unknown."""
        rows = self.database.read("SELECT agent, id FROM sessions WHERE key = ?", key)
        return lock_holder(self.lock_of(key, self.path_of(*rows[0])).path) if rows else None

    async def delete(self, key: str) -> None:
        """Delete a conversation: its file, lock, results and row.

        :raises BusyError: another process holds it.
        :raises OSError: the disk refused.
        """
        for (agent,) in self.database.read("SELECT agent FROM sessions WHERE key = ?", key):
            session = await self.open(key, agent)
            try:
                agent_dir = session.path.parent.parent
                archive_results(agent_dir, key, session.id)
                delete_results(agent_dir, session.id)
                session.path.unlink(missing_ok=True)
                self.database.write("DELETE FROM sessions WHERE key = ?", key)
            finally:
                session.release()
                session.unload()
            self.lock_of(key, session.path).path.unlink(missing_ok=True)

    def path_of(self, agent_id: str, session_id: str) -> Path:
        """Return the path of a session's file. No id, whatever it contains, leads outside
        ``agents/AGENT/sessions``.
        """
        agent = safe_file_name(agent_id)
        return session_file(self.home / "agents" / agent / "sessions", session_id)

    def lock_of(self, key: str, path: Path) -> Lock:
        """Return the lock of a session's file, not yet taken."""
        return Lock(
            path.with_name(path.name + ".lock"),
            "process {pid} is using this session",
            "Wait until its turn ends, stop that process, or use another session (--session NAME)",
            where=key,
        )

    def id_of(self, key: str, agent_id: str) -> str:
        """Return the session id of a key; create one when there is none."""
        if not self._indexed:
            self._index_files()
        rows = self.database.read("SELECT id FROM sessions WHERE key = ?", key)
        if not rows:
            self.database.write(
                "INSERT OR IGNORE INTO sessions VALUES (?, ?, ?)", key, str(uuid4()), agent_id
            )
            rows = self.database.read("SELECT id FROM sessions WHERE key = ?", key)
        return str(rows[0][0])

    def assign(self, key: str, agent_id: str, session_id: str) -> None:
        """Map ``key`` to this session from now on."""
        self.database.write("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?)", key, session_id, agent_id)

    def evict_idle(self, most: int) -> int:
        """Drop the longest idle sessions beyond ``most``; return their number."""
        if len(self._known) <= most:
            return 0
        idle = sorted((s for s in self._known.values() if not s.is_busy), key=lambda session: session.used_at)
        for session in (dropped := idle[: len(self._known) - most]):
            session.unload()
            del self._known[session.key]
        return len(dropped)

    def close(self) -> None:
        """Drop all sessions, their locks and the thread that syncs; the files stay."""
        for session in self._known.values():
            session.unload()
        self._known.clear()
        self.syncing.close()

    def _index_files(self) -> None:
        """Rebuild a lost index: the newest file of each key, by its header."""
        self._indexed = True
        if self.database.read("SELECT 1 FROM sessions LIMIT 1"):
            return
        for path in sorted(self.home.glob("agents/*/sessions/*.jsonl"), key=lambda one: one.stat().st_mtime):
            with suppress(OSError, ValueError), path.open("rb") as file:
                header = parse_session(file.readline(1 << 16)).header
                if header and header.key and session_file(path.parent, header.id) == path:
                    self.assign(header.key, path.parent.parent.name, header.id)


def _cannot_open(path: Path, refused: OSError) -> ClawError:
    """Return an error for people that says why a session cannot be opened."""
    return ClawError(
        "cannot open this session: {reason}",
        where=str(path),
        fix="Correct the permissions of this file and its folder, or move the file elsewhere to "
        "start a new session",
        reason=refused.strerror or str(refused),
    )


def _file_state(fd: int) -> tuple[int, ...]:
    """Return values that change when another process writes, renames, replaces or removes the file behind ``fd``."""
    now = os.fstat(fd)
    return now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def session_file(folder: Path, session_id: str) -> Path:
    """Return the path of a session's transcript: a file directly in ``folder``, whatever the id contains."""
    return folder / f"{safe_file_name(session_id)}.jsonl"
