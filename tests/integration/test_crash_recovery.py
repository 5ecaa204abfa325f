"""Recovery after a crash in the middle of a turn: the cases that the kill rig found, one test each."""

import asyncio

import pytest
from claw.contracts.messages import Address, Inbound, Outbound, Sender
from claw.contracts.provider import Finished, TextDelta
from claw.contracts.transcript import UNREADABLE_CALL, Text, ToolResultMessage, User
from claw.storage.database import Database
from claw.testing import FakeChannel, FakeProvider, FakeTool, Harness, calls, says
from claw_channel_sdk.edit_stream import EditStream
from claw_gateway.journal import Journal
from integration.served import serve


def wrote(number: int, text: str) -> Inbound:
    """A message of the fake channel's chat."""
    return Inbound(
        Address("fake", "chat-1"), text, Sender("user-1"), message_id=f"m{number}", event_id=f"e{number}"
    )


class Editing(FakeChannel):
    """A channel that shows a growing reply by edits, and drops what is posted with a key that it knows."""

    def stream(self, outbound: Outbound) -> EditStream:
        async def post(piece: Outbound) -> str:
            return (await self.send(piece)).message_ids[0]

        async def edit(id: str, text: str, last: Outbound | None) -> None:
            await self.edit(outbound.address, id, text)

        return EditStream(outbound, pieces=self.split, post=post, edit=edit)

    def split(self, text: str) -> tuple[str, ...]:
        return (text,)


async def leave_partial_reply(channel: Editing) -> tuple[str, ...]:
    """Show a part of ``turn-1`` as a killed process did; return the ids of its messages."""
    writer = channel.stream(Outbound("turn-1", channel.address(), "", answers="m0"))
    await writer.show("the wh")
    await channel.until_shown()
    return writer.shown


async def shown_after_delivery(harness: Harness, channel: FakeChannel) -> list[str]:
    """Return the visible messages once a start has sent all pending replies."""
    async with serve(harness), asyncio.timeout(20):
        while harness.app.runtime.turn_log.pending_replies():
            await asyncio.sleep(0.02)
        return channel.shown


async def leave_a_turn(home, *texts: str, recorded: int = 1) -> None:
    """Leave the state of a killed process: a turn with all of ``texts``, of which ``recorded`` are in its session."""
    harness = Harness(FakeProvider(), channels=[FakeChannel()], home=home)
    runtime = harness.app.runtime
    accepted = [runtime.turn_log.accept(wrote(number, text)) for number, text in enumerate(texts)]
    key = "agent:default:fake:direct:user-1"
    runtime.turn_log.began("turn-1", key, [one.number for one in accepted])
    session = await runtime.sessions.open(key, "default")
    for one in accepted[:recorded]:
        session.append(User((Text(one.inbound.text),), source=str(one.number)))
    session.release()
    await harness.close()


def asked(model: FakeProvider) -> str:
    """Everything that people say in the newest request."""
    return "\n".join(
        "".join(block.text for block in message.content)
        for message in model.requests[-1].request.messages
        if isinstance(message, User)
    )


async def test_a_turn_that_is_taken_up_behind_its_first_model_call_has_had_its_tool_choice(tmp_path):
    for name, behind in (("first", False), ("second", True)):
        home = tmp_path / name
        await leave_a_turn(home, "go")
        if behind:
            harness = Harness(FakeProvider(), channels=[FakeChannel()], home=home)
            session = await harness.app.runtime.sessions.open("agent:default:fake:direct:user-1", "default")
            call = calls("look")
            session.append(call)
            session.append(ToolResultMessage(call.tool_calls[0].id, "look", (Text("seen"),)))
            session.release()
            await harness.close()
        model, channel = FakeProvider(says("done")), FakeChannel()
        config = {"agents": {"defaults": {"toolChoice": "required"}}}
        async with serve(
            Harness(model, tools=[FakeTool("look")], channels=[channel], home=home, config=config)
        ):
            await channel.until_shown()

        assert model.requests[0].request.tool_choice == ("auto" if behind else "required")


async def test_a_turn_that_is_taken_up_behind_an_answer_without_the_required_call_still_requires_it(tmp_path):
    await leave_a_turn(tmp_path, "go")
    harness = Harness(FakeProvider(), channels=[FakeChannel()], home=tmp_path)
    session = await harness.app.runtime.sessions.open("agent:default:fake:direct:user-1", "default")
    call = calls(UNREADABLE_CALL, written="", why="no tool was called, and one was asked for")
    session.append(call)
    session.append(ToolResultMessage(call.tool_calls[0].id, UNREADABLE_CALL, (Text("again"),), is_error=True))
    session.release()
    await harness.close()
    model, channel = FakeProvider(calls("look"), says("done")), FakeChannel()
    config = {"agents": {"defaults": {"toolChoice": "required"}}}
    async with serve(
        Harness(model, tools=[FakeTool("look")], channels=[channel], home=tmp_path, config=config)
    ):
        await channel.until_shown()

    assert [recorded.request.tool_choice for recorded in model.requests] == ["required", "auto"]


