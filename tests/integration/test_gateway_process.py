"""The gateway as a process: one per home, started and stopped in good order, and true about itself when it was not."""

import json
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest
from claw import __version__
from claw.contracts.errors import BusyError
from claw_gateway.commands.gateway import is_unserved, status_lines
from claw_gateway.process.presence import gateway_pid, take_gateway_lock
from claw_gateway.process.status import (
    BROKEN,
    MOST_CRASHES,
    READY,
    STOPPED,
    GatewayRun,
    GatewayStatus,
    StatusRow,
    read_status,
    recent_crashes,
)
from integration.gateways import STUBBORN, Running, home, is_ready, until  # noqa: F401

SECRET = "hunter2-0123456789abcdef"


# --- started and stopped


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_any_channel_it_runs_says_how_to_add_one_and_stops_in_good_order(home, number):  # noqa: F811
    with Running(home) as running:
        code, out, err = running.end(number)

    assert (code, out) == (0, "")
    assert "ready after" in err and "no channel is configured" in err
    assert "claw config set channels.NAME.enabled true" in err
    assert "Traceback" not in err
    run = read_status(home.home).last_run
    assert run is not None and run.state == STOPPED and not run.ended_badly


def test_what_a_plugin_prints_is_not_on_stdout(home):  # noqa: F811
    home.with_channel(body="print('noise', flush=True)")
    with Running(home) as running:
        until(lambda: home.said("ready after"))
        time.sleep(0.2)
        code, out, _ = running.end()

    assert (code, out) == (0, "")


def test_it_raises_a_low_limit_of_open_files(home):  # noqa: F811
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        with Running(home) as running:
            limits = Path(f"/proc/{running.process.pid}/limits").read_text()
            running.end()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert int(line.split()[3]) == min(8192, hard)


def test_a_message_is_answered_and_the_channel_is_named_when_it_is_ready(home):  # noqa: F811
    home.with_channel()
    with Running(home) as running:
        home.says("what time is it?")
        until(home.answers)
        code, _, err = running.end()

    assert code == 0
    assert "ready after" in err and ": post" in err


def test_a_second_one_names_the_first_in_one_line(home):  # noqa: F811
    with Running(home) as running:
        second = home.claw("gateway", "run")

    assert second.code == 1
    assert f"process {running.process.pid}" in second.line


def test_the_commands_start_it_show_its_state_restart_it_and_stop_it(home):  # noqa: F811
    home.with_channel(
        body="self.state = ChannelState('waiting', 'the service is away', time.time(), 3, 'gone')"
    )

    started = home.claw("gateway", "start")
    pid = gateway_pid(home.home)
    assert (started.code, started.out) == (0, f"the gateway is ready: process {pid}\n")
    assert home.claw("gateway", "start").out == f"a gateway is already running: process {pid}\n"

    reported = json.loads(home.claw("gateway", "status", "--json").out)
    assert (reported["running"], reported["pid"], reported["state"], reported["stuck"]) == (
        True,
        pid,
        "ready",
        False,
    )
    until(lambda: "the service is away" in home.claw("gateway", "status").out)
    assert f"process {pid}" in home.claw("status").out
    shown = home.claw("channels", "status")
    assert shown.code == 0 and "waiting" in shown.out and "the service is away" in shown.out
    [channel] = json.loads(home.claw("channels", "status", "--json").out)["channels"]
    assert (channel["channel"], channel["account"], channel["plugin"]) == ("post", "default", "post")
    assert (channel["reconnects"], channel["lastError"]) == (3, "gone")

    again = home.claw("gateway", "restart")
    assert f"stopped: process {pid}" in again.out and gateway_pid(home.home) not in (None, pid)
    stopped = home.claw("gateway", "stop")
    assert (stopped.code, gateway_pid(home.home)) == (0, None)
    assert home.claw("gateway", "stop").code == 0

    none = home.claw("gateway", "status")
    assert (none.code, none.out) == (1, "gateway: not running\nclaw gateway start starts it\n")
    assert home.claw("channels", "status").code == 1


