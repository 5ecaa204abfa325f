"""One sound turn log, and for each promise a twin that breaks it and no other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from claw import Inbound
from claw.runtime import Database
from pytest_claw import TurnLogSuite

TABLES = (
    "CREATE TABLE IF NOT EXISTS log_calls (turn TEXT, call TEXT, PRIMARY KEY (turn, call))",
    "CREATE TABLE IF NOT EXISTS log_ends (turn TEXT PRIMARY KEY, outcome TEXT)",
    "CREATE TABLE IF NOT EXISTS log_messages (id TEXT PRIMARY KEY)",
)


class Log:
    """Calls, ends and messages in three tables."""

    name = "log"

    def __init__(self, folder: Path) -> None:
        self.database = Database(folder / "state.db")
        self.database.tables("log", *TABLES)

    def began(self, turn: str, session_key: str, numbers: Sequence[int], again: bool = False) -> None:
        return None

    def joined(self, turn: str, number: int) -> None:
        return None

    def once(self, turn: str, call: str) -> bool:
        return self.database.write("INSERT OR IGNORE INTO log_calls VALUES (?, ?)", turn, call) == 1

    def not_begun(self, turn: str, call: str) -> None:
        self.database.write("DELETE FROM log_calls WHERE turn = ? AND call = ?", turn, call)

    def ended(
        self, turn: str, outcome: str, replies: Sequence[Any] = (), more: Sequence[Any] = (), why: str = ""
    ) -> None:
        self.database.write_all(("INSERT INTO log_ends VALUES (?, ?)", (turn, outcome)), *more)

    def is_over(self, turn: str) -> bool:
        return bool(self.database.read("SELECT 1 FROM log_ends WHERE turn = ?", turn))

    def is_repeat(self, inbound: Inbound) -> bool:
        return self.database.write("INSERT OR IGNORE INTO log_messages VALUES (?)", inbound.message_id) == 0


class TestSound(TurnLogSuite):
    kind: type[Log] = Log
    breaks = ""

    def make(self, folder: Path) -> Any:
        return self.kind(folder)


class Nameless(Log):
    name = ""


class TestHasNoName(TestSound):
    kind, breaks = Nameless, "test_it_has_the_members_of_its_hook"


class Global(Log):
    """Knows a call by its id alone; ids of calls repeat from turn to turn."""

    def once(self, turn: str, call: str) -> bool:
        known = self.database.read("SELECT 1 FROM log_calls WHERE call = ?", call)
        return super().once(turn, call) and not known


class TestKnowsCallsWithoutTheirTurn(TestSound):
    kind, breaks = Global, "test_a_call_runs_once"


class Clearing(Log):
    def not_begun(self, turn: str, call: str) -> None:
        self.database.write("DELETE FROM log_calls WHERE turn = ?", turn)


class TestForgetsTheWholeTurn(TestSound):
    kind, breaks = Clearing, "test_a_call_that_waits_for_a_person_may_run_later"


class Fresh(Log):
    """A turn that begins again forgets its calls."""

    def began(self, turn: str, session_key: str, numbers: Sequence[int], again: bool = False) -> None:
        if again:
            self.database.write("DELETE FROM log_calls WHERE turn = ?", turn)


class TestForgetsCallsAtARestart(TestSound):
    kind, breaks = Fresh, "test_a_restart_knows_the_calls_that_began"


class Rash(Log):
    """Any turn is over once one of them ended; a log that was opened again knows it well."""

    last = ""

    def ended(
        self, turn: str, outcome: str, replies: Sequence[Any] = (), more: Sequence[Any] = (), why: str = ""
    ) -> None:
        super().ended(turn, outcome, replies, more)
        self.last = turn

    def is_over(self, turn: str) -> bool:
        return bool(self.last) or super().is_over(turn)


class TestEndsAllTurns(TestSound):
    kind, breaks = Rash, "test_a_turn_is_over_once_it_ended"


class Mortal(Log):
    """Knows the ends of this process only."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.database.write("DELETE FROM log_ends")


class TestForgetsEndsAtARestart(TestSound):
    kind, breaks = Mortal, "test_a_restart_knows_the_turns_that_ended"


class Selfish(Log):
    """Runs one statement of others and leaves out the rest."""

    def ended(
        self, turn: str, outcome: str, replies: Sequence[Any] = (), more: Sequence[Any] = (), why: str = ""
    ) -> None:
        super().ended(turn, outcome, replies, more[-1:])


class TestLeavesOutStatements(TestSound):
    kind, breaks = Selfish, "test_the_end_of_a_turn_commits_the_statements_of_others"


class Stepwise(Log):
    def ended(
        self, turn: str, outcome: str, replies: Sequence[Any] = (), more: Sequence[Any] = (), why: str = ""
    ) -> None:
        super().ended(turn, outcome, replies)
        self.database.write_all(*more)


class TestCommitsTwice(TestSound):
    kind, breaks = Stepwise, "test_the_end_of_a_turn_is_one_commit"


class Terse(Log):
    """Takes no cause."""

    def ended(  # type: ignore[override]
        self, turn: str, outcome: str, replies: Sequence[Any] = (), more: Sequence[Any] = ()
    ) -> None:
        super().ended(turn, outcome, replies, more)


class TestTakesNoCause(TestSound):
    kind, breaks = Terse, "test_the_end_of_a_turn_takes_its_cause"


class Rigid(Log):
    """Refuses a message that joins a turn."""

    def joined(self, turn: str, number: int) -> None:
        raise ValueError("this turn has begun")


class TestTakesUpNoMessage(TestSound):
    kind, breaks = Rigid, "test_a_turn_may_begin_again_and_take_up_messages"


class Deaf(Log):
    def is_repeat(self, inbound: Inbound) -> bool:
        return False


class TestKnowsNoMessage(TestSound):
    kind, breaks = Deaf, "test_a_message_that_comes_twice_is_known"
