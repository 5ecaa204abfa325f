"""The visible parts of a turn before its final text."""

import asyncio

import pytest
from claw.contracts.channel import WAITS_FOR_REPLY, ChannelLimits
from claw.contracts.errors import DeliveryError
from claw.contracts.events import Notice, Retrying, StepStarted, TextStreamed
from claw.contracts.messages import Address, Outbound
from claw.storage.database import Database
from claw.testing import FakeChannel
from claw_gateway import streaming
from claw_gateway.journal import Journal
from claw_gateway.streaming import RelayedStream, RelayOptions, recover_streamed


class Typing(FakeChannel):
    """A channel whose sign of life takes until it is let go."""

    def __init__(self):
        super().__init__()
        self.go = asyncio.Event()

    async def typing(self, address, message_id=""):
        await self.go.wait()


@pytest.mark.parametrize("ticks", range(6))
async def test_a_turn_that_ends_just_when_a_sign_of_life_was_shown_is_over(tmp_path, ticks):
    channel, log_lines = Typing(), []
    where = Outbound("t1", Address("fake", "c1"), "")
    live = RelayedStream(
        channel, where, "t1", Journal(Database(tmp_path / "state.db")), str, log_lines.append
    )
    await asyncio.sleep(0)
    channel.go.set()
    for _ in range(ticks):
        await asyncio.sleep(0)

    await asyncio.wait_for(live.close(finished=True), 20)
    assert log_lines == []


class Growing(FakeChannel):
    """A channel that writes down every state of an answer; the first post can be held up."""

    def __init__(self):
        super().__init__()
        self.stream_states, self.go = list[str](), asyncio.Event()
        self.go.set()

    def stream(self, outbound):
        return Writing(self)


class Writing:
    shown = ("m1",)

    def __init__(self, channel):
        self.channel = channel

    async def show(self, text):
        await self.channel.go.wait()
        self.channel.stream_states.append(text)

    async def abandon(self): ...


def growing(tmp_path, channel, visible=str):
    where = Outbound("t1", Address("fake", "c1"), "")
    return RelayedStream(channel, where, "t1", Journal(Database(tmp_path / "state.db")), visible, str)


async def until(holds):
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_what_comes_between_two_looks_is_shown_together_and_the_last_of_it_without_more_to_come(
    tmp_path,
):
    channel = Growing()
    live = growing(tmp_path, channel)
    for word in ["one", "two", "three", "four"]:
        await live.on_event(TextStreamed(word))
    await until(lambda: len(channel.stream_states) == 2)

    assert channel.stream_states == ["one", "onetwothreefour"]
    await live.close(finished=True)


async def test_a_long_answer_is_looked_at_by_the_clock_and_not_at_every_piece(tmp_path):
    looks, channel = [], Growing()
    live = growing(tmp_path, channel, lambda text: looks.append(text) or text)
    for _ in range(5000):
        await live.on_event(TextStreamed("word "))
    await live.close(finished=True)

    assert len(looks) < 50


async def test_a_slow_service_holds_up_nothing_and_its_first_post_is_waited_for_at_the_end(tmp_path):
    channel = Growing()
    channel.go.clear()
    live = growing(tmp_path, channel)
    await asyncio.wait_for(live.on_event(TextStreamed("one")), 20)
    await asyncio.wait_for(live.on_event(TextStreamed("two")), 20)

    ending = asyncio.ensure_future(live.close(finished=True))
    await asyncio.sleep(0.05)
    assert not ending.done()
    channel.go.set()
    await asyncio.wait_for(ending, 20)
    assert channel.stream_states == ["one"]


async def test_signs_of_life_end_with_the_turn_also_when_claw_does_not_wait_for_its_last_words(
    tmp_path,
):
    channel = Growing()
    channel.go.clear()
    live = growing(tmp_path, channel)
    await live.on_event(TextStreamed("one"))
    await until(lambda: channel.acts)

    ending = asyncio.ensure_future(live.close(finished=False))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.wait({ending})
    channel.go.set()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})


async def test_nothing_grows_before_what_is_older_has_arrived(tmp_path):
    channel, is_free = Growing(), asyncio.Event()
    where, journal = Outbound("t1", Address("fake", "c1"), ""), Journal(Database(tmp_path / "state.db"))
    live = RelayedStream(channel, where, "t1", journal, str, str, RelayOptions(is_free=is_free.is_set))
    await live.on_event(TextStreamed("one"))
    await asyncio.sleep(0.1)
    assert (channel.stream_states, live.writer) == ([], None)

    is_free.set()
    await live.on_event(TextStreamed(" two"))
    await until(lambda: channel.stream_states)
    assert channel.stream_states == ["one two"]
    await live.close(finished=True)


