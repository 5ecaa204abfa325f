"""health: the failures of plugins, for every process of a home."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from claw.host.health import CRASHED, FAILED, HUNG, NOTED, LoadFailure, PluginHealth, files_digest
from claw.host.manifest import InstalledPlugin
from claw.host.state import failure_fix

BOOM = LoadFailure("boom", FAILED, "import", "RuntimeError: no luck")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "claw-home" / "plugins"


@pytest.fixture
def bomb(tmp_path: Path) -> InstalledPlugin:
    package = tmp_path / "bomb"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1")
    return InstalledPlugin("bomb", "bomb", "claw-plugin-bomb", "1.0", package)


def crash(folder: Path) -> None:
    """A process that dies while it loads ``bomb``."""
    script = f"""
import os
from pathlib import Path
from claw.host.health import PluginHealth
with PluginHealth(Path({str(folder)!r})).guard("bomb"):
    os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7


def test_what_one_process_records_another_reads(folder):
    PluginHealth(folder).record(BOOM)

    [[read]] = PluginHealth(folder).failures().values()
    assert (read.plugin, read.kind, read.stage, read.cause) == ("boom", FAILED, "import", BOOM.cause)
    assert read.run == os.getpid()


def test_a_cause_with_a_lone_surrogate_is_recorded(folder):
    PluginHealth(folder).record(replace(BOOM, cause="no file \udcff"))

    assert PluginHealth(folder).failures()["boom"][0].cause == "no file \ufffd"


def test_a_home_without_failures_stays_as_it_is(folder):
    health = PluginHealth(folder)

    assert health.failures() == {}
    health.clear("boom")
    health.reset("boom")

    assert not folder.parent.exists()


def test_a_success_clears_the_record(folder):
    PluginHealth(folder).record(BOOM)
    PluginHealth(folder).clear("boom")

    assert PluginHealth(folder).failures() == {}


def causes(folder: Path) -> list[str]:
    return [one.cause for one in PluginHealth(folder).failures().get("boom", ())]


def noted(cause: str) -> LoadFailure:
    return LoadFailure("boom", NOTED, "register", cause)


def test_every_part_that_cannot_be_used_is_recorded_until_a_load_without_it(folder):
    PluginHealth(folder).record(noted("one"), noted("two"))
    assert causes(folder) == ["one", "two"]

    PluginHealth(folder).record(noted("two"))
    assert causes(folder) == ["two"]

    PluginHealth(folder).clear("boom")
    assert causes(folder) == []


def test_a_failure_at_run_is_recorded_beside_the_parts_that_cannot_be_used(folder):
    PluginHealth(folder).record(noted("one"))
    PluginHealth(folder).record(replace(BOOM, stage="run", cause="it ran"))
    assert causes(folder) == ["it ran", "one"]

    PluginHealth(folder).record(noted("one"))  # it was loaded again
    assert causes(folder) == ["one"]


def test_a_plugin_that_does_not_load_any_more_has_the_cause_of_that_alone(folder):
    PluginHealth(folder).record(noted("one"))
    PluginHealth(folder).record(BOOM)

    assert causes(folder) == [BOOM.cause]


def test_changed_files_end_a_failure(bomb):
    failure = replace(BOOM, digest=files_digest(bomb))
    assert failure.holds_for(bomb)

    (bomb.folder / "__init__.py").write_text("x = 1  # repaired")
    assert not failure.holds_for(bomb)


def test_a_failure_at_run_lasts_as_long_as_its_process(bomb, folder):
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    failure = replace(BOOM, stage="run", digest=files_digest(bomb), run=other.pid)
    PluginHealth(folder).record(failure)

    PluginHealth(folder).clear("boom")
    assert PluginHealth(folder).failures()["boom"][0].holds_for(bomb)
    other.communicate()
    assert not PluginHealth(folder).failures()["boom"][0].holds_for(bomb)
    PluginHealth(folder).clear("boom")
    assert PluginHealth(folder).failures() == {}


def test_only_a_hang_and_the_second_crash_prevent_loading_and_for_a_day():
    hung, crashed = replace(BOOM, kind=HUNG, at=1000.0), replace(BOOM, kind=CRASHED, at=1000.0)

    assert not BOOM.prevents_loading(BOOM.at)
    assert not crashed.prevents_loading(1001.0)
    for failure in (hung, replace(crashed, times=2)):
        assert failure.prevents_loading(1001.0)
        assert not failure.prevents_loading(1000.0 + 25 * 3600)


def test_only_a_failure_that_prevents_loading_says_when_the_plugin_is_loaded_again(bomb):
    part = replace(BOOM, kind=NOTED, stage="run", values={"name": "before", "why": "late"})
    again = "it is loaded again after a day"

    assert again in failure_fix(bomb, replace(BOOM, kind=HUNG))
    assert again in failure_fix(bomb, replace(BOOM, kind=CRASHED, times=2))
    for failure in (BOOM, part, replace(BOOM, kind=CRASHED)):
        assert again not in failure_fix(bomb, failure)


