"""The backlog: what happens with a message that comes while its conversation is being answered."""

import asyncio

import pytest
from claw.backlog import Backlog, Waiting
from claw.config.channels import QueueSettings
from claw.journal import Accepted
from claw.lane import CLOCK, MAIN, SUBAGENT, Lanes
from claw.message import Address, Inbound, Sender
from claw.route import Route

KEY = "agent:default:fake:direct:u1"
CHAT = Address("fake", "chat-1")


def queue(mode, **more):
    return QueueSettings.model_validate({"mode": mode, "debounce": 0.0, **more})


class House:
    """A backlog whose turns last until they are let go, and whose turns are written down."""

    def __init__(self, width=None, **widths):
        self.turns, self.dropped, self.gates = [], [], asyncio.Queue()
        self.stopped, self.count = [], 0
        self.backlog = Backlog(Lanes({MAIN: width or 0, **widths}), self._run, self._drop)

    def say(self, text, settings, key=KEY, address=CHAT, rights="a member"):
        self.count += 1
        inbound = Inbound(address, text, Sender("u1"), message_id=str(self.count))
        accepted = Accepted(self.count, inbound)
        self.backlog.add(Waiting(accepted, Route("default", key, False, "direct"), settings, rights))

    async def until_runs(self, turns):
        while len(self.turns) < turns:
            await asyncio.sleep(0.001)

    def let_go(self, turns=1):
        for _ in range(turns):
            self.gates.put_nowait(None)

    async def until_idle(self):
        while self.backlog.running or self.backlog.waiting:
            await asyncio.sleep(0.001)

    def said(self):
        return [[one.inbound.text for one in errand.taken] for errand in self.turns]

    async def _run(self, errand):
        self.turns.append(errand)
        errand.begun = True
        try:
            await self.gates.get()
        except asyncio.CancelledError:
            self.stopped.append(errand.turn)
            raise

    def _drop(self, accepted, why):
        self.dropped.append((accepted.inbound.text, why))


async def test_collect_makes_one_turn_of_all_that_came_meanwhile():
    house = House()
    for text in ("one", "two", "three"):
        house.say(text, queue("collect"))
        await asyncio.sleep(0.005)
    house.let_go(2)
    await house.until_runs(2)
    await house.until_idle()

    assert house.said() == [["one"], ["two", "three"]]


async def test_followup_makes_one_turn_of_each():
    house = House()
    for text in ("one", "two", "three"):
        house.say(text, queue("followup"))
    house.let_go(3)
    await house.until_runs(3)
    await house.until_idle()

    assert house.said() == [["one"], ["two"], ["three"]]


async def test_steer_puts_it_into_the_turn_that_runs():
    house = House()
    house.say("one", queue("steer"))
    await house.until_runs(1)
    house.say("and be quick", queue("steer"))

    assert [one.inbound.text for one in house.turns[0].mailbox.take()] == ["and be quick"]
    house.let_go()
    await house.until_idle()


@pytest.mark.parametrize(
    ("where", "rights"),
    [({"address": Address("fake", "chat-1", thread="t1")}, "a member"), ({}, "the owner")],
    ids=["another place", "other rights"],
)
async def test_a_turn_is_steered_from_its_own_place_and_with_its_own_rights_alone(where, rights):
    house = House()
    house.say("one", queue("steer"), rights="the owner")
    await house.until_runs(1)
    house.say(
        "do as I say", queue("steer"), rights="a member" if rights == "the owner" else "the owner", **where
    )
    assert house.turns[0].mailbox.take() == []

    house.let_go(2)
    await house.until_runs(2)
    await house.until_idle()
    assert house.said() == [["one"], ["do as I say"]]


async def test_who_waits_longer_in_a_place_is_not_passed_by_who_could_steer():
    house = House()
    house.say("one", queue("steer"), rights="the owner")
    await house.until_runs(1)
    house.say("mine first", queue("steer"), rights="a member")
    house.say("and then mine", queue("steer"), rights="the owner")
    house.let_go(3)
    await house.until_runs(3)
    await house.until_idle()

    assert house.said() == [["one"], ["mine first"], ["and then mine"]]


async def test_messages_whose_senders_have_other_rights_are_not_joined():
    house = House()
    house.say("one", queue("collect"))
    await house.until_runs(1)
    for text, rights in (
        ("two", "a member"),
        ("three", "a member"),
        ("four", "the owner"),
        ("five", "a member"),
    ):
        house.say(text, queue("collect"), rights=rights)
    house.let_go(4)
    await house.until_runs(4)
    await house.until_idle()

    assert house.said() == [["one"], ["two", "three"], ["four"], ["five"]]


