"""The journal: nothing is taken up twice, and what a death cut off is known."""

from dataclasses import replace

import pytest
from claw.clock import Clock
from claw.journal import Journal
from claw.message import Address, Inbound, Sender
from claw.store import Database

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
    early.accept(HELLO)
    early.began("t1", "agent:a:main")

    late = Journal(database, Clock(now=lambda: 1000.0 + days * DAY))

    assert late.accept(HELLO) is not known
    assert bool(late.unfinished()) is known
