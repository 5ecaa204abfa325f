"""``claw turns list``: what was answered, and with --stuck all that has not come to its end."""

import asyncio
import json
import sqlite3
from contextlib import contextmanager
from dataclasses import replace

import pytest
from claw import hookimpl, i18n as words
from claw.cli.main import app
from claw.contracts.errors import ProviderError
from claw.contracts.messages import Address, Inbound, Outbound, Sender
from claw.storage.clock import Clock
from claw.storage.database import Database
from claw.testing import FakeChannel, FakeProvider, Harness, says
from claw_gateway.journal import Journal
from claw_sessions.store import JsonlSessionStore
from integration.served import serve
from typer.testing import CliRunner

PLACE = Address("telegram", "42")
HELLO = Inbound(PLACE, "hello", Sender("42"), message_id="m1", event_id="e1")
NOON = Clock(now=lambda: 1_790_000_000.0)


@contextmanager
def journal_of(home):
    database = Database(home / "state.db")
    yield Journal(database, NOON)
    database.close()


def claw(*words):
    return CliRunner().invoke(app, ["turns", "list", *words])


def document(*words):
    answer = claw(*words, "--json")
    body = json.loads(answer.stdout)
    assert (body.pop("schemaVersion"), body.pop("kind")) == (1, "turns")
    return answer.exit_code, body


def answered(journal, turn, outcome="delivered", state="paid"):
    """A turn that ended and owes one message."""
    one = journal.accept(replace(HELLO, message_id=turn, event_id=turn))
    journal.began(turn, "agent:default:telegram:direct:42", (one.number,))
    journal.ended(turn, outcome, (Outbound(turn, PLACE, "hi"),))
    if state == "paid":
        journal.mark_delivered(turn, ("1",))
    elif state not in ("owed", "sending"):
        journal.mark_undeliverable(turn, state, "the bot was blocked")


def test_a_home_in_which_nothing_happened_is_left_as_it_is(home):
    assert document() == (0, {"turns": []})
    assert document("--stuck") == (0, {"turns": [], "waiting": [], "notices": []})
    assert list(home.iterdir()) == []


def test_what_ended_well_is_listed_and_not_stuck(home):
    with journal_of(home) as journal:
        answered(journal, "t1")
        answered(journal, "t2", outcome="silent")

    code, body = document()
    assert code == 0 and {turn["turn"]: turn["outcome"] for turn in body["turns"]} == {
        "t1": "delivered",
        "t2": "silent",
    }
    assert document("--stuck") == (0, {"turns": [], "waiting": [], "notices": []})
    assert claw("--stuck").stdout.strip() == "nothing is stuck"


def test_a_turn_that_did_not_end_is_stuck(home):
    with journal_of(home) as journal:
        answered(journal, "t1")
        one = journal.accept(HELLO)
        journal.began("t2", "agent:default:telegram:direct:42", (one.number,))

    code, body = document("--stuck")
    assert code == 1
    assert [(turn["turn"], turn["outcome"], turn["attempts"]) for turn in body["turns"]] == [("t2", None, 1)]
    assert "running or interrupted" in claw("--stuck").stdout


@pytest.mark.parametrize("state", ["owed", "unknown", "refused", "expired"])
def test_an_answer_that_is_pending_or_was_not_delivered_is_stuck_and_says_why(home, state):
    with journal_of(home) as journal:
        answered(journal, "t1")
        answered(journal, "t2", state=state)

    code, body = document("--stuck")
    assert code == 1
    [turn] = body["turns"]
    assert turn["turn"] == "t2" and body["notices"] == []
    assert turn["owed"] == (state == "owed")
    assert turn["undelivered"] == (None if state == "owed" else f"{state}: the bot was blocked")
    assert (state == "owed") or "not delivered" in claw().stdout


def test_messages_that_no_turn_took_are_stuck_chat_by_chat(home):
    with journal_of(home) as journal:
        for number in range(3):
            journal.accept(replace(HELLO, message_id=f"m{number}", event_id=f"e{number}"))
        journal.accept(replace(HELLO, address=Address("telegram", "7\x1b[2J", account="work")))
        journal.close_event(journal.accept(replace(HELLO, message_id="m9", event_id="e9")).number, "heard")

    code, body = document("--stuck")
    assert code == 1 and body["turns"] == []
    assert [(one["chat"], one["account"], one["messages"]) for one in body["waiting"]] == [
        ("42", "default", 3),
        ("7\x1b[2J", "work", 1),
    ]
    shown = claw("--stuck").stdout
    assert "telegram:42" in shown and "3 messages are waiting for a turn" in shown
    assert "telegram/work:7?[2J" in shown and "1 message is waiting for a turn" in shown


