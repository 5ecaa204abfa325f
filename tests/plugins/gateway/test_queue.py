"""The backlog: what happens with a message that comes while its conversation is being answered."""

import asyncio

import pytest
from claw.agent.routing import Route
from claw.agent.session_queue import SessionQueues
from claw.config.channels import QueueSettings
from claw.contracts.messages import AcceptedEvent, Address, Inbound, Sender
from claw_gateway.queue import QueuedMessage, TurnQueue
from claw_gateway.turn_limits import CLOCK, MAIN, SUBAGENT, TurnLimits

KEY = "agent:default:fake:direct:u1"
CHAT = Address("fake", "chat-1")


def queue(mode, **more):
    return QueueSettings.model_validate({"mode": mode, "debounce": 0.0, **more})


class QueueBench:
    """A backlog whose turns last until they are let go, and whose turns are written down."""

    def __init__(self, width=None, **widths):
        self.turns, self.dropped, self.gates = [], [], asyncio.Queue()
        self.stopped, self.count = [], 0
        limits = TurnLimits({MAIN: width or 0, **widths})
        self.backlog = TurnQueue(SessionQueues(), limits, self._run, self._drop)

    def say(self, text, settings, key=KEY, address=CHAT, rights="a member"):
        self.count += 1
        inbound = Inbound(address, text, Sender("u1"), message_id=str(self.count))
        accepted = AcceptedEvent(self.count, inbound)
        self.backlog.add(QueuedMessage(accepted, Route("default", key, False, "direct"), settings, rights))

    def resume(self, text, suspect):
        self.count += 1
        inbound = Inbound(CHAT, text, Sender("u1"), message_id=str(self.count))
        accepted, route = (
            AcceptedEvent(self.count, inbound),
            Route("default", f"{KEY}-{text}", False, "direct"),
        )
        self.backlog.add(
            QueuedMessage(accepted, route, queue("followup"), None, text, (accepted,), suspect=suspect)
        )

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
        return [[one.inbound.text for one in turn.taken] for turn in self.turns]

    async def _run(self, turn):
        self.turns.append(turn)
        turn.begun = True
        try:
            await self.gates.get()
        except asyncio.CancelledError:
            self.stopped.append(turn.id)
            raise

    def _drop(self, accepted, why):
        self.dropped.append((accepted.inbound.text, why))


async def test_collect_makes_one_turn_of_all_that_came_meanwhile():
    harness = QueueBench()
    for text in ("one", "two", "three"):
        harness.say(text, queue("collect"))
        await asyncio.sleep(0.005)
    harness.let_go(2)
    await harness.until_runs(2)
    await harness.until_idle()

    assert harness.said() == [["one"], ["two", "three"]]


async def test_followup_makes_one_turn_of_each():
    harness = QueueBench()
    for text in ("one", "two", "three"):
        harness.say(text, queue("followup"))
    harness.let_go(3)
    await harness.until_runs(3)
    await harness.until_idle()

    assert harness.said() == [["one"], ["two"], ["three"]]


async def test_steer_puts_it_into_the_turn_that_runs():
    harness = QueueBench()
    harness.say("one", queue("steer"))
    await harness.until_runs(1)
    harness.say("and be quick", queue("steer"))

    assert [one.inbound.text for one in harness.turns[0].steering.take()] == ["and be quick"]
    harness.let_go()
    await harness.until_idle()


@pytest.mark.parametrize(
    ("where", "rights"),
    [({"address": Address("fake", "chat-1", thread="t1")}, "a member"), ({}, "the owner")],
    ids=["another place", "other rights"],
)
async def test_a_turn_is_steered_from_its_own_place_and_with_its_own_rights_alone(where, rights):
    harness = QueueBench()
    harness.say("one", queue("steer"), rights="the owner")
    await harness.until_runs(1)
    harness.say(
        "do as I say", queue("steer"), rights="a member" if rights == "the owner" else "the owner", **where
    )
    assert harness.turns[0].steering.take() == []

    harness.let_go(2)
    await harness.until_runs(2)
    await harness.until_idle()
    assert harness.said() == [["one"], ["do as I say"]]


async def test_who_waits_longer_in_a_place_is_not_passed_by_who_could_steer():
    harness = QueueBench()
    harness.say("one", queue("steer"), rights="the owner")
    await harness.until_runs(1)
    harness.say("mine first", queue("steer"), rights="a member")
    harness.say("and then mine", queue("steer"), rights="the owner")
    harness.let_go(3)
    await harness.until_runs(3)
    await harness.until_idle()

    assert harness.said() == [["one"], ["mine first"], ["and then mine"]]


async def test_messages_whose_senders_have_other_rights_are_not_joined():
    harness = QueueBench()
    harness.say("one", queue("collect"))
    await harness.until_runs(1)
    for text, rights in (
        ("two", "a member"),
        ("three", "a member"),
        ("four", "the owner"),
        ("five", "a member"),
    ):
        harness.say(text, queue("collect"), rights=rights)
    harness.let_go(4)
    await harness.until_runs(4)
    await harness.until_idle()

    assert harness.said() == [["one"], ["two", "three"], ["four"], ["five"]]


