"""Processes that write into one conversation at the same time, and are killed while they do.

``history`` starts them, kills some at random moments and replaces them, and puts together what they noted. Started as a
script this file is one of them: it notes each operation before and after, in a file of its own outside of claw's home.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from claw.contracts.errors import BusyError
from claw.contracts.transcript import Text, User
from claw.storage.database import Database
from claw.storage.files import Disk
from claw.storage.records import MessageRecord, Record
from claw_sessions.index import list_sessions, parse_stored_session, read_bytes
from claw_sessions.store import JsonlSessionStore, Session

from rigs.linear import Append, History, Read, digest_of

KEY = "agent:a:main"
_DEATHS_IN_A_WRITE = 0.01


@dataclass
class Writer:
    """One process' work, chosen by dice: append, read under the lock, or look without it."""

    home: Path
    name: str
    dice: random.Random
    notes: int
    sessions: JsonlSessionStore = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = JsonlSessionStore(
            self.home, Database(self.home / "state.db"), disk=Disk(write=self.write)
        )

    def write(self, fd: int, data: bytes) -> int:
        """Now and then death comes when half of it is written."""
        if self.dice.random() < _DEATHS_IN_A_WRITE:
            os.write(fd, data[: self.dice.randrange(len(data))])
            os.kill(os.getpid(), signal.SIGKILL)
        return os.write(fd, data)

    def note(self, **what: object) -> None:
        line = json.dumps(what | {"at": time.monotonic_ns()}) + "\n"
        os.write(self.notes, line.encode())

    async def work(self, operations: int) -> None:
        for number in range(operations):
            match self.dice.choices(["append", "read", "look"], [6, 2, 1])[0]:
                case "append":
                    await self.append([f"{self.name}.{number}.{n}" for n in range(self.dice.randint(1, 3))])
                case "read":
                    self.note(began="read")
                    session = await self.opened()
                    seen = values(session.entries)
                    session.release()
                    self.note(ended="read", count=len(seen), digest=digest_of(seen))
                case "look":
                    self.look()
            if self.dice.random() < 0.1:
                self.sessions.close()  # the next one opens the file again
            await asyncio.sleep(self.dice.random() * 0.004)

    async def opened(self) -> Session:
        while True:
            with suppress(BusyError):
                return await self.sessions.open(KEY, "a")
            await asyncio.sleep(self.dice.random() * 0.01)

    async def append(self, new: list[str]) -> None:
        """A turn: several records under one lock."""
        for value in new:
            self.note(began="append", value=value)
        session = await self.opened()
        for value in new:
            session.append(User((Text(f"{value} {'x' * self.dice.choice([0, 10, 5000])}"),)))
            self.note(ended="append", value=value)
        if self.dice.random() < 0.2:
            await session.flush()
        session.release()

    def look(self) -> None:
        """As ``claw sessions show`` does."""
        self.note(began="read")
        seen: list[str] = []
        for kept in list_sessions(self.home):
            if kept.state == "current":
                seen = values(parse_stored_session(kept, read_bytes(kept)).entries)
        self.note(ended="read", count=len(seen), digest=digest_of(seen))


def values(entries: tuple[Record, ...]) -> list[str]:
    """Return the appended values, in the order of the file."""
    return [
        block.text.split()[0]
        for entry in entries
        if isinstance(entry, MessageRecord)
        for block in entry.message.content
        if isinstance(block, Text)
    ]


async def history(home: Path, notes: Path, seed: int, writers: int, operations: int, kills: int) -> History:
    """Let ``writers`` processes do ``operations`` each; one that dies is replaced until there were ``kills``."""
    dice, alive, born = random.Random(seed), dict[str, subprocess.Popen[bytes]](), 0

    def bear() -> None:
        nonlocal born
        name = f"w{born}"
        born += 1
        words = [home, notes / name, name, f"{seed}.{born}", operations]
        alive[name] = subprocess.Popen([sys.executable, __file__, *map(str, words)])

    for _ in range(writers):
        bear()
    while alive:
        await asyncio.sleep(dice.uniform(0.02, 0.15))
        if born < writers + kills and any(notes.iterdir()):
            alive[dice.choice(list(alive))].kill()
        for name, process in list(alive.items()):
            if process.poll() is None:
                continue
            assert process.returncode in (0, -signal.SIGKILL), f"{name} ended with {process.returncode}"
            del alive[name]
            if process.returncode and born < writers + kills:
                bear()
    return put_together(notes, await log_of(home))


async def log_of(home: Path) -> list[str]:
    """The log once all is quiet, as a turn opens it; its file read without claw says the same."""
    sessions = JsonlSessionStore(home, Database(home / "state.db"))
    session = await sessions.open(KEY, "a")
    seen, lines = values(session.entries), session.path.read_text().splitlines()
    sessions.close()
    sessions.database.close()
    records = map(json.loads, lines[1:])
    assert seen == [record["message"]["content"][0]["text"].split()[0] for record in records]
    return seen


def put_together(notes: Path, log: list[str]) -> History:
    """The notes of all writers. An operation that was never noted as ended has no end."""
    appends: dict[str, Append] = {}
    reads = []
    for file in sorted(notes.iterdir()):
        began = 0.0
        for note in _noted(file):
            at, value = float(note["at"]), str(note.get("value", ""))
            match note:
                case {"began": "append"}:
                    appends[value] = Append(value, at)
                case {"ended": "append"}:
                    appends[value] = Append(value, appends[value].began, at)
                case {"began": "read"}:
                    began = at
                case {"ended": "read", "count": int(count)}:
                    reads.append(Read(count, str(note["digest"]), began, at))
    return History(list(appends.values()), reads, log)


def _noted(file: Path) -> Iterator[dict[str, object]]:
    for line in file.read_text().splitlines(keepends=True):
        if line.endswith("\n"):  # else death came while it was noted
            yield json.loads(line)


if __name__ == "__main__":
    _home, _notes, _name, _seed, _operations = sys.argv[1:]
    _fd = os.open(_notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(Writer(Path(_home), _name, random.Random(_seed), _fd).work(int(_operations)))
