"""Conformance tests of a turn log."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from claw import Address, Inbound, Outbound, Sender

from pytest_claw.hook import HookSuite

TURN, SESSION = "turn-1", "agent:default:main"
_HELLO = Inbound(Address("fake", "chat-1"), "hello", Sender("u1"), message_id="m1", event_id="e1")
_REPLY = Outbound(f"{TURN}:0", Address("fake", "chat-1"), "Good day.")
_WRITE = "INSERT INTO suite VALUES (?)"


class TurnLogSuite(HookSuite):
    """The promises of a turn log. ``make`` is yours: it opens ``state.db`` in its folder (``claw.runtime.Database``).

    :cvar durable: it remembers what the process before wrote.
    """

    members = ("began", "joined", "once", "not_begun", "ended")
    durable = True

    def test_a_call_runs_once(self, subject: Any) -> None:
        subject.began(TURN, SESSION, ())
        assert subject.once(TURN, "call-1") is True
        assert subject.once(TURN, "call-1") is False, "the same call of the same turn"
        assert subject.once(TURN, "call-2") is True, "another call"
        subject.began("turn-2", SESSION, ())
        assert subject.once("turn-2", "call-1") is True, "the same call of another turn"

    def test_a_call_that_waits_for_a_person_may_run_later(self, subject: Any) -> None:
        subject.began(TURN, SESSION, ())
        subject.once(TURN, "call-1")
        subject.once(TURN, "call-2")
        subject.not_begun(TURN, "call-1")
        assert subject.once(TURN, "call-1") is True
        assert subject.once(TURN, "call-2") is False, "only that call is forgotten"

    def test_a_restart_knows_the_calls_that_began(self, subject: Any, tmp_path: Path) -> None:
        self._needs_durability()
        subject.began(TURN, SESSION, ())
        subject.once(TURN, "call-1")
        again = self.make(tmp_path)
        again.began(TURN, SESSION, (), again=True)
        assert again.once(TURN, "call-1") is False, "after a crash the call would run a second time"
        assert again.once(TURN, "call-2") is True

    def test_a_turn_is_over_once_it_ended(self, subject: Any) -> None:
        self._needs(subject, "is_over")
        subject.began(TURN, SESSION, ())
        subject.began("turn-2", SESSION, ())
        assert subject.is_over(TURN) is False
        subject.ended(TURN, "delivered")
        assert subject.is_over(TURN) is True
        assert subject.is_over("turn-2") is False, "another turn still runs"

    def test_a_restart_knows_the_turns_that_ended(self, subject: Any, tmp_path: Path) -> None:
        self._needs(subject, "is_over")
        self._needs_durability()
        for turn in (TURN, "turn-2"):
            subject.began(turn, SESSION, ())
        subject.ended(TURN, "delivered", (_REPLY,))
        again = self.make(tmp_path)
        assert again.is_over(TURN) is True, "a turn that was answered would be resumed"
        assert again.is_over("turn-2") is False, "a turn that a crash cut off would not be resumed"

    def test_the_end_of_a_turn_commits_the_statements_of_others(self, subject: Any, tmp_path: Path) -> None:
        rows = self._table(tmp_path)
        subject.began(TURN, SESSION, ())
        subject.ended(TURN, "delivered", (_REPLY,), ((_WRITE, (1,)), (_WRITE, (2,))))
        assert rows() == [1, 2]

    def test_the_end_of_a_turn_is_one_commit(self, subject: Any, tmp_path: Path) -> None:
        rows = self._table(tmp_path)
        subject.began(TURN, SESSION, ())
        with pytest.raises(Exception, match=r".*"):
            subject.ended(
                TURN, "delivered", (), ((_WRITE, (1,)), ("INSERT INTO no_such_table VALUES (1)", ()))
            )
        assert rows() == [], "a statement of a commit that failed is there"
        if hasattr(subject, "is_over"):
            assert subject.is_over(TURN) is False, "the turn ended without its statements"

    def test_a_turn_may_begin_again_and_take_up_messages(self, subject: Any) -> None:
        subject.began(TURN, SESSION, (1, 2))
        subject.joined(TURN, 3)
        subject.began(TURN, SESSION, (1, 2, 3), again=True)
        subject.ended(TURN, "failed")

    def test_the_end_of_a_turn_takes_its_cause(self, subject: Any) -> None:
        subject.began(TURN, SESSION, ())
        subject.ended(TURN, "failed", (), (), "no model answered")

    def test_a_message_that_comes_twice_is_known(self, subject: Any) -> None:
        self._needs(subject, "is_repeat")
        assert subject.is_repeat(_HELLO) is False
        assert subject.is_repeat(_HELLO) is True
        assert subject.is_repeat(replace(_HELLO, message_id="m2", event_id="e2")) is False, "another message"

    def _needs_durability(self) -> None:
        if not self.durable:
            pytest.skip("it knows the turns of this process only")

    def _needs(self, subject: Any, method: str) -> None:
        if not hasattr(subject, method):
            pytest.skip(f"it has no {method}")

    def _table(self, folder: Path) -> Any:
        """Make a table in ``state.db``; return a function that reads it."""

        def asked(sql: str) -> list[Any]:
            with sqlite3.connect(folder / "state.db", timeout=5, isolation_level=None) as connection:
                found = [row[0] for row in connection.execute(sql)]
            connection.close()
            return found

        asked("CREATE TABLE suite (number INTEGER)")
        return lambda: asked("SELECT number FROM suite ORDER BY number")