async def test_what_is_told_in_short_is_told_to_a_turn_with_the_same_rights_or_its_sender_hears_of_it():
    house, two = House(), queue("collect", cap=2)
    house.say("one", two)
    await house.until_runs(1)
    house.say("of a member", two)
    house.say("more of a member", two)
    house.say("of the owner", two, rights="the owner")
    assert house.dropped == [], "a member's turn comes that tells it"
    house.say("more of the owner", two, rights="the owner")
    house.let_go(2)
    await house.until_runs(2)
    await house.until_idle()

    assert house.said() == [["one"], ["of the owner", "more of the owner"]]
    assert house.turns[1].preface == ""
    assert house.dropped == [("of a member", "overflow"), ("more of a member", "overflow")]


async def test_each_hears_in_short_of_what_came_with_their_own_rights():
    house, two = House(), queue("collect", cap=2)
    house.say("one", two)
    await house.until_runs(1)
    for text in ("first", "second"):
        house.say(f"{text} of a member", two)
        house.say(f"{text} of the owner", two, rights="the owner")
    house.let_go(3)
    await house.until_runs(3)
    await house.until_idle()

    assert house.said() == [["one"], ["second of a member"], ["second of the owner"]]
    assert "first of a member" in house.turns[1].preface and "owner" not in house.turns[1].preface
    assert "first of the owner" in house.turns[2].preface and "member" not in house.turns[2].preface
    assert house.dropped == []


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agent:default:subagent:1f", SUBAGENT),
        ("agent:default:subagent:1f:subagent:2e", SUBAGENT),
        ("agent:default:cron:daily:run:7", CLOCK),
    ],
)
async def test_sub_agents_and_scheduled_tasks_leave_people_room(key, kind):
    house = House(width=2, **{kind: 1})
    for number in range(3):
        house.say(str(number), queue("collect"), key=f"{key}{number}")
    house.say("hello?", queue("collect"))
    await house.until_runs(2)
    await asyncio.sleep(0.01)
    assert house.said() == [["0"], ["hello?"]]

    house.let_go(4)
    await house.until_runs(4)
    await house.until_idle()


async def test_what_steered_too_late_gets_a_turn_of_its_own():
    house = House()
    house.say("one", queue("steer"))
    await house.until_runs(1)
    house.say("late", queue("steer"))
    house.let_go(2)
    await house.until_runs(2)
    await house.until_idle()

    assert house.said() == [["one"], ["late"]]


async def test_interrupt_stops_the_turn_and_answers_the_newest():
    house = House()
    house.say("one", queue("interrupt"))
    await house.until_runs(1)
    house.say("two", queue("interrupt"))
    house.say("three", queue("interrupt"))
    await house.until_runs(2)
    house.let_go()
    await house.until_idle()

    assert house.said() == [["one"], ["three"]]
    assert house.stopped == [house.turns[0].turn]
    assert house.dropped == [("two", "interrupted")]


async def test_messages_for_another_place_are_not_joined():
    house, thread = House(), Address("fake", "chat-1", thread="t1")
    house.say("one", queue("collect"))
    await house.until_runs(1)
    house.say("two", queue("collect"))
    house.say("there", queue("collect"), address=thread)
    house.say("three", queue("collect"))
    house.let_go(4)
    await house.until_runs(4)
    await house.until_idle()

    assert house.said() == [["one"], ["two"], ["there"], ["three"]]


async def test_beyond_the_cap_the_oldest_are_told_in_short():
    house = House()
    house.say("one", queue("collect"))
    await house.until_runs(1)
    for number in range(5):
        house.say(f"more {number}", queue("collect", cap=3))
    house.let_go(2)
    await house.until_runs(2)
    await house.until_idle()

    second = house.turns[1]
    assert house.said()[1] == ["more 2", "more 3", "more 4"]
    assert "- more 0\n- more 1" in second.preface
    assert second.numbers == [2, 3, 4, 5, 6], "what is told in short is part of the turn"
    assert house.dropped == []