def test_what_claw_itself_says_and_cannot_deliver_is_stuck_too(home):
    with journal_of(home) as journal:
        for number, what in enumerate(("delivered", "owed", "refused"), 1):
            journal.accept(replace(HELLO, message_id=what, event_id=what))
            journal.close_event(number, "command", (Outbound(what, PLACE, what),))
        journal.mark_delivered("delivered", ("1",))
        journal.mark_undeliverable("refused", "refused", "the bot was blocked")

    code, body = document("--stuck")
    assert code == 1
    assert [(one["state"], one["why"]) for one in body["notices"]] == [
        ("owed", ""),
        ("refused", "the bot was blocked"),
    ]
    assert "refused: the bot was blocked" in claw("--stuck").stdout
    assert document() == (0, {"turns": []})


def test_the_newest_come_first_and_no_more_than_asked_for(home):
    now = [1_790_000_000.0]
    database = Database(home / "state.db")
    journal = Journal(database, Clock(now=lambda: now[0]))
    for number in range(5):
        now[0] += 1
        answered(journal, f"t{number}")
    database.close()

    assert [turn["turn"] for turn in document("--limit", "2")[1]["turns"]] == ["t4", "t3"]


def test_it_is_reported_in_chinese_too(home):
    with journal_of(home) as journal:
        journal.accept(HELLO)
    words.use_language("zh")
    try:
        assert "1 条消息在等待回合" in claw("--stuck").stdout
    finally:
        words.use_language("en")


async def test_a_turn_at_a_terminal_is_stuck_only_while_its_process_lives(home):
    with journal_of(home) as journal:
        journal.began("here", "agent:default:main")
        sessions = JsonlSessionStore(home, journal._database, NOON)
        session = await sessions.open("agent:default:main", "default")
        [turn] = document("--stuck")[1]["turns"]
        assert (turn["turn"], turn["served"]) == ("here", 0)

        session.release()  # as a death does
        assert document("--stuck") == (0, {"turns": [], "waiting": [], "notices": []})
        assert [turn["outcome"] for turn in document()[1]["turns"]] == [None]

        one = journal.accept(HELLO)
        journal.began("there", "agent:default:telegram:direct:42", (one.number,))
        assert [turn["turn"] for turn in document("--stuck")[1]["turns"]] == ["there"]


def run(*words):
    return CliRunner().invoke(app, ["turns", *words])


@pytest.mark.parametrize("state", ["unknown", "refused", "expired"])
def test_a_failed_reply_that_is_dismissed_is_stuck_no_longer_and_still_not_delivered(home, state):
    with journal_of(home) as journal:
        answered(journal, "t1", state=state)
        answered(journal, "t2", state=state)

    shown = run("dismiss", "t1")
    assert (shown.exit_code, shown.stdout.strip()) == (0, "turn t1: 1 reply is dismissed")
    assert [turn["turn"] for turn in document("--stuck")[1]["turns"]] == ["t2"]
    assert run("dismiss", "--all", "--json").exit_code == 0
    assert document("--stuck") == (0, {"turns": [], "waiting": [], "notices": []})
    assert {turn["undelivered"] for turn in document()[1]["turns"]} == {"dismissed: the bot was blocked"}
    assert run("dismiss", "--all").stdout.strip() == "no reply has failed"


def test_a_notice_that_was_not_delivered_is_dismissed_by_the_id_that_the_list_shows(home):
    with journal_of(home) as journal:
        journal.accept(HELLO)
        journal.close_event(1, "command", (Outbound("cmd-1", PLACE, "done"),))
        journal.mark_undeliverable("cmd-1", "refused", "the bot was blocked")

    [notice] = document("--stuck")[1]["notices"]
    assert notice["turn"] in claw("--stuck").stdout
    assert run("dismiss", notice["turn"]).exit_code == 0
    assert document("--stuck")[0] == 0


@pytest.mark.parametrize("command", ["retry", "dismiss"])
def test_only_a_turn_with_a_failed_reply_can_be_named(home, command):
    with journal_of(home) as journal:
        answered(journal, "t1")
        answered(journal, "t2", state="owed")

    for turn in ("t1", "t2", "nobody"):
        assert f"turn {turn} has no reply that failed" in str(run(command, turn).exception)
    for given in ((), ("t1", "--all")):
        assert "name one turn, or give --all" in str(run(command, *given).exception)
    assert [turn["owed"] for turn in document("--stuck")[1]["turns"]] == [1]


