"""isolation: third-party code within limits."""

import os
import signal
import sys
import time

import pytest
from claw.host.isolation import describe_exception, run_bounded


def test_the_answer_comes_back():
    assert run_bounded(lambda: 42, 1) == 42


@pytest.mark.parametrize("kind", [RuntimeError, SystemExit, KeyboardInterrupt, RecursionError])
def test_whatever_is_raised_comes_through_as_it_is(kind):
    def raising():
        raise kind("x")

    with pytest.raises(kind):
        run_bounded(raising, 1)


def test_what_hangs_is_left_behind():
    with pytest.raises(TimeoutError, match="did not come back"):
        run_bounded(lambda: time.sleep(5), 0.05)


def test_what_it_prints_does_not_reach_the_person(capsys):
    run_bounded(lambda: print("x" * 1_000_000), 5)

    assert capsys.readouterr().out == ""


def test_the_working_folder_is_put_back(tmp_path):
    before = os.getcwd()

    run_bounded(lambda: os.chdir(tmp_path), 1)

    assert os.getcwd() == before


def test_signals_stay_claw_s():
    before = signal.getsignal(signal.SIGTERM)

    run_bounded(lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN), 1)

    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.signal(signal.SIGTERM, before) == before  # and it can be set again


def test_an_exception_that_cannot_say_itself_has_a_name():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("again")

    assert describe_exception(Odd()) == "Odd"
    assert describe_exception(KeyError("x")) == "KeyError: 'x'"
    assert sys.exc_info() == (None, None, None)
