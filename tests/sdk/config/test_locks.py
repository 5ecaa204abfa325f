"""Locks between processes: one holder, named by its pid, until it ends."""

import os
import subprocess
import sys

import pytest
from claw.contracts.errors import BusyError
from claw_config_sdk import Lock


def test_a_second_taker_of_a_lock_learns_the_pid_of_the_first(tmp_path):
    first, second = (
        Lock(tmp_path / "x.lock", "process {pid} is in there", "Wait", where="the bathroom") for _ in "12"
    )
    first.take()

    with pytest.raises(BusyError) as error:
        second.take()
    assert error.value.pid == os.getpid()
    assert str(error.value) == f"the bathroom: process {os.getpid()} is in there. Wait"

    first.free()
    second.take()
    assert second.held
    second.close()
    first.close()


@pytest.mark.parametrize("content", ["", '{"pid": 999999}', "99999999999999999999999999 and more\n"])
def test_an_old_lock_file_changes_nothing(tmp_path, content):
    file = tmp_path / "x.lock"
    file.write_text(content)
    lock = Lock(file)
    lock.take()

    assert lock.held
    lock.close()


def test_a_lock_is_freed_when_its_process_is_killed(tmp_path):
    holding = (
        "import sys, time, pathlib; from claw_config_sdk import Lock; Lock(pathlib.Path(sys.argv[1])).take();"
        "print('held', flush=True); time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", holding, str(tmp_path / "x.lock")], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"held\n"
    mine = Lock(tmp_path / "x.lock")
    with pytest.raises(BusyError) as error:
        mine.take()
    assert error.value.pid == child.pid

    child.kill()
    child.wait()
    child.stdout.close()
    mine.take()
    assert mine.held
    mine.close()
