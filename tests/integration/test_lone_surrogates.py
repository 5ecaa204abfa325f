"""Half a surrogate pair: JSON may bring one anywhere, and neither UTF-8 nor SQLite can hold it. Nothing stops at it."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from claw.contracts.messages import Sender
from claw.contracts.provider import Finished, TextDelta, ThinkingDelta
from claw.contracts.text import repair_text
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says
from hypothesis import given, strategies as st
from integration.served import serve

HALF, OTHER = "\ud83d", "\ude00"
OPEN = {"channels": {"fake": {"dmPolicy": "open", "allowFrom": ["*"]}}}


@asynccontextmanager
async def served(model, channel, home, tools=()):
    harness = Harness(model, tools=tools, home=home, config=OPEN, channels=[channel])
    async with serve(harness):
        yield harness
    assert harness.app.runtime.turn_log.unfinished() == ()


@pytest.mark.parametrize(
    "where", ["text", "id", "name", "chat", "message_id", "event_id"], ids=lambda where: f"in the {where}"
)
async def test_a_message_with_half_a_pair_is_answered_and_costs_its_channel_nothing(tmp_path, where):
    channel, model, bad = FakeChannel(), FakeProvider(says("one"), says("two")), f"half {HALF} a pair"
    about = {where: bad} if where in ("chat", "message_id", "event_id") else {}
    sender = Sender(**({"id": "u1"} | ({where: bad} if where in ("id", "name") else {})))
    async with served(model, channel, tmp_path) as harness:
        channel.says(bad if where == "text" else "hello", sender, **about)
        await channel.until_shown(1)
        channel.says("and now?", "u2", chat="other")
        assert await channel.until_shown(2) == ["one", "two"]
        assert channel.connections == 1 and harness.log_lines == []
    assert HALF not in str(model.requests[0].request)


async def test_an_answer_with_half_a_pair_is_sent_with_a_sign_in_its_place(tmp_path):
    channel = FakeChannel()
    async with served(FakeProvider(says(f"fine {HALF}!")), channel, tmp_path):
        channel.says("hello", "u1")
        assert await channel.until_shown() == ["fine \ufffd!"]


async def test_an_answer_whose_pieces_part_a_pair_ends_whole(tmp_path):
    class Parting(FakeProvider):
        async def stream(self, request):
            self.requests.append(request)
            for piece in (ThinkingDelta(HALF), TextDelta(f"smile {HALF}"), TextDelta(f"{OTHER} and on")):
                yield piece
                await asyncio.sleep(0.05)
            yield Finished(says(f"smile {HALF}{OTHER} and on"))

    channel = FakeChannel(streaming=True)
    async with served(Parting(), channel, tmp_path) as harness:
        channel.says("hello", "u1")
        async with asyncio.timeout(20):
            while channel.shown != ["smile \U0001f600 and on"]:
                await asyncio.sleep(0.01)
        assert harness.log_lines == []
    for state in channel.stream_states:
        assert state.encode()


async def test_what_a_tool_is_given_and_says_is_sound_too(tmp_path):
    tool, channel = FakeTool("look", f"saw {HALF}"), FakeChannel()
    tool.parameters = {"type": "object", "properties": {"at": {"type": "string"}}}
    model = FakeProvider(calls("look", at=f"here {HALF}"), says("done"))
    async with served(model, channel, tmp_path, tools=[tool]):
        channel.says("look", "u1")
        assert await channel.until_shown() == ["done"]
    assert tool.calls == [{"at": "here \ufffd"}]
    assert HALF not in str(model.requests[1].request.messages)


@given(st.text(st.characters(exclude_categories=[]), max_size=40))
def test_what_is_sound_can_be_written_and_sound_text_is_left_alone(text):
    done = repair_text(text)
    done.encode()
    assert repair_text(done) == done
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "\ufffd" in done or len(done) < len(text)
    else:
        assert done == text
