"""Messages whose ids a crash or a lost response hid, on a service that finds messages of ours: each is there once."""

import asyncio
from dataclasses import replace

import pytest
from claw.contracts.channel import ChannelLimits
from claw.contracts.errors import DeliveryError
from claw.contracts.messages import Address, Attachment, Inbound, Outbound, Receipt, Sender
from claw.host.isolation import Timeouts
from claw.storage.database import Database
from claw_gateway.delivery import OutboxDelivery
from claw_gateway.journal import Journal

CHAT = Address("fake", "chat-1")
QUICK = Timeouts(send_seconds=2.0, grace_seconds=0.1)
LOST_BEFORE, LOST_AFTER = "the request is lost", "the response is lost"


class Finding:
    """A service that shows every send, and whose messages can be found by their ids; ids are numbers that grow.

    :ivar fates: of the next sends; None or missing = it goes well.
    :ivar searches: failures of the next searches.
    """

    name, capabilities, limits = "fake", frozenset(), ChannelLimits()

    def __init__(self, *fates):
        self.fates, self.searches = list(fates), []
        self.messages = dict[int, str]()
        self.last = 10

    async def send(self, outbound):
        fate = self.fates.pop(0) if self.fates else None
        if isinstance(fate, DeliveryError):
            raise fate
        if fate != LOST_BEFORE:
            id = self.put(outbound.text or outbound.attachments[0].name, outbound.replaces)
        if fate:
            raise DeliveryError(fate, outcome_unknown=not outbound.replaces)
        return Receipt((str(id),))

    def put(self, text, replaces=()):
        if not replaces:
            self.last += 1
        id = int(replaces[0]) if replaces else self.last
        for surplus in replaces[1:]:
            del self.messages[int(surplus)]
        self.messages[id] = text
        return id

    async def edit(self, address, message_id, text):
        self.messages[int(message_id)] = text

    async def delete(self, address, message_id):
        self.messages.pop(int(message_id), None)

    async def find_sent(self, search):
        if self.searches:
            raise self.searches.pop(0)
        known = {int(id) for _, id in search.known}
        start = max(int(id) for _, id in search.after if int(id) < int(search.before))
        return tuple(str(id) for id in self.messages if start < id < int(search.before) and id not in known)

    @property
    def shown(self):
        return [self.messages[id] for id in sorted(self.messages)]


@pytest.fixture
def harness(tmp_path):
    database = Database(tmp_path / "state.db")

    class Made:
        journal = Journal(database)

        def delivery(self, channel):
            return OutboxDelivery(self.journal, lambda address: channel, lambda line: None, QUICK)

        def asked(self, *, streamed=()):
            """Record a question with id 10, and its turn."""
            accepted = self.journal.accept(Inbound(CHAT, "?", Sender("ann"), message_id="10", event_id="e10"))
            self.journal.began("t", "agent:a:main", (accepted.number,))
            if streamed:
                self.journal.record_streamed("t", *streamed)

        def answered(self, *texts, **more):
            rows = [
                Outbound(f"t:{at}" if at else "t", CHAT, text, answers="10", **more)
                for at, text in enumerate(texts)
            ]
            self.journal.ended("t", "delivered", rows)
            return rows

        def states(self):
            return dict(database.read("SELECT key, state FROM owed"))

        def repeated(self):
            return [key for (key,) in database.read("SELECT key FROM owed WHERE repeated")]

    yield Made()
    database.close()


@pytest.mark.parametrize("fate", [LOST_BEFORE, LOST_AFTER])
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_an_answer_whose_send_is_lost_is_there_once_and_in_order(harness, fate, at):
    harness.asked()
    service = Finding(*[None] * at, fate)
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("one", "two", "three"))
    await delivery.stop(5)

    assert service.shown == ["one", "two", "three"]
    assert set(harness.states().values()) == {"paid"} and harness.repeated() == []


@pytest.mark.parametrize("fates", [(LOST_AFTER,) * 4, (LOST_BEFORE,) * 4, (LOST_BEFORE, LOST_AFTER) * 2])
async def test_many_losses_of_an_answer_and_of_the_notice_about_it_leave_the_answer_alone(harness, fates):
    harness.asked()
    service = Finding(*fates)
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("hello"))
    await delivery.stop(8)

    assert service.shown == ["hello"] and set(harness.states().values()) == {"paid"}