def test_a_channel_that_failed_is_a_finding_and_everything_it_says_is_reported(home):  # noqa: F811
    home.with_channel(body="self.state = ChannelState('failed', 'no token', 1_700_000_000.5, 2, 'gone')")
    with Running(home) as running:
        until(lambda: "no token" in home.claw("channels", "status").out)
        shown, reported = home.claw("channels", "status"), home.claw("channels", "status", "--json")
        assert home.claw("gateway", "status").code == 0, "the gateway itself is well"
        assert running.end()[0] == 0

    assert shown.code == reported.code == 1
    assert "h ago" in shown.out and "failed" in shown.out
    assert json.loads(reported.out)["channels"] == [{
        "channel": "post", "account": "default", "plugin": "post", "state": "failed", "detail": "no token",
        "lastFrameAt": 1_700_000_000.5, "reconnects": 2, "lastError": "gone",
    }]  # fmt: skip


def test_safe_mode_is_reported_with_the_way_out_of_it():
    safe = GatewayRun(7, socket.gethostname(), READY, 1.0, 1.0, {"safe": True})
    said = "\n".join(status_lines(GatewayStatus(7, safe, 1.0)))
    assert "safe mode: only claw's own plugins are used; claw gateway restart tries the others again" in said


def test_one_that_cannot_start_in_the_background_says_why_and_leaves_with_its_code(home):  # noqa: F811
    home.configured("agents: [")

    said = home.claw("gateway", "start")

    assert said.code == 3
    assert "config.yaml" in said.err and "Traceback" not in said.err
    assert gateway_pid(home.home) is None
    assert "config.yaml" in home.claw("gateway", "status").out


def test_where_the_last_words_cannot_be_kept_the_disk_is_named_and_no_internal_error(home):  # noqa: F811
    logs = home.home / "logs"
    logs.mkdir()
    logs.chmod(0o500)
    try:
        done = home.claw("gateway", "start", plain=True)
    finally:
        logs.chmod(0o700)
    assert "gateway.out: cannot write: Permission denied" in done.line and done.code == 1


def test_a_start_that_can_write_nothing_names_the_file_and_the_cause(home):  # noqa: F811
    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = subprocess.run(
        **home.command("gateway", "start"), capture_output=True, text=True, timeout=60, preexec_fn=full
    )
    assert (
        done.returncode == 1 and "gateway.out: cannot write: File too large. Free some space" in done.stderr
    )


@pytest.mark.parametrize(
    ("state", "quiet", "expected"),
    [
        ("failed", 0, True), ("waiting", None, True), ("waiting", 121, True), ("waiting", 119, False),
        ("starting", None, False), ("up", 10_000, False),
    ],
)  # fmt: skip
def test_a_channel_that_waits_for_a_moment_is_interrupted_and_for_longer_receives_nothing(
    state, quiet, expected
):
    heard = None if quiet is None else 1_800_000_000 - quiet
    assert is_unserved({"state": state, "lastFrameAt": heard}, 1_800_000_000) is expected


def test_a_gateway_that_is_another_version_than_what_is_installed_says_so():
    def reported(version):
        run = GatewayRun(7, socket.gethostname(), READY, 1.0, 1.0, {"version": version})
        return "\n".join(status_lines(GatewayStatus(7, run, 1.0)))

    assert f"it runs claw 0.0.9, but claw {__version__} is installed; claw gateway restart" in reported(
        "0.0.9"
    )
    assert "installed" not in reported(__version__)


def test_a_restart_with_a_file_that_no_start_would_take_stops_nothing(home):  # noqa: F811
    with Running(home) as running:
        home.configured("agents: [")

        said = home.claw("gateway", "restart")

        assert said.code == 3
        assert said.err.startswith("nothing was stopped") and "config.yaml" in said.err
        assert gateway_pid(home.home) == running.process.pid
        home.configured("plugins: {entries: {nobody: {required: true}}}")
        said = home.claw("gateway", "restart")
        assert said.code == 4 and "nobody" in said.err
        assert gateway_pid(home.home) == running.process.pid


def test_a_channel_that_does_not_let_go_does_not_hold_the_stop(home):  # noqa: F811
    home.with_channel(body=STUBBORN)
    with Running(home) as running:
        began = time.monotonic()
        code, _, _ = running.end()

    assert code == 0
    assert time.monotonic() - began < 15.5


