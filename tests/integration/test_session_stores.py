"""A session store of a third party, chosen by the slot ``sessions``, is used for every turn."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from claw import ClawError, hookimpl
from claw.runtime import BaseSession
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says
from integration.test_chat_commands import type_in
from integration.test_serving import Channels

SLOT = {"plugins": {"slots": {"sessions": "in-memory"}}}
OPEN = {"channels": {"fake": {"allowFrom": ["u1"]}}, "owners": ["fake:boss"], **SLOT}


class MemorySession(BaseSession):
    """A session whose records are in a list."""

    def __init__(self, store: "MemoryStore", key: str, agent_id: str) -> None:
        super().__init__(key, agent_id, str(uuid4()))
        self.store = store

    def write(self, entry: Any, line: bytes) -> None:
        if self.store.full:
            raise ClawError("the store is full")
        self.store.lines.append((self.id, line))

    async def reset(self) -> None:
        self.store.archived.append(self.id)
        self.start_over(str(uuid4()))

    def release(self) -> None:
        self.store.released += 1


class MemoryStore:
    """A store in memory, and the plugin that registers it."""

    name = "in-memory"

    def __init__(self) -> None:
        self.sessions: dict[str, MemorySession] = {}
        self.lines: list[tuple[str, bytes]] = []
        self.archived: list[str] = []
        self.released, self.closed, self.full = 0, False, False
        self.broken: BaseException | None = None

    async def open(self, key: str, agent_id: str) -> BaseSession:
        if self.broken:
            raise self.broken
        return self.sessions.setdefault(key, MemorySession(self, key, agent_id))

    def close(self) -> None:
        self.closed = True

    @hookimpl
    def register_session_stores(self) -> Iterable["MemoryStore"]:
        return [self]


def files(home: Path) -> list[Path]:
    return [*home.glob("agents/*/sessions/*.jsonl")]


async def test_it_keeps_every_turn_and_the_model_is_shown_the_history_from_it() -> None:
    store, model = MemoryStore(), FakeProvider(calls("look"), says("one"), says("two"))
    async with Harness(model, tools=[FakeTool("look")], plugins={"acme": store}, config=SLOT) as harness:
        await harness.send("first")
        await harness.send("second")
        assert files(harness.home) == []

    shown = [type(one).__name__ for one in model.requests[-1].request.messages]
    assert shown == ["User", "Assistant", "ToolResultMessage", "Assistant", "User"]
    assert len(store.lines) == len(next(iter(store.sessions.values())).entries)
    assert b"first" in b"".join(line for _, line in store.lines)
    assert store.released >= 2
    assert store.closed


async def test_status_describes_and_new_resets_a_conversation_of_it() -> None:
    store, model = MemoryStore(), FakeProvider(says("one"), says("two"))
    async with Harness(model, plugins={"acme": store}, config=SLOT) as harness:
        await harness.send("first")
        assert "messages: 2" in (await type_in(harness, "/status") or "")
        await type_in(harness, "/think high")
        await type_in(harness, "/new")
        assert "messages: 0" in (await type_in(harness, "/status") or "")
        await harness.send("second")

    assert len(store.archived) == 1
    assert [recorded.request.thinking for recorded in model.requests] == ["off", "high"]
    assert len(model.requests[-1].request.messages) == 1


async def test_a_served_chat_uses_it_too(tmp_path: Path) -> None:
    store, channel = MemoryStore(), FakeChannel()
    plugins = {"acme": store, "channels": Channels(channel)}
    model = FakeProvider(says("hi"))
    async with Harness(model, plugins=plugins, home=tmp_path, config=OPEN) as harness, harness.serving():
        channel.says("hello", "u1")
        assert await channel.until_shown() == ["hi"]
    assert [*store.sessions] == ["agent:default:fake:direct:u1"]
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (ClawError("the disk of acme is away"), "the disk of acme is away"),
        (OSError("no route"), "its session store cannot open a session: OSError: no route"),
    ],
)
async def test_one_that_cannot_open_ends_the_turn_before_a_model_is_called(
    broken: BaseException, problem: str
) -> None:
    store, model = MemoryStore(), FakeProvider()
    store.broken = broken
    async with Harness(model, plugins={"acme": store}, config=SLOT) as harness:
        with pytest.raises(ClawError, match=problem):
            await harness.send("first")
    assert model.requests == []


async def test_a_session_that_is_no_session_is_an_error_of_its_plugin() -> None:
    class Wrong(MemoryStore):
        async def open(self, key: str, agent_id: str) -> Any:
            return {}

    async with Harness(FakeProvider(), plugins={"acme": Wrong()}, config=SLOT) as harness:
        with pytest.raises(ClawError, match="which is no BaseSession") as wrong:
            await harness.send("first")
    assert "acme" in str(wrong.value)


async def test_a_record_that_cannot_be_stored_ends_the_turn_with_the_reason() -> None:
    store = MemoryStore()
    store.full = True
    async with Harness(FakeProvider(says("hi")), plugins={"acme": store}, config=SLOT) as harness:
        with pytest.raises(ClawError, match="the store is full"):
            await harness.send("first")


async def test_without_one_core_keeps_files() -> None:
    async with Harness(FakeProvider(says("hi"))) as harness:
        await harness.send("first")
        assert len(files(harness.home)) == 1