async def test_what_is_sent_in_short_is_sent_to_a_turn_with_the_same_rights_or_its_sender_is_notified():
    harness, two = QueueBench(), queue("collect", cap=2)
    harness.say("one", two)
    await harness.until_runs(1)
    harness.say("of a member", two)
    harness.say("more of a member", two)
    harness.say("of the owner", two, rights="the owner")
    assert harness.dropped == [], "a member's turn comes that tells it"
    harness.say("more of the owner", two, rights="the owner")
    harness.let_go(2)
    await harness.until_runs(2)
    await harness.until_idle()

    assert harness.said() == [["one"], ["of the owner", "more of the owner"]]
    assert harness.turns[1].preface == ""
    assert harness.dropped == [("of a member", "overflow"), ("more of a member", "overflow")]


async def test_each_receives_a_summary_of_what_came_with_their_own_rights():
    harness, two = QueueBench(), queue("collect", cap=2)
    harness.say("one", two)
    await harness.until_runs(1)
    for text in ("first", "second"):
        harness.say(f"{text} of a member", two)
        harness.say(f"{text} of the owner", two, rights="the owner")
    harness.let_go(3)
    await harness.until_runs(3)
    await harness.until_idle()

    assert harness.said() == [["one"], ["second of a member"], ["second of the owner"]]
    assert "first of a member" in harness.turns[1].preface and "owner" not in harness.turns[1].preface
    assert "first of the owner" in harness.turns[2].preface and "member" not in harness.turns[2].preface
    assert harness.dropped == []


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("agent:default:subagent:1f", SUBAGENT),
        ("agent:default:subagent:1f:subagent:2e", SUBAGENT),
        ("agent:default:cron:daily:run:7", CLOCK),
    ],
)
async def test_sub_agents_and_scheduled_tasks_leave_slots_for_people(key, kind):
    harness = QueueBench(width=2, **{kind: 1})
    for number in range(3):
        harness.say(str(number), queue("collect"), key=f"{key}{number}")
    harness.say("hello?", queue("collect"))
    await harness.until_runs(2)
    await asyncio.sleep(0.01)
    assert harness.said() == [["0"], ["hello?"]]

    harness.let_go(4)
    await harness.until_runs(4)
    await harness.until_idle()


async def test_what_steered_too_late_gets_a_turn_of_its_own():
    harness = QueueBench()
    harness.say("one", queue("steer"))
    await harness.until_runs(1)
    harness.say("late", queue("steer"))
    harness.let_go(2)
    await harness.until_runs(2)
    await harness.until_idle()

    assert harness.said() == [["one"], ["late"]]


async def test_interrupt_stops_the_turn_and_answers_the_newest():
    harness = QueueBench()
    harness.say("one", queue("interrupt"))
    await harness.until_runs(1)
    harness.say("two", queue("interrupt"))
    harness.say("three", queue("interrupt"))
    await harness.until_runs(2)
    harness.let_go()
    await harness.until_idle()

    assert harness.said() == [["one"], ["three"]]
    assert harness.stopped == [harness.turns[0].id]
    assert harness.dropped == [("two", "interrupted")]


async def test_messages_for_another_place_are_not_joined():
    harness, thread = QueueBench(), Address("fake", "chat-1", thread="t1")
    harness.say("one", queue("collect"))
    await harness.until_runs(1)
    harness.say("two", queue("collect"))
    harness.say("there", queue("collect"), address=thread)
    harness.say("three", queue("collect"))
    harness.let_go(4)
    await harness.until_runs(4)
    await harness.until_idle()

    assert harness.said() == [["one"], ["two"], ["there"], ["three"]]


async def test_beyond_the_cap_the_oldest_are_reported_in_short():
    harness = QueueBench()
    harness.say("one", queue("collect"))
    await harness.until_runs(1)
    for number in range(5):
        harness.say(f"more {number}", queue("collect", cap=3))
    harness.let_go(2)
    await harness.until_runs(2)
    await harness.until_idle()

    second = harness.turns[1]
    assert harness.said()[1] == ["more 2", "more 3", "more 4"]
    assert "- more 0\n- more 1" in second.preface
    assert second.numbers == [2, 3, 4, 5, 6], "what is told in short is part of the turn"
    assert harness.dropped == []


async def test_the_cap_can_drop_the_oldest_or_the_newest_instead():
    for drop, gone in (("old", "a"), ("new", "c")):
        harness = QueueBench()
        harness.say("one", queue("collect"))
        await harness.until_runs(1)
        for text in ("a", "b", "c"):
            harness.say(text, queue("collect", cap=2, drop=drop))
        harness.let_go(2)
        await harness.until_runs(2)
        await harness.until_idle()

        assert harness.dropped == [(gone, "overflow")]