def test_a_second_signal_ends_it_at_once_even_when_a_channel_blocks_the_loop(home):  # noqa: F811
    home.with_channel(body="await asyncio.sleep(0.7); (self.folder / 'blocked').touch(); time.sleep(60)")
    with Running(home) as running:
        until((home.root / "post" / "blocked").exists)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(1.2)
        assert running.process.poll() is None
        code, _, _ = running.end(signal.SIGTERM)

    assert code == 128 + signal.SIGTERM


def test_a_stop_that_is_said_twice_at_once_is_one_and_ends_in_good_order(home):  # noqa: F811
    home.with_channel()
    with Running(home) as running:
        running.process.send_signal(signal.SIGTERM)
        code, _, _ = running.end(signal.SIGTERM)

    assert code == 0
    run = read_status(home.home).last_run
    assert run is not None and not run.ended_badly


# --- died


def test_one_that_was_killed_is_out_of_the_way_at_once_and_the_next_one_reports_it(home):  # noqa: F811
    with Running(home) as running:
        code, _, _ = running.end(signal.SIGKILL)

    assert (code, gateway_pid(home.home)) == (-signal.SIGKILL, None)
    said = home.claw("gateway", "status")
    assert said.code == 1 and f"process {running.process.pid}" in said.out
    with Running(home):
        assert home.said("did not exit cleanly")


def test_stop_now_kills(home):  # noqa: F811
    with Running(home) as running:
        said = home.claw("gateway", "stop", "--now")
        running.process.wait(timeout=5)

    assert (said.code, running.process.returncode) == (0, -signal.SIGKILL)


def test_after_three_crashes_in_ten_minutes_it_starts_without_the_plugins_of_others(home):  # noqa: F811
    home.with_channel()
    for state in (READY, BROKEN, READY):
        board = StatusRow(home.home)
        board.begin()
        board.write(state, {})
        board.close()

    with Running(home) as running:
        assert home.said("safe mode")
        status = json.loads(home.claw("gateway", "status", "--json").out)
        assert (status["safe"], [one["state"] for one in status["channels"]]) == (True, ["failed"])
        assert "safe mode" in status["channels"][0]["detail"]
        running.end()
    with Running(home):  # it was stopped in good order: all plugins again
        status = json.loads(home.claw("gateway", "status", "--json").out)
        assert (status["safe"], [one["channel"] for one in status["channels"]]) == (False, ["post"])


def test_kills_set_no_plugin_aside(home):  # noqa: F811
    home.with_channel()
    for _ in range(MOST_CRASHES + 1):
        with Running(home) as running:
            running.end(signal.SIGKILL)

    with Running(home):
        assert home.said("did not exit cleanly")
        status = json.loads(home.claw("gateway", "status", "--json").out)
        assert (status["safe"], [one["state"] for one in status["channels"]]) == (False, ["up"])


def test_every_command_names_the_plugins_that_a_gateway_in_safe_mode_runs_without(home):  # noqa: F811
    home.with_channel()
    with Running(home, "--safe") as running:
        home.claw("tools", "list")  # another process loads them
        said = {words: home.claw(*words) for words in (("plugins", "list"), ("status",), ("doctor",))}
        for words, one in said.items():
            [line] = [line for line in (one.out + one.err).splitlines() if "in safe mode, without it" in line]
            assert "post" in line and f"process {running.process.pid}" in line, words
            assert "claw gateway restart" in line, words
        assert said["doctor",].code == 1
        running.end()
    assert "safe mode" not in home.claw("plugins", "list").out


def test_a_plugin_that_ends_the_process_while_it_runs_does_so_three_times_at_most(home):  # noqa: F811
    home.with_channel(body="os._exit(7)")

    codes = [home.claw("gateway", "run").code for _ in range(MOST_CRASHES)]

    assert codes == [7] * MOST_CRASHES
    with Running(home) as running:
        assert home.said("safe mode")
        assert running.end()[0] == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("state.db", b"no database at all" * 99), ("state.db", b""), ("gateway.lock", b"9" * 4000)],
)
def test_it_starts_with_whatever_is_in_its_files(home, name, content):  # noqa: F811
    (home.home / name).write_bytes(content)

    with Running(home) as running:
        assert home.claw("gateway", "status").code == 0
        code, _, err = running.end()

    assert (code, "Traceback" in err) == (0, False)
    assert ("was moved to" in err) == content.startswith(b"no database")


