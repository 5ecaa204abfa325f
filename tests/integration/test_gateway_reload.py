"""A config file that changes under a running gateway: the whole new one or the old one, and a way back from a bad one."""

import json
import os
import signal
import subprocess
import threading
from itertools import count
from pathlib import Path

import pytest
from claw.app import Setup, load_setup
from claw.contracts.diagnostics import BLOCKED
from claw_gateway.process.reload import (
    LAST_GOOD,
    ConfigWatch,
    last_good_hint,
    old_config_note,
    reread_config,
    save_last_good,
)
from claw_gateway.process.safe_mode import safe_mode
from integration.gateways import Home, Running, home, until  # noqa: F401
from third_party import installed, plugin_code


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "place"
    made.mkdir()
    return made


def standing_in(place: Path, text: str = "locale: en\n") -> tuple[Setup, dict[str, str]]:
    (place / "config.yaml").write_text(text)
    environ = {"CLAW_HOME": str(place), "HOME": str(place)}
    return load_setup(environ, ()), environ


# --- when it counts as changed


def test_a_file_counts_as_changed_once_it_is_left_alone(place):
    standing_in(place)
    watch = ConfigWatch(place)
    assert not watch.changed()

    (place / "config.yaml").write_text("locale: zh\nowners: [")
    assert not watch.changed()
    (place / "config.yaml").write_text("locale: zh\nowners: []\n")
    assert not watch.changed()
    assert watch.changed()
    assert not watch.changed()


def test_a_file_that_is_put_in_its_place_by_renaming_counts_too(place):
    standing_in(place)
    watch = ConfigWatch(place)
    (place / "new").write_text("locale: zh\n")
    os.utime(place / "new", ns=((place / "config.yaml").stat().st_mtime_ns,) * 2)
    (place / "new").rename(place / "config.yaml")

    assert [watch.changed() for _ in range(3)] == [False, True, False]


def test_a_file_that_is_only_given_back_to_us_counts_too(place):
    standing_in(place)
    watch = ConfigWatch(place)
    (place / "config.yaml").chmod(0)
    assert [watch.changed() for _ in range(3)] == [False, True, False]
    (place / "config.yaml").chmod(0o600)  # what was written by another user, and then made readable

    assert [watch.changed() for _ in range(3)] == [False, True, False]


# --- what is made of it


def test_a_right_file_becomes_a_gateway_and_comes_with_its_bytes(place):
    running, environ = standing_in(place)
    (place / "config.yaml").write_text("messages: {silentToken: HUSH}\n")

    verdict = reread_config(environ, running)

    assert verdict.setup is not None
    assert verdict.setup.config.settings.messages.silent_token == "HUSH"
    assert verdict.text == b"messages: {silentToken: HUSH}\n"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("locale: en\nchannels:\n  telegram:\n    dmPolicy: everyone\n", "channels.telegram.dmPolicy"),
        ("locale: [", "config.yaml:2"),
        ("", "config.yaml"),
        ("a: 1\nb: 2\n", "(and 1 more)"),
        ("a: 1\nb: 2\n", "claw config validate shows them all"),
        ("plugins: {entries: {ghost: {required: true}}}", "ghost"),
    ],
)
def test_a_wrong_file_makes_no_gateway_and_one_line(place, text, key):
    running, environ = standing_in(place)
    (place / "config.yaml").write_text(text)

    verdict = reread_config(environ, running)

    assert verdict.setup is None
    assert key in verdict.problem and "\n" not in verdict.problem


@pytest.mark.parametrize(("make", "said"), [(os.mkdir, "is a folder"), (os.mkfifo, "not a regular file")])
def test_what_is_no_file_is_refused_in_words_and_waits_for_nobody(place, make, said):
    running, environ = standing_in(place)
    (place / "config.yaml").unlink()
    make(place / "config.yaml")

    assert said in reread_config(environ, running).problem


def test_a_file_that_changes_while_it_is_read_is_one_or_the_other_and_never_half(place):
    running, environ = standing_in(place)
    done = threading.Event()

    def write():
        for number in count():
            (place / "new").write_text(f"messages: {{silentToken: HUSH{number % 2}}}\n# {number}\n")
            (place / "new").rename(place / "config.yaml")
            if done.wait(0.001):
                return

    writing = threading.Thread(target=write)
    writing.start()
    try:
        verdicts = [reread_config(environ, running) for _ in range(40)]
    finally:
        done.set()
        writing.join()
    verdicts.append(reread_config(environ, running))

    for verdict in verdicts:
        if verdict.setup is None:
            assert "changed while it was being read" in verdict.problem
        else:
            assert verdict.setup.config.settings.messages.silent_token.encode() in verdict.text
    assert verdicts[-1].setup is not None


def test_a_file_that_is_gone_is_no_reason_to_open_everything(place):
    running, environ = standing_in(place)
    (place / "config.yaml").unlink()

    assert "gone" in reread_config(environ, running).problem


def test_a_gateway_that_started_without_a_file_takes_the_first_one(place):
    environ = {"CLAW_HOME": str(place), "HOME": str(place)}
    running = load_setup(environ, ())
    assert reread_config(environ, running).setup is not None

    (place / "config.yaml").write_text("messages: {silentToken: HUSH}\n")
    assert reread_config(environ, running).text


def test_what_is_said_names_the_moment_of_the_configuration_that_goes_on(place):
    reported = old_config_note("config.yaml:12: x is wrong.", 0.0)

    assert reported.startswith(
        "config.yaml:12: x is wrong; the gateway continues with the configuration of 19"
    )


