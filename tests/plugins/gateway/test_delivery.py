"""Delivery: each message once, in order within a chat, nothing lost when the service fails or the process dies."""

import asyncio
import itertools
from dataclasses import replace

import pytest
from claw.contracts.channel import ChannelLimits
from claw.contracts.errors import DeliveryError
from claw.contracts.messages import Address, Outbound, Receipt
from claw.host.isolation import Timeouts
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw_channel_sdk import EditStream
from claw_gateway.delivery import MAX_AGE_SECONDS, TRIES, OutboxDelivery
from claw_gateway.journal import Journal
from claw_gateway.outbox_items import LATE_SECONDS

CHAT = Address("fake", "chat-1")
MORE_THAN_TRIES = [DeliveryError("slow down", retry_after_seconds=0.01)] * (2 * TRIES)
QUICK = Timeouts(send_seconds=2.0, grace_seconds=0.1)


class Service:
    """A channel with a given outcome for each send.

    :param remembers: seconds for which the service drops a second send; None = it shows every one.
    """

    name = "fake"

    def __init__(self, *fates, capabilities=frozenset(), remembers=None):
        self.capabilities, self.limits = capabilities, ChannelLimits()
        if remembers is not None:
            self.capabilities, self.limits = (
                frozenset({"idempotent"}),
                ChannelLimits(repeat_seconds=remembers),
            )
        self.fates, self.shown, self.tried = list(fates), [], []

    async def send(self, outbound):
        self.tried.append(outbound)
        fate = self.fates.pop(0) if self.fates else None
        if isinstance(fate, Exception):
            raise fate
        self.shown.append(outbound.text)
        return Receipt((f"m{len(self.shown)}",))


@pytest.fixture
def harness(tmp_path):
    database = Database(tmp_path / "state.db")
    log_lines = []

    class Made:
        journal = Journal(database)
        logged = log_lines

        def delivery(self, channel, clock=None):
            more = {"clock": clock} if clock else {}
            return OutboxDelivery(self.journal, lambda address: channel, log_lines.append, QUICK, **more)

        def add_replies(self, *texts, chat=CHAT):
            rows = tuple(Outbound(f"t{chat.chat}:{at}", chat, text) for at, text in enumerate(texts))
            self.journal.began("t", "agent:a:main")
            self.journal.ended("t", "delivered", rows)
            return rows

        def states(self):
            return dict(database.read("SELECT key, state FROM owed"))

        def repeated(self):
            return [key for (key,) in database.read("SELECT key FROM owed WHERE repeated")]

    yield Made()
    database.close()


async def test_what_is_pending_goes_out_in_order_and_is_noted_as_sent(harness):
    service = Service()
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("one", "two", "three"))
    await delivery.stop(2)

    assert service.shown == ["one", "two", "three"]
    assert set(harness.states().values()) == {"paid"}


async def test_a_passing_failure_is_tried_again_and_a_permanent_one_is_not(harness):
    service = Service(DeliveryError("away"), None, DeliveryError("never", permanent=True))
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("one", "two", "three"))
    await delivery.stop(5)

    assert service.shown == ["one", "three"]
    assert harness.states() == {"tchat-1:0": "paid", "tchat-1:1": "refused", "tchat-1:2": "paid"}
    assert harness.logged == ["channel fake: a reply was not sent: never"]


@pytest.mark.parametrize("asked", [0.02, 0.8], ids=["shorter than our own pause", "longer"])
async def test_the_pause_that_a_service_asks_for_is_kept(harness, asked):
    fates = [DeliveryError("slow down", retry_after_seconds=asked), None] * 3
    service, times = Service(*fates), []
    send = service.send

    async def timed(outbound):
        times.append(asyncio.get_running_loop().time())
        return await send(outbound)

    service.send = timed
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("one", "two", "three"))
    await delivery.stop(20)

    assert service.shown == ["one", "two", "three"]
    pauses = [again - first for first, again in zip(times[::2], times[1::2], strict=True)]
    assert asked <= min(pauses) < asked + 0.3, "a busy machine may be late for one of them"