async def test_what_had_joined_a_turn_and_was_not_written_down_is_sent_to_the_model(tmp_path):
    await leave_a_turn(tmp_path, "the first", "and the second", recorded=1)

    channel, model = FakeChannel(), FakeProvider(says("both"))
    harness = Harness(model, channels=[channel], home=tmp_path)
    async with serve(harness):
        assert await channel.until_shown() == ["both"]

    assert "the first" in asked(model) and "and the second" in asked(model)


async def test_a_turn_that_was_begun_is_not_dropped_by_the_messages_that_wait_behind_it(tmp_path):
    await leave_a_turn(tmp_path, "the first", recorded=0)
    harness = Harness(FakeProvider(), channels=[FakeChannel()], home=tmp_path)
    for number in range(1, 8):
        harness.app.runtime.turn_log.accept(wrote(number, f"later {number}"))
    await harness.close()

    channel = FakeChannel()
    model = FakeProvider(says("to the first"), *[says(f"answer {number}") for number in range(8)])
    config = {"messages": {"queue": {"mode": "collect", "cap": 2, "debounce": 0}}}
    harness = Harness(model, channels=[channel], home=tmp_path, config=config)
    async with serve(harness):
        await channel.until_shown(2)
        journal = harness.app.runtime.turn_log
        assert journal.unfinished() == () and journal.waiting_events() == ()

    assert channel.shown[0] == "to the first"


async def test_a_whole_answer_is_sent_when_somebody_writes_while_it_is_being_finished(tmp_path):
    class Talking(FakeProvider):
        async def stream(self, request):
            self.requests.append(request)
            if len(self.requests) == 1:
                yield TextDelta("the whole ")
                channel.says("and one thing more")
                await asyncio.sleep(0.1)
                yield Finished(says("the whole answer"))
            else:
                yield Finished(says("the other thing"))

    channel, model = FakeChannel(), Talking()
    harness = Harness(model, channels=[channel], home=tmp_path)
    async with serve(harness):
        channel.says("tell me")
        assert await channel.until_shown(2) == ["the whole answer", "the other thing"]


async def test_a_first_post_that_was_not_noted_is_found_again_and_becomes_the_answer(tmp_path):
    await leave_a_turn(tmp_path, "tell me", recorded=0)
    channel, model = Editing(), FakeProvider(says("the whole answer"))
    await leave_partial_reply(channel)
    harness = Harness(model, channels=[channel], home=tmp_path)
    harness.app.runtime.turn_log.record_streamed("turn-1", ())
    async with serve(harness):
        async with asyncio.timeout(20):
            while channel.shown != ["the whole answer"]:
                await asyncio.sleep(0.02)


async def test_an_answer_whose_first_words_were_not_noted_is_found_again_and_finished_in_its_place(tmp_path):
    await leave_a_turn(tmp_path, "tell me", recorded=0)
    channel = Editing()
    await leave_partial_reply(channel)
    harness = Harness(FakeProvider(), channels=[channel], home=tmp_path)
    journal = harness.app.runtime.turn_log
    journal.record_streamed("turn-1", ())
    whole = Outbound("turn-1", channel.address(), "the whole answer", answers="m0")
    journal.ended("turn-1", "delivered", [whole, Outbound("turn-1:1", channel.address(), "and more")])
    assert await shown_after_delivery(harness, channel) == ["the whole answer", "and more"]


class Parted(Editing):
    """The same, where each part of an answer (they are set apart by a bar) is a message of its own."""

    def split(self, text: str) -> tuple[str, ...]:
        return tuple(text.split("|"))


async def leave_two_messages(channel: Parted) -> tuple[str, ...]:
    """Show a part of an answer as a killed process did: one whole message and a part of the next."""
    writer = channel.stream(Outbound("turn-1", channel.address(), "", answers="m0"))
    await writer.show("the whole|and mo")
    await channel.until_shown(2)
    await writer.abandon()
    return tuple(writer.shown)


async def test_a_second_message_that_was_not_noted_is_found_again_by_the_turn_that_is_taken_up(tmp_path):
    await leave_a_turn(tmp_path, "tell me", recorded=0)
    channel = Parted()
    ids = await leave_two_messages(channel)
    harness = Harness(FakeProvider(says("the whole|and more")), channels=[channel], home=tmp_path)
    harness.app.runtime.turn_log.record_streamed("turn-1", ids[:1], expected=2)
    async with serve(harness):
        async with asyncio.timeout(20):
            while channel.shown != ["the whole", "and more"]:
                await asyncio.sleep(0.02)


async def test_a_second_message_that_was_not_noted_is_found_again_by_what_is_pending(tmp_path):
    await leave_a_turn(tmp_path, "tell me", recorded=0)
    channel = Parted()
    ids = await leave_two_messages(channel)
    harness = Harness(FakeProvider(), channels=[channel], home=tmp_path)
    journal = harness.app.runtime.turn_log
    journal.record_streamed("turn-1", ids[:1], expected=2)
    first = Outbound("turn-1", channel.address(), "the whole", replaces=ids[:1])
    rows = [
        first,
        Outbound("turn-1:1", channel.address(), "and more"),
        Outbound("turn-1:2", channel.address(), "!"),
    ]
    journal.ended("turn-1", "delivered", rows)
    assert await shown_after_delivery(harness, channel) == ["the whole", "and more", "!"]