def test_a_retry_without_a_gateway_waits_for_its_next_start(home):
    with journal_of(home) as journal:
        answered(journal, "t1", state="unknown")

    shown = run("retry", "t1")
    assert shown.stdout.strip() == "turn t1: 1 reply is sent at the next start of the gateway"
    [turn] = document("--stuck")[1]["turns"]
    assert (turn["owed"], turn["possiblyRepeated"], turn["undelivered"]) == (1, 1, None)


@pytest.mark.parametrize("running", [True, False], ids=["while the gateway runs", "before its start"])
@pytest.mark.parametrize("state", ["unknown", "refused", "expired", "dismissed"])
async def test_a_reply_that_is_retried_is_sent_once(home, state, running):
    channel = FakeChannel("telegram")
    with journal_of(home) as journal:
        answered(journal, "t1", state="unknown" if state == "dismissed" else state)
        if state == "dismissed":
            journal.dismiss("t1")
        if not running:
            journal.retry("t1")
    async with serve(Harness(FakeProvider(), channels=[channel], home=home)):
        if running:
            await asyncio.sleep(0)
            assert channel.sent == []
            with journal_of(home) as journal:
                journal.retry("t1")
        await channel.until_shown()

    assert [one.text for one in channel.sent] == ["hi"]
    assert document("--stuck")[0] == 0


REFUSED = ProviderError("no such model for tulip-77", reason="model_not_found")
MASKED = {"logging": {"redactPatterns": ["tulip-[0-9]+"]}}
FALLBACK = {"agents": {"defaults": {"model": {"primary": "fake/m1", "fallbacks": ["spare/m2"]}}}}


async def test_a_failed_turn_says_why_without_its_secrets(home):
    channel = FakeChannel()
    async with serve(Harness(FakeProvider(REFUSED), channels=[channel], config=MASKED, home=home)):
        channel.says("hello", "user-1")
        await channel.until_shown()

    [turn] = document()[1]["turns"]
    assert turn["outcome"] == "failed"
    assert "no such model for" in turn["why"] and "tulip" not in turn["why"]
    assert "no such model for" in claw().stdout


async def test_a_turn_that_another_model_answered_says_which_one_failed(home):
    other = FakeProvider(says("instead"), name="spare")
    config = {**MASKED, **FALLBACK}
    async with Harness(FakeProvider(REFUSED), fallbacks=[other], config=config, home=home) as harness:
        await harness.send("hello")

    [turn] = document()[1]["turns"]
    assert turn["outcome"] == "delivered"
    assert "no such model for" in turn["why"] and "spare" in turn["why"] and "tulip" not in turn["why"]


async def test_a_turn_log_of_an_earlier_version_ends_a_failed_turn(home):
    config = {"plugins": {"slots": {"turnLog": "earlier"}}}
    async with Harness(
        FakeProvider(REFUSED), config=config, plugins={"earlier": EarlierPlugin()}, home=home
    ) as harness:
        with pytest.raises(ProviderError):
            await harness.send("hello")
        assert harness.app.runtime.turn_log.ends == ["failed"]


class EarlierPlugin:
    @hookimpl
    def register_turn_logs(self, config):
        return [EarlierLog()]


class EarlierLog:
    """A turn log whose ``ended`` has no parameter ``why``."""

    name = "earlier"

    def __init__(self):
        self.ends = []

    def began(self, turn, session_key, numbers, again=False):
        return None

    def joined(self, turn, number):
        return None

    def once(self, turn, call):
        return True

    def not_begun(self, turn, call):
        return None

    def ended(self, turn, outcome, replies=(), more=()):
        self.ends.append(outcome)


def test_a_state_file_of_an_earlier_version_is_listed_and_gets_causes(home):
    with sqlite3.connect(home / "state.db") as old:
        old.execute(
            "CREATE TABLE turns (turn TEXT PRIMARY KEY, session_key TEXT NOT NULL, began_at_ms INTEGER NOT NULL,"
            " ended_at_ms INTEGER, outcome TEXT) WITHOUT ROWID"
        )
        old.execute(
            "INSERT INTO turns VALUES ('t1', 'agent:default:main', 1789999999000, 1789999999500, 'failed')"
        )
    old.close()
    with journal_of(home) as journal:
        journal.began("t2", "agent:default:main")
        journal.ended("t2", "failed", why="no model answered")

    assert {turn["turn"]: turn["why"] for turn in document()[1]["turns"]} == {
        "t1": "",
        "t2": "no model answered",
    }