@pytest.mark.parametrize("fates", [MORE_THAN_TRIES, [*MORE_THAN_TRIES, DeliveryError("away"), None]])
async def test_a_pause_that_a_service_asks_for_is_no_try(harness, fates):
    service = Service(*fates)
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("one"))
    await delivery.stop(20)

    assert service.shown == ["one"] and harness.logged == []


async def test_a_pause_that_a_service_asks_for_is_no_try_of_a_growing_answer(harness):
    rows = harness.add_replies("all of it")
    writer = Growing(*MORE_THAN_TRIES, shown=("m1",))
    delivery = harness.delivery(Service())
    delivery.finish_reply(writer, Outbound("t", CHAT, "all of it"), rows)
    await delivery.stop(20)

    assert writer.finished == ["all of it"]
    assert harness.states() == {rows[0].key: "paid"} and harness.logged == []


async def test_what_waits_for_the_limits_of_the_service_is_not_in_doubt_after_a_death(harness):
    """A message is recorded as being sent only when it may go out."""
    held = Service()
    held.wait_for_rate_limit = lambda address: asyncio.sleep(60)
    before = harness.delivery(held)
    before.enqueue(harness.add_replies("one"))
    await asyncio.sleep(0.05)
    service = Service()
    after = harness.delivery(service)  # while the process before it still waits: it is dead for the ledger
    after.recover()
    await after.stop(2)
    await before.stop(0)

    assert service.shown == ["one"] and held.tried == []


async def test_a_reply_that_its_service_refuses_for_long_is_logged_once_with_the_cause(harness):
    jump = itertools.count(step=LATE_SECONDS / 3)
    fates = [DeliveryError("slow down", retry_after_seconds=0.01)] * 6
    delivery = harness.delivery(Service(*fates), Clock(monotonic=lambda: next(jump)))
    delivery.enqueue(harness.add_replies("late"))
    await delivery.stop(2)

    [line] = harness.logged
    assert line.startswith("channel fake: a reply is still not sent") and line.endswith("slow down")
    assert set(harness.states().values()) == {"paid"}


async def test_all_threads_of_a_chat_go_out_one_after_another_and_the_chat_is_busy_meanwhile(harness):
    service, thread = Service(), Address("fake", "chat-1", thread="t1")
    begun, go, send = asyncio.Event(), asyncio.Event(), service.send

    async def slow(outbound):
        begun.set()
        await go.wait()
        return await send(outbound)

    service.send = slow
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("one"))
    harness.journal.add_reply("t", there := Outbound("there", thread, "in the thread"))
    delivery.enqueue([there])
    await begun.wait()
    assert service.tried == []
    assert delivery.busy(CHAT) and delivery.busy(thread) and not delivery.busy(Address("fake", "chat-2"))
    go.set()
    await delivery.stop(3)
    assert service.shown == ["one", "in the thread"]
    assert not delivery.busy(CHAT) and not delivery.busy(thread)


async def test_a_chat_that_must_wait_holds_no_other_chat_up(harness):
    service = Service(DeliveryError("slow down", retry_after_seconds=0.3))
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("held"))
    await asyncio.sleep(0)
    delivery.enqueue(harness.add_replies("other", chat=Address("fake", "chat-2")))
    await delivery.stop(3)

    assert service.shown == ["other", "held"]


LOST = DeliveryError("the line broke", outcome_unknown=True)


async def test_a_send_whose_fate_is_unknown_is_not_repeated_and_the_chat_and_the_owner_are_notified(harness):
    service = Service(LOST)
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("hello"))
    await delivery.stop(3)

    assert [one.text for one in service.tried][:1] == ["hello"]
    assert len(service.shown) == 1 and "if my last message arrived" in service.shown[0]
    assert harness.states() == {"tchat-1:0": "unknown", "t:doubt": "paid"}
    assert harness.repeated() == []
    assert "it is unknown if a reply arrived" in harness.logged[-1]
    [turn] = harness.journal.turns(open_only=True)
    assert turn["undelivered"].startswith("unknown: it is unknown if it arrived")