async def test_before_a_second_message_is_posted_it_is_noted_that_one_may(tmp_path):
    class Silent(Parted):
        async def send(self, outbound: Outbound):
            if outbound.key.endswith(":1"):
                await asyncio.Event().wait()  # it is posted, and nobody hears of it
            return await super().send(outbound)

    class Slow(FakeProvider):
        async def stream(self, request):
            yield TextDelta("the whole|and mo")
            await asyncio.sleep(3600)
            yield Finished(says("the whole|and more"))

    channel = Silent()
    harness = Harness(Slow(), channels=[channel], home=tmp_path)
    journal = harness.app.runtime.turn_log
    async with serve(harness):
        channel.says("tell me")
        async with asyncio.timeout(20):
            await channel.until_shown(1)
            (cut,) = journal.unfinished()
            while journal.streamed(cut.turn) != (("shown-1",), 1):
                await asyncio.sleep(0.02)


async def test_a_death_between_finding_the_first_words_and_finishing_them_leaves_one_answer(tmp_path):
    await leave_a_turn(tmp_path, "tell me", recorded=0)
    channel = Editing()
    shown = await leave_partial_reply(channel)
    harness = Harness(FakeProvider(), channels=[channel], home=tmp_path)
    journal = harness.app.runtime.turn_log
    journal.record_streamed("turn-1", shown)
    journal.ended("turn-1", "delivered", [Outbound("turn-1", channel.address(), "the whole answer")])
    assert await shown_after_delivery(harness, channel) == ["the whole answer"]


async def test_half_an_answer_becomes_the_notice_when_a_turn_is_given_up(tmp_path):
    await leave_a_turn(tmp_path, "tell me", recorded=0)
    channel = Editing()
    await leave_partial_reply(channel)
    harness = Harness(FakeProvider(), channels=[channel], home=tmp_path)
    journal = harness.app.runtime.turn_log
    for _ in range(2):
        journal.count_end("os._exit")
        journal.began("turn-1", "agent:default:fake:direct:user-1", [1])
    journal.record_streamed("turn-1", ())
    async with serve(harness, last_end="os._exit"):
        async with asyncio.timeout(20):
            while not (channel.shown and "claw crashed 3 times" in channel.shown[-1]):
                await asyncio.sleep(0.02)
        assert len(channel.shown) == 1, "nothing is left beside it"


@pytest.mark.parametrize("deaths", [1, 2, 3])
async def test_a_turn_is_begun_three_times_at_most_and_then_its_sender_is_notified(tmp_path, deaths):
    await leave_a_turn(tmp_path, "tell me")
    harness = Harness(FakeProvider(), channels=[FakeChannel()], home=tmp_path)
    for _ in range(deaths - 1):
        harness.app.runtime.turn_log.count_end("os._exit")
        harness.app.runtime.turn_log.began("turn-1", "agent:default:fake:direct:user-1", [1], again=True)
    await harness.close()

    channel, model = FakeChannel(), FakeProvider(says("here you are"))
    harness = Harness(model, channels=[channel], home=tmp_path)
    async with serve(harness, last_end="os._exit"):
        [recorded] = await channel.until_shown()
    if deaths < 3:
        assert recorded == "here you are"
    else:
        assert "claw crashed 3 times" in recorded and model.requests == []
    database = Database(tmp_path / "state.db")
    journal = Journal(database)
    assert journal.unfinished() == ()
    assert journal.turns()[0]["outcome"] == ("delivered" if deaths < 3 else "failed")
    database.close()


async def test_a_turn_that_is_taken_up_stays_in_its_conversation_whatever_the_file_says_now(tmp_path):
    await leave_a_turn(tmp_path, "tell me")
    channel = FakeChannel()
    config = {"session": {"dmScope": "main"}, "channels": {"fake": {"allowFrom": ["user-1"]}}}
    harness = Harness(FakeProvider(says("here you are")), channels=[channel], home=tmp_path, config=config)
    async with serve(harness):
        assert await channel.until_shown() == ["here you are"]
    [transcript] = (tmp_path / "agents" / "default" / "sessions").glob("*.jsonl")
    assert "here you are" in transcript.read_text()


async def test_a_turn_of_somebody_who_may_no_longer_talk_is_not_taken_up(tmp_path):
    await leave_a_turn(tmp_path, "tell me")
    channel, model = FakeChannel(), FakeProvider()
    harness = Harness(
        model, channels=[channel], home=tmp_path, config={"channels": {"fake": {"allowFrom": ["u2"]}}}
    )
    journal = harness.app.runtime.turn_log
    async with serve(harness):
        async with asyncio.timeout(20):
            while journal.unfinished():
                await asyncio.sleep(0.01)
        [turn] = journal.turns()
    assert turn["outcome"] == "refused"
    assert (channel.shown, model.requests) == ([], [])
