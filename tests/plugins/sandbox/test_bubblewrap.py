"""Commands in the bubblewrap sandbox: what they can write, see and reach, and what ends with them."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import claw_sandbox
import pytest
from claw.testing import contributed, plugin_config
from claw_sandbox.bubblewrap import Bubblewrap
from pytest_claw import SandboxSuite

PATH = "/usr/local/bin:/usr/bin:/bin"


@pytest.fixture(autouse=True)
def needs_bwrap() -> None:
    if shutil.which("bwrap") is None:
        if os.environ.get("CI"):
            pytest.fail("install bubblewrap: .ci/run does")
        pytest.skip("install bubblewrap to run this: apt install bubblewrap")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the sandbox shows: /tmp is empty in it."""
    folder = Path("/var/lib") / f"claw-sandbox-test-{os.getpid()}"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


class TestBubblewrap(SandboxSuite):
    def make(self, folder: Path) -> Bubblewrap:
        [sandbox] = contributed(claw_sandbox, plugin_config({}, home=folder / "claw"))["register_sandboxes"]
        return sandbox


def ran(sandbox: Bubblewrap, workspace: Path, script: str, **more: str) -> "subprocess.CompletedProcess[str]":
    workspace.mkdir(exist_ok=True)
    line = sandbox.wrap(["/bin/sh", "-c", script], workspace=workspace, environment={"PATH": PATH, **more})
    return subprocess.run(line, check=False, cwd=workspace, capture_output=True, text=True, timeout=30)


async def test_it_works_here(tmp_path: Path) -> None:
    assert await Bubblewrap(tmp_path, {"PATH": PATH}).probe() == ""


async def test_without_bwrap_the_package_to_install_is_named(tmp_path: Path) -> None:
    assert "apt install bubblewrap" in await Bubblewrap(tmp_path, {"PATH": str(tmp_path)}).probe()


async def test_a_system_that_refuses_namespaces_gets_the_lines_that_allow_them(tmp_path: Path) -> None:
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    sandbox = Bubblewrap(tmp_path, {"PATH": f"{tmp_path}:{PATH}"})
    assert "apparmor_restrict_unprivileged_userns=0" in await sandbox.probe()


def test_the_home_of_claw_is_empty_apart_from_the_workspace(tmp_path: Path) -> None:
    home = tmp_path / "claw"
    home.mkdir()
    (home / "config.yaml").write_text("secret")
    workspace = home / "workspace-default"
    done = ran(Bubblewrap(home, {}), workspace, f"echo mine > note && ls {home} && cat {home}/config.yaml")
    assert done.stdout == "workspace-default\n"
    assert "No such file" in done.stderr
    assert (workspace / "note").read_text() == "mine\n"


@pytest.mark.parametrize("what", ["/tmp", "/run", "/root", "/home"])
def test_folders_with_files_and_sockets_of_others_are_empty(what: str, place: Path) -> None:
    assert ran(Bubblewrap(place / "claw", {}), place / "work", f"ls -A {what}").stdout == ""


def test_nothing_outside_of_the_workspace_is_changed(place: Path) -> None:
    (place / "other").write_text("as it was")
    done = ran(
        Bubblewrap(place / "claw", {}),
        place / "work",
        f"echo x > {place}/other; rm -f {place}/other; touch /etc/x",
    )
    assert done.returncode != 0
    assert (place / "other").read_text() == "as it was"
    assert not Path("/etc/x").exists()


def test_a_link_in_the_workspace_leads_to_nothing_that_is_hidden(place: Path) -> None:
    (place / "claw").mkdir()
    (place / "claw" / "state.db").write_text("secret")
    done = ran(
        Bubblewrap(place / "claw", {}),
        place / "work",
        f"ln -s {place}/claw/state.db link; cat link; echo x > link",
    )
    assert "secret" not in done.stdout
    assert (place / "claw" / "state.db").read_text() == "secret"


REACH = "import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('reached')"


@pytest.mark.parametrize("network", [False, True])
def test_the_network_is_closed_unless_it_is_asked_for(network: bool, place: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        code = REACH.format(port=server.getsockname()[1])
        done = ran(
            Bubblewrap(place / "claw", {}, network=network), place / "work", f'/usr/bin/python3 -c "{code}"'
        )
    assert ("reached" in done.stdout) is network, done.stderr


def test_what_left_the_call_by_a_double_fork_ends_with_it(place: Path) -> None:
    script = "(setsid sh -c 'sleep 2; touch late' &) ; echo started"
    assert ran(Bubblewrap(place / "claw", {}), place / "work", script).stdout == "started\n"
    time.sleep(3)
    assert not (place / "work" / "late").exists()


def test_it_sees_only_its_own_processes(place: Path) -> None:
    done = ran(Bubblewrap(place / "claw", {}), place / "work", "ls -d /proc/[0-9]* | wc -l")
    assert int(done.stdout) < 10


def test_programs_of_the_path_run_although_they_are_below_a_home(place: Path) -> None:
    home = place / "home"
    (home / "tools" / "bin").mkdir(parents=True)
    (home / "tools" / "bin" / "hello").write_text("#!/bin/sh\necho hello\n")
    (home / "tools" / "bin" / "hello").chmod(0o755)
    (home / "tools" / "key").write_text("secret")
    (place / "work").mkdir()
    path = f"{home}/tools/bin:{PATH}"
    line = Bubblewrap(place / "claw", {"HOME": str(home), "PATH": path}).wrap(
        ["sh", "-c", f"hello; cat {home}/tools/key"], workspace=place / "work", environment={"PATH": path}
    )
    done = subprocess.run(line, check=False, capture_output=True, text=True, env={"PATH": path}, timeout=30)
    assert done.stdout == "hello\n"
    assert "No such file" in done.stderr


def test_a_command_cannot_choose_another_bwrap(place: Path) -> None:
    sandbox = Bubblewrap(place / "claw", {"PATH": PATH})
    line = sandbox.wrap(["true"], workspace=place, environment={"PATH": str(place)})
    assert line[0] == shutil.which("bwrap", path=PATH)


def test_the_python_that_runs_claw_runs_in_it(place: Path) -> None:
    (place / "work").mkdir()
    done = subprocess.run(
        Bubblewrap(place / "claw", dict(os.environ)).wrap(
            [sys.executable, "-c", "print(6 * 7)"], workspace=place / "work", environment=os.environ
        ),
        check=False, capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert done.stdout == "42\n", done.stderr
