"""deaths: the plugin that takes the process with it is found."""

import os
import subprocess
import sys

from claw.clock import Clock
from claw.deaths import Deaths


def test_a_process_that_dies_while_a_plugin_loads_leaves_its_name(tmp_path):
    script = f"""
import os
from pathlib import Path
from claw.deaths import Deaths
with Deaths(Path({str(tmp_path)!r})).starting("bomb"):
    os._exit(7)
"""
    for count in (1, 2):
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7
        assert Deaths(tmp_path).culprits() == {"bomb": count}
    assert Deaths(tmp_path).culprits() == {"bomb": 2}


def test_a_plugin_that_loads_or_raises_is_no_culprit(tmp_path):
    deaths = Deaths(tmp_path)
    with deaths.starting("good"):
        pass
    try:
        with deaths.starting("bad"):
            raise SystemExit
    except SystemExit:
        pass

    assert deaths.culprits() == {}


def test_a_death_is_forgotten_after_a_day_and_when_the_operator_says_so(tmp_path):
    now = [1000.0]
    deaths = Deaths(tmp_path, Clock(now=lambda: now[0]))
    (tmp_path / f".starting-{os.getpid()}").write_text("bomb")
    assert deaths.culprits() == {"bomb": 1}

    now[0] += 25 * 3600
    assert deaths.culprits() == {"bomb": 0}
    deaths.forgive("bomb")
    assert deaths.culprits() == {}


def test_a_garbled_book_is_an_empty_one(tmp_path):
    (tmp_path / ".deaths.json").write_bytes(b"\xff{")
    os.mkdir(tmp_path / ".starting-none")

    assert Deaths(tmp_path).culprits() == {}


def test_a_plugin_that_another_process_loads_just_now_is_no_culprit(tmp_path):
    (tmp_path / f".starting-{os.getppid()}").write_text("slow")

    assert Deaths(tmp_path).culprits() == {}