@pytest.mark.parametrize("arrived", [True, False])
@pytest.mark.parametrize("noticed", ["no", "arrived", "recorded", "settled"])
async def test_what_a_death_left_in_doubt_is_settled_by_the_next_start_wherever_it_died(
    harness, arrived, noticed
):
    harness.asked()
    service = Finding()
    harness.answered("hello")
    harness.journal.mark_sending("t")
    if arrived:
        service.put("hello")
    if noticed != "no":
        harness.journal.add_reply("t", notice := Outbound("t:doubt", CHAT, "I do not know"))
        harness.journal.mark_sending(notice.key)
        id = service.put(notice.text)
        if noticed != "arrived":
            harness.journal.mark_delivered(notice.key, (str(id),))
        if noticed == "settled":  # and its end was not recorded
            await (service.delete(CHAT, id) if arrived else service.edit(CHAT, id, "hello"))
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(5)

    assert service.shown == ["hello"] and set(harness.states().values()) == {"paid"}


async def test_a_file_in_doubt_is_there_once(harness, tmp_path):
    for fate in (LOST_BEFORE, LOST_AFTER):
        journal, service = Journal(Database(tmp_path / f"{fate}.db")), Finding(fate)
        accepted = journal.accept(Inbound(CHAT, "?", Sender("ann"), message_id="10", event_id="e10"))
        journal.began("t", "agent:a:main", (accepted.number,))
        row = Outbound("t", CHAT, "", attachments=(Attachment("file", name="cat.png"),))
        journal.ended("t", "delivered", (row,))
        delivery = OutboxDelivery(journal, lambda address, service=service: service, str, QUICK)
        delivery.enqueue([row])
        await delivery.stop(5)
        assert service.shown == ["cat.png"]


async def test_a_file_in_doubt_that_a_limit_holds_back_is_sent_behind_it(harness):
    harness.asked()
    service = Finding(LOST_BEFORE, None, DeliveryError("slow down", retry_after_seconds=0.05))
    row = Outbound("t", CHAT, "", attachments=(Attachment("file", name="cat.png"),))
    harness.journal.ended("t", "delivered", (row,))
    delivery = harness.delivery(service)
    delivery.enqueue([row])
    await delivery.stop(5)

    assert service.shown == ["cat.png"] and harness.states() == {"t": "paid", "t:doubt": "paid"}


def a_file():
    return Outbound("t", CHAT, "", attachments=(Attachment("file", name="cat.png"),), answers="10")


@pytest.mark.parametrize(
    "fates",
    [
        (LOST_BEFORE, None, LOST_AFTER),  # the second send of the file
        (LOST_BEFORE, None, LOST_BEFORE, LOST_AFTER, None, LOST_AFTER),
        (LOST_BEFORE, LOST_AFTER),  # the notice, which is no file
        (LOST_AFTER, LOST_AFTER),
    ],
)
async def test_a_file_in_doubt_is_there_once_whatever_is_lost_when_that_is_settled(harness, fates):
    harness.asked()
    service, row = Finding(*fates), a_file()
    harness.journal.ended("t", "delivered", (row,))
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.05, 0.05, 0.05)
    delivery.enqueue([row])
    async with asyncio.timeout(8):
        while harness.states()["t"] != "paid":
            await asyncio.sleep(0.01)
    await delivery.stop(5)

    assert service.shown == ["cat.png"]
    assert set(harness.states().values()) == {"paid"} and harness.repeated() == []


async def test_a_death_behind_the_second_send_of_a_file_does_not_send_it_a_third_time(harness):
    harness.asked()
    service, row = Finding(LOST_BEFORE), a_file()
    harness.journal.ended("t", "delivered", (row,))
    dying = harness.delivery(service)
    send, is_sent = service.send, asyncio.Event()

    async def send_and_die(outbound):
        receipt = await send(outbound)
        if outbound.attachments:
            is_sent.set()
            await asyncio.Event().wait()
        return receipt

    service.send = send_and_die
    dying.enqueue([row])
    await asyncio.wait_for(is_sent.wait(), 5)
    for worker in dying._workers.values():
        worker.cancel()
    service.send = send
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(5)

    assert service.shown == ["cat.png"] and set(harness.states().values()) == {"paid"}