async def test_a_sign_of_life_is_shown_at_the_question_and_taken_back_when_the_turn_is_over(tmp_path):
    channel, there = FakeChannel(), Address("fake", "c1")
    where = Outbound("t1", there, "", answers="q1")
    live = RelayedStream(channel, where, "t1", Journal(Database(tmp_path / "state.db")), str, str)
    await asyncio.sleep(0.02)
    assert channel.acts == [("typing", (there, "q1"))]

    await live.close(finished=True)
    assert channel.acts[1:] == [("settled", (there, "q1"))]


async def test_what_is_answered_at_once_needs_no_sign_of_life(tmp_path):
    channel = FakeChannel(limits=ChannelLimits(quiet_seconds=5.0))
    where = Outbound("t1", Address("fake", "c1"), "", answers="q1")
    live = RelayedStream(channel, where, "t1", Journal(Database(tmp_path / "state.db")), str, str)
    await live.on_event(TextStreamed("one"))
    await live.close(finished=True)
    assert [act for act, _ in channel.acts] == ["settled"]


async def test_a_late_answer_that_is_complete_in_a_moment_is_not_shown_in_parts(tmp_path):
    channel = Growing()
    channel.limits = ChannelLimits(quiet_seconds=0.3)
    where = Outbound("t1", Address("fake", "c1"), "")
    live = RelayedStream(channel, where, "t1", Journal(Database(tmp_path / "state.db")), str, str)
    await asyncio.sleep(0.4)
    await live.on_event(TextStreamed("Twelve "))
    await live.on_event(TextStreamed("chars"))
    await asyncio.sleep(0.02)
    assert channel.stream_states == []
    await until(lambda: channel.stream_states)
    assert channel.stream_states == ["Twelve chars"], "it grows for longer than that"
    await live.close(finished=True)


class Losing(Growing):
    """A channel whose first post arrives and has no known id; its messages can be found again."""

    def __init__(self):
        super().__init__()
        self.capabilities -= {"idempotent"}

    def stream(self, outbound):
        return LosingWriter(self)

    async def find_sent(self, search):
        return ()


class LosingWriter(Writing):
    shown, lost = (), 0

    async def show(self, text):
        if not self.lost:
            self.lost = 1
            return
        self.shown = ("m2",)

    def messages(self, text):
        return 1


async def after_a_lost_post(tmp_path):
    """A stream whose first post was answered with a lost response, and its journal."""
    journal = Journal(Database(tmp_path / "state.db"))
    journal.began("t1", "agent:a:main", (1,))
    live = RelayedStream(Losing(), Outbound("t1", Address("fake", "c1"), ""), "t1", journal, str, str)
    await live.on_event(TextStreamed("one"))
    await until(lambda: live.writer and live.writer.lost)
    return journal, live


async def test_a_start_after_a_crash_knows_of_a_post_whose_response_was_lost_and_that_was_repeated(tmp_path):
    journal, live = await after_a_lost_post(tmp_path)
    await live.on_event(TextStreamed("two"))
    await until(lambda: live.writer.shown)
    await live.close(finished=True)

    shown, lost = journal.streamed("t1")
    assert (shown, lost) == (("m2",), 1), "the first post may be in the chat besides m2"


async def test_the_messages_that_a_finish_adds_do_not_hide_the_post_whose_response_was_lost(tmp_path):
    journal, live = await after_a_lost_post(tmp_path)
    await live.close(finished=True)
    for shown in (("m2",), ("m2", "m3"), ("m2", "m3", "m4")):
        live.writer.shown = shown
        live.record_messages()

    assert journal.streamed("t1") == (("m2", "m3", "m4"), 1)


class Repeating(FakeChannel):
    """A channel whose service knows a key that was posted before; its writer fails as it is told."""

    capabilities = frozenset({"idempotent"})

    def __init__(self, failure):
        super().__init__()
        self.failure, self.tries = failure, 0

    def stream(self, outbound):
        return FailingWriter(self)


class FailingWriter:
    shown = ()

    def __init__(self, channel):
        self.channel = channel

    async def show(self, text):
        self.channel.tries += 1
        raise self.channel.failure

    async def abandon(self): ...