@pytest.mark.parametrize("name", ["state.db", "gateway.lock", "logs"])
def test_a_folder_or_file_in_the_way_is_explained_or_done_without(home, name):  # noqa: F811
    (home.home / name).write_text("in the way") if name == "logs" else (home.home / name).mkdir()

    with Running(home) as running:
        code, _, err = running.end()

    assert "Traceback" not in err
    assert code == (0 if name == "logs" else 1)
    assert name == "logs" or str(home.home / name) in err


def test_crashes_count_for_ten_minutes_and_until_the_gateway_came_to_its_own_end():
    def run(state, age):
        return GatewayRun(7, "here", state, 0.0, 10_000.0 - age)

    died = [run(READY, 10), run(BROKEN, 200), run(READY, 599)]
    assert recent_crashes(tuple(died), 10_000.0) == MOST_CRASHES == 3
    assert recent_crashes((*died[:2], run(READY, 601)), 10_000.0) == 2
    assert recent_crashes((died[0], run(STOPPED, 100), *died[1:]), 10_000.0) == 1
    assert recent_crashes((), 10_000.0) == 0


def test_the_log_is_as_large_as_the_file_says_from_the_start(home):  # noqa: F811
    chatter = "import logging; [logging.getLogger('stranger_post').info('word ' * 40) for _ in range(200)]"
    home.with_channel(body=chatter)
    path = home.home / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "logging": {"maxSize": 10_000, "keep": 2}}))
    with Running(home) as running:
        until((home.home / "logs" / "claw.jsonl.2").exists)
        assert running.end()[0] == 0

    files = sorted((home.home / "logs").glob("claw.jsonl*"))
    assert [file.name for file in files] == ["claw.jsonl", "claw.jsonl.1", "claw.jsonl.2"]
    assert max(file.stat().st_size for file in files) <= 10_000


def test_the_operator_has_the_last_word_on_safe_mode(home):  # noqa: F811
    for _ in range(MOST_CRASHES):
        board = StatusRow(home.home)
        board.begin()
        board.close()

    with Running(home, "--no-safe") as running:
        assert not home.said("safe mode")
        running.end()
    with Running(home, "--safe"):
        assert home.said("safe mode")


def test_one_whose_loop_is_blocked_is_said_to_hang(home):  # noqa: F811
    board = StatusRow(home.home)
    lock = take_gateway_lock(home.home)
    board.begin()
    board._database.write("UPDATE gateway_runs SET state = 'ready', seen_at_ms = seen_at_ms - 60000")
    board.close()

    said = home.claw("gateway", "status")
    lock.close()

    assert said.code == 1 and "hangs" in said.out


def test_a_process_that_only_holds_the_lock_is_not_killed_as_a_gateway(home):  # noqa: F811
    lock = take_gateway_lock(home.home)
    said = home.claw("gateway", "stop")
    lock.close()

    assert said.code == 1 and str(os.getpid()) in said.line


def test_a_gateway_of_another_machine_is_not_looked_for_among_our_processes(home):  # noqa: F811
    with Running(home) as running:
        with closing(sqlite3.connect(home.home / "state.db", timeout=10)) as state, state:
            state.execute("UPDATE gateway_runs SET host = 'elsewhere'")
        stopped, reported = home.claw("gateway", "stop"), home.claw("gateway", "status")
        killed = home.claw("gateway", "stop", "--now")

        assert (stopped.code, killed.code) == (1, 1)
        assert "runs on elsewhere" in stopped.line and "it runs on elsewhere" in reported.out
        assert running.process.poll() is None
        assert running.end()[0] == 0


# --- one per home


def race(place: Path, processes: int) -> list[str]:
    """So many processes try to take the lock at the same moment; what each reports, the winners while they hold it."""
    over, end_it = os.pipe()
    pipes = []
    go = time.monotonic() + 0.02
    for _ in range(processes):
        reading, writing = os.pipe()
        if os.fork() == 0:
            try:
                os.close(end_it)
                time.sleep(max(0.0, go - time.monotonic()))
                try:
                    take_gateway_lock(place)
                    os.write(writing, f"won {os.getpid()}".encode())
                    os.read(over, 1)
                except BusyError as busy:
                    os.write(writing, f"lost to {busy.pid}".encode())
            finally:
                os._exit(0)
        os.close(writing)
        pipes.append(reading)
    said = [os.read(reading, 100).decode() for reading in pipes]
    for fd in (end_it, over, *pipes):
        os.close(fd)
    for _ in range(processes):
        os.wait()
    return said