async def test_a_file_in_doubt_is_not_mistaken_for_a_part_of_the_answer_before_it(harness):
    harness.asked(streamed=((), 1))
    service = Finding(None, LOST_BEFORE)
    service.put("the wh")
    rows = [Outbound("t", CHAT, "the whole answer", answers="10"), replace(a_file(), key="t:1")]
    harness.journal.ended("t", "delivered", rows)
    delivery = harness.delivery(service)
    delivery.enqueue(rows)
    await delivery.stop(5)

    assert service.shown == ["the whole answer", "cat.png"]


async def test_a_tool_has_the_receipt_of_a_message_that_was_found(harness):
    harness.asked()
    service = Finding(LOST_AFTER)
    receipt = await harness.delivery(service).send_and_wait(
        "t", Outbound("t:call-1", CHAT, "hi", answers="10")
    )

    assert receipt == Receipt(("11",)) and service.shown == ["hi"]


async def test_where_nothing_can_be_found_the_person_reads_that_something_may_be_missing(harness):
    harness.asked()
    service = Finding(LOST_BEFORE)
    service.searches = [DeliveryError("too many messages", permanent=True)]
    delivery = harness.delivery(service)
    delivery.search_pauses = ()
    delivery.enqueue(harness.answered("hello", "more"))
    await delivery.stop(5)

    assert ["if my last message arrived" in text for text in service.shown] == [True, False]
    assert harness.states() == {"t": "unknown", "t:doubt": "paid", "t:1": "paid"}


@pytest.mark.parametrize("fate", [LOST_BEFORE, LOST_AFTER])
async def test_an_answer_that_cannot_be_found_yet_is_settled_behind_later_ones(harness, fate):
    harness.asked()
    service = Finding(fate)
    service.searches = [DeliveryError("too many messages", permanent=True)] * 2
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.05, 0.05)
    delivery.enqueue(harness.answered("hello", "more"))
    async with asyncio.timeout(5):
        while service.shown != ["hello", "more"]:
            await asyncio.sleep(0.01)
    await delivery.stop(5)
    assert harness.states() == {"t": "paid", "t:doubt": "paid", "t:1": "paid"}


@pytest.mark.parametrize(
    ("arrived", "failures"), [(("one", "two"), 2), (("one",), 1)], ids=["both arrived", "one arrived"]
)
async def test_two_parts_in_doubt_that_cannot_be_found_yet_are_there_in_order(harness, arrived, failures):
    harness.asked()
    service = Finding()
    for row in harness.answered("one", "two"):
        harness.journal.mark_sending(row.key)
    for text in arrived:
        service.put(text)
    service.searches = [DeliveryError("too many messages", permanent=True)] * failures
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.05, 0.05)
    delivery.recover()
    async with asyncio.timeout(5):
        while service.shown != ["one", "two"]:
            await asyncio.sleep(0.01)
    await delivery.stop(5)
    assert set(harness.states().values()) == {"paid"}


async def test_parts_in_doubt_that_were_repeated_before_have_notices_of_their_own(harness):
    harness.asked()
    service = Finding()
    for row in harness.answered("one", "two"):
        harness.journal.mark_sending(row.key, repeated=True)
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(8)

    assert service.shown == ["one", "two"] and set(harness.states().values()) == {"paid"}


async def test_a_search_in_the_background_does_not_share_what_it_finds_with_the_next_part(harness):
    harness.asked()
    service = Finding()
    rows = harness.answered("one", "two")
    for row in rows:
        harness.journal.mark_sending(row.key)
    service.put("one")
    service.searches = [DeliveryError("too many messages", permanent=True)]
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.0, 0.1, 0.1)
    find_sent = service.find_sent

    async def find_slowly(search):
        found = await find_sent(search)
        await asyncio.sleep(0.1)
        return found

    service.find_sent = find_slowly
    delivery.recover()
    async with asyncio.timeout(5):
        while set(harness.states().values()) != {"paid"}:
            await asyncio.sleep(0.01)
    await delivery.stop(5)
    assert service.shown == ["one", "two"]