def test_in_safe_mode_the_plugins_of_others_are_blocked_also_the_required_ones(place, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(installed(tmp_path / "site", "odd", plugin_code("odd_one")))
    (place / "config.yaml").write_text("plugins: {entries: {odd: {required: true}}}\n")
    environ = {"CLAW_HOME": str(place), "HOME": str(place)}
    setup = safe_mode(load_setup(environ))

    [odd] = [one for one in setup.plugin_states if one.id == "odd"]
    assert (odd.state, odd.required, odd.eager) == (BLOCKED, False, False)
    assert [one.state for one in setup.plugin_states if one.id == "tools-std"] != [BLOCKED]


# --- the way back


def test_the_last_good_copy_is_for_this_user_only_and_the_way_back_names_it(place):
    standing_in(place, "locale: en\n")
    assert last_good_hint(place) == ""
    save_last_good(place, b"locale: en\n")
    assert last_good_hint(place) == ""  # it is the file at hand

    (place / "config.yaml").write_text("locale: [")

    assert (place / LAST_GOOD).stat().st_mode & 0o777 == 0o600
    command = last_good_hint(place).rpartition("to restore it: ")[2]
    subprocess.run(command, shell=True, check=True)
    assert (place / "config.yaml").read_text() == "locale: en\n"


# --- a real one


def test_a_start_with_a_wrong_file_is_refused_and_shows_the_way_back(home):  # noqa: F811
    with Running(home) as running:
        running.end()
    home.configured("messages: {silentToken: HUSH}\n")
    with Running(home) as running:
        running.end()
    home.configured("messages: {silentTokens: HUSH}\n")

    said = home.claw("gateway", "run")

    assert said.code == 3
    first, second = said.err.splitlines()
    assert "messages.silentTokens" in first and str(home.home / LAST_GOOD) in second
    subprocess.run(second.rpartition("to restore it: ")[2], shell=True, check=True)
    with Running(home) as running:
        assert running.end()[0] == 0


def test_a_running_one_keeps_what_it_has_while_the_file_is_wrong(home):  # noqa: F811
    home.with_channel()
    with Running(home) as running:
        right = (home.home / "config.json").read_bytes()
        home.write(dmPolicy="everyone")
        until(lambda: "channels.post.dmPolicy" in problem_of(home))
        assert home.said("channels.post.dmPolicy")
        assert "the gateway continues with the configuration of" in home.claw("gateway", "status").out
        assert (home.home / LAST_GOOD).read_bytes() == right
        home.says("what time is it?")
        until(home.answers)

        (home.home / "config.json").write_bytes(right)
        until(lambda: not problem_of(home))
        assert running.end()[0] == 0


def test_a_running_one_takes_up_a_right_file_and_reads_it_again_on_request(home):  # noqa: F811
    home.with_channel()
    with Running(home) as running:
        home.write(dmPolicy="disabled")
        until(lambda: home.said("the new configuration is active"))
        until(lambda: b"disabled" in (home.home / LAST_GOOD).read_bytes())

        running.process.send_signal(signal.SIGHUP)
        until(lambda: sum("configuration is active" in line["text"] for line in home.log()) == 2)
        assert running.end()[0] == 0


def test_a_file_that_a_plugin_refuses_is_not_the_last_good_one(home):  # noqa: F811
    home.with_channel()
    with Running(home) as running:
        right = (home.home / "config.json").read_bytes()
        home.write(nonsense=True)
        until(lambda: "nonsense" in problem_of(home))
        home.write(token=12)
        until(lambda: "token: must be text, ${NAME}, {env: NAME} or" in problem_of(home))
        assert (home.home / LAST_GOOD).read_bytes() == right
        home.says("what time is it?")
        until(home.answers)
        assert running.end()[0] == 0


def test_in_safe_mode_a_new_file_lets_no_plugin_of_others_in(home):  # noqa: F811
    def reported():
        return json.loads(home.claw("gateway", "status", "--json").out)

    home.with_channel()
    with Running(home, "--safe") as running:
        before = reported()["config"]["since"]
        home.write(dmPolicy="disabled")
        until(lambda: reported()["config"]["since"] != before)
        assert reported()["safe"] is True
        [channel] = reported()["channels"]
        assert channel["state"] == "failed" and "safe mode" in channel["detail"]
        assert running.end()[0] == 0


def test_what_the_log_is_to_record_and_keep_is_taken_up_too(home):  # noqa: F811
    home.with_channel(
        body="import logging; log = logging.getLogger('stranger_post.line'); log.info('it listens')"
    )
    with Running(home) as running:
        until(lambda: home.said("it listens"))
        path = home.home / "config.json"
        path.write_text(
            json.dumps({**json.loads(path.read_text()), "logging": {"level": "error", "maxSize": 10_000}})
        )
        last_good = home.home / LAST_GOOD
        until(lambda: last_good.exists() and b"maxSize" in last_good.read_bytes())
        before = len(home.log())
        path.write_text("{")
        until(lambda: problem_of(home))
        running.process.send_signal(signal.SIGHUP)
        assert running.end()[0] == 0
    later = home.log()[before:]
    assert {line["level"] for line in later} == {"error"}, (
        "no stopping, no stopped: information is not heard any more"
    )


def problem_of(home: Home) -> str:  # noqa: F811
    reported = json.loads(home.claw("gateway", "status", "--json").out)
    return str((reported["config"] or {}).get("problem", ""))