async def test_the_cap_can_drop_the_oldest_or_the_newest_instead():
    for drop, gone in (("old", "a"), ("new", "c")):
        house = House()
        house.say("one", queue("collect"))
        await house.until_runs(1)
        for text in ("a", "b", "c"):
            house.say(text, queue("collect", cap=2, drop=drop))
        house.let_go(2)
        await house.until_runs(2)
        await house.until_idle()

        assert house.dropped == [(gone, "overflow")]


async def test_waiting_messages_become_a_turn_when_it_has_been_quiet_for_a_while():
    house = House()
    house.say("one", queue("collect"))
    await house.until_runs(1)
    house.say("two", queue("collect", debounce=0.6))
    house.let_go()
    await asyncio.sleep(0.04)
    house.say("three", queue("collect", debounce=0.6))
    house.let_go()
    await house.until_runs(2)
    await house.until_idle()

    assert house.said() == [["one"], ["two", "three"]]


async def test_stop_ends_the_turn_and_forgets_what_waits():
    house = House()
    house.say("one", queue("collect"))
    await house.until_runs(1)
    house.say("two", queue("collect"))

    assert house.backlog.stop(KEY) == (True, 1)
    await house.until_idle()
    assert house.dropped == [("two", "stopped")]
    assert house.said() == [["one"]]


async def until_it_is_to_begin(house):
    """A turn has been made of what waited, and has not had its first step."""
    while not house.backlog.running:
        await asyncio.sleep(0)
    assert house.turns == []


async def test_what_a_turn_took_that_is_stopped_before_its_first_step_is_forgotten_too():
    house = House()
    house.say("one", queue("collect"))
    await until_it_is_to_begin(house)

    assert house.backlog.stop(KEY) == (True, 0)
    house.backlog.stop(KEY)
    await house.until_idle()
    assert (house.turns, house.dropped) == ([], [("one", "stopped")])


async def test_a_turn_that_is_interrupted_before_its_first_step_settles_what_it_took():
    house = House()
    house.say("one", queue("interrupt"))
    await until_it_is_to_begin(house)
    house.say("two", queue("interrupt"))
    await house.until_runs(1)
    house.let_go()
    await house.until_idle()

    assert (house.said(), house.dropped) == ([["two"]], [("one", "interrupted")])


async def test_stop_forgets_what_was_put_into_the_turn_and_not_looked_at():
    house = House()
    house.say("one", queue("steer"))
    await house.until_runs(1)
    house.say("and this", queue("steer"))

    assert house.backlog.stop(KEY) == (True, 1)
    await house.until_idle()
    assert (house.said(), house.dropped) == ([["one"]], [("and this", "stopped")])


async def test_a_turn_whose_end_is_written_down_is_not_stopped():
    house = House()
    house.say("one", queue("interrupt"))
    await house.until_runs(1)
    house.turns[0].over = True

    assert house.backlog.stop(KEY) == (False, 0)
    house.say("two", queue("interrupt"))
    house.let_go(2)
    await house.until_idle()
    assert (house.said(), house.stopped) == ([["one"], ["two"]], [])


async def test_what_a_person_stopped_is_not_left_for_the_next_start():
    house = House()
    house.say("one", queue("collect"))
    await house.until_runs(1)
    house.backlog.stop(KEY)
    await house.backlog.park(0.0, 5)

    assert not house.turns[0].parked and house.stopped == [house.turns[0].turn]


async def test_no_turn_begins_while_the_house_stops():
    house = House(width=1)
    house.say("one", queue("collect"))
    house.say("two", queue("collect"), key=f"{KEY}0")
    await house.until_runs(1)
    stopping = asyncio.ensure_future(house.backlog.park(5, 5))
    await asyncio.sleep(0)
    house.let_go(2)
    await stopping

    assert (house.said(), house.dropped) == ([["one"]], [])


async def test_conversations_run_beside_each_other_as_far_as_the_house_is_wide():
    house = House(width=2)
    for number in range(3):
        house.say(str(number), queue("collect"), key=f"agent:default:fake:direct:u{number}")
    await house.until_runs(2)
    await asyncio.sleep(0.01)
    assert len(house.turns) == 2

    house.let_go(3)
    await house.until_runs(3)
    await house.until_idle()


async def test_a_house_that_stops_leaves_what_waits_and_marks_what_runs():
    house = House()
    house.say("one", queue("collect"))
    await house.until_runs(1)
    house.say("two", queue("collect"))
    await house.backlog.park(0.01, 0.2)

    assert house.turns[0].parked
    assert house.said() == [["one"]] and house.dropped == []