async def test_a_channel_with_a_bug_is_not_asked_for_one_message_more_and_the_owner_is_notified(harness):
    service = Service(RuntimeError("bug"))
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("hello"))
    await delivery.stop(3)

    assert [one.text for one in service.tried] == ["hello"]
    assert harness.states() == {"tchat-1:0": "unknown"}
    assert "it is unknown if a reply arrived" in harness.logged[-1]


async def test_many_lost_responses_leave_one_of_each_message_and_one_notice_for_a_turn(harness):
    service = Service(LOST, LOST, LOST)
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("one", "two", "three"))
    await delivery.stop(3)

    assert [one.key for one in service.tried] == ["tchat-1:0", "tchat-1:1", "tchat-1:2", "t:doubt"]
    assert sorted(harness.states().values()) == ["paid"] + ["unknown"] * 3


async def test_a_notice_whose_fate_is_unknown_is_repeated_until_it_is_delivered(harness):
    service = Service(LOST, LOST, LOST)
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("hello"))
    await delivery.stop(5)

    assert [one.key for one in service.tried] == ["tchat-1:0", *["t:doubt"] * 3]
    assert harness.states() == {"tchat-1:0": "unknown", "t:doubt": "paid"}


@pytest.mark.parametrize("reason", ["error", "overflow", "budget"])
async def test_a_notice_that_a_death_left_in_doubt_is_said_again(harness, reason):
    row = Outbound("t", CHAT, "I could not answer", stop_reason=reason)
    harness.journal.began("t", "agent:a:main")
    harness.journal.ended("t", "failed", (row,))
    harness.journal.mark_sending("t")
    service = Service(LOST)
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(4)

    assert service.shown == ["I could not answer"] and harness.states() == {"t": "paid"}


async def test_a_notice_waits_for_a_service_that_is_away_for_longer_than_an_answer_would(harness):
    service = Service(*[DeliveryError("away", retry_after_seconds=0.01)] * (TRIES + 2))
    row = Outbound("t", CHAT, "I could not answer", stop_reason="error")
    harness.journal.began("t", "agent:a:main")
    harness.journal.ended("t", "failed", (row,))
    delivery = harness.delivery(service)
    delivery.enqueue([row])
    await delivery.stop(5)

    assert harness.states() == {"t": "paid"}


async def test_a_tool_learns_that_the_fate_of_what_it_says_is_unknown_and_the_chat_does_not(harness):
    service = Service(LOST)
    delivery = harness.delivery(service)
    with pytest.raises(DeliveryError, match="the line broke"):
        await delivery.send_and_wait("t", Outbound("t:call-1", CHAT, "hi"))

    assert [one.key for one in service.tried] == ["t:call-1"]
    assert harness.states() == {"t:call-1": "unknown"}


async def test_where_the_service_drops_repeats_nothing_is_marked(harness):
    service = Service(
        DeliveryError("the line broke", outcome_unknown=True), capabilities=frozenset({"idempotent"})
    )
    delivery = harness.delivery(service)
    delivery.enqueue(harness.add_replies("hello"))
    await delivery.stop(3)

    assert [one.key for one in service.tried] == ["tchat-1:0", "tchat-1:0"]
    assert harness.repeated() == []


async def test_a_start_sends_what_a_death_left(harness):
    harness.add_replies("hello")
    service = Service()
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(2)

    assert service.shown == ["hello"]
    assert harness.repeated() == []


@pytest.mark.parametrize("age_seconds", [1, 90, 500])
async def test_what_a_death_left_in_doubt_is_not_sent_again_however_young(harness, age_seconds):
    [row] = harness.add_replies("hello")
    harness.journal.mark_sending(row.key)
    now = Clock().now() + age_seconds
    service = Service()
    delivery = harness.delivery(service, Clock(now=lambda: now))
    delivery.recover()
    await delivery.stop(2)

    assert [one.key for one in service.tried] == ["t:doubt"]
    assert harness.states() == {row.key: "unknown", "t:doubt": "paid"}