@pytest.mark.parametrize("failure", [KeyError("cards"), DeliveryError("the card is locked")])
async def test_the_log_says_once_why_the_messages_of_a_cut_off_answer_cannot_be_found(
    tmp_path, monkeypatch, failure
):
    monkeypatch.setattr(streaming, "_FIND_SECONDS", 0.2)
    journal, log = Journal(Database(tmp_path / "state.db")), []
    journal.began("t1", "key", [1])
    journal.record_streamed("t1", (), expected=1)
    channel = Repeating(failure)
    await recover_streamed(channel, Outbound("t1", Address("fake", "c1"), ""), "t1", journal, log.append)

    [line] = log
    assert line.startswith("channel fake: the messages of an answer that was cut off cannot be found: ")
    assert str(failure) in line and "test_streaming.py:" in line
    assert channel.tries > 1 or isinstance(failure, KeyError)


# --- a model service that fails

NOTICE = "The model service does not answer yet. I keep trying; the answer follows here."
BUSY = Retrying("a/m", "rate_limit", 20.0)


def waiting(tmp_path, channel, sent=None, **options):
    where, journal = Outbound("t1", Address("fake", "c1"), ""), Journal(Database(tmp_path / "state.db"))
    given = RelayOptions(send=(sent if sent is not None else []).extend, notice_seconds=0.05, **options)
    return RelayedStream(channel, where, "t1", journal, str, str, given)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_failing_model_is_reported_once_in_the_message_that_becomes_the_answer(tmp_path, streams):
    channel = FakeChannel(streaming=True)
    live = waiting(tmp_path, channel, streams=streams)
    for _ in range(3):
        await live.on_event(BUSY)
        await asyncio.sleep(0.1)
    assert channel.stream_states == [NOTICE]

    await live.on_event(TextStreamed("fine"))
    await asyncio.sleep(0.1)
    await live.close(finished=True)
    assert channel.stream_states == [NOTICE, *["fine"] * streams]
    assert live.writer.shown == ("shown-1",)


@pytest.mark.parametrize("event", [Retrying("a/m", "server", 0.02), Notice("a/m is switched"), None])
async def test_a_short_pause_is_not_reported(tmp_path, event):
    channel = FakeChannel(streaming=True)
    live = waiting(tmp_path, channel)
    await live.on_event(event or BUSY)
    await live.on_event(TextStreamed("fine"))
    await asyncio.sleep(0.1)
    await live.close(finished=True)
    assert channel.stream_states == ["fine"]


@pytest.mark.parametrize("parked", [False, True])
async def test_a_turn_that_ends_without_a_text_leaves_no_notice_unless_another_process_resumes_it(
    tmp_path, parked
):
    channel = FakeChannel(streaming=True)
    live = waiting(tmp_path, channel)
    await live.on_event(BUSY)
    await until(lambda: channel.shown == [NOTICE])
    await live.close(finished=False, parked=parked)
    assert channel.shown == ([NOTICE] if parked else [])


async def test_words_that_the_notice_replaced_are_there_again_when_the_turn_is_stopped(tmp_path):
    channel = FakeChannel(streaming=True)
    live = waiting(tmp_path, channel)
    await live.on_event(TextStreamed("I look at the files"))
    await until(lambda: channel.shown == ["I look at the files"])
    await live.on_event(StepStarted(2))
    await live.on_event(BUSY)
    await until(lambda: channel.shown == [NOTICE])
    await live.close(finished=False)
    assert channel.shown == ["I look at the files"]


async def test_a_turn_that_resumes_in_the_messages_of_another_process_sends_no_second_notice(tmp_path):
    journal = Journal(Database(tmp_path / "state.db"))
    journal.began("t1", "key", [1])
    journal.record_streamed("t1", ("m1",), 1)
    channel, sent = FakeChannel(streaming=True), list[Outbound]()
    live = waiting(tmp_path, channel, sent)
    await live.on_event(BUSY)
    await asyncio.sleep(0.1)
    await live.close(finished=True)
    assert (channel.stream_states, sent) == ([], [])


async def test_a_notice_that_cannot_be_shown_now_is_shown_later(tmp_path):
    channel, free = FakeChannel(streaming=True), [True, False]
    live = waiting(tmp_path, channel, is_free=lambda: free.pop(0) if free else True)
    await live.on_event(BUSY)
    await until(lambda: channel.stream_states == [NOTICE])
    await live.close(finished=False)


class Drafting(Growing):
    """A channel that shows a growing answer as a draft, which is no message."""

    def stream(self, outbound):
        writer = Writing(self)
        writer.shown = ()
        return writer