@pytest.mark.timeout(1200)
def test_of_several_that_start_at_once_one_wins_and_the_others_name_it(tmp_path, full):
    for number in range(1000 if full else 8):
        said = race(tmp_path / f"home-{number}", 2 + number % 7)

        [winner] = [line.split()[1] for line in said if line.startswith("won")]
        assert {line for line in said if not line.startswith("won")} == {f"lost to {winner}"}


def test_reading_the_status_takes_no_lock(tmp_path):
    lock = take_gateway_lock(tmp_path)
    assert gateway_pid(tmp_path) == os.getpid()
    lock.close()
    assert gateway_pid(tmp_path) is None
    assert gateway_pid(tmp_path / "nowhere") is None


def test_real_gateways_that_start_at_once_are_one_in_the_end(home):  # noqa: F811
    all_of_them = [Running(home) for _ in range(3)]
    until(lambda: sum(one.process.poll() is None for one in all_of_them) == 1)
    until(lambda: is_ready(home))
    codes = sorted(str(one.process.poll()) for one in all_of_them)
    for one in all_of_them:
        one.process.kill()
        one.process.communicate()

    assert codes == ["1", "1", "None"]


# --- the log and its command


def test_what_it_writes_holds_no_secret_and_the_command_shows_it(home):  # noqa: F811
    home.with_channel(
        body="logging.getLogger('post').warning('with %s', self.config.token.reveal())", token=SECRET
    )
    with Running(home) as running:
        until(lambda: home.said("with "))
        _, _, err = running.end()

    everything = "".join(path.read_text(errors="replace") for path in (home.home / "logs").iterdir())
    assert (
        SECRET not in everything + err + home.claw("logs").out + home.claw("gateway", "status", "--json").out
    )
    reported = json.loads(home.claw("logs", "--json", "--level", "warning").out)
    assert "post" in [line["logger"] for line in reported["lines"]]
    assert home.claw("logs", "--channel", "feishu").out.startswith("no line of ")
    of_channel = home.claw("logs", "--channel", "post").out
    assert "with " in of_channel and "ready after" not in of_channel
    assert of_channel == home.claw("logs", "--channel", "post/default").out
    nothing = home.claw("logs", "--channel", "post/work")
    assert nothing.code == 0 and nothing.out.startswith("no line of ") and "matches" in nothing.out
    for word, near in (("loud", ""), ("warn", "did you mean warning?"), ("ERROR", "did you mean error?")):
        refused = home.claw("logs", "--level", word)
        assert (
            refused.code == 2
            and f"--level: {word} is not one of: debug," in refused.err
            and near in refused.err
        )


def test_following_the_log_shows_what_comes(home):  # noqa: F811
    with subprocess.Popen(
        **home.command("logs", "-f", "--json"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ) as follower:
        with Running(home) as running:
            running.end()
        assert follower.stdout is not None
        texts: list[str] = []
        while "stopped" not in texts:
            texts.append(json.loads(follower.stdout.readline())["text"])
        follower.send_signal(signal.SIGINT)
        assert follower.wait(timeout=10) == 130

    assert any(text.startswith("ready after") for text in texts)


# --- what is configured


def test_the_channels_of_the_file_are_listed_without_a_gateway(home):  # noqa: F811
    home.with_channel()
    tree = json.loads((home.home / "config.json").read_text())
    tree["channels"]["post"]["accounts"] = {"work": {"token": "x"}, "old": {"enabled": False}}
    tree["channels"]["smoke"] = {"enabled": True}
    (home.home / "config.json").write_text(json.dumps(tree))

    reported = json.loads(home.claw("channels", "list", "--json").out)["channels"]

    assert [(one["channel"], one["account"], one["plugin"], one["state"]) for one in reported] == [
        ("post", "work", "post", "loaded"), ("post", "old", "post", "disabled"), ("smoke", "default", None, "absent"),
    ]  # fmt: skip
    assert "post" in home.claw("channels", "list").out