ENDS = {
    "os._exit": "os._exit(7)",
    "an exit imported by name": "from os import _exit; _exit(7)",
    "os.abort": "os.abort()",
    "a fault in C code": "import ctypes; ctypes.string_at(0)",
}
NOT_ITS_END = {
    "kill -9": "os.kill(os.getpid(), 9)",
    "SIGTERM": "os.kill(os.getpid(), 15)",
    "an interrupt": "import signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)",
    "claw's own exit": "import posix; posix._exit(7)",
    "a forked child that exits": "(os.fork() or os._exit(7)) and os.wait() and os.kill(os.getpid(), 9)",
}


def die(folder: Path, code: str) -> None:
    """Run a process that dies by ``code`` while it loads ``bomb``."""
    script = f"""
import os
from pathlib import Path
from claw.host.health import PluginHealth
with PluginHealth(Path({str(folder)!r})).guard("bomb"):
    {code}
"""
    ran = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True)
    assert ran.returncode, ran.stderr


@pytest.mark.parametrize("end", ENDS)
def test_a_process_that_a_plugin_ends_is_a_crash_of_the_plugin(folder, bomb, end):
    die(folder, ENDS[end])

    assert PluginHealth(folder).failures()["bomb"][0].kind == CRASHED
    PluginHealth(folder).count_crashes({"bomb": bomb})
    assert PluginHealth(folder).failures()["bomb"][0].times == 1


@pytest.mark.parametrize("end", NOT_ITS_END)
def test_a_process_that_is_ended_while_a_plugin_loads_says_nothing_about_the_plugin(folder, bomb, end):
    for _ in range(3):
        die(folder, NOT_ITS_END[end])

        assert PluginHealth(folder).failures() == {}
        PluginHealth(folder).count_crashes({"bomb": bomb})
    assert PluginHealth(folder).failures() == {}
    assert not list(folder.glob(".starting-*"))


def test_after_a_plugin_is_loaded_its_exit_is_no_crash_of_loading(folder, bomb):
    script = f"""
import os
from pathlib import Path
from claw.host.health import PluginHealth
with PluginHealth(Path({str(folder)!r})).guard("bomb"):
    from os import _exit
with PluginHealth(Path({str(folder)!r})).guard("other"):
    pass
_exit(7)
"""
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 7
    assert PluginHealth(folder).failures() == {}


def test_a_process_that_dies_while_a_plugin_loads_is_a_crash_of_it(folder, bomb):
    for count in (1, 2):
        crash(folder)
        assert (
            PluginHealth(folder).failures()["bomb"][0].times == count
        )  # a reader sees it before it is recorded
        PluginHealth(folder).count_crashes({"bomb": bomb})
        assert PluginHealth(folder).failures()["bomb"][0].times == count
    assert PluginHealth(folder).failures()["bomb"][0].prevents_loading(time.time())


@pytest.mark.parametrize("happens", ["a success", "other files", "a day"])
def test_crashes_count_in_a_row(folder, bomb, happens):
    now = [1000.0]
    health = PluginHealth(folder, now=lambda: now[0])
    crash(folder)
    health.count_crashes({"bomb": bomb})

    if happens == "a success":
        health.clear("bomb")
    elif happens == "other files":
        (bomb.folder / "__init__.py").write_text("x = 1234")
    else:
        now[0] += 25 * 3600
    crash(folder)
    health.count_crashes({"bomb": bomb})

    assert health.failures()["bomb"][0].times == 1


def test_a_plugin_that_loads_or_raises_is_no_crash(folder):
    health = PluginHealth(folder)
    with health.guard("good"):
        assert PluginHealth(folder).failures() == {}  # a process that loads it just now
    with pytest.raises(SystemExit), health.guard("bad"):
        raise SystemExit

    assert health.failures() == {}


def test_a_plugin_that_another_process_loads_just_now_is_no_crash(folder):
    folder.mkdir(parents=True)
    (folder / f".starting-{os.getppid()}").write_text("slow")

    assert PluginHealth(folder).failures() == {}


def test_state_that_cannot_be_read_or_written_stops_nothing(folder, bomb):
    (folder / "state.db").mkdir(parents=True)
    (folder.parent / "state.db").mkdir()
    (folder / ".starting-none").mkdir()
    health = PluginHealth(folder)

    health.record(BOOM)
    health.count_crashes({"bomb": bomb})
    health.clear("boom")

    assert health.failures() == {}


def test_a_damaged_state_has_no_failures(folder):
    folder.mkdir(parents=True)
    (folder.parent / "state.db").write_bytes(b"\xff{" * 600)

    assert PluginHealth(folder).failures() == {}
