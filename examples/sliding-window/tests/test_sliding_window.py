"""Tests of the engine: within a whole claw, and its extract with a session that only records."""

from types import SimpleNamespace

import claw_plugin_sliding_window
from claw import Text, User
from claw.testing import FakeProvider, Harness, says
from pytest_claw import ContextEngineSuite

CHOSEN = {"slots": {"context": "sliding-window"}, "entries": {"sliding-window": {"config": {"turns": 2}}}}


class RecordingSession:
    def __init__(self, *messages):
        self.messages, self.records = messages, []

    def id_of(self, message):
        return f"id-{self.messages.index(message)}"

    def append_entry(self, record):
        self.records.append(record)


def asked(text):
    return User((Text(text),))


async def test_a_request_holds_the_newest_turns():
    model = FakeProvider(says("one"), says("two"), says("three"))
    plugins = {"sliding-window": claw_plugin_sliding_window}
    async with Harness(model, plugins=plugins, config={"plugins": CHOSEN}) as claw:
        for word in ("first", "second", "third"):
            await claw.send(word)
    shown = [message.content[0].text for message in model.requests[-1].request.messages]
    assert [text.split()[-1] for text in shown] == ["second", "two", "third"]


async def test_compact_replaces_older_turns_by_an_extract():
    session = RecordingSession(asked("first"), says("one"), asked("second"), says("two"), asked("third"))
    engine = claw_plugin_sliding_window.SlidingWindow(2)
    said = await engine.compact(SimpleNamespace(session=session), "")
    [record] = session.records
    assert said == "2 older messages became an extract"
    assert (record.first_kept_entry_id, "first" in record.summary) == ("id-2", True)


async def test_compact_leaves_a_short_conversation_as_it_is():
    session = RecordingSession(asked("first"), says("one"))
    engine = claw_plugin_sliding_window.SlidingWindow(2)
    assert "nothing to do" in await engine.compact(SimpleNamespace(session=session), "")
    assert session.records == []


class TestSlidingWindow(ContextEngineSuite):
    def make(self, folder):
        return claw_plugin_sliding_window.SlidingWindow(10)