async def test_who_waits_for_a_receipt_is_told_that_it_is_unknown_while_a_search_runs(harness):
    harness.asked()
    service = Finding(LOST_AFTER)
    service.searches = [DeliveryError("too many messages", permanent=True)]
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.05, 0.05, 0.05)
    find_sent, is_asked, may_answer = service.find_sent, asyncio.Event(), asyncio.Event()

    async def find_slowly(search):
        found = await find_sent(search)
        is_asked.set()
        await may_answer.wait()
        return found

    service.find_sent = find_slowly
    delivery.enqueue(harness.answered("one"))
    await asyncio.wait_for(is_asked.wait(), 5)
    service.fates = [LOST_AFTER]
    by_a_tool = Outbound("t:call-1", CHAT, "from a tool", answers="10")
    with pytest.raises(DeliveryError, match=LOST_AFTER):
        await asyncio.wait_for(delivery.send_and_wait("t", by_a_tool), 5)
    receipt = await asyncio.wait_for(delivery.send_and_wait("t", Outbound("t:call-2", CHAT, "more")), 5)
    assert receipt.message_ids

    may_answer.set()
    async with asyncio.timeout(5):
        while set(harness.states().values()) != {"paid"}:
            await asyncio.sleep(0.01)
    await delivery.stop(5)
    assert service.shown == ["one", "from a tool", "more"]


async def test_a_message_that_arrives_while_another_is_searched_is_not_taken_for_it(harness):
    harness.asked()
    harness.journal.accept(Inbound(CHAT, "?", Sender("bo"), message_id="9", event_id="e9"))
    harness.journal.began("u", "agent:a:other", (2,))
    harness.journal.add_reply("u", Outbound("u", CHAT, "another answer", answers="9"))
    harness.journal.mark_sending("u")
    service = Finding(LOST_AFTER)
    send, find_sent = service.send, service.find_sent

    async def send_beside_another(outbound):
        try:
            return await send(outbound)
        finally:
            if outbound.text == "one" and not outbound.replaces:
                service.put("another answer")

    async def find_while_it_is_recorded(search):
        found = await find_sent(search)
        harness.journal.mark_delivered("u", ("12",))
        return found

    service.send, service.find_sent = send_beside_another, find_while_it_is_recorded
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("one"))
    await delivery.stop(5)
    assert sorted(service.shown) == ["another answer", "one"]


async def test_an_answer_whose_response_comes_after_a_search_is_not_deleted_by_it(harness):
    harness.asked()
    service = Finding(LOST_BEFORE, None, LOST_BEFORE)  # the file, the notice, the file again
    service.searches = [DeliveryError("too many messages", permanent=True)]
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.05, 0.05, 0.05)
    row = a_file()
    harness.journal.ended("t", "delivered", (row,))
    send, responds = service.send, asyncio.Event()

    async def send_and_respond_late(outbound):
        receipt = await send(outbound)
        if outbound.text == "another answer":
            await responds.wait()
        return receipt

    service.send = send_and_respond_late
    delivery.enqueue([row])
    async with asyncio.timeout(5):
        while service.fates:
            await asyncio.sleep(0.001)
    harness.journal.accept(Inbound(CHAT, "?", Sender("bo"), message_id="9", event_id="e9"))
    harness.journal.began("u", "agent:a:other", (2,))
    other = Outbound("u", CHAT, "another answer", answers="9")
    harness.journal.ended("u", "delivered", (other,))
    delivery.enqueue([other])
    await asyncio.sleep(0.4)
    responds.set()
    async with asyncio.timeout(8):
        while set(harness.states().values()) != {"paid"}:
            await asyncio.sleep(0.01)
    await delivery.stop(5)

    assert sorted(service.shown) == ["another answer", "cat.png"]


