"""isolation: third-party code within limits."""

import asyncio
import builtins  # noqa: F401 - of code in the table
import gc
import json
import os
import signal
import sys
import time

import pytest
from claw.host.isolation import describe_exception, function_ids, run_bounded
from claw.policy.engine import judge_tools


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


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("sys.path.clear()", "sys.path"),
        ("sys.path = []", "sys.path"),
        ("sys.meta_path.clear()", "sys.meta_path"),
        ("sys.path_hooks = None", "sys.path_hooks"),
        ("sys.modules.clear()", "sys.modules"),
        ("json.dumps = None", "json.dumps"),
        ("json.loads = lambda text: {}", "json.loads"),
        ("del builtins.open", "builtins.open"),
        ("asyncio.run = None", "asyncio.run"),
    ],
)
def test_what_python_itself_needs_is_put_back_and_named(code, named):
    before, paths, undone = dict(sys.modules), [*sys.path], []
    kept = sys.path, sys.meta_path, sys.path_hooks, json.dumps, json.loads, open, asyncio.run

    run_bounded(lambda: exec(code), 1, undone=undone.append)

    assert undone == [named]
    assert kept == (sys.path, sys.meta_path, sys.path_hooks, json.dumps, json.loads, open, asyncio.run)
    assert sys.path == paths
    assert sys.modules.keys() >= before.keys()


def test_what_it_adds_to_the_import_paths_and_to_asyncio_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(asyncio, "run", asyncio.run)
    undone = []

    run_bounded(lambda: sys.path.insert(0, str(tmp_path)), 1, undone=undone.append)
    run_bounded(lambda: setattr(asyncio, "run", print), 1, undone=undone.append)

    assert sys.path[0] == str(tmp_path)
    assert asyncio.run is print
    assert undone == []


def test_an_exception_that_cannot_say_itself_has_a_name():
    class Odd(Exception):
        def __str__(self):
            raise RuntimeError("again")

    assert describe_exception(Odd()) == "Odd"
    assert describe_exception(KeyError("x")) == "KeyError: 'x'"
    assert sys.exc_info() == (None, None, None)


def test_the_functions_are_listed_while_a_finalizer_adds_a_module(monkeypatch):
    class Importing:
        def __del__(self):
            monkeypatch.setitem(sys.modules, "added_by_a_finalizer", sys)

    before = gc.get_threshold()
    try:
        gc.collect()
        gc.set_threshold(50)
        found = Importing()
        found.itself = found
        del found
        assert f"{judge_tools.__module__}:judge_tools" in function_ids()
    finally:
        gc.set_threshold(*before)