async def test_what_is_in_doubt_beside_lost_first_words_of_its_own_is_marked(harness):
    [row] = harness.add_replies("hello")
    harness.journal.began("t", "agent:a:main", (1,))
    harness.journal.record_streamed("t", ())
    harness.journal.mark_sending(row.key)
    delivery = harness.delivery(Service())
    delivery.recover()
    await delivery.stop(2)

    assert harness.states()[row.key] == "unknown" and harness.repeated() == [row.key]


async def test_what_a_death_left_in_doubt_is_sent_again_where_the_service_drops_repeats(harness):
    [row] = harness.add_replies("hello")
    harness.journal.mark_sending(row.key)
    service = Service(capabilities=frozenset({"idempotent"}))
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(2)

    assert [one.key for one in service.tried] == [row.key]
    assert harness.states() == {row.key: "paid"} and harness.repeated() == []


AN_HOUR = 3600.0


def later(seconds):
    """A clock that is ahead."""
    now = Clock().now() + seconds
    return Clock(now=lambda: now)


@pytest.mark.parametrize(("age_seconds", "state"), [(AN_HOUR - 60, "paid"), (AN_HOUR + 60, "unknown")])
async def test_what_was_handed_over_before_a_death_is_sent_again_while_the_service_knows_its_key(
    harness, age_seconds, state
):
    before = harness.delivery(
        Service(DeliveryError("the line broke", outcome_unknown=True), remembers=AN_HOUR)
    )
    [row] = harness.add_replies("hello")
    before.enqueue([row])
    await before.stop(0.25)
    service = Service(remembers=AN_HOUR)
    delivery = harness.delivery(service, later(age_seconds))
    delivery.recover()
    await delivery.stop(2)

    assert harness.states()[row.key] == state and harness.repeated() == []
    assert [one.key for one in service.tried] == [row.key if state == "paid" else "t:doubt"]


async def test_what_was_never_handed_over_is_sent_also_when_the_service_knows_no_key_of_that_age(harness):
    held = Service(DeliveryError("slow down", retry_after_seconds=60), remembers=AN_HOUR)
    before = harness.delivery(held)
    before.enqueue(harness.add_replies("one", "two"))
    await before.stop(0.5)
    service = Service(remembers=AN_HOUR)
    delivery = harness.delivery(service, later(2 * AN_HOUR))
    delivery.recover()
    await delivery.stop(2)

    assert service.shown == ["one", "two"] and harness.repeated() == []


async def test_a_first_message_that_nothing_is_known_of_is_in_doubt_when_its_key_is_forgotten(harness):
    harness.journal.began("t", "agent:a:main", (1,))
    harness.journal.ended("t", "delivered", (Outbound("t", CHAT, "hello"),))
    harness.journal.mark_sending("t")
    service = Service(remembers=AN_HOUR)
    delivery = harness.delivery(service, later(2 * AN_HOUR))
    delivery.recover()
    await delivery.stop(2)

    assert harness.states() == {"t": "unknown", "t:doubt": "paid"}


async def test_an_answer_whose_messages_are_known_is_finished_in_them_at_any_age(harness):
    row = Outbound("t", CHAT, "the whole answer")
    harness.journal.began("t", "agent:a:main", (1,))
    harness.journal.record_streamed("t", ("m7",))
    harness.journal.ended("t", "delivered", (row,))
    harness.journal.mark_sending("t")
    service = Service(remembers=AN_HOUR)
    delivery = harness.delivery(service, later(2 * AN_HOUR))
    delivery.recover()
    await delivery.stop(2)

    assert [one.replaces for one in service.tried] == [("m7",)] and harness.repeated() == []