async def test_a_file_that_cannot_be_sent_again_leaves_one_notice(harness):
    harness.asked()
    service, row = Finding(LOST_BEFORE, None, *[DeliveryError("no connection")] * 9), a_file()
    harness.journal.ended("t", "delivered", (row,))
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.01, 0.01, 0.01)
    delivery.enqueue([row])
    async with asyncio.timeout(5):
        while harness.states()["t"] != "unknown":
            await asyncio.sleep(0.01)
    await delivery.stop(5)
    [notice] = service.shown
    assert "I do not know" in notice


async def test_an_answer_that_was_not_settled_when_claw_stopped_is_settled_by_the_next_start(harness):
    harness.asked()
    service = Finding(LOST_AFTER)
    service.searches = [DeliveryError("too many messages", permanent=True)]
    delivery = harness.delivery(service)
    delivery.search_stop_seconds = 0.1
    delivery.enqueue(harness.answered("hello"))
    await delivery.stop(1)
    assert harness.states()["t"] == "sending"

    later = harness.delivery(service)
    later.recover()
    await later.stop(5)
    assert service.shown == ["hello"] and harness.states()["t"] == "paid"


async def test_a_search_that_fails_for_a_while_is_repeated(harness):
    harness.asked()
    service = Finding(LOST_AFTER)
    service.searches = [DeliveryError("away", retry_after_seconds=0.01)] * 12 + [DeliveryError("502")]
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("hello"))
    await delivery.stop(5)

    assert service.shown == ["hello"]


# --- parts of a stream


async def test_the_first_piece_of_a_dead_process_is_deleted_when_the_whole_answer_is_there(harness):
    harness.asked(streamed=((), 1))
    service = Finding()
    service.put("the wh")
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("the whole answer", "in two messages"))
    await delivery.stop(5)

    assert service.shown == ["the whole answer", "in two messages"]
    assert harness.journal.streamed("t")[1] == 0 and harness.repeated() == []


async def test_a_first_piece_that_never_arrived_costs_nothing(harness):
    harness.asked(streamed=((), 1))
    service = Finding()
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("the whole answer"))
    await delivery.stop(5)

    assert service.shown == ["the whole answer"]


async def test_a_second_piece_of_a_dead_process_is_deleted_with_the_first(harness):
    service = Finding()
    harness.asked(streamed=((str(service.put("the first")),), 2))
    service.put("and the sec")
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("the first", "and the second"))
    await delivery.stop(5)

    assert service.shown == ["the first", "and the second"]


async def test_a_death_behind_the_whole_answer_does_not_keep_the_piece_beside_it(harness):
    harness.asked(streamed=((), 1))
    service = Finding()
    service.put("the wh")
    harness.answered("the whole answer")
    harness.journal.mark_delivered("t", (str(service.put("the whole answer")),))
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(5)

    assert service.shown == ["the whole answer"]


async def test_a_piece_that_cannot_be_found_yet_is_searched_again_behind_later_answers(harness):
    harness.asked(streamed=((), 1))
    service = Finding()
    service.put("the wh")
    service.searches = [DeliveryError("too many messages", permanent=True)]
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.05,)
    delivery.enqueue(harness.answered("the whole answer"))
    delivery.enqueue([Outbound("later", CHAT, "a later answer")])
    async with asyncio.timeout(5):
        while "the wh" in service.shown:
            await asyncio.sleep(0.01)
    await delivery.stop(5)

    assert service.shown == ["the whole answer", "a later answer"]


async def test_a_piece_is_searched_too_when_the_answer_itself_was_settled_in_the_background(harness):
    harness.asked(streamed=((), 1))
    service = Finding(LOST_AFTER)
    service.put("the wh")
    service.searches = [DeliveryError("too many messages", permanent=True)]
    delivery = harness.delivery(service)
    delivery.search_pauses = (0.05, 0.05)
    delivery.enqueue(harness.answered("the whole answer"))
    async with asyncio.timeout(5):
        while harness.journal.streamed("t")[1]:
            await asyncio.sleep(0.01)
    await delivery.stop(5)

    assert service.shown == ["the whole answer"]