async def test_a_draft_that_no_answer_follows_is_no_lost_message(tmp_path):
    def recorded():
        return Journal(Database(tmp_path / "state.db")).streamed("t1")

    Journal(Database(tmp_path / "state.db")).began("t1", "key", [1])
    channel = Drafting()
    live = growing(tmp_path, channel)
    await live.on_event(TextStreamed("I look at the files"))
    await until(lambda: channel.stream_states)
    assert recorded() == ((), 1)
    await live.close(finished=False)
    assert recorded() == ((), 0)


async def test_where_no_message_can_be_edited_the_notice_is_one_of_its_own(tmp_path):
    sent: list[Outbound] = []
    live = waiting(tmp_path, FakeChannel(), sent)
    for _ in range(2):
        await live.on_event(BUSY)
        await asyncio.sleep(0.1)
    await live.close(finished=True)
    assert [(one.key, one.text) for one in sent] == [("t1:wait", NOTICE)]


@pytest.mark.parametrize("before", [True, False])
async def test_of_an_answer_in_blocks_the_notice_does_not_stand_above_earlier_ones(tmp_path, before):
    sent: list[Outbound] = []
    channel = FakeChannel(streaming=True)
    live = waiting(tmp_path, channel, sent, in_blocks=True)
    if before:
        await live.on_event(TextStreamed("first " * 500))
        await live.on_event(StepStarted(2))
    await live.on_event(BUSY)
    await asyncio.sleep(0.1)
    await live.close(finished=True)

    assert channel.stream_states == ([] if before else [NOTICE])
    assert [one.text for one in sent][-1:] == ([NOTICE] if before else [])


async def test_a_service_for_waiting_requests_is_sent_no_notice(tmp_path):
    channel, sent = FakeChannel(streaming=True), list[Outbound]()
    channel.capabilities = channel.capabilities | {WAITS_FOR_REPLY}
    live = waiting(tmp_path, channel, sent)
    await live.on_event(BUSY)
    await asyncio.sleep(0.1)
    await live.close(finished=False)
    assert (channel.stream_states, sent) == ([], [])


class Finding(Writing):
    """A writer that knows which of its messages are in the chat."""

    there, problem = (), None

    async def again(self, count, known=()):
        self.shown = self.there[:count]
        if len(self.shown) < count:
            raise self.problem


@pytest.mark.parametrize(
    ("there", "problem", "found"),
    [
        (("m1", "m2", "m3"), None, (("m1", "m2", "m3"), 0)),
        (("m1", "m2"), LookupError("no other"), (("m1", "m2"), 1)),
        ((), LookupError("no other"), (("m1",), 2)),
        (("m1", "m2"), KeyError("a bug"), (("m1",), 2)),
    ],
)
async def test_a_writer_that_knows_that_no_other_was_posted_ends_the_search_and_its_keys_stay_used(
    tmp_path, there, problem, found
):
    journal = Journal(Database(tmp_path / "state.db"))
    journal.began("t1", "agent:a:main", (1,))
    journal.record_streamed("t1", ("m1",), 3)

    class Channel(Growing):
        def stream(self, outbound):
            writer = Finding(self)
            writer.there, writer.problem = there, problem
            return writer

    log_lines = []
    outbound = Outbound("t1", Address("fake", "c1"), "")
    await recover_streamed(Channel(), outbound, "t1", journal, log_lines.append)
    assert journal.streamed("t1") == found
    assert len(log_lines) == isinstance(problem, KeyError)


@pytest.mark.parametrize("asked", [None, 30.0])
async def test_a_search_that_gets_no_response_in_time_says_so_and_respects_a_pause_that_is_asked_for(
    tmp_path, asked
):
    journal = Journal(Database(tmp_path / "state.db"))
    journal.began("t1", "agent:a:main", (1,))
    journal.record_streamed("t1", (), 1)
    calls = []

    class Away(Finding):
        shown = ()

        async def again(self, count, known=()):
            calls.append(count)
            if asked is None:
                await asyncio.Event().wait()
            raise DeliveryError("too many requests", retry_after_seconds=asked)

    class Channel(Growing):
        def stream(self, outbound):
            return Away(self)

    log_lines = []
    outbound = Outbound("t1", Address("fake", "c1"), "")
    assert not await recover_streamed(Channel(), outbound, "t1", journal, log_lines.append, 0.3)
    assert len(calls) == len(log_lines) == 1
