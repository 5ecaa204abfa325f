"""One sound session store, and for each promise a twin that breaks it and no other."""

import json
from pathlib import Path
from typing import Any

from claw.runtime import BaseSession, decode_record
from pytest_claw import SessionStoreSuite


class Lines(BaseSession):
    """A session whose records are lines of a file."""

    def __init__(self, path: Path, key: str, agent_id: str) -> None:
        self.path = path
        lines = path.read_bytes().splitlines() if path.exists() else []
        super().__init__(key, agent_id, "1", [one for line in lines if (one := decode_record(line))])

    def write(self, entry: Any, line: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(line.rstrip(b"\n") + b"\n")

    async def reset(self) -> None:
        self.path.unlink(missing_ok=True)
        self.start_over(str(int(self.id) + 1))


class Store:
    name = "lines"
    kind: type[Lines] = Lines

    def __init__(self, folder: Path) -> None:
        self.folder, self.sessions = folder, dict[str, Lines]()

    async def open(self, key: str, agent_id: str) -> Any:
        if key not in self.sessions:
            self.sessions[key] = self.kind(self.path_of(key), key, agent_id)
        return self.sessions[key]

    def path_of(self, key: str) -> Path:
        return self.folder / f"{key.replace(':', '_')}.jsonl"


class TestSound(SessionStoreSuite):
    store: type[Store] = Store
    breaks = ""

    def make(self, folder: Path) -> Any:
        return self.store(folder)


class Nameless(Store):
    name = ""


class TestHasNoName(TestSound):
    store, breaks = Nameless, "test_it_has_the_members_of_its_hook"


class Doubled(Store):
    """Makes a new object for each use, which reads what the others wrote."""

    async def open(self, key: str, agent_id: str) -> Any:
        return self.kind(self.path_of(key), key, agent_id)


class TestMakesTwoObjectsOfOneConversation(TestSound):
    store, breaks = Doubled, "test_it_opens_a_session"


class Forgetful(Lines):
    def release(self) -> None:
        self.start_over(self.id)


class ForgettingStore(Store):
    kind = Forgetful


class TestForgetsAtTheEndOfATurn(TestSound):
    store, breaks = ForgettingStore, "test_the_next_turn_reads_what_was_written"

    def test_two_conversations_do_not_mix(self, subject: Any) -> None:
        """It forgets there too."""


class Fleeting(Lines):
    def write(self, entry: Any, line: bytes) -> None:
        json.loads(line)


class FleetingStore(Store):
    kind = Fleeting


class TestKeepsNothing(TestSound):
    store, breaks = FleetingStore, "test_a_restart_reads_what_was_written"


class Mixing(Store):
    """Takes the first two parts of a key for the conversation."""

    async def open(self, key: str, agent_id: str) -> Any:
        for known, session in self.sessions.items():
            if known.split(":")[:2] == key.split(":")[:2]:
                return session
        return await super().open(key, agent_id)


class TestMixesTheConversationsOfAnAgent(TestSound):
    store, breaks = Mixing, "test_two_conversations_do_not_mix"


class Lasting(Lines):
    async def reset(self) -> None:
        self.start_over(self.id)


class LastingStore(Store):
    kind = Lasting


class TestKeepsTheIdAtAReset(TestSound):
    store, breaks = LastingStore, "test_a_reset_starts_an_empty_session"