async def test_a_piece_that_cannot_be_found_is_explained(harness):
    harness.asked(streamed=((), 1))
    service = Finding()
    service.put("the wh")
    service.searches = [DeliveryError("too many messages", permanent=True)]
    delivery = harness.delivery(service)
    delivery.search_pauses = ()
    delivery.enqueue(harness.answered("the whole answer"))
    await delivery.stop(5)

    assert service.shown[:2] == ["the wh", "the whole answer"]
    assert "breaks off" in service.shown[2]


async def test_a_known_piece_goes_at_once_while_another_cannot_be_found(harness):
    service = Finding()
    harness.asked(streamed=((str(service.put("the first")),), 2))
    service.put("and the sec")
    service.searches = [DeliveryError("too many messages", permanent=True)] * 9
    delivery = harness.delivery(service)
    delivery.search_stop_seconds = 0.1
    delivery.enqueue(harness.answered("the whole answer"))
    await delivery.stop(5)

    assert service.shown == ["and the sec", "the whole answer"]
    assert harness.journal.streamed("t")[1] == 1, "the next start searches"


async def test_an_answer_does_not_wait_for_a_search(harness):
    harness.asked(streamed=((), 1))
    service = Finding()
    service.put("the wh")
    delivery, searching = harness.delivery(service), asyncio.Event()
    delivery.search_stop_seconds = 0.1

    async def find_sent(search):
        searching.set()
        await asyncio.Event().wait()

    service.find_sent = find_sent
    delivery.enqueue(harness.answered("the whole answer"))
    await asyncio.wait_for(searching.wait(), 5)
    delivery.enqueue([Outbound("later", CHAT, "a later answer")])
    await delivery.stop(5)

    assert service.shown == ["the wh", "the whole answer", "a later answer"]
    assert harness.journal.streamed("t")[1] == 1, "the next start searches"


async def test_more_unknown_messages_than_there_can_be_pieces_are_not_touched(harness):
    harness.asked(streamed=((), 1))
    service = Finding()
    for text in ("the wh", "of somebody else with this account"):
        service.put(text)
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("the whole answer"))
    await delivery.stop(5)

    assert len(service.messages) == 4


def hanging(service):
    """Return a service whose responses never come, with the messages of another."""
    hangs = Finding()
    hangs.messages = service.messages

    async def send(outbound):
        service.put(outbound.text)
        await asyncio.Event().wait()

    hangs.send = send
    return hangs


@pytest.mark.parametrize(("deaths", "key"), [(1, "t0:cut"), (2, "t0:cut"), (2, "t0"), (2, "in7")])
async def test_a_piece_is_deleted_although_a_notice_about_an_earlier_turn_is_there_more_than_once(
    harness, deaths, key
):
    service = Finding()
    harness.asked(streamed=((), 1))
    harness.journal.began("t0", "agent:a:main", ())
    given_up = Outbound(key, CHAT, "I could not answer", stop_reason="error")
    harness.journal.ended("t0", "failed", (given_up,))
    for _ in range(deaths):
        dying = harness.delivery(hanging(service))
        dying.recover()
        await dying.stop(0.05)
    before = harness.delivery(service)
    before.recover()
    await before.stop(5)
    assert service.shown == ["I could not answer"] * (deaths + 1)

    service.put("the wh")
    delivery = harness.delivery(service)
    delivery.enqueue(harness.answered("the whole answer"))
    await delivery.stop(5)

    assert service.shown == ["I could not answer", "the whole answer"]


@pytest.mark.parametrize("arrived", [True, False])
async def test_an_answer_whose_end_the_service_did_not_confirm_in_time_is_there_once(harness, arrived):
    harness.asked()
    service = Finding()

    class Slow:
        """A writer whose post is not confirmed."""

        shown, lost = (), 0

        def messages(self, text):
            return 1

        async def finish(self, outbound):
            if arrived:
                service.put(outbound.text)
            await asyncio.Event().wait()

    delivery = harness.delivery(service)
    rows = harness.answered("the whole answer")
    delivery.finish_reply(Slow(), rows[0], rows)
    await delivery.stop(8)

    assert service.shown == ["the whole answer"] and harness.states() == {"t": "paid", "t:doubt": "paid"}


# --- threads of one chat