async def test_waiting_messages_become_a_turn_when_it_has_been_quiet_for_a_while():
    harness = QueueBench()
    harness.say("one", queue("collect"))
    await harness.until_runs(1)
    harness.say("two", queue("collect", debounce=0.6))
    harness.let_go()
    await asyncio.sleep(0.04)
    harness.say("three", queue("collect", debounce=0.6))
    harness.let_go()
    await harness.until_runs(2)
    await harness.until_idle()

    assert harness.said() == [["one"], ["two", "three"]]


async def test_stop_ends_the_turn_and_forgets_what_waits():
    harness = QueueBench()
    harness.say("one", queue("collect"))
    await harness.until_runs(1)
    harness.say("two", queue("collect"))

    assert harness.backlog.stop(KEY) == (True, 1)
    await harness.until_idle()
    assert harness.dropped == [("two", "stopped")]
    assert harness.said() == [["one"]]


async def until_it_is_to_begin(harness):
    """A turn has been made of what waited, and has not had its first step."""
    while not harness.backlog.running:
        await asyncio.sleep(0)
    assert harness.turns == []


async def test_what_a_turn_took_that_is_stopped_before_its_first_step_is_forgotten_too():
    harness = QueueBench()
    harness.say("one", queue("collect"))
    await until_it_is_to_begin(harness)

    assert harness.backlog.stop(KEY) == (True, 0)
    harness.backlog.stop(KEY)
    await harness.until_idle()
    assert (harness.turns, harness.dropped) == ([], [("one", "stopped")])


async def test_a_turn_that_is_interrupted_before_its_first_step_settles_what_it_took():
    harness = QueueBench()
    harness.say("one", queue("interrupt"))
    await until_it_is_to_begin(harness)
    harness.say("two", queue("interrupt"))
    await harness.until_runs(1)
    harness.let_go()
    await harness.until_idle()

    assert (harness.said(), harness.dropped) == ([["two"]], [("one", "interrupted")])


async def test_stop_forgets_what_was_put_into_the_turn_and_not_looked_at():
    harness = QueueBench()
    harness.say("one", queue("steer"))
    await harness.until_runs(1)
    harness.say("and this", queue("steer"))

    assert harness.backlog.stop(KEY) == (True, 1)
    await harness.until_idle()
    assert (harness.said(), harness.dropped) == ([["one"]], [("and this", "stopped")])


async def test_a_turn_whose_end_is_written_down_is_not_stopped():
    harness = QueueBench()
    harness.say("one", queue("interrupt"))
    await harness.until_runs(1)
    harness.turns[0].over = True

    assert harness.backlog.stop(KEY) == (False, 0)
    harness.say("two", queue("interrupt"))
    harness.let_go(2)
    await harness.until_idle()
    assert (harness.said(), harness.stopped) == ([["one"], ["two"]], [])


async def test_what_a_person_stopped_is_not_left_for_the_next_start():
    harness = QueueBench()
    harness.say("one", queue("collect"))
    await harness.until_runs(1)
    harness.backlog.stop(KEY)
    await harness.backlog.shut_down(0.0, 5)

    assert not harness.turns[0].parked and harness.stopped == [harness.turns[0].id]


async def test_no_turn_begins_while_claw_stops():
    harness = QueueBench(width=1)
    harness.say("one", queue("collect"))
    harness.say("two", queue("collect"), key=f"{KEY}0")
    await harness.until_runs(1)
    stopping = asyncio.ensure_future(harness.backlog.shut_down(5, 5))
    await asyncio.sleep(0)
    harness.let_go(2)
    await stopping

    assert (harness.said(), harness.dropped) == ([["one"]], [])


async def test_conversations_run_beside_each_other_as_far_as_claw_is_wide():
    harness = QueueBench(width=2)
    for number in range(3):
        harness.say(str(number), queue("collect"), key=f"agent:default:fake:direct:u{number}")
    await harness.until_runs(2)
    await asyncio.sleep(0.01)
    assert len(harness.turns) == 2

    harness.let_go(3)
    await harness.until_runs(3)
    await harness.until_idle()


async def test_a_gateway_that_stops_leaves_what_waits_and_marks_what_runs():
    harness = QueueBench()
    harness.say("one", queue("collect"))
    await harness.until_runs(1)
    harness.say("two", queue("collect"))
    await harness.backlog.shut_down(0.01, 0.2)

    assert harness.turns[0].parked
    assert harness.said() == [["one"]] and harness.dropped == []


async def test_turns_that_ran_at_a_crash_run_one_at_a_time_and_others_do_not_wait_for_them():
    harness = QueueBench()
    for text in ("first", "second", "third"):
        harness.resume(text, suspect=True)
    harness.resume("cut off by a kill", suspect=False)
    harness.say("new", queue("followup"))
    await harness.until_runs(3)
    await asyncio.sleep(0.02)

    assert harness.said() == [["first"], ["cut off by a kill"], ["new"]]
    harness.let_go(3)
    await harness.until_runs(4)
    harness.let_go(2)
    await harness.until_idle()
    assert harness.said()[3:] == [["second"], ["third"]]