async def test_an_answer_beside_lost_first_words_that_are_too_old_to_be_looked_for_is_marked(harness):
    harness.journal.began("t", "agent:a:main", (1,))
    harness.journal.record_streamed("t", ())
    harness.journal.ended("t", "delivered", (Outbound("t", CHAT, "the whole answer"),))
    await asyncio.sleep(0.005)
    service = Service(remembers=0.001)
    service.stream = lambda outbound: pytest.fail("it would post again")
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(2)

    assert service.shown == ["the whole answer"] and harness.repeated() == ["t"]


async def test_what_a_growing_answer_posted_before_a_pause_is_known_to_a_start_in_it(harness):
    first, second = Outbound("t", CHAT, "first"), Outbound("t:1", CHAT, "second")
    harness.journal.began("t", "agent:a:main", (1,))
    harness.journal.record_streamed("t", ("m1",))
    harness.journal.ended("t", "delivered", (first, second))
    writer = Growing(DeliveryError("slow down", retry_after_seconds=60), shown=("m1", "m2"))
    before = harness.delivery(Service(remembers=AN_HOUR))
    before.finish_reply(writer, Outbound("t", CHAT, "first second"), (first, second))
    await before.stop(0.5)
    service = Service(remembers=AN_HOUR)
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(2)

    assert [(one.text, one.replaces) for one in service.tried] == [("first", ("m1",)), ("second", ("m2",))]


class Keyed(Service):
    """A service that has one message for each key: a second post changes its text."""

    def __init__(self, **texts):
        super().__init__(remembers=AN_HOUR)
        self.texts = {key.replace("_", ":"): text for key, text in texts.items()}

    async def send(self, outbound):
        key = outbound.replaces[0] if outbound.replaces else outbound.key
        self.texts[key] = outbound.text
        return Receipt((key,))

    def stream(self, outbound):
        async def post(piece):
            return (await self.send(piece)).message_ids[0]

        async def edit(id, text, last):
            self.texts[id] = text

        return EditStream(outbound, pieces=lambda text: (text,), post=post, edit=edit)


async def test_a_part_that_was_delivered_keeps_its_text_while_the_others_are_looked_for(harness):
    rows = [Outbound(key, CHAT, text) for key, text in (("t", "one"), ("t:1", "two"), ("t:2", "three"))]
    service = Keyed(t="one", t_1="tw")
    harness.journal.began("t", "agent:a:main", (1,))
    harness.journal.record_streamed("t", (), 3)
    harness.journal.ended("t", "delivered", rows)
    harness.journal.mark_delivered("t", ("t",))
    for row in rows[1:]:
        harness.journal.mark_sending(row.key)
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(5)

    assert service.texts == {"t": "one", "t:1": "two", "t:2": "three"}


class OnCards(Keyed):
    """A service that streams on cards, which have other keys than messages, and that is away for some searches."""

    def __init__(self, *, away, **cards):
        super().__init__(**cards)
        self.away = away

    def stream(self, outbound):
        return CardWriter(self)


class CardWriter:
    """A writer that finds the cards of its answer."""

    shown = ()

    def __init__(self, service):
        self.service = service

    async def again(self, count, known=()):
        if self.service.away:
            self.service.away -= 1
            raise DeliveryError("the service is away", retry_after_seconds=60)
        if "card" not in self.service.texts:
            raise LookupError("no other was posted")
        self.shown = ("card",)

    async def abandon(self):
        pass


@pytest.mark.parametrize("away", [0, 1, 2])
@pytest.mark.parametrize("is_there", [True, False])
async def test_a_card_that_the_start_could_not_look_for_becomes_the_answer(harness, away, is_there):
    service = OnCards(away=away, **({"card": "the wh"} if is_there else {}))
    harness.journal.began("t", "agent:a:main", (1,))
    harness.journal.record_streamed("t", (), 1)
    row = Outbound("t", CHAT, "the whole answer")
    harness.journal.ended("t", "delivered", [row])
    delivery = harness.delivery(service)
    delivery.find_seconds = 0.01
    delivery.enqueue([row])
    await delivery.stop(5)

    assert service.texts == {"card" if is_there else "t": "the whole answer"}