def asked_in_threads(harness, *streamed):
    """Record a question in each of several threads of the chat, ids 11, 12 …; return the addresses."""
    places = [replace(CHAT, thread=str(at)) for at in range(1, len(streamed) + 1)]
    for at, (place, count) in enumerate(zip(places, streamed, strict=True), 1):
        asked = Inbound(place, "?", Sender("ann"), message_id=str(at), event_id=f"e{at}")
        accepted = harness.journal.accept(asked)
        harness.journal.began(f"t{at}", f"agent:a:{at}", (accepted.number,))
        harness.journal.record_streamed(f"t{at}", (), count)
    return places


async def test_pieces_that_a_death_left_in_two_threads_of_a_chat_are_deleted(harness):
    places = asked_in_threads(harness, 1, 1)
    service = Finding()
    for at in (1, 2):
        service.put(f"the beginning of {at}")
    delivery = harness.delivery(service)
    for at, place in enumerate(places, 1):
        row = Outbound(f"t{at}", place, f"the whole answer {at}", answers=str(at))
        harness.journal.ended(f"t{at}", "delivered", (row,))
        delivery.enqueue([row])
    await delivery.stop(5)

    assert service.shown == ["the whole answer 1", "the whole answer 2"]
    assert [harness.journal.streamed(turn)[1] for turn in ("t1", "t2")] == [0, 0]


async def test_a_search_waits_for_the_answer_in_another_thread_of_the_chat(harness):
    places = asked_in_threads(harness, 1, 1)
    service = Finding()
    for at in (1, 2):
        service.put(f"the beginning of {at}")
    delivery = harness.delivery(service)
    delivery.search_pauses = ()
    first, second = (
        Outbound(f"t{at}", place, f"the whole answer {at}", answers=str(at))
        for at, place in enumerate(places, 1)
    )
    harness.journal.ended("t1", "delivered", (first,))
    delivery.enqueue([first])
    await asyncio.sleep(0.3)
    assert service.shown == ["the beginning of 1", "the beginning of 2", "the whole answer 1"]

    harness.journal.ended("t2", "delivered", (second,))
    delivery.enqueue([second])
    async with asyncio.timeout(5):
        while len(service.messages) > 2:
            await asyncio.sleep(0.01)
    await delivery.stop(5)
    assert service.shown == ["the whole answer 1", "the whole answer 2"]


async def test_an_answer_in_doubt_does_not_take_the_place_of_a_message_in_another_thread(harness):
    places = asked_in_threads(harness, 1, 0)
    service = Finding(LOST_BEFORE)
    in_other_thread = service.put("the beginning of 1")
    row = Outbound("t2", places[1], "the whole answer 2", answers="2")
    harness.journal.ended("t2", "delivered", (row,))
    delivery = harness.delivery(service)
    delivery.enqueue([row])
    await delivery.stop(5)

    assert service.shown == ["the whole answer 2"] and in_other_thread not in service.messages
    assert harness.states()["t2"] == "paid"


async def test_a_finished_stream_whose_end_was_not_recorded_keeps_its_messages(harness):
    harness.asked(streamed=((), 2))
    service = Finding()
    rows = harness.answered("one", "two")
    harness.journal.record_streamed("t", [str(service.put(text)) for text in ("one", "two")], 2)
    for row in rows:
        harness.journal.mark_sending(row.key)
    delivery = harness.delivery(service)
    delivery.recover()
    await delivery.stop(5)

    assert service.shown == ["one", "two"] and sorted(service.messages) == [11, 12]


class Writer:
    """A writer whose first post was lost, and which posted in its place."""

    shown, lost = (), 1

    def __init__(self, service):
        self.service = service

    async def finish(self, outbound):
        return Receipt((str(self.service.put(outbound.text)),), repeated=True)


async def test_the_lost_first_post_of_a_writer_is_deleted(harness):
    harness.asked(streamed=((), 1))
    service = Finding()
    service.put("the wh")
    rows = harness.answered("the whole answer")
    delivery = harness.delivery(service)
    delivery.finish_reply(Writer(service), rows[0], rows)
    await asyncio.sleep(0)
    await delivery.stop(5)

    assert service.shown == ["the whole answer"] and harness.repeated() == []
