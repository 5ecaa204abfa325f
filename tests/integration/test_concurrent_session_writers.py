"""Many processes write into one conversation and are killed while they do: it stays a log that all of them agree on.

What the checker lets pass is tried first: histories that no log could have had.
"""

import pytest
from rigs.linear import Append, History, Read, digest_of, faults
from rigs.writers import history

WRITERS, KILLS, OPERATIONS = 8, 16, 40
FULL_HISTORIES, FULL_KILLS, FULL_OPERATIONS = 200, 40, 125

LOG = ("a", "b", "c")
GOOD = History(
    appends=(Append("a", 0, 2), Append("b", 1, 3), Append("c", 4, 6), Append("died", 5)),
    reads=(
        Read(0, digest_of([]), 0, 1.5),
        Read(2, digest_of("ab"), 2, 5),
        Read(2, digest_of("ab"), 4.5, 5.5),
        Read(3, digest_of("abc"), 5.2, 7),
    ),
    log=LOG,
)


def only(appends=GOOD.appends, reads=GOOD.reads, log=LOG):
    """Return the kinds of errors in a history, each once."""
    return {fault.partition(":")[0] for fault in faults(History(appends, reads, log))}


def test_a_good_history_has_no_fault_and_an_append_that_died_may_be_there_or_not():
    assert faults(GOOD) == []
    assert only(log=(*LOG, "died")) == set()


def test_two_at_the_same_time_may_be_in_either_order():
    assert only(reads=(), log=("b", "a", "c")) == set()


def test_what_was_acknowledged_and_is_not_there_is_lost():
    assert only(reads=(), log=("a", "b")) == {"lost"}


@pytest.mark.parametrize("log", [(*LOG, "a"), (*LOG, "died", "died")])
def test_what_is_there_twice_is_a_fault_acknowledged_or_not(log):
    assert "twice" in only(reads=(), log=log)


def test_what_nobody_wrote_is_invented():
    assert only(log=(*LOG, "x")) == {"invented"}


def test_who_began_when_another_had_ended_follows_it():
    assert only(reads=(), log=("a", "c", "b")) == {"back in time"}


def test_a_read_sees_the_beginning_of_the_log_and_nothing_else():
    for seen in (["b"], ["a", "c"], ["b", "a"], ["a", "b", "c", "d"]):
        assert "no beginning" in only(reads=(Read(len(seen), digest_of(seen), 0, 9),))


def test_a_read_sees_all_that_had_ended_when_it_began():
    assert only(reads=(Read(1, digest_of("a"), 3.5, 9),)) == {"back in time"}


def test_a_read_sees_nothing_that_began_when_it_had_ended():
    assert only(reads=(Read(3, digest_of("abc"), 2.5, 3.5),)) == {"back in time"}


def test_a_later_read_sees_no_less_than_an_earlier_one():
    slow = (Append("a", 0, 2), Append("b", 1, 3), Append("c", 4, 20))
    more, less = Read(3, digest_of("abc"), 5, 6), Read(2, digest_of("ab"), 7, 8)
    assert only(appends=slow, reads=(more, less)) == {"back in time"}
    assert only(appends=slow, reads=(less, Read(3, digest_of("abc"), 9, 10))) == set()


@pytest.mark.timeout(7200)
async def test_eight_processes_that_die_while_they_write_keep_one_log(tmp_path, full, record_property):
    done = appends = reads = 0
    for seed in range(FULL_HISTORIES if full else 1):
        home, notes = tmp_path / f"home{seed}", tmp_path / f"notes{seed}"
        home.mkdir()
        notes.mkdir()
        kills, operations = (FULL_KILLS, FULL_OPERATIONS) if full else (KILLS, OPERATIONS)
        seen = await history(home, notes, seed, WRITERS, operations, kills)
        assert faults(seen) == [], f"history {seed}"
        done, appends, reads = done + 1, appends + len(seen.appends), reads + len(seen.reads)
    assert appends > 100
    assert reads > 50
    record_property("log of many", f"{done} histories, {appends} appends, {reads} reads, 0 faults")
