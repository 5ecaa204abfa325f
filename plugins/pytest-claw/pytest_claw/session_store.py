"""Conformance tests of a session store."""

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from claw import Assistant, Message, Text, ToolCall, ToolResultMessage, User
from claw.runtime import BaseSession

from pytest_claw.hook import HookSuite

KEY, OTHER, AGENT = "agent:default:main", "agent:default:fake:group:g1", "default"
MESSAGES: tuple[Message, ...] = (
    User((Text("what is in notes.txt? 你好 👋"),)),
    Assistant((ToolCall("c1", "read", {"file_path": "notes.txt"}),), stop_reason="tool_use"),
    ToolResultMessage("c1", "read", (Text("a line\nanother line"),)),
    Assistant((Text("Two lines."),)),
)


class SessionStoreSuite(HookSuite):
    """The promises of a session store. ``make`` is yours.

    :cvar durable: it keeps sessions beyond the end of the process.
    """

    members = ("open",)
    durable = True

    def test_it_opens_a_session(self, subject: Any) -> None:
        async def opened(store: Any) -> None:
            session = await store.open(KEY, AGENT)
            assert isinstance(session, BaseSession), f"{session!r}: derive it from claw.runtime.BaseSession"
            assert (session.key, session.agent_id) == (KEY, AGENT)
            assert session.messages == (), "a new session is empty"
            assert await store.open(KEY, AGENT) is session, "one conversation is one object while it is open"
            session.release()

        self.used(subject, opened)

    def test_the_next_turn_reads_what_was_written(self, subject: Any) -> None:
        async def two_turns(store: Any) -> None:
            await written(store, KEY)
            assert await stored_messages(store, KEY) == MESSAGES

        self.used(subject, two_turns)

    def test_a_restart_reads_what_was_written(self, subject: Any, tmp_path: Path) -> None:
        if not self.durable:
            pytest.skip("it keeps sessions for this process only")

        async def first(store: Any) -> None:
            await written(store, KEY)

        async def second(store: Any) -> None:
            assert await stored_messages(store, KEY) == MESSAGES

        self.used(subject, first)
        self.used(self.make(tmp_path), second)

    def test_two_conversations_do_not_mix(self, subject: Any) -> None:
        async def both(store: Any) -> None:
            await written(store, KEY)
            assert await stored_messages(store, OTHER) == (), "a conversation shows the messages of another"
            await written(store, OTHER)
            assert await stored_messages(store, KEY) == MESSAGES

        self.used(subject, both)

    def test_a_reset_starts_an_empty_session(self, subject: Any) -> None:
        async def reset(store: Any) -> None:
            await written(store, KEY)
            session = await store.open(KEY, AGENT)
            before = session.id
            await session.reset()
            assert session.messages == (), "the new session is not empty"
            assert session.id != before, "the new session has the id of the old one"
            session.release()
            assert await stored_messages(store, KEY) == (), "the old messages came back"

        self.used(subject, reset)

    def used(self, store: Any, use: Callable[[Any], Awaitable[None]]) -> None:
        """Use a store in an event loop of its own, and close it."""

        async def use_and_close() -> None:
            try:
                await use(store)
            finally:
                closed = store.close() if hasattr(store, "close") else None
                if inspect.isawaitable(closed):
                    await closed

        self.run(use_and_close())


async def written(store: Any, key: str) -> None:
    """Write all messages in one turn."""
    session = await store.open(key, AGENT)
    for message in MESSAGES:
        session.append(message)
    await session.flush()
    session.release()


async def stored_messages(store: Any, key: str) -> tuple[Message, ...]:
    """Return the messages of a session as a turn sees them."""
    session = await store.open(key, AGENT)
    messages: tuple[Message, ...] = session.messages
    session.release()
    return messages
