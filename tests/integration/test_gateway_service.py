"""The gateway as a service: the files are right, nothing is promised where there is no service manager."""

import contextlib
import os
import plistlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from claw_gateway.process.descriptors import MOST_FILES
from claw_gateway.process.service import SystemService
from integration.gateways import Home, Running, home, until  # noqa: F401

USER = Path("/home/ann")
SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$CLAW_HOME/asked"
case "$*" in
  *show-environment*) exit 0 ;;
  *MainPID*) cat "$CLAW_HOME/pid" 2>/dev/null || echo 0 ;;
  *" start "*) "$PYTHON" -m claw gateway run >/dev/null 2>&1 & echo $! > "$CLAW_HOME/pid" ;;
  *" stop "*) kill -TERM "$(cat "$CLAW_HOME/pid")" ;;
esac
"""


def service(home: str = "/home/ann/.claw", kind: str = "systemd", **environ: str) -> SystemService:  # noqa: F811
    settings = {"HOME": str(USER), "PATH": "/usr/bin:/bin", **environ}
    return SystemService(Path(home), settings, kind, "/opt/claw/bin/python")


def test_the_unit_runs_this_home_with_this_python_and_does_not_retry_what_a_person_must_fix():
    unit = service().text.splitlines()

    assert "ExecStart=/opt/claw/bin/python -m claw gateway run" in unit
    assert "Environment=CLAW_HOME=/home/ann/.claw" in unit
    assert "EnvironmentFile=-/home/ann/.claw/gateway.env" in unit
    assert "Restart=on-failure" in unit
    assert "RestartPreventExitStatus=2 3 4" in unit
    assert {"Type=notify", "WatchdogSec=60", f"LimitNOFILE={MOST_FILES}"} <= set(unit)
    assert service().path == USER / ".config/systemd/user/claw-gateway.service"


def test_nothing_in_a_path_is_read_as_a_specifier_or_a_variable_of_systemd():
    unit = service("/srv/100%h of $HOME", PATH="/opt/%u/bin:/bin").text.splitlines()

    assert 'Environment="CLAW_HOME=/srv/100%%h of $HOME"' in unit
    assert "EnvironmentFile=-/srv/100%%h of $HOME/gateway.env" in unit
    assert "WorkingDirectory=/srv/100%%h of $HOME" in unit
    assert "Environment=PATH=/opt/%%u/bin:/bin" in unit


def test_another_home_is_another_service():
    assert service("/srv/claw").name != service().name
    assert service("/srv/claw").name != service("/srv/claw2").name


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze (package systemd) reads unit files"
)
@pytest.mark.parametrize("home", ["/home/ann/.claw", '/srv/50% of "my" $HOME/cla w'])
def test_systemd_reads_the_unit_without_a_complaint(tmp_path, home):  # noqa: F811
    there = SystemService(
        Path(home),
        {"HOME": str(tmp_path), "PATH": "/usr/bin:/my tools"},
        "systemd",
        shutil.which("true") or "",
    )
    path = tmp_path / f"{there.name}.service"
    path.write_text(there.text)

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--generators=no", path], capture_output=True, text=True
    )

    assert [line for line in done.stderr.splitlines() if path.name in line] == []


def test_the_agent_of_launchd_is_a_property_list_that_says_the_same():
    there = service(kind="launchd")
    settings = plistlib.loads(there.text.encode())

    assert settings["ProgramArguments"] == ["/opt/claw/bin/python", "-m", "claw", "gateway", "run"]
    assert settings["EnvironmentVariables"]["CLAW_HOME"] == "/home/ann/.claw"
    assert settings["KeepAlive"] == {"SuccessfulExit": False}
    assert settings["SoftResourceLimits"] == {"NumberOfFiles": MOST_FILES}
    assert there.path == USER / "Library/LaunchAgents/claw.gateway.plist"
    assert there.commands == (f"launchctl bootstrap gui/{os.getuid()} {there.path}",)


def test_where_there_is_no_service_manager_it_says_so_and_what_works(home):  # noqa: F811
    said = home.claw("gateway", "install", PATH=str(home.workspace))

    assert said.code == 1
    assert "claw gateway start" in said.line and "claw gateway run" in said.line
    assert home.claw("gateway", "install", "--print", PATH=str(home.workspace)).out.startswith("# Written by")


@pytest.fixture
def managed(home: Home) -> Home:  # noqa: F811
    """A machine whose ``systemctl`` does what the real one would."""
    tools = home.root / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text(SYSTEMCTL)
    (tools / "systemctl").chmod(0o755)
    home.environ = {"PATH": f"{tools}:{os.defpath}", "PYTHON": sys.executable}
    return home


def test_it_is_installed_once_and_reports_how_to_switch_it_on(managed):
    first, second = managed.claw("gateway", "install"), managed.claw("gateway", "install")

    [path] = (managed.root / ".config/systemd/user").iterdir()
    assert (first.code, second.code) == (0, 0)
    assert first.out.startswith(f"written: {path}") and second.out.startswith("up to date")
    assert f"systemctl --user enable --now {path.stem}" in first.out
    assert path.read_text() == managed.claw("gateway", "install", "--print").out


def test_once_installed_start_and_stop_go_through_the_service_manager(managed):
    managed.claw("gateway", "install")

    started = managed.claw("gateway", "start")
    stopped = managed.claw("gateway", "stop")

    asked = (managed.home / "asked").read_text()
    assert (started.code, stopped.code) == (0, 0), started.err + stopped.err
    assert "--user start claw-gateway" in asked and "--user stop claw-gateway" in asked


class ServiceManager:
    """The socket of sd_notify(3): the messages of a service so far."""

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._socket.setblocking(False)
        self.messages: list[str] = []

    def received(self) -> list[str]:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.messages += self._socket.recv(4096).decode().splitlines()
        return self.messages


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ServiceManager]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as opened:
        opened.bind(str(tmp_path / "notify"))
        yield ServiceManager(opened)


def test_it_reports_to_systemd_that_it_is_ready_that_it_lives_and_that_it_stops(tmp_path, manager, home):  # noqa: F811
    home.with_channel()
    with Running(home, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000") as running:
        until(lambda: manager.received().count("WATCHDOG=1") > 3)
        running.end()

    assert manager.messages.count("READY=1") == 1
    assert manager.received()[-1] == "STOPPING=1"


def test_it_does_not_report_that_it_lives_while_its_event_loop_hangs(tmp_path, manager, home):  # noqa: F811
    hangs = "while not (self.folder / 'hang').exists(): await asyncio.sleep(0.02)\n        time.sleep(60)"
    home.with_channel(body=hangs)
    with Running(home, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000"):
        until(lambda: "WATCHDOG=1" in manager.received())
        (home.root / "post" / "hang").touch()
        time.sleep(1.0)
        before = len(manager.received())
        time.sleep(1.0)
        assert len(manager.received()) == before


def test_a_watchdog_of_another_process_is_not_served(tmp_path, manager, home):  # noqa: F811
    home.with_channel()
    with Running(home, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000", WATCHDOG_PID="1"):
        until(lambda: "READY=1" in manager.received())
        time.sleep(0.5)

    assert "WATCHDOG=1" not in manager.received()
