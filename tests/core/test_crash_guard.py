"""deaths: the plugin that takes the process with it is found."""

import os
import subprocess
import sys

from claw.host.crash_guard import CrashGuard
from claw.storage.clock import Clock


def test_a_process_that_dies_while_a_plugin_loads_leaves_its_name(tmp_path):
    script = f"""
import os
from pathlib import Path
from claw.host.crash_guard import CrashGuard
with CrashGuard(Path({str(tmp_path)!r})).guard("bomb"):
    os._exit(7)
"""
    for count in (1, 2):
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7
        assert CrashGuard(tmp_path).crash_counts() == {"bomb": count}
    assert CrashGuard(tmp_path).crash_counts() == {"bomb": 2}


def test_a_plugin_that_loads_or_raises_is_no_culprit(tmp_path):
    deaths = CrashGuard(tmp_path)
    with deaths.guard("good"):
        pass
    try:
        with deaths.guard("bad"):
            raise SystemExit
    except SystemExit:
        pass

    assert deaths.crash_counts() == {}


def test_a_death_is_forgotten_after_a_day_and_when_the_operator_says_so(tmp_path):
    now = [1000.0]
    deaths = CrashGuard(tmp_path, Clock(now=lambda: now[0]))
    (tmp_path / f".starting-{os.getpid()}").write_text("bomb")
    assert deaths.crash_counts() == {"bomb": 1}

    now[0] += 25 * 3600
    assert deaths.crash_counts() == {"bomb": 0}
    deaths.reset("bomb")
    assert deaths.crash_counts() == {}


def test_a_garbled_book_is_an_empty_one(tmp_path):
    (tmp_path / ".deaths.json").write_bytes(b"\xff{")
    os.mkdir(tmp_path / ".starting-none")

    assert CrashGuard(tmp_path).crash_counts() == {}


def test_a_plugin_that_another_process_loads_just_now_is_no_culprit(tmp_path):
    (tmp_path / f".starting-{os.getppid()}").write_text("slow")

    assert CrashGuard(tmp_path).crash_counts() == {}
