"""Sessions are opened in the store in force; core's own forgets them with the process and says so."""

from pathlib import Path
from typing import Any

import pytest
from claw import PluginError, Text, User
from claw.runtime import SYSTEM_CLOCK, Database, Overrides
from claw.storage.sessions import MemorySessionStore, Sessions
from claw.testing import FakeProvider, Harness, says

KEY, AGENT = "agent:default:main", "default"
WITHOUT = {"plugins": {"entries": {"sessions": {"enabled": False}}}}


def sessions(store: Any, folder: Path) -> Sessions:
    return Sessions(store, "acme", Overrides(Database(folder / "state.db")), SYSTEM_CLOCK)


async def test_a_session_in_memory_is_the_same_in_the_next_turn(tmp_path: Path) -> None:
    store = sessions(MemorySessionStore(SYSTEM_CLOCK), tmp_path)
    first = await store.open(KEY, AGENT)
    first.append(User((Text("hello"),)))
    first.release()

    assert await store.open(KEY, AGENT) is first
    assert [one.content for one in first.messages] == [(Text("hello"),)]
    assert (await store.open("agent:default:other", AGENT)).messages == ()


async def test_a_reset_forgets_it(tmp_path: Path) -> None:
    session = await sessions(MemorySessionStore(SYSTEM_CLOCK), tmp_path).open(KEY, AGENT)
    session.append(User((Text("hello"),)))
    before = session.id
    await session.reset()
    assert session.messages == ()
    assert session.id != before


async def test_the_person_reads_once_that_nothing_is_kept() -> None:
    model = FakeProvider(says("one"), says("two"))
    async with Harness(model, config=WITHOUT) as harness:
        await harness.send("first")
        await harness.send("second")
        notices = [event.text for event in harness.events if type(event).__name__ == "Notice"]
        assert [*harness.home.glob("agents/*/sessions/*.jsonl")] == []

    assert len([text for text in notices if "claw-sessions" in text]) == 1
    assert len(model.requests[1].request.messages) == 3


class Broken:
    name = "broken"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def open(self, key: str, agent_id: str) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [OSError("no route"), "a text", TimeoutError()], ids=repr)
async def test_a_store_that_fails_is_named(answer: Any, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"plugin acme.*its session store cannot open a session"):
        await sessions(Broken(answer), tmp_path).open(KEY, AGENT)