async def test_an_answer_does_not_wait_for_ever_for_a_card_that_cannot_be_looked_for(harness):
    service = OnCards(away=99, card="the wh")
    harness.journal.began("t", "agent:a:main", (1,))
    harness.journal.record_streamed("t", (), 1)
    row = Outbound("t", CHAT, "the whole answer")
    harness.journal.ended("t", "delivered", [row])
    delivery = harness.delivery(service)
    delivery.find_seconds = 0.01
    delivery.enqueue([row])
    await delivery.stop(8)

    assert service.texts == {"card": "the wh", "t": "the whole answer"}


async def test_a_growing_answer_is_noted_as_handed_over_where_keys_are_forgotten(harness):
    rows = harness.add_replies("all of it")
    lost = Growing(DeliveryError("the line broke", outcome_unknown=True), shown=())
    before = harness.delivery(Service(remembers=AN_HOUR))
    before.finish_reply(lost, Outbound("t", CHAT, "all of it"), rows)
    await before.stop(0.25)
    delivery = harness.delivery(Service(remembers=AN_HOUR), later(2 * AN_HOUR))
    delivery.recover()
    await delivery.stop(2)

    assert harness.states() == {rows[0].key: "unknown", "t:doubt": "paid"}


async def test_each_send_of_what_may_be_visible_already_is_one_mark_more(harness):
    [row] = harness.add_replies("hello")
    for _ in range(2):
        harness.journal.mark_sending(row.key, repeated=True)

    [turn] = harness.journal.turns()
    assert turn["possiblyRepeated"] == 2


async def test_a_start_does_not_send_week_old_answers(harness):
    harness.add_replies("hello")
    now = Clock().now() + MAX_AGE_SECONDS + 60
    service = Service()
    delivery = harness.delivery(service, Clock(now=lambda: now))
    delivery.recover()
    await delivery.stop(1)

    assert service.shown == []
    assert harness.states() == {"tchat-1:0": "expired"}
    assert "more than a day" in harness.logged[0]


async def test_what_a_stream_left_is_edited_and_needs_no_mark(harness):
    row = replace(harness.add_replies()[0:0] or Outbound("t:0", CHAT, "whole"), replaces=("m7",))
    harness.journal.ended("t", "delivered", (row,))
    harness.journal.mark_sending("t:0")
    service = Service()
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(2)

    assert [one.replaces for one in service.tried] == [("m7",)]
    assert harness.repeated() == []


async def test_a_tool_that_says_something_learns_what_became_of_it(harness):
    delivery = harness.delivery(Service(None, DeliveryError("no such chat", permanent=True)))

    assert await delivery.send_and_wait("t", Outbound("t:call-1", CHAT, "hi")) == Receipt(("m1",))
    with pytest.raises(DeliveryError, match="no such chat"):
        await delivery.send_and_wait("t", Outbound("t:call-2", CHAT, "hi"))


async def test_the_same_key_is_said_once(harness):
    service = Service()
    delivery = harness.delivery(service)
    for _ in range(2):
        await delivery.send_and_wait("t", Outbound("t:call-1", CHAT, "hi"))

    assert service.shown == ["hi"]


class Growing:
    """A writer that fails as configured."""

    def __init__(self, *fates, shown=("m1",)):
        self.fates, self.finished, self.shown = list(fates), [], shown

    async def finish(self, outbound):
        fate = self.fates.pop(0) if self.fates else None
        if isinstance(fate, Exception):
            raise fate
        self.finished.append(outbound.text)
        return fate or Receipt(("m1", "m2"))


async def test_a_reply_that_grew_becomes_its_final_text_through_its_writer(harness):
    rows, writer, service = harness.add_replies("first", "second"), Growing(DeliveryError("busy")), Service()
    delivery = harness.delivery(service)
    delivery.finish_reply(writer, Outbound("t", CHAT, "first second"), rows)
    await delivery.stop(3)

    assert writer.finished == ["first second"]
    assert service.shown == []
    assert set(harness.states().values()) == {"paid"}


