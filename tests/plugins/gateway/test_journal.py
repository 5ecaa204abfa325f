"""The journal: nothing is taken up twice, and what a death cut off is known."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from claw.contracts.errors import ClawError
from claw.contracts.messages import Address, Inbound, Outbound, Sender
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.storage.files import Disk
from claw_gateway.journal import Journal

HELLO = Inbound(Address("feishu", "oc_1"), "hello", Sender("ou_1"), message_id="om_1", event_id="ev_1")
DAY = 24 * 3600


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "state.db")
    yield database
    database.close()


def test_what_came_in_before_is_known_by_its_event_id(database):
    journal = Journal(database)
    assert journal.accept(HELLO)

    assert not journal.accept(replace(HELLO, message_id="om_other"))


def test_what_came_in_before_is_known_by_its_message_id_too(database):
    journal = Journal(database)
    assert journal.accept(HELLO)

    assert not journal.accept(replace(HELLO, event_id="ev_other"))


@pytest.mark.parametrize(
    "other",
    [
        replace(HELLO, event_id="ev_2", message_id="om_2"),
        replace(HELLO, address=Address("feishu", "oc_1", account="second")),
        replace(HELLO, address=Address("telegram", "oc_1")),
        replace(HELLO, address=Address("feishu", "oc_2"), event_id="ev_2"),
        replace(HELLO, kind="reaction", event_id="ev_2"),
    ],
    ids=[
        "other ids",
        "other account",
        "other channel",
        "same message id in another chat",
        "a reaction to the message",
    ],
)
def test_what_differs_is_taken_up(database, other):
    journal = Journal(database)
    journal.accept(HELLO)

    assert journal.accept(other)


def test_two_reactions_to_one_message_are_two_things(database):
    journal = Journal(database)

    assert journal.accept(replace(HELLO, kind="reaction", event_id="ev_2"))
    assert journal.accept(replace(HELLO, kind="reaction", event_id="ev_3"))


@pytest.mark.parametrize("blank", ["", "  "])
def test_blank_ids_do_not_collide(database, blank):
    journal = Journal(database)
    nameless = replace(HELLO, event_id=blank, message_id=blank)

    assert journal.accept(nameless)
    assert journal.accept(nameless)
    assert journal.accept(replace(HELLO, event_id=blank))
    assert journal.accept(replace(HELLO, message_id=blank))


def test_a_restart_remembers(tmp_path):
    for expected in (True, False):
        database = Database(tmp_path / "state.db")
        assert bool(Journal(database).accept(HELLO)) is expected
        database.close()


def test_a_turn_that_began_and_did_not_end_is_unfinished(database):
    journal = Journal(database, Clock(now=lambda: 1000.0))
    journal.began("t1", "agent:a:main")
    journal.began("t2", "agent:a:other")
    journal.ended("t1", "done")

    assert [cut.turn for cut in journal.unfinished()] == ["t2"]


@pytest.mark.parametrize(("days", "known"), [(6.9, True), (7.1, False)])
def test_seven_days_are_kept(database, days, known):
    early = Journal(database, Clock(now=lambda: 1000.0))
    for number, inbound in enumerate((HELLO, replace(HELLO, event_id="ev_9", message_id="m9")), 1):
        early.accept(inbound)
        early.close_event(number, "heard")
    early.began("t1", "agent:a:main")

    late = Journal(database, Clock(now=lambda: 1000.0 + days * DAY))

    assert (late.accept(HELLO) is None) is known
    assert bool(late.unfinished()) is known


def test_two_months_in_one_process_keep_a_week_and_the_file_stops_growing(database):
    now, sizes, numbers = [1000.0], [], []
    journal = Journal(database, Clock(now=lambda: now[0]))
    for day in range(60):
        for hour in range(24):
            now[0] = 1000.0 + day * DAY + hour * 3600
            id = f"{day}-{hour}"
            taken = journal.accept(replace(HELLO, text="x" * 2000, event_id=f"ev-{id}", message_id=f"m-{id}"))
            numbers.append(taken.number)
            journal.began(f"t{id}", "agent:a:main", (taken.number,))
            journal.once(f"t{id}", "call-1")
            journal.ended(f"t{id}", "delivered", (Outbound(f"t{id}", HELLO.address, "y" * 2000),))
            journal.mark_delivered(f"t{id}", ("1",))
        [(pages,)] = database.read("PRAGMA page_count")
        sizes.append(pages)

    for table in ("inbox", "owed", "turns", "watched", "effects"):
        [(rows,)] = database.read(f"SELECT count(*) FROM {table}")
        assert 7 * 24 <= rows <= 9 * 24, table
    assert sizes[-1] <= sizes[12] * 1.1
    assert numbers == sorted(set(numbers))


def test_a_number_is_never_given_twice_however_long_nobody_wrote(database):
    now = [1000.0]
    journal = Journal(database, Clock(now=lambda: now[0]))
    first = journal.accept(HELLO)
    journal.close_event(first.number, "heard")
    now[0] += 30 * DAY

    assert journal.accept(replace(HELLO, event_id="ev_9", message_id="m9")).number > first.number


def test_a_turn_that_shall_be_taken_up_again_keeps_what_is_known_of_its_effects(database):
    now = [1000.0]
    early = Journal(database, Clock(now=lambda: now[0]))
    taken = early.accept(HELLO)
    early.began("t1", "agent:a:main", (taken.number,))
    assert early.once("t1", "call-1")
    now[0] += 8 * DAY

    late = Journal(database, Clock(now=lambda: now[0]))
    late.accept(replace(HELLO, event_id="ev_9", message_id="m9"))

    assert [cut.turn for cut in late.unfinished()] == ["t1"]
    assert not late.once("t1", "call-1")


@pytest.mark.parametrize("days", [7.1, 60])
def test_what_was_not_answered_and_what_is_still_pending_is_never_too_old(database, days):
    now = [1000.0]
    journal = Journal(database, Clock(now=lambda: now[0]))
    done, waits, taken, newest = (
        journal.accept(replace(HELLO, event_id=f"ev_{n}", message_id=f"om_{n}")) for n in (1, 2, 3, 4)
    )
    journal.close_event(newest.number, "heard")
    journal.began("cut", "agent:a:main", (taken.number,))
    journal.began("over", "agent:a:main", (done.number,))
    replies = [
        Outbound(f"over:{state}", HELLO.address, state) for state in ("owed", "sending", "paid", "unknown")
    ]
    journal.ended("over", "delivered", replies)
    journal.mark_sending("over:sending")
    journal.mark_delivered("over:paid", ("1",))
    journal.mark_undeliverable("over:unknown", "unknown", "a line broke")
    now[0] += days * DAY

    journal.accept(replace(HELLO, event_id="ev_9", message_id="om_9"))

    assert [one.number for one in journal.waiting_events()] == [waits.number, 5]
    assert [[one.number for one in cut.taken] for cut in journal.unfinished()] == [[taken.number]]
    assert [(one.outbound.text, one.sending) for one in journal.pending_replies()] == [
        ("owed", False),
        ("sending", True),
    ]
    assert database.read("SELECT count(*) FROM owed") == [(2,)], "the rest was swept"
    assert journal.accept(replace(HELLO, event_id="ev_2", message_id="om_2")) is None
    assert journal.accept(replace(HELLO, event_id="ev_1", message_id="om_1")), "answered long ago: forgotten"


def commits(database):
    """Count the commits in the log of a database: the frames with its size after a commit (SQLite, "WAL file format")."""
    log = Path(f"{database.path}-wal").read_bytes()
    page = int.from_bytes(log[8:12])
    return sum(any(log[at + 4 : at + 8]) for at in range(32, len(log), 24 + page))


def test_the_end_of_a_turn_and_its_replies_are_one_commit(database):
    journal = Journal(database)
    taken = journal.accept(HELLO)
    journal.began("t1", "agent:a:main", (taken.number,))
    before = commits(database)

    journal.ended("t1", "delivered", [Outbound(f"t1:{number}", HELLO.address, "hi") for number in range(3)])

    assert commits(database) == before + 1, "a kill between two would lose the answer, or say it twice"
    assert (journal.unfinished(), len(journal.pending_replies())) == ((), 3)


@pytest.mark.parametrize("why", [OSError(24, "Too many open files"), RuntimeError("can't start new thread")])
async def test_who_waits_for_the_medium_learns_of_whatever_is_in_the_way(tmp_path, why):
    def sync(fd):
        raise why

    journal = Journal(Database(tmp_path / "state.db", disk=Disk(sync=sync)))
    journal.accept(HELLO)
    with pytest.raises((ClawError, RuntimeError), match=str(why.args[-1])):
        await asyncio.wait_for(journal.durable(), 60)


async def test_a_log_that_cannot_be_opened_is_a_refusal_of_the_disk(database):
    journal = Journal(database)
    journal.accept(HELLO)
    database.path.with_name("state.db-wal").unlink()
    with pytest.raises(ClawError, match="No such file"):
        await asyncio.wait_for(journal.durable(), 60)


async def test_who_comes_while_a_sync_is_under_way_waits_for_the_next_one(tmp_path):
    begun, over = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]
    syncs = []

    def sync(fd):
        syncs.append(fd)
        begun[len(syncs) - 1].set()
        over[len(syncs) - 1].wait(5)

    database = Database(tmp_path / "state.db", disk=Disk(sync=sync))
    journal = Journal(database)
    journal.accept(HELLO)
    first = asyncio.ensure_future(journal.durable())
    await asyncio.to_thread(begun[0].wait, 5)
    journal.accept(replace(HELLO, event_id="ev_2", message_id="om_2"))
    second = asyncio.ensure_future(journal.durable())
    await asyncio.sleep(0)
    over[0].set()
    await first
    await asyncio.to_thread(begun[1].wait, 5)
    assert not second.done(), "what came after its beginning is not known to be in the first sync"
    over[1].set()
    await second
    assert len(syncs) == 2
    database.close()