@pytest.mark.parametrize("fate", [DeliveryError("never", permanent=True), LOST, RuntimeError("bug")])
async def test_a_writer_that_cannot_end_leaves_its_messages_to_plain_sends_and_what_is_in_doubt_to_none(
    harness, fate
):
    rows, service = harness.add_replies("first", "second", "third"), Service()
    delivery = harness.delivery(service)
    delivery.finish_reply(Growing(fate), Outbound("t", CHAT, "first second third"), rows)
    await delivery.stop(3)

    sent = {one.text: one.replaces for one in service.tried}
    assert (sent["first"], sent["third"]) == (("m1",), ())
    unsure = getattr(fate, "outcome_unknown", True)
    assert ("second" in sent) is not unsure
    assert harness.states()[rows[1].key] == ("unknown" if unsure else "paid")


async def test_an_answer_of_many_messages_has_the_time_of_one_send_for_each(harness):
    class Long(Growing):
        shown = ()

        def messages(self, text):
            return 3

        async def finish(self, outbound):
            await asyncio.sleep(1.5 * QUICK.send_seconds)
            return Receipt(("m1", "m2", "m3"))

    service = Service(remembers=AN_HOUR)
    rows, delivery = harness.add_replies("first", "second", "third"), harness.delivery(service)
    delivery.finish_reply(Long(shown=()), Outbound("t", CHAT, "first second third"), rows)
    await delivery.stop(8)

    assert service.tried == [] and set(harness.states().values()) == {"paid"}


async def test_a_reply_whose_channel_was_recreated_meanwhile_ends_by_the_new_one_at_once(harness):
    rows, new = harness.add_replies("first", "second"), Service(remembers=60.0)
    before = Growing(
        *[DeliveryError("not connected")] * 8
    )  # its tries would take two minutes, and its chat waits
    delivery = harness.delivery(new)
    delivery.finish_reply(before, Outbound("t", CHAT, "first second"), rows, Service())
    await delivery.stop(3)

    assert [(one.text, one.replaces) for one in new.tried] == [("first", ("m1",)), ("second", ())]
    assert set(harness.states().values()) == {"paid"} and len(before.fates) == 7


async def test_a_reply_whose_channel_was_recreated_is_still_ended_by_the_old_one_when_that_can(harness):
    rows, new, before = harness.add_replies("first"), Service(), Growing()
    delivery = harness.delivery(new)
    delivery.finish_reply(before, Outbound("t", CHAT, "first"), rows, Service())
    await delivery.stop(3)

    assert before.finished == ["first"] and new.tried == []


async def test_a_reply_of_which_nothing_is_visible_and_that_is_refused_for_good_is_not_sent_again(harness):
    rows, service = harness.add_replies("first", "second"), Service()
    delivery = harness.delivery(service)
    gone = DeliveryError("blocked", permanent=True)
    delivery.finish_reply(Growing(gone, shown=()), Outbound("t", CHAT, "first second"), rows)
    await delivery.stop(3)

    assert service.tried == []
    assert set(harness.states().values()) == {"refused"}
    assert any("blocked" in line for line in harness.logged)


async def test_a_reply_that_may_appear_twice_is_marked_where_the_service_shows_repeats(harness):
    rows = harness.add_replies("all of it")
    delivery = harness.delivery(Service())
    fate = Receipt(("m1",), repeated=True)
    delivery.finish_reply(Growing(fate, shown=()), Outbound("t", CHAT, "all of it"), rows)
    await delivery.stop(3)

    assert set(harness.states().values()) == {"paid"}
    assert harness.repeated() == [rows[0].key]


async def test_what_is_on_its_way_when_claw_stops_stays_pending(harness):
    rows = harness.add_replies("one", "two")
    delivery = harness.delivery(Service(DeliveryError("away", retry_after_seconds=60)))
    delivery.enqueue(rows)
    await delivery.stop(0.5)

    assert [one.outbound.text for one in harness.journal.pending_replies()] == ["one", "two"]
